// generate.c - what a language model in memory writes behind prompts.
//
// Its memory is planned, and its weights are read, for the prompts of the first call; where later ones want more of it
// the model is closed and opened again, for both. What is written does not depend on it.
#include "library/model.h"

#include "base/json/json.h"
#include "engine/commands/completions.h"
#include "engine/data/tables/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- prompts
// --------------------------------------------------------------------------------------------------------------------

// As a file's cells have them.
static ft_status mark_chats(int64_t count, const char *const *prompts, ft_arena *arena, const char ***cells) {
    *cells = ft_arena_alloc(arena, (size_t)count * sizeof **cells + 1);
    if (*cells == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < count; i++)
        if (((*cells)[i] = ft_arena_format(arena, "%c%s", FT_JSON_CELL, prompts[i])) == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

static ft_status make_table(int64_t count, const char *const *prompts, bool chats, ft_arena *arena, ft_table *table) {
    const char **cells;
    FT_TRY(ft_table_of_texts(count, prompts, NULL, "prompts", table));
    if (!chats) return FT_OK;
    FT_TRY(mark_chats(count, prompts, arena, &cells));
    table->format = FT_FORMAT_JSONL;
    table->text_column = "messages";
    for (int64_t i = 0; i < count; i++)
        table->text[i] = cells[i], table->text_length[i]++;
    return FT_OK;
}

// ---- memory
// ---------------------------------------------------------------------------------------------------------------------

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static ft_status load(ftengine_model *m, const ft_prompts *p, const ft_generator_options *o) {
    const ft_generator_sizes had = m->sizes, now = ft_completion_sizes(&m->classifier, p, o);
    ft_generator_sizes all = {.slots = larger(had.slots, now.slots),
                              .room = larger(had.room, now.room),
                              .tokens = larger(had.tokens, now.tokens),
                              .longest = larger(had.longest, now.longest)};
    if (had.slots > 0 && memcmp(&all, &had, sizeof all) == 0) return FT_OK;
    if (had.slots > 0) {
        m->sizes = (ft_generator_sizes){.slots = 0};
        FT_TRY(ft_library_close_model(m));
        FT_TRY(ft_library_ensure_model(m));
    }
    const ft_classifier_work work = {
        .computes = true, .generator = all, .host = ft_completion_host_bytes(&m->classifier, &all, o)};
    FT_TRY(ft_classifier_load(&m->classifier, &work));
    m->sizes = all;
    return FT_OK;
}

// ---- lines
// ----------------------------------------------------------------------------------------------------------------------

typedef struct writing {
    ftengine_model *model;
    const ft_prompts *prompts;
    ft_decoded text;
    FILE *lines;
    int64_t rows;
} writing;

static ft_status take_token(void *context, int64_t row, int32_t token, ft_finish finish) {
    writing *w = context;
    w->rows += finish != FT_GOES_ON;
    if (!atomic_load(&w->model->engine->stop)) return FT_OK;
    return ft_fail(FT_INTERRUPTED, NULL, "stopped after %lld of %lld prompts", (long long)w->rows,
                   (long long)w->prompts->count);
}

static ft_status take_row(void *context, const ft_completion *c) {
    writing *w = context;
    return ft_completion_write_line(&w->model->classifier, w->prompts, c, json_integer((json_int_t)c->row), &w->text,
                                    w->lines);
}

static ft_status write_lines(ftengine_model *m, const ft_table *table, ft_generator_options *o, ft_arena *arena,
                             FILE *lines) {
    ft_prompts prompts;
    ft_classifier *c = &m->classifier;
    FT_TRY(ft_prompts_build(&c->input, table, "prompts", c->config.max_position_embeddings, false, &prompts));
    writing w = {.model = m, .prompts = &prompts, .lines = lines};
    const ft_completion_sinks sinks = {.token = take_token, .row = take_row, .context = &w};
    ft_status status = ft_completion_settings(c, &prompts, arena, o);
    if (status == FT_OK && prompts.count > 0) status = load(m, &prompts, o);
    if (status == FT_OK) status = ft_completions_write(c, &prompts, 0, o, 0, &sinks);
    ft_prompts_free(&prompts);
    free(w.text.text);
    return status;
}

static ft_status generate(ftengine_model *m, int64_t count, const char *const *prompts, bool chats, int word_count,
                          const char *const *words, ft_arena *arena, FILE *lines) {
    ft_generation_words given = {.max_new_tokens = NULL};
    ft_flag flags[FT_GENERATION_FLAGS];
    ft_words rest;
    ft_generator_options options;
    ft_table table;
    FT_TRY(ft_library_check_list("prompts", count, prompts));
    FT_TRY(ft_library_check_words(word_count, words));
    FT_TRY(ft_library_ensure_model(m));
    if (!m->writes) return ft_fail(FT_INVALID, m->classifier.path, "this is no language model: it writes nothing");
    FT_TRY(ft_parse_words("generate", word_count, (char **)(uintptr_t)words, ft_generation_flags(&given, flags), flags,
                          arena, &rest));
    if (rest.plain_count + rest.override_count > 0)
        return ft_fail(FT_INVALID, "generate", "\"%s\" is no flag: options are given when the model is loaded",
                       rest.plain_count > 0 ? rest.plain[0] : rest.overrides[0]);
    FT_TRY(ft_generation_parse(&given, &options));
    if (ft_tokenizer_decodes(ft_language_tokenizer(&m->classifier.input)) != FT_OK) {
        ft_error_where_default("%s", m->classifier.path);
        return ft_error_code();
    }
    ft_status status = make_table(count, prompts, chats, arena, &table);
    if (status == FT_OK) status = write_lines(m, &table, &options, arena, lines);
    ft_table_free(&table);
    return status;
}

int ftengine_generate(ftengine_model *model, int64_t count, const char *const *prompts, int chats, int word_count,
                      const char *const *words, char **jsonl) {
    char *text = NULL;
    size_t size = 0;
    ft_arena arena = {0};
    *jsonl = NULL;
    if (!ft_engine_enter(model->engine)) return FTENGINE_BUSY;
    FILE *lines = open_memstream(&text, &size);
    if (lines == NULL)
        return ft_engine_leave(model->engine, ft_fail_errno(FT_FAILED, errno, NULL, "cannot keep the completions"));
    ft_status status =
        generate(model, count, prompts, chats != 0, word_count > 0 ? word_count : 0, words, &arena, lines);
    const bool whole = fclose(lines) == 0;
    if (status == FT_OK && !whole) status = ft_fail_memory(0, "completions");
    if (status == FT_OK)
        *jsonl = text;
    else
        free(text);
    ft_arena_free(&arena);
    return ft_engine_leave(model->engine, status);
}
