// split_fast.h - the split of split.h of a history that grows, with one objective, kept from trial to trial: trials that have ended are
// looked at once, those that run or wait each time. The same sides, and a suggestion of a long study costs no more for its length.
#ifndef FT_HPO_SPLIT_FAST_H
#define FT_HPO_SPLIT_FAST_H

#include "hpo/search/tpe/split.h"
#include "hpo/search/tpe/subspace.h"

// What does not change while one of them lives, and `except`, which does.
typedef struct ft_split_question {
    const ft_subspace *among; // of trials that have these parameters; NULL: of all
    bool announced;           // see ft_subspace_values
    bool constant_liar, failed;
    int64_t most, except; // as of ft_split
} ft_split_question;

typedef struct ft_split_fast {
    uint8_t *sides;  // [count] as of ft_split
    bool *counts;    // [count] ended, and among those that it is of
    int64_t *open;   // [open_count] trials that have not ended
    double *values;  // [among->count] scratch
    int64_t count, open_count, capacity;
    ft_split_rank best[FT_SPLIT_CLASSES][FT_SPLIT_MOST_BELOW]; // in order
    int64_t found[FT_SPLIT_CLASSES], failed;
    int64_t below[FT_SPLIT_MOST_BELOW];
    int below_count, halvings;
} ft_split_fast; // {0}: nothing seen yet

void ft_split_fast_free(ft_split_fast *fast); // {0} is fine
// Takes in what has changed; fast->sides and *stands_for are ft_split's.
ft_status ft_split_fast_update(ft_split_fast *fast, const ft_trials *trials, const ft_split_question *question, int *stands_for);

#endif
