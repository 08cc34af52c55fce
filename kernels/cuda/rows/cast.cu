// cast.cu - fp32 to 16 bits and back, of a flat buffer. Its quads are rows of their own: it may have more elements than an
// int counts, as the gradients of a large model have.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/cast.h"
}

// WHOLE: both buffers begin at 16-byte addresses; the last quad may have fewer elements.
template <class X, class Y, bool WHOLE> struct cast_body {
    const X *x;
    Y *y;
    int64_t count;
    FT_METHOD void operator()(int64_t quad, int, int) const {
        const int64_t at = quad * FT_QUAD;
        const int n = count - at < FT_QUAD ? (int)(count - at) : FT_QUAD;
        if (WHOLE && n == FT_QUAD)
            ft_store_quad<WHOLE>(y + at, ft_load_quad<WHOLE>(x + at, n), n);
        else
            ft_store_quad<false>(y + at, ft_load_quad<false>(x + at, n), n);
    }
};

template <class X, class Y, bool WHOLE> static ft_status run(ft_device *device, const ft_cast_args *a) {
    const int64_t n = a->x.rows * a->x.cols;
    cast_body<X, Y, WHOLE> body = {(const X *)a->x.data, (Y *)a->y.data, n};
    return ft_each_unit("cast", device, body, (n + FT_QUAD - 1) / FT_QUAD, 1);
}

template <bool WHOLE> static ft_status run(ft_device *device, const ft_cast_args *a) {
    const bool narrows = a->x.dtype == FT_F32;
    return ft_pick_half<WHOLE>(narrows ? a->y.dtype : a->x.dtype, [&](auto i) {
        using T = typename decltype(i)::type;
        return narrows ? run<float, T, WHOLE>(device, a) : run<T, float, WHOLE>(device, a);
    });
}

ft_status ft_cuda_cast(ft_device *device, const ft_cast_args *args) {
    bool whole = ft_is_whole_vector(args->x) && ft_is_whole_vector(args->y);
    return whole ? run<true>(device, args) : run<false>(device, args);
}
