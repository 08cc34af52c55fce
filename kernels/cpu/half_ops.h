// half_ops.h - ops of 16 bits on the CPU that the instruction sets do not take as they are: views are widened to fp32 in scratch, the op of
// fp32 computes, results are rounded back, with the bytes of tensors and the rounding of a device that has such numbers. That is fp16, which
// is for GPUs, attention of talking heads, and what is rare. fp32 passes through, at the price of one branch; so does bf16 in products (isa/gemm_bf16.c) and in
// ops on rows, which widen and round in registers (isa/tiles/bf16_lanes.h).
#ifndef FT_CPU_HALF_OPS_H
#define FT_CPU_HALF_OPS_H

#include "kernels/ops/backend.h"

// Every op, for any type of rows: the table of a CPU device.
extern const ft_op_table ft_cpu_ops;

// Scratch for the fp32 copies of an op's 16-bit views, besides what the op of fp32 needs; 0 for fp32.
#define FT_OP(name, what) size_t ft_cpu_copies_##name(const ft_##name##_args *args);
#include "kernels/ops/ops.def"
#undef FT_OP

#endif
