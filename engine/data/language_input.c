// language_input.c - texts to go on with: at every token that is learned the one behind it is the label. Texts, prompts
// with their completions, and chats.
//
// As TRL's SFTTrainer has it: a text and a completion get the token that ends a text, unless they end with it; a
// completion begins where the tokens of prompt and completion differ from the prompt's own; a chat is what its template
// writes, and nothing is added to it. What is beyond max_length is cut off after that. Learned is a text whole, of a
// prompt the completion, of a chat what an assistant says (conversation.h).
#include "engine/data/batch.h"
#include "engine/data/conversation.h"
#include "engine/data/prompts.h"
#include "engine/data/text_input.h"
#include "engine/data/token_cache.h"

#include "base/arena.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spill.h"
#include "engine/data/tables/records.h"

#include <stdlib.h>
#include <string.h>

typedef struct language {
    ft_texts texts; // first: what text_input.h has about it is of these too
    ft_conversations chats;
    bool learn_all;
    char digest[65];
} language;

typedef struct building {
    const language *own;
    const ft_input_wanted *wanted;
    ft_conversation chat;
    ft_token_ids ids, prompt;
    ft_learned learned;
    char *joined; // texts put together
    size_t joined_room;
    int64_t token_room, read_room, reads;
    int64_t moved;   // prompts whose last tokens are others with the completion behind them
    int64_t first_moved;
} building;

