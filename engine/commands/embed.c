// embed.c - a vector a text, as the model's sentence-transformers files say, or the command line.
//
// The file is read a piece after the other, and vectors are written while they come: nothing grows with it. They show whole or not at all.
#include "engine/commands/commands.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/data/tables/blocks.h"
#include "engine/embed/embed.h"
#include "engine/embed/vector_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct request {
    const char *model, *data, *output, *pooling, *prompt, *prompt_name, *id, *base;
    ft_format read;
    bool npy, unit, json;
    const ft_section *const *sections;
    const ft_words *words;
} request;

// What is under way.
typedef struct job {
    const request *r;
    ft_classifier model;
    ft_sentence_files files;
    ft_vector_head head;
    ft_vector_file out;
    ft_blocks blocks;
    const ft_table *table; // the present piece
    int64_t before;        // texts of earlier ones
    int64_t width;         // of a vector
    double began;
} job;

// ---- what is asked for ------------------------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end) {
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static ft_status choose_form(request *r) {
    r->npy = r->output != NULL && ends_with(r->output, ".npy");
    if (r->npy || r->output == NULL || ends_with(r->output, ".jsonl")) return ft_check_output(r->data, r->output, "vectors");
    ft_fail(FT_INVALID, "--output", "%s: the name says what is written", r->output);
    ft_hint("FILE.npy or FILE.jsonl; without --output JSON lines go to standard output");
    return FT_INVALID;
}

static ft_status no_poolings(const job *j) {
    ft_fail(FT_INVALID, j->r->model, "nothing says how the rows of a text become one vector: there is no modules.json beside the model");
    ft_hint("--pooling mean (or cls, max, mean_sqrt_len_tokens, weightedmean, lasttoken, several separated by commas); --normalize makes "
            "vectors of length 1");
    return FT_INVALID;
}

static ft_status choose_poolings(job *j) {
    ft_sentence_files *f = &j->files;
    if (j->r->pooling != NULL) FT_TRY(ft_poolings_parse(j->r->pooling, "--pooling", f));
    if (j->r->pooling != NULL) f->width = 0;
    if (f->poolings == 0) return no_poolings(j);
    if (!j->r->unit || (f->steps > 0 && !f->step[f->steps - 1].dense)) return FT_OK;
    if (f->steps == FT_MOST_VECTOR_STEPS) return ft_fail(FT_INVALID, "--normalize", "more than %d modules behind the pooling", FT_MOST_VECTOR_STEPS);
    f->step[f->steps++] = (ft_vector_step){.dense = false};
    return FT_OK;
}

static ft_status choose_prompt(const job *j, const char **prompt) {
    const ft_sentence_files *f = &j->files;
    *prompt = j->r->prompt != NULL ? j->r->prompt : f->usual_prompt != NULL ? f->usual_prompt : "";
    if (j->r->prompt_name == NULL) return FT_OK;
    if (j->r->prompt != NULL) return ft_fail(FT_INVALID, "--prompt-name", "--prompt says already what stands in front of every text");
    for (int i = 0; i < f->prompts; i++)
        if (strcmp(f->prompt_name[i], j->r->prompt_name) == 0) {
            *prompt = f->prompt[i];
            return FT_OK;
        }
    ft_fail(FT_INVALID, "--prompt-name", "the model has no prompt %s", j->r->prompt_name);
    char names[256] = "";
    for (int i = 0; i < f->prompts; i++) {
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", f->prompt_name[i]);
    }
    if (names[0] != '\0') ft_hint("it has %s", names);
    else ft_hint("it has none; --prompt TEXT gives one");
    return FT_INVALID;
}

enum { MOST_ROWS = 1 << 15 }; // of a piece

// ---- a piece ----------------------------------------------------------------------------------------------------------------

// Texts with the prompt in front, in a block of their own: free() it behind the table.
static ft_status put_prompt(const char *prompt, ft_table *table, char **block) {
    const size_t front = strlen(prompt);
    size_t bytes = 0, at = 0;
    *block = NULL;
    if (front == 0) return FT_OK;
    for (int64_t i = 0; i < table->rows; i++) bytes += front + table->text_length[i] + 1;
    *block = ft_calloc(bytes + 1, 1, "texts with a prompt");
    if (*block == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < table->rows; i++) {
        memcpy(*block + at, prompt, front);
        memcpy(*block + at + front, table->text[i], table->text_length[i]);
        table->text[i] = *block + at;
        table->text_length[i] += front;
        at += table->text_length[i] + 1;
    }
    return FT_OK;
}

