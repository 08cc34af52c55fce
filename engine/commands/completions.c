#include "engine/commands/completions.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/commands/metric_command.h"
#include "engine/train/step/rehearsal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXTS_AT_ONCE = 32, MOST_TEXTS = 1024, TOKENS_AT_ONCE = 4096, WINDOW = 8 };

// ---- memory -------------------------------------------------------------------------------------------------------

ft_generator_sizes ft_completion_sizes(const ft_classifier *c, const ft_prompts *p, const ft_generator_options *o) {
    const int64_t positions = c->config.max_position_embeddings, wanted = c->options.eval.batch_size;
    const int64_t most =
        p->longest + (o->max_new_tokens < positions ? o->max_new_tokens : positions) - 1; // the last one is not read
    const int64_t room = most < positions ? most : positions;
    int64_t slots = wanted != FT_AUTO ? wanted : TEXTS_AT_ONCE;
    if (slots > p->count) slots = p->count;
    if (slots > MOST_TEXTS) slots = MOST_TEXTS;
    const int64_t all = slots * p->longest, at_once = all < TOKENS_AT_ONCE ? all : TOKENS_AT_ONCE;
    return (ft_generator_sizes){.slots = (int32_t)slots,
                                .room = (int32_t)(room > p->longest ? room : p->longest),
                                .tokens = (int32_t)(at_once > p->longest ? at_once : p->longest),
                                .longest = p->longest};
}

static int64_t window_of(const ft_generator_sizes *sizes) { return (int64_t)WINDOW * sizes->slots; }

static size_t window_bytes(const ft_generator_sizes *sizes, const ft_generator_options *o) {
    const size_t most = o->max_new_tokens < sizes->room ? (size_t)o->max_new_tokens : (size_t)sizes->room;
    return (size_t)window_of(sizes) *
           (sizeof(ft_prompt) + 2 * sizeof(int64_t) + sizeof(ft_token_ids) + 2 * most * sizeof(int32_t)); // they grow
}

size_t ft_completion_host_bytes(const ft_classifier *c, const ft_generator_sizes *sizes,
                                const ft_generator_options *o) {
    return ft_generator_host_bytes(sizes, c->config.vocab_size) + window_bytes(sizes, o);
}

// When memory is refused in spite of the plan, half as many texts at once will do (memory.on_oom): completions do not
// depend on it.
static ft_status lay_out(ft_classifier *c) {
    for (;;) {
        ft_memory_refusal refusal;
        ft_memory_drop_layout(c->room.memory);
        ft_memory_trim(c->room.memory);
        const ft_step_sizes sizes = {.loss = c->room.model.loss, .generator = c->generator};
        const ft_status status =
            ft_lay_out_steps(c->room.memory, &c->config, &c->options, c->room.model.labels, &sizes);
        const bool smaller = c->generator.slots > 1 && c->options.memory.on_oom == FT_OOM_LADDER;
        if (status != FT_NO_MEMORY || !smaller || !ft_memory_refused(c->room.memory, &refusal)) return status;
        c->generator.slots /= 2;
        ft_detail("out of memory, %s were refused: %d texts at once", refusal.site, c->generator.slots);
    }
}

// ---- a window of rows: sorted, written, and handed on in their order ----------------------------------------------

typedef struct window {
    const ft_prompts *all;
    const ft_completion_sinks *sinks;
    int64_t first, first_row; // prompt number 0; and in the file
    int64_t count;
    int64_t *place;     // [count] of the sorted prompts, which of the window each is
    ft_prompt *prompts; // sorted
    ft_token_ids *ids;  // [count] of the window
    ft_finish *finish;
} window;

static int64_t length_of(const ft_prompts *p, int64_t i) { return p->offset[i + 1] - p->offset[i]; }

