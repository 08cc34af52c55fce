// column_sum.cu - out[N] += sum over rows of x[T,N].
#include "kernels/cuda/column_tiles.h"

template <bool WHOLE> struct column_sum_body {
    ft_view<const float> x;
    FT_METHOD void operator()(int64_t row, int col, int n, ft_sums<1> &sums) const {
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sums.of[0].v[i] += u.v[i];
    }
};

template <bool WHOLE> static ft_status run(ft_device *device, const ft_column_sum_args *a) {
    column_sum_body<WHOLE> body = {ft_view_of<const float>(a->x)};
    return ft_column_tiles<1>("column_sum", device, body, a->x.rows, a->x.cols,
                              ft_sum_outputs<1>{{(float *)a->out.data}}, a->workspace.data);
}

ft_status ft_cuda_column_sum(ft_device *device, const ft_column_sum_args *args) {
    return ft_is_whole(args->x) ? run<true>(device, args) : run<false>(device, args);
}
