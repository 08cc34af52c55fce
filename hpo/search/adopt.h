// adopt.h - what a study takes from its teachers (gp/teachers.h) whatever its sampler is: good trials of theirs among
// its first ones, and a leaning of TPE towards where they expect good ones.
#ifndef FT_HPO_ADOPT_H
#define FT_HPO_ADOPT_H

#include "hpo/search/gp/teachers.h"
#include "hpo/search/tpe/subspace.h"

// The trial of a teacher that trial `number` shall repeat, *row [axes] of its values; NULL: none, it begins as if there
// were no teachers. Every other trial while nothing is known of the teachers, from each of them in turn; then every
// trial as long as one of them ranks this study's better than chance. Never one that lies where a trial of this study
// does or did.
ft_status ft_adopt(ft_gp_teachers *teachers, const ft_trials *trials, int64_t number, const double **row);
// The adopted value of a parameter, the nearest one that its distribution has; false: none.
bool ft_adopted_value(const ft_lessons *lessons, const double *row, const char *name,
                      const ft_distribution *distribution, double *value);

// What is added to TPE's ln of a ratio of densities: less and less, the more trials there are (Hvarfner et al. 2022,
// piBO), in every other one, and none beyond FT_LEAN_TRIALS finished ones.
enum { FT_LEAN_TRIALS = FT_TEACHERS_HEARD };
typedef struct ft_lean {
    ft_gp_teachers *teachers;
    const ft_trials *trials;
    const ft_subspace *subspace;
    int64_t number;
    double *weight, *point; // [sources], [axes]
    double strength;        // 0: no teacher is trusted
} ft_lean;
ft_status ft_lean_of(ft_gp_teachers *teachers, const ft_trials *trials, int64_t number, const ft_subspace *subspace,
                     ft_arena *arena, ft_lean *lean);
double ft_lean_at(void *lean, const double *values); // [subspace->count]

#endif
