// forward.cu - streaming attention on tensor cores: a block has 64 queries of a head and passes over the keys, in
// two buffers. Scores, probabilities and sums stay in registers; the softmax is fp32 and counts in powers of two.
// With heads of up to 64 a warp has 32 queries, two strips of 16, so that what it reads of K and V from shared memory serves
// two products: with one strip, which is all that registers hold of larger heads, shared memory is the bound
// (tests/kernels/cuda/static_model.py).
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/tile/fragment.h"

namespace {

constexpr int ROWS = 64;

template <int D> struct plan { // as registers allow
    static constexpr int STRIPS = D <= 64 ? 2 : 1, THREADS = ROWS / (16 * STRIPS) * FT_WARP, KEYS = D == 64 ? 32 : 64;
    static constexpr bool KEEPS_Q = D < 128; // its fragments, in registers
    static constexpr size_t SHARED = ft_tile_bytes(ROWS, D) + 4 * ft_tile_bytes(KEYS, D);
};

// WINDOW: there is one, or causality. Tiles of keys that the block sees none of are not visited, and a warp computes those that its own queries see some of.
template <class T, int D, bool WINDOW>
FT_DEVICE void forward_tile(unsigned char *bytes, const ft_view<const T> &q, const ft_view<const T> &k, const ft_view<const T> &v,
                            const ft_view<T> &out, const ft_view<float> &lse, const ft_attention_problem &problem) {
    constexpr int STRIPS = plan<D>::STRIPS, THREADS = plan<D>::THREADS, KEYS = plan<D>::KEYS;
    constexpr bool KEEPS_Q = plan<D>::KEEPS_Q;
    constexpr int STRIDE = ft_tile_stride(D), TILE = KEYS * STRIDE;
    T *const tile_q = reinterpret_cast<T *>(bytes), *const tiles_k = tile_q + ROWS * STRIDE, *const tiles_v = tiles_k + 2 * TILE;
    const ft_attention_place at = ft_attention_place_of(problem);
    const int first = at.tile * ROWS;
    if (first >= at.queries) return;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP, g = lane / 4, t = lane % 4 * 2;
    const int own = warp * 16 * STRIPS; // the warp's rows of the tile
    const bool works = first + own < at.queries; // else its warp only fetches
    const ft_score_filter filter = ft_score_filter_of(problem, at);
    const float factor = problem.scale * FT_LOG2_E;
    const T *const rows_q = q.data + (at.first_query + first) * q.stride + at.head * D;
    const T *const rows_k = k.data + at.first_key * k.stride + at.head / problem.group * D;
    const T *const rows_v = v.data + at.first_key * v.stride + at.head / problem.group * D;

    ft_attention_span span = {0, at.keys};
    if constexpr (WINDOW) span = ft_attention_span_of<KEYS, false>(problem, first, at.queries - first < ROWS ? at.queries - first : ROWS, at.keys);
    if (span.first < span.end) { // else nothing is read, and no barrier of the loop would order these copies with the end
        ft_tile_load<ROWS, D, THREADS>(tile_q, rows_q, q.stride, at.queries - first);
        ft_tile_load<KEYS, D, THREADS>(tiles_k, rows_k + span.first * k.stride, k.stride, at.keys - span.first);
        ft_tile_load<KEYS, D, THREADS>(tiles_v, rows_v + span.first * v.stride, v.stride, at.keys - span.first);
        ft_copy_async_commit();
    }

    float acc[STRIPS][D / 8][4] = {};
    ft_running_softmax softmax[STRIPS];
    unsigned left[STRIPS][KEEPS_Q ? D / 16 : 1][4];
    const auto load_q = [&] {
#pragma unroll
        for (int m = 0; m < STRIPS; m++)
#pragma unroll
            for (int c = 0; c < D / 16; c++)
                ft_left<D>(left[m][KEEPS_Q ? c : 0], tile_q, own + m * 16, c * 16);
    };
    int buffer = 0;
    for (int base = span.first; base < span.end; base += KEYS, buffer ^= 1) {
        const int next = base + KEYS;
        if (next < span.end) {
            ft_tile_load<KEYS, D, THREADS>(tiles_k + (buffer ^ 1) * TILE, rows_k + next * k.stride, k.stride, at.keys - next);
            ft_tile_load<KEYS, D, THREADS>(tiles_v + (buffer ^ 1) * TILE, rows_v + next * v.stride, v.stride, at.keys - next);
            ft_copy_async_commit();
            ft_copy_async_wait<1>();
        } else {
            ft_copy_async_wait<0>();
        }
        __syncthreads();
        const bool begins = KEEPS_Q && base == span.first;
        bool sees = works;
        if constexpr (WINDOW) { // what is not seen of the first tile may be of the next: its rows are loaded all the same
            if (begins && works) load_q();
            sees = works && ft_attention_reaches<false>(problem, first + own, 16 * STRIPS, base, KEYS);
        }
        if (sees) {
            if (!WINDOW && begins) load_q();
            float s[STRIPS][KEYS / 8][4] = {};
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                if (!KEEPS_Q)
#pragma unroll
                    for (int m = 0; m < STRIPS; m++)
                        ft_left<D>(left[m][0], tile_q, own + m * 16, c * 16);
#pragma unroll
                for (int n = 0; n < KEYS / 16; n++) {
                    unsigned b[4];
                    ft_right_of_rows<D>(b, tiles_k + buffer * TILE, n * 16, c * 16);
#pragma unroll
                    for (int m = 0; m < STRIPS; m++) {
                        ft_mma<T>(s[m][2 * n], left[m][KEEPS_Q ? c : 0], b[0], b[1]);
                        ft_mma<T>(s[m][2 * n + 1], left[m][KEEPS_Q ? c : 0], b[2], b[3]);
                    }
                }
            }
            if (problem.bias.data != nullptr)
#pragma unroll
                for (int m = 0; m < STRIPS; m++) {
                    const float *const line = problem.bias.of(at.head) + first + own + m * 16 + g - base - t;
#pragma unroll
                    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++) s[m][n][e] += line[e / 2 * 8 - n * 8 - e % 2];
                }
            bool partly = next > at.keys; // the last tile, where it is not full, and those at the edges of what is seen
            if constexpr (WINDOW) partly = partly || !ft_attention_reaches_all<false>(problem, first + own, 16 * STRIPS, base, KEYS);
            if (partly)
#pragma unroll
                for (int m = 0; m < STRIPS; m++)
#pragma unroll
                    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const int key = base + n * 8 + t + e % 2, query = first + own + m * 16 + g + e / 2 * 8;
                            if (key >= at.keys || (WINDOW && !ft_attention_sees(problem, query, key))) s[m][n][e] = -INFINITY;
                        }
#pragma unroll
            for (int m = 0; m < STRIPS; m++)
                ft_next_scores<WINDOW>(softmax[m], s[m], factor, [&](const float(&shrink)[2]) {
#pragma unroll
                    for (int n = 0; n < D / 8; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            acc[m][n][e] *= shrink[e / 2];
                });
            unsigned a[KEYS / 16][STRIPS][4]; // (either way from the same numbers, which the compiler adds up later: changed in their place they would be copied)
            if (filter.threshold != 0) { // out of the product; the sum of the softmax has them
#pragma unroll
                for (int m = 0; m < STRIPS; m++)
#pragma unroll
                    for (int c = 0; c < KEYS / 16; c++) {
                        const ft_kept_16x16 kept = ft_kept_of_16x16<false>(filter, first + own + m * 16, base + c * 16);
                        float left_in[2][4];
#pragma unroll
                        for (int e = 0; e < 8; e++)
                            left_in[e / 4][e % 4] = ft_is_kept<false>(kept, e) ? s[m][2 * c + e / 4][e % 4] : 0.0f;
                        ft_left_of<T>(a[c][m], left_in[0], left_in[1]);
                    }
            } else {
#pragma unroll
                for (int m = 0; m < STRIPS; m++)
#pragma unroll
                    for (int c = 0; c < KEYS / 16; c++)
                        ft_left_of<T>(a[c][m], s[m][2 * c], s[m][2 * c + 1]);
            }
#pragma unroll
            for (int c = 0; c < KEYS / 16; c++) {
#pragma unroll
                for (int n = 0; n < D / 16; n++) {
                    unsigned b[4];
                    ft_right_of_columns<D>(b, tiles_v + buffer * TILE, c * 16, n * 16);
#pragma unroll
                    for (int m = 0; m < STRIPS; m++) {
                        ft_mma<T>(acc[m][2 * n], a[c][m], b[0], b[1]);
                        ft_mma<T>(acc[m][2 * n + 1], a[c][m], b[2], b[3]);
                    }
                }
            }
        }
        __syncthreads(); // all have read this buffer before it is filled again
    }

    // Through the tile of queries, whose rows nobody but their warp reads: stores of 16 bytes.
