// utf8.h - bytes to code points and back. Everything past ft_utf8_repair works on valid UTF-8 and does not check again.
#ifndef FT_UTF8_H
#define FT_UTF8_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How many leading bytes are valid UTF-8 (length if all are). Surrogates and overlong forms are not.
size_t ft_utf8_valid_prefix(const char *text, size_t length);
// A copy with U+FFFD for each maximal ill-formed subsequence, as Python's errors="replace". free() it.
ft_status ft_utf8_repair(const char *text, size_t length, char **out, size_t *out_length);

// The code point at *text (valid UTF-8), and moves past it.
static inline uint32_t ft_utf8_next(const unsigned char **text) {
    const unsigned char *p = *text;
    if (p[0] < 0x80) return *text = p + 1, p[0];
    if (p[0] < 0xE0) return *text = p + 2, (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    if (p[0] < 0xF0) return *text = p + 3, (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    return *text = p + 4, (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

// Writes 1 to 4 bytes and returns how many.
static inline size_t ft_utf8_put(uint32_t code, char *out) {
    unsigned char *p = (unsigned char *)out;
    if (code < 0x80) return p[0] = (unsigned char)code, 1;
    if (code < 0x800) return p[0] = (unsigned char)(0xC0 | code >> 6), p[1] = 0x80 | (code & 0x3F), 2;
    if (code < 0x10000) {
        p[0] = (unsigned char)(0xE0 | code >> 12), p[1] = 0x80 | (code >> 6 & 0x3F), p[2] = 0x80 | (code & 0x3F);
        return 3;
    }
    p[0] = (unsigned char)(0xF0 | code >> 18), p[1] = 0x80 | (code >> 12 & 0x3F), p[2] = 0x80 | (code >> 6 & 0x3F);
    p[3] = 0x80 | (code & 0x3F);
    return 4;
}

#endif
