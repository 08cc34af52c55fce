// decode.c - ids to text, for byte-level BPE: what a model writes.
#include "base/json/json.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_tokenizer_read_decoder(ft_tokenizer *t, const ft_tokenizer_json *json) {
    const json_t *decoder = json_object_get(json->tokenizer, "decoder");
    t->decoder = NULL;
    if (t->kind != FT_MODEL_BYTE_PAIRS || t->byte_pairs.characters)
        t->decoder = "decoding ids to text is supported of byte-level BPE (Qwen, Llama 3, GPT-2, RoBERTa)";
    else if (json->as_is && strcmp(ft_text_type(decoder), "ByteLevel") != 0) {
        t->decoder = ft_arena_format(&t->arena, "the decoder %.60s of tokenizer.json is not supported; supported: ByteLevel", ft_text_type(decoder));
        if (t->decoder == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

ft_status ft_tokenizer_decodes(const ft_tokenizer *t) { return t->decoder == NULL ? FT_OK : ft_fail(FT_INVALID, NULL, "%s", t->decoder); }

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

static ft_status make_room(ft_decoded *out, size_t more) {
    if (out->capacity - out->length > more) return FT_OK;
    const size_t capacity = out->capacity + out->capacity / 2 + more + 64;
    char *text = ft_realloc(out->text, capacity, 1, "decoded text");
    if (text == NULL) return FT_NO_MEMORY;
    out->text = text, out->capacity = capacity;
    return FT_OK;
}

ft_status ft_tokenizer_decode_bytes(const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out) {
    FT_TRY(ft_tokenizer_decodes(t));
    for (size_t i = 0; i < count; i++) {
        const int32_t id = ids[i];
        if (id < 0 || id >= t->vocabulary.count) return ft_fail(FT_INVALID, NULL, "%d is no token: there are %d", id, t->vocabulary.count);
        if (skip_special && ft_tokenizer_is_special(t, id)) continue;
        const char *token = t->vocabulary.token[id];
        const size_t length = t->vocabulary.length[id];
        FT_TRY(make_room(out, length));
        size_t bytes = ft_byte_level_bytes(token, length, out->text + out->length);
        if (bytes == 0 && length > 0) memcpy(out->text + out->length, token, bytes = length); // an added token that is no stand-in: as it is
        out->length += bytes;
    }
    FT_TRY(make_room(out, 0));
    out->text[out->length] = '\0';
    return FT_OK;
}

ft_status ft_tokenizer_decode(const ft_tokenizer *t, const int32_t *ids, size_t count, bool skip_special, ft_decoded *out) {
    const size_t begin = out->length;
    char *repaired;
    size_t length;
    const ft_status status = ft_tokenizer_decode_bytes(t, ids, count, skip_special, out);
    if (status != FT_OK) return out->length = begin, status;
    if (ft_utf8_valid_prefix(out->text + begin, out->length - begin) == out->length - begin) return FT_OK;
    FT_TRY(ft_utf8_repair(out->text + begin, out->length - begin, &repaired, &length));
    out->length = begin;
    const ft_status grown = make_room(out, length);
    if (grown == FT_OK) {
        memcpy(out->text + begin, repaired, length);
        out->length = begin + length;
        out->text[out->length] = '\0';
    }
    free(repaired);
    return grown;
}
