// opened.h - what an open CUDA device that computes has loaded.
#ifndef FT_CUDA_OPENED_H
#define FT_CUDA_OPENED_H

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/cuda/driver/module.h"
#include "kernels/ops/gemm_choice.h"

typedef struct ft_cuda_gemms ft_cuda_gemms; // gemm.h

// Of a product with an epilogue (product.c), found once a run.
typedef struct ft_cuda_way {
    ft_gemm_shape shape;
    bool known, own;
} ft_cuda_way;
enum { FT_CUDA_WAYS = 64 };

struct ft_cuda_kernels {
    ft_cuda_module module;
    ft_cublaslt *lt;
    ft_cuda_gemms *gemms;
    ft_cuda_way ways[FT_CUDA_WAYS];
    ft_op_table ops; // unchecked: the device's table asks ft_<op>_check() first
};

#endif
