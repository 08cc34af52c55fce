// run_plan.h - the steps of a run, known before it starts: which examples belong to which optimizer step, and how large
// the largest micro-batch is.
//
// Words: a batch is train.batch_size sequences; an effective batch (one optimizer step) is batch_size x
// gradient_accumulation_steps of them; a micro-batch is what is in memory at once. As in the Hugging Face Trainer an
// epoch has ceil(batches / accumulation) steps (its last step may be smaller), and total = ceil(epochs * steps).
#ifndef FT_RUN_PLAN_H
#define FT_RUN_PLAN_H

#include "engine/config/config.h"
#include "engine/data/input.h"
#include "engine/data/order/order.h"
#include "engine/model/model.h"

enum { FT_STEP_GRAPH_TOKENS = 64 }; // micro-batches of steps that are graphs are filled up to multiples of so many

typedef struct ft_run_plan {
    int64_t sequences;       // used in an epoch (drop_last leaves the tail out): texts, and of long ones every window
    int64_t effective_batch; // sequences of one optimizer step
    int64_t steps_per_epoch, total_steps, warmup_steps;
    ft_batch_limits limits;  // of a micro-batch
    ft_capacity texts;       // of the largest training micro-batch over the whole run; of very long runs a bound
    ft_capacity capacity;    // the same with what fills it up: what memory must hold
    bool whole_steps;        // every step is one micro-batch; of ranks that are apart, one on each at most
    int64_t step_rows;       // rows that are read of the largest effective batch: each has a loss (1 where none is, of its 0)
    int64_t step_tokens;     // of the largest effective batch
    int32_t bucket;          // micro-batches are filled up to multiples of so many tokens (device.graphs); 0: they are not
    uint64_t order_seed;
    int ranks;               // that compute a step together, a micro-batch each in turn
    bool apart;              // each with gradients of its own
    ft_capacity trunk;       // of the pass that makes features (features.h), with ft_trunk_limits; tokens 0: there is none
} ft_run_plan;

// FT_INVALID when there is nothing to train on.
ft_status ft_run_plan_make(const ft_config *config, const ft_dataset *train, ft_run_plan *plan);
// The same without data: every text has max_length tokens, and nothing is known of the number of steps (total_steps 0
// unless train.max_steps says it). by_row: every row may have a label of its own, not only a text.
void ft_run_plan_worst(const ft_config *config, int max_length, bool by_row, ft_run_plan *plan);
// Micro-batches of a plan that was just made are filled up: capacity has room for it.
void ft_run_plan_fill_up(ft_run_plan *plan);
// Sequences [*first, *last) of the epoch's order that belong to `step`.
void ft_run_plan_step(const ft_run_plan *plan, int64_t step, int64_t *epoch, int64_t *first, int64_t *last);
// The micro-batches of sequences [first, last) of an order, which are those of a step. As the limits say; of several ranks at least one each, as
// far as there are sequences, of about as many tokens.
typedef struct ft_step_cut {
    const ft_dataset *data;
    const int32_t *order;
    ft_batch_limits limits;
    int64_t last, tokens, before; // tokens of all, and of those that were cut off; tokens 0: the limits are enough
    int parts;
} ft_step_cut;
ft_step_cut ft_run_plan_cut(const ft_run_plan *plan, const ft_dataset *data, const int32_t *order, int64_t first, int64_t last);
// How many sequences from `at` on are the next one: called from `first` to `last`.
int64_t ft_step_cut_next(ft_step_cut *cut, int64_t at);
// Micro-batches of an evaluation during the run as asked for: eval.batch_size counts sequences alone, eval.batch_multiplier
// allows so many times what training has (its texts). With both at `auto`: eval_budget.h.
ft_batch_limits ft_eval_limits(const ft_config *config, ft_capacity train);
// The largest micro-batch of a pass over `data` in its own order.
ft_capacity ft_eval_capacity(const ft_dataset *data, ft_batch_limits limits);
// The same without data: texts of max_length tokens.
ft_capacity ft_eval_capacity_worst(ft_batch_limits limits, int max_length, bool by_row);
// What holds both.
ft_capacity ft_capacity_union(ft_capacity a, ft_capacity b);

#endif
