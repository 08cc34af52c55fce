// tpe.h - the tree-structured Parzen estimator: draw candidates where good trials are dense, take the one with the
// largest ratio of good to other density. This is the plain version, from nothing each time: short, and the reference
// for cache.h, which keeps everything from trial to trial and answers the same in a fraction of the time.
#ifndef FT_HPO_TPE_H
#define FT_HPO_TPE_H

#include "hpo/search/tpe/parzen.h"
#include "hpo/search/tpe/subspace.h"

typedef struct ft_tpe_options {
    uint64_t seed;
    int candidates;     // 24
    bool constant_liar; // running trials of others count as bad ones
    bool failed;        // failed ones count as the worst. Optuna: off
    bool announced;     // ... with what they drew jointly and have not asked for yet (multivariate)
    bool branch_split;  // good and bad are told apart among the trials that have these parameters, not among all, so
                        // that a rare branch of a space learns from its own trials. Optuna: off
    bool given;         // parameters of the subspace that the trial has already keep their values, and the others are
                        // drawn to go with them. Optuna: off
    double (*lean)(void *context, const double *values); // added to ln of the ratio of a candidate; NULL: nothing
    void *lean_context;
    bool fine; // kernels of good trials become narrower with the trials, see ft_parzen_fine_parts, and the other trials
               // of a long history are thinned to FT_TPE_OTHERS, see split.h. Optuna: off
} ft_tpe_options;

enum { FT_TPE_OTHERS = 2048 };
int64_t ft_tpe_most_others(const ft_tpe_options *options); // `most` of ft_split

// The two estimators of a subspace for trial `number`. Free both.
ft_status ft_tpe_estimators(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                            const ft_subspace *subspace, ft_parzen *below, ft_parzen *above);
// Which trials are good and which are the others, as these options have it; see split.h.
ft_status ft_tpe_split(const ft_trials *trials, const ft_tpe_options *options, int64_t number, const bool *among,
                       uint8_t *sides, int *stands_for);
// The least width of the kernels of good trials, for so many good and other ones.
void ft_tpe_set_width(const ft_tpe_options *options, ft_parzen *below, int good, int64_t others);
// points [candidates][subspace->count] from `below`, a function of seed, number and names.
ft_status ft_tpe_draw(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                      const ft_subspace *subspace, const ft_parzen *below, double *points);
// Adds what the options lean to, to good [candidates] of points [candidates][width].
void ft_tpe_lean(const ft_tpe_options *options, const double *points, size_t width, double *good);
// The index of the first largest good[i] - other[i].
int ft_tpe_choose(const double *good, const double *other, int count);

// All of it: values [subspace->count], internal. The subspace is not empty.
ft_status ft_tpe_suggest(const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                         const ft_subspace *subspace, double *values);

#endif
