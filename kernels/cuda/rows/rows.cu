// rows.cu - dropout of rows, and rows by index.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/rows.h"
}

// ---- dropout ----------------------------------------------------------------------------------------------------

template <class T, bool WHOLE> struct dropout_body {
    ft_row_dropout dropout;
    ft_view<const T> x;
    ft_view<T> y;
    bool accumulate;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n);
        if (dropout.drops()) dropout.apply(dropout.key(), row, col, u);
        if (accumulate) {
            const ft_unit sum = ft_load<WHOLE>(y.at(row, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] += sum.v[i];
        }
        ft_store<WHOLE>(y.at(row, col), u, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_dropout_args *a) {
    using T = typename I::type;
    dropout_body<T, I::WHOLE> body = {ft_row_dropout_of(&a->dropout), ft_view_of<const T>(a->x), ft_view_of<T>(a->y), a->accumulate};
    return ft_each_unit("dropout", device, body, a->x.rows, a->x.cols);
}

ft_status ft_cuda_dropout(ft_device *device, const ft_dropout_args *args) {
    if (args->dropout.probability == 0.0f && args->x.data == args->y.data) return FT_OK;
    bool whole = ft_is_whole(args->x) && ft_is_whole(args->y);
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}

// ---- rows by index ----------------------------------------------------------------------------------------------

template <class T, bool WHOLE> struct gather_rows_body {
    const int32_t *index;
    ft_view<const T> x;
    ft_view<T> y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_store<WHOLE>(y.at(row, col), ft_load<WHOLE>(x.at(index[row], col), n), n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_gather_rows_args *a) {
    using T = typename I::type;
    gather_rows_body<T, I::WHOLE> body = {a->index, ft_view_of<const T>(a->x), ft_view_of<T>(a->y)};
    return ft_each_unit("gather_rows", device, body, a->y.rows, a->y.cols);
}

ft_status ft_cuda_gather_rows(ft_device *device, const ft_gather_rows_args *args) {
    bool whole = ft_is_whole(args->x) && ft_is_whole(args->y);
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}

// The indices are distinct: no two threads meet.
template <class T, class Y, bool WHOLE> struct scatter_rows_add_body {
    const int32_t *index;
    ft_view<const T> x;
    ft_view<Y> y;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        Y *to = y.at(index[row], col);
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n), sum = ft_load<WHOLE>(to, n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sum.v[i] += u.v[i];
        ft_store<WHOLE>(to, sum, n);
    }
};

template <class I, class Y> static ft_status run(ft_device *device, const ft_scatter_rows_add_args *a) {
    using T = typename I::type;
    scatter_rows_add_body<T, Y, I::WHOLE> body = {a->index, ft_view_of<const T>(a->x), ft_view_of<Y>(a->y)};
    return ft_each_unit("scatter_rows_add", device, body, a->x.rows, a->x.cols);
}

ft_status ft_cuda_scatter_rows_add(ft_device *device, const ft_scatter_rows_add_args *args) {
    bool whole = ft_is_whole(args->x) && ft_is_whole(args->y), same = args->x.dtype == args->y.dtype;
    return ft_pick(args->x.dtype, whole, [&](auto i) {
        using I = decltype(i);
        return same ? run<I, typename I::type>(device, args) : run<I, float>(device, args);
    });
}
