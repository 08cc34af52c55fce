// backward.cu - gradients of attention on tensor cores. With s the scores, P = exp(s - lse), D_i = <dout_i, out_i>:
//     dP = mask * <dout, V>,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  dV = (mask P)^T dout
// Two passes of one kernel. The pass of queries owns 64 rows of Q and dout and walks over K and V, 32 rows at a time; the
// pass of keys owns 64 rows of K and V and walks over Q and dout. In both, with `own` and `other` those pairs of matrices,
//     s = own[0] other[0]^T,  <dout, V> = own[1] other[1]^T,  first result = dS other[0],  second = (mask P) other[1],
// the second for keys only. A number is summed by one warp in one order: the same bits every time.
#include "kernels/cuda/attention/gradient.h"

namespace {

constexpr int OWN = 64, OTHER = 32, WARPS = 4, THREADS = WARPS * FT_WARP;

// ---- D ------------------------------------------------------------------------------------------------------------------

constexpr int DELTA_THREADS = 256;

// One warp a row and head: delta[row, head] = <dout, out>.
template <class T>
FT_KERNEL void __launch_bounds__(DELTA_THREADS)
    attention_delta(ft_view<const T> out, ft_view<const T> dout, float *delta, int64_t count, int heads, int head_dim) {
    const int64_t index = int64_t(blockIdx.x) * (DELTA_THREADS / FT_WARP) + threadIdx.x / FT_WARP;
    if (index >= count) return;
    const int64_t row = index / heads, column = index % heads * head_dim;
    const T *const o = out.data + row * out.stride + column, *const d = dout.data + row * dout.stride + column;
    float sum = 0.0f;
    for (int c = int(threadIdx.x) % FT_WARP; c < head_dim; c += FT_WARP)
        sum += ft_to_float(o[c]) * ft_to_float(d[c]);
    sum = ft_warp_sum(sum);
    if (threadIdx.x % FT_WARP == 0) delta[index] = sum;
}

template <class T>
ft_status run_delta(ft_device *device, const ft_tensor &out, const ft_tensor &dout, int heads, int head_dim, float *delta) {
    const int64_t count = out.rows * heads, warps = DELTA_THREADS / FT_WARP;
    if (count == 0) return FT_OK;
    return ft_launch("attention_backward", attention_delta<T>, dim3(unsigned((count + warps - 1) / warps)), dim3(DELTA_THREADS),
                     0, ft_stream(device), ft_view_of<const T>(out), ft_view_of<const T>(dout), delta, count, heads, head_dim);
}

// ---- the two passes -----------------------------------------------------------------------------------------------------

template <int D> constexpr size_t shared_bytes() {
    return 2 * ft_tile_bytes(OWN, D) + 4 * ft_tile_bytes(OTHER, D) + 4 * OTHER * sizeof(float);
}

template <class T> struct pass_arguments {
    ft_view<const T> own[2], other[2];
    ft_view<T> result[2];
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    ft_attention_problem problem;
};

// WINDOW: as in forward.cu.
template <class T, int D, bool OF_KEYS, bool WINDOW> FT_DEVICE void backward_tile(unsigned char *bytes, const pass_arguments<T> &a) {
    constexpr int STRIDE = ft_tile_stride(D), TILE = OTHER * STRIDE;
    // Own rows stay in registers where that costs no warp of a multiprocessor: elsewhere they come from shared memory for every tile.
    constexpr bool KEEPS = OF_KEYS && D == 64 && !WINDOW;
    T *const own0 = reinterpret_cast<T *>(bytes), *const own1 = own0 + OWN * STRIDE;
    T *const others0 = own1 + OWN * STRIDE, *const others1 = others0 + 2 * TILE;
    float *const others_lse = reinterpret_cast<float *>(others1 + 2 * TILE), *const others_delta = others_lse + 2 * OTHER;
    const ft_attention_place at = ft_attention_place_of(a.problem);
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query, other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * OWN;
    if (first >= own_count) return;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP, g = lane / 4, t = lane % 4 * 2;
    const int mine = warp * 16; // the warp's rows of the tile
    const float factor = a.problem.scale * FT_LOG2_E;
    const int column = at.head * D; // of the own rows; a head of keys meets the heads of queries that share it, one after the other
    int head = OF_KEYS ? at.head * a.problem.group : at.head;
    int other_column = (OF_KEYS ? head : head / a.problem.group) * D;

    // lse in powers of two and D of a query; past the last one they are not read
    auto lse_of = [&](int query) {
        return query < at.queries ? a.lse.data[(at.first_query + query) * a.lse.stride + head] * FT_LOG2_E : 0.0f;
    };
    auto delta_of = [&](int query) {
        return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + head] : 0.0f;
    };
    auto load_others = [&](int base, int buffer) {
        const int valid = other_count - base;
        ft_tile_load<OTHER, D, THREADS>(others0 + buffer * TILE,
                                        a.other[0].data + (other_row + base) * a.other[0].stride + other_column,
                                        a.other[0].stride, valid);
        ft_tile_load<OTHER, D, THREADS>(others1 + buffer * TILE,
                                        a.other[1].data + (other_row + base) * a.other[1].stride + other_column,
                                        a.other[1].stride, valid);
        if (OF_KEYS && threadIdx.x < OTHER) {
            others_lse[buffer * OTHER + int(threadIdx.x)] = lse_of(base + int(threadIdx.x));
            others_delta[buffer * OTHER + int(threadIdx.x)] = delta_of(base + int(threadIdx.x));
        }
    };

