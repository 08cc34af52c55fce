// activation_backward.cu - dx = dy act'(h), dbias += sum over rows of dx, and y = act(h) again where it is wanted.
#include "kernels/cuda/rows/activation_function.h"
#include "kernels/cuda/rows/column_tiles.h"

// n, as if nobody knew it: which columns there are is asked again behind the formulas, where eight answers to keep spilled on sm_120.
FT_DEVICE int ft_again(int n) {
#ifdef __CUDACC__
    asm volatile("mov.b32 %0, %0;" : "+r"(n));
#endif
    return n;
}

template <class T, bool WHOLE> struct activation_backward_body {
    ft_activation kind;
    ft_view<const T> h, dy;
    ft_view<T> dx, y;
    FT_METHOD void operator()(int64_t row, int col, int n, ft_unit &sums) const {
        ft_unit u = ft_load<WHOLE>(h.at(row, col), n), d = ft_load<WHOLE>(dy.at(row, col), n);
        ft_with_activation<!WHOLE>(kind, [&](auto k) {
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) {
                float slope;
                u.v[i] = ft_activate(k.value, u.v[i], &slope);
                d.v[i] *= slope;
                sums.v[i] += d.v[i];
            }
        });
        if (!WHOLE) n = ft_again(n);
        ft_store<WHOLE>(dx.at(row, col), d, n);
        if (y.data != nullptr) ft_store<WHOLE>(y.at(row, col), u, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_activation_backward_args *a) {
    using T = typename I::type;
    activation_backward_body<T, I::WHOLE> body = {a->kind, ft_view_of<const T>(a->h), ft_view_of<const T>(a->dy),
                                                  ft_view_of<T>(a->dx), ft_view_of<T>(a->y)};
    return ft_column_tiles("activation_backward", device, body, a->h.rows, a->h.cols, a->dbias, a->workspace.data);
}

ft_status ft_cuda_activation_backward(ft_device *device, const ft_activation_backward_args *args) {
    bool whole = !ft_is_rare(args->kind) && ft_is_whole(args->h) && ft_is_whole(args->dy) && ft_is_whole(args->dx) && ft_is_whole(args->y);
    return ft_pick(args->h.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
