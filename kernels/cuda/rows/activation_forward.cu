// activation_forward.cu - h = x + bias, y = act(h).
#include "kernels/cuda/rows/activation_function.h"
#include "kernels/cuda/unit.h"

template <class T, bool WHOLE> struct activation_forward_body {
    ft_activation kind;
    ft_view<const T> x, bias;
    ft_view<T> h, y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n);
        if (bias.data != nullptr) {
            ft_unit b = ft_load<WHOLE>(bias.at(0, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] += b.v[i];
        }
        if (h.data != nullptr) ft_store<WHOLE>(h.at(row, col), u, n);
        ft_with_activation<!WHOLE>(kind, [&](auto k) {
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) {
                float slope;
                u.v[i] = ft_activate(k.value, u.v[i], &slope);
            }
        });
        ft_store<WHOLE>(y.at(row, col), u, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_activation_forward_args *a) {
    using T = typename I::type;
    activation_forward_body<T, I::WHOLE> body = {a->kind, ft_view_of<const T>(a->x), ft_view_of<const T>(a->bias),
                                                 ft_view_of<T>(a->h), ft_view_of<T>(a->y)};
    return ft_each_unit("activation_forward", device, body, a->x.rows, a->x.cols);
}

ft_status ft_cuda_activation_forward(ft_device *device, const ft_activation_forward_args *args) {
    bool whole = !ft_is_rare(args->kind) && ft_is_whole(args->x) && ft_is_whole_vector(args->bias) && ft_is_whole(args->h) && ft_is_whole(args->y);
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
