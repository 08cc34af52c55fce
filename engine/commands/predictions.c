#include "engine/data/question_set.h"
#include "engine/commands/predictions.h"

#include "base/log.h"
#include "base/spill.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/name_set.h"
#include "engine/metrics/decision.h"
#include "engine/train/job/run_plan.h"

#include <stdlib.h>
#include <string.h>

// ---- names --------------------------------------------------------------------------------------------------------

// The names that several classes have.
static ft_status find_twins(const ft_classifier *c, ft_name_set *twins) {
    ft_name_set seen = {0};
    ft_status status = FT_OK;
    for (int k = 0; k < c->labels.count && status == FT_OK; k++) {
        const char *name = c->label_names[k];
        if (ft_name_set_find(&seen, name) == NULL) status = ft_name_set_add(&seen, name);
        else if (ft_name_set_find(twins, name) == NULL) status = ft_name_set_add(twins, name);
    }
    ft_name_set_free(&seen);
    return status;
}

static ft_status write_names(const ft_classifier *c, const ft_name_set *twins, ft_predictions *p) {
    p->names = ft_arena_alloc(&p->arena, (size_t)p->classes * sizeof *p->names);
    if (p->names == NULL) return FT_NO_MEMORY;
    bool warned = false;
    for (int k = 0; k < p->classes; k++) {
        const bool twin = ft_name_set_find(twins, c->label_names[k]) != NULL;
        p->names[k] = twin ? ft_arena_format(&p->arena, "%s (id %d)", c->label_names[k], k)
                           : ft_arena_strdup(&p->arena, c->label_names[k]);
        if (p->names[k] == NULL) return FT_NO_MEMORY;
        if (twin && !warned) ft_warn("several classes are called \"%s\": their ids stand behind their names (%s)", c->label_names[k], c->path);
        warned = warned || twin;
    }
    return FT_OK;
}

static ft_status name_classes(const ft_classifier *c, ft_predictions *p) {
    ft_name_set twins = {0};
    ft_status status = find_twins(c, &twins);
    if (status == FT_OK) status = write_names(c, &twins, p);
    ft_name_set_free(&twins);
    return status;
}

static bool in_a_name(const ft_predictions *p, const char *separator) {
    for (int k = 0; k < p->classes; k++)
        if (strstr(p->names[k], separator) != NULL) return true;
    return false;
}

// That of the training file, or one that no name has in it.
static ft_status choose_separator(const ft_classifier *c, ft_predictions *p) {
    static const char *const others[] = {"|", ";", " | ", " ; ", "||"};
    p->separator = ft_arena_strdup(&p->arena, c->settings.label_separator);
    if (p->separator == NULL) return FT_NO_MEMORY;
    if (p->task->labels != FT_LABELS_CLASSES || !in_a_name(p, p->separator)) return FT_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (in_a_name(p, others[i])) continue;
        ft_warn("labels have \"%s\" in their names: several in one cell are separated by \"%s\"", p->separator, others[i]);
        p->separator = others[i];
        return FT_OK;
    }
    return FT_OK;
}

ft_status ft_predictions_begin(const ft_classifier *first, ft_predictions *p) {
    *p = (ft_predictions){.classes = first->labels.count, .task = first->task, .rules = ft_answer_rules_of(&first->options, false)};
    p->pictures = ft_model_config_reads_pictures(&first->config);
    p->threshold_room = ft_arena_alloc(&p->arena, (size_t)p->classes * sizeof *p->threshold_room);
    if (p->threshold_room == NULL) return FT_NO_MEMORY;
    FT_TRY(name_classes(first, p));
    if (ft_task_has_tokens(p->task)) FT_TRY(ft_tag_set_open(first->label_names, p->classes, &p->tags));
    FT_TRY(ft_answer_keys(p->names, p->classes, &p->arena, &p->keys));
    return choose_separator(first, p);
}

