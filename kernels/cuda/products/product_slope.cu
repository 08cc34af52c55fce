// product_slope.cu - dx = (dout W) act'(h) in one pass, with y = act(h) again and the sums of dx by columns where they are wanted. The product is
// rounded first, as where the pass behind it reads it; h is read while the next tile multiplies.
// For compute capability 9.0, rows of whole units and 16 bits (ft_product_slope_own); who chooses it is kernels/cuda/product.c.
#include "kernels/cuda/products/tiles.h"
#include "kernels/cuda/rows/activation_function.h"
#include "kernels/cuda/rows/column_tiles.h"

extern "C" {
#include "kernels/ops/product_slope.h"
}

namespace {

static_assert(ft_product::ROWS == FT_CUDA_SLOPE_ROWS && ft_product::EPILOGUE_WARPS == FT_CUDA_SLOPE_SUMS, "what the scratch is planned for");

// A warp has every third row, a lane eight columns of it; their sums are of both halves.
template <class T> struct slope {
    // Rows of h that a warp has asked for before it works on the first of them: 2 KiB, so that three warps are given what they use up while
    // the products of a tile last.
    static constexpr int AHEAD = 4;
    ft_activation kind;
    ft_product::problem p;
    ft_view<const T> h;
    ft_view<T> dx, y;
    float *partial;
    ft_unit sums;

    FT_METHOD void begin(int half, ft_product::place at) const {}

    template <class Kind> FT_METHOD void of_row(Kind kind_of, const uint4 &of_h, const unsigned char *product, int row, int column) {
        ft_unit u = ft_load<true>(reinterpret_cast<const T *>(&of_h), FT_CUDA_UNIT);
        const uint4 words = *reinterpret_cast<const uint4 *>(product);
        ft_unit d = ft_load<true>(reinterpret_cast<const T *>(&words), FT_CUDA_UNIT);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++) {
            float by;
            u.v[i] = ft_activate(kind_of.value, u.v[i], &by);
            d.v[i] *= by;
            sums.v[i] += d.v[i];
        }
        ft_store<true>(dx.at(row, column), d, FT_CUDA_UNIT);
        if (y.data != nullptr) ft_store<true>(y.at(row, column), u, FT_CUDA_UNIT);
    }

    FT_METHOD void finish(int half, ft_product::place at, const unsigned char *staged) {
        const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 1, column = at.column + lane * FT_CUDA_UNIT;
        const int first = at.row + half * ft_product::HALF, rows = p.rows - first < ft_product::HALF ? p.rows - first : ft_product::HALF;
        if (column >= p.columns) return;
        if (half == 0) sums = ft_unit_zero();
        ft_with_activation<false>(kind, [&](auto k) {
            uint4 next[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (warp + i * ft_product::EPILOGUE_WARPS < rows)
                    next[i] = *reinterpret_cast<const uint4 *>(h.at(first + warp + i * ft_product::EPILOGUE_WARPS, column));
#pragma unroll 1
            for (int from = warp; from < rows; from += AHEAD * ft_product::EPILOGUE_WARPS)
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
                    const int row = from + i * ft_product::EPILOGUE_WARPS, later = row + AHEAD * ft_product::EPILOGUE_WARPS;
                    if (row >= rows) break;
                    const uint4 mine = next[i];
                    if (later < rows) next[i] = *reinterpret_cast<const uint4 *>(h.at(first + later, column));
                    of_row(k, mine, staged + ft_product::staged_place(row, lane), first + row, column);
                }
        });
        if (half < ft_product::HALVES - 1 || partial == nullptr) return;
        float4 *const to = reinterpret_cast<float4 *>(partial + (int64_t(at.row / ft_product::ROWS) * ft_product::EPILOGUE_WARPS + warp) * p.columns + column);
        to[0] = make_float4(sums.v[0], sums.v[1], sums.v[2], sums.v[3]);
        to[1] = make_float4(sums.v[4], sums.v[5], sums.v[6], sums.v[7]);
    }
};

template <class T>
FT_KERNEL void __launch_bounds__(ft_product::THREADS, 1)
    product_slope(FT_MAP_ARGUMENT(dout), FT_MAP_ARGUMENT(w), ft_product::problem p, ft_activation kind, ft_view<const T> h, ft_view<T> dx,
                  ft_view<T> y, float *partial) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const slope<T> epilogue = {kind, p, h, dx, y, partial, ft_unit_zero()};
    ft_product::block<T, false, false>(bytes, dout, w, p, epilogue);
#else
    __trap(); // ft_product_slope_own does not let it come to this
#endif
}

template <class T> ft_status run(ft_device *device, const ft_product_slope_args &a) {
    const ft_product::problem p = ft_product::problem_of(a.dout.rows, a.w.cols, a.dout.cols);
    ft_cu_tensor_map dout, w;
    FT_TRY(ft_tensor_map_of(device, a.dout, ft_product::ROWS, &dout));
    FT_TRY(ft_tensor_map_of(device, a.w, ft_product::TERMS, &w));
    const int blocks = device->target.sm_count < p.tiles ? device->target.sm_count : p.tiles;
    float *const partial = a.dbias.data != nullptr ? static_cast<float *>(a.workspace.data) : nullptr;
    FT_TRY(ft_launch("product_slope", product_slope<T>, dim3(unsigned(blocks)), dim3(ft_product::THREADS), ft_product::SHARED, ft_stream(device), dout, w, p,
                     a.kind, ft_view_of<const T>(a.h), ft_view_of<T>(a.dx), ft_view_of<T>(a.y), partial));
    if (partial == nullptr) return FT_OK;
    float *const none = nullptr;
    return ft_launch("product_slope", ft_add_tiles_kernel, dim3(unsigned((p.columns + FT_WARP - 1) / FT_WARP)), dim3(FT_BLOCK), 0, ft_stream(device), partial,
                     ft_cuda_slope_sums(p.rows), p.columns, static_cast<float *>(a.dbias.data), none, none);
}

} // namespace

ft_status ft_cuda_product_slope(ft_device *device, const ft_product_slope_args *args) {
    if (!ft_product_slope_own(args)) return ft_fail(FT_FAILED, "product_slope", "not of whole units of 16 bits");
    return args->dout.dtype == FT_F16 ? run<__half>(device, *args) : run<__nv_bfloat16>(device, *args);
}
