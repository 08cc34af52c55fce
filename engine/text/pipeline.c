#include "engine/text/pipeline.h"

#include "base/utf8.h"
#include "engine/text/unicode/text_classes.h"
#include "engine/text/unicode/unicode.h"

#include <string.h>

static bool is_white(uint32_t code) { return (ft_char_flags(code) & FT_CHAR_WHITE) != 0; }

static ft_status put(ft_text_buffer *out, const char *text, size_t length) {
    if (length == 0) return FT_OK; // an empty buffer has no place to copy to
    FT_TRY(ft_text_reserve(out, length));
    memcpy(out->data + out->count, text, length);
    out->count += length;
    return FT_OK;
}

static ft_status lower(const char *text, size_t length, ft_text_buffer *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    while (p < end) {
        FT_TRY(ft_text_reserve(out, (size_t)(end - p) + 8));
        for (; p < end && *p < 0x80; p++)
            out->data[out->count++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        if (p == end) break;
        uint32_t parts[2];
        int count = ft_char_lower(ft_utf8_next(&p), parts);
        for (int i = 0; i < count; i++)
            out->count += ft_utf8_put(parts[i], out->data + out->count);
    }
    return FT_OK;
}

static ft_status strip_accents(const char *text, size_t length, ft_text_buffer *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    FT_TRY(ft_text_reserve(out, length));
    while (p < end) {
        const unsigned char *start = p;
        if (ft_char_is_mark(ft_utf8_next(&p))) continue;
        memcpy(out->data + out->count, start, (size_t)(p - start));
        out->count += (size_t)(p - start);
    }
    return FT_OK;
}

static void strip(const ft_rewrite *r, const char **text, size_t *length) {
    const unsigned char *p = (const unsigned char *)*text, *end = p + *length, *next;
    while (r->left && p < end && (next = p, is_white(ft_utf8_next(&next))))
        p = next;
    while (r->right && p < end) {
        const unsigned char *last = end - 1;
        while ((*last & 0xC0) == 0x80)
            last--;
        next = last;
        if (!is_white(ft_utf8_next(&next))) break;
        end = last;
    }
    *text = (const char *)p, *length = (size_t)(end - p);
}

// Bytes of the match at `text`, 0 if there is none.
static size_t match(const ft_rewrite *r, const char *text, size_t length) {
    if (r->pattern == FT_REPLACE_TEXT)
        return r->from_length <= length && memcmp(text, r->from, r->from_length) == 0 ? r->from_length : 0;
    const unsigned char *p = (const unsigned char *)text, *end = p + length, *next;
    size_t count = 0;
    while (p < end) {
        next = p;
        uint32_t code = ft_utf8_next(&next);
        if (r->pattern == FT_REPLACE_SPACES ? code != ' ' : ft_char_pattern(code) != FT_PATTERN_SPACE) break;
        p = next;
        count++;
    }
    if (count >= 2) return (size_t)(p - (const unsigned char *)text);
    return r->pattern == FT_REPLACE_BLANKS && count == 1 && (*text == '\n' || *text == '\r' || *text == '\t');
}

static bool may_match(const ft_rewrite *r, char c) {
    if (r->pattern == FT_REPLACE_TEXT) return c == r->from[0];
    if (r->pattern == FT_REPLACE_SPACES) return c == ' ';
    return c == ' ' || (c >= '\t' && c <= '\r') || (signed char)c < 0;
}

static ft_status replace(const ft_rewrite *r, const char *text, size_t length, ft_text_buffer *out, bool *kept_start) {
    for (size_t at = 0; at < length;) {
        size_t from = at, found = 0;
        while (at < length && (!may_match(r, text[at]) || ((unsigned char)text[at] & 0xC0) == 0x80 ||
                               (found = match(r, text + at, length - at)) == 0))
            at++;
        FT_TRY(put(out, text + from, at - from));
        if (at == length) break;
        FT_TRY(put(out, r->to, r->to_length));
        *kept_start = *kept_start && at > 0;
        at += found;
    }
    return FT_OK;
}

ft_status ft_pipeline_run(const ft_pipeline *pipeline, const char *text, size_t length, ft_pipeline_scratch *scratch,
                          const char **form, size_t *form_length, bool *kept_start) {
    *kept_start = true;
    for (size_t i = 0, turn = 0; i < pipeline->count; i++) {
        const ft_rewrite *r = &pipeline->rewrites[i];
        const char *before = text;
        ft_text_buffer *out = &scratch->buffers[turn];
        if (r->kind == FT_REWRITE_STRIP) {
            strip(r, &text, &length);
            *kept_start = *kept_start && text == before;
            continue;
        }
        out->count = 0;
        switch (r->kind) {
        case FT_REWRITE_BERT: FT_TRY(ft_normalize(&r->bert, text, length, out)); break;
        case FT_REWRITE_CHARSMAP: FT_TRY(ft_charsmap_apply(&r->charsmap, text, length, out, kept_start)); break;
        case FT_REWRITE_FORM: FT_TRY(ft_normal_form_apply(r->form, text, length, out)); break;
        case FT_REWRITE_LOWER: FT_TRY(lower(text, length, out)); break;
        case FT_REWRITE_STRIP_ACCENTS: FT_TRY(strip_accents(text, length, out)); break;
        case FT_REWRITE_PREPEND:
            if (length > 0) FT_TRY(put(out, r->to, r->to_length));
            FT_TRY(put(out, text, length));
            break;
        default: FT_TRY(replace(r, text, length, out, kept_start)); break;
        }
        text = out->count > 0 ? out->data : "", length = out->count;
        turn = !turn;
    }
    *form = text, *form_length = length;
    return FT_OK;
}
