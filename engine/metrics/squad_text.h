// squad_text.h - how alike two answers are, as SQuAD has it: in small letters, without ASCII punctuation, without the words a, an and the, white
// space being one space. Letters, spaces and the ends of words are Python's (str.lower, str.split, \b).
#ifndef FT_SQUAD_TEXT_H
#define FT_SQUAD_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ft_squad_word {
    const char *text;
    size_t length;
} ft_squad_word;

// An answer made plain: its words, sorted, and `text`, them in order with a space between. Reused by every call; {0} is empty.
typedef struct ft_squad_text {
    char *text;
    size_t length, capacity;
    ft_squad_word *word;
    size_t words, word_capacity;
} ft_squad_text;

ft_status ft_squad_plain(const char *text, size_t length, ft_squad_text *out); // valid UTF-8
void ft_squad_text_free(ft_squad_text *text);

bool ft_squad_equal(const ft_squad_text *a, const ft_squad_text *b);
// F1 of the words that both have. Where one side has none: 1 or 0, as they are equal or not, of version 2's script; of version 1.1's it is 0.
double ft_squad_f1(const ft_squad_text *said, const ft_squad_text *truth, bool version_2);

#endif
