// train.h - what others need to know of a run: how it is asked for, and how it ends. What it is made of: trainer.h.
#ifndef FT_TRAIN_H
#define FT_TRAIN_H

#include "engine/config/config.h"
#include "engine/memory/memory.h"

// Runs the configuration. On return the run directory holds what happened, also when it failed after it was created.
// FT_INTERRUPTED / FT_TERMINATED after saving a checkpoint. FT_NO_MEMORY: *refusal (may be NULL) is the request that could
// not be met; its bytes are 0 when the host, not the device, had no memory.
ft_status ft_train(const ft_config *config, ft_memory_refusal *refusal);

// Would a run with one of these seeds (instead of train.seed) be refused memory before its first step, were it alone? Everything as
// ft_train() finds it; nothing is reserved, written or said. FT_NO_MEMORY: that of seeds[*at], with *refusal as ft_train() has it.
// Other errors are those that every run of the configuration would begin with.
ft_status ft_train_foresee(const ft_config *config, int count, const int64_t *seeds, int *at, ft_memory_refusal *refusal);

const char *ft_run_status_name(ft_status outcome); // "completed", "diverged", ... as in run.json

#endif