    ft_attention_span span = {0, other_count};
    if constexpr (WINDOW) span = ft_attention_span_of<OTHER, OF_KEYS>(a.problem, first, own_count - first < OWN ? own_count - first : OWN, other_count);
    if (span.first < span.end) { // else nothing is read, and no barrier of the loop would order these copies with the end
        ft_tile_load<OWN, D, THREADS>(own0, a.own[0].data + (own_row + first) * a.own[0].stride + column, a.own[0].stride,
                                      own_count - first);
        ft_tile_load<OWN, D, THREADS>(own1, a.own[1].data + (own_row + first) * a.own[1].stride + column, a.own[1].stride,
                                      own_count - first);
    }
    float own_lse[2] = {}, own_delta[2] = {};
    if (!OF_KEYS)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            own_lse[h] = lse_of(first + mine + g + h * 8);
            own_delta[h] = delta_of(first + mine + g + h * 8);
        }

    float result0[D / 8][4] = {}, result1[OF_KEYS ? D / 8 : 1][4] = {};
    [[maybe_unused]] ft_own_rows<KEEPS ? D : 16> own;
    [[maybe_unused]] bool has_own = false;
    for (int left = OF_KEYS ? a.problem.group : 1; left > 0; left--, head++, other_column += D) {
        ft_attention_place of_head = at;
        of_head.head = head;
        const ft_score_filter filter = ft_score_filter_of(a.problem, of_head);
        if (span.first < span.end) {
            load_others(span.first, 0);
            ft_copy_async_commit();
        }
        int buffer = 0;
        for (int base = span.first; base < span.end; base += OTHER, buffer ^= 1) {
            if (base + OTHER < span.end) {
                load_others(base + OTHER, buffer ^ 1);
                ft_copy_async_commit();
                ft_copy_async_wait<1>();
            } else {
                ft_copy_async_wait<0>();
            }
            __syncthreads();
            const T *const other0 = others0 + buffer * TILE, *const other1 = others1 + buffer * TILE;
            const float *const tile_lse = others_lse + buffer * OTHER, *const tile_delta = others_delta + buffer * OTHER;

            bool sees = true;
            if constexpr (WINDOW) sees = ft_attention_reaches<OF_KEYS>(a.problem, first + mine, 16, base, OTHER);
            if (sees) {
                float p[OTHER / 8][4] = {}, ds[OTHER / 8][4] = {};
                if constexpr (KEEPS) {
                    if (!has_own) own.load(own0, own1, mine); // of the first tile that the warp sees: the same for all of them
                    has_own = true;
                    own.products(p, ds, other0, other1);
                } else {
                    ft_score_products<D>(p, ds, own0, own1, mine, other0, other1);
                }
                if (WINDOW && a.problem.bias.data != nullptr) { // of query - key; the instances without windows have neither
                    const float *const line = a.problem.bias.of(head) + (OF_KEYS ? -1 : 1) * (first + mine + g - base - t);
#pragma unroll
                    for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++) p[n][e] += line[(OF_KEYS ? -1 : 1) * (e / 2 * 8 - n * 8 - e % 2)];
                }
                bool partly = base + OTHER > other_count; // the last tile, where it is not full, and those at the edges of what is seen: 2^-inf = 0
                if constexpr (WINDOW) partly = partly || !ft_attention_reaches_all<OF_KEYS>(a.problem, first + mine, 16, base, OTHER);
                if (partly)
#pragma unroll
                    for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            const int there = base + n * 8 + t + e % 2, here = first + mine + g + e / 2 * 8;
                            if (there >= other_count || (WINDOW && !ft_attention_sees(a.problem, OF_KEYS ? there : here, OF_KEYS ? here : there))) p[n][e] = -INFINITY;
                        }
#pragma unroll
                for (int c = 0; c < OTHER / 16; c++) {
                    ft_score_gradients<OF_KEYS>(
                        p, ds, c, filter, first + mine, base, factor, a.problem.keep_scale,
                        [&](int row, int there) { return OF_KEYS ? tile_lse[there] : own_lse[row]; },
                        [&](int row, int there) { return OF_KEYS ? tile_delta[there] : own_delta[row]; });
                    unsigned left0[4], left1[4];
                    ft_left_of<T>(left0, ds[2 * c], ds[2 * c + 1]);
                    if (OF_KEYS) ft_left_of<T>(left1, p[2 * c], p[2 * c + 1]);
#pragma unroll
                    for (int n = 0; n < D / 16; n++) {
                        unsigned b[4];
                        ft_right_of_columns<D>(b, other0, c * 16, n * 16);
                        ft_mma<T>(result0[2 * n], left0, b[0], b[1]);
                        ft_mma<T>(result0[2 * n + 1], left0, b[2], b[3]);
                        if constexpr (OF_KEYS) {
                            ft_right_of_columns<D>(b, other1, c * 16, n * 16);
                            ft_mma<T>(result1[2 * n], left1, b[0], b[1]);
                            ft_mma<T>(result1[2 * n + 1], left1, b[2], b[3]);
                        }
                    }
                }
            }
            __syncthreads(); // all have read this buffer before it is filled again
        }
    }

    // Through the own tiles, whose rows nobody but their warp reads: stores of 16 bytes.
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int place = (mine + g + h * 8) * STRIDE + n * 8 + t;
            *reinterpret_cast<unsigned *>(own0 + place) =
                ft_pack<T>(result0[n][h * 2] * a.problem.scale, result0[n][h * 2 + 1] * a.problem.scale);
            if constexpr (OF_KEYS)
                *reinterpret_cast<unsigned *>(own1 + place) =
                    ft_pack<T>(result1[n][h * 2] * a.problem.keep_scale, result1[n][h * 2 + 1] * a.problem.keep_scale);
        }
    __syncwarp();
    ft_attention_place end = at;
    if constexpr (D == 128 && OF_KEYS && WINDOW) end = ft_attention_place_of(a.problem); // read again: what was kept spilled on sm_100
    const int64_t row = (OF_KEYS ? end.first_key : end.first_query) + first + mine;
    const int valid = (OF_KEYS ? end.keys : end.queries) - first - mine;
    ft_tile_store<16, D>(a.result[0].data + row * a.result[0].stride + column, a.result[0].stride, own0 + mine * STRIDE, valid);
    if (OF_KEYS) ft_tile_store<16, D>(a.result[1].data + row * a.result[1].stride + column, a.result[1].stride, own1 + mine * STRIDE, valid);
}