static int by_length(const void *left, const void *right) {
    const ft_prompt *a = left, *b = right;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static void sort(window *w) {
    for (int64_t i = 0; i < w->count; i++) {
        w->ids[i].count = 0;
        w->prompts[i] = (ft_prompt){.ids = w->all->ids + w->all->offset[w->first + i],
                                    .count = (int32_t)length_of(w->all, w->first + i),
                                    .row = (uint64_t)(w->first_row + w->first + i)};
    }
    qsort(w->prompts, (size_t)w->count, sizeof *w->prompts, by_length);
    for (int64_t i = 0; i < w->count; i++)
        w->place[i] = (int64_t)w->prompts[i].row - w->first_row - w->first;
}

static ft_status take_token(void *context, int64_t index, int32_t token, ft_finish finish) {
    window *w = context;
    const int64_t place = w->place[index];
    ft_token_ids *ids = &w->ids[place];
    if (finish != FT_FINISH_STOP) {
        FT_TRY(ft_token_ids_reserve(ids, 1));
        ids->ids[ids->count++] = token;
    }
    w->finish[place] = finish;
    return w->sinks->token != NULL ? w->sinks->token(w->sinks->context, w->first_row + w->first + place, token, finish)
                                   : FT_OK;
}

static ft_status run_window(window *w, ft_generator *g, const ft_generator_options *o) {
    sort(w);
    FT_TRY(ft_generator_run(g, w->prompts, w->count, o, take_token, w));
    for (int64_t i = 0; w->sinks->row != NULL && i < w->count; i++) {
        const ft_completion completion = {
            .row = w->first_row + w->first + i, .ids = w->ids[i].ids, .count = w->ids[i].count, .finish = w->finish[i]};
        FT_TRY(w->sinks->row(w->sinks->context, &completion));
    }
    return FT_OK;
}

static ft_status run_windows(ft_classifier *c, window *w, const ft_generator_options *o) {
    const int64_t most = window_of(&c->generator);
    ft_generator g;
    ft_status status = ft_generator_open(&c->room.model, &c->generator, &g);
    for (w->first = 0; status == FT_OK && w->first < w->all->count; w->first += w->count) {
        w->count = w->all->count - w->first < most ? w->all->count - w->first : most;
        status = run_window(w, &g, o);
    }
    return ft_generator_close(&g, status);
}

static ft_status write_all(ft_classifier *c, window *w, const ft_generator_options *o) {
    const size_t rows = (size_t)window_of(&c->generator);
    w->place = ft_calloc(rows, sizeof *w->place, "completions");
    w->prompts = ft_calloc(rows, sizeof *w->prompts, "completions");
    w->ids = ft_calloc(rows, sizeof *w->ids, "completions");
    w->finish = ft_calloc(rows, sizeof *w->finish, "completions");
    ft_status status =
        w->place != NULL && w->prompts != NULL && w->ids != NULL && w->finish != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) status = run_windows(c, w, o);
    for (size_t i = 0; w->ids != NULL && i < rows; i++)
        free(w->ids[i].ids);
    free(w->place);
    free(w->prompts);
    free(w->ids);
    free(w->finish);
    return status;
}

ft_status ft_completions_write(ft_classifier *c, const ft_prompts *p, int64_t first_row, const ft_generator_options *o,
                               size_t host, const ft_completion_sinks *sinks) {
    const ft_generator_sizes sizes = ft_completion_sizes(c, p, o);
    const ft_classifier_work work = {
        .computes = true, .generator = sizes, .host = host + ft_completion_host_bytes(c, &sizes, o), .files = host};
    window w = {.all = p, .sinks = sinks, .first_row = first_row};
    if (p->count == 0) return FT_OK;
    FT_TRY(ft_classifier_load(c, &work)); // once: later it does nothing
    if (c->generator.slots == 0) return ft_fail(FT_FAILED, "completions", "they were not planned");
    FT_TRY(lay_out(c));
    return write_all(c, &w, o);
}

// ---- texts --------------------------------------------------------------------------------------------------------

// The columns by their usual names, unless somebody said others: a model that learned from messages answers prompts
// too.
ft_table_request ft_completion_request(const ft_classifier *c, ft_format format, bool references) {
    static const char *const usual[] = {"messages", "prompt", "text"};
    ft_table_request r = ft_classifier_request(c, format, FT_LABEL_IGNORED);
    bool own = c->options.data.text_column[0] != '\0';
    if (!own) {
        own = c->settings.text_column != NULL && c->settings.text_column[0] != '\0';
        for (size_t i = 0; own && i < sizeof usual / sizeof *usual; i++)
            own = strcmp(c->settings.text_column, usual[i]) != 0;
    }
    if (!own) r.text = "";
    if (!references && c->options.data.text_pair[0] == '\0') r.pair = "";
    r.prompts = true;
    return r;
}

