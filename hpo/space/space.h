// space.h - the search space: what `ftengine tune` may choose, read from the lines of [space].
//
//     OPTION = float(LOW, HIGH [, log | step=S])     numbers
//     OPTION = int(LOW, HIGH [, log | step=S])       whole numbers
//     OPTION = choice(A, B, ...)                     values of any kind; lists as [512, 256]; "quoted, where needed"
//     OPTION = VALUE                                 the same in every trial
//     ... if OTHER = A and OTHER in (A, B)           =, ==, !=, <, <=, >, >=, in, not in; all parts must hold
//
// An option may have several lines with conditions: the first that holds decides, and when none does, the option has
// the configuration's value. A condition sees the values of its own trial: drawn ones and, of options that are not
// drawn, the configuration's. Every bound and choice is checked by the option's own parser.
//
// Stored names. A study holds a parameter under its option's name. Optuna wants one name to keep one kind, one log flag
// and one list of choices, so a line that differs in these from the first of its option gets a name of its own:
// OPTION@2, OPTION@3, in the order of the lines. Ranges may differ under one name.
// Stored choices. Numbers and booleans as they are, lists as "[512, 256]", paths as their last part where that tells
// the choices apart, so that a study may move.
#ifndef FT_HPO_SPACE_H
#define FT_HPO_SPACE_H

#include "engine/config/config.h"
#include "hpo/search/history/distribution.h"
#include "hpo/space/grammar.h"

typedef struct ft_space_test {
    int option; // number of an option of a run (engine/config/options.h)
    ft_comparison comparison;
    const char **values; // as ft_option_get writes them; a path without '/' stands for all that end in it
    int count;
    const char *otherwise; // the option's value in trials that do not draw it
} ft_space_test;

typedef struct ft_space_rule {
    int option;
    const char *where; // file:line
    const char *fixed; // the value; NULL: it is drawn
    const char *name;  // stored name; NULL when fixed
    ft_distribution distribution;
    double written_high; // of a range: as it was written, which a step may not reach
    const char **choices; // categorical: what the option is set to, by index
    ft_space_test *tests;
    int test_count;
} ft_space_rule;

typedef struct ft_space {
    ft_space_rule *rules; // in the order of deciding: an option comes behind those that its conditions look at
    int count;
    ft_arena arena;
} ft_space;

// FT_INVALID with file:line for what is no space: grammar, unknown options, values that an option does not take,
// conditions that look at each other in a circle or can never hold, lines behind one without a condition.
ft_status ft_space_read(const ft_config *config, ft_space *space);
void ft_space_free(ft_space *space); // {0} is fine
// Warns of what is allowed and rarely meant: a step that does not reach the end of its range, conditions that never hold.
void ft_space_remarks(const ft_space *space);

// Whether the rule's conditions hold. values [FT_OPTION_LIMIT] by option: what the trial has so far, NULL where it has
// none.
bool ft_space_holds(const ft_space_rule *rule, const char *const *values);
// The text that the option is set to for a value of the rule's distribution. NULL with the error set.
const char *ft_space_value_text(const ft_space_rule *rule, double value, ft_arena *arena);
// Whether all that it draws are numbers, two or more, each in every trial.
bool ft_space_is_numbers(const ft_space *space);
// The rule that stores this name, NULL when none does.
const ft_space_rule *ft_space_find(const ft_space *space, const char *name);

// The rules as the lines that give them, paths absolute.
ft_status ft_space_write(const ft_space *space, FILE *out);
// A rule as text with paths by their stored names: what must not change while a study goes on.
const char *ft_space_rule_text(const ft_space_rule *rule, ft_arena *arena);

#endif
