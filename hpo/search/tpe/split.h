// split.h - which trials are good ("below") and which are the rest ("above"), the first half of TPE.
//
//     of COMPLETE + PRUNED trials (n) the best n_below = min(ceil(n/10), 25), several objectives ceil(n/10), are below:
//     1. feasible COMPLETE ones by value; several objectives: by non-dominated rank, the rank that does not fit whole
//     is
//        cut by a greedy choice of hypervolume (pareto.h)
//     2. feasible PRUNED ones, the later their last report the better, then by its value; those without a report last
//     3. infeasible ones of either state by violation
//     RUNNING trials of others go above when the constant liar is on. FAIL ones, where failed ones count, are the worst
//     of the n, and never below. WAITING never count.
//
// Ties go to the lower number, also when maximising.
//
// A long history is thinned: while more than `most` finished trials are above, every second of them is left out, by a
// hash of its number, so that those of a coarser sample are those of a finer one. What is above stands for a density,
// which so many points know as well. Ours; Optuna keeps all.
#ifndef FT_HPO_SPLIT_H
#define FT_HPO_SPLIT_H

#include "hpo/search/history/trials.h"

typedef enum ft_side { FT_NEITHER = 0, FT_BELOW = 1, FT_ABOVE = 2 } ft_side;

// How many of n trials go below; and of `ended` ones, of which so many are finished and the others failed.
int64_t ft_split_below(int64_t n, int objectives);
int64_t ft_split_good(int64_t finished, int64_t ended, int objectives);

// sides [trials->count] is written. `except` is a trial left out (the one being drawn), or -1. `among` [trials->count]
// restricts everything, n included, to the trials where it is true; NULL = all. most: 0 = all of them. *stands_for: how
// many finished trials each one above stands for, a power of two.
ft_status ft_split(const ft_trials *trials, int64_t except, bool constant_liar, bool failed, const bool *among, int64_t most,
                   uint8_t *sides, int *stands_for);

// ---- Shared with the split that is kept from trial to trial (split_fast.h) ------------------------------------------

enum { FT_SPLIT_MOST_BELOW = 25 }; // of one objective
typedef enum ft_split_class { FT_SPLIT_COMPLETE, FT_SPLIT_PRUNED, FT_SPLIT_INFEASIBLE, FT_SPLIT_CLASSES } ft_split_class; // 1 to 3 above
typedef struct ft_split_rank {
    double major, minor; // ascending: the smaller the better
    int64_t number;
} ft_split_rank;

// Of a trial that is COMPLETE or PRUNED; the rank of complete ones is that of one objective.
ft_split_class ft_split_class_of(const ft_trials *trials, const ft_trial *trial, ft_split_rank *rank);
// -1, 0, 1 in the order in which trials of a class are taken.
int ft_split_compare(const ft_split_rank *a, const ft_split_rank *b);
// How often so many finished trials above are halved, and whether one of them is kept then.
int ft_split_halvings(int64_t above, int64_t most);
bool ft_split_keeps(int64_t number, int halvings);

#endif