static ft_status show_progress(void *context, int64_t done, int64_t total) {
    const job *j = context;
    const double seconds = ft_now() - j->began;
    const long long texts = (long long)(j->before + done);
    char share[32] = "";
    if (j->blocks.size > 0) snprintf(share, sizeof share, ", %.0f%% read", 100.0 * (double)j->blocks.done / (double)j->blocks.size);
    ft_status_line("embedding %lld texts%s, %.0f texts/s", texts, share, seconds > 0 ? (double)texts / seconds : 0);
    return ft_stop_signal() == 0 ? FT_OK : ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped: no vectors were written to %s",
                                                   j->r->output != NULL ? j->r->output : "standard output any more");
}

static ft_status put_vector(void *context, int64_t example, const float *vector) {
    job *j = context;
    return ft_vector_file_add(&j->out, j->table->id != NULL ? j->table->id[example] : NULL, vector);
}

static ft_status embed_table(job *j, const ft_table *table) {
    ft_dataset set = {.examples = 0};
    j->table = table;
    ft_status status = ft_classifier_build(&j->model, table, j->r->data, NULL, &set);
    if (status == FT_OK && ft_head_needs_rows(&j->files)) status = ft_embed_read_all(&set);
    if (status == FT_OK) status = ft_classifier_lay_out(&j->model, &set);
    if (status == FT_OK) status = ft_embed_dataset(&j->model.room.model, &j->head, &set, j->model.limits, j->model.laid, put_vector, j, show_progress, j);
    j->before += set.examples;
    ft_dataset_free(&set);
    return status;
}

// The weights, under the bound of all pieces: their text, twice where a prompt stands before it, rows and tokens, and vectors on their way.
static ft_status load(job *j) {
    enum { ROW = 48, TOKEN = 6 };
    const ft_classifier *c = &j->model;
    const size_t rows = c->limits.max_tokens > 0 ? (size_t)c->limits.max_tokens : (size_t)c->limits.max_sequences * (size_t)c->max_length;
    const ft_classifier_work work = {.computes = true,
                                     .input = (size_t)j->blocks.size,
                                     .host = (size_t)FT_LARGEST_PIECE * (4 + TOKEN) + MOST_ROWS * (size_t)(ROW + 3 * TOKEN) +
                                             2 * rows * (size_t)c->config.hidden_size * sizeof(float),
                                     .files = SIZE_MAX};
    return ft_classifier_load(&j->model, &work);
}

static ft_status embed_stream(job *j, const char *prompt) {
    ft_table_request columns = ft_classifier_request(&j->model, j->r->read, FT_LABEL_IGNORED);
    columns.pair = NULL;
    columns.words = false;
    columns.id = j->r->id;
    columns.plain = j->r->id == NULL; // who asks for a column has a table
    FT_TRY(ft_blocks_open(j->r->data, &columns, FT_FIRST_PIECE, &j->blocks));
    j->blocks.rows = MOST_ROWS;
    FT_TRY(load(j));
    for (;;) {
        const double begins = ft_now();
        ft_table table;
        bool found;
        char *block = NULL;
        FT_TRY(ft_blocks_next(&j->blocks, &table, &found));
        if (!found) return FT_OK;
        ft_status status = put_prompt(prompt, &table, &block);
        if (status == FT_OK) status = embed_table(j, &table);
        if (status == FT_OK) status = ft_vector_file_flush(&j->out);
        ft_table_free(&table);
        free(block);
        FT_TRY(status);
        ft_blocks_pace(&j->blocks, ft_now() - begins);
    }
}

// ---- all of it --------------------------------------------------------------------------------------------------------------

