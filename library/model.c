// model.c - a model that stays in memory: texts in, probabilities out.
#include "library/model.h"

#include "base/heap.h"
#include "base/json/json.h"
#include "engine/data/tables/blocks.h"
#include "engine/metrics/decision.h"
#include "hpo/space/options_study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- in and out -----------------------------------------------------------------------------------------------------------------

static ft_status keep_words(ftengine_model *m, const char *path, const char *base, int count, const char *const *words) {
    if (path == NULL) return ft_fail(FT_INVALID, "ftengine_load", "no model is named");
    FT_TRY(ft_library_check_words(count, words));
    m->overrides = ft_arena_alloc(&m->arena, (size_t)count * sizeof *m->overrides + 1);
    if (m->overrides == NULL) return FT_NO_MEMORY;
    for (; m->override_count < count; m->override_count++)
        if ((m->overrides[m->override_count] = ft_arena_strdup(&m->arena, words[m->override_count])) == NULL) return FT_NO_MEMORY;
    m->path = ft_arena_strdup(&m->arena, path);
    m->base = base != NULL ? ft_arena_strdup(&m->arena, base) : NULL;
    return m->path != NULL && (base == NULL || m->base != NULL) ? FT_OK : FT_NO_MEMORY;
}

// The weights of a language model are read for its first prompts (generate.c).
ft_status ft_library_open_model(ftengine_model *m) {
    FT_TRY(ft_classifier_open(ft_study_sections, m->path, m->base, m->override_count, m->overrides, &m->classifier));
    m->writes = ft_task_has_language(m->classifier.task);
    if (m->writes) return ft_predictions_begin(&m->classifier, &m->predictions);
    m->piece = ft_predictions_piece(m->classifier.labels.count);
    FT_TRY(ft_predictions_load(&m->classifier, m->piece, 0));
    return ft_predictions_begin(&m->classifier, &m->predictions);
}

ft_status ft_library_ensure_model(ftengine_model *m) {
    if (m->classifier.task != NULL) return FT_OK;
    const ft_status status = ft_library_open_model(m);
    ft_error error;
    if (status == FT_OK) return FT_OK;
    ft_error_save(&error);
    (void)ft_library_close_model(m);
    ft_error_restore(&error);
    return status;
}

ft_status ft_library_close_model(ftengine_model *m) {
    ft_predictions_free(&m->predictions);
    return ft_classifier_close(&m->classifier);
}

static ft_status close_model(ftengine_model *m) {
    const ft_status status = ft_library_close_model(m);
    ft_arena_free(&m->arena);
    free(m);
    return status;
}

int ftengine_load(ftengine *engine, const char *path, const char *base, int count, const char *const *words, ftengine_model **model) {
    *model = NULL;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    ftengine_model *m = ft_calloc(1, sizeof *m, "a model");
    if (m == NULL) return ft_engine_leave(engine, FT_NO_MEMORY);
    m->engine = engine;
    ft_status status = keep_words(m, path, base, count > 0 ? count : 0, words);
    if (status == FT_OK) status = ft_library_open_model(m);
    if (status == FT_OK) {
        *model = m;
        return ft_engine_leave(engine, FT_OK);
    }
    ft_error error;
    ft_error_save(&error);
    (void)close_model(m);
    ft_error_restore(&error);
    return ft_engine_leave(engine, status);
}

int ftengine_unload(ftengine_model *model) {
    if (model == NULL) return FTENGINE_OK;
    ftengine *engine = model->engine;
    if (!ft_engine_enter(engine)) return FTENGINE_BUSY;
    return ft_engine_leave(engine, close_model(model));
}

// ---- what it is -------------------------------------------------------------------------------------------------------------------

// The columns that it was trained on say whether texts come in pairs.
static bool reads_pairs(const ftengine_model *m) {
    return ft_classifier_request(&m->classifier, FT_FORMAT_TEXT, FT_LABEL_IGNORED).pair[0] != '\0';
}

