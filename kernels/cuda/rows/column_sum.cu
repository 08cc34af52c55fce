// column_sum.cu - out[N] += sum over rows of x[T,N].
#include "kernels/cuda/rows/column_tiles.h"

extern "C" {
#include "kernels/ops/column_sum.h"
}

template <class T, bool WHOLE> struct column_sum_body {
    ft_view<const T> x;
    FT_METHOD void operator()(int64_t row, int col, int n, ft_unit &sums) const {
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sums.v[i] += u.v[i];
    }
};

template <class I> static ft_status run(ft_device *device, const ft_column_sum_args *a) {
    column_sum_body<typename I::type, I::WHOLE> body = {ft_view_of<const typename I::type>(a->x)};
    return ft_column_tiles("column_sum", device, body, a->x.rows, a->x.cols, a->out, a->workspace.data);
}

ft_status ft_cuda_column_sum(ft_device *device, const ft_column_sum_args *args) {
    return ft_pick(args->x.dtype, ft_is_whole(args->x), [&](auto i) { return run<decltype(i)>(device, args); });
}
