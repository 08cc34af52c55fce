#include "engine/text/unicode/normalize.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/unicode/unicode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_text_reserve(ft_text_buffer *buffer, size_t more) {
    if (buffer->capacity - buffer->count >= more) return FT_OK;
    if (more > SIZE_MAX / 4 || buffer->count > SIZE_MAX / 4) return ft_fail_memory(more, "normalised text");
    size_t capacity = 2 * buffer->count + more;
    char *data = ft_realloc(buffer->kept ? NULL : buffer->data, capacity, 1, "normalised text");
    if (data == NULL) return FT_NO_MEMORY;
    if (buffer->kept) memcpy(data, buffer->data, buffer->count);
    buffer->data = data, buffer->capacity = capacity, buffer->kept = false;
    return FT_OK;
}

void ft_text_release(ft_text_buffer *buffer) {
    if (!buffer->kept) free(buffer->data);
    *buffer = (ft_text_buffer){0};
}

ft_normalizer ft_normalizer_make(bool clean, bool space_cjk, bool strip_accents, bool lower_case) {
    ft_normalizer n = {
        .clean = clean, .space_cjk = space_cjk, .strip_accents = strip_accents, .lower_case = lower_case};
    for (unsigned c = 0; c < 128; c++) {
        unsigned flags = ft_char_flags(c);
        n.ascii[c] = (unsigned char)c;
        if (clean && (flags & FT_CHAR_DROPPED))
            n.ascii[c] = 0x80;
        else if (clean && (flags & FT_CHAR_SPACE))
            n.ascii[c] = ' ';
        else if (lower_case && c >= 'A' && c <= 'Z')
            n.ascii[c] = (unsigned char)(c + 32);
    }
    return n;
}

// The longest form of one character: a space, four parts of a decomposition (each two lower-case characters), a space.
enum { LONGEST = 40 };

// Marks with a combining class that stay (most are dropped) wait here until a starter comes, then leave sorted.
typedef struct run {
    uint32_t *marks;
    size_t count, capacity;
    uint64_t ranks; // bit r: a mark of rank r is here
} run;

static void emit(const ft_normalizer *n, uint32_t code, unsigned flags, ft_text_buffer *out) {
    uint32_t parts[2] = {code, 0};
    int count = n->lower_case && (flags & FT_CHAR_MAPPED) ? ft_char_lower(code, parts) : 1;
    for (int i = 0; i < count; i++)
        out->count += ft_utf8_put(parts[i], out->data + out->count);
}

static ft_status flush(const ft_normalizer *n, run *r, ft_text_buffer *out) {
    if (r->count == 0) return FT_OK;
    FT_TRY(ft_text_reserve(out, r->count * 8 + LONGEST)); // and room for one more character, as before
    // A stable sort, one pass a class: linear however long a hostile run is.
    for (int rank = 1; rank <= FT_CHAR_RANKS; rank++) {
        if (!(r->ranks >> rank & 1)) continue;
        for (size_t i = 0; i < r->count; i++)
            if (ft_char_combining_rank(r->marks[i]) == rank) emit(n, r->marks[i], ft_char_flags(r->marks[i]), out);
    }
    r->count = 0, r->ranks = 0;
    return FT_OK;
}

static ft_status hold(run *r, uint32_t code) {
    if (r->count == r->capacity) {
        size_t capacity = r->capacity * 2 + 16;
        uint32_t *marks = ft_realloc(r->marks, capacity, sizeof *marks, "combining marks");
        if (marks == NULL) return FT_NO_MEMORY;
        r->marks = marks, r->capacity = capacity;
    }
    r->marks[r->count++] = code;
    r->ranks |= UINT64_C(1) << ft_char_combining_rank(code);
    return FT_OK;
}

// One part of a decomposition, accents being dropped.
static ft_status part(const ft_normalizer *n, uint32_t code, run *r, ft_text_buffer *out) {
    unsigned flags = ft_char_flags(code);
    // A mark that is dropped without a class (Indic vowel signs) still keeps the marks around it apart.
    if (!(flags & FT_CHAR_REORDERED)) FT_TRY(flush(n, r, out));
    if (flags & FT_CHAR_MARK) return FT_OK;
    if (flags & FT_CHAR_REORDERED) return hold(r, code);
    emit(n, code, flags, out);
    return FT_OK;
}

static ft_status wide(const ft_normalizer *n, uint32_t code, run *r, ft_text_buffer *out) {
    unsigned flags = ft_char_flags(code);
    if (n->clean && (flags & FT_CHAR_DROPPED)) return FT_OK;
    if (n->clean && (flags & FT_CHAR_SPACE)) code = ' ', flags = 0;
    bool spaced = n->space_cjk && (flags & FT_CHAR_CJK);
    if (spaced) {
        FT_TRY(flush(n, r, out));
        out->data[out->count++] = ' ';
    }
    if (!n->strip_accents)
        emit(n, code, flags, out);
    else if (flags & FT_CHAR_MAPPED) {
        uint32_t parts[4];
        int count = ft_char_decompose(code, parts);
        for (int i = 0; i < count; i++)
            FT_TRY(part(n, parts[i], r, out));
    } else
        FT_TRY(part(n, code, r, out));
    if (spaced) {
        FT_TRY(flush(n, r, out));
        out->data[out->count++] = ' ';
    }
    return FT_OK;
}

ft_status ft_normalize(const ft_normalizer *n, const char *text, size_t length, ft_text_buffer *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    run r = {0};
    ft_status status = FT_OK;
    while (p < end) {
        if (*p < 0x80 && n->ascii[*p] != 0x80) FT_TRY_GOTO(flush(n, &r, out), done);
        // ASCII never grows: one reservation for the whole stretch.
        FT_TRY_GOTO(ft_text_reserve(out, (size_t)(end - p) + LONGEST), done);
        if (*p < 0x80 && r.count == 0) {
            char *to = out->data + out->count;
            for (; p < end && *p < 0x80; p++) {
                *to = (char)n->ascii[*p];
                to += n->ascii[*p] != 0x80;
            }
            out->count = (size_t)(to - out->data);
        } else if (*p < 0x80)
            p++; // dropped inside a run of marks, which goes on behind it
        else
            FT_TRY_GOTO(wide(n, ft_utf8_next(&p), &r, out), done);
    }
    status = flush(n, &r, out);
done:
    free(r.marks);
    return status;
}
