// decay.cu - the weight decay of many steps: a thread keeps a unit in registers over all factors, which all threads read
// alike.
#include "kernels/cuda/unit.h"

template <bool WHOLE> struct decay_body {
    float *parameter;
    int64_t n;
    const float *factors;
    int64_t count;
    FT_METHOD void operator()(int64_t unit, int, int) const {
        float *at = parameter + unit * FT_CUDA_UNIT;
        const int left = n - unit * FT_CUDA_UNIT < FT_CUDA_UNIT ? (int)(n - unit * FT_CUDA_UNIT) : FT_CUDA_UNIT;
        const bool whole = WHOLE && left == FT_CUDA_UNIT;
        ft_unit u = whole ? ft_load<true>(at, left) : ft_load<false>(at, left);
        for (int64_t f = 0; f < count; f++) {
            const float factor = factors[f];
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] *= factor;
        }
        if (whole)
            ft_store<true>(at, u, left);
        else
            ft_store<false>(at, u, left);
    }
};

ft_status ft_cuda_decay(ft_device *device, const ft_decay_args *a) {
    const int64_t n = a->parameter.rows * a->parameter.cols, units = (n + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT;
    float *parameter = (float *)a->parameter.data;
    if (a->count == 0) return FT_OK;
    if (ft_is_whole_vector(a->parameter))
        return ft_each_unit("decay", device, decay_body<true>{parameter, n, a->factors, a->count}, units, 1);
    return ft_each_unit("decay", device, decay_body<false>{parameter, n, a->factors, a->count}, units, 1);
}
