#include "engine/data/conversation.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

// ---- opening -------------------------------------------------------------------------------------------------------
static ft_status open_file(const char *path, ft_chat_template **out) {
    char *data;
    size_t length;
    FT_TRY(ft_read_file(path, 1 << 20, &data, &length));
    const ft_status status = ft_chat_template_parse(data, length, path, out);
    free(data);
    return status;
}

// The special tokens by role, as transformers hands them to a template, and then what the user says.
static ft_status set_variables(ft_conversations *c, const char *given) {
    static const char *const ROLES[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    bool failed = (c->variables = json_object()) == NULL;
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES && !failed; i++) {
        const int32_t id = ft_tokenizer_role_id(c->tokenizer, ROLES[i]);
        if (id >= 0) ft_json_put(c->variables, ROLES[i], ft_json_text(ft_tokenizer_token(c->tokenizer, id)), &failed);
    }
    if (!failed) ft_json_put(c->variables, "documents", json_null(), &failed);
    if (failed) return ft_fail_memory(0, "a chat's variables");
    if (given == NULL || *given == '\0') return FT_OK;
    json_t *own = NULL;
    ft_status status = ft_json_parse(given, strlen(given), "data.chat_variables", &own);
    if (status == FT_OK && !json_is_object(own)) status = ft_fail(FT_INVALID, "data.chat_variables", "this is no JSON object");
    if (status != FT_OK)
        ft_hint("data.chat_variables = {\"enable_thinking\": false}");
    else if (json_object_update(c->variables, own) != 0)
        status = ft_fail_memory(0, "a chat's variables");
    json_decref(own);
    return status;
}

static ft_status hash_text(ft_sha256_state *hash, const char *text, size_t length) {
    const uint64_t size = length;
    ft_sha256_add(hash, &size, sizeof size);
    if (length > 0) ft_sha256_add(hash, text, length);
    return FT_OK;
}

static ft_status make_digest(ft_conversations *c) {
    unsigned char bytes[32];
    ft_sha256_state hash;
    size_t length = 0;
    const char *source = c->chat != NULL ? ft_chat_template_source(c->chat, &length) : "";
    char *line = ft_json_line(c->variables);
    if (line == NULL) return FT_NO_MEMORY;
    ft_sha256_begin(&hash);
    hash_text(&hash, source, length);
    hash_text(&hash, line, strlen(line));
    ft_sha256_end(&hash, bytes);
    ft_sha256_hex(bytes, c->sha256);
    free(line);
    return FT_OK;
}

ft_status ft_conversations_open(const char *directory, const char *file, const char *variables, const ft_tokenizer *tokenizer, ft_conversations *c) {
    *c = (ft_conversations){.tokenizer = tokenizer};
    ft_status status = file != NULL && *file != '\0' ? open_file(file, &c->chat) : ft_chat_template_open(directory, &c->chat);
    if (status == FT_OK) status = set_variables(c, variables);
    if (status == FT_OK) status = make_digest(c);
    if (status != FT_OK) ft_conversations_close(c);
    return status;
}

void ft_conversations_close(ft_conversations *c) {
    ft_chat_template_free(c->chat);
    json_decref(c->variables);
    *c = (ft_conversations){0};
}

void ft_conversation_free(ft_conversation *room) {
    ft_chat_text_free(&room->text);
    ft_chat_text_free(&room->other);
    free(room->probe.ids);
    *room = (ft_conversation){0};
}

ft_status ft_learned_add(ft_learned *learned, size_t first, size_t last) {
    if (first >= last) return FT_OK;
    if (learned->count == learned->capacity) {
        ft_token_range *ranges = ft_realloc(learned->ranges, 2 * learned->capacity + 8, sizeof *ranges, "what is learned of a text");
        if (ranges == NULL) return FT_NO_MEMORY;
        learned->ranges = ranges, learned->capacity = 2 * learned->capacity + 8;
    }
    learned->ranges[learned->count++] = (ft_token_range){first, last};
    return FT_OK;
}

