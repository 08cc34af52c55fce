// layernorm_backward.cu - two sweeps, as on the CPU: rows for the two means of a row, then columns for everything else,
// so that dgamma, dbeta and dbias are sums in a fixed order. ds may take dy's place: the second sweep reads each
// element before the same thread, or its neighbour, writes it.
#include "kernels/cuda/column_tiles.h"

template <class T> struct layernorm_means_job {
    ft_view<const float> dy, gamma;
    ft_view<const T> s;
    const float *mean, *rstd;
    float *means; // [2 * rows] of g = dy gamma and of g xhat
};

template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) layernorm_means_kernel(layernorm_means_job<T> job, int64_t rows, int cols) {
    const int lane = threadIdx.x % FT_WARP;
    const int64_t row = (int64_t)blockIdx.x * FT_BLOCK_WARPS + threadIdx.x / FT_WARP;
    if (row >= rows) return; // whole warps
    const float mean = job.mean[row], rstd = job.rstd[row];
    float sum = 0.0f, dot = 0.0f;
    for (int col = lane * FT_CUDA_UNIT; col < cols; col += FT_WARP * FT_CUDA_UNIT) {
        const int n = cols - col;
        ft_unit dy = ft_load<WHOLE>(job.dy.at(row, col), n), s = ft_load<WHOLE>(job.s.at(row, col), n);
        ft_unit gamma = ft_load<WHOLE>(job.gamma.at(0, col), n); // columns past the end have dy = gamma = 0
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) {
            float g = dy.v[i] * gamma.v[i];
            sum += g;
            dot = fmaf(g, (s.v[i] - mean) * rstd, dot);
        }
    }
    sum = ft_warp_sum(sum) / (float)cols;
    dot = ft_warp_sum(dot) / (float)cols;
    if (lane != 0) return;
    job.means[2 * row] = sum;
    job.means[2 * row + 1] = dot;
}

enum { DGAMMA, DBETA, DBIAS };

template <class T, bool WHOLE> struct layernorm_backward_body {
    ft_view<const float> dy, gamma;
    ft_view<const T> s;
    const float *mean, *rstd, *means; // means: NULL when only dgamma and dbeta are wanted
    ft_view<float> ds;
    ft_view<T> dx;
    ft_row_dropout dropout;
    FT_METHOD void operator()(int64_t row, int col, int n, unsigned lanes, ft_sums<3> &sums) const {
        const float center = mean[row], scale = rstd[row];
        ft_unit d = ft_load<WHOLE>(dy.at(row, col), n), hat = ft_load<WHOLE>(s.at(row, col), n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) {
            hat.v[i] = (hat.v[i] - center) * scale;
            sums.of[DGAMMA].v[i] = fmaf(d.v[i], hat.v[i], sums.of[DGAMMA].v[i]);
            sums.of[DBETA].v[i] += d.v[i];
        }
        if (means == nullptr) return;
        const float of_g = means[2 * row], of_dot = means[2 * row + 1];
        ft_unit g = ft_load<WHOLE>(gamma.at(0, col), n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            d.v[i] = scale * fmaf(-hat.v[i], of_dot, d.v[i] * g.v[i] - of_g);
        if (WHOLE && ds.data != nullptr && __popc(lanes) % 2 == 0)
            ft_store_in_pairs(ds.at(row, col), d, lanes);
        else if (ds.data != nullptr)
            ft_store<WHOLE>(ds.at(row, col), d, n);
        if (dropout.drops()) dropout.apply(dropout.key(), row, col, d);
        if (dx.data != nullptr) ft_store<WHOLE>(dx.at(row, col), d, n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            sums.of[DBIAS].v[i] += d.v[i];
    }
};

template <class I> static ft_status run(ft_device *device, const ft_layernorm_backward_args *a) {
    using T = typename I::type;
    const int64_t rows = a->dy.rows, cols = a->dy.cols;
    if (rows == 0) return FT_OK;
    float *means =
        a->ds.data != NULL || a->dx.data != NULL || a->dbias.data != NULL ? (float *)a->workspace.data : NULL;
    const ft_view<const float> dy = ft_view_of<const float>(a->dy), gamma = ft_view_of<const float>(a->gamma);
    const ft_view<const T> s = ft_view_of<const T>(a->s);
    const float *mean = (const float *)a->mean.data, *rstd = (const float *)a->rstd.data;
    if (means != NULL) {
        layernorm_means_job<T> job = {dy, gamma, s, mean, rstd, means};
        FT_TRY(ft_launch("layernorm_backward", layernorm_means_kernel<T, I::WHOLE>,
                         dim3((unsigned)((rows + FT_BLOCK_WARPS - 1) / FT_BLOCK_WARPS)), dim3(FT_BLOCK), 0,
                         ft_stream(device), job, rows, (int)cols));
    }
    layernorm_backward_body<T, I::WHOLE> body = {
        dy, gamma, s, mean, rstd, means, ft_view_of<float>(a->ds), ft_view_of<T>(a->dx), ft_row_dropout_of(&a->dropout)};
    char *tiles = (char *)a->workspace.data + ft_cuda_aligned((size_t)rows * 2 * sizeof(float));
    ft_sum_outputs<3> outputs = {{(float *)a->dgamma.data, (float *)a->dbeta.data, (float *)a->dbias.data}};
    return ft_column_tiles<3>("layernorm_backward", device, body, rows, cols, outputs, tiles);
}

ft_status ft_cuda_layernorm_backward(ft_device *device, const ft_layernorm_backward_args *args) {
    bool whole = ft_is_whole(args->dy) && ft_is_whole(args->s) && ft_is_whole_vector(args->gamma) &&
                 ft_is_whole(args->ds) && ft_is_whole(args->dx);
    return ft_pick(args->s.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
