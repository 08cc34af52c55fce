// magnitude.cu - norms of the rows of w + scale b a, a warp a row; and columns times numbers of their own.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/magnitude.h"
}

template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    row_norm_kernel(ft_view<const T> w, ft_view<const T> b, ft_view<const T> a, float scale, float *out, int64_t rows, int cols, int rank) {
    const int lane = threadIdx.x % FT_WARP;
    const int64_t row = (int64_t)blockIdx.x * FT_BLOCK_WARPS + threadIdx.x / FT_WARP;
    if (row >= rows) return; // whole warps; no barrier of the block follows
    float squares = 0.0f;
    for (int col = lane * FT_CUDA_UNIT; col < cols; col += FT_WARP * FT_CUDA_UNIT) {
        const int n = cols - col < FT_CUDA_UNIT ? cols - col : FT_CUDA_UNIT;
        const ft_unit u = ft_load<WHOLE>(w.at(row, col), n);
        ft_unit delta = ft_unit_zero();
#pragma unroll WHOLE ? 4 : 1 // (unrolled, what is not whole spills on sm_120)
        for (int k = 0; k < rank; k++) {
            const float high = ft_to_float(*b.at(row, k));
            const ft_unit low = ft_load<WHOLE>(a.at(k, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) delta.v[i] = fmaf(high, low.v[i], delta.v[i]);
        }
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) {
            const float v = fmaf(scale, delta.v[i], u.v[i]);
            squares = fmaf(v, v, squares);
        }
    }
    const float sum = ft_warp_sum(squares);
    if (lane == 0) out[row] = sqrtf(sum);
}

template <class I> static ft_status run_norm(ft_device *device, const ft_row_norm_args *x) {
    using T = typename I::type;
    if (x->w.rows == 0) return FT_OK;
    const unsigned blocks = (unsigned)((x->w.rows + FT_BLOCK_WARPS - 1) / FT_BLOCK_WARPS);
    return ft_launch("row_norm", row_norm_kernel<T, I::WHOLE>, dim3(blocks), dim3(FT_BLOCK), 0, ft_stream(device), ft_view_of<const T>(x->w),
                     ft_view_of<const T>(x->b), ft_view_of<const T>(x->a), x->scale, (float *)x->out.data, x->w.rows, (int)x->w.cols, (int)x->a.rows);
}

ft_status ft_cuda_row_norm(ft_device *device, const ft_row_norm_args *args) {
    const bool whole = ft_is_whole(args->w) && ft_is_whole(args->a);
    return ft_pick(args->w.dtype, whole, [&](auto i) { return run_norm<decltype(i)>(device, args); });
}

template <class T, class Y, bool WHOLE> struct column_scale_body {
    ft_view<const T> x, times, bias;
    ft_view<const float> magnitude, norm;
    ft_view<Y> y;
    float shift;
    bool accumulate;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        ft_unit u = ft_load<WHOLE>(x.at(row, col), n), g, more = ft_unit_zero();
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) g.v[i] = 1.0f;
        if (magnitude.data != nullptr) g = ft_load<WHOLE>(magnitude.at(0, col), n);
        if (norm.data != nullptr) {
            const ft_unit by = ft_load<WHOLE>(norm.at(0, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) g.v[i] = by.v[i] > 0.0f ? g.v[i] / by.v[i] : 0.0f;
        }
        if (times.data != nullptr) {
            const ft_unit other = ft_load<WHOLE>(times.at(row, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] *= other.v[i];
        }
        if (bias.data != nullptr) {
            const ft_unit add = ft_load<WHOLE>(bias.at(0, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) more.v[i] = (1.0f - g.v[i]) * add.v[i];
        }
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] = fmaf(u.v[i], g.v[i] + shift, more.v[i]);
        if (accumulate) {
            const ft_unit past = ft_load<WHOLE>((const Y *)y.at(row, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] += past.v[i];
        }
        ft_store<WHOLE>(y.at(row, col), u, n);
    }
};

template <class T, class Y, bool WHOLE> static ft_status run_scale(ft_device *device, const ft_column_scale_args *a) {
    column_scale_body<T, Y, WHOLE> body = {ft_view_of<const T>(a->x), ft_view_of<const T>(a->times), ft_view_of<const T>(a->bias),
                                           ft_view_of<const float>(a->magnitude), ft_view_of<const float>(a->norm), ft_view_of<Y>(a->y), a->shift,
                                           a->accumulate};
    return ft_each_unit("column_scale", device, body, a->x.rows, a->x.cols);
}

ft_status ft_cuda_column_scale(ft_device *device, const ft_column_scale_args *args) {
    const bool whole = ft_is_whole(args->x) && ft_is_whole(args->times) && ft_is_whole(args->y) && ft_is_whole_vector(args->bias) &&
                       ft_is_whole_vector(args->magnitude) && ft_is_whole_vector(args->norm);
    const bool same = args->y.dtype == args->x.dtype;
    return ft_pick(args->x.dtype, whole, [&](auto i) {
        using I = decltype(i);
        if (same) return run_scale<typename I::type, typename I::type, I::WHOLE>(device, args);
        return run_scale<typename I::type, float, I::WHOLE>(device, args);
    });
}