template <class T, int D, bool OF_KEYS> FT_KERNEL void __launch_bounds__(THREADS, 2) attention_backward(pass_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    backward_tile<T, D, OF_KEYS, false>(bytes, a);
}
template <class T, int D, bool OF_KEYS> FT_KERNEL void __launch_bounds__(THREADS, 2) attention_window_backward(pass_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    backward_tile<T, D, OF_KEYS, true>(bytes, a);
}

template <class T, int D, bool OF_KEYS>
ft_status run_pass(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &bias) {
    const int longest = OF_KEYS ? a.shape.max_keys : a.shape.max_queries;
    if (longest == 0) return FT_OK;
    const ft_tensor &own0 = OF_KEYS ? a.k : a.q, &own1 = OF_KEYS ? a.v : a.dout;
    const ft_tensor &other0 = OF_KEYS ? a.q : a.k, &other1 = OF_KEYS ? a.dout : a.v;
    const ft_tensor &result0 = OF_KEYS ? a.dk : a.dq, &result1 = OF_KEYS ? a.dv : a.dq;
    pass_arguments<T> arguments = {{ft_view_of<const T>(own0), ft_view_of<const T>(own1)},
                                         {ft_view_of<const T>(other0), ft_view_of<const T>(other1)},
                                         {ft_view_of<T>(result0), ft_view_of<T>(result1)},
                                         ft_view_of<const float>(a.lse),
                                         delta,
                                         ft_attention_problem_of(a.shape, longest, OWN)};
    arguments.problem.bias = bias;
    dim3 grid = ft_attention_grid(arguments.problem, a.shape.sequences);
    if (OF_KEYS) grid.y = unsigned(ft_attention_key_heads(&a.shape));
    const auto launch = [&](auto kernel) {
        return ft_launch("attention_backward", kernel, grid, dim3(THREADS),
                         shared_bytes<D>(), ft_stream(device), arguments);
    };
    if constexpr (D != 96)
        if (ft_attention_is_banded(&a.shape) || bias.data != nullptr) return launch(attention_window_backward<T, D, OF_KEYS>);
    return launch(attention_backward<T, D, OF_KEYS>);
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &bias) {
    FT_TRY((run_pass<T, D, false>(device, a, delta, bias)));
    return run_pass<T, D, true>(device, a, delta, bias);
}

