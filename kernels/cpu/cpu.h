// cpu.h - the CPU device as its ops see it. Of the ops' own headers it knows none: an op of isa/ includes its own, and is
// compiled again for nothing else.
#ifndef FT_CPU_H
#define FT_CPU_H

#include "kernels/cpu/pool.h"
#include "kernels/ops/op.h"

// What products of bf16 rows are computed with, all with the same bits (bf16.h).
typedef enum ft_bf16_unit { FT_BF16_BY_FMA, FT_BF16_BY_DOT, FT_BF16_BY_AMX, FT_BF16_UNITS } ft_bf16_unit; // FMA, VDPBF16PS, TDPBF16PS

typedef struct ft_cpu {
    ft_target target; // what the scratch of its ops goes by
    ft_pool *pool;
    int threads;
    ft_bf16_unit bf16;
    bool has_vnni; // of AVX-512
} ft_cpu;

const ft_cpu *ft_cpu_of(const ft_device *device); // of a CPU device

#endif
