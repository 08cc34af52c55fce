// grammar.h - one line of [space] taken apart. Words are not looked into; space.c knows the options.
#ifndef FT_HPO_SPACE_GRAMMAR_H
#define FT_HPO_SPACE_GRAMMAR_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum ft_comparison {
    FT_IS_ONE_OF,
    FT_IS_NONE_OF,
    FT_IS_BELOW,
    FT_IS_AT_MOST,
    FT_IS_ABOVE,
    FT_IS_AT_LEAST
} ft_comparison;

typedef enum ft_spec_kind { FT_SPEC_FIXED, FT_SPEC_FLOAT, FT_SPEC_INT, FT_SPEC_CHOICE } ft_spec_kind;

typedef struct ft_spec_test {
    const char *option;
    ft_comparison comparison;
    const char **values;
    int count;
} ft_spec_test;

typedef struct ft_spec {
    ft_spec_kind kind;
    const char **words; // FIXED: the value; FLOAT, INT: low, high; CHOICE: all. Without quotes and brackets
    int count;
    bool log;
    const char *step; // NULL: none
    ft_spec_test *tests;
    int test_count;
} ft_spec;

// Texts live in the arena. FT_INVALID at `where`, with what is expected.
ft_status ft_spec_parse(const char *text, const char *where, ft_arena *arena, ft_spec *spec);
// Whether ft_spec_parse would read `word` back only inside quotes.
bool ft_spec_needs_quotes(const char *word);

#endif
