// predict.c - labels and probabilities for unlabelled text; several models give the mean of their probabilities.
//
// One model answers while it reads, a piece of the file after the other, so that pipes work and what was written stays when it is killed.
// Several are opened one after the other, so that they need no more memory than one does: they have all texts first.
#include "engine/commands/completions.h"
#include "engine/commands/predictions.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "engine/data/pictures/source.h"
#include "engine/data/tables/blocks.h"
#include "engine/train/repeat/repeat.h"

#include <errno.h>
#include <string.h>

typedef struct request {
    const char *data, *output, *nbest;
    ft_format read;
    ft_prediction_form form;
    const ft_section *const *sections;
    const ft_words *words;
    const char *base; // of adapters
    const char *text; // a prompt
    bool json;
    ft_generation_words generation;
} request;

// What is under way.
typedef struct job {
    const request *r;
    ft_blocks blocks;
    ft_predictions predictions;
    ft_prediction_form form; // the request's, with the file of the n best
    ft_atomic_file file, nbest;
    double began;
    int model, models; // which one, of how many
    bool header;
    bool foresees;
    bool folder, listed; // of pictures, which is one piece
} job;

// ---- what is asked for --------------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static ft_format written_format(const char *output, bool json) {
    if (json || (output != NULL && ends_with(output, ".jsonl"))) return FT_FORMAT_JSONL;
    if (output != NULL && ends_with(output, ".json")) return FT_FORMAT_SQUAD; // of questions; else refused
    return output != NULL && ends_with(output, ".csv") ? FT_FORMAT_CSV : FT_FORMAT_TSV;
}

static ft_table_request wanted(const ft_classifier *c, const request *r) {
    ft_table_request wanted = ft_classifier_request(c, r->read, FT_LABEL_IGNORED);
    wanted.id = r->form.id;
    wanted.plain = r->form.id == NULL; // who asks for a column has a table
    if (ft_task_has_spans(c->task) && wanted.id == NULL) wanted.id = ""; // the usual one, where there is one
    return wanted;
}

// ---- progress -----------------------------------------------------------------------------------------------------

static ft_status show_progress(void *context, int64_t done, int64_t total) {
    const job *j = context;
    const double seconds = ft_now() - j->began;
    const long long texts = (long long)(j->predictions.first + done);
    char share[32] = "", model[48] = "";
    if (j->models > 1) snprintf(model, sizeof model, "model %d of %d, ", j->model, j->models);
    if (j->models == 1 && j->blocks.size > 0) snprintf(share, sizeof share, ", %.0f%% read", 100.0 * (double)j->blocks.done / (double)j->blocks.size);
    ft_status_line("predicting %s%lld texts%s, %.0f texts/s", model, texts, share, seconds > 0 ? (double)texts / seconds : 0);
    return FT_OK;
}

// ---- a piece ------------------------------------------------------------------------------------------------------

static ft_status write_piece(job *j, const ft_table *table) {
    FILE *out = j->file.stream;
    ft_status_line("%s", "");
    if (!j->header) FT_TRY(ft_predictions_write_header(&j->predictions, table, &j->form, out));
    j->header = true;
    FT_TRY(ft_predictions_write(&j->predictions, table, &j->form, out));
    if (fflush(out) == 0 && !ferror(out)) return FT_OK;
    return ft_fail_errno(FT_FAILED, errno, j->r->output != NULL ? j->r->output : "standard output", "cannot write the predictions");
}

// A row of any length is read before anything is known of it.
static ft_status next_piece(job *j, const ft_classifier *c, const ft_table_request *columns, ft_table *table, bool *found) {
    ft_classifier_watch(c);
    *found = !j->listed;
    ft_status status = FT_OK;
    if (!j->folder) status = ft_blocks_next(&j->blocks, table, found);
    else if (*found) status = ft_picture_source_read(j->r->data, columns, table);
    j->listed = j->folder;
    ft_classifier_watch_end();
    return status;
}

static ft_status run_stream(job *j, ft_classifier *c, const char *path) {
    const ft_table_request columns = wanted(c, j->r);
    FT_TRY(ft_predictions_begin(c, &j->predictions));
    j->folder = columns.pictures && !ft_picture_source_is_file(j->r->data);
    if (!j->folder) FT_TRY(ft_blocks_open(j->r->data, &columns, FT_FIRST_PIECE, &j->blocks));
    j->blocks.rows = ft_predictions_piece(c->labels.count);
    FT_TRY(ft_predictions_load(c, j->blocks.rows, (size_t)j->blocks.size));
    for (;;) {
        const double begins = ft_now();
        ft_table table;
        bool found;
        FT_TRY(next_piece(j, c, &columns, &table, &found));
        if (!found) return FT_OK;
        ft_status status = ft_classifier_leave_out(c, &table, j->r->data);
        const bool some = table.rows > 0;
        if (status == FT_OK && some) status = ft_predictions_table(&j->predictions, table.rows);
        if (status == FT_OK && some) status = ft_predictions_add(&j->predictions, c, path, &table, j->r->data, show_progress, j);
        if (status == FT_OK && some) status = write_piece(j, &table);
        ft_table_free(&table);
        FT_TRY(status);
        ft_blocks_pace(&j->blocks, ft_now() - begins);
    }
}