// ---- texts ---------------------------------------------------------------------------------------------------------
static bool ends_with(const char *text, size_t length, const char *end, size_t end_length) {
    return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

// Two texts behind each other, and what ends a text; in b->joined.
static ft_status join(building *b, const char *first, size_t first_length, const char *second, size_t second_length, size_t *length) {
    const ft_tokenizer *t = b->own->texts.tokenizer;
    const int32_t id = ft_tokenizer_role_id(t, "eos_token");
    if (id < 0 && !ft_tokenizer_closes(t)) {
        ft_fail(FT_INVALID, "tokenizer_config.json", "no \"eos_token\": nothing tells where a text ends");
        ft_hint("\"eos_token\": \"<|endoftext|>\", or whichever the model has");
        return FT_INVALID;
    }
    const char *end = id >= 0 ? ft_tokenizer_token(t, id) : ""; // else the tokenizer puts one behind every text
    const size_t end_length = strlen(end), most = first_length + second_length + end_length + 1;
    const bool ended = second != NULL ? ends_with(second, second_length, end, end_length) : ends_with(first, first_length, end, end_length);
    if (most > b->joined_room) {
        char *joined = ft_realloc(b->joined, most + most / 2, 1, "texts");
        if (joined == NULL) return FT_NO_MEMORY;
        b->joined = joined, b->joined_room = most + most / 2;
    }
    if (first_length > 0) memcpy(b->joined, first, first_length);
    if (second_length > 0) memcpy(b->joined + first_length, second, second_length);
    *length = first_length + second_length;
    if (!ended) memcpy(b->joined + *length, end, end_length);
    *length += ended ? 0 : end_length;
    return FT_OK;
}

static ft_status encode_text(building *b, const char *text, size_t text_length) {
    size_t length;
    FT_TRY(join(b, text, text_length, NULL, 0, &length));
    FT_TRY(ft_tokenizer_encode(b->own->texts.tokenizer, b->joined, length, 0, &b->ids));
    return ft_learned_add(&b->learned, 0, b->ids.count);
}

static ft_status encode_completion(building *b, int64_t row, const char *prompt, size_t prompt_length, const char *completion,
                                   size_t completion_length) {
    const ft_tokenizer *t = b->own->texts.tokenizer;
    size_t length;
    FT_TRY(join(b, prompt, prompt_length, completion, completion_length, &length));
    FT_TRY(ft_tokenizer_encode(t, b->joined, length, 0, &b->ids));
    b->prompt.count = 0;
    FT_TRY(ft_tokenizer_encode(t, prompt, prompt_length, 0, &b->prompt));
    const size_t common = ft_common_ids(&b->ids, &b->prompt);
    if (common < b->prompt.count && b->moved++ == 0) b->first_moved = row;
    return ft_learned_add(&b->learned, b->own->learn_all ? 0 : common, b->ids.count);
}

static bool is_json(const char *cell) { return cell[0] == FT_JSON_CELL; } // of JSON lines, whose strings are UTF-8

static ft_status parse_cell(const char *cell, json_t **out) {
    *out = NULL;
    return ft_json_parse(cell + 1, strlen(cell + 1), "", out);
}

// A list that is given as one, or as the text of it, as data sets have tools.
static ft_status parse_tools(const char *cell, json_t **out) {
    *out = NULL;
    if (cell == NULL || *cell == '\0') return FT_OK;
    if (is_json(cell)) return parse_cell(cell, out);
    if (ft_json_parse(cell, strlen(cell), "", out) == FT_OK) return FT_OK;
    return ft_error_code() == FT_INVALID ? ft_fail(FT_INVALID, NULL, "\"tools\" is no JSON list") : ft_error_code();
}

static ft_status encode_chat(building *b, const char *messages, const char *tools) {
    json_t *list, *tool_list = NULL;
    FT_TRY(parse_cell(messages, &list));
    ft_status status = parse_tools(tools, &tool_list);
    if (status == FT_OK) status = ft_conversation_encode(&b->own->chats, list, tool_list, 0, b->own->learn_all, &b->chat, &b->ids, &b->learned);
    json_decref(list);
    json_decref(tool_list);
    return status;
}

// Messages that are the prompt, and messages that answer it.
static ft_status encode_answer(building *b, const char *prompt, const char *completion) {
    json_t *list, *answer = NULL;
    FT_TRY(parse_cell(prompt, &list));
    ft_status status = parse_cell(completion, &answer);
    const size_t from = json_array_size(list);
    if (status == FT_OK && (!json_is_array(list) || !json_is_array(answer)))
        status = ft_fail(FT_INVALID, NULL, "a prompt and a completion are two texts, or two lists of messages");
    if (status == FT_OK && json_array_extend(list, answer) != 0) status = ft_fail_memory(0, "messages");
    if (status == FT_OK) status = ft_conversation_encode(&b->own->chats, list, NULL, from, b->own->learn_all, &b->chat, &b->ids, &b->learned);
    json_decref(list);
    json_decref(answer);
    return status;
}

static ft_status encode_row(building *b, int64_t row) {
    const ft_table *t = b->wanted->table;
    const char *text = t->text[row], *pair = t->pair != NULL ? t->pair[row] : NULL;
    const bool completions = pair != NULL && strcmp(t->pair_column, "tools") != 0;
    b->ids.count = b->learned.count = 0;
    if (t->format != FT_FORMAT_JSONL && completions) return encode_completion(b, row, text, t->text_length[row], pair, t->pair_length[row]);
    if (t->format != FT_FORMAT_JSONL) return encode_text(b, text, t->text_length[row]);
    if (completions && is_json(text) != is_json(pair))
        return ft_fail(FT_INVALID, NULL, "a prompt and a completion are two texts, or two lists of messages");
    if (completions && is_json(text)) return encode_answer(b, text, pair);
    if (completions) return encode_completion(b, row, text, t->text_length[row], pair, t->pair_length[row]);
    if (is_json(text)) return encode_chat(b, text, pair);
    if (pair != NULL || strcmp(t->text_column, "messages") == 0)
        return ft_fail(FT_INVALID, NULL, "there is no list of messages here (\"%.60s\")", t->text_column);
    return encode_text(b, text, t->text_length[row]);
}

// ---- rows of a data set -------------------------------------------------------------------------------------------
static ft_status make_room(building *b, ft_dataset *d, size_t tokens) {
    const int64_t all = d->tokens + (int64_t)tokens, reads = b->reads + (int64_t)tokens;
    if (all > b->token_room) {
        b->token_room = all + all / 4 + 64;
        FT_SPILL_GROW(d->ids, b->token_room, "tokenised text");
    }
    if (reads > b->read_room || b->read_room == 0) {
        b->read_room = reads + reads / 4 + 64;
        FT_SPILL_GROW(d->read_position, b->read_room, "rows that are read");
        FT_SPILL_GROW(d->label, b->read_room, "tokens to learn");
    }
    return FT_OK;
}

// Of what is learned all that is left of the text, at the token in front of each; nothing stands in front of the first.
static void take_reads(building *b, size_t begin, size_t count, ft_dataset *d) {
    for (size_t i = 0; i < b->learned.count; i++) {
        const ft_token_range *r = &b->learned.ranges[i];
        for (size_t k = r->first > begin + 1 ? r->first : begin + 1; k < r->last && k < begin + count; k++) {
            d->label[b->reads] = b->ids.ids[k];
            d->read_position[b->reads++] = (int32_t)(k - begin - 1);
        }
    }
}

static ft_status take_row(building *b, int64_t row, ft_dataset *d) {
    const size_t most = b->wanted->max_length > 0 ? (size_t)b->wanted->max_length : SIZE_MAX, all = b->ids.count;
    const size_t count = all < most ? all : most, begin = b->own->texts.rule.kind == FT_LONG_TAIL ? all - count : 0;
    if (count == 0) return ft_fail(FT_INVALID, NULL, "this text has no tokens");
    if (count > INT32_MAX) return ft_fail(FT_INVALID, NULL, "this text has more than %d tokens", INT32_MAX);
    FT_TRY(make_room(b, d, count));
    memcpy(d->ids + d->tokens, b->ids.ids + begin, count * sizeof *d->ids);
    d->offset[row + 1] = d->offset[row] + (int64_t)count;
    take_reads(b, begin, count, d);
    d->first_read[row + 1] = d->first_row[row + 1] = b->reads;
    if ((int32_t)count > d->longest) d->longest = (int32_t)count;
    d->tokens += (int64_t)count;
    d->truncated += count < all;
    d->sequences++;
    return FT_OK;
}

static ft_status keep(building *b, ft_dataset *d) {
    FT_SPILL_GROW(d->ids, d->tokens, "tokenised text");
    FT_SPILL_GROW(d->read_position, b->reads + 1, "rows that are read");
    FT_SPILL_GROW(d->label, b->reads + 1, "tokens to learn");
    ft_dataset_settle(d);
    d->moved = b->moved;
    d->first_moved = b->first_moved;
    return FT_OK;
}

static ft_status build_all(building *b, ft_dataset *d) {
    const ft_table *t = b->wanted->table;
    if (t->rows > INT32_MAX) return ft_fail(FT_INVALID, b->wanted->path, "more than %d texts", INT32_MAX);
    d->examples = t->rows;
    memcpy(d->sha256, t->sha256, sizeof d->sha256);
    FT_SPILL_GROW(d->first_row, d->examples + 1, "rows that are read");
    FT_SPILL_GROW(d->first_read, d->examples + 1, "rows that are read");
    FT_SPILL_GROW(d->offset, d->examples + 1, "tokenised text");
    d->first_row[0] = d->first_read[0] = d->offset[0] = 0;
    for (int64_t row = 0; row < t->rows; row++) {
        ft_status status = encode_row(b, row);
        if (status == FT_OK) status = take_row(b, row, d);
        char where[512], place[512];
        if (status == FT_INVALID) { // a template's own place is said, and then this one
            snprintf(place, sizeof place, "%s", ft_error_where());
            ft_table_where(t, b->wanted->path, row, where);
            if (place[0] != '\0')
                ft_hint("of the text at %s", where);
            else
                ft_error_where_default("%s", where);
        }
        FT_TRY(status);
    }
    return keep(b, d);
}

// What the texts come to, wherever their tokens are from.
static ft_status judge(const ft_input_wanted *w, const ft_dataset *d) {
    char where[512];
    int64_t without = 0, first = 0;
    for (int64_t i = 0; i < d->examples; i++)
        if (d->first_read[i + 1] == d->first_read[i] && without++ == 0) first = i;
    if (w->labels != NULL && d->first_read[d->examples] == 0) {
        ft_fail(FT_INVALID, w->path, "there is no token to learn in it");
        if (d->truncated > 0)
            ft_hint("%lld of %lld texts are longer than data.max_length = %d: what is behind it is cut off", (long long)d->truncated,
                    (long long)d->examples, w->max_length);
        return FT_INVALID;
    }
    if (w->labels == NULL) return FT_OK; // nothing is learned of them
    if (without > 0)
        ft_warn("of %lld of %lld texts no token is learned, the first one at %s: completion or answers are empty, or "
                "behind data.max_length = %d",
                (long long)without, (long long)d->examples, ft_table_where(w->table, w->path, first, where), w->max_length);
    if (d->moved > 0)
        ft_warn("the tokens at the end of %lld of %lld prompts are others where the completion follows, the first one "
                "at %s: the model learns to go on "
                "with tokens that it will not be given; a prompt that ends in front of a space or a line's end has "
                "none of it",
                (long long)d->moved, (long long)d->examples, ft_table_where(w->table, w->path, d->first_moved, where));
    return FT_OK;
}

// From the cache, or made and put there.
static ft_status find_or_build(building *b, ft_dataset *d, bool *from_cache) {
    const ft_input_wanted *w = b->wanted;
    const ft_table *t = w->table;
    ft_token_cache_want want;
    bool stored, mapped;
    if (w->cache_dir == NULL) return build_all(b, d);
    ft_token_cache_want_of_language(t, b->own->digest, ft_tokenizer_vocabulary(b->own->texts.tokenizer), w->max_length, &b->own->texts.rule, &want);
    FT_TRY(ft_token_cache_load(w->cache_dir, &want, d, from_cache));
    memcpy(d->sha256, t->sha256, sizeof d->sha256);
    if (*from_cache) return FT_OK;
    FT_TRY(build_all(b, d));
    ft_token_cache_store(w->cache_dir, &want, d, &stored);
    // What is large is read where the next run will find it from here on: in scratch files it would lie on the disk twice.
    const bool large = ft_dataset_host_bytes(d) > FT_SPILL_FROM || ft_spill_host_bytes(d->ids) == 0;
    if (stored && large && ft_token_cache_load(w->cache_dir, &want, d, &mapped) != FT_OK)
        ft_error_clear(); // no addresses for both: it stays where it is
    return FT_OK;
}

static ft_status build(const void *own, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache) {
    building b = {.own = own, .wanted = wanted};
    *dataset = (ft_dataset){.examples = 0};
    bool found = false;
    ft_status status = find_or_build(&b, dataset, &found);
    if (status == FT_OK) status = judge(wanted, dataset);
    if (from_cache != NULL) *from_cache = found;
    if (status != FT_OK) ft_dataset_free(dataset);
    ft_conversation_free(&b.chat);
    free(b.ids.ids);
    free(b.prompt.ids);
    free(b.learned.ranges);
    free(b.joined);
    return status;
}

// ---- opening -------------------------------------------------------------------------------------------------------
static void make_digest(language *l) {
    unsigned char bytes[32];
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, ft_tokenizer_digest(l->texts.tokenizer), 64);
    ft_sha256_add(&hash, l->chats.sha256, 64);
    ft_sha256_add(&hash, l->learn_all ? "all" : "own", 3);
    ft_sha256_end(&hash, bytes);
    ft_sha256_hex(bytes, l->digest);
}

