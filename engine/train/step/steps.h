// steps.h - optimizer steps on their way. The host queues a step and goes on to the next; what a step came to (its losses,
// norm and finite flag) travels to pinned memory behind it and is booked up to two steps later. Nothing between two steps
// makes the device wait for the host: its queue holds the next step before the last one has ended.
//
//     ft_steps_queue(&step, climb, run); // while there is room, and nothing has to happen between the steps
//     ft_steps_book(&step);             // the oldest: step.state is now that of its end
//
// What people see is exact: steps are booked one by one, in order, and a boundary at which somebody looks at the device -
// an evaluation, a checkpoint, the end - is reached with nothing on its way. A step that is not finite stops the device's
// updates itself (adamw.h), so that steps queued behind it change nothing. On the CPU, and in fp16, a step is booked before the
// next is queued.
#ifndef FT_STEPS_H
#define FT_STEPS_H

#include "engine/train/step/step.h"

// examples: of the largest effective batch. The buffers of a step are there.
ft_status ft_steps_create(ft_step *step, int64_t examples);
void ft_steps_free(ft_step *step); // waits for what is on its way; one that was never created is fine
// Has a piece of work done that needs the layout and may be refused memory: again, maybe in another room, as long as `run` knows of
// any. It leaves nothing behind when it fails for want of memory.
typedef ft_status ft_step_work(ft_step *step, void *context);
typedef ft_status ft_step_climb(void *run, ft_step_work *work, void *context);
// Queues the step behind those on their way. Memory that is refused is a matter of `climb` (ladder.h) when none is on its
// way; else nothing is queued, and step->steps.held is set.
ft_status ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
// Waits for the oldest step and books it into step->state. FT_DIVERGED when loss or gradients are not finite, where no
// smaller loss scale can help: neither it nor any step behind it changed weights, moments or counters, and none is on its way
// any more.
ft_status ft_steps_book(ft_step *step);

#endif
