#include "engine/data/prompts.h"

#include "base/json/json.h"
#include "base/spill.h"
#include "engine/data/tables/records.h"

#include <stdlib.h>
#include <string.h>

typedef struct building {
    const ft_tokenizer *tokenizer;
    const ft_conversations *chats;
    const ft_table *table;
    ft_prompts *out;
    ft_conversation chat;
    ft_token_ids ids;
    int64_t room, longest;
    bool references, knows_end;
} building;

static bool is_json(const char *cell) { return cell[0] == FT_JSON_CELL; }

static ft_status parse_cell(const char *cell, json_t **out) {
    const char *text = cell + is_json(cell);
    *out = NULL;
    return ft_json_parse(text, strlen(text), "", out);
}

static ft_status refer(building *b, int64_t row, const char *answer, size_t length) {
    if (!b->references || answer == NULL) return FT_OK;
    char *copy = ft_arena_alloc(&b->out->arena, length + 1);
    if (copy == NULL) return FT_NO_MEMORY;
    memcpy(copy, answer, length);
    copy[length] = '\0';
    b->out->reference[row] = copy;
    return FT_OK;
}

// ---- texts --------------------------------------------------------------------------------------------------------

static ft_status encode_text(building *b, const char *text, size_t length) {
    FT_TRY(ft_tokenizer_encode(b->tokenizer, text, length, 0, &b->ids));
    if (ft_tokenizer_closes(b->tokenizer) && b->ids.count > 0) b->ids.count--; // it would end here
    return FT_OK;
}

// ---- chats --------------------------------------------------------------------------------------------------------

// What a model that learned by this template says last. Whose turns cannot be told by the template learned none of
// them, and ends as its own files say.
static ft_status find_end(building *b, const json_t *messages, const json_t *tools) {
    json_t *list = json_copy((json_t *)messages),
           *answer = json_pack("{s:s, s:s}", "role", "assistant", "content", "A");
    ft_token_ids ids = {.count = 0};
    ft_learned learned = {.count = 0};
    b->knows_end = true;
    ft_status status =
        list != NULL && answer != NULL && json_array_append(list, answer) == 0 ? FT_OK : ft_fail_memory(0, "messages");
    if (status == FT_OK)
        status =
            ft_conversation_encode(b->chats, list, tools, json_array_size(messages), false, &b->chat, &ids, &learned);
    if (status == FT_OK && learned.count > 0) {
        const int32_t last = ids.ids[learned.ranges[learned.count - 1].last - 1];
        if (ft_tokenizer_is_special(b->tokenizer, last)) b->out->turn_end = last;
    }
    if (status == FT_INVALID) {
        ft_error_clear();
        status = FT_OK;
    }
    json_decref(list);
    json_decref(answer);
    free(ids.ids);
    free(learned.ranges);
    return status;
}

static bool is_assistant(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL && strcmp(role, "assistant") == 0;
}

static ft_status refer_message(building *b, int64_t row, const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    return json_is_string(content) ? refer(b, row, json_string_value(content), json_string_length(content)) : FT_OK;
}

// Takes the assistant's last turn off.
static ft_status encode_messages(building *b, int64_t row, json_t *messages, const json_t *tools) {
    const size_t count = json_array_size(messages);
    const json_t *last = json_array_get(messages, count - 1);
    if (count > 0 && is_assistant(last)) {
        FT_TRY(refer_message(b, row, last));
        json_array_remove(messages, count - 1);
        if (count == 1)
            return ft_fail(FT_INVALID, NULL, "the assistant's message is the only one: there is nothing to answer");
    }
    if (tools != NULL && !json_is_array(tools)) return ft_fail(FT_INVALID, NULL, "\"tools\" must be a list");
    if (!b->knows_end && json_is_array(messages)) FT_TRY(find_end(b, messages, tools));
    FT_TRY(ft_conversation_render(b->chats, messages, tools, true, &b->chat));
    return ft_tokenizer_encode_bare(b->tokenizer, b->chat.text.data, b->chat.text.length, &b->ids);
}

static ft_status encode_chat(building *b, int64_t row, const char *messages, const char *tools) {
    json_t *list = NULL, *tool_list = NULL;
    ft_status status = parse_cell(messages, &list);
    if (status == FT_OK && tools != NULL && *tools != '\0' && parse_cell(tools, &tool_list) != FT_OK)
        status =
            ft_error_code() == FT_INVALID ? ft_fail(FT_INVALID, NULL, "\"tools\" is no JSON list") : ft_error_code();
    if (status == FT_OK) status = encode_messages(b, row, list, tool_list);
    json_decref(list);
    json_decref(tool_list);
    return status;
}

