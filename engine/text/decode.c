// decode.c - ids to text, for byte-level BPE and for BPE over characters: what a model writes.
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

// ---- what the file says -----------------------------------------------------------------------------------------------

static bool has_string(const json_t *object, const char *key, const char *value) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && strcmp(text, value) == 0;
}

static bool has_number(const json_t *object, const char *key, double least, double most, double *out) {
    const json_t *value = json_object_get(object, key);
    *out = json_is_number(value) ? json_number_value(value) : -1;
    return *out >= least && *out <= most;
}

// The steps of Llama 2 and Gemma, any of them but in this order: "\xE2\x96\x81" becomes a space, bytes become characters, all of it one
// text, spaces in front of it go.
enum { REPLACE, BYTE_FALLBACK, FUSE, STRIP, STEPS };

static bool read_step(const json_t *step, int *last, ft_text_decoder *d) {
    static const char *const names[STEPS] = {"Replace", "ByteFallback", "Fuse", "Strip"};
    const int before = *last;
    double number;
    for (int i = before + 1; i < STEPS; i++)
        if (strcmp(ft_text_type(step), names[i]) == 0) *last = i;
    if (*last == before) return false;
    if (*last == BYTE_FALLBACK) d->byte_fallback = true;
    if (*last == REPLACE) return has_string(json_object_get(step, "pattern"), "String", FT_SPACE_MARK) && has_string(step, "content", " ");
    if (*last != STRIP) return true;
    if (before != FUSE || !has_string(step, "content", " ") || !has_number(step, "stop", 0, 0, &number) || !has_number(step, "start", 0, 1 << 20, &number)) return false;
    d->strip = (int64_t)number;
    return true;
}

static bool read_sequence(const json_t *list, ft_text_decoder *d) {
    int last = -1;
    const size_t count = json_array_size(list);
    if (count == 0 || strcmp(ft_text_type(json_array_get(list, 0)), "Replace") != 0) return false;
    for (size_t i = 0; i < count; i++)
        if (!read_step(json_array_get(list, i), &last, d)) return false;
    return true;
}

static bool read_metaspace(const json_t *decoder, ft_text_decoder *d) {
    const json_t *add = json_object_get(decoder, "add_prefix_space"), *scheme = json_object_get(decoder, "prepend_scheme");
    d->first_bare = scheme != NULL ? !has_string(decoder, "prepend_scheme", "never") : !json_is_false(add);
    return has_string(decoder, "replacement", FT_SPACE_MARK);
}

static bool read_characters(const json_t *decoder, ft_text_decoder *d) {
    *d = (ft_text_decoder){.kind = FT_DECODE_CHARACTERS};
    if (strcmp(ft_text_type(decoder), "Metaspace") == 0) return read_metaspace(decoder, d);
    return strcmp(ft_text_type(decoder), "Sequence") == 0 && read_sequence(json_object_get(decoder, "decoders"), d);
}

static ft_status cannot(ft_tokenizer *t, const json_t *decoder, const char *supported) {
    t->no_decoder = ft_arena_format(&t->arena, "the decoder %.60s of tokenizer.json is not supported; supported: %s", ft_text_type(decoder), supported);
    return t->no_decoder != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_tokenizer_read_decoder(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const json_t *decoder = json_object_get(json->tokenizer, "decoder");
    t->decoder = (ft_text_decoder){.kind = FT_DECODE_BYTE_LEVEL};
    t->no_decoder = NULL;
    if (t->kind != FT_MODEL_BYTE_PAIRS)
        t->no_decoder = "decoding ids to text is supported of byte-level BPE (Qwen, Llama 3, GPT-2, RoBERTa) and of BPE over characters (Llama 2, Gemma)";
    else if (t->byte_pairs.characters)
        return read_characters(decoder, &t->decoder) ? FT_OK : cannot(t, decoder, "Metaspace, and a Sequence of Replace (U+2581 by a space), ByteFallback, Fuse and Strip (in front)");
    else if (json->as_is && strcmp(ft_text_type(decoder), "ByteLevel") != 0) return cannot(t, decoder, "ByteLevel");
    return FT_OK;
}

ft_status ft_tokenizer_decodes(const ft_tokenizer *t) { return t->no_decoder == NULL ? FT_OK : ft_fail(FT_INVALID, NULL, "%s", t->no_decoder); }

bool ft_tokenizer_decodes_apart(const ft_tokenizer *t) { return t->decoder.kind == FT_DECODE_BYTE_LEVEL; }

bool ft_tokenizer_is_special(const ft_tokenizer *t, int32_t id) {
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == id) return t->added[i].special;
    return false;
}

size_t ft_tokenizer_special_end(const ft_tokenizer *t, const char *text, size_t length) {
    size_t longest = 0;
    for (size_t i = 0; i < t->added_count; i++) {
        const ft_added_token *a = &t->added[i];
        if (a->special && a->length > longest && a->length <= length && memcmp(text + length - a->length, a->content, a->length) == 0)
            longest = a->length;
    }
    return longest;
}

// ---- bytes --------------------------------------------------------------------------------------------------------------

