// elementwise.h - what the row-wise, column-wise and flat ops of the CPU share.
#ifndef FT_CPU_ELEMENTWISE_H
#define FT_CPU_ELEMENTWISE_H

#include "kernels/cpu/cpu.h"
#include "kernels/ops/check.h"

// Below this many elements a thread's share costs less than waking the thread.
enum { FT_ELEMENTS_WORTH_A_THREAD = 4096 };

// Columns of a chain are shared out in blocks of one cache line, which is one vector.
enum { FT_COLUMN_GRAIN = 16 };

static inline float *ft_row(ft_tensor t, int64_t row) { return (float *)t.data + row * t.stride; }
// NULL when absent.
static inline float *ft_row_if(ft_tensor t, int64_t row) { return t.data ? ft_row(t, row) : NULL; }

// Scratch of a thread: a row of bf16 that is normalised, in fp32.
static inline int64_t ft_layernorm_row_floats(int64_t cols) { return (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN * FT_COLUMN_GRAIN; }

// In how many shares to cut `units` (rows, blocks of columns) that hold `elements` in all.
static inline int ft_shares(const ft_cpu *cpu, int64_t units, int64_t elements) {
    int64_t shares = ft_pieces(cpu->threads);
    if (shares > elements / FT_ELEMENTS_WORTH_A_THREAD) shares = elements / FT_ELEMENTS_WORTH_A_THREAD;
    if (shares > units) shares = units;
    return shares < 1 ? 1 : (int)shares;
}

#endif