// A prompt that is a list of messages, and the list that answers it.
static ft_status encode_answered(building *b, int64_t row, const char *prompt, const char *completion) {
    json_t *answer = NULL;
    if (completion != NULL && is_json(completion)) FT_TRY(parse_cell(completion, &answer));
    ft_status status = answer != NULL ? refer_message(b, row, json_array_get(answer, 0)) : FT_OK;
    if (status == FT_OK) status = encode_chat(b, row, prompt, NULL);
    json_decref(answer);
    return status;
}

static ft_status encode_row(building *b, int64_t row) {
    const ft_table *t = b->table;
    const char *text = t->text[row], *pair = t->pair != NULL ? t->pair[row] : NULL;
    const bool tools = pair != NULL && strcmp(t->pair_column, "tools") == 0;
    b->ids.count = 0;
    if (is_json(text) && t->format == FT_FORMAT_JSONL)
        return pair == NULL || tools ? encode_chat(b, row, text, pair) : encode_answered(b, row, text, pair);
    if (t->format == FT_FORMAT_JSONL && (tools || strcmp(t->text_column, "messages") == 0))
        return ft_fail(FT_INVALID, NULL, "there is no list of messages here (\"%.60s\")", t->text_column);
    if (pair != NULL && !tools) FT_TRY(refer(b, row, pair, t->pair_length[row]));
    return encode_text(b, text, t->text_length[row]);
}

// ---- all of them --------------------------------------------------------------------------------------------------

static ft_status take_row(building *b, int64_t row) {
    ft_prompts *p = b->out;
    const int64_t count = (int64_t)b->ids.count, at = p->offset[row];
    if (count == 0) return ft_fail(FT_INVALID, NULL, "this prompt has no tokens");
    if (count > b->longest)
        return ft_fail(FT_INVALID, NULL, "this prompt has %lld tokens, the model has positions for %lld",
                       (long long)count, (long long)b->longest);
    if (at + count > b->room) {
        b->room = at + count + (at + count) / 4 + 64;
        FT_SPILL_GROW(p->ids, b->room, "tokenised prompts");
    }
    memcpy(p->ids + at, b->ids.ids, (size_t)count * sizeof *p->ids);
    p->offset[row + 1] = at + count;
    if (count > p->longest) p->longest = (int32_t)count;
    return FT_OK;
}

static ft_status build(building *b, const char *path) {
    ft_prompts *p = b->out;
    const ft_table *t = b->table;
    p->count = t->rows;
    FT_SPILL_GROW(p->offset, t->rows + 1, "tokenised prompts");
    p->offset[0] = 0;
    if (b->references && (p->reference = ft_arena_alloc(&p->arena, (size_t)t->rows * sizeof *p->reference + 1)) == NULL)
        return FT_NO_MEMORY;
    for (int64_t row = 0; row < t->rows; row++) {
        if (b->references) p->reference[row] = NULL;
        ft_status status = encode_row(b, row);
        if (status == FT_OK) status = take_row(b, row);
        char where[512];
        if (status == FT_INVALID) { // a template's own place is said, and then this one
            ft_table_where(t, path, row, where);
            if (ft_error_where()[0] != '\0')
                ft_hint("of the text at %s", where);
            else
                ft_error_where_default("%s", where);
        }
        FT_TRY(status);
    }
    return FT_OK;
}

ft_status ft_prompts_build(const ft_input *language, const ft_table *table, const char *path, int64_t longest,
                           bool references, ft_prompts *prompts) {
    building b = {.tokenizer = ft_language_tokenizer(language),
                  .chats = ft_language_conversations(language),
                  .table = table,
                  .out = prompts,
                  .longest = longest,
                  .references = references};
    *prompts = (ft_prompts){.turn_end = -1};
    const ft_status status = build(&b, path);
    if (status != FT_OK) ft_prompts_free(prompts);
    ft_conversation_free(&b.chat);
    free(b.ids.ids);
    return status;
}

void ft_prompts_free(ft_prompts *p) {
    ft_spill_free(p->ids);
    ft_spill_free(p->offset);
    ft_arena_free(&p->arena);
    *p = (ft_prompts){.count = 0};
}
