// ranking.h - figures that depend on the order of scores alone, exactly, in two passes over the examples. Equal scores share their ranks.
//
// The first pass keeps the scores of the positive examples of every output, in order; the second counts each negative score into the
// gap between two of them, or as equal to one: that is all that areas under curves and best thresholds depend on. It takes 24 bytes a
// positive example; where that is more than `at_once`, outputs take turns.
#ifndef FT_RANKING_H
#define FT_RANKING_H

#include "engine/metrics/metrics.h"

#include <string.h>

enum { FT_RANKED_AT_ONCE = 24 << 20 }; // bytes: the usual `at_once`. An output that takes more alone has them

// How the positive examples of an output stand among all.
typedef struct ft_ranking {
    int64_t n, positives;
    const uint64_t *score;   // [positives] ascending, marked (see below)
    const uint32_t *between; // [positives + 1] negatives below the score and above the one before it; those above all at the end
    const uint32_t *equal;   // [positives] negatives of that score, at the first of equal ones; the others of them have 0 in both
    const double *nearest;   // [positives] the highest negative score among `between`; -1: there is none
} ft_ranking;

// Calls `take` for every output from `first` on, in order. positives [outputs]: how many each has.
ft_status ft_rank_outputs(const ft_scores *scores, int first, const int64_t *positives, int64_t at_once,
                          void (*take)(void *context, int output, const ft_ranking *ranking), void *context);
size_t ft_rank_host_bytes(int64_t n, int outputs, int64_t positives); // of all outputs together

// Area under the ROC curve; NaN without positives or without negatives.
double ft_auroc(const ft_ranking *ranking);
// Sum over the distinct scores of (recall - recall before) * precision; 0 without positives.
double ft_average_precision(const ft_ranking *ranking);

// A score that is not below 0 with a mark, in 8 bytes: its bits are in the order of the scores.
static inline uint64_t ft_mark_score(double score, bool mark) {
    uint64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits << 1 | mark;
}
static inline bool ft_is_marked(uint64_t marked) { return marked & 1; }
static inline double ft_marked_score(uint64_t marked) {
    double score;
    marked >>= 1;
    memcpy(&score, &marked, sizeof score);
    return score;
}
void ft_sort_marked(uint64_t *marked, int64_t count); // in place

#endif
