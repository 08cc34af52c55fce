// layernorm_forward.cu - s = residual + dropout(x + bias), y = LayerNorm(s) * gamma + beta. A warp has a row and keeps
// it in shared memory between the three looks at it: sum, squares around the mean, result. The last look is by quads, so that
// what is written in fp32 comes in whole sectors. `wide` may take the residual's place: that was read in the first look, and `stream` in that very look.
// R: the type of residual and stream, fp32 or T.
#include "kernels/cuda/rows/row_types.h"
#include "kernels/cuda/tile/kept_row.h"

extern "C" {
#include "kernels/ops/layernorm.h"
}

namespace {
enum { LAYERNORM_MOST_WARPS = 4 };

template <class T, class R> struct layernorm_forward_job {
    ft_view<const T> x, bias;
    ft_view<const R> residual;
    ft_view<const float> gamma, beta;
    ft_view<T> s, y;
    ft_view<float> wide;
    ft_view<R> stream;
    float *mean, *rstd;
    ft_row_dropout dropout;
    float epsilon;
    bool rms;
};
} // namespace

FT_DEVICE void add_unit(ft_unit &to, const ft_unit &u) {
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        to.v[i] += u.v[i];
}

template <class T, bool WHOLE, class R>
FT_KERNEL void __launch_bounds__(LAYERNORM_MOST_WARPS *FT_WARP)
    layernorm_forward_kernel(layernorm_forward_job<T, R> job, int64_t rows, int cols) {
    FT_DYNAMIC_SHARED(bytes);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP, warps = blockDim.x / FT_WARP;
    const int units = (cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT, high = ft_kept_high(units);
    const int64_t row = (int64_t)blockIdx.x * warps + warp;
    if (row >= rows) return; // whole warps; no barrier of the block follows
    float4 *kept = reinterpret_cast<float4 *>(bytes) + (size_t)warp * ft_kept_quads(units);
    const uint64_t key = job.dropout.key();
    float sum = 0.0f;
    for (int at = lane; at < units; at += FT_WARP) {
        const int col = at * FT_CUDA_UNIT, n = cols - col < FT_CUDA_UNIT ? cols - col : FT_CUDA_UNIT;
        ft_unit u = job.x.data != nullptr ? ft_load<WHOLE>(job.x.at(row, col), n) : ft_unit_zero();
        if (job.bias.data != nullptr) add_unit(u, ft_load<WHOLE>(job.bias.at(0, col), n));
        if (job.dropout.drops()) job.dropout.apply(key, row, col, u);
        if (job.residual.data != nullptr) add_unit(u, ft_load<WHOLE>(job.residual.at(row, col), n));
        ft_keep_unit(kept, high, at, u);
        if (job.s.data != nullptr) ft_store<WHOLE>(job.s.at(row, col), u, n);
        if (job.stream.data != nullptr) ft_store<WHOLE>(job.stream.at(row, col), u, n);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            if (WHOLE || i < n) sum += u.v[i];
    }
    const float mean = job.rms ? 0.0f : ft_warp_sum(sum) / (float)cols; // the whole grid alike
    float squares = 0.0f;
    for (int at = lane; at < units; at += FT_WARP) {
        const int n = cols - at * FT_CUDA_UNIT;
        ft_unit u = ft_kept_unit(kept, high, at);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            if (WHOLE || i < n) squares = fmaf(u.v[i] - mean, u.v[i] - mean, squares);
    }
    const float rstd = 1.0f / sqrtf(ft_warp_sum(squares) / (float)cols + job.epsilon);
    __syncwarp(); // quads were kept by other lanes
    for (int col = lane * FT_QUAD; col < cols; col += FT_WARP * FT_QUAD) {
        const int n = cols - col;
        ft_quad u = ft_kept_quad(kept, high, col / FT_QUAD);
        const ft_quad gamma = ft_load_quad<WHOLE>(job.gamma.at(0, col), n);
        ft_quad beta = {};
        if (job.beta.data != nullptr) beta = ft_load_quad<WHOLE>(job.beta.at(0, col), n);
#pragma unroll
        for (int i = 0; i < FT_QUAD; i++)
            u.v[i] = fmaf((u.v[i] - mean) * rstd, gamma.v[i], beta.v[i]);
        ft_store_quad<WHOLE>(job.y.at(row, col), u, n);
        if constexpr (sizeof(T) < sizeof(R))
            if (job.wide.data != nullptr) ft_store_quad<WHOLE>(job.wide.at(row, col), u, n);
    }
    if (lane != 0) return;
    if (job.mean != nullptr) job.mean[row] = mean;
    if (job.rstd != nullptr) job.rstd[row] = rstd;
}

template <class I, class R> static ft_status run(ft_device *device, const ft_layernorm_forward_args *a) {
    using T = typename I::type;
    const int64_t rows = a->x.rows, cols = a->x.cols;
    const size_t bytes = (size_t)ft_kept_quads((int)((cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT)) * sizeof(float4); // of a row
    if (rows == 0) return FT_OK;
    if (bytes > FT_SHARED_LIMIT)
        return ft_fail(FT_FAILED, "layernorm_forward", "rows of %lld columns are longer than the kernel can keep",
                       (long long)cols);
    size_t warps = LAYERNORM_MOST_WARPS;
    while (warps > 1 &&
           warps * bytes > FT_SHARED_LIMIT / 2) // two blocks a multiprocessor at least, where the row allows
        warps--;
    const bool of_stream = a->x.dtype != a->y.dtype; // an x of fp32 comes as a residual does, and R is that
    layernorm_forward_job<T, R> job = {of_stream ? ft_view<const T>{} : ft_view_of<const T>(a->x),
                                       ft_view_of<const T>(a->bias),
                                       ft_view_of<const R>(of_stream ? a->x : a->residual),
                                       ft_view_of<const float>(a->gamma),
                                       ft_view_of<const float>(a->beta),
                                       ft_view_of<T>(a->s),
                                       ft_view_of<T>(a->y),
                                       ft_view_of<float>(a->wide),
                                       ft_view_of<R>(a->stream),
                                       (float *)a->mean.data,
                                       (float *)a->rstd.data,
                                       ft_row_dropout_of(&a->dropout),
                                       a->epsilon,
                                       a->rms};
    return ft_launch("layernorm_forward", layernorm_forward_kernel<T, I::WHOLE, R>,
                     dim3((unsigned)((rows + (int64_t)warps - 1) / (int64_t)warps)), dim3((unsigned)warps * FT_WARP),
                     warps * bytes, ft_stream(device), job, rows, (int)cols);
}

ft_status ft_cuda_layernorm_forward(ft_device *device, const ft_layernorm_forward_args *args) {
    bool whole = ft_is_whole(args->x) && ft_is_whole_vector(args->bias) && ft_is_whole(args->residual) &&
                 ft_is_whole_vector(args->gamma) && ft_is_whole_vector(args->beta) && ft_is_whole(args->s) &&
                 ft_is_whole(args->y) && ft_is_whole(args->wide) && ft_is_whole(args->stream);
    const ft_dtype adds = args->residual.data != nullptr ? args->residual.dtype : args->stream.data != nullptr ? args->stream.dtype : FT_F32;
    return ft_pick_rows(args->y.dtype, adds, whole, [&](auto i, auto r) { return run<decltype(i), typename decltype(r)::type>(device, args); });
}
