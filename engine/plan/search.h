// search.h - the largest micro-batch that fits, found by planning.
#ifndef FT_PLAN_SEARCH_H
#define FT_PLAN_SEARCH_H

#include "engine/plan/plan.h"

typedef enum ft_plan_vary {
    FT_VARY_BATCH,       // train.batch_size and train.micro_batch together: how much a card can take
    FT_VARY_MICRO_BATCH, // train.micro_batch alone: the same mathematics in less memory
} ft_plan_vary;

// *sequences: the largest micro-batch from 1 to `most` that fits and whose successor does not, with
// train.micro_batch_tokens set to auto, and what is left to autofit inside of a layer as it takes least; 0 when not even one sequence fits. About six plans.
ft_status ft_plan_largest(const ft_config *config, const ft_plan_request *request, ft_plan_vary vary, int64_t most,
                          int64_t *sequences);

// What would make a run fit without changing its result (on the CPU not by a bit); micro_batch 0: nothing of this kind. The first
// that helps of: smaller micro-batches, recomputation, and both again with evaluation in micro-batches like training's.
typedef struct ft_plan_advice {
    int64_t micro_batch;            // train.micro_batch, the largest
    int64_t gradient_checkpointing; // train.gradient_checkpointing: as it is, or 1
    bool small_evaluation;          // eval.batch_size = auto, eval.batch_multiplier = auto
} ft_plan_advice;
ft_status ft_plan_advise(const ft_config *config, const ft_plan_request *request, ft_plan_advice *advice);

#endif