static const char *what_it_reads(const ftengine_model *m) {
    if (ft_task_has_language(m->classifier.task)) return "prompts";
    if (ft_task_has_spans(m->classifier.task)) return "questions";
    if (ft_task_has_tokens(m->classifier.task)) return "words";
    return reads_pairs(m) ? "pairs" : "texts";
}

static json_t *thresholds(const ft_classifier *c, bool *failed) {
    if (c->threshold == NULL) return json_null();
    json_t *list = json_array();
    for (int k = 0; k < ft_threshold_count(&c->task->scoring, c->labels.count); k++) ft_json_append(list, json_real(c->threshold[k]), failed);
    return list;
}

static ft_status describe(ftengine_model *m, char **json) {
    const ft_classifier *c = &m->classifier;
    bool failed = false;
    FT_TRY(ft_library_ensure_model(m));
    json_t *root = json_object(), *classes = json_array();
    for (int k = 0; k < m->predictions.classes; k++) ft_json_append(classes, ft_json_text(m->predictions.names[k]), &failed);
    ft_json_put(root, "format_version", json_integer(1), &failed);
    ft_json_put(root, "path", ft_json_text(c->path), &failed);
    ft_json_put(root, "task", json_string(ft_task_name(c->task->id)), &failed);
    ft_json_put(root, "classes", classes, &failed);
    ft_json_put(root, "reads", json_string(what_it_reads(m)), &failed);
    ft_json_put(root, "max_length", json_integer(c->max_length), &failed);
    ft_json_put(root, "thresholds", thresholds(c, &failed), &failed);
    ft_json_put(root, "device", ft_json_text(c->room.device->description), &failed);
    ft_json_put(root, "bytes", json_integer((json_int_t)ft_memory_read(c->room.memory).allocated), &failed);
    *json = failed ? NULL : ft_json_line(root);
    json_decref(root);
    return *json != NULL ? FT_OK : ft_fail_memory(0, "a document");
}

int ftengine_model_info(ftengine_model *model, char **json) {
    *json = NULL;
    if (!ft_engine_enter(model->engine)) return FTENGINE_BUSY;
    return ft_engine_leave(model->engine, describe(model, json));
}

int ftengine_model_outputs(const ftengine_model *model) { return model->predictions.classes; }

// ---- texts ------------------------------------------------------------------------------------------------------------------------

typedef struct answers {
    double *values;
    signed char *decided;
    FILE *lines; // NULL: these are not wanted
} answers;

static ft_status check_texts(const ftengine_model *m, const char *const *pairs, const answers *a) {
    const ft_classifier *c = &m->classifier;
    if (ft_task_has_language(c->task)) {
        ft_fail(FT_INVALID, c->path, "a language model does not answer with numbers");
        ft_hint("ftengine_generate has what it writes");
        return FT_INVALID;
    }
    if (ft_model_config_reads_pictures(&c->config)) {
        ft_fail(FT_INVALID, c->path, "a model of pictures answers no texts");
        ft_hint("ftengine predict RUN --data FOLDER");
        return FT_INVALID;
    }
    const bool wants = ft_task_has_spans(c->task) || (!ft_task_has_tokens(c->task) && reads_pairs(m));
    if (a->lines == NULL && ft_task_reads_rows(c->task)) {
        ft_fail(FT_INVALID, c->path, "a model of %s does not answer with one row of numbers a text", ft_task_name(c->task->id));
        ft_hint("ftengine_answers has its answers as JSON lines");
        return FT_INVALID;
    }
    if (wants == (pairs != NULL)) return FT_OK;
    return ft_fail(FT_INVALID, c->path, wants ? "this model was trained on pairs of texts, and there are no second texts" : "this model was trained on single texts, not on pairs");
}

