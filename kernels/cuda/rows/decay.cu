// decay.cu - the weight decay of many steps: a thread keeps a quad in registers over all factors, which all threads read
// alike.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/decay.h"
}

template <bool WHOLE> struct decay_body {
    float *parameter;
    int64_t n;
    const float *factors;
    int64_t count;
    FT_METHOD void operator()(int64_t quad, int, int) const {
        float *at = parameter + quad * FT_QUAD;
        const int left = n - quad * FT_QUAD < FT_QUAD ? (int)(n - quad * FT_QUAD) : FT_QUAD;
        const bool whole = WHOLE && left == FT_QUAD;
        ft_quad u = whole ? ft_load_quad<true>(at, left) : ft_load_quad<false>(at, left);
        for (int64_t f = 0; f < count; f++) {
            const float factor = factors[f];
#pragma unroll
            for (int i = 0; i < FT_QUAD; i++)
                u.v[i] *= factor;
        }
        if (whole)
            ft_store_quad<true>(at, u, left);
        else
            ft_store_quad<false>(at, u, left);
    }
};

ft_status ft_cuda_decay(ft_device *device, const ft_decay_args *a) {
    const int64_t n = a->parameter.rows * a->parameter.cols, quads = (n + FT_QUAD - 1) / FT_QUAD;
    float *parameter = (float *)a->parameter.data;
    if (a->count == 0) return FT_OK;
    if (ft_is_whole_vector(a->parameter))
        return ft_each_unit("decay", device, decay_body<true>{parameter, n, a->factors, a->count}, quads, 1);
    return ft_each_unit("decay", device, decay_body<false>{parameter, n, a->factors, a->count}, quads, 1);
}
