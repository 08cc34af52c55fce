// cpu.h - the CPU device as its ops see it. Of the ops' own headers it knows none: an op of isa/ includes its own, and is
// compiled again for nothing else.
#ifndef FT_CPU_H
#define FT_CPU_H

#include "kernels/cpu/pool.h"
#include "kernels/ops/op.h"

// What products of bf16 rows are computed with, all with the same bits (bf16.h).
typedef enum ft_bf16_unit { FT_BF16_BY_FMA, FT_BF16_BY_DOT, FT_BF16_BY_AMX, FT_BF16_UNITS } ft_bf16_unit; // FMA, VDPBF16PS, TDPBF16PS

// What products of 8 bits are computed with. Their sums are exact, so all have the same bits. A set of instructions has some of them:
// by 16 bits all of them, u8 by s8 in one step (VPDPBUSD, USDOT), s8 by s8 (SDOT), tiles (TDPBUSD).
typedef enum ft_int8_unit { FT_INT8_WIDENED, FT_INT8_BY_DOT, FT_INT8_BY_SIGNED_DOT, FT_INT8_BY_AMX, FT_INT8_UNITS } ft_int8_unit;

typedef struct ft_cpu {
    ft_target target; // what the scratch of its ops goes by
    ft_pool *pool;
    int threads;
    ft_bf16_unit bf16;
    ft_int8_unit int8;
} ft_cpu;

const ft_cpu *ft_cpu_of(const ft_device *device); // of a CPU device

#endif
