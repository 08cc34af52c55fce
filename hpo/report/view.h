// view.h - a study for people: how its values are written, and which of its trials are the best. For commands and reports.
#ifndef FT_HPO_VIEW_H
#define FT_HPO_VIEW_H

#include "hpo/storage/storage.h"

// The best feasible COMPLETE trial; of several objectives all that no other beats, by number. numbers [trials->count].
ft_status ft_study_front(const ft_trials *trials, int64_t *numbers, int64_t *count);
bool ft_trial_feasible(const ft_trial *trial);

// How objective i is called: its metric's name, else "value" (value_0, ...).
ft_status ft_study_objectives(ft_stored *study, ft_arena *arena, const char ***names);
// A parameter's value as people write it, for tables.
const char *ft_study_choice_text(ft_arena *arena, const ft_choice *choice); // NULL: no memory
const char *ft_study_param_text(ft_arena *arena, const ft_distribution *distribution, double value);
const char *ft_study_range_text(ft_arena *arena, const ft_distribution *distribution);
const char *ft_study_time_text(ft_arena *arena, int64_t microseconds); // to the second, "-" for none

#endif
