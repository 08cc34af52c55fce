// page_predictions.c - what the predictions of a run say: figures a class, confusion, the mistakes it was surest of.
#include "engine/report/page.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/report/html.h"
#include "engine/report/page_pictures.h"
#include "engine/report/page_texts.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_CLASSES = 1000, // whose confusion is counted
    MATRIX = 40,         // classes shown as a matrix; of more the pairs confused most often
    PAIRS = 25,
    MISTAKES = 12
};

typedef struct mistake {
    json_int_t id;
    int label, predicted;
    double probability;
    const char *picture; // its name; NULL: a text
} mistake;

typedef struct tally {
    const char *split;
    ft_arena arena;
    const char *name[MOST_CLASSES];
    int classes;
    int64_t *count; // [MOST_CLASSES * MOST_CLASSES]: label, prediction
    int64_t support[MOST_CLASSES], predicted[MOST_CLASSES], hit[MOST_CLASSES];
    int64_t examples, right;
    bool too_many, several;  // several: any number of labels an example
    bool words;              // a tag for every word: those are the examples
    mistake worst[MISTAKES]; // surest first
    int worst_count;
} tally;

static int class_named(tally *t, const char *name) {
    for (int k = 0; k < t->classes; k++)
        if (strcmp(t->name[k], name) == 0) return k;
    t->too_many |= t->classes == MOST_CLASSES;
    if (t->too_many) return -1;
    t->name[t->classes] = ft_arena_strdup(&t->arena, name);
    return t->name[t->classes] != NULL ? t->classes++ : -1;
}

static void keep_mistake(tally *t, mistake m) {
    int at = t->worst_count < MISTAKES ? t->worst_count++ : MISTAKES;
    for (; at > 0 && t->worst[at - 1].probability < m.probability; at--)
        if (at < MISTAKES) t->worst[at] = t->worst[at - 1];
    if (at < MISTAKES) t->worst[at] = m;
}

static bool is_kept(const tally *t, double probability) {
    return t->worst_count < MISTAKES || t->worst[MISTAKES - 1].probability < probability;
}

static ft_status take_mistake(tally *t, const json_t *line, int label, int predicted, double probability) {
    const char *name = json_string_value(json_object_get(line, "file_name"));
    if (!is_kept(t, probability)) return FT_OK;
    if (name != NULL && (name = ft_arena_strdup(&t->arena, name)) == NULL) return FT_NO_MEMORY;
    keep_mistake(t, (mistake){json_integer_value(json_object_get(line, "id")), label, predicted, probability, name});
    return FT_OK;
}

static ft_status take_single(tally *t, const json_t *line, const char *label, const char *predicted) {
    const json_t *probabilities = json_object_get(line, "probabilities");
    int row = class_named(t, label), column = class_named(t, predicted);
    if (row < 0 || column < 0) return t->too_many ? FT_OK : FT_NO_MEMORY;
    t->count[(int64_t)row * MOST_CLASSES + column]++;
    t->support[row]++;
    t->predicted[column]++;
    t->hit[row] += row == column;
    t->right += row == column;
    return row != column ? take_mistake(t, line, row, column, json_number_value(json_object_get(probabilities, predicted))) : FT_OK;
}

static bool lists(const json_t *list, const char *name) {
    size_t i;
    const json_t *entry;
    json_array_foreach(list, i, entry) {
        if (json_is_string(entry) && strcmp(json_string_value(entry), name) == 0) return true;
    }
    return false;
}

static ft_status count_names(tally *t, const json_t *list, int64_t *into) {
    size_t i;
    const json_t *entry;
    json_array_foreach(list, i, entry) {
        int k = json_is_string(entry) ? class_named(t, json_string_value(entry)) : -1;
        if (k < 0) return t->too_many || !json_is_string(entry) ? FT_OK : FT_NO_MEMORY;
        into[k]++;
    }
    return FT_OK;
}

static ft_status take_several(tally *t, const json_t *labels, const json_t *predicted) {
    size_t common = 0;
    t->several = true;
    FT_TRY(count_names(t, labels, t->support));
    FT_TRY(count_names(t, predicted, t->predicted));
    for (int k = 0; k < t->classes; k++) {
        bool both = lists(labels, t->name[k]) && lists(predicted, t->name[k]);
        t->hit[k] += both;
        common += both;
    }
    t->right += common == json_array_size(labels) && common == json_array_size(predicted);
    return FT_OK;
}

// A tag for every word, in the order of the text.
static ft_status take_words(tally *t, const json_t *labels, const json_t *predicted) {
    t->words = true;
    t->examples += (int64_t)json_array_size(labels) - 1;
    for (size_t i = 0; i < json_array_size(labels); i++) {
        const char *label = json_string_value(json_array_get(labels, i)), *said = json_string_value(json_array_get(predicted, i));
        if (label == NULL || said == NULL) continue;
        const int row = class_named(t, label), column = class_named(t, said);
        if (row < 0 || column < 0) return t->too_many ? FT_OK : FT_NO_MEMORY;
        t->count[(int64_t)row * MOST_CLASSES + column]++;
        t->support[row]++;
        t->predicted[column]++;
        t->hit[row] += row == column;
        t->right += row == column;
    }
    return FT_OK;
}