size_t ft_common_ids(const ft_token_ids *a, const ft_token_ids *b) {
    size_t n = 0;
    while (n < a->count && n < b->count && a->ids[n] == b->ids[n])
        n++;
    return n;
}

// ---- messages ------------------------------------------------------------------------------------------------------

// What a message means by its reasoning is called by all names for it, as transformers has it, and what is null is not
// there.
static json_t *plain_message(const json_t *message) {
    static const char *const NAMES[] = {"reasoning_content", "thinking", "reasoning"};
    const json_t *reasoning = NULL;
    json_t *out = json_object(), *value;
    const char *key;
    bool failed = out == NULL;
    for (size_t i = 0; i < 3 && reasoning == NULL; i++) {
        reasoning = json_object_get(message, NAMES[i]);
        if (json_is_null(reasoning)) reasoning = NULL;
    }
    if (reasoning != NULL && !failed) ft_json_put(out, "thinking", json_incref((json_t *)reasoning), &failed);
    json_object_foreach((json_t *)message, key, value) {
        if (!failed && !json_is_null(value)) ft_json_put(out, key, json_incref(value), &failed);
    }
    if (reasoning != NULL && !failed) ft_json_put(out, "reasoning_content", json_incref((json_t *)reasoning), &failed);
    if (!failed) return out;
    json_decref(out);
    ft_fail_memory(0, "messages");
    return NULL;
}

static ft_status plain_messages(const json_t *messages, json_t **out) {
    *out = NULL;
    if (!json_is_array(messages) || json_array_size(messages) == 0) {
        ft_fail(FT_INVALID, NULL, "\"messages\" must be a list of messages, not empty");
        ft_hint("{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": \"assistant\", \"content\": "
                "\"...\"}]}");
        return FT_INVALID;
    }
    json_t *list = json_array();
    if (list == NULL) return ft_fail_memory(0, "messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const bool good = json_is_object(message) && json_is_string(json_object_get(message, "role"));
        json_t *plain = good ? plain_message(message) : NULL;
        if (plain == NULL || json_array_append_new(list, plain) != 0) {
            json_decref(list);
            return good ? ft_fail_memory(0, "messages") : ft_fail(FT_INVALID, NULL, "message %zu is no object with a \"role\"", i + 1);
        }
    }
    *out = list;
    return FT_OK;
}

static bool is_assistant(const json_t *messages, size_t i) {
    return strcmp(json_string_value(json_object_get(json_array_get(messages, i), "role")), "assistant") == 0;
}

// The first `count` of the messages; takes no reference.
static ft_status render(const ft_conversations *c, const json_t *messages, size_t count, const json_t *tools, bool invite, ft_chat_text *text) {
    if (c->chat == NULL) {
        ft_fail(FT_INVALID, NULL, "the model has no chat template");
        ft_hint("data.chat_template names a file with one (Jinja); the model of the same name with -Instruct at its "
                "end usually has one");
        return FT_INVALID;
    }
    json_t *variables = json_copy(c->variables), *list = json_array();
    bool failed = variables == NULL || list == NULL || json_object_size(variables) != json_object_size(c->variables);
    for (size_t i = 0; i < count && !failed; i++)
        failed = json_array_append(list, json_array_get(messages, i)) != 0;
    json_incref(list);
    if (!failed)
        ft_json_put(variables, "messages", list, &failed);
    else
        json_decref(list);
    if (!failed) ft_json_put(variables, "tools", tools != NULL ? json_incref((json_t *)tools) : json_null(), &failed);
    if (!failed) ft_json_put(variables, "add_generation_prompt", json_boolean(invite), &failed);
    const ft_status status = failed ? ft_fail_memory(0, "messages") : ft_chat_template_render(c->chat, variables, text);
    json_decref(variables);
    json_decref(list);
    return status;
}