// ---- models -------------------------------------------------------------------------------------------------------

// Of several models: reads the texts with the first, and adds what this one says; before that whether all of them fit.
static ft_status run_one(job *j, ft_classifier *c, const char *path, ft_table *table) {
    const ft_table_request columns = wanted(c, j->r);
    if (table->rows == 0) {
        FT_TRY((columns.pictures ? ft_picture_source_read : ft_table_read)(j->r->data, &columns, table));
        FT_TRY(ft_predictions_begin(c, &j->predictions));
        FT_TRY(ft_predictions_table(&j->predictions, table->rows));
    } else if (!columns.questions && (table->pair != NULL) != (columns.pair[0] != '\0')) {
        return ft_fail(FT_INVALID, path, "this model was trained on %s, the first one on %s",
                       table->pair != NULL ? "single texts" : "pairs of texts", table->pair != NULL ? "pairs" : "single texts");
    }
    if (j->foresees) return ft_predictions_foresee(&j->predictions, c, path, table, j->r->data);
    return ft_predictions_add(&j->predictions, c, path, table, j->r->data, show_progress, j);
}

// What only language models do, and what they do not.
static ft_status check_language(const job *j, const ft_classifier *c, const char *path) {
    const request *r = j->r;
    if (!ft_task_has_language(c->task)) {
        if (r->data == NULL) {
            ft_fail(FT_INVALID, "--text", "a prompt is for a language model (%s)", path);
            ft_hint("echo TEXT | ftengine predict %s --data -", path);
            return FT_INVALID;
        }
        return ft_generation_is_given(&r->generation) ? ft_fail(FT_INVALID, "predict", "--max-new-tokens, --sample, --temperature, --top-p, --top-k and --seed are for language models (%s)", path) : FT_OK;
    }
    if (j->models > 1) return ft_fail(FT_INVALID, "predict", "completions are of one model, and there are %d: there is no mean of texts", j->models);
    return r->form.logits ? ft_fail(FT_INVALID, "--logits", "a language model answers with texts, which have no logits (%s)", path) : FT_OK;
}

static ft_status write_completions(const job *j, ft_classifier *c) {
    const request *r = j->r;
    const ft_completion_job completions = {.data = r->data, .text = r->text, .id = r->form.id, .output = r->output, .format = r->read, .json = r->json,
                                           .words = &r->generation, .out = j->file.stream};
    return ft_predict_completions(c, &completions);
}

