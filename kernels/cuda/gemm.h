// gemm.h - the matrix products of one CUDA device: cuBLASLt's handle, and for every shape that was asked for the
// descriptors and the algorithm.
//
// An algorithm is what cuBLASLt's heuristic names first for (shapes, strides, types, alignment of the addresses, the
// fixed workspace): a function of the call and the library, never of time. fp32 is IEEE fp32 without TF32, 16-bit
// inputs are summed in fp32. Sums of a split K are added in fp32 in the workspace, in a fixed order.
#ifndef FT_CUDA_GEMM_H
#define FT_CUDA_GEMM_H

#include "kernels/cuda/cublaslt.h"
#include "kernels/gemm.h"

typedef struct ft_cuda_gemms ft_cuda_gemms;

// The device's context is the calling thread's. `lt` must outlive the result.
ft_status ft_cuda_gemms_open(const ft_cublaslt *lt, ft_cuda_gemms **gemms);
void ft_cuda_gemms_close(ft_cuda_gemms *gemms); // NULL is fine

#endif
