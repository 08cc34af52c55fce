// observer.h - somebody who watches the runs of a context (base/context.h) and says when each may take its memory: a study,
// which has several trials share a device (hpo/workers/worker.h). One a context; without one it trains as ever.
#ifndef FT_OBSERVER_H
#define FT_OBSERVER_H

#include "base/status.h"
#include "kernels/ops/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ft_candidate; // admission.h
struct ft_memory;
struct ft_host_limits; // kernels/host_limits.h

// What an optimizer step of a run is predicted to take while it has its device alone, and what it keeps busy meanwhile: figures to compare
// runs by (kernels/devices/cost.h).
typedef struct ft_step_price {
    double seconds;    // 0: nobody knows
    ft_plan_work work; // of them
    int threads;       // of the CPU, of all ranks together; 0: it is a GPU
} ft_step_price;

typedef struct ft_run_observer {
    void *context;
    const char *name; // of the run, in front of the lines of its stages: "Trial 42 - "
    // A sign of life, at most ten a second. step -1: not of a step (an evaluation). logged: metrics.jsonl has a new line;
    // these are never left out.
    void (*alive)(void *context, int64_t step, int64_t total_steps, size_t reserved_bytes, bool logged);
    // Before `bytes` are reserved on the device: returns when the run may try, or with the status of a signal. `full`:
    // it has tried, and there was no room. *alone: nobody else of the watcher's has memory there, so that waiting for the
    // watcher's own runs would be in vain, and device.wait decides as for a run that nobody watches.
    ft_status (*turn)(void *context, size_t bytes, bool full, bool *alone);
    // Before its first turn: where it will be, and what a step takes. NULL: nobody asks, and nothing is counted.
    void (*priced)(void *context, const struct ft_candidate *where, const ft_step_price *price);
    // It has reserved them there.
    void (*entered)(void *context, const struct ft_candidate *where);
    // It has ended, well or not, and had reserved so much at most. NULL: nobody asks.
    void (*ended)(void *context, size_t peak_bytes);
    // A signal stops the run: whether it will go on some day, and so has to be saved. NULL: yes.
    bool (*keeps)(void *context);
    // What the run leaves at its end is taken at once, by somebody who has it written to the disk if it is to stay: nothing
    // but a checkpoint to go on from waits for the disk, and at the end there is none.
    bool taken;
    // Bytes that the watcher itself holds, and will hold: they count under what limits it has in common with the run.
    size_t beside;
    bool begun; // a run of what is watched has; kept here for ft_run_is_first, false at first
    int left;   // runs of it that come behind the present one (ft_run_leaves), 0 at first
    double told; // when there was a sign of life; kept here for ft_run_alive, 0 at first
} ft_run_observer;

void ft_run_observe(ft_run_observer *observer); // in the present context, kept by reference; NULL: nobody
const ft_run_observer *ft_run_observer_of(void);      // NULL: nobody
// As observer.alive; memory NULL: not of a step.
void ft_run_alive(struct ft_memory *memory, int64_t step, int64_t total_steps, bool logged);
void ft_run_ended(struct ft_memory *memory);          // NULL: it did not come so far as to have any
bool ft_run_keeps(void);                                    // as observer.keeps; true with nobody watching
// Of what is watched, a trial of several runs maybe: the first run that asks, and, after ft_run_leaves(0), the last one. Both false
// with nobody watching.
bool ft_run_is_first(void);
bool ft_run_is_last(void);
void ft_run_leaves(int runs);
// The limits of this process (devices.h), less what the watcher holds under them.
void ft_run_limits(struct ft_host_limits *limits);
bool ft_run_taken(void);                                    // as observer.taken; false with nobody watching

#endif
