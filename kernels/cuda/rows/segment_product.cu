// segment_product.cu - products of one kind with matrices of their own, all in one launch: the adapters of trials that train together, and the
// frozen weights beneath them with the rows of each. A block makes 64 x 64 numbers of one product; which, it finds in a table that is a
// parameter of the kernel. What is computed of a row is the same whatever else is in the table (kernels/ops/segment_product.h).
//
// 16 bits: tensor cores, 64 k at a time from one of two buffers while the registers take what comes next. Such products are small (some hundred rows,
// ranks of 8): their time is that of the way from memory, so that nothing deeper is worth its shared memory. fp32: chains of fused multiply-adds.
#include "kernels/cuda/tile/fragment.h"
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/segment_product.h"
}

namespace {
enum { TILE = 64, DEEP = 64, DEEP_FLOAT = 32, WARPS = 4, THREADS = WARPS * FT_WARP, MOST_SEGMENTS = 40 };

struct segment {
    const void *a, *b;
    void *c;
    const void *bias; // NULL: none
    int64_t lda, ldb, ldc;
    int m, n, k;
    float scale;
    int first;   // block of the launch
    bool whole_a, whole_b; // rows begin at 16-byte addresses and hold whole units
};
struct segments {
    segment of[MOST_SEGMENTS]; // in front of the 4 KiB that parameters of a kernel may have
    int count;
    bool accumulate, wide; // wide: C and bias are fp32
};
static_assert(sizeof(segments) < 4000, "a kernel's parameters");
} // namespace

// Which product a block works on, and where in it.
struct segment_tile {
    int product, row, column;
};
FT_DEVICE segment_tile segment_tile_of(const segments &all) {
    int low = 0, high = all.count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (all.of[middle].first <= (int)blockIdx.x) low = middle;
        else high = middle - 1;
    }
    const int columns = (all.of[low].n + TILE - 1) / TILE, at = (int)blockIdx.x - all.of[low].first;
    return {low, at / columns * TILE, at % columns * TILE};
}

// ---- what comes out -----------------------------------------------------------------------------------------------------

template <class C> FT_DEVICE void finish(const segment &s, bool accumulate, int row, int column, float sum) {
    if (row >= s.m || column >= s.n) return;
    C *to = (C *)s.c + row * s.ldc + column;
    float value = sum * s.scale;
    if (s.bias != nullptr) value += ft_to_float(((const C *)s.bias)[column]);
    if (accumulate) value += ft_to_float(*to);
    *to = ft_from_float<C>(value);
}

// ---- 16 bits ------------------------------------------------------------------------------------------------------------

// Eight numbers of a row, 0 beyond the matrix.
template <class T> FT_DEVICE uint4 eight_of(const T *matrix, int64_t stride, int row, int column, int rows, int columns, bool whole) {
    if (row >= rows || column >= columns) return make_uint4(0, 0, 0, 0);
    const T *from = matrix + row * stride + column;
    if (whole) return *reinterpret_cast<const uint4 *>(from);
    const unsigned short *bits = reinterpret_cast<const unsigned short *>(from);
    unsigned word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned low = column + 2 * i < columns ? bits[2 * i] : 0, high = column + 2 * i + 1 < columns ? bits[2 * i + 1] : 0;
        word[i] = low | high << 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// A 64 x 64 piece of a matrix on its way to shared memory, as it lies: four units of eight a thread.
enum { UNITS = TILE * DEEP / FT_CUDA_UNIT / THREADS };
template <class T> FT_DEVICE void take(uint4 (&piece)[UNITS], const T *matrix, int64_t stride, int row, int column, int rows, int columns, bool whole) {
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        const ft_tile_chunk at = ft_tile_chunk_of<DEEP>(i * THREADS + (int)threadIdx.x);
        piece[i] = eight_of(matrix, stride, row + at.row, column + at.column, rows, columns, whole);
    }
}
template <class T> FT_DEVICE void put(T *tile, const uint4 (&piece)[UNITS]) {
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        const ft_tile_chunk at = ft_tile_chunk_of<DEEP>(i * THREADS + (int)threadIdx.x);
        *reinterpret_cast<uint4 *>(tile + at.row * ft_tile_stride(DEEP) + at.column) = piece[i];
    }
}

