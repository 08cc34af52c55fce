// offsets.c - tokens are found in the normalised text (pieces.c), and that is laid beside the text it was made of, a cluster of characters after the
// other: what a cluster becomes by itself is what stands for it. The normaliser's steps need not know of it.
#include "engine/text/offsets.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/unicode/text_classes.h"
#include "engine/text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 16 }; // that may become something together which they do not become alone

// Byte i of a form stands for bytes [from[i], to[i]) of the text.
typedef struct ft_alignment {
    ft_token_ids from, to;
    ft_pipeline_scratch scratch;
    ft_text_buffer piece;
    const ft_pipeline *pipeline;
    char ascii[128][2]; // what an ASCII character becomes alone, where that is one; [1]: is it known?
} ft_alignment;

static ft_status stand_for(ft_alignment *a, size_t bytes, size_t from, size_t to) {
    FT_TRY(ft_token_ids_reserve(&a->from, bytes));
    FT_TRY(ft_token_ids_reserve(&a->to, bytes));
    for (size_t i = 0; i < bytes; i++) {
        a->from.ids[a->from.count++] = (int32_t)from;
        a->to.ids[a->to.count++] = (int32_t)to;
    }
    return FT_OK;
}

static bool is_white(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    return ft_char_pattern(ft_utf8_next(&p)) == FT_PATTERN_SPACE;
}

