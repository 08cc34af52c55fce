// ranking.h - metrics that depend on the order of scores alone. Equal scores share their ranks.
#ifndef FT_RANKING_H
#define FT_RANKING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_ranked {
    double score;
    double weight; // 1: positive, 0: negative; for correlations the index
} ft_ranked;

// Area under the ROC curve; NaN without positives or without negatives. Sorts `ranked`.
double ft_auroc(ft_ranked *ranked, int64_t n);
// Sum over the distinct scores of (recall - recall before) * precision; 0 without positives. Sorts `ranked`.
double ft_average_precision(ft_ranked *ranked, int64_t n);
// ranks [n] of values, from 1, equal ones getting their mean. scratch [n].
void ft_average_ranks(const double *values, int64_t n, ft_ranked *scratch, double *ranks);
// Pearson's correlation; NaN where one side is constant or n < 2.
double ft_pearson(const double *x, const double *y, int64_t n);

#endif