static ft_status make_room(ft_predictions *p, int64_t rows) {
    const size_t values = (size_t)rows * (size_t)p->classes;
    p->rows = rows;
    if (rows > p->capacity) {
        ft_spill_free(p->probability);
        ft_spill_free(p->logits);
        p->capacity = 0;
        p->probability = p->logits = NULL;
        p->probability = ft_spill_calloc(values, sizeof *p->probability, "probabilities");
        p->logits = ft_spill_calloc(values, sizeof *p->logits, "logits");
        if (p->probability == NULL || p->logits == NULL) return FT_NO_MEMORY;
        p->capacity = rows;
    }
    if (values == 0) return FT_OK; // of words nothing is known yet
    memset(p->probability, 0, values * sizeof *p->probability);
    memset(p->logits, 0, values * sizeof *p->logits);
    return FT_OK;
}

static void forget_words(ft_predictions *p) {
    ft_spill_free(p->first_row);
    ft_spill_free(p->word);
    p->first_row = NULL;
    p->word = NULL;
    ft_dataset_free(&p->questions);
}

// How many words its texts have the first model says.
ft_status ft_predictions_table(ft_predictions *p, int64_t rows) {
    p->first += p->examples;
    p->examples = rows;
    p->models = 0;
    p->threshold = NULL;
    forget_words(p);
    return make_room(p, ft_task_reads_rows(p->task) ? 0 : rows);
}

void ft_predictions_free(ft_predictions *p) {
    ft_spill_free(p->probability);
    ft_spill_free(p->logits);
    forget_words(p);
    ft_tag_set_close(&p->tags);
    ft_arena_free(&p->arena);
    *p = (ft_predictions){0};
}

// ---- models -------------------------------------------------------------------------------------------------------

static ft_status match_names(const ft_classifier *c, const char *path, const ft_predictions *p, const ft_name_set *twins, const ft_label_index *first,
                             int *class_of) {
    for (int k = 0; k < p->classes; k++) {
        const char *name = c->label_names[k];
        if (ft_name_set_find(twins, name) != NULL) continue; // names are not enough
        class_of[k] = ft_label_index_find(first, name);
        if (class_of[k] >= 0 && strcmp(p->names[class_of[k]], name) == 0) continue;
        ft_fail(FT_INVALID, path, "this model's label \"%s\" is none of the first model's: there is no mean of their probabilities", name);
        ft_hint("the first model has \"%s\", \"%s\"%s", p->names[0], p->names[p->classes > 1 ? 1 : 0],
                p->classes > 2 ? ", ..." : "");
        return FT_INVALID;
    }
    return FT_OK;
}

// class_of[k]: which class of the first model is called as this one's class k. Models may number the same labels differently.
static ft_status match_labels(const ft_classifier *c, const char *path, const ft_predictions *p, int *class_of) {
    if (c->task != p->task) return ft_fail(FT_INVALID, path, "this model is for another task than the first one");
    if (c->labels.count != p->classes)
        return ft_fail(FT_INVALID, path, "this model has %d labels, the first one %d: there is no mean of their probabilities",
                       c->labels.count, p->classes);
    for (int k = 0; k < p->classes; k++) class_of[k] = k;
    if (p->models == 0) return FT_OK;
    const ft_labels labels = {.count = p->classes, .names = p->names};
    ft_label_index first = {0};
    ft_name_set twins = {0};
    ft_status status = find_twins(c, &twins);
    if (status == FT_OK) status = ft_label_index_make(&labels, &first);
    if (status == FT_OK) status = match_names(c, path, p, &twins, &first, class_of);
    ft_label_index_free(&first);
    ft_name_set_free(&twins);
    return status;
}

