// tokenize.c - the ids and pieces of texts, of pairs of texts, of prompts with completions and of chats, a line of JSON each: what a model sees.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/stop.h"
#include "engine/data/conversation.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const char *data;
    bool keep_going; // what is refused is a line too
    ft_config options;
    ft_tokenizer *tokenizer;
    ft_conversations chats;
    ft_input language; // for prompts with completions: what is learned of them
    bool pairs;        // the second text is one, and no completion
    ft_conversation chat;
    ft_token_ids ids, types;
    ft_learned learned;
    ft_decoded decoded;
} job;

// ---- a row -----------------------------------------------------------------------------------------------------------
static json_t *numbers(const ft_token_ids *list, bool *failed) {
    json_t *out = json_array();
    if (out == NULL) *failed = true;
    for (size_t i = 0; out != NULL && i < list->count; i++)
        ft_json_append(out, json_integer(list->ids[i]), failed);
    return out;
}

static json_t *pieces(const job *j, bool *failed) {
    json_t *out = json_array();
    if (out == NULL) *failed = true;
    for (size_t i = 0; out != NULL && i < j->ids.count; i++)
        ft_json_append(out, ft_json_text(ft_tokenizer_token(j->tokenizer, j->ids.ids[i])), failed);
    return out;
}

static json_t *learned(const job *j, bool *failed) {
    json_t *out = json_array();
    if (out == NULL) *failed = true;
    for (size_t i = 0; out != NULL && i < j->learned.count; i++)
        for (size_t k = j->learned.ranges[i].first; k < j->learned.ranges[i].last; k++)
            ft_json_append(out, json_integer((json_int_t)k), failed);
    return out;
}

static ft_status parse(const char *cell, json_t **out) {
    *out = NULL;
    if (cell == NULL || *cell == '\0') return FT_OK;
    return ft_json_parse(cell + (*cell == FT_JSON_CELL), strlen(cell + (*cell == FT_JSON_CELL)), "", out);
}

static ft_status chat(job *j, const char *messages, const char *tools) {
    json_t *list = NULL, *tool_list = NULL;
    ft_status status = parse(messages, &list);
    if (status == FT_OK && parse(tools, &tool_list) != FT_OK)
        status = ft_error_code() == FT_INVALID ? ft_fail(FT_INVALID, NULL, "\"tools\" is no JSON list") : ft_error_code();
    if (status == FT_OK) status = ft_conversation_encode(&j->chats, list, tool_list, 0, false, &j->chat, &j->ids, &j->learned);
    json_decref(list);
    json_decref(tool_list);
    return status;
}

// As a language model is trained on it: by the input that it is trained with, of this row alone.
static ft_status completion(job *j, const ft_table *table, int64_t row) {
    ft_table one = *table;
    ft_dataset set;
    one.rows = 1;
    one.text += row, one.text_length += row, one.pair += row, one.pair_length += row, one.line += row;
    FT_TRY(ft_input_build(&j->language, &(ft_input_wanted){.table = &one, .path = j->data}, &set, NULL));
    ft_status status = ft_token_ids_reserve(&j->ids, (size_t)set.tokens);
    for (int64_t i = 0; status == FT_OK && i < set.tokens; i++)
        j->ids.ids[j->ids.count++] = set.ids[i];
    for (int64_t i = 0; status == FT_OK && i < set.first_read[1]; i++)
        status = ft_learned_add(&j->learned, (size_t)set.read_position[i] + 1, (size_t)set.read_position[i] + 2);
    ft_dataset_free(&set);
    return status;
}

static ft_status encode(job *j, const ft_table *t, int64_t row, bool *rendered, bool *language) {
    const char *text = t->text[row], *pair = t->pair != NULL ? t->pair[row] : NULL;
    const bool tools = pair != NULL && strcmp(t->pair_column, "tools") == 0;
    j->ids.count = j->types.count = j->learned.count = 0;
    *rendered = t->format == FT_FORMAT_JSONL && text[0] == FT_JSON_CELL && (pair == NULL || tools);
    *language = *rendered || (pair != NULL && !tools && !j->pairs);
    if (*rendered) return chat(j, text, pair);
    if (*language) return completion(j, t, row);
    return ft_tokenizer_encode_pair(j->tokenizer, text, t->text_length[row], tools ? NULL : pair, pair != NULL && !tools ? t->pair_length[row] : 0, 0,
                                    FT_TRUNCATE_LONGEST_FIRST, &j->ids, &j->types);
}

static ft_status put_line(json_t *line, bool failed) {
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of tokens");
    const bool written = fputs(text, stdout) >= 0 && putchar('\n') != EOF;
    free(text);
    return written ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
}

static ft_status put_error(void) {
    json_t *line = json_object();
    bool failed = line == NULL;
    char text[1700];
    snprintf(text, sizeof text, "%s: %s", ft_error_where(), ft_error_message());
    ft_json_put(line, "format_version", json_integer(1), &failed);
    if (line != NULL) ft_json_put(line, "error", ft_json_text(text), &failed);
    ft_error_clear();
    return put_line(line, failed);
}

