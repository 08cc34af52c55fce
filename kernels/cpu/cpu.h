// cpu.h - the CPU device as its ops see it.
#ifndef FT_CPU_H
#define FT_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/pool.h"

typedef struct ft_cpu {
    ft_device device; // first: an ft_device of this backend is an ft_cpu
    ft_pool *pool;
    int threads;
    const ft_op_table *fp32; // the ops of the instruction set: rows of fp32 (half_ops.h has the others)
} ft_cpu;

// ranges.c: functions of the device's table
ft_status ft_cpu_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page);
ft_status ft_cpu_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_release(ft_device *device, void *base, size_t bytes);

static inline ft_cpu *ft_cpu_of(ft_device *device) { return (ft_cpu *)device; }

#endif
