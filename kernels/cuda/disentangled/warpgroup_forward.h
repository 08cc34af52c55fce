// warpgroup_forward.h - disentangled attention forward on warpgroups of sm_90a (warpgroup_forward.cu), for what has a
// path on tensor cores and is aligned: heads of 64 with both terms.
#ifndef FT_CUDA_DISENTANGLED_WARPGROUP_FORWARD_H
#define FT_CUDA_DISENTANGLED_WARPGROUP_FORWARD_H

#include "kernels/cuda/disentangled/sweep.h"

bool ft_disentangled_has_warpgroup_forward(const ft_disentangled_attention_forward_args &args);
ft_status ft_disentangled_warpgroup_forward(ft_device *device, const ft_disentangled_attention_forward_args &args);

#endif