ft_status ft_conversation_render(const ft_conversations *c, const json_t *messages, const json_t *tools, bool invite, ft_conversation *room) {
    json_t *plain;
    FT_TRY(plain_messages(messages, &plain));
    const ft_status status = render(c, plain, json_array_size(plain), tools, invite, &room->text);
    json_decref(plain);
    return status;
}

// ---- whose text it is ----------------------------------------------------------------------------------------------
static size_t common_bytes(const ft_chat_text *a, const ft_chat_text *b) {
    size_t n = 0;
    while (n < a->length && n < b->length && a->data[n] == b->data[n])
        n++;
    return n;
}

static bool begins_with(const ft_chat_text *whole, const ft_chat_text *part) { return common_bytes(whole, part) == part->length; }

// The text of the messages up to number i, whose content begins with another letter: what it has in common with the
// whole ends there.
static ft_status common_up_to(const ft_conversations *c, const json_t *messages, size_t i, const json_t *tools, ft_conversation *room,
                              size_t *bytes) {
    const json_t *content = json_object_get(json_array_get(messages, i), "content");
    if (!json_is_string(content))
        return ft_fail(FT_INVALID, NULL, "message %zu has no text as its \"content\", by which the end of the turn before it could be told", i + 1);
    json_t *changed = json_string(json_string_value(content)[strspn(json_string_value(content), " \t\r\n")] == 'A' ? "B" : "A");
    json_t *message = json_copy(json_array_get(messages, i)), *list = json_copy((json_t *)messages);
    bool failed = changed == NULL || message == NULL || list == NULL;
    if (!failed) ft_json_put(message, "content", json_incref(changed), &failed);
    failed = failed || json_array_set(list, i, message) != 0;
    ft_status status = failed ? ft_fail_memory(0, "messages") : render(c, list, json_array_size(messages), tools, false, &room->other);
    if (status == FT_OK) *bytes = common_bytes(&room->text, &room->other);
    json_decref(changed);
    json_decref(message);
    json_decref(list);
    return status;
}

static ft_status unknown_turn(size_t i, const char *what) {
    ft_fail(FT_INVALID, NULL, "where the turn of message %zu %s in the chat template's text cannot be told", i + 1, what);
    ft_hint("a template with {%% generation %%} around what the assistant says tells it (data.chat_template); "
            "data.learn = all needs no turns");
    return FT_INVALID;
}

static ft_status turn_begins(const ft_conversations *c, const json_t *messages, size_t i, const json_t *tools, ft_conversation *room, size_t *begin) {
    if (i == 0) return common_up_to(c, messages, i, tools, room, begin); // no template invites an answer to nothing
    FT_TRY(render(c, messages, i, tools, true, &room->other));
    *begin = room->other.length;
    return begins_with(&room->text, &room->other) ? FT_OK : unknown_turn(i, "begins");
}

// Without the white space behind the special token that closes a turn.
static size_t closed(const ft_conversations *c, const char *text, size_t begin, size_t end) {
    size_t kept = end;
    while (kept > begin && strchr(" \t\r\n", text[kept - 1]) != NULL)
        kept--;
    return kept > begin && ft_tokenizer_special_end(c->tokenizer, text + begin, kept - begin) > 0 ? kept : end;
}

// Behind the last token that ends a text, in [begin, end).
static bool last_end(const ft_conversations *c, const char *text, size_t begin, size_t *end) {
    const int32_t id = ft_tokenizer_role_id(c->tokenizer, "eos_token");
    if (id < 0) return false;
    const char *token = ft_tokenizer_token(c->tokenizer, id);
    const size_t length = strlen(token);
    for (size_t at = *end; at >= begin + length; at--)
        if (memcmp(text + at - length, token, length) == 0) return *end = at, true;
    return false;
}

