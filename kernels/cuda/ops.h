// ops.h - the ops of CUDA. `ft_cuda_<name>` takes arguments that ft_<name>_check() accepted, queues its kernels on the
// device's stream and returns; nothing is waited for. gemm is plain C and part of the program, the others are kernels and
// part of the module. A kernel's file includes its own op's header.
#ifndef FT_CUDA_OPS_H
#define FT_CUDA_OPS_H

#include "kernels/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif
#define FT_OP(name, what)                                                                                              \
    struct ft_##name##_args;                                                                                           \
    ft_status ft_cuda_##name(ft_device *device, const struct ft_##name##_args *args);
#include "kernels/ops/ops.def"
#undef FT_OP
#ifdef __cplusplus
}
#endif

#endif
