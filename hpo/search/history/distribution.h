// distribution.h - what values one parameter can take: floats and integers (linear, logarithmic or with a step) and
// lists of choices, with the rules of Optuna's distributions, so that both read each other's studies alike.
//
// A value is one double, the "internal" one that Optuna's database holds: floats and integers as they are (no
// logarithm), a choice as its index. Integers are limited to +-2^53, where doubles hold them exactly.
#ifndef FT_HPO_DISTRIBUTION_H
#define FT_HPO_DISTRIBUTION_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum ft_choice_kind {
    FT_CHOICE_NULL,
    FT_CHOICE_BOOL,
    FT_CHOICE_INT,
    FT_CHOICE_FLOAT,
    FT_CHOICE_TEXT
} ft_choice_kind;

typedef struct ft_choice {
    ft_choice_kind kind;
    int64_t integer;  // BOOL (0, 1) and INT
    double number;    // FLOAT; NaN and infinities are legal
    const char *text; // TEXT; UTF-8
} ft_choice;

typedef enum ft_distribution_kind { FT_FLOAT, FT_INT, FT_CATEGORICAL } ft_distribution_kind;

typedef struct ft_distribution {
    ft_distribution_kind kind;
    bool log;
    double low, high; // both included; 0 for categorical ones
    double step;      // 0 = none (FLOAT only); INT has at least 1
    const ft_choice *choices;
    int choice_count;
} ft_distribution;

// Makers check and adjust; `where` names the parameter in errors. FT_INVALID when low > high, a bound is not finite,
// log comes with a step or with low <= 0, a step is not positive. step = 0 means none. With a step, high is lowered to
// low + k * step, in exact decimal arithmetic of the shortest printed form (0.1 + 3 * 0.1 is 0.4).
ft_status ft_distribution_float(const char *where, double low, double high, bool log, double step,
                                ft_distribution *out);
ft_status ft_distribution_int(const char *where, int64_t low, int64_t high, bool log, int64_t step,
                              ft_distribution *out);
// Copies the choices (and their texts) into the arena. At least one; a choice equal to an earlier one is refused, since
// no value could lead to it (1, 1.0 and true are equal).
ft_status ft_distribution_categorical(const char *where, ft_arena *arena, const ft_choice *choices, int count,
                                      ft_distribution *out);
// A deep copy whose texts live in `arena`.
ft_status ft_distribution_copy(ft_arena *arena, const ft_distribution *from, ft_distribution *out);

// Is `value` one of its values? With a float step up to 1e-8 of a step beside it; categorical: a valid index.
bool ft_distribution_contains(const ft_distribution *distribution, double value);
// Only one value: never sampled, ft_distribution_single_value() is taken.
bool ft_distribution_single(const ft_distribution *distribution);
double ft_distribution_single_value(const ft_distribution *distribution);
// Same kind and same attributes.
bool ft_distribution_equal(const ft_distribution *a, const ft_distribution *b);
// May one study hold both under one name? Same kind and log flag, categorical ones the same list (Optuna refuses
// others).
bool ft_distribution_compatible(const ft_distribution *a, const ft_distribution *b);
// How many values there are; INFINITY for floats without a step.
double ft_distribution_size(const ft_distribution *distribution);

// As Python's ==, but NaN equals NaN: numbers and booleans by value, texts by bytes.
bool ft_choice_equal(const ft_choice *a, const ft_choice *b);
// The index of the first choice equal to `choice`, -1 when there is none.
int ft_distribution_find_choice(const ft_distribution *distribution, const ft_choice *choice);

// The shortest decimal text that reads back as `value`: whole numbers plain, others as printf's %g writes them. `out` needs 32 bytes.
void ft_shortest_double(double value, char *out);

#endif
