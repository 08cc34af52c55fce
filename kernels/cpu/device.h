// device.h - the CPU device as a whole: for open.c, which opens it, and the tables that it is made of.
#ifndef FT_CPU_DEVICE_H
#define FT_CPU_DEVICE_H

#include "kernels/cpu/cpu.h"
#include "kernels/ops/device.h"

typedef struct ft_cpu_device {
    ft_device device; // first: an ft_device of this backend is an ft_cpu_device
    ft_cpu cpu;
    const ft_op_table *fp32; // the ops of the instruction set: rows of fp32 (half_ops.h has the others)
} ft_cpu_device;

// ranges.c: functions of the device's table
ft_status ft_cpu_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page);
ft_status ft_cpu_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_release(ft_device *device, void *base, size_t bytes);
size_t ft_cpu_range_room(ft_device *device);

#endif