static ft_status make_room(ft_decoded *out, size_t more) {
    if (out->capacity - out->length > more) return FT_OK;
    const size_t capacity = out->capacity + out->capacity / 2 + more + 64;
    char *text = ft_realloc(out->text, capacity, 1, "decoded text");
    if (text == NULL) return FT_NO_MEMORY;
    out->text = text, out->capacity = capacity;
    return FT_OK;
}

static ft_status put(ft_decoded *out, const char *text, size_t length) {
    FT_TRY(make_room(out, length));
    memcpy(out->text + out->length, text, length);
    out->length += length;
    return FT_OK;
}

static int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// "<0x0A>"; -1: it is no such token.
static int byte_of(const char *token, size_t length) {
    if (length != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>' || digit_of(token[3]) < 0 || digit_of(token[4]) < 0) return -1;
    return digit_of(token[3]) * 16 + digit_of(token[4]);
}

static ft_status put_bytes(const char *token, size_t length, ft_decoded *out) {
    FT_TRY(make_room(out, length));
    size_t bytes = ft_byte_level_bytes(token, length, out->text + out->length);
    if (bytes == 0 && length > 0) memcpy(out->text + out->length, token, bytes = length); // an added token that is no stand-in: as it is
    out->length += bytes;
    return FT_OK;
}

// bare: U+2581 is nothing, else a space.
static ft_status put_characters(const char *token, size_t length, bool bare, ft_decoded *out) {
    const size_t mark = strlen(FT_SPACE_MARK);
    for (size_t i = 0; i < length;) {
        const bool space = length - i >= mark && memcmp(token + i, FT_SPACE_MARK, mark) == 0;
        if (!space || !bare) FT_TRY(put(out, space ? " " : token + i, 1));
        i += space ? mark : 1;
    }
    return FT_OK;
}

// Bytes from `begin` on are no text: U+FFFD in place of each.
static ft_status mark_bytes(ft_decoded *out, size_t begin) {
    const size_t count = out->length - begin;
    if (ft_utf8_valid_prefix(out->text + begin, count) == count) return FT_OK;
    out->length = begin;
    for (size_t i = 0; i < count; i++) FT_TRY(put(out, "\xEF\xBF\xBD", 3));
    return FT_OK;
}

static void strip(ft_decoded *out, size_t begin, int64_t most) {
    size_t spaces = 0;
    while ((int64_t)spaces < most && begin + spaces < out->length && out->text[begin + spaces] == ' ') spaces++;
    memmove(out->text + begin, out->text + begin + spaces, out->length - begin - spaces);
    out->length -= spaces;
}

// whole: what is no UTF-8 becomes U+FFFD.
static ft_status decode(const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, bool whole, ft_decoded *out) {
    const ft_text_decoder *d = &t->decoder;
    const size_t begin = out->length;
    size_t bytes_from = SIZE_MAX; // where bytes of byte tokens begin that nothing else has followed yet
    bool first = true;
    FT_TRY(ft_tokenizer_decodes(t));
    for (size_t i = 0; i < count; i++) {
        const int32_t id = ids[i];
        if (id < 0 || id >= t->vocabulary.count) return ft_fail(FT_INVALID, NULL, "%d is no token: there are %d", id, t->vocabulary.count);
        if (skip_special && ft_tokenizer_is_special(t, id)) continue;
        const char *token = t->vocabulary.token[id];
        const size_t length = t->vocabulary.length[id];
        const int byte = d->byte_fallback ? byte_of(token, length) : -1;
        if (byte < 0 && bytes_from != SIZE_MAX) {
            if (whole) FT_TRY(mark_bytes(out, bytes_from));
            bytes_from = SIZE_MAX;
        }
        if (byte >= 0 && bytes_from == SIZE_MAX) bytes_from = out->length;
        if (byte >= 0) FT_TRY(put(out, &(char){(char)byte}, 1));
        else if (d->kind == FT_DECODE_CHARACTERS) FT_TRY(put_characters(token, length, first && d->first_bare, out));
        else FT_TRY(put_bytes(token, length, out));
        first = false;
    }
    if (bytes_from != SIZE_MAX && whole) FT_TRY(mark_bytes(out, bytes_from));
    FT_TRY(make_room(out, 0));
    if (d->kind == FT_DECODE_CHARACTERS) strip(out, begin, d->strip);
    out->text[out->length] = '\0';
    return FT_OK;
}

ft_status ft_tokenizer_decode_bytes(const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out) {
    return decode(t, ids, count, skip_special, false, out);
}

ft_status ft_tokenizer_decode(const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out) {
    const size_t begin = out->length;
    char *repaired;
    size_t length;
    const ft_status status = decode(t, ids, count, skip_special, true, out);
    if (status != FT_OK) return out->length = begin, status;
    if (ft_utf8_valid_prefix(out->text + begin, out->length - begin) == out->length - begin) return FT_OK;
    FT_TRY(ft_utf8_repair(out->text + begin, out->length - begin, &repaired, &length));
    out->length = begin;
    const ft_status grown = put(out, repaired, length); // which leaves room for the NUL
    if (grown == FT_OK) out->text[out->length] = '\0';
    free(repaired);
    return grown;
}
