// choose.h - which of many trials a process learns from, whose cost grows with their cube: the better half, and of the
// rest some of every age.
#ifndef FT_HPO_GP_CHOOSE_H
#define FT_HPO_GP_CHOOSE_H

#include <stdbool.h>

typedef struct ft_gp_ranked {
    double loss;
    int at;
} ft_gp_ranked;

int ft_gp_by_loss(const void *a, const void *b); // of ft_gp_ranked, for qsort: the best first, ties by `at`

// Of `count` items with losses (NULL: all alike), at most `most`: the better half of these, and of the rest evenly by
// age. chosen [most], oldest first; how many. scratch and mark [count].
int ft_gp_choose(const double *loss, int count, int most, ft_gp_ranked *scratch, bool *mark, int *chosen);

#endif
