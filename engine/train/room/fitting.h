// fitting.h - settings of memory that make a run fit, as autofit.h chooses them: what a room is told of them.
#ifndef FT_TRAIN_FITTING_H
#define FT_TRAIN_FITTING_H

#include "engine/train/job/run_plan.h"

#include <stddef.h>

// Ways to need less that take more time, each by itself.
typedef enum ft_saving {
    FT_SAVE_ACTIVATION = 1, // memory.recompute_activation
    FT_SAVE_NORMS = 2,      // memory.recompute_layernorm
    FT_SAVE_OPTIMIZER = 4,  // memory.offload
    FT_SAVE_INPUTS = 8,     // the same of activations; only where layers are recomputed
    FT_SAVE_TRUNK = 16,     // the same of frozen layers
    FT_SAVINGS = 32         // one beyond all of them together
} ft_saving;

typedef struct ft_fitting {
    int64_t micro_batch_tokens;     // FT_AUTO: as many sequences as train.micro_batch or the batch has
    int64_t gradient_checkpointing; // 0 off, else every k layers
    unsigned savings;               // a set of ft_saving
    ft_keep storage;                // of frozen weights; another than asked for only where that was auto: it changes results
    ft_shard_kind shard;            // of several GPUs: distributed.shard
    double step_seconds;            // predicted, of an optimizer step of average length
    size_t reserved;                // planned peak
    size_t pinned;                  // the same of the host's memory that the device copies to and from
} ft_fitting;

typedef struct ft_autofit {
    bool chosen;        // something had to be, and could be
    size_t limit;       // reserved bytes that it was chosen for
    ft_fitting ideal;   // as if memory were unlimited
    ft_fitting choice;
    ft_fitting next;    // the next fastest of those tried, which all that can be the fastest are; reserved 0: there is none
    ft_run_plan plan;   // steps of the choice
    ft_batch_limits eval_limits;
    ft_capacity eval_capacity;
    size_t eval_extra;
} ft_autofit;

#endif
