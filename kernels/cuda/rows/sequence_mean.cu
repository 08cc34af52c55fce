// sequence_mean.cu - the mean of the rows of every sequence: a block has 32 units of columns, each warp every eighth row. Its gradient.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/sequence_mean.h"
}

template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK) sequence_mean_kernel(ft_view<const T> x, ft_view<T> y, const int32_t *cu_seqlens, int cols) {
    FT_SHARED(float, part, FT_BLOCK_WARPS * FT_WARP * FT_CUDA_UNIT);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP, sequence = blockIdx.y;
    const int col = ((int)blockIdx.x * FT_WARP + lane) * FT_CUDA_UNIT, n = cols - col;
    const int64_t begin = cu_seqlens[sequence], end = cu_seqlens[sequence + 1];
    ft_unit sum = ft_unit_zero();
    if (n > 0)
#pragma unroll 4
        for (int64_t row = begin + warp; row < end; row += FT_BLOCK_WARPS) {
            const ft_unit u = ft_load<WHOLE>(x.at(row, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                sum.v[i] += u.v[i];
        }
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        part[(warp * FT_CUDA_UNIT + i) * FT_WARP + lane] = sum.v[i];
    __syncthreads();
    if (warp != 0 || n <= 0) return;
    const float number = end > begin ? (float)(end - begin) : 1.0f;
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++) {
        float total = part[i * FT_WARP + lane];
        for (int w = 1; w < FT_BLOCK_WARPS; w++)
            total += part[(w * FT_CUDA_UNIT + i) * FT_WARP + lane];
        sum.v[i] = total / number;
    }
    ft_store<WHOLE>(y.at(sequence, col), sum, n);
}

template <class I> static ft_status run(ft_device *device, const ft_sequence_mean_forward_args *a) {
    using T = typename I::type;
    const int64_t units = (a->x.cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT;
    if (units == 0 || a->sequences == 0) return FT_OK;
    return ft_launch("sequence_mean_forward", sequence_mean_kernel<T, I::WHOLE>,
                     dim3((unsigned)((units + FT_WARP - 1) / FT_WARP), (unsigned)a->sequences), dim3(FT_BLOCK), 0, ft_stream(device),
                     ft_view_of<const T>(a->x), ft_view_of<T>(a->y), a->cu_seqlens, (int)a->x.cols);
}

ft_status ft_cuda_sequence_mean_forward(ft_device *device, const ft_sequence_mean_forward_args *args) {
    const bool whole = ft_is_whole(args->x) && ft_is_whole(args->y);
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}

// A block has rows of one sequence after the other, as many as there are blocks apart.
template <bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    sequence_mean_gradient_kernel(ft_view<const float> dy, ft_view<float> dx, const int32_t *cu_seqlens, int cols) {
    const int sequence = blockIdx.y, units = (cols + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT;
    const int64_t begin = cu_seqlens[sequence], end = cu_seqlens[sequence + 1];
    const float number = (float)(end - begin);
    for (int64_t row = begin + blockIdx.x; row < end; row += gridDim.x)
        for (int unit = threadIdx.x; unit < units; unit += FT_BLOCK) {
            const int col = unit * FT_CUDA_UNIT, n = cols - col;
            ft_unit u = ft_load<WHOLE>(dy.at(sequence, col), n);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] /= number;
            ft_store<WHOLE>(dx.at(row, col), u, n);
        }
}

ft_status ft_cuda_sequence_mean_backward(ft_device *device, const ft_sequence_mean_backward_args *args) {
    if (args->sequences == 0 || args->dx.rows == 0) return FT_OK;
    const auto launch = [&](auto kernel) {
        return ft_launch("sequence_mean_backward", kernel, dim3(64, (unsigned)args->sequences), dim3(FT_BLOCK), 0, ft_stream(device),
                         ft_view_of<const float>(args->dy), ft_view_of<float>(args->dx), args->cu_seqlens, (int)args->dy.cols);
    };
    return ft_is_whole(args->dy) && ft_is_whole(args->dx) ? launch(sequence_mean_gradient_kernel<true>)
                                                          : launch(sequence_mean_gradient_kernel<false>);
}
