// unicode.h - what the reference library takes each character for. The tables behind it are made by asking that library
// (tests/vectors/make_unicode_tables.py): they are of no single version of Unicode.
#ifndef FT_UNICODE_H
#define FT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FT_CHAR_WHITE = 1,       // splits words
    FT_CHAR_PUNCTUATION = 2, // is a word of its own
    FT_CHAR_DROPPED = 4,     // removed by cleaning
    FT_CHAR_SPACE = 8,       // made a space by cleaning
    FT_CHAR_CJK = 16,        // gets spaces around it
    FT_CHAR_MARK = 32,       // removed with the accents
    FT_CHAR_MAPPED = 64,     // has a decomposition or a lower case
    FT_CHAR_REORDERED = 128, // has a combining class: NFD sorts runs of these
};
unsigned ft_char_flags(uint32_t code); // code < 0x110000

// Full canonical decomposition (at most 4 code points); returns the count, 1 when it is the character itself.
int ft_char_decompose(uint32_t code, uint32_t parts[4]);
// Lower case, 1 or 2 code points.
int ft_char_lower(uint32_t code, uint32_t parts[2]);
// Place of the combining class in the order of NFD, 1 .. FT_CHAR_RANKS; 0 for starters.
enum { FT_CHAR_RANKS = 54 };
int ft_char_combining_rank(uint32_t code);
// A word character to the single_word option of added tokens.
bool ft_char_is_word(uint32_t code);

#endif
