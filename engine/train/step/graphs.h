// step_graphs.h - what the device does for a step, as graphs (backend.h): recorded once a shape, then replayed, so that the host
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

#include "engine/train/room/device_graphs.h"
#include "kernels/ops/backend.h"

#include <stdbool.h>
#include <stdint.h>

struct ft_step;

enum { FT_STEP_GRAPHS = 64 };

typedef enum ft_step_part { FT_STEP_BEGIN = 0, FT_STEP_BATCH, FT_STEP_END, FT_STEP_UPDATE } ft_step_part;

// Sizes of a micro-batch are those with its filling. filler: is there any (0 or 1)? How long it is lies in the slot: in the shape it
// would make one of almost every micro-batch of mixed lengths. examples: of the effective batch, for the update.
typedef struct ft_step_shape {
    int32_t part, slot, sequences, tokens, longest, reads, most_reads, filler;
    int64_t examples;
} ft_step_shape;

typedef struct ft_step_graph {
    ft_step_shape shape;
    ft_graph *graph; // NULL: the shape was seen, no more
    uint64_t used;   // on the clock below
    int64_t seen;
    size_t bytes;    // by which the device's free memory fell
} ft_step_graph;

typedef struct ft_step_graphs {
    bool on;
    bool ended;      // by a failure, for the rest of the run
    int most;        // FT_STEP_GRAPHS
    ft_step_graph held[FT_STEP_GRAPHS], seen[FT_STEP_GRAPHS];
    int held_count, seen_count;
    uint64_t clock;
    size_t bytes;    // of those held
    int64_t recorded, replayed, queued, evicted; // over the run; queued: call by call
    int most_held;
    size_t most_bytes;
} ft_step_graphs;

// Queues a part of a step: by its graph, or call by call. For FT_STEP_BATCH the present batch of step->buffers.
ft_status ft_step_graphs_queue(struct ft_step *step, ft_step_shape shape);
// Between two steps: records what came back.
void ft_step_graphs_record(struct ft_step *step);
// Waits for the device and destroys them all.
void ft_step_graphs_drop(struct ft_step *step);

#endif
