// row_types.h - instances of ops with two types of rows (kernels/ops/layernorm.h): T, and R of what adds up from layer
// to layer, fp32 or T.
#ifndef FT_CUDA_ROW_TYPES_H
#define FT_CUDA_ROW_TYPES_H

#include "kernels/cuda/unit.h"

// call(an instance of T, one of R): ft_pick of `dtype`, and R is fp32 where `adds` says so.
template <class Call> static inline ft_status ft_pick_rows(ft_dtype dtype, ft_dtype adds, bool whole, Call call) {
    return ft_pick(dtype, whole, [&](auto i) {
        using I = decltype(i);
        if constexpr (sizeof(typename I::type) < sizeof(float))
            if (adds != FT_F32) return call(i, ft_instance<typename I::type, I::WHOLE>{});
        return call(i, ft_instance<float, I::WHOLE>{});
    });
}

#endif
