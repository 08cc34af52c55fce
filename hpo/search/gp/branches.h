// branches.h - which parameters come together. A space with conditions is known by its trials alone: those with the
// same parameters are a branch, and a parameter whose values never meet between two branches is taken to decide between
// them. A branch with few trials is held tighter than it is; each further trial loosens it.
#ifndef FT_HPO_GP_BRANCHES_H
#define FT_HPO_GP_BRANCHES_H

#include "hpo/search/gp/axes.h"

typedef struct ft_gp_branch {
    bool *has;          // [axes]
    int *distribution;  // [axes] ids
    bool *allowed;      // [axes][ft_gp_branches.choices] of choices
    double *low, *high; // [axes] of numbers, in units
    double best;        // the least loss of its trials, INFINITY when none has one
    int64_t trials;
} ft_gp_branch;

typedef struct ft_gp_branches {
    ft_gp_branch *branch;
    int count, choices; // choices: the most that an axis has
} ft_gp_branches;

enum { FT_GP_MOST_BRANCHES = 16 };

// All of them, the best first, at most so many; after them one for each deciding list of choices of which some were
// never tried. loss [trials]: NaN = none.
ft_status ft_gp_branches_of(const ft_trials *trials, const ft_gp_axes *axes, const double *loss, ft_arena *arena,
                            ft_gp_branches *out);
// The parameters that trial `number` has, and one more.
ft_status ft_gp_branch_alone(const ft_trials *trials, const ft_gp_axes *axes, int64_t number, int name,
                             int distribution, ft_arena *arena, ft_gp_branches *out);

#endif
