// watch.h - somebody who is told how the runs of a context (base/context.h) come along: a program that trains, and shows it in its own
// way. He changes nothing about them; who shares out memory is an observer (room/observer.h).
#ifndef FT_WATCH_H
#define FT_WATCH_H

#include "engine/config/config.h"

#include <stddef.h>

typedef enum ft_run_event {
    FT_RUN_OPENED,    // there is a run directory; of several seeds or folds first theirs in common, then each its own
    FT_RUN_STEPPED,   // an optimizer step is done
    FT_RUN_LOGGED,    // metrics.jsonl has a line of steps; `loss` is their mean
    FT_RUN_EVALUATED, // and one of an evaluation
} ft_run_event;

typedef struct ft_run_news {
    ft_run_event event;
    const char *dir; // absolute
    int64_t step, steps; // done, of so many; 0, 0 of OPENED
    double epoch, loss, learning_rate, gradient_norm;
    double tokens_per_second, seconds_left; // of training so far
    size_t bytes;          // the most that the device's memory held
    const double *metrics; // [FT_METRIC_COUNT] of EVALUATED, NaN where there is none; else NULL
    bool best;             // of EVALUATED: the best so far
} ft_run_news;

typedef struct ft_run_watch {
    void *owner;
    // In the thread that trains, between two steps. It may ask for a stop (base/stop.h).
    void (*told)(void *owner, const ft_run_news *news);
} ft_run_watch;

// In the present context, kept by reference; NULL: nobody. Returns who watched before.
const ft_run_watch *ft_run_set_watch(const ft_run_watch *watch);
void ft_run_tell(const ft_run_news *news);

#endif
