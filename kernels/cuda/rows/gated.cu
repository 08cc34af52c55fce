// gated.cu - y = act(a) * g of the halves of a row, and its gradients.
#include "kernels/cuda/rows/activation_function.h"
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/gated.h"
}

template <class T, bool WHOLE> struct gated_forward_body {
    ft_activation kind;
    int half;
    ft_view<const T> x;
    ft_view<T> y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit a = ft_load<WHOLE>(x.at(row, col), n);
        const ft_unit g = ft_load<WHOLE>(x.at(row, half + col), n);
        ft_with_activation<!WHOLE>(kind, [&](auto k) {
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) {
                float slope;
                a.v[i] = ft_activate(k.value, a.v[i], &slope) * g.v[i];
            }
        });
        ft_store<WHOLE>(y.at(row, col), a, n);
    }
};

template <class T, bool WHOLE> struct gated_backward_body {
    ft_activation kind;
    int half;
    ft_view<const T> h, dy;
    ft_view<T> dx, y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit a = ft_load<WHOLE>(h.at(row, col), n), g = ft_load<WHOLE>(h.at(row, half + col), n);
        const ft_unit d = ft_load<WHOLE>(dy.at(row, col), n);
        ft_unit da, dg;
        ft_with_activation<!WHOLE>(kind, [&](auto k) {
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) {
                float slope;
                const float value = ft_activate(k.value, a.v[i], &slope);
                da.v[i] = d.v[i] * g.v[i] * slope;
                dg.v[i] = d.v[i] * value;
                a.v[i] = value * g.v[i];
            }
        });
        ft_store<WHOLE>(dx.at(row, col), da, n);
        ft_store<WHOLE>(dx.at(row, half + col), dg, n);
        if (y.data != nullptr) ft_store<WHOLE>(y.at(row, col), a, n);
    }
};

template <class I> static ft_status run_forward(ft_device *device, const ft_gated_forward_args *a) {
    using T = typename I::type;
    gated_forward_body<T, I::WHOLE> body = {a->kind, (int)a->y.cols, ft_view_of<const T>(a->x), ft_view_of<T>(a->y)};
    return ft_each_unit("gated_forward", device, body, a->y.rows, a->y.cols);
}

template <class I> static ft_status run_backward(ft_device *device, const ft_gated_backward_args *a) {
    using T = typename I::type;
    gated_backward_body<T, I::WHOLE> body = {a->kind, (int)a->dy.cols, ft_view_of<const T>(a->h), ft_view_of<const T>(a->dy),
                                             ft_view_of<T>(a->dx), ft_view_of<T>(a->y)};
    return ft_each_unit("gated_backward", device, body, a->dy.rows, a->dy.cols);
}

ft_status ft_cuda_gated_forward(ft_device *device, const ft_gated_forward_args *args) {
    const bool whole = !ft_is_rare(args->kind) && ft_is_whole(args->x) && ft_is_whole(args->y);
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run_forward<decltype(i)>(device, args); });
}

ft_status ft_cuda_gated_backward(ft_device *device, const ft_gated_backward_args *args) {
    const bool whole = !ft_is_rare(args->kind) && ft_is_whole(args->h) && ft_is_whole(args->dy) && ft_is_whole(args->dx) && ft_is_whole(args->y);
    return ft_pick(args->h.dtype, whole, [&](auto i) { return run_backward<decltype(i)>(device, args); });
}