// Adds a model's thresholds to those of the models before it; models without count as 1/2.
static void add_thresholds(const ft_classifier *c, const int *class_of, int models, ft_predictions *p) {
    const int count = ft_threshold_count(&p->task->scoring, p->classes);
    if (p->threshold == NULL && c->threshold == NULL) return;
    if (p->threshold == NULL) {
        p->threshold = p->threshold_room;
        for (int k = 0; k < count; k++) p->threshold[k] = 0.5;
    }
    for (int k = 0; k < count; k++) {
        bool turned = count == 1 && class_of[1] == 0; // its second class is the first one of the others
        double own = c->threshold == NULL ? 0.5 : turned ? 1 - c->threshold[k] : c->threshold[k];
        double *mean = &p->threshold[count == 1 ? 0 : class_of[k]];
        *mean += (own - *mean) / models;
    }
}

// Adds what the model says about every example: logits [examples * classes] in its own order of classes.
static void add_up(const ft_classifier *c, const float *logits, const int *class_of, double *probability, ft_predictions *p) {
    for (int64_t i = 0; i < p->rows; i++) {
        if (ft_task_has_classes(p->task)) p->task->scoring.probabilities(logits + i * p->classes, p->classes, probability);
        for (int k = 0; k < p->classes; k++) {
            p->probability[i * p->classes + class_of[k]] += probability[k];
            p->logits[i * p->classes + class_of[k]] += logits[i * p->classes + k];
        }
    }
    p->models++;
}

// The windows of the first model are those of all.
static ft_status take_questions(ft_predictions *p, const char *path, ft_dataset *set) {
    const ft_dataset *known = &p->questions;
    if (p->models == 0) {
        FT_TRY(make_room(p, ft_dataset_rows(set)));
        p->questions = *set;
        *set = (ft_dataset){.examples = 0};
        return FT_OK;
    }
    if (ft_dataset_rows(set) == p->rows && set->sequences == known->sequences &&
        memcmp(set->first_read, known->first_read, (size_t)(set->sequences + 1) * sizeof *set->first_read) == 0 &&
        memcmp(set->questions->begin, known->questions->begin, (size_t)p->rows * sizeof *set->questions->begin) == 0)
        return FT_OK;
    ft_fail(FT_INVALID, path, "this model reads contexts in other tokens or windows than the first one: there is no mean of what they say");
    ft_hint("the same data.max_length and data.truncation, and models of one tokenizer");
    return FT_INVALID;
}

// The words that are read, which the first model says, are those of all.
static ft_status take_words(ft_predictions *p, const char *path, ft_dataset *set) {
    if (!ft_task_has_tokens(p->task)) return FT_OK;
    if (p->models > 0) {
        const int64_t rows = p->rows;
        if (ft_dataset_rows(set) == rows && memcmp(set->first_row, p->first_row, (size_t)(p->examples + 1) * sizeof *p->first_row) == 0 &&
            (rows == 0 || memcmp(set->read_word, p->word, (size_t)rows * sizeof *p->word) == 0))
            return FT_OK;
        ft_fail(FT_INVALID, path, "this model reads other words than the first one: there is no mean of what they say");
        ft_hint("a longer data.max_length, or data.truncation=windows, cuts none");
        return FT_INVALID;
    }
    FT_TRY(make_room(p, ft_dataset_rows(set)));
    forget_words(p);
    p->first_row = ft_spill_calloc((size_t)p->examples + 1, sizeof *p->first_row, "words");
    p->word = ft_spill_calloc((size_t)p->rows + 1, sizeof *p->word, "words");
    if (p->first_row == NULL || p->word == NULL) return FT_NO_MEMORY;
    memcpy(p->first_row, set->first_row, ((size_t)p->examples + 1) * sizeof *p->first_row);
    if (p->rows > 0) memcpy(p->word, set->read_word, (size_t)p->rows * sizeof *p->word);
    return FT_OK;
}

size_t ft_predictions_host_bytes(int64_t rows, int classes) {
    return (size_t)rows * (size_t)classes * (2 * sizeof(double) + sizeof(float));
}

// ---- a piece after the other