static size_t character(const char *text) {
    const unsigned char c = (unsigned char)*text;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// A cluster of characters, or all white space that stands together.
static size_t unit(const char *text, size_t length, bool *white) {
    const unsigned char *p = (const unsigned char *)text;
    *white = false;
    if (p[0] > ' ' && p[0] < 0x7F && (length == 1 || p[1] < 0x80)) return 1;
    size_t end = 0;
    while (end < length && is_white(text + end)) end += character(text + end);
    *white = end > 0;
    return end > 0 ? end : ft_grapheme(text, length);
}

// What [at, end) of a text becomes by itself. White space stands between letters where it does so in the text.
static ft_status form_of(ft_alignment *a, const char *text, size_t length, size_t at, size_t end, bool white, const char **form, size_t *count) {
    bool kept;
    if (!white) return ft_pipeline_run(a->pipeline, text + at, end - at, &a->scratch, form, count, &kept);
    const size_t before = at > 0, behind = end < length;
    a->piece.count = 0;
    FT_TRY(ft_text_reserve(&a->piece, end - at + 2));
    a->piece.data[0] = 'a';
    memcpy(a->piece.data + before, text + at, end - at);
    a->piece.data[before + end - at] = 'a';
    FT_TRY(ft_pipeline_run(a->pipeline, a->piece.data, before + end - at + behind, &a->scratch, form, count, &kept));
    if (*count < before + behind) return *count = 0, FT_OK;
    *form += before;
    *count -= before + behind;
    return FT_OK;
}

static bool begins_so(const char *form, size_t length, const char *with, size_t count) {
    return count <= length && memcmp(form, with, count) == 0;
}

static size_t characters(const char *text, size_t at, size_t end) {
    size_t count = 0;
    for (; at < end; at += character(text + at)) count++;
    return count;
}

static bool composes(const ft_pipeline *p) {
    for (size_t i = 0; i < p->count; i++)
        if (p->rewrites[i].kind == FT_REWRITE_FORM) return true;
    return false;
}

// The characters of a cluster that became form[0 .. count): each for itself where that comes to the same, else the first for the first and so on,
// as the library takes it; of a normal form the ones that went are those behind the first.
static ft_status divide(ft_alignment *a, const char *text, size_t at, size_t end, const char *form, size_t count) {
    const size_t first = a->from.count;
    size_t done = 0;
    for (size_t c = at, n; c < end; c += n) {
        const char *own;
        size_t bytes;
        n = character(text + c);
        FT_TRY(form_of(a, text, end, c, c + n, false, &own, &bytes));
        if (!begins_so(form + done, count - done, own, bytes)) break;
        FT_TRY(stand_for(a, bytes, c, c + n));
        done += bytes;
        if (c + n == end && done == count) return FT_OK;
    }
    a->from.count = a->to.count = first;
    const size_t before = characters(text, at, end), behind = characters(form, 0, count);
    size_t c = at, skip = composes(a->pipeline) && before > behind ? before - behind : 0;
    for (size_t i = 0, n; i < count; i += n) {
        n = character(form + i);
        FT_TRY(stand_for(a, n, c, c + character(text + c)));
        for (size_t k = 0; k < 1 + skip && c + character(text + c) < end; k++) c += character(text + c);
        skip = 0;
    }
    return FT_OK;
}

static ft_status take_unit(ft_alignment *a, const char *text, size_t at, size_t end, bool white, const char *form, size_t count) {
    if (white || end - at == character(text + at)) return stand_for(a, count, at, end);
    return divide(a, text, at, end, form, count);
}

// A plain ASCII character that becomes one, without a look at the pipeline. false: it is no such.
static ft_status one_character(ft_alignment *a, const char *text, size_t at, size_t end, const char *form, size_t left, bool *taken) {
    const unsigned char c = (unsigned char)text[at];
    *taken = false;
    if (end - at != 1 || c >= 0x80) return FT_OK;
    if (!a->ascii[c][1]) {
        const char *own;
        size_t bytes;
        FT_TRY(form_of(a, text, end, at, end, false, &own, &bytes));
        if (bytes != 1) return FT_OK;
        a->ascii[c][0] = *own;
        a->ascii[c][1] = 1;
    }
    *taken = left > 0 && *form == a->ascii[c][0];
    return *taken ? stand_for(a, 1, at, end) : FT_OK;
}

// Units from `at` on, as few as become what the form goes on with; *end: behind them. Where none do, *end = at.
static ft_status next_units(ft_alignment *a, const char *text, size_t length, size_t at, const char *form, size_t left, size_t *end) {
    bool white = false, own, taken;
    size_t stop = at;
    for (int k = 0; k < MOST_UNITS && stop < length; k++) {
        const char *made;
        size_t count;
        stop += unit(text + stop, length - stop, &own);
        white = k == 0 ? own : false;
        if (k == 0 && !white) {
            FT_TRY(one_character(a, text, at, stop, form, left, &taken));
            if (taken) return *end = stop, FT_OK;
        }
        FT_TRY(form_of(a, text, length, at, stop, white, &made, &count));
        if (begins_so(form, left, made, count)) return *end = stop, take_unit(a, text, at, stop, white, form, count);
    }
    *end = at;
    return FT_OK;
}

static ft_status align(ft_alignment *a, const char *text, size_t length, const char *form, size_t count) {
    a->from.count = a->to.count = 0;
    for (size_t at = 0, end = 0; at < length; at = end) {
        FT_TRY(next_units(a, text, length, at, form + a->from.count, count - a->from.count, &end));
        if (end == at) return stand_for(a, count - a->from.count, at, length); // not seen; then the rest stands for the rest
    }
    return stand_for(a, count - a->from.count, length, length);
}

// ---- tokens -----------------------------------------------------------------------------------------------------------

typedef struct walk {
    ft_encoder encoder;
    ft_form_spans spans;
    ft_alignment alignment;
    ft_pipeline_scratch scratch; // the form's: encoding a piece leaves it alone
    ft_offsets *out;
} walk;

static ft_status put(ft_offsets *out, int64_t begin, int64_t end) {
    FT_TRY(ft_token_ids_reserve(&out->begin, 1));
    FT_TRY(ft_token_ids_reserve(&out->end, 1));
    out->begin.ids[out->begin.count++] = (int32_t)begin;
    out->end.ids[out->end.count++] = (int32_t)end;
    return FT_OK;
}

// What tokens stand for in the form, in the text, of which text[0] is byte `base`.
static ft_status translate(walk *w, size_t from, size_t base, size_t count) {
    const ft_alignment *a = &w->alignment;
    for (size_t i = from; i < w->spans.begin.count; i++) {
        size_t begin = (size_t)w->spans.begin.ids[i], end = (size_t)w->spans.end.ids[i];
        if (end > count) end = count;
        if (count == 0 || begin >= end) { // a space that was put in front, or stands alone
            const size_t at = begin < count ? (size_t)a->from.ids[begin] : count > 0 ? (size_t)a->to.ids[count - 1] : 0;
            FT_TRY(put(w->out, (int64_t)(base + at), (int64_t)(base + at)));
        } else {
            const size_t to = (size_t)a->to.ids[end - 1], at = (size_t)a->from.ids[begin];
            FT_TRY(put(w->out, (int64_t)(base + at), (int64_t)(base + (to > at ? to : at))));
        }
    }
    return FT_OK;
}

static ft_status piece(walk *w, const char *form, size_t at, size_t end, bool first) {
    w->spans.origin = form;
    w->spans.origin_at = 0;
    return ft_encode_piece(&w->encoder, form + at, end - at, first);
}

static ft_status plain(walk *w, const char *text, size_t length, size_t base, bool first) {
    const ft_tokenizer *t = w->encoder.t;
    const char *form;
    size_t count, from = w->spans.begin.count;
    bool kept;
    FT_TRY(ft_pipeline_run(&t->normalizer, text, length, &w->scratch, &form, &count, &kept));
    FT_TRY(align(&w->alignment, text, length, form, count));
    ft_added_cursor cursor = {0};
    while (cursor.done < count) {
        const ft_added_match m = ft_added_next(&t->normalized, form, count, &cursor);
        if (m.start < m.end) FT_TRY(piece(w, form, m.start, m.end, first && kept && m.start == 0));
        if (m.id < 0) continue;
        ft_token_ids *ids = &w->out->ids;
        FT_TRY(ft_token_ids_reserve(ids, 1));
        FT_TRY(ft_token_ids_reserve(&w->spans.begin, 1));
        FT_TRY(ft_token_ids_reserve(&w->spans.end, 1));
        ids->ids[ids->count++] = m.id;
        w->spans.begin.ids[w->spans.begin.count++] = (int32_t)m.end;
        w->spans.end.ids[w->spans.end.count++] = (int32_t)cursor.done;
    }
    return translate(w, from, base, count);
}

static ft_status walk_text(walk *w, const char *text, size_t length) {
    ft_added_cursor cursor = {0};
    ft_token_ids *ids = &w->out->ids;
    while (cursor.done < length) {
        const ft_added_match m = ft_added_next(&w->encoder.t->raw, text, length, &cursor);
        if (m.start < m.end) FT_TRY(plain(w, text + m.start, m.end - m.start, m.start, m.start == 0));
        if (m.id < 0) continue;
        FT_TRY(ft_token_ids_reserve(ids, 1));
        ids->ids[ids->count++] = m.id;
        FT_TRY(put(w->out, (int64_t)m.end, (int64_t)cursor.done));
    }
    return FT_OK;
}

// Without the white space around it.
static void trim(const char *text, int32_t *begin, int32_t *end) {
    while (*begin < *end && is_white(text + *begin)) *begin += (int32_t)character(text + *begin);
    while (*begin < *end) {
        int32_t last = *end - 1;
        while (((unsigned char)text[last] & 0xC0) == 0x80) last--;
        if (!is_white(text + last)) return;
        *end = last;
    }
}

static void free_walk(walk *w) {
    ft_text_buffer *const buffers[] = {&w->encoder.text.buffers[0], &w->encoder.text.buffers[1], &w->encoder.prefixed, &w->scratch.buffers[0],
                                       &w->scratch.buffers[1], &w->alignment.scratch.buffers[0], &w->alignment.scratch.buffers[1],
                                       &w->alignment.piece};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ft_text_release(buffers[i]);
    free(w->encoder.unigram.more);
    free(w->spans.begin.ids);
    free(w->spans.end.ids);
    free(w->spans.ends.ids);
    free(w->alignment.from.ids);
    free(w->alignment.to.ids);
}

ft_status ft_tokenizer_encode_offsets(const ft_tokenizer *t, const char *text, size_t length, ft_offsets *out) {
    out->ids.count = out->begin.count = out->end.count = 0;
    if (length > INT32_MAX) return ft_fail(FT_INVALID, NULL, "a text of more than %d bytes", INT32_MAX);
    if (ft_utf8_valid_prefix(text, length) != length) return ft_fail(FT_INVALID, NULL, "the text is not valid UTF-8");
    walk *w = ft_calloc(1, sizeof *w, "offsets of tokens");
    if (w == NULL) return FT_NO_MEMORY;
    w->out = out;
    w->alignment.pipeline = &t->normalizer;
    w->encoder.t = t;
    w->encoder.out = &out->ids;
    w->encoder.limit = SIZE_MAX;
    w->encoder.spans = &w->spans;
    w->encoder.unigram.ends = &w->spans.ends;
    ft_status status = walk_text(w, text, length);
    free_walk(w);
    free(w);
    for (size_t i = 0; status == FT_OK && i < out->begin.count; i++) trim(text, &out->begin.ids[i], &out->end.ids[i]);
    return status;
}

void ft_offsets_free(ft_offsets *offsets) {
    free(offsets->ids.ids);
    free(offsets->begin.ids);
    free(offsets->end.ids);
    *offsets = (ft_offsets){.ids = {0}};
}