static ft_status put_tokens(job *j, bool rendered, bool language) {
    json_t *line = json_object();
    bool failed = line == NULL, pair = false;
    if (line == NULL) return ft_fail_memory(0, "a line of tokens");
    ft_json_put(line, "format_version", json_integer(1), &failed);
    if (rendered) ft_json_put(line, "text", json_stringn(j->chat.text.data, j->chat.text.length), &failed);
    ft_json_put(line, "ids", numbers(&j->ids, &failed), &failed);
    ft_json_put(line, "pieces", pieces(j, &failed), &failed);
    for (size_t i = 0; i < j->types.count; i++)
        pair = pair || j->types.ids[i] != 0;
    if (pair) ft_json_put(line, "types", numbers(&j->types, &failed), &failed);
    if (language) ft_json_put(line, "learned", learned(j, &failed), &failed);
    j->decoded.length = 0;
    if (ft_tokenizer_decodes(j->tokenizer) == FT_OK) {
        if (ft_tokenizer_decode(j->tokenizer, j->ids.ids, j->ids.count, false, &j->decoded) != FT_OK)
            failed = true;
        else
            ft_json_put(line, "decoded", json_stringn(j->decoded.text, j->decoded.length), &failed);
    } else
        ft_error_clear(); // of most encoders nobody wants it
    return put_line(line, failed);
}

static ft_status tokenize_table(job *j, const ft_table *table) {
    for (int64_t row = 0; row < table->rows; row++) {
        bool rendered, language;
        char where[512];
        ft_status status = encode(j, table, row, &rendered, &language);
        if (status == FT_INVALID) {
            ft_table_where(table, j->data, row, where);
            if (ft_error_where()[0] == '\0')
                ft_error_where_default("%s", where);
            else if (strstr(ft_error_where(), where) == NULL)
                ft_hint("of the text at %s", where);
        }
        if (status == FT_OK)
            status = put_tokens(j, rendered, language);
        else if (status == FT_INVALID && j->keep_going)
            status = put_error();
        FT_TRY(status);
        if (ft_stop_signal() != 0) return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped");
    }
    return fflush(stdout) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, "standard output", "cannot write");
}

// ---- all of it -------------------------------------------------------------------------------------------------------
static ft_status open_tokenizer(job *j, const char *model, ft_arena *arena) {
    const ft_config *c = &j->options;
    const char *directory;
    ft_model_settings settings;
    FT_TRY(ft_classifier_find(model, arena, &directory));
    const char *path = ft_path_join(arena, directory, "ftengine.json");
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_model_settings_load(path, arena, &settings));
    const char *variables = c->data.chat_variables[0] != '\0' ? c->data.chat_variables : settings.chat_variables;
    const ft_rules_option rules = settings.label_count > 0 ? settings.tokenizer_rules : c->model.tokenizer_rules;
    FT_TRY(ft_tokenizer_open_rules(directory, rules == FT_TOKENIZE_AS_TRANSFORMERS ? FT_RULES_TRANSFORMERS : FT_RULES_FILES, &j->tokenizer));
    FT_TRY(ft_conversations_open(directory, c->data.chat_template, variables, j->tokenizer, &j->chats));
    const ft_input_request request = {
        .directory = directory, .rules = rules, .truncation = "head", .chat_template = c->data.chat_template, .chat_variables = variables};
    return ft_input_open(&ft_language_input, &request, &j->language);
}

static ft_status run_blocks(job *j, ft_format format, ft_blocks *blocks) {
    const ft_config *c = &j->options;
    const ft_table_request request = {.format = format != FT_FORMAT_AUTO ? format : c->data.format,
                                      .text = c->data.text_column,
                                      .pair = c->data.text_pair,
                                      .need = FT_LABEL_IGNORED,
                                      .language = true};
    j->pairs = c->data.text_pair[0] != '\0';
    FT_TRY(ft_blocks_open(j->data, &request, FT_FIRST_PIECE, blocks));
    for (;;) {
        ft_table table;
        bool found;
        FT_TRY(ft_blocks_next(blocks, &table, &found));
        if (!found) return FT_OK;
        const ft_status status = tokenize_table(j, &table);
        ft_table_free(&table);
        FT_TRY(status);
    }
}

static void close_job(job *j) {
    ft_input_close(&j->language);
    ft_conversations_close(&j->chats);
    ft_tokenizer_close(j->tokenizer);
    ft_conversation_free(&j->chat);
    free(j->ids.ids);
    free(j->types.ids);
    free(j->learned.ranges);
    free(j->decoded.text);
    ft_config_free(&j->options);
}

ft_status ft_command_tokenize(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    job j = {.data = NULL};
    const char *format_name = "auto";
    ft_format format = FT_FORMAT_AUTO;
    ft_blocks blocks = {.file = -1};
    const ft_flag flags[] = {{"--data", &j.data, NULL}, {"--format", &format_name, NULL}, {"--keep-going", NULL, &j.keep_going}, {"--json", NULL, NULL}}; // it has no other form
    ft_status status = ft_parse_words("tokenize", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || j.data == NULL)) {
        status = ft_fail(FT_INVALID, "tokenize", words.plain_count != 1 ? "give one run or model directory" : "--data is missing");
        ft_hint("ftengine tokenize RUN|MODEL_DIR --data FILE|-");
    }
    if (status == FT_OK) status = ft_parse_format(format_name, true, &format);
    if (status == FT_OK) status = ft_config_load_with(sections, &j.options, 0, NULL, words.override_count, words.overrides);
    if (status == FT_OK) status = open_tokenizer(&j, words.plain[0], &arena);
    ft_stop_begin();
    if (status == FT_OK) status = run_blocks(&j, format, &blocks);
    ft_blocks_close(&blocks);
    close_job(&j);
    ft_arena_free(&arena);
    return status;
}
