// eval_budget.h - how much an evaluation during a run takes at once.
//
// By default as many tokens as fit into the memory that a training step has anyway, so that evaluating never raises the peak:
// what a pass over a data set holds has places in the steps' arena (memory.h), and the largest micro-batch is searched for
// which that arena need not grow. No formula: every size that is tried is recorded on a plan device. Beyond
// FT_EVAL_TOKENS no device gets faster, and the search ends. What eval.batch_size or eval.batch_multiplier ask for is done,
// and `extra` says what it costs. Logits do not depend on any of it.
#ifndef FT_EVAL_BUDGET_H
#define FT_EVAL_BUDGET_H

#include "engine/train/room/room.h"

enum { FT_EVAL_TOKENS = 16384 };

// The steps and evaluations of the room's job with its configuration on its device: plan, eval_limits, eval_capacity (tokens 0:
// nothing is evaluated) and eval_extra. FT_INVALID when there is nothing to train on.
ft_status ft_room_plan_steps(ft_room *room);

#endif