static void take_rows(ft_predictions *p, int64_t first, const answers *a) {
    const size_t classes = (size_t)p->classes;
    const double *values = ft_task_has_classes(p->task) ? p->probability : p->logits;
    if (a->values != NULL) memcpy(a->values + (size_t)first * classes, values, (size_t)p->examples * classes * sizeof *values);
    for (int64_t i = 0; a->decided != NULL && i < p->examples; i++) ft_predictions_decide(p, i, a->decided + (size_t)(first + i) * classes);
}

static ft_status answer_piece(ftengine_model *m, int64_t first, int64_t count, const char *const *texts, const char *const *pairs, const answers *a) {
    const ft_prediction_form form = {.format = FT_FORMAT_JSONL};
    ft_predictions *p = &m->predictions;
    ft_table table;
    FT_TRY(ft_table_of_texts(count, texts + first, pairs != NULL ? pairs + first : NULL, "texts", &table));
    for (int64_t i = 0; i < count; i++) table.line[i] += first;
    ft_status status = ft_predictions_table(p, count);
    if (status == FT_OK) status = ft_predictions_add(p, &m->classifier, m->classifier.path, &table, "texts", NULL, NULL);
    if (status == FT_OK && a->lines != NULL) status = ft_predictions_write(p, &table, &form, a->lines);
    if (status == FT_OK && a->lines == NULL) take_rows(p, first, a);
    ft_table_free(&table);
    return status;
}

// The next piece: at most so many rows, and not many more bytes than was planned for.
static int64_t rows_of_piece(const ftengine_model *m, int64_t left, const char *const *texts, const char *const *pairs) {
    size_t bytes = 0;
    int64_t rows = 0;
    while (rows < left && rows < m->piece && (rows == 0 || bytes < FT_LARGEST_PIECE)) {
        bytes += (texts[rows] != NULL ? strlen(texts[rows]) : 0) + (pairs != NULL && pairs[rows] != NULL ? strlen(pairs[rows]) : 0);
        rows++;
    }
    return rows;
}

static ft_status answer(ftengine_model *m, int64_t count, const char *const *texts, const char *const *pairs, const answers *a) {
    FT_TRY(ft_library_check_list("texts", count, texts));
    FT_TRY(ft_library_ensure_model(m));
    FT_TRY(check_texts(m, pairs, a));
    m->predictions.first = m->predictions.examples = 0; // ids begin anew
    for (int64_t first = 0; first < count;) {
        if (atomic_load(&m->engine->stop)) return ft_fail(FT_INTERRUPTED, NULL, "stopped after %lld of %lld texts", (long long)first, (long long)count);
        const int64_t rows = rows_of_piece(m, count - first, texts + first, pairs != NULL ? pairs + first : NULL);
        FT_TRY(answer_piece(m, first, rows, texts, pairs, a));
        first += rows;
    }
    return FT_OK;
}

int ftengine_predict(ftengine_model *model, int64_t count, const char *const *texts, const char *const *pairs, double *values,
                            signed char *decided) {
    if (!ft_engine_enter(model->engine)) return FTENGINE_BUSY;
    const answers a = {.values = values, .decided = decided};
    return ft_engine_leave(model->engine, answer(model, count, texts, pairs, &a));
}

int ftengine_answers(ftengine_model *model, int64_t count, const char *const *texts, const char *const *pairs, char **jsonl) {
    char *text = NULL;
    size_t size = 0;
    *jsonl = NULL;
    if (model->writes && pairs == NULL) return ftengine_generate(model, count, texts, 0, 0, NULL, jsonl);
    if (!ft_engine_enter(model->engine)) return FTENGINE_BUSY;
    FILE *lines = open_memstream(&text, &size);
    if (lines == NULL) return ft_engine_leave(model->engine, ft_fail_errno(FT_FAILED, errno, NULL, "cannot keep the answers"));
    const answers a = {.lines = lines};
    ft_status status = answer(model, count, texts, pairs, &a);
    const bool whole = fclose(lines) == 0;
    if (status == FT_OK && !whole) status = ft_fail_memory(0, "answers");
    if (status == FT_OK) *jsonl = text;
    else free(text);
    return ft_engine_leave(model->engine, status);
}
