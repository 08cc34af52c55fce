// fma_peak.h - what the machine can do right now: independent fused multiply-adds on all threads, for a few
// milliseconds.
//
// Virtual machines change speed by a factor of two from one minute to the next (neighbours, two virtual cores on one
// physical core). A speed without the peak measured beside it says nothing.
#ifndef FT_BENCH_FMA_PEAK_H
#define FT_BENCH_FMA_PEAK_H

#include "kernels/cpu/pool.h"

double ft_bench_seconds(void); // monotonic
// GFLOP/s of fp32 multiply-adds over all threads of the pool, with the widest vectors of this machine.
double ft_fma_peak(ft_pool *pool, double seconds);
// The same with those of an instruction set by its name (device.isa), what a program that keeps to it could reach; NULL, "auto": the widest.
double ft_fma_peak_of(ft_pool *pool, double seconds, const char *isa);

#endif