#pragma unroll
    for (int m = 0; m < STRIPS; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float total = softmax[m].sum[h];
            total += __shfl_xor_sync(FT_ALL_LANES, total, 1);
            total += __shfl_xor_sync(FT_ALL_LANES, total, 2);
            const float factor_out = at.keys > 0 ? problem.keep_scale / total : 0.0f;
            const int row = own + m * 16 + g + h * 8, query = first + row;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
                *reinterpret_cast<unsigned *>(tile_q + row * STRIDE + t + n * 8) =
                    ft_pack<T>(acc[m][n][h * 2] * factor_out, acc[m][n][h * 2 + 1] * factor_out);
            if (lse.data != nullptr && lane % 4 == 0 && query < at.queries)
                lse.data[(at.first_query + query) * lse.stride + at.head] =
                    at.keys > 0 ? softmax[m].base2[h] * FT_LN_2 + logf(total) : -INFINITY;
        }
    __syncwarp();
    ft_tile_store<16 * STRIPS, D>(out.data + (at.first_query + first + own) * out.stride + at.head * D, out.stride,
                                  tile_q + own * STRIDE, at.queries - first - own);
}

template <class T, int D>
FT_KERNEL void __launch_bounds__(plan<D>::THREADS, 256 / plan<D>::THREADS)
    attention_forward(ft_view<const T> q, ft_view<const T> k, ft_view<const T> v, ft_view<T> out,
                      ft_view<float> lse, ft_attention_problem problem) {
    FT_DYNAMIC_SHARED(bytes);
    forward_tile<T, D, false>(bytes, q, k, v, out, lse, problem);
}
template <class T, int D>
FT_KERNEL void __launch_bounds__(plan<D>::THREADS, 256 / plan<D>::THREADS)
    attention_window_forward(ft_view<const T> q, ft_view<const T> k, ft_view<const T> v, ft_view<T> out,
                             ft_view<float> lse, ft_attention_problem problem) {
    FT_DYNAMIC_SHARED(bytes);
    forward_tile<T, D, true>(bytes, q, k, v, out, lse, problem);
}

