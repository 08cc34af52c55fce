// device.h - the CPU device as a whole: for open.c, which opens it, and the tables that it is made of.
#ifndef FT_CPU_DEVICE_H
#define FT_CPU_DEVICE_H

#include "kernels/cpu/cpu.h"
#include "kernels/ops/device.h"

// Rows [first, last): fp32 of bf16 or fp16, or those rounded of fp32. The same bits from every instruction set.
typedef void ft_convert_rows(ft_tensor narrow, ft_tensor wide, bool widen, int64_t first, int64_t last);

typedef struct ft_cpu_device {
    ft_device device; // first: an ft_device of this backend is an ft_cpu_device
    ft_cpu cpu;
    const ft_op_table *own; // the ops of the instruction set (half_ops.h has those whose rows it does not take)
    ft_convert_rows *convert;
} ft_cpu_device;

// ranges.c: functions of the device's table
ft_status ft_cpu_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page);
ft_status ft_cpu_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cpu_range_release(ft_device *device, void *base, size_t bytes);
size_t ft_cpu_range_room(ft_device *device);

#endif
