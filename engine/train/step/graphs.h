// graphs.h - what the device does for a step, as graphs (kernels/ops/device.h): recorded once a shape, then replayed, so that the host
// queues a few things a step instead of hundreds.
//
// A shape is what a recording has fixed: which part of a step (before the micro-batches, one of them, behind them, the update), in
// which of the two slots a micro-batch lies, and its sizes. Everything else that a step reads is on the device (op.h:
// ft_step_state; the batch in its slot), at addresses that the arena gives out anew for every step. So that shapes come back
// where texts have all lengths, micro-batches are filled up to multiples of plan.bucket tokens (batch.h), and their losses go to
// one place, from where they are copied to those of the step.
//
// A shape is queued call by call at first, which also loads kernels and chooses algorithms; when it was seen twice, it is recorded
// between two steps, since instantiating a graph may wait for the device, as destroying one does. The least recently used goes
// when there are FT_STEP_GRAPHS, or when what they hold of the device is more than FT_STEP_GRAPHS_BYTES: that memory is the
// driver's, not the allocator's. No plan can know it; a run leaves so much free for it, and metering is by the device's free
// memory, in which other programs' changes are too. Whatever fails in recording, and a launch that
// the driver has no memory for, ends graphs for the run, with a warning, and nothing else.
//
// The layout (build.c) owns them: a run that changes its micro-batches or its device begins anew.
#ifndef FT_STEP_GRAPHS_H
#define FT_STEP_GRAPHS_H

#include "engine/train/step/step.h"

// Queues a part of a step: by its graph, or call by call. For FT_STEP_BATCH the present batch of step->buffers.
ft_status ft_step_graphs_queue(ft_step *step, ft_step_shape shape);
// Between two steps: records what came back.
void ft_step_graphs_record(ft_step *step);
// Waits for the device and destroys them all.
void ft_step_graphs_drop(ft_step *step);

#endif