// TA, TB: A, B lie transposed, k along the rows.
template <class T, bool TA, bool TB>
FT_KERNEL void __launch_bounds__(THREADS) segment_product_kernel(segments all) {
    FT_SHARED(T, left, 2 * TILE * ft_tile_stride(DEEP));
    FT_SHARED(T, right, 2 * TILE * ft_tile_stride(DEEP));
    enum { ROOM = TILE * ft_tile_stride(DEEP) };
    const segment_tile tile = segment_tile_of(all);
    const segment s = all.of[tile.product];
    const int warp = (int)threadIdx.x / FT_WARP, lane = (int)threadIdx.x % FT_WARP, row = warp / 2 * 32, column = warp % 2 * 32;
    float sum[2][4][4] = {};
    uint4 a[UNITS], b[UNITS];
    auto take_both = [&](int k) {
        if (TA) take(a, (const T *)s.a, s.lda, k, tile.row, s.k, s.m, s.whole_a);
        else take(a, (const T *)s.a, s.lda, tile.row, k, s.m, s.k, s.whole_a);
        if (TB) take(b, (const T *)s.b, s.ldb, tile.column, k, s.n, s.k, s.whole_b);
        else take(b, (const T *)s.b, s.ldb, k, tile.column, s.k, s.n, s.whole_b);
    };
    take_both(0);
    for (int k = 0, turn = 0; k < s.k; k += DEEP, turn ^= 1) {
        T *const of_a = left + turn * ROOM, *const of_b = right + turn * ROOM;
        put(of_a, a);
        put(of_b, b);
        __syncthreads(); // who reads the other buffer has passed the one before
        if (k + DEEP < s.k) take_both(k + DEEP);
#pragma unroll
        for (int deep = 0; deep < DEEP; deep += 16) {
            unsigned of_rows[2][4], of_columns[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (TA) ft_left_of_columns<DEEP>(of_rows[i], of_a, deep, row + i * 16);
                else ft_left<DEEP>(of_rows[i], of_a, row + i * 16, deep);
                if (TB) ft_right_of_rows<DEEP>(of_columns[i], of_b, column + i * 16, deep);
                else ft_right_of_columns<DEEP>(of_columns[i], of_b, deep, column + i * 16);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) ft_mma<T>(sum[i][j], of_rows[i], of_columns[j / 2][j % 2 * 2], of_columns[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int r = tile.row + row + i * 16 + lane / 4 + q / 2 * 8, c = tile.column + column + j * 8 + lane % 4 * 2 + q % 2;
                if (all.wide) finish<float>(s, all.accumulate, r, c, sum[i][j][q]);
                else finish<T>(s, all.accumulate, r, c, sum[i][j][q]);
            }
}

// ---- fp32 ---------------------------------------------------------------------------------------------------------------

enum { STRIDE_FLOAT = TILE + 4, FLOATS = TILE * DEEP_FLOAT / THREADS };

// Element i of a thread of a piece: neighbouring threads are neighbours in a row of the matrix.
template <bool ALONG_K> FT_DEVICE void place_of(int i, int &deep, int &across) {
    const int at = i * THREADS + (int)threadIdx.x;
    deep = ALONG_K ? at % DEEP_FLOAT : at / TILE;
    across = ALONG_K ? at / DEEP_FLOAT : at % TILE;
}
// From memory to shared memory, a few at a time: nothing is in registers beside the sums.
template <bool ALONG_K>
FT_DEVICE void move_floats(float *tile, const float *matrix, int64_t stride, int k, int first, int most_k, int most) {
#pragma unroll 4
    for (int i = 0; i < FLOATS; i++) {
        int deep, across;
        place_of<ALONG_K>(i, deep, across);
        const int at_k = deep + k, at = across + first;
        const bool there = at_k < most_k && at < most;
        tile[deep * STRIDE_FLOAT + across] = there ? matrix[ALONG_K ? at * stride + at_k : at_k * stride + at] : 0.0f;
    }
}

// A thread makes 8 x 4 numbers.
template <bool TA, bool TB> FT_KERNEL void __launch_bounds__(THREADS) segment_product_float_kernel(segments all) {
    FT_SHARED(float, left, DEEP_FLOAT * STRIDE_FLOAT);
    FT_SHARED(float, right, DEEP_FLOAT * STRIDE_FLOAT);
    const segment_tile tile = segment_tile_of(all);
    const segment s = all.of[tile.product];
    const int row = (int)threadIdx.x / 16 * 8, column = (int)threadIdx.x % 16 * 4;
    float sum[8][4] = {};
    for (int k = 0; k < s.k; k += DEEP_FLOAT) {
        move_floats<!TA>(left, (const float *)s.a, s.lda, k, tile.row, s.k, s.m);
        move_floats<TB>(right, (const float *)s.b, s.ldb, k, tile.column, s.k, s.n);
        __syncthreads();
#pragma unroll 2
        for (int deep = 0; deep < DEEP_FLOAT; deep++) {
            float of_row[8], of_column[4];
            *reinterpret_cast<float4 *>(of_row) = *reinterpret_cast<const float4 *>(left + deep * STRIDE_FLOAT + row);
            *reinterpret_cast<float4 *>(of_row + 4) = *reinterpret_cast<const float4 *>(left + deep * STRIDE_FLOAT + row + 4);
            *reinterpret_cast<float4 *>(of_column) = *reinterpret_cast<const float4 *>(right + deep * STRIDE_FLOAT + column);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fmaf(of_row[i], of_column[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) finish<float>(s, all.accumulate, tile.row + row + i, tile.column + column + j, sum[i][j]);
}

// ---- launches -----------------------------------------------------------------------------------------------------------

static bool is_whole_operand(ft_tensor t) { return (uintptr_t)t.data % 16 == 0 && t.stride % FT_CUDA_UNIT == 0 && t.cols % FT_CUDA_UNIT == 0; }

static segment segment_of(const ft_gemm_args *g, int first) {
    segment s = {};
    s.a = g->a.data, s.b = g->b.data, s.c = g->c.data, s.bias = g->bias.data;
    s.lda = g->a.stride, s.ldb = g->b.stride, s.ldc = g->c.stride;
    s.m = (int)g->c.rows, s.n = (int)g->c.cols, s.k = (int)(g->trans_a ? g->a.rows : g->a.cols);
    s.scale = g->scale != 0 ? g->scale : 1.0f;
    s.first = first;
    s.whole_a = is_whole_operand(g->a), s.whole_b = is_whole_operand(g->b);
    return s;
}

template <bool TA, bool TB> static ft_status launch(ft_device *device, ft_dtype dtype, int blocks, const segments &all) {
    static const char op[] = "segment_product";
    const dim3 grid((unsigned)blocks), block(THREADS);
    if (dtype == FT_F32) return ft_launch(op, segment_product_float_kernel<TA, TB>, grid, block, 0, ft_stream(device), all);
    if (dtype == FT_F16) return ft_launch(op, segment_product_kernel<__half, TA, TB>, grid, block, 0, ft_stream(device), all);
    return ft_launch(op, segment_product_kernel<__nv_bfloat16, TA, TB>, grid, block, 0, ft_stream(device), all);
}

static ft_status queue(ft_device *device, const ft_gemm_args *like, int blocks, const segments &all) {
    if (all.count == 0) return FT_OK;
    if (like->trans_a) return launch<true, false>(device, like->a.dtype, blocks, all);
    return like->trans_b ? launch<false, true>(device, like->a.dtype, blocks, all) : launch<false, false>(device, like->a.dtype, blocks, all);
}

ft_status ft_cuda_segment_product(ft_device *device, const ft_segment_product_args *args) {
    segments all = {};
    int blocks = 0;
    for (int i = 0; i < args->count; i++) {
        const ft_gemm_args *g = args->product[i];
        if (g->c.rows == 0 || g->c.cols == 0) continue;
        all.accumulate = g->accumulate;
        all.wide = g->c.dtype == FT_F32;
        all.of[all.count++] = segment_of(g, blocks);
        blocks += (int)((g->c.rows + TILE - 1) / TILE * ((g->c.cols + TILE - 1) / TILE));
        if (all.count < MOST_SEGMENTS) continue;
        FT_TRY(queue(device, args->product[0], blocks, all));
        all.count = blocks = 0;
    }
    return args->count > 0 ? queue(device, args->product[0], blocks, all) : FT_OK;
}