// Lines with numbers for labels are page_values.c's.
static ft_status take_line(void *context, const json_t *line) {
    tally *t = context;
    const char *split = json_string_value(json_object_get(line, "split")), *key;
    const json_t *label = json_object_get(line, "label"), *labels = json_object_get(line, "labels");
    const json_t *predicted = json_object_get(line, "predicted");
    json_t *value;
    bool one = json_is_string(label) && json_is_string(predicted), any = json_is_array(labels) && json_is_array(predicted);
    if (split == NULL || strcmp(split, t->split) != 0 || (!one && !any)) return FT_OK;
    // The order of the classes is that of the model.
    if (t->examples++ == 0) json_object_foreach(json_object_get(line, "probabilities"), key, value) class_named(t, key);
    if (any && json_is_array(json_object_get(line, "scores"))) return take_words(t, labels, predicted);
    return one ? take_single(t, line, json_string_value(label), json_string_value(predicted))
               : take_several(t, labels, predicted);
}

static int64_t counted(const tally *t, int row, int column) { return t->count[(int64_t)row * MOST_CLASSES + column]; }

// The whole name is the tooltip of a cell that may have room for its beginning only.
static void name_cell(FILE *out, const char *start, const char *name) {
    fputs(start, out);
    fputs(" title=\"", out);
    ft_html_text(out, name);
    fputs("\">", out);
    ft_html_name(out, name);
}

static void write_classes(const tally *t, FILE *out) {
    fputs("<section class=\"card\"><h3>Classes</h3><div class=\"scroll\"><table class=\"wide\"><tr><th>class<th "
          "class=\"n\">precision"
          "<th class=\"n\">recall<th class=\"n\">F1<th class=\"n\">examples</tr>\n",
          out);
    for (int k = 0; k < t->classes; k++) {
        int64_t support = t->support[k], predicted = t->predicted[k], hit = t->hit[k];
        name_cell(out, "<tr><td class=\"name\"", t->name[k]);
        fprintf(out, "<td class=\"n\">%.4f<td class=\"n\">%.4f<td class=\"n\">%.4f<td class=\"n\">%lld</tr>\n",
                predicted > 0 ? (double)hit / (double)predicted : 0, support > 0 ? (double)hit / (double)support : 0,
                support + predicted > 0 ? 2 * (double)hit / (double)(support + predicted) : 0, (long long)support);
    }
    fputs("</table></div></section>\n", out);
}

