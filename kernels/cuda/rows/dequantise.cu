// dequantise.cu - frozen matrices of 4 and 8 bits back to numbers: a thread makes eight neighbours, of one block. The sixteen
// values of nf4 lie in shared memory, a bank each, so that no two lanes wait for each other.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/dequantise.h"
}

namespace {
struct nf4_values {
    float of[16];
};
// Where a scale comes from; with scales in fp32 the last three are NULL.
struct nf4_scales {
    const float *plain;
    const unsigned char *codes;
    const float *map, *groups, *mean;
    FT_METHOD float at(int64_t block) const {
        if (codes == nullptr) return plain[block];
        return __fadd_rn(__fmul_rn(map[codes[block]], groups[block / FT_NF4_GROUP]), *mean);
    }
};
} // namespace

// WHOLE: eight neighbours of y begin at a 16-byte address.
template <class T, bool WHOLE>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    nf4_kernel(nf4_values table, const unsigned char *codes, nf4_scales scales, T *y, int64_t count) {
    FT_SHARED(float, values, 16);
    if (threadIdx.x < 16) values[threadIdx.x] = table.of[threadIdx.x];
    __syncthreads();
    const int64_t at = ((int64_t)blockIdx.x * FT_BLOCK + threadIdx.x) * FT_CUDA_UNIT;
    if (at >= count) return;
    const int n = count - at < FT_CUDA_UNIT ? (int)(count - at) : FT_CUDA_UNIT;
    const float scale = scales.at(at / FT_NF4_BLOCK);
    ft_unit u;
    unsigned word = 0;
    if (n == FT_CUDA_UNIT)
        word = *reinterpret_cast<const unsigned *>(codes + at / 2);
    else
        for (int i = 0; i < (n + 1) / 2; i++) word |= (unsigned)codes[at / 2 + i] << 8 * i;
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] = __fmul_rn(values[word >> (i / 2 * 8 + (i % 2 == 0 ? 4 : 0)) & 15u], scale);
    if (WHOLE && n == FT_CUDA_UNIT)
        ft_store<WHOLE>(y + at, u, n);
    else
        ft_store<false>(y + at, u, n);
}

template <class T, bool WHOLE> struct int8_body {
    const signed char *codes;
    const float *scales;
    ft_view<T> y;
    int64_t cols;
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        const signed char *from = codes + row * cols + col;
        const float scale = scales[row];
        ft_unit u;
        if constexpr (WHOLE) {
            const uint2 words = *reinterpret_cast<const uint2 *>(from);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] = (float)(signed char)((i < 4 ? words.x : words.y) >> i % 4 * 8 & 0xffu);
        } else {
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] = i < n ? (float)from[i] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) u.v[i] = __fmul_rn(__fmul_rn(u.v[i], scale), 1.0f / 127.0f);
        ft_store<WHOLE>(y.at(row, col), u, n);
    }
};

template <class I> static ft_status run(ft_device *device, const ft_dequantise_args *a) {
    using T = typename I::type;
    const ft_quantised_layout l = ft_quantised_layout_of(a->format, a->y.rows, a->y.cols);
    const unsigned char *x = (const unsigned char *)a->x.data;
    if (a->format == FT_INT8) {
        int8_body<T, I::WHOLE> body = {(const signed char *)x + l.codes, (const float *)(x + l.scales), ft_view_of<T>(a->y), a->y.cols};
        return ft_each_unit("dequantise", device, body, a->y.rows, a->y.cols);
    }
    const int64_t count = a->y.rows * a->y.cols;
    if (count == 0) return FT_OK;
    nf4_values table;
    memcpy(table.of, ft_nf4_values, sizeof table.of);
    nf4_scales scales = {(const float *)(x + l.scales), nullptr, nullptr, nullptr, nullptr};
    if (a->format == FT_NF4_DOUBLE)
        scales = {nullptr, x + l.scales, (const float *)(x + l.map), (const float *)(x + l.groups), (const float *)(x + l.mean)};
    const int64_t units = (count + FT_CUDA_UNIT - 1) / FT_CUDA_UNIT;
    return ft_launch("dequantise", nf4_kernel<T, I::WHOLE>, dim3((unsigned)((units + FT_BLOCK - 1) / FT_BLOCK)), dim3(FT_BLOCK), 0,
                     ft_stream(device), table, x + l.codes, scales, (T *)a->y.data, count);
}

ft_status ft_cuda_dequantise(ft_device *device, const ft_dequantise_args *args) {
    return ft_pick(args->y.dtype, ft_is_whole(args->y), [&](auto i) { return run<decltype(i)>(device, args); });
}