template <class T>
ft_status run_head_dim(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &bias, bool tensor_path) {
    if (!tensor_path) return ft_attention_plain_backward(device, a, delta, bias);
    if constexpr (sizeof(T) == 2) {
        bool warpgroups;
        FT_TRY(ft_attention_takes_warpgroups(device, ft_cuda_of(device)->warpgroups, &warpgroups));
        if (warpgroups && ft_attention_has_warpgroup_path(a)) return ft_attention_warpgroup_backward(device, a, delta);
        if (bias.data == nullptr && ft_attention_takes_owner(&device->target, &a.shape)) return ft_attention_owner_backward(device, a, delta);
        switch (a.shape.head_dim) {
        case 32: return run<T, 32>(device, a, delta, bias);
        case 64: return run<T, 64>(device, a, delta, bias);
        case 96: return run<T, 96>(device, a, delta, bias);
        default: return run<T, 128>(device, a, delta, bias);
        }
    }
    return FT_OK; // not reached: fp32 has the plain path alone
}

} // namespace

ft_status ft_attention_delta(ft_device *device, const ft_tensor &out, const ft_tensor &dout, int heads, int head_dim,
                             float *delta) {
    switch (out.dtype) {
    case FT_F16: return run_delta<__half>(device, out, dout, heads, head_dim, delta);
    case FT_BF16: return run_delta<__nv_bfloat16>(device, out, dout, heads, head_dim, delta);
    default: return run_delta<float>(device, out, dout, heads, head_dim, delta);
    }
}

extern "C" ft_status ft_cuda_attention_backward(ft_device *device, const ft_attention_backward_args *args) {
    const ft_attention_backward_args &a = *args;
    if (a.shape.sequences == 0) return FT_OK;
    float *delta = static_cast<float *>(a.workspace.data);
    FT_TRY(ft_attention_delta(device, a.out, a.dout, a.shape.heads, a.shape.head_dim, delta));
    bool aligned = ft_attention_is_aligned(a.q) && ft_attention_is_aligned(a.k) && ft_attention_is_aligned(a.v) &&
                   ft_attention_is_aligned(a.dout) && ft_attention_is_aligned(a.dq) && ft_attention_is_aligned(a.dk) &&
                   ft_attention_is_aligned(a.dv);
    const bool instance = a.bias.table.data == NULL || a.shape.head_dim != 96; // as of windows
    const bool tensor_path = aligned && instance && ft_attention_has_tensor_path(a.shape, a.q.dtype);
    const size_t deltas = ft_cuda_aligned(size_t(a.q.rows) * size_t(a.shape.heads) * sizeof(float));
    ft_bias_view bias;
    FT_TRY(ft_attention_bias_lines(device, a.shape, a.bias, static_cast<char *>(a.workspace.data) + deltas, &bias));
    switch (a.q.dtype) {
    case FT_F16: FT_TRY(run_head_dim<__half>(device, a, delta, bias, tensor_path)); break;
    case FT_BF16: FT_TRY(run_head_dim<__nv_bfloat16>(device, a, delta, bias, tensor_path)); break;
    default: FT_TRY(run_head_dim<float>(device, a, delta, bias, tensor_path)); break;
    }
    return a.dbias.data != nullptr ? ft_attention_bias_gradient(device, a, delta, bias, tensor_path) : FT_OK;
}