// A cell is as dark as its share of its row: the label's examples.
static void write_matrix(const tally *t, FILE *out) {
    fputs("<section class=\"card\"><h3>Confusion</h3><p class=\"soft\">Rows are labels, columns predictions.</p><div "
          "class=\"scroll\">"
          "<table class=\"confusion\"><tr><th></th>",
          out);
    for (int k = 0; k < t->classes; k++)
        name_cell(out, "<th class=\"n\"", t->name[k]);
    fputs("</tr>\n", out);
    for (int row = 0; row < t->classes; row++) {
        int64_t support = t->support[row];
        name_cell(out, "<tr><th", t->name[row]);
        for (int column = 0; column < t->classes; column++) {
            int64_t n = counted(t, row, column);
            fprintf(out, "<td%s style=\"--s:%.3f\">%lld</td>", row == column ? " class=\"right\"" : "",
                    support > 0 ? (double)n / (double)support : 0, (long long)n);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div></section>\n", out);
}

// The pairs that were confused most often, by repeated search: there are few.
static void write_pairs(tally *t, FILE *out) {
    fputs("<section class=\"card\"><h3>Confused most often</h3><div class=\"scroll\"><table "
          "class=\"wide\"><tr><th>label<th>predicted as"
          "<th class=\"n\">examples</tr>\n",
          out);
    for (int n = 0; n < PAIRS; n++) {
        int64_t most = 0, at = 0;
        for (int row = 0; row < t->classes; row++)
            for (int column = 0; column < t->classes; column++)
                if (row != column && counted(t, row, column) > most)
                    most = counted(t, row, column), at = (int64_t)row * MOST_CLASSES + column;
        if (most == 0) break;
        t->count[at] = -most; // seen
        name_cell(out, "<tr><td class=\"name\"", t->name[at / MOST_CLASSES]);
        name_cell(out, "<td class=\"name\"", t->name[at % MOST_CLASSES]);
        fprintf(out, "<td class=\"n\">%lld</tr>\n", (long long)most);
    }
    fputs("</table></div></section>\n", out);
}

// What the mistakes are about: texts or pictures.
typedef struct shown {
    ft_page_text text[MISTAKES];
    ft_page_picture picture[MISTAKES];
    const char *head; // of their column; NULL: there is none
    const char *why;  // why some are missing, for people; NULL: none is
} shown;

static ft_status find_shown(const ft_run_record *run, const ft_page_options *options, tally *t, shown *s) {
    const bool pictures = t->worst[0].picture != NULL;
    for (int i = 0; i < t->worst_count; i++) {
        s->text[i].id = s->picture[i].id = t->worst[i].id;
        s->picture[i].name = t->worst[i].picture != NULL ? t->worst[i].picture : "";
    }
    if (!options->texts) return FT_OK;
    if (pictures) {
        s->head = "picture";
        return ft_page_find_pictures(run, t->split, t->worst_count, s->picture, &s->why);
    }
    FT_TRY(ft_page_find_texts(run, t->split, t->worst_count, s->text, &t->arena, &s->why));
    for (int i = 0; i < t->worst_count; i++)
        if (s->text[i].text != NULL) s->head = "text";
    return FT_OK;
}

static void write_mistake(const tally *t, const shown *s, int i, FILE *out) {
    const mistake *m = &t->worst[i];
    fprintf(out, "<tr><td class=\"n\">%lld", (long long)m->id);
    name_cell(out, "<td class=\"name\"", t->name[m->label]);
    name_cell(out, "<td class=\"name\"", t->name[m->predicted]);
    fprintf(out, "<td class=\"n\">%.4f", m->probability);
    if (s->head != NULL) {
        fputs("<td class=\"long\">", out);
        if (m->picture != NULL) ft_page_picture_write(out, &s->picture[i]);
        else ft_html_name(out, s->text[i].text != NULL ? s->text[i].text : "");
    }
    fputs("</tr>\n", out);
}

static ft_status write_mistakes(const ft_run_record *run, const ft_page_options *options, tally *t, FILE *out) {
    if (t->worst_count == 0) return FT_OK;
    shown s = {.head = NULL};
    const ft_status status = find_shown(run, options, t, &s);
    if (status == FT_OK) {
        fprintf(out,
                "<section class=\"card below\"><h3>Surest mistakes</h3><p class=\"soft\">The model's, or the label's. Examples are numbered "
                "from 0, in the order of the file.%s%s</p><div class=\"scroll\"><table class=\"wide texts\"><tr><th class=\"n\">example<th>label"
                "<th>predicted as<th class=\"n\">probability%s%s</tr>\n",
                s.why != NULL ? " " : "", s.why != NULL ? s.why : "", s.head != NULL ? "<th>" : "", s.head != NULL ? s.head : "");
        for (int i = 0; i < t->worst_count; i++) write_mistake(t, &s, i, out);
        fputs("</table></div></section>\n", out);
    }
    ft_page_free_pictures(t->worst_count, s.picture);
    return status;
}

static ft_status write_split(const ft_run_record *run, const ft_page_options *options, const char *path, const char *split, tally *t,
                             FILE *out) {
    t->split = split;
    FT_TRY(ft_json_lines_read(path, take_line, t));
    if (t->examples == 0) return FT_OK;
    fprintf(out, "<h2>Predictions: %s</h2>\n", split);
    if (t->too_many) {
        fprintf(out, "<p class=\"soft\">More than %d classes: see predictions.jsonl.</p>\n", MOST_CLASSES);
        return FT_OK;
    }
    fprintf(out, "<p class=\"soft\">%lld of %lld%s right%s. All of them: %spredictions.jsonl%s</p>\n<div class=\"two below\">\n",
            (long long)t->right, (long long)t->examples, t->words ? " words" : "", t->several ? ", with all their labels" : "",
            options->beside ? "<a href=\"predictions.jsonl\">" : "", options->beside ? "</a>" : "");
    write_classes(t, out);
    if (!t->several && t->classes <= MATRIX)
        write_matrix(t, out);
    else if (!t->several)
        write_pairs(t, out);
    fputs("</div>\n", out);
    if (t->words) return FT_OK; // what mistakes cost is a matter of entities
    FT_TRY(write_mistakes(run, options, t, out));
    return ft_page_probabilities(run, split, out);
}

ft_status ft_page_predictions(const ft_run_record *run, const ft_page_options *options, FILE *out) {
    static const char *const splits[] = {"validation", "test"};
    ft_arena arena = {0};
    ft_status status = FT_OK;
    char *path = ft_path_join(&arena, run->path, "predictions.jsonl");
    if (path == NULL) status = FT_NO_MEMORY;
    for (int s = 0; s < 2 && status == FT_OK; s++) {
        tally *t = ft_calloc(1, sizeof *t, "the predictions of a run");
        if (t != NULL) t->count = ft_calloc((size_t)MOST_CLASSES * MOST_CLASSES, sizeof *t->count, "the confusion of a run");
        status = t != NULL && t->count != NULL ? write_split(run, options, path, splits[s], t, out) : FT_NO_MEMORY;
        if (t != NULL) {
            free(t->count);
            ft_arena_free(&t->arena);
        }
        free(t);
    }
    ft_arena_free(&arena);
    return status;
}