static ft_status check_prompt(job *j, const char *prompt) {
    if (!j->files.without_prompt || prompt[0] == '\0') return FT_OK;
    FT_TRY(ft_embed_prompt_tokens(&j->model.input, prompt, &j->head.prompt_tokens));
    if (j->head.prompt_tokens < j->model.max_length) return FT_OK;
    return ft_fail(FT_INVALID, "--prompt", "its %lld tokens leave nothing of a text, at %d in all", (long long)j->head.prompt_tokens, j->model.max_length);
}

static ft_status open_model(job *j, const char *directory) {
    const request *r = j->r;
    const ft_rows_request rows = {.mean = ft_head_needs_mean(&j->files),
                                  .all = ft_head_needs_rows(&j->files),
                                  .lower_case = j->files.lower_case,
                                  .max_length = j->files.max_length};
    FT_TRY(ft_classifier_open_rows(r->sections, directory, r->base, r->words->override_count, r->words->overrides, &rows, &j->model));
    if (ft_input_sizes_of(&j->model.input).windows)
        return ft_fail(FT_INVALID, "data.truncation", "a text has one vector: it is cut, and not made windows of");
    return ft_vector_head_open(&j->files, j->model.config.hidden_size, &j->head);
}

// Of a file; without one the lines are what there is.
static ft_status print_document(const job *j) {
    bool failed = false;
    json_t *document = json_pack("{s:i, s:I, s:I}", "format_version", 1, "texts", (json_int_t)j->before, "width",
                                 (json_int_t)j->width);
    ft_json_put(document, "output", ft_json_text(j->r->output), &failed);
    return ft_print_document(document, failed);
}

static ft_status run(job *j, ft_arena *arena) {
    const char *directory, *prompt;
    FT_TRY(ft_classifier_find(j->r->model, arena, &directory));
    FT_TRY(ft_sentence_files_load(directory, arena, &j->files));
    FT_TRY(choose_poolings(j));
    FT_TRY(choose_prompt(j, &prompt));
    ft_status status = open_model(j, j->files.transformer);
    if (status == FT_OK) status = check_prompt(j, prompt);
    if (status == FT_OK) status = ft_vector_file_open(&j->out, j->r->output, j->r->npy, j->head.width);
    j->width = (int64_t)j->head.width;
    ft_stop_begin();
    if (status == FT_OK) status = embed_stream(j, prompt);
    ft_status_line("%s", "");
    if (status == FT_OK) status = ft_vector_file_commit(&j->out);
    ft_error error;
    ft_error_save(&error);
    ft_vector_file_abort(&j->out);
    ft_blocks_close(&j->blocks);
    ft_vector_head_close(&j->head);
    const ft_status closed = ft_classifier_close(&j->model);
    if (status == FT_OK) return closed == FT_OK && j->r->json && j->r->output != NULL ? print_document(j) : closed;
    ft_error_restore(&error);
    return status;
}

ft_status ft_command_embed(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    request r = {.sections = sections, .words = &words};
    const char *precision = NULL, *format = "auto";
    const ft_flag flags[] = {{"--data", &r.data, NULL},       {"--format", &format, NULL}, {"--output", &r.output, NULL},
                             {"--pooling", &r.pooling, NULL}, {"--prompt", &r.prompt, NULL}, {"--prompt-name", &r.prompt_name, NULL},
                             {"--normalize", NULL, &r.unit},  {"--id", &r.id, NULL},       {"--precision", &precision, NULL},
                             {"--base", &r.base, NULL},       {"--json", NULL, &r.json}};
    ft_status status = ft_parse_words("embed", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK) status = ft_words_set(&words, &arena, "train.precision", precision);
    if (status == FT_OK && (words.plain_count != 1 || r.data == NULL)) {
        status = ft_fail(FT_INVALID, "embed", words.plain_count != 1 ? "give one run or model directory" : "--data is missing");
        ft_hint("ftengine embed RUN|MODEL_DIR --data FILE|- [--output FILE.npy|FILE.jsonl] [--pooling mean]");
    }
    if (status == FT_OK) status = ft_parse_format(format, true, &r.read);
    if (status == FT_OK) status = choose_form(&r);
    if (status == FT_OK) {
        r.model = words.plain[0];
        job j = {.r = &r, .blocks = {.file = -1}, .began = ft_now()};
        status = run(&j, &arena);
    }
    ft_arena_free(&arena);
    return status;
}
