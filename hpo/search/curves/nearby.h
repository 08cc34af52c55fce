// nearby.h - what the place of a trial lets expect of it: the mean of the trials around it, by a normal kernel whose
// widths are those with which trials are best told from the others.
#ifndef FT_HPO_NEARBY_H
#define FT_HPO_NEARBY_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_nearby {
    int axes;
    const bool *choice;  // [axes] another value is as far away as the other end of a range
    int64_t count, room; // trials
    const double *at;    // [count][axes] parts of the ranges, a choice's index; NaN: compared by the other axes
    double *value,
        *trust;          // [count] final value, as it is or expected (better when higher); how far it is known, 0 to 1
    double *width;       // [axes] of the kernel
    double *kernel;      // [count][room] of each pair: trials are asked about again and again
    double mean, spread; // of all trials; of a new trial's final value
} ft_nearby;

// Expected at a place, without trial `without` (-1: of all); *mass: how much is known there.
double ft_nearby_ask(const ft_nearby *nearby, const double *at, int64_t without, double *mass);
// The same of a trial's own place, without itself; by the kernels of ft_nearby_weigh.
double ft_nearby_expect(const ft_nearby *nearby, int64_t trial);
// Kernels of the trials from `first` on, with all; where a width or `room` has changed, of all.
void ft_nearby_weigh(ft_nearby *nearby, int64_t first);
// Sets the widths by the latest trials, each told from all others.
ft_status ft_nearby_fit(ft_nearby *nearby, ft_arena *arena);

#endif
