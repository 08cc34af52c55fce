// predict_completions.c - predict, with a language model: a line of JSON a prompt, in order; on a terminal one prompt's
// text as it comes.
#include "engine/commands/completions.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct writing {
    ft_classifier *model;
    const ft_completion_job *job;
    const ft_table *table;
    const ft_prompts *prompts;
    ft_decoded text;
    ft_token_ids ids; // that are shown, where they are not decoded one by one
    bool streams;
    size_t shown; // bytes of `text` on the terminal
    int64_t rows, tokens;
    double began;
} writing;

static ft_status written(const writing *w) {
    if (fflush(w->job->out) == 0 && !ferror(w->job->out)) return FT_OK;
    return ft_fail_errno(FT_FAILED, errno, w->job->output != NULL ? w->job->output : "standard output",
                         "cannot write the completions");
}

// ---- as they come -------------------------------------------------------------------------------------------------

static void show_progress(writing *w) {
    const double seconds = ft_now() - w->began;
    ft_status_line("writing: %lld of %lld completions, %.0f tokens/s", (long long)w->rows, (long long)w->prompts->count,
                   seconds > 0 ? (double)w->tokens / seconds : 0);
}

static ft_status decode_token(writing *w, const ft_tokenizer *t, int32_t token) {
    if (ft_tokenizer_decodes_apart(t)) return ft_tokenizer_decode_bytes(t, &token, 1, true, &w->text);
    FT_TRY(ft_token_ids_reserve(&w->ids, 1));
    w->ids.ids[w->ids.count++] = token;
    w->text.length = 0;
    return ft_tokenizer_decode_bytes(t, w->ids.ids, w->ids.count, true, &w->text);
}

// Bytes of a character that is not whole yet wait for those to come.
static ft_status stream_token(writing *w, int32_t token, ft_finish finish) {
    const ft_tokenizer *t = ft_language_tokenizer(&w->model->input);
    if (finish != FT_FINISH_STOP && token < ft_tokenizer_vocabulary(t)) FT_TRY(decode_token(w, t, token));
    const size_t whole = ft_utf8_valid_prefix(w->text.text, w->text.length);
    const bool cut = w->text.length - whole < 4 && finish == FT_GOES_ON; // else they are no character at all
    const size_t end = cut ? whole : w->text.length;
    if (end > w->shown) fwrite(w->text.text + w->shown, 1, end - w->shown, w->job->out);
    if (end > w->shown) w->shown = end;
    if (finish != FT_GOES_ON) fputc('\n', w->job->out);
    return written(w);
}

static ft_status take_token(void *context, int64_t row, int32_t token, ft_finish finish) {
    writing *w = context;
    w->tokens++;
    if (w->streams) return stream_token(w, token, finish);
    w->rows += finish != FT_GOES_ON;
    show_progress(w);
    return FT_OK;
}

// ---- lines --------------------------------------------------------------------------------------------------------

static ft_status take_row(void *context, const ft_completion *c) {
    writing *w = context;
    const ft_table *table = w->table;
    if (w->streams) return FT_OK;
    json_t *id = table->id == NULL ? json_integer((json_int_t)c->row) : json_string(table->id[c->row]);
    if (id == NULL && table->id != NULL) id = json_null(); // an id that is no UTF-8
    ft_status_line("%s", "");
    FT_TRY(ft_completion_write_line(w->model, w->prompts, c, id, &w->text, w->job->out));
    return written(w);
}

// ---- all of it ----------------------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end) {
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static ft_status check(const ft_completion_job *j) {
    if (j->text != NULL && j->data != NULL)
        return ft_fail(FT_INVALID, "--text", "there are prompts in --data %s already", j->data);
    if (j->text == NULL && j->data == NULL)
        return ft_fail(FT_INVALID, "predict", "--data is missing, or a prompt: --text TEXT");
    if (j->text != NULL && j->id != NULL) return ft_fail(FT_INVALID, "--id", "the prompt of --text has no columns");
    if (j->output == NULL || (!ends_with(j->output, ".tsv") && !ends_with(j->output, ".csv"))) return FT_OK;
    ft_fail(FT_INVALID, "--output", "%s: completions are lines of JSON", j->output);
    ft_hint("a name that ends with .jsonl");
    return FT_INVALID;
}

static ft_status read_table(const ft_classifier *c, const ft_completion_job *j, ft_table *table) {
    if (j->text != NULL) return ft_table_of_texts(1, &j->text, NULL, "--text", table);
    ft_table_request request = ft_completion_request(c, j->format, false);
    request.id = j->id;
    request.plain = j->id == NULL; // who asks for a column has a table
    ft_classifier_watch(c);
    const ft_status status = ft_table_read(j->data, &request, table);
    ft_classifier_watch_end();
    return status;
}

static ft_status run(writing *w, const ft_generator_options *given) {
    ft_classifier *c = w->model;
    const char *path = w->job->text != NULL ? "--text" : w->job->data;
    ft_generator_options options = *given;
    ft_prompts prompts;
    FT_TRY(ft_prompts_build(&c->input, w->table, path, c->config.max_position_embeddings, false, &prompts));
    w->prompts = &prompts;
    w->streams = prompts.count == 1 && w->job->output == NULL && !w->job->json && isatty(STDOUT_FILENO);
    const ft_completion_sinks sinks = {.token = take_token, .row = take_row, .context = w};
    ft_status status = ft_completion_settings(c, &prompts, &c->arena, &options);
    if (status == FT_OK)
        status = ft_completions_write(c, &prompts, 0, &options, 8 * (size_t)options.max_new_tokens, &sinks);
    ft_status_line("%s", "");
    ft_prompts_free(&prompts);
    return status;
}

ft_status ft_predict_completions(ft_classifier *c, const ft_completion_job *j) {
    writing w = {.model = c, .job = j, .began = ft_now()};
    ft_generator_options options;
    ft_table table;
    FT_TRY(check(j));
    FT_TRY(ft_generation_parse(j->words, &options));
    if (ft_tokenizer_decodes(ft_language_tokenizer(&c->input)) != FT_OK) {
        ft_error_where_default("%s", c->path);
        return ft_error_code();
    }
    FT_TRY(read_table(c, j, &table));
    w.table = &table;
    const ft_status status = run(&w, &options);
    ft_table_free(&table);
    free(w.text.text);
    free(w.ids.ids);
    return status;
}