ft_status ft_completion_text(const ft_classifier *c, const int32_t *ids, size_t count, ft_decoded *out) {
    const ft_tokenizer *t = ft_language_tokenizer(&c->input);
    const int32_t known = ft_tokenizer_vocabulary(t);
    int32_t *ids_known = ft_calloc(count + 1, sizeof *ids_known, "a completion");
    size_t n = 0;
    if (ids_known == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (ids[i] < known) ids_known[n++] = ids[i];
    const ft_status status = n > 0 ? ft_tokenizer_decode(t, ids_known, n, true, out) : FT_OK;
    free(ids_known);
    return status;
}

void ft_completion_put(json_t *line, const ft_completion *c, const ft_decoded *text, bool *failed) {
    ft_json_put(line, "completion", json_stringn(text->length > 0 ? text->text : "", text->length), failed);
    ft_json_put(line, "finish_reason", json_string(ft_finish_name(c->finish)), failed);
}

ft_status ft_completion_write_line(const ft_classifier *model, const ft_prompts *prompts, const ft_completion *c,
                                   json_t *id, ft_decoded *room, FILE *out) {
    bool failed = id == NULL;
    room->length = 0;
    json_t *line = json_object();
    ft_json_put(line, "format_version", json_integer(1), &failed);
    ft_json_put(line, "id", id, &failed);
    ft_status status = ft_completion_text(model, c->ids, c->count, room);
    if (status == FT_OK) ft_completion_put(line, c, room, &failed);
    ft_json_put(line, "prompt_tokens",
                json_integer((json_int_t)(prompts->offset[c->row + 1] - prompts->offset[c->row])), &failed);
    ft_json_put(line, "completion_tokens", json_integer((json_int_t)c->count), &failed);
    char *text = failed || status != FT_OK ? NULL : ft_json_line(line);
    json_decref(line);
    if (status != FT_OK) return status;
    if (text == NULL) return ft_fail_memory(0, "a line of completions");
    fprintf(out, "%s\n", text);
    free(text);
    return FT_OK;
}

// ---- judged -------------------------------------------------------------------------------------------------------

typedef struct judging {
    const ft_classifier *model;
    const ft_prompts *prompts;
    ft_decoded text;
    int64_t count, exact, rows;
    FILE *lines; // for the command; NULL: there is none
} judging;

static size_t trim(const char **text, size_t length) {
    static const char blank[] = " \t\r\n";
    while (length > 0 && memchr(blank, (*text)[length - 1], sizeof blank - 1) != NULL)
        length--;
    while (length > 0 && memchr(blank, **text, sizeof blank - 1) != NULL)
        ++*text, length--;
    return length;
}

static ft_status put_line(const judging *j, const ft_completion *c, const char *reference) {
    bool failed = false;
    json_t *line = json_object();
    ft_json_put(line, "id", json_integer((json_int_t)c->row), &failed);
    ft_completion_put(line, c, &j->text, &failed);
    ft_json_put(line, "reference", reference != NULL ? ft_json_text(reference) : json_null(), &failed);
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of completions");
    const bool put = fprintf(j->lines, "%s\n", text) >= 0;
    free(text);
    return put ? FT_OK : ft_fail_errno(FT_FAILED, errno, "--command", "cannot hand it the completions");
}

static ft_status judge_row(void *context, const ft_completion *c) {
    judging *j = context;
    const char *reference = j->prompts->reference[c->row], *text;
    ft_status_line("completions %lld / %lld", (long long)++j->rows, (long long)j->prompts->count);
    j->text.length = 0;
    FT_TRY(ft_completion_text(j->model, c->ids, c->count, &j->text));
    if (j->lines != NULL) FT_TRY(put_line(j, c, reference));
    if (reference == NULL) return FT_OK;
    text = j->text.length > 0 ? j->text.text : "";
    const size_t said = trim(&text, j->text.length), wanted = trim(&reference, strlen(reference));
    j->count++;
    j->exact += said == wanted && memcmp(text, reference, said) == 0;
    return FT_OK;
}

// A file without a name: the command reads when all is there.
static ft_status open_lines(const char *command, FILE **lines) {
    int descriptor;
    *lines = NULL;
    if (command == NULL) return FT_OK;
    FT_TRY(ft_scratch_file(NULL, &descriptor));
    *lines = fdopen(descriptor, "w+");
    if (*lines != NULL) return FT_OK;
    const int error = errno;
    close(descriptor);
    return ft_fail_errno(FT_FAILED, error, "--command", "cannot hand it the completions");
}

static ft_status ask(const judging *j, ft_completion_judgement *out) {
    if (j->lines == NULL) return FT_OK;
    if (fflush(j->lines) != 0) return ft_fail_errno(FT_FAILED, errno, "--command", "cannot hand it the completions");
    return ft_metric_command(out->command, fileno(j->lines), &out->figure);
}

ft_status ft_completions_judge(ft_classifier *c, const ft_prompts *p, const ft_generator_options *o,
                               ft_completion_judgement *out) {
    judging j = {.model = c, .prompts = p};
    const ft_completion_sinks sinks = {.row = judge_row, .context = &j};
    FT_TRY(open_lines(out->command, &j.lines));
    ft_status status = ft_completions_write(c, p, 0, o, 0, &sinks);
    ft_status_line("%s", "");
    if (status == FT_OK) status = ask(&j, out);
    if (j.lines != NULL) fclose(j.lines);
    free(j.text.text);
    out->exact_match = j.count > 0 ? (double)j.exact / (double)j.count : (double)NAN;
    return status;
}
