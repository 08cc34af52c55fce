// ranking.h - which of two ended trials is better, for a search that only ranks: complete ones by their value, then
// those beyond a limit by how far, then pruned ones by how far they came, then failed ones.
#ifndef FT_HPO_RANKING_H
#define FT_HPO_RANKING_H

#include "hpo/search/history/trials.h"

typedef struct ft_standing {
    int kind; // smaller is better, then major, minor, number
    double major, minor;
    int64_t number;
} ft_standing;

ft_standing ft_standing_of(const ft_trials *trials, const ft_trial *trial); // of an ended trial of one objective
int ft_standing_compare(const void *a, const void *b);                      // of two ft_standing, for qsort

#endif