enum { MOST_ROWS = 1 << 15, ANSWERS = 8 << 20 }; // rows, and bytes that what is said about them takes

int64_t ft_predictions_piece(int classes) {
    const int64_t rows = ANSWERS / ((int64_t)classes * (int64_t)(2 * sizeof(double) + sizeof(float)));
    return rows < 1 ? 1 : rows < MOST_ROWS ? rows : MOST_ROWS;
}

// What a piece takes at most: its text, read, handed over and cut into rows; its tokens, a byte each and growing; what is said about it.
static size_t piece_bytes(const ft_classifier *c, int64_t rows, size_t size) {
    enum { ROW = 48, TOKEN = 6, SPECIALS = 3 };
    const int classes = c->labels.count;
    const size_t text = size > 0 && size < FT_LARGEST_PIECE ? size : FT_LARGEST_PIECE, lines = (size_t)rows < text / 2 + 1 ? (size_t)rows : text / 2 + 1;
    return 3 * text + lines * ROW + (text + SPECIALS * lines) * TOKEN + ft_predictions_host_bytes((int64_t)lines, classes) +
           (size_t)c->limits.max_sequences * (size_t)classes * sizeof(float);
}

ft_status ft_predictions_load(ft_classifier *c, int64_t rows, size_t size) {
    const ft_classifier_work work = {.computes = true, .input = size, .host = piece_bytes(c, rows, size), .files = ANSWERS};
    return ft_classifier_load(c, &work);
}

// ---- all at once

// The weights, of a model that has all texts before it. Large arrays are in files (base/spill.h).
static ft_status prepare(const ft_predictions *p, ft_classifier *c, const ft_dataset *set, bool only_judge) {
    const int64_t rows = ft_dataset_rows(set);
    const size_t values = (size_t)rows * (size_t)p->classes, sums = rows > p->capacity ? values * sizeof(double) : 0, logits = values * sizeof(float);
    const size_t sums_mapped = sums > FT_SPILL_FROM ? 2 * sums : 0, logits_mapped = logits > FT_SPILL_FROM ? logits : 0;
    const ft_classifier_work work = {.data = set,
                                     .computes = true,
                                     .only_judge = only_judge,
                                     .host = 2 * sums - sums_mapped + logits - logits_mapped +
                                             ft_predict_host_bytes(set, p->classes, ft_eval_capacity(set, c->limits)),
                                     .mapped = sums_mapped + logits_mapped,
                                     .files = values * sizeof(double)};
    return ft_classifier_load(c, &work);
}

ft_status ft_predictions_foresee(ft_predictions *p, ft_classifier *c, const char *path, const ft_table *table, const char *data) {
    ft_dataset set = {0};
    int *class_of = ft_calloc((size_t)p->classes, sizeof *class_of, "labels");
    ft_status status = class_of != NULL ? match_labels(c, path, p, class_of) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_classifier_build(c, table, data, NULL, &set);
    if (status == FT_OK) status = prepare(p, c, &set, true);
    free(class_of);
    ft_dataset_free(&set);
    return status;
}

ft_status ft_predictions_add(ft_predictions *p, ft_classifier *c, const char *path, const ft_table *table, const char *data,
                             ft_predict_progress progress, void *context) {
    ft_dataset set = {0};
    float *logits = NULL;
    double *probability = NULL;
    int *class_of = ft_calloc((size_t)p->classes, sizeof *class_of, "labels");
    ft_status status = class_of != NULL ? match_labels(c, path, p, class_of) : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    add_thresholds(c, class_of, p->models + 1, p);
    FT_TRY_GOTO(ft_classifier_build(c, table, data, NULL, &set), done);
    FT_TRY_GOTO(take_words(p, path, &set), done);
    FT_TRY_GOTO(prepare(p, c, &set, false), done);
    if (ft_task_has_spans(p->task)) FT_TRY_GOTO(take_questions(p, path, &set), done);
    logits = ft_spill_calloc((size_t)p->rows * (size_t)p->classes + 1, sizeof *logits, "logits");
    probability = ft_calloc((size_t)p->classes, sizeof *probability, "probabilities");
    status = logits && probability ? FT_OK : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    ft_logits those = ft_logits_in(logits, p->rows, p->classes);
    FT_TRY_GOTO(ft_classifier_predict(c, p->questions.questions != NULL && p->models == 0 ? &p->questions : &set, &those, NULL, progress, context), done);
    add_up(c, logits, class_of, probability, p);
done:
    ft_spill_free(logits);
    free(probability);
    free(class_of);
    ft_dataset_free(&set);
    return status;
}