static ft_status turn_ends(const ft_conversations *c, const json_t *messages, size_t i, const json_t *tools, ft_conversation *room, size_t begin,
                           size_t *end) {
    const char *text = room->text.data;
    *end = room->text.length;
    if (i + 1 < json_array_size(messages)) {
        FT_TRY(render(c, messages, i + 1, tools, false, &room->other));
        if (!begins_with(&room->text, &room->other)) { // it is another text at a chat's end than inside of it
            FT_TRY(common_up_to(c, messages, i + 1, tools, room, end));
            return *end > begin && last_end(c, text, begin, end) ? FT_OK : unknown_turn(i, "ends");
        }
        *end = room->other.length;
    }
    *end = closed(c, text, begin, *end);
    return *end >= begin ? FT_OK : unknown_turn(i, "ends");
}

// ---- tokens --------------------------------------------------------------------------------------------------------

// Tokens in front of byte `at` of the text; a token that stands on both sides of it counts where `whole` says so.
static ft_status tokens_before(const ft_conversations *c, ft_conversation *room, const ft_token_ids *ids, size_t at, bool whole, size_t *count) {
    room->probe.count = 0;
    FT_TRY(ft_tokenizer_encode_bare(c->tokenizer, room->text.data, at, &room->probe));
    *count = ft_common_ids(ids, &room->probe);
    *count += whole && *count < room->probe.count && *count < ids->count;
    return FT_OK;
}

static ft_status learn(const ft_conversations *c, ft_conversation *room, const ft_token_ids *ids, size_t begin, size_t end, ft_learned *learned) {
    size_t first, last;
    FT_TRY(tokens_before(c, room, ids, begin, false, &first));
    FT_TRY(tokens_before(c, room, ids, end, true, &last));
    if (learned->count > 0 && first < learned->ranges[learned->count - 1].last) first = learned->ranges[learned->count - 1].last;
    return ft_learned_add(learned, first, last);
}

static ft_status find_turns(const ft_conversations *c, const json_t *messages, const json_t *tools, size_t from, ft_conversation *room,
                            const ft_token_ids *ids, ft_learned *learned) {
    size_t turn = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        size_t begin, end;
        if (!is_assistant(messages, i)) continue;
        const bool told = ft_chat_template_has_generations(c->chat);
        if (told) { // one for every assistant's message, in order
            if (turn == room->text.span_count) return unknown_turn(i, "is");
            begin = room->text.spans[turn].begin, end = room->text.spans[turn++].end;
        }
        if (i < from) continue;
        if (!told) FT_TRY(turn_begins(c, messages, i, tools, room, &begin));
        if (!told) FT_TRY(turn_ends(c, messages, i, tools, room, begin, &end));
        FT_TRY(learn(c, room, ids, begin, end, learned));
    }
    return FT_OK;
}

static ft_status encode(const ft_conversations *c, const json_t *messages, const json_t *tools, size_t from, bool all, ft_conversation *room,
                        ft_token_ids *ids, ft_learned *learned) {
    FT_TRY(render(c, messages, json_array_size(messages), tools, false, &room->text));
    FT_TRY(ft_tokenizer_encode_bare(c->tokenizer, room->text.data, room->text.length, ids));
    if (all) return ft_learned_add(learned, 0, ids->count);
    return find_turns(c, messages, tools, from, room, ids, learned);
}

ft_status ft_conversation_encode(const ft_conversations *c, const json_t *messages, const json_t *tools, size_t from, bool all, ft_conversation *room,
                                 ft_token_ids *ids, ft_learned *learned) {
    json_t *plain;
    ids->count = learned->count = 0;
    if (tools != NULL && !json_is_array(tools)) return ft_fail(FT_INVALID, NULL, "\"tools\" must be a list");
    FT_TRY(plain_messages(messages, &plain));
    const ft_status status = encode(c, plain, tools, from, all, room, ids, learned);
    json_decref(plain);
    return status;
}
