#include "base/utf8.h"

#include "base/arena.h"

#include <stdint.h>
#include <string.h>

// Bytes of the sequence at `p` if it is well formed; else 0, and *bad = bytes of the maximal ill-formed subsequence:
// the longest start of some well-formed sequence, or one byte.
static size_t sequence(const unsigned char *p, size_t left, size_t *bad) {
    size_t length;
    unsigned char low = 0x80,
                  high = 0xBF; // what the second byte may be: shuts out overlong forms, surrogates, > 10FFFF
    *bad = 1;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    if (p[0] < 0xE0)
        length = 2;
    else if (p[0] < 0xF0) {
        length = 3;
        if (p[0] == 0xE0) low = 0xA0;
        if (p[0] == 0xED) high = 0x9F;
    } else {
        length = 4;
        if (p[0] == 0xF0) low = 0x90;
        if (p[0] == 0xF4) high = 0x8F;
    }
    for (size_t i = 1; i < length; i++) {
        if (i >= left || p[i] < (i == 1 ? low : 0x80) || p[i] > (i == 1 ? high : 0xBF)) {
            *bad = i;
            return 0;
        }
    }
    return length;
}

size_t ft_utf8_valid_prefix(const char *text, size_t length) {
    const unsigned char *p = (const unsigned char *)text;
    size_t at = 0, bad;
    while (at < length) {
        uint64_t eight;
        while (length - at >= 8 && (memcpy(&eight, p + at, 8), (eight & UINT64_C(0x8080808080808080)) == 0))
            at += 8;
        if (at >= length) break;
        size_t n = sequence(p + at, length - at, &bad);
        if (n == 0) return at;
        at += n;
    }
    return length;
}

ft_status ft_utf8_repair(const char *text, size_t length, char **out, size_t *out_length) {
    const unsigned char *p = (const unsigned char *)text;
    // Three bytes for one is the worst case: every byte its own ill-formed subsequence.
    if (length > SIZE_MAX / 3 - 1) return ft_fail_memory(length, "a text with invalid UTF-8");
    char *to = ft_calloc(3 * length + 1, 1, "a text with invalid UTF-8");
    if (to == NULL) return FT_NO_MEMORY;
    size_t at = 0, n = 0, bad;
    while (at < length) {
        size_t good = sequence(p + at, length - at, &bad);
        if (good > 0) {
            memcpy(to + n, p + at, good);
            n += good, at += good;
        } else {
            n += ft_utf8_put(0xFFFD, to + n);
            at += bad;
        }
    }
    *out = to, *out_length = n;
    return FT_OK;
}