// ---- writing ------------------------------------------------------------------------------------------------------

static bool in_logits(const ft_predictions *p, const ft_prediction_form *form) {
    return form->logits || !ft_task_has_classes(p->task);
}

ft_status ft_predictions_write_header(const ft_predictions *p, const ft_table *table, const ft_prediction_form *form, FILE *out) {
    if (form->nbest != NULL) fputs("{", form->nbest);
    if (form->format == FT_FORMAT_JSONL) return FT_OK;
    ft_cell_writer w = {.out = out, .format = form->format};
    ft_arena arena = {0};
    ft_status status = FT_OK;
    if (form->format == FT_FORMAT_SQUAD) return fputs("{", out) >= 0 ? FT_OK : ft_fail(FT_FAILED, NULL, "cannot write");
    const bool tokens = ft_task_reads_rows(p->task);
    if (table->id != NULL || tokens) ft_write_text(&w, form->id != NULL && form->id[0] ? form->id : "id");
    for (const char *const *head = ft_task_has_spans(p->task) ? ft_span_answer_heads : ft_token_answer_heads; tokens && *head != NULL; head++) ft_write_text(&w, *head);
    if (tokens) {
        ft_end_row(&w);
        return FT_OK;
    }
    for (const char *const *head = p->task->decided_heads; *head != NULL; head++) ft_write_text(&w, *head);
    for (int k = 0; k < p->classes && status == FT_OK; k++) {
        const char *prefix = !ft_task_has_classes(p->task) ? "" : form->logits ? "logit:" : "p:";
        const char *head = ft_arena_format(&arena, "%s%s", prefix, p->names[k]);
        if (head != NULL) ft_write_text(&w, head);
        else status = FT_NO_MEMORY;
    }
    ft_write_text(&w, "text");
    if (table->pair != NULL) ft_write_text(&w, "pair");
    ft_end_row(&w);
    ft_arena_free(&arena);
    return status;
}

static ft_answer answer_of(const ft_predictions *p, int64_t i) {
    return (ft_answer){.outputs = p->classes,
                       .names = p->names,
                       .keys = p->keys,
                       .separator = p->separator,
                       .threshold = p->threshold,
                       .probability = p->probability + i * p->classes,
                       .value = p->logits + i * p->classes};
}

void ft_predictions_decide(const ft_predictions *p, int64_t i, signed char *decided) {
    const double *probability = p->probability + i * p->classes;
    memset(decided, 0, (size_t)p->classes);
    if (!ft_task_has_classes(p->task)) return;
    if (!p->task->scoring.independent) decided[ft_decide_class(probability, p->classes, p->threshold)] = 1;
    for (int k = 0; p->task->scoring.independent && k < p->classes; k++) decided[k] = ft_decide_label(probability, k, p->threshold);
}

// What is said of the words of a text, in `write`.
static ft_status with_words(const ft_predictions *p, const ft_table *table, int64_t i,
                            ft_status (*write)(const ft_token_answer *answer, void *context), void *context) {
    ft_word_list words = {.word = NULL};
    const int64_t row = p->first_row[i];
    const ft_token_answer answer = {.set = &p->tags,
                                    .names = p->names,
                                    .rows = p->first_row[i + 1] - row,
                                    .word = p->word + row,
                                    .probability = p->probability + row * p->classes,
                                    .text = table->text[i],
                                    .length = table->text_length[i],
                                    .words = &words};
    ft_status status = ft_words_find(answer.text, answer.length, &words);
    if (status == FT_OK) status = write(&answer, context);
    free(words.word);
    return status;
}

