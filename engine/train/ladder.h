// ladder.h - what a run does when memory that was planned is refused: another program took it, or the device is smaller than
// it said. (That a run does not fit memory.limit is known before it starts, and never comes here.)
//
// A piece of work - the start, the gradients of a step, an evaluation, a save - is tried again after each rung, in this order
// and as far as the configuration allows:
//   1. what is cached is released
//   2. smaller micro-batches of the same batch, or recomputation: the fastest that is planned to fit what the device gave
//      (autofit.h); the least there is when nothing does. Nothing moves to the host, whatever memory.offload left to autofit
//   3. another device          device.name = auto, and another has room for the run
//   4. a wait                  device.wait, as long as device.wait_timeout; not where a study watches the run
//   5. the CPU                 device.name = auto
// Weights and moments stay where they are, or travel through the host (3, 5): nothing is trained twice, and a result differs
// from that of an undisturbed run by rounding at most - where all of it runs on the CPU not at all.
#ifndef FT_LADDER_H
#define FT_LADDER_H

#include "engine/train/trainer.h"

// What a piece of work finds on the device when it is called (build.c).
typedef enum ft_ladder_needs { FT_LADDER_STATE, FT_LADDER_LAYOUT } ft_ladder_needs;
// Must leave nothing behind when it fails for want of memory: it is then called again, maybe on another device.
typedef ft_status ft_ladder_work(ft_trainer *t, void *context);

// Builds what `work` needs and calls it (NULL: only builds). FT_NO_MEMORY, with the error of the last refusal, when all is
// tried; FT_INTERRUPTED or FT_TERMINATED when stopped in a wait.
ft_status ft_ladder_climb(ft_trainer *t, ft_ladder_needs needs, ft_ladder_work *work, void *context);

#endif
