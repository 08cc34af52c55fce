// product_norm.cu - y = Norm(residual + dropout(x W^T + bias)): the sum in one pass with the product, then the norm of what lies there. The product is
// rounded first, as where the pass behind it reads it; what it is added to is read while the next tile multiplies, and may lie where the sum goes.
// For compute capability 9.0, rows of whole units and 16 bits (ft_product_norm_own); who chooses it is kernels/cuda/product.c.
#include "kernels/cuda/products/tiles.h"
#include "kernels/cuda/rows/row_types.h"

extern "C" {
#include "kernels/ops/product_norm.h"
}

namespace {

// A unit of R as it lies in memory: 16 or 32 bytes.
template <class R> struct words {
    static constexpr int COUNT = FT_CUDA_UNIT * int(sizeof(R)) / 16;
    uint4 v[COUNT];
    FT_METHOD void read(const R *from) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            v[i] = reinterpret_cast<const uint4 *>(from)[i];
    }
    FT_METHOD ft_unit unit() const { return ft_load<true>(reinterpret_cast<const R *>(v), FT_CUDA_UNIT); }
};

// A warp has every third row, a lane eight columns of it. R: of residual and sum.
template <class T, class R> struct add_up {
    // Rows that a warp has asked for before it works on the first of them: 2 KiB, as in product_slope.cu.
    static constexpr int AHEAD = 8 / int(sizeof(R));
    ft_product::problem p;
    ft_view<const T> bias;
    ft_view<const R> residual;
    ft_view<R> sum;
    ft_row_dropout dropout;

    // What is known of a row before its product is.
    struct ahead {
        words<R> past;
        int32_t slot, position;
    };

    FT_METHOD void begin(int half, ft_product::place at) const {}

    FT_METHOD void ask(ahead &of, int row, int column) const {
        if (residual.data != nullptr) of.past.read(residual.at(row, column));
        if (dropout.drops()) of.slot = dropout.slot[row], of.position = dropout.position[row];
    }

    FT_METHOD void of_row(const ahead &of, uint64_t key, const ft_unit &more, const unsigned char *product, int row, int column) const {
        const uint4 words_of_it = *reinterpret_cast<const uint4 *>(product);
        ft_unit u = ft_load<true>(reinterpret_cast<const T *>(&words_of_it), FT_CUDA_UNIT);
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            u.v[i] = __fadd_rn(u.v[i], more.v[i]);
        if (dropout.drops()) {
            uint32_t c[4];
            dropout.draw(key, of.slot, of.position, column, c);
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] *= dropout.is_dropped(c, i) ? 0.0f : dropout.scale;
        }
        if (residual.data != nullptr) {
            const ft_unit past = of.past.unit();
#pragma unroll
            for (int i = 0; i < FT_CUDA_UNIT; i++)
                u.v[i] = __fadd_rn(u.v[i], past.v[i]); // and not one operation with dropout's scale, which the pass has not either
        }
        ft_store<true>(sum.at(row, column), u, FT_CUDA_UNIT);
    }

    FT_METHOD void finish(int half, ft_product::place at, const unsigned char *staged) const {
        const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 1, column = at.column + lane * FT_CUDA_UNIT;
        const int first = at.row + half * ft_product::HALF, rows = p.rows - first < ft_product::HALF ? p.rows - first : ft_product::HALF;
        if (column >= p.columns) return;
        const uint64_t key = dropout.key();
        ft_unit more;
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            more.v[i] = -0.0f; // which changes no number
        if (bias.data != nullptr) more = ft_load<true>(bias.at(0, column), FT_CUDA_UNIT);
        ahead next[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (warp + i * ft_product::EPILOGUE_WARPS < rows) ask(next[i], first + warp + i * ft_product::EPILOGUE_WARPS, column);
#pragma unroll 1
        for (int from = warp; from < rows; from += AHEAD * ft_product::EPILOGUE_WARPS)
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const int row = from + i * ft_product::EPILOGUE_WARPS, later = row + AHEAD * ft_product::EPILOGUE_WARPS;
                if (row >= rows) break;
                const ahead mine = next[i];
                if (later < rows) ask(next[i], first + later, column);
                of_row(mine, key, more, staged + ft_product::staged_place(row, lane), first + row, column);
            }
    }
};

template <class T, class R>
FT_KERNEL void __launch_bounds__(ft_product::THREADS, 1)
    product_norm(FT_MAP_ARGUMENT(x), FT_MAP_ARGUMENT(w), ft_product::problem p, ft_view<const T> bias, ft_view<const R> residual, ft_view<R> sum,
                 ft_row_dropout dropout) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const add_up<T, R> epilogue = {p, bias, residual, sum, dropout};
    ft_product::block<T, true, false>(bytes, x, w, p, epilogue);
#else
    __trap(); // ft_product_norm_own does not let it come to this
#endif
}

template <class T, class R> ft_status run(ft_device *device, const ft_product_norm_args &a) {
    const ft_layernorm_forward_args of_sum = ft_product_norm_of_sum(&a);
    const ft_product::problem p = ft_product::problem_of(a.x.rows, a.w.rows, a.x.cols);
    ft_cu_tensor_map x, w;
    FT_TRY(ft_tensor_map_of(device, a.x, ft_product::ROWS, &x));
    FT_TRY(ft_tensor_map_of(device, a.w, ft_product::COLUMNS, &w));
    const int blocks = device->target.sm_count < p.tiles ? device->target.sm_count : p.tiles;
    FT_TRY(ft_launch("product_norm", product_norm<T, R>, dim3(unsigned(blocks)), dim3(ft_product::THREADS), ft_product::SHARED, ft_stream(device), x, w, p,
                     ft_view_of<const T>(a.norm.bias), ft_view_of<const R>(a.norm.residual), ft_view_of<R>(of_sum.x), ft_row_dropout_of(&a.norm.dropout)));
    return ft_cuda_layernorm_forward(device, &of_sum);
}

} // namespace

ft_status ft_cuda_product_norm(ft_device *device, const ft_product_norm_args *args) {
    if (!ft_product_norm_own(args)) return ft_fail(FT_FAILED, "product_norm", "not of whole units of 16 bits, or with a wide y");
    const bool adds_floats = ft_product_norm_sum(args).dtype == FT_F32;
    return ft_pick_half<true>(args->x.dtype, [&](auto i) {
        using T = typename decltype(i)::type;
        return adds_floats ? run<T, float>(device, *args) : run<T, T>(device, *args);
    });
}