typedef struct entity_rows {
    const char *id;
    ft_cell_writer writer;
} entity_rows;

static ft_status put_rows(const ft_token_answer *answer, void *context) {
    entity_rows *rows = context;
    return ft_token_answer_write(answer, rows->id, &rows->writer);
}

// A row an entity: none where there is none.
static ft_status write_entities(const ft_predictions *p, const ft_table *table, const ft_prediction_form *form, int64_t i, FILE *out) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)(p->first + i));
    entity_rows rows = {.id = table->id != NULL ? table->id[i] : number, .writer = {.out = out, .format = form->format}};
    return with_words(p, table, i, put_rows, &rows);
}

static ft_status put_members(const ft_token_answer *answer, void *context) {
    bool failed = false;
    const ft_status status = ft_token_answer_put(answer, context, &failed);
    return status == FT_OK && failed ? ft_fail_memory(0, "a line of predictions") : status;
}

// ---- of questions

// The mean logits of all rows of a question, in the row's place of `logits`.
static ft_status find_answers(const ft_predictions *p, int64_t i, float **rows, ft_found_answers *found) {
    const int64_t first = p->questions.first_row[i], count = p->questions.first_row[i + 1] - first;
    float *grown = ft_realloc(*rows, (size_t)(count * p->classes) + 1, sizeof *grown, "logits of a question");
    if (grown == NULL) return FT_NO_MEMORY;
    *rows = grown;
    for (int64_t k = 0; k < count * p->classes; k++) grown[k] = (float)p->logits[first * p->classes + k];
    ft_answer_rules rules = p->rules;
    rules.none = p->threshold != NULL;
    return ft_answers_find(&p->questions, i, grown, &rules, found);
}

// One of an object's members: "id": value, which is given back.
static ft_status write_member(const char *id, json_t *value, bool first, FILE *out) {
    json_t *line = json_pack("{s:o}", id, value);
    char *member = line != NULL ? ft_json_line(line) : NULL; // {"id":value}
    json_decref(line);
    if (member == NULL) return ft_fail_memory(0, "predictions");
    fprintf(out, "%s\n%.*s", first ? "" : ",", (int)strlen(member) - 2, member + 1);
    free(member);
    return FT_OK;
}

static json_t *text_said(const ft_span_answer *answer) {
    const ft_found_answer *said = ft_span_answer_said(answer);
    return said != NULL ? json_stringn(answer->passage + said->begin, (size_t)(said->end - said->begin)) : json_string("");
}

static ft_status write_nbest(const ft_span_answer *answer, const char *id, bool first, FILE *out) {
    bool failed = false;
    json_t *list = ft_span_answer_nbest(answer, &failed);
    if (!failed) return write_member(id, list, first, out);
    json_decref(list);
    return ft_fail_memory(0, "predictions");
}

static ft_status write_answer(ft_predictions *p, const ft_table *table, const ft_prediction_form *form, int64_t i, const ft_found_answers *found,
                              FILE *out) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)(p->first + i));
    const char *id = table->id != NULL ? table->id[i] : number;
    const ft_span_answer answer = {.found = found, .passage = table->pair[i], .threshold = p->threshold};
    const bool begins = !p->written;
    p->written = true;
    if (form->nbest != NULL) FT_TRY(write_nbest(&answer, id, begins, form->nbest));
    if (form->format == FT_FORMAT_SQUAD) return write_member(id, text_said(&answer), begins, out);
    if (form->format != FT_FORMAT_JSONL) {
        ft_cell_writer writer = {.out = out, .format = form->format};
        ft_span_answer_write(&answer, id, &writer);
        return FT_OK;
    }
    bool failed = false;
    json_t *line = json_pack("{s:i, s:o}", "format_version", 1, "id", table->id != NULL ? json_string(id) : json_integer((json_int_t)(p->first + i)));
    ft_span_answer_put(&answer, line, &failed);
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions");
    fprintf(out, "%s\n", text);
    free(text);
    return FT_OK;
}

