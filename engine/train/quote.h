// quote.h - how long a run will take, from a few of its steps, of an evaluation and of a save, made on this machine.
// Nothing of it stays.
#ifndef FT_QUOTE_H
#define FT_QUOTE_H

#include "engine/config/config.h"
#include "engine/memory/memory.h"

// Seconds, and between which they lie with 95% if the machine goes on as it did: at least 20% of the training to either side.
typedef struct ft_estimate {
    double seconds, low, high;
} ft_estimate;

typedef struct ft_run_quote {
    int runs;                                      // of data.folds and train.seeds, or data.shares
    int64_t total_steps, evaluations, checkpoints; // of each of them
    int64_t measured_steps;                        // the first left out, where there are others
    double measured_seconds, tokens_per_second;
    // Of all runs: up to the first step, steps, evaluations, files, the test set, and all of these.
    ft_estimate start, train, evaluate, save, test, total;
} ft_run_quote;

// Measures for about so many seconds beside reading the data and the model: three steps in any case, or all that there
// are. It takes the memory of the run, and reserves it as that does. Files are written in a folder beside the run
// directory's place, which is removed. FT_INTERRUPTED, FT_TERMINATED: stopped. Other errors are those of ft_train(),
// *refusal (may be NULL) as there.
ft_status ft_train_quote(const ft_config *config, double seconds, ft_run_quote *quote, ft_memory_refusal *refusal);
// The sum, each being independent of the other.
ft_estimate ft_estimate_add(ft_estimate a, ft_estimate b);
// Student's t beyond which lie 2.5%; degrees >= 1.
double ft_student_t(int64_t degrees);

#endif
