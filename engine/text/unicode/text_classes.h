// text_classes.h - what byte-level BPE and SentencePiece normalisers need to know of a character, as the tokenizers
// library was seen to take it (tests/vectors/make_tokenizer_tables.py); WordPiece's view is unicode.h.
#ifndef FT_TEXT_CLASSES_H
#define FT_TEXT_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The pattern of byte-level BPE: letters, numbers, white space; all else is one class.
enum { FT_PATTERN_OTHER, FT_PATTERN_LETTER, FT_PATTERN_NUMBER, FT_PATTERN_SPACE };
int ft_char_pattern(uint32_t code); // code < 0x110000

// Whether StripAccents drops it (BERT's normaliser has its own idea, FT_CHAR_MARK).
bool ft_char_is_mark(uint32_t code);

// Bytes of the extended grapheme cluster that `text` (valid UTF-8, length > 0) begins with.
size_t ft_grapheme(const char *text, size_t length);

// Full compatibility decomposition (NFKD); returns the count, 1 when it is the character itself.
enum { FT_MOST_PARTS = 18 };
int ft_char_decompose_compatible(uint32_t code, uint32_t parts[FT_MOST_PARTS]);
// The character that two compose to, or 0.
uint32_t ft_char_compose(uint32_t first, uint32_t second);

#endif
