// isa.h - names of what is compiled once per instruction set.
//
// The sources in this folder are built as ft_cpu_portable, ft_cpu_avx2, ft_cpu_avx512 and ft_cpu_neon with FT_ISA set to the name:
//     FT_ISA_OP(gemm) { ... }      defines ft_status ft_gemm_avx2(ft_device *device, const ft_gemm_args *args) and so on.
// Everything else in these files must be static. Code must not depend on the instruction set in its results: see vec.h.
#ifndef FT_CPU_ISA_H
#define FT_CPU_ISA_H

#include "kernels/cpu/cpu.h"

#if !defined(FT_ISA)
#error "FT_ISA must name the instruction set: portable, avx2, avx512 or neon"
#endif
#define FT_ISA_JOIN_(name, isa) ft_##name##_##isa
#define FT_ISA_JOIN(name, isa) FT_ISA_JOIN_(name, isa)
#define FT_ISA_NAME(name) FT_ISA_JOIN(name, FT_ISA)

// The head of an op's function, declared and defined: its arguments are `device` and `args`.
#define FT_ISA_OP(name)                                                                                                \
    ft_status FT_ISA_NAME(name)(ft_device * device, const ft_##name##_args *args);                                     \
    ft_status FT_ISA_NAME(name)(ft_device * device, const ft_##name##_args *args)

#endif