static void close_language(void *own) {
    language *l = own;
    if (l == NULL) return;
    ft_conversations_close(&l->chats);
    ft_tokenizer_close(l->texts.tokenizer);
    free(l);
}

static ft_status open_language(const ft_input_request *request, void **own) {
    const ft_tokenizer_rules rules = request->rules == FT_TOKENIZE_AS_TRANSFORMERS ? FT_RULES_TRANSFORMERS : FT_RULES_FILES;
    language *l = ft_calloc(1, sizeof *l, "an input");
    if (l == NULL) return FT_NO_MEMORY;
    *own = l;
    l->learn_all = request->learn_all;
    FT_TRY(ft_tokenizer_open_lower(request->directory, rules, request->lower_case, &l->texts.tokenizer));
    FT_TRY(ft_long_text_parse(request->truncation, "data.truncation", &l->texts.rule));
    if (l->texts.rule.kind != FT_LONG_HEAD && l->texts.rule.kind != FT_LONG_TAIL)
        return ft_fail(FT_INVALID, "data.truncation", "of texts to go on with the head or the tail stays, not \"%s\"", request->truncation);
    FT_TRY(ft_conversations_open(request->directory, request->chat_template, request->chat_variables, l->texts.tokenizer, &l->chats));
    make_digest(l);
    return FT_OK;
}

const ft_tokenizer *ft_language_tokenizer(const ft_input *input) { return ((const language *)input->own)->texts.tokenizer; }
const ft_conversations *ft_language_conversations(const ft_input *input) { return &((const language *)input->own)->chats; }

static const char *digest(const void *own) { return ((const language *)own)->digest; }

const ft_input_kind ft_language_input = {.name = "language",
                                         .open = open_language,
                                         .close = close_language,
                                         .sizes = ft_texts_sizes,
                                         .digest = digest,
                                         .files = ft_texts_files,
                                         .build = build,
                                         .length = ft_texts_length,
                                         .fill = ft_texts_fill};