template <class T, int D, class Kernel>
ft_status launch(ft_device *device, Kernel kernel, const ft_attention_forward_args &a, const ft_bias_view &bias) {
    ft_attention_problem p = ft_attention_problem_of(a.shape, a.shape.max_queries, ROWS);
    p.bias = bias;
    return ft_launch("attention_forward", kernel, ft_attention_grid(p, a.shape.sequences), dim3(plan<D>::THREADS),
                     plan<D>::SHARED, ft_stream(device), ft_view_of<const T>(a.q),
                     ft_view_of<const T>(a.k), ft_view_of<const T>(a.v), ft_view_of<T>(a.out),
                     ft_view_of<float>(a.lse), p);
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_forward_args &a, const ft_bias_view &bias) {
    if constexpr (D != 96)
        if (ft_attention_is_banded(&a.shape)) return launch<T, D>(device, attention_window_forward<T, D>, a, bias);
    return launch<T, D>(device, attention_forward<T, D>, a, bias);
}

template <class T> ft_status run_head_dim(ft_device *device, const ft_attention_forward_args &a, const ft_bias_view &bias) {
    switch (a.shape.head_dim) {
    case 32: return run<T, 32>(device, a, bias);
    case 64: return run<T, 64>(device, a, bias);
    case 96: return run<T, 96>(device, a, bias);
    default: return run<T, 128>(device, a, bias);
    }
}

} // namespace

extern "C" ft_status ft_cuda_attention_forward(ft_device *device, const ft_attention_forward_args *args) {
    const ft_attention_forward_args &a = *args;
    if (a.shape.sequences == 0 || a.shape.max_queries == 0) return FT_OK;
    bool aligned = ft_attention_is_aligned(a.q) && ft_attention_is_aligned(a.k) && ft_attention_is_aligned(a.v) &&
                   ft_attention_is_aligned(a.out);
    ft_bias_view bias;
    FT_TRY(ft_attention_bias_lines(device, a.shape, a.bias, a.workspace.data, &bias));
    if (!aligned || !ft_attention_has_tensor_path(a.shape, a.q.dtype)) return ft_attention_plain_forward(device, a, bias);
    bool warpgroups;
    FT_TRY(ft_attention_takes_warpgroups(device, ft_cuda_of(device)->warpgroups, &warpgroups));
    if (warpgroups && ft_attention_has_warpgroup_path(a)) return ft_attention_warpgroup_forward(device, a);
    bool tensor_memory;
    FT_TRY(ft_attention_takes_tensor_memory(device, &tensor_memory));
    if (tensor_memory && ft_attention_has_tensor_memory_path(a)) return ft_attention_tensor_memory_forward(device, a);
    return a.q.dtype == FT_F16 ? run_head_dim<__half>(device, a, bias) : run_head_dim<__nv_bfloat16>(device, a, bias);
}
