// conditions.h - which parameter decides whether trials have another one: of those whose values tell the trials that
// have it from those that lack it the simplest one. Simple, by the choices it has of doing that by chance: an axis of
// numbers one ln(trials) for every change from having to lacking along it, one of choices ln 2 for every choice.
#ifndef FT_HPO_GP_CONDITIONS_H
#define FT_HPO_GP_CONDITIONS_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

// points [count][axes]: units, indices of choices, NaN where a trial lacks the axis. choices: the most that an axis
// has. by [axes]: the axis that decides, or -1: all trials have it, or no axis alone decides.
ft_status ft_gp_conditions_of(const double *points, int count, const bool *choice, int axes, int choices,
                              ft_arena *arena, int *by);

#endif
