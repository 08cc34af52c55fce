// product_activation.cu - h = x W^T + bias and y = act(h) in one pass: y comes from the rounded h, as where the activation reads it.
// For compute capability 9.0, rows of whole units and 16 bits (ft_product_activation_own); who chooses it is kernels/cuda/product.c.
#include "kernels/cuda/products/tiles.h"
#include "kernels/cuda/rows/activation_function.h"

extern "C" {
#include "kernels/ops/product_activation.h"
}

namespace {

template <class T> struct activate {
    ft_activation kind;
    ft_product::problem p;
    ft_view<const T> bias;
    ft_view<T> h, y;
    float *vectors;

    // The bias of the tile's columns, one vector a half.
    FT_METHOD void begin(int half, ft_product::place at) const {
        for (int column = int(threadIdx.x) - FT_WARP; column < ft_product::COLUMNS; column += ft_product::EPILOGUE_THREADS) {
            const bool there = bias.data != nullptr && at.column + column < p.columns;
            vectors[half * ft_product::COLUMNS + column] = there ? ft_to_float(bias.data[at.column + column]) : 0.0f;
        }
    }
    // A warp has every third row, a lane eight columns of it.
    FT_METHOD void finish(int half, ft_product::place at, const unsigned char *staged) const {
        const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 1, column = at.column + lane * FT_CUDA_UNIT;
        const int first = at.row + half * ft_product::HALF, rows = p.rows - first;
        if (column >= p.columns) return;
        ft_with_activation<false>(kind, [&](auto k) {
#pragma unroll 1
            for (int row = warp; row < ft_product::HALF && row < rows; row += ft_product::EPILOGUE_WARPS) {
                const uint4 words = *reinterpret_cast<const uint4 *>(staged + ft_product::staged_place(row, lane));
                if (h.data != nullptr) *reinterpret_cast<uint4 *>(h.at(first + row, column)) = words;
                ft_unit u = ft_load<true>(reinterpret_cast<const T *>(&words), FT_CUDA_UNIT);
#pragma unroll
                for (int i = 0; i < FT_CUDA_UNIT; i++) {
                    float slope;
                    u.v[i] = ft_activate(k.value, u.v[i], &slope);
                }
                ft_store<true>(y.at(first + row, column), u, FT_CUDA_UNIT);
            }
        });
    }
};

template <class T>
FT_KERNEL void __launch_bounds__(ft_product::THREADS, 1)
    product_activation(FT_MAP_ARGUMENT(x), FT_MAP_ARGUMENT(w), ft_product::problem p, ft_activation kind, ft_view<const T> bias, ft_view<T> h,
                       ft_view<T> y) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const activate<T> epilogue = {kind, p, bias, h, y, reinterpret_cast<float *>(bytes + ft_product::VECTORS_AT)};
    ft_product::block<T, true, true>(bytes, x, w, p, epilogue);
#else
    __trap(); // ft_product_activation_own does not let it come to this
#endif
}

template <class T> ft_status run(ft_device *device, const ft_product_activation_args &a) {
    const ft_product::problem p = ft_product::problem_of(a.x.rows, a.w.rows, a.x.cols);
    ft_cu_tensor_map x, w;
    FT_TRY(ft_tensor_map_of(device, a.x, ft_product::ROWS, &x));
    FT_TRY(ft_tensor_map_of(device, a.w, ft_product::COLUMNS, &w));
    const int blocks = device->target.sm_count < p.tiles ? device->target.sm_count : p.tiles;
    return ft_launch("product_activation", product_activation<T>, dim3(unsigned(blocks)), dim3(ft_product::THREADS), ft_product::SHARED,
                     ft_stream(device), x, w, p, a.kind, ft_view_of<const T>(a.bias), ft_view_of<T>(a.h), ft_view_of<T>(a.y));
}

} // namespace

ft_status ft_cuda_product_activation(ft_device *device, const ft_product_activation_args *args) {
    if (!ft_product_activation_own(args)) return ft_fail(FT_FAILED, "product_activation", "not of whole units of 16 bits");
    return args->x.dtype == FT_F16 ? run<__half>(device, *args) : run<__nv_bfloat16>(device, *args);
}
