#include "engine/text/unicode/normal_forms.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/unicode/text_classes.h"
#include "engine/text/unicode/unicode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// A stretch that no ASCII character but its first belongs to: nothing composes or moves across an ASCII character.
typedef struct stretch {
    uint32_t *codes;
    size_t count, capacity;
} stretch;

static ft_status push(stretch *s, uint32_t code) {
    if (s->count == s->capacity) {
        size_t capacity = 2 * s->capacity + 64;
        uint32_t *codes = ft_realloc(s->codes, capacity, sizeof *codes, "a normal form");
        if (codes == NULL) return FT_NO_MEMORY;
        s->codes = codes, s->capacity = capacity;
    }
    s->codes[s->count++] = code;
    return FT_OK;
}

// Sorts one run of combining characters by class, stably. Long runs are for attackers: those take one pass a class.
static ft_status sort_run(uint32_t *codes, size_t count) {
    if (count <= 16) {
        for (size_t i = 1; i < count; i++) {
            uint32_t code = codes[i];
            size_t j = i;
            for (; j > 0 && ft_char_combining_rank(codes[j - 1]) > ft_char_combining_rank(code); j--)
                codes[j] = codes[j - 1];
            codes[j] = code;
        }
        return FT_OK;
    }
    uint32_t *sorted = ft_calloc(count, sizeof *sorted, "a normal form");
    if (sorted == NULL) return FT_NO_MEMORY;
    size_t n = 0;
    for (int rank = 1; rank <= FT_CHAR_RANKS && n < count; rank++)
        for (size_t i = 0; i < count; i++)
            if (ft_char_combining_rank(codes[i]) == rank) sorted[n++] = codes[i];
    memcpy(codes, sorted, count * sizeof *sorted);
    free(sorted);
    return FT_OK;
}

static ft_status reorder(stretch *s) {
    for (size_t i = 0, j; i < s->count; i = j + 1) {
        for (j = i; j < s->count && ft_char_combining_rank(s->codes[j]) > 0;)
            j++;
        if (j > i + 1) FT_TRY(sort_run(s->codes + i, j - i));
    }
    return FT_OK;
}

static void compose(stretch *s) {
    size_t n = 0, starter = SIZE_MAX;
    int last = 0; // rank of the last character kept behind the starter
    for (size_t i = 0; i < s->count; i++) {
        uint32_t code = s->codes[i];
        int rank = ft_char_combining_rank(code);
        bool free_way = starter != SIZE_MAX && (n == starter + 1 || last < rank);
        uint32_t both = free_way ? ft_char_compose(s->codes[starter], code) : 0;
        if (both != 0) {
            s->codes[starter] = both;
            continue;
        }
        if (rank == 0) starter = n;
        last = rank;
        s->codes[n++] = code;
    }
    s->count = n;
}

ft_status ft_normal_form_apply(ft_normal_form form, const char *text, size_t length, ft_text_buffer *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    bool compatible = form == FT_NFKD || form == FT_NFKC, composed = form == FT_NFC || form == FT_NFKC;
    stretch s = {0};
    ft_status status = FT_OK;
    while (p < end) {
        FT_TRY_GOTO(ft_text_reserve(out, (size_t)(end - p)), done);
        while (p < end && *p < 0x80 && (p + 1 == end || p[1] < 0x80))
            out->data[out->count++] = (char)*p++;
        if (p == end) break;
        s.count = 0;
        if (*p < 0x80) FT_TRY_GOTO(push(&s, *p++), done);
        while (p < end && *p >= 0x80) {
            uint32_t code = ft_utf8_next(&p), parts[FT_MOST_PARTS];
            int count = compatible ? ft_char_decompose_compatible(code, parts) : ft_char_decompose(code, parts);
            for (int i = 0; i < count; i++)
                FT_TRY_GOTO(push(&s, parts[i]), done);
        }
        FT_TRY_GOTO(reorder(&s), done);
        if (composed) compose(&s);
        FT_TRY_GOTO(ft_text_reserve(out, 4 * s.count), done);
        for (size_t i = 0; i < s.count; i++)
            out->count += ft_utf8_put(s.codes[i], out->data + out->count);
    }
done:
    free(s.codes);
    return status;
}
