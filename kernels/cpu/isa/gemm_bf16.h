// gemm_bf16.h - products whose sum is that of kernels/cpu/bf16.h: what gemm.c hands on to gemm_bf16.c.
#ifndef FT_CPU_GEMM_BF16_H
#define FT_CPU_GEMM_BF16_H

#include "kernels/cpu/isa/isa.h"
#include "kernels/ops/gemm.h"

ft_status FT_ISA_NAME(gemm_bf16)(ft_device *device, const ft_gemm_args *args);
// Of avx512, which alone has further units: whether this processor's gives the bits of bf16.h, by trying it. No manual
// decides that.
bool FT_ISA_NAME(bf16_unit_agrees)(ft_bf16_unit unit);

#endif