static ft_status run_model(job *j, const char *path, ft_table *table) {
    ft_classifier c;
    const ft_words *words = j->r->words;
    ft_status status = ft_classifier_open(j->r->sections, path, j->r->base, words->override_count, words->overrides, &c);
    if (status == FT_OK && j->r->form.logits && ft_task_has_tokens(c.task))
        status = ft_fail(FT_INVALID, "--logits", "a model of token_classification answers with entities, which have no logits (%s)", path);
    if (status == FT_OK && j->r->form.logits && ft_task_has_spans(c.task))
        status = ft_fail(FT_INVALID, "--logits", "a model of question_answering answers with texts, which have no logits (%s)", path);
    if (status == FT_OK) status = check_language(j, &c, path);
    if (status == FT_OK && j->r->form.format == FT_FORMAT_SQUAD && !ft_task_has_spans(c.task)) {
        status = ft_fail(FT_INVALID, "--output", "one JSON object of all answers is for question_answering (%s)", path);
        ft_hint("a name that ends with .jsonl has a line an example");
    }
    if (status == FT_OK && j->r->nbest != NULL && !ft_task_has_spans(c.task))
        status = ft_fail(FT_INVALID, "--nbest", "the n best answers are of question_answering (%s)", path);
    if (status == FT_OK && ft_task_has_language(c.task)) status = write_completions(j, &c);
    else if (status == FT_OK) status = j->models == 1 ? run_stream(j, &c, path) : run_one(j, &c, path, table);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_classifier_close(&c);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// A directory with a run for every fold or seed stands for all their models, one of shares for that of all texts.
static ft_status list_models(const ft_words *words, ft_arena *arena, const char ***models, int *count) {
    *models = NULL;
    *count = 0;
    for (int i = 0; i < words->plain_count; i++) {
        const char **members;
        int inside;
        FT_TRY(ft_repeat_models(words->plain[i], arena, &members, &inside));
        const char **grown = ft_arena_alloc(arena, (size_t)(*count + inside + 1) * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (*count > 0) memcpy(grown, *models, (size_t)*count * sizeof *grown);
        *models = grown;
        if (inside == 0) grown[(*count)++] = words->plain[i];
        for (int k = 0; k < inside; k++) grown[(*count)++] = members[k];
    }
    return FT_OK;
}

static ft_status open_files(job *j) {
    if (j->r->output != NULL) FT_TRY(ft_atomic_open(&j->file, j->r->output));
    if (j->r->nbest == NULL) return FT_OK;
    FT_TRY(ft_atomic_open(&j->nbest, j->r->nbest));
    j->form.nbest = j->nbest.stream;
    return FT_OK;
}

// What was written is there when all of it is.
static ft_status close_files(job *j, ft_status status) {
    const bool file = j->r->output != NULL && j->file.stream != stdout, nbest = j->form.nbest != NULL;
    if (status == FT_OK && nbest) status = ft_atomic_commit(&j->nbest);
    else if (nbest) ft_atomic_abort(&j->nbest);
    if (status == FT_OK && file) return ft_atomic_commit(&j->file);
    if (file) ft_atomic_abort(&j->file);
    return status;
}

static ft_status run_models(job *j, int count, const char *const *models) {
    ft_table table = {0};
    ft_status status = FT_OK;
    j->foresees = count > 1;
    for (j->model = 1; j->foresees && status == FT_OK && j->model <= count; j->model++) status = run_model(j, models[j->model - 1], &table);
    j->foresees = false;
    for (j->model = 1; status == FT_OK && j->model <= count; j->model++) status = run_model(j, models[j->model - 1], &table);
    if (status == FT_OK && count > 1) status = write_piece(j, &table);
    if (status == FT_OK) ft_predictions_write_end(&j->form, j->file.stream);
    ft_status_line("%s", "");
    ft_table_free(&table);
    return status;
}

static ft_status run(const request *r, int count, const char *const *models) {
    job j = {.r = r, .form = r->form, .file = {.stream = stdout}, .models = count, .began = ft_now(), .blocks = {.file = -1}};
    ft_status status = open_files(&j);
    if (status == FT_OK) status = run_models(&j, count, models);
    ft_blocks_close(&j.blocks);
    ft_predictions_free(&j.predictions);
    return close_files(&j, status);
}

ft_status ft_command_predict(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    request r = {.sections = sections, .words = &words};
    const char *precision = NULL, *format = "auto";
    ft_generation_words *g = &r.generation;
    ft_flag flags[10 + FT_GENERATION_FLAGS] = {{"--text", &r.text, NULL},
                             {"--data", &r.data, NULL},         {"--format", &format, NULL}, {"--output", &r.output, NULL},
                             {"--logits", NULL, &r.form.logits}, {"--id", &r.form.id, NULL},  {"--json", NULL, &r.json},
                             {"--precision", &precision, NULL},  {"--base", &r.base, NULL},   {"--nbest", &r.nbest, NULL}};
    const int flag_count = 10 + ft_generation_flags(g, flags + 10);
    ft_status status = ft_parse_words("predict", argc, argv, flag_count, flags, &arena, &words);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "train.precision", precision);
    if (status == FT_OK && (words.plain_count < 1 || (r.data == NULL && r.text == NULL))) {
        status = ft_fail(FT_INVALID, "predict", words.plain_count < 1 ? "give a run or model directory" : "--data is missing");
        ft_hint("ftengine predict RUN|MODEL_DIR... --data FILE|- [--format tsv|csv|jsonl|text|conll|squad]");
        if (words.plain_count > 0) ft_hint("of a language model --text TEXT is a prompt");
    }
    if (status == FT_OK) status = ft_parse_format(format, true, &r.read);
    if (status == FT_OK && r.data != NULL) status = ft_check_output(r.data, r.output, "predictions");
    if (status == FT_OK && r.data != NULL) status = ft_check_output(r.data, r.nbest, "answers");
    if (status == FT_OK && r.nbest != NULL && r.output != NULL && strcmp(r.nbest, r.output) == 0)
        status = ft_fail(FT_INVALID, "--nbest", "%s is the file of the predictions already", r.output);
    r.form.format = written_format(r.output, r.json);
    const char **models = NULL;
    int count = 0;
    if (status == FT_OK) status = list_models(&words, &arena, &models, &count);
    if (status == FT_OK) status = run(&r, count, models);
    ft_arena_free(&arena);
    return status;
}
