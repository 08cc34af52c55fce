// cpu.h - the CPU device as its ops see it.
#ifndef FT_CPU_H
#define FT_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/pool.h"

typedef struct ft_cpu {
    ft_device device; // first: an ft_device of this backend is an ft_cpu
    ft_pool *pool;
    int threads;
} ft_cpu;

static inline ft_cpu *ft_cpu_of(ft_device *device) { return (ft_cpu *)device; }

#endif