static ft_status write_answers(ft_predictions *p, const ft_table *table, const ft_prediction_form *form, FILE *out) {
    ft_found_answers found = {.found = NULL};
    float *rows = NULL;
    ft_status status = FT_OK;
    for (int64_t i = 0; status == FT_OK && i < p->examples; i++) {
        status = find_answers(p, i, &rows, &found);
        if (status == FT_OK) status = write_answer(p, table, form, i, &found, out);
    }
    free(rows);
    ft_found_answers_free(&found);
    return status;
}

void ft_predictions_write_end(const ft_prediction_form *form, FILE *out) {
    if (form->format == FT_FORMAT_SQUAD) fputs("\n}\n", out);
    if (form->nbest != NULL) fputs("\n}\n", form->nbest);
}

static ft_status write_row(const ft_predictions *p, const ft_table *table, const ft_prediction_form *form, int64_t i, FILE *out) {
    ft_cell_writer w = {.out = out, .format = form->format};
    const ft_answer answer = answer_of(p, i);
    if (table->id != NULL) ft_write_text(&w, table->id[i]);
    if (p->task->write_decided != NULL) FT_TRY(p->task->write_decided(&answer, &w));
    const bool logits = in_logits(p, form);
    for (int k = 0; k < p->classes; k++) ft_write_number(&w, logits ? answer.value[k] : answer.probability[k], logits ? 6 : 4);
    ft_write_cell(&w, table->text[i], table->text_length[i]);
    if (table->pair != NULL) ft_write_cell(&w, table->pair[i], table->pair_length[i]);
    ft_end_row(&w);
    return FT_OK;
}

static ft_status write_line(const ft_predictions *p, const ft_table *table, const ft_prediction_form *form, int64_t i, FILE *out) {
    bool failed = false;
    json_t *line = json_object();
    ft_json_put(line, "format_version", json_integer(1), &failed);
    json_t *id = table->id == NULL ? json_integer((json_int_t)(p->first + i)) : json_string(table->id[i]);
    if (id == NULL && table->id != NULL) id = json_null(); // an id that is no UTF-8
    ft_json_put(line, "id", id, &failed);
    if (p->pictures) ft_json_put(line, "file_name", ft_json_text(table->text[i]), &failed);
    if (!failed && ft_task_has_tokens(p->task)) {
        ft_status status = with_words(p, table, i, put_members, line);
        char *text = status == FT_OK ? ft_json_line(line) : NULL;
        json_decref(line);
        if (text != NULL) fprintf(out, "%s\n", text);
        free(text);
        return status == FT_OK && text == NULL ? FT_NO_MEMORY : status;
    }
    const ft_answer answer = answer_of(p, i);
    if (!failed) return ft_task_write_line(p->task, &answer, NULL, form->logits, line, out);
    json_decref(line);
    return ft_fail_memory(0, "a line of predictions");
}

ft_status ft_predictions_write(ft_predictions *p, const ft_table *table, const ft_prediction_form *form, FILE *out) {
    for (int64_t i = 0; i < p->rows * p->classes; i++) {
        p->probability[i] /= p->models;
        p->logits[i] /= p->models;
    }
    if (ft_task_has_spans(p->task)) return write_answers(p, table, form, out);
    for (int64_t i = 0; i < p->examples; i++)
        FT_TRY((form->format == FT_FORMAT_JSONL ? write_line : ft_task_has_tokens(p->task) ? write_entities : write_row)(p, table, form, i, out));
    return FT_OK;
}
