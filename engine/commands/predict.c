// predict.c - labels and probabilities for unlabelled text; several models give the mean of their probabilities.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/metrics/decision.h"
#include "engine/train/repeat/repeat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct request {
    const char *data, *format, *output, *id;
    bool logits, json;
    const ft_section *const *sections;
} request;

// What all models together say about the texts.
typedef struct predictions {
    int64_t examples;
    int classes;
    int models;             // that were added
    const ft_task_spec *task;
    char **names;           // [classes]
    const char *separator;  // of several labels in one cell
    double *threshold;      // the mean of the models'; NULL: none has one
    double *probability;    // [examples * classes] sum over models, then mean
    double *logits;         // the same of the logits
} predictions;

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static ft_status read_texts(const ft_classifier *c, const request *r, ft_table *table) {
    ft_format format;
    FT_TRY(ft_parse_format(r->format != NULL ? r->format : "auto", true, &format));
    ft_table_request wanted = ft_classifier_request(c, format, FT_LABEL_IGNORED);
    wanted.id = r->id;
    wanted.plain = r->id == NULL; // who asks for a column has a table
    return ft_table_read(r->data, &wanted, table);
}

static ft_status begin(const ft_classifier *c, int64_t examples, ft_arena *arena, predictions *p) {
    p->examples = examples;
    p->classes = c->labels.count;
    p->task = c->task;
    size_t values = (size_t)examples * (size_t)p->classes;
    p->probability = ft_calloc(values, sizeof *p->probability, "probabilities");
    p->logits = ft_calloc(values, sizeof *p->logits, "logits");
    p->names = ft_arena_alloc(arena, (size_t)p->classes * sizeof *p->names);
    p->separator = ft_arena_strdup(arena, c->settings.label_separator);
    if (p->probability == NULL || p->logits == NULL || p->names == NULL || p->separator == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < p->classes; k++) {
        p->names[k] = ft_arena_strdup(arena, c->label_names[k]);
        if (p->names[k] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

// class_of[k]: which class of the first model is called as this one's class k. Models may number the same labels differently.
static ft_status match_labels(const ft_classifier *c, const char *path, const predictions *p, int *class_of) {
    if (c->task != p->task) return ft_fail(FT_INVALID, path, "this model is for another task than the first one");
    if (c->labels.count != p->classes)
        return ft_fail(FT_INVALID, path, "this model has %d labels, the first one %d: there is no mean of their probabilities",
                       c->labels.count, p->classes);
    for (int k = 0; k < p->classes; k++) {
        class_of[k] = 0;
        while (class_of[k] < p->classes && strcmp(c->label_names[k], p->names[class_of[k]]) != 0) class_of[k]++;
        if (class_of[k] < p->classes) continue;
        ft_fail(FT_INVALID, path,
                "this model's label \"%s\" is none of the first model's: there is no mean of their probabilities",
                c->label_names[k]);
        ft_hint("the first model has \"%s\", \"%s\"%s", p->names[0], p->names[p->classes > 1 ? 1 : 0],
                p->classes > 2 ? ", ..." : "");
        return FT_INVALID;
    }
    return FT_OK;
}

// Adds a model's thresholds to those of the models before it; models without count as 1/2.
static ft_status add_thresholds(const ft_classifier *c, const int *class_of, int models, ft_arena *arena, predictions *p) {
    const int count = ft_threshold_count(&p->task->scoring, p->classes);
    if (p->threshold == NULL && c->threshold == NULL) return FT_OK;
    if (p->threshold == NULL) {
        p->threshold = ft_arena_alloc(arena, (size_t)count * sizeof *p->threshold);
        if (p->threshold == NULL) return FT_NO_MEMORY;
        for (int k = 0; k < count; k++) p->threshold[k] = 0.5;
    }
    for (int k = 0; k < count; k++) {
        bool turned = count == 1 && class_of[1] == 0; // its second class is the first one of the others
        double own = c->threshold == NULL ? 0.5 : turned ? 1 - c->threshold[k] : c->threshold[k];
        double *mean = &p->threshold[count == 1 ? 0 : class_of[k]];
        *mean += (own - *mean) / models;
    }
    return FT_OK;
}

static ft_status add_model(ft_classifier *c, const char *path, const ft_table *table, const char *data, ft_arena *arena,
                           predictions *p) {
    ft_dataset set = {0};
    float *logits = NULL;
    double *probability = NULL;
    int *class_of = ft_calloc((size_t)p->classes, sizeof *class_of, "labels");
    ft_status status = class_of != NULL ? match_labels(c, path, p, class_of) : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(add_thresholds(c, class_of, ++p->models, arena, p), done);
    FT_TRY_GOTO(ft_classifier_build(c, table, data, NULL, &set), done);
    logits = ft_calloc((size_t)set.examples * (size_t)p->classes, sizeof *logits, "logits");
    probability = ft_calloc((size_t)p->classes, sizeof *probability, "probabilities");
    status = logits && probability ? FT_OK : FT_NO_MEMORY;
    if (status != FT_OK) goto done;
    FT_TRY_GOTO(ft_classifier_predict(c, &set, logits, NULL), done);
    for (int64_t i = 0; i < set.examples; i++) {
        if (ft_task_has_classes(p->task)) p->task->scoring.probabilities(logits + i * p->classes, p->classes, probability);
        for (int k = 0; k < p->classes; k++) {
            p->probability[i * p->classes + class_of[k]] += probability[k];
            p->logits[i * p->classes + class_of[k]] += logits[i * p->classes + k];
        }
    }
done:
    free(logits);
    free(probability);
    free(class_of);
    ft_dataset_free(&set);
    return status;
}

static ft_answer answer_of(const predictions *p, int64_t i) {
    return (ft_answer){.outputs = p->classes,
                       .names = (const char *const *)p->names,
                       .separator = p->separator,
                       .threshold = p->threshold,
                       .probability = p->probability + i * p->classes,
                       .value = p->logits + i * p->classes};
}

static void print_header(const predictions *p, const ft_table *table, const request *r, FILE *out) {
    if (table->id != NULL) fprintf(out, "%s\t", r->id != NULL && r->id[0] ? r->id : "id");
    fputs(p->task->decided_heads, out);
    for (int k = 0; k < p->classes; k++) {
        if (ft_task_has_classes(p->task)) fputs(r->logits ? "logit:" : "p:", out);
        ft_print_cell(out, p->names[k], strlen(p->names[k]));
        fputc('\t', out);
    }
    fputs(table->pair != NULL ? "text\tpair\n" : "text\n", out);
}

static void write_tsv(const predictions *p, const ft_table *table, const request *r, FILE *out) {
    print_header(p, table, r, out);
    bool logits = r->logits || !ft_task_has_classes(p->task);
    for (int64_t i = 0; i < p->examples; i++) {
        if (table->id != NULL) {
            ft_print_cell(out, table->id[i], strlen(table->id[i]));
            fputc('\t', out);
        }
        const ft_answer answer = answer_of(p, i);
        if (p->task->print_decided != NULL) p->task->print_decided(&answer, out);
        const double *values = logits ? answer.value : answer.probability;
        for (int k = 0; k < p->classes; k++) fprintf(out, logits ? "%.6f\t" : "%.4f\t", values[k]);
        ft_print_cell(out, table->text[i], table->text_length[i]);
        if (table->pair != NULL) {
            fputc('\t', out);
            ft_print_cell(out, table->pair[i], table->pair_length[i]);
        }
        fputc('\n', out);
    }
}

static ft_status write_jsonl(const predictions *p, const ft_table *table, const request *r, FILE *out) {
    for (int64_t i = 0; i < p->examples; i++) {
        bool failed = false;
        json_t *line = json_object();
        ft_json_put(line, "format_version", json_integer(1), &failed);
        json_t *id = table->id == NULL ? json_integer((json_int_t)i) : json_string(table->id[i]);
        if (id == NULL && table->id != NULL) id = json_null(); // an id that is no UTF-8
        ft_json_put(line, "id", id, &failed);
        const ft_answer answer = answer_of(p, i);
        ft_task_put_answer(p->task, &answer, NULL, line, &failed);
        const bool logits = r->logits && ft_task_has_classes(p->task);
        if (logits) ft_json_put(line, "logits", ft_answer_by_name(&answer, answer.value, &failed), &failed);
        char *text = failed ? NULL : ft_json_line(line);
        json_decref(line);
        if (text == NULL) return ft_fail_memory(0, "a line of predictions");
        fprintf(out, "%s\n", text);
        free(text);
    }
    return FT_OK;
}

static ft_status write_out(const predictions *p, const ft_table *table, const request *r) {
    bool jsonl = r->json || (r->output != NULL && ends_with(r->output, ".jsonl"));
    ft_atomic_file file = {.stream = stdout};
    if (r->output != NULL) FT_TRY(ft_atomic_open(&file, r->output));
    ft_status status = FT_OK;
    if (jsonl) status = write_jsonl(p, table, r, file.stream);
    else write_tsv(p, table, r, file.stream);
    if (status == FT_OK && (fflush(file.stream) != 0 || ferror(file.stream)))
        status =
            ft_fail_errno(FT_FAILED, errno, r->output != NULL ? r->output : "standard output", "cannot write the predictions");
    if (r->output == NULL) return status;
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

// Opens one model, reads the texts with it if it is the first, and adds what it says.
static ft_status run_model(const char *path, const ft_words *words, const request *r, ft_arena *arena, ft_table *table,
                           predictions *p) {
    ft_classifier c;
    ft_status status = ft_classifier_open(r->sections, path, words->override_count, words->overrides, &c);
    bool first = p->probability == NULL;
    if (status == FT_OK && first) {
        status = read_texts(&c, r, table);
        if (status == FT_OK) status = begin(&c, table->rows, arena, p);
    } else if (status == FT_OK &&
               (table->pair != NULL) != (ft_classifier_request(&c, FT_FORMAT_AUTO, FT_LABEL_IGNORED).pair[0] != '\0')) {
        status = ft_fail(FT_INVALID, path, "this model was trained on %s, the first one on %s",
                         table->pair != NULL ? "single texts" : "pairs of texts", table->pair != NULL ? "pairs" : "single texts");
    }
    if (status == FT_OK) status = add_model(&c, path, table, r->data, arena, p);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_classifier_close(&c);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// A directory with a run for every fold or seed stands for all their models.
static ft_status list_models(const ft_words *words, ft_arena *arena, const char ***models, int *count) {
    *models = NULL;
    *count = 0;
    for (int i = 0; i < words->plain_count; i++) {
        const char **members;
        int inside;
        FT_TRY(ft_repeat_members(words->plain[i], arena, &members, &inside));
        const char **grown = ft_arena_alloc(arena, (size_t)(*count + inside + 1) * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (*count > 0) memcpy(grown, *models, (size_t)*count * sizeof *grown);
        *models = grown;
        if (inside == 0) grown[(*count)++] = words->plain[i];
        for (int k = 0; k < inside; k++) grown[(*count)++] = members[k];
    }
    return FT_OK;
}

ft_status ft_command_predict(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    request r = {.sections = sections};
    const char *precision = NULL;
    const ft_flag flags[] = {{"--data", &r.data, NULL},   {"--format", &r.format, NULL}, {"--output", &r.output, NULL},
                             {"--logits", NULL, &r.logits}, {"--id", &r.id, NULL},         {"--json", NULL, &r.json},
                             {"--precision", &precision, NULL}};
    ft_table table = {0};
    predictions p = {0};
    ft_status status = ft_parse_words("predict", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "train.precision", precision);
    if (status == FT_OK && (words.plain_count < 1 || r.data == NULL)) {
        status = ft_fail(FT_INVALID, "predict", words.plain_count < 1 ? "give a run or model directory" : "--data is missing");
        ft_hint("ftengine predict RUN|MODEL_DIR... --data FILE|- [--format tsv|csv|jsonl|text]");
    }
    const char **models = NULL;
    int count = 0;
    if (status == FT_OK) status = list_models(&words, &arena, &models, &count);
    for (int i = 0; status == FT_OK && i < count; i++) status = run_model(models[i], &words, &r, &arena, &table, &p);
    for (int64_t i = 0; status == FT_OK && i < p.examples * p.classes; i++) {
        p.probability[i] /= count;
        p.logits[i] /= count;
    }
    if (status == FT_OK) status = write_out(&p, &table, &r);
    free(p.probability);
    free(p.logits);
    ft_table_free(&table);
    ft_arena_free(&arena);
    return status;
}
