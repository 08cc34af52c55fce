// half_ops.h - ops whose rows are bf16 or fp16 on the CPU: views are widened to fp32 in scratch, the op of fp32
// computes, results are rounded back. Slow, but the bytes of tensors and the rounding are those of a device that has
// such numbers; what only moves or adds rows does so where they lie. An op of fp32 rows passes through, at the price of
// one branch; so do products of bf16, which the instruction sets have themselves (isa/gemm_bf16.c).
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
