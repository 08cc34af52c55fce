// plain.cu - attention by fused multiply-adds in fp32, for fp32 and for head sizes and views that do not fit
// tensor cores. A warp owns a few rows, its lanes the 32 rows of the other side that are in shared memory; for the
// products back, lanes own columns.
#include "kernels/cuda/attention/attention.h"

namespace {

constexpr int WARPS = 4, THREADS = WARPS * FT_WARP, OTHER = FT_WARP;

// CHUNKS: of 32 columns, that a lane holds sums of.
template <int CHUNKS> FT_HOST_DEVICE constexpr int rows_of_warp() { return CHUNKS == 8 ? 2 : 4; }
template <int CHUNKS> FT_HOST_DEVICE constexpr int rows_of_block() { return WARPS * rows_of_warp<CHUNKS>(); }
// Odd: lanes that read one column of 32 rows meet 32 banks.
FT_HOST_DEVICE constexpr int other_stride(int head_dim) { return head_dim | 1; }

// Rows from `valid` on become zeros.
template <class T>
FT_DEVICE void load_rows(float *to, int to_stride, const T *from, int64_t stride, int rows, int columns, int valid) {
    for (int i = int(threadIdx.x); i < rows * columns; i += THREADS) {
        int row = i / columns, column = i % columns;
        to[row * to_stride + column] = row < valid ? ft_to_float(from[row * stride + column]) : 0.0f;
    }
}

// dots[r] = <row r of the warp, row `lane` of the other side>
template <int ROWS> FT_DEVICE void dot(float (&dots)[ROWS], const float *own, const float *other, int columns) {
    const float *const mine = other + int(threadIdx.x) % FT_WARP * other_stride(columns);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        dots[r] = 0.0f;
    for (int c = 0; c < columns; c++) {
        const float x = mine[c];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            dots[r] = fmaf(own[r * columns + c], x, dots[r]);
    }
}

// sums[r][c] += sum over the other side's rows j of weights[r][j] * row j, at the lane's columns
template <int ROWS, int CHUNKS>
FT_DEVICE void accumulate(float (&sums)[ROWS][CHUNKS], const float *weights, const float *other, int columns) {
    const int lane = int(threadIdx.x) % FT_WARP;
    for (int j = 0; j < OTHER; j++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int column = c * FT_WARP + lane;
            const float x = column < columns ? other[j * other_stride(columns) + column] : 0.0f;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sums[r][c] = fmaf(weights[r * OTHER + j], x, sums[r][c]);
        }
}

template <class T, int CHUNKS>
FT_DEVICE void store_row(T *to, const float (&sums)[CHUNKS], float factor, int columns) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int column = c * FT_WARP + int(threadIdx.x) % FT_WARP;
        if (column < columns) to[column] = ft_from_float<T>(sums[c] * factor);
    }
}

// ---- forward -------------------------------------------------------------------------------------------------------------

template <int CHUNKS> size_t forward_bytes(int d) {
    constexpr int ROWS = rows_of_block<CHUNKS>();
    return size_t(ROWS * d + 2 * OTHER * other_stride(d) + ROWS * OTHER) * sizeof(float);
}

template <class T, int CHUNKS>
FT_KERNEL void __launch_bounds__(THREADS, 2)
    plain_forward(ft_view<const T> q, ft_view<const T> k, ft_view<const T> v, ft_view<T> out,
                  ft_view<float> lse, ft_attention_problem problem) {
    FT_DYNAMIC_SHARED(bytes);
    constexpr int ROWS = rows_of_warp<CHUNKS>(), ALL = rows_of_block<CHUNKS>();
    const int d = problem.head_dim, stride = other_stride(d);
    float *const tile_q = reinterpret_cast<float *>(bytes), *const tile_k = tile_q + ALL * d;
    float *const tile_v = tile_k + OTHER * stride, *const weights = tile_v + OTHER * stride;
    const ft_attention_place at = ft_attention_place_of(problem);
    const int first = at.tile * ALL;
    if (first >= at.queries) return;
    const int lane = int(threadIdx.x) % FT_WARP, own = int(threadIdx.x) / FT_WARP * ROWS;
    float *const my_weights = weights + own * OTHER;
    const ft_score_filter filter = ft_score_filter_of(problem, at);
    load_rows(tile_q, d, q.data + (at.first_query + first) * q.stride + at.head * d, q.stride, ALL, d, at.queries - first);

    float acc[ROWS][CHUNKS] = {}, most[ROWS], sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        most[r] = -INFINITY;
        sum[r] = 0.0f; // the lane's part
    }
    const ft_attention_span span = ft_attention_span_of<OTHER, false>(problem, first, ALL, at.keys);
    for (int base = span.first; base < span.end; base += OTHER) {
        __syncthreads(); // all have read the rows of before
        load_rows(tile_k, stride, k.data + (at.first_key + base) * k.stride + at.head / problem.group * d, k.stride, OTHER, d, at.keys - base);
        load_rows(tile_v, stride, v.data + (at.first_key + base) * v.stride + at.head / problem.group * d, v.stride, OTHER, d, at.keys - base);
        __syncthreads();
        float s[ROWS];
        dot(s, tile_q + own * d, tile_k, d);
        const int key = base + lane;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool seen = key < at.keys && ft_attention_sees(problem, first + own + r, key);
            const float bias = seen && problem.bias.data != nullptr ? problem.bias.of(at.head)[first + own + r - key] : 0.0f;
            const float x = seen ? (s[r] + bias) * problem.scale : -INFINITY;
            const float largest = fmaxf(most[r], ft_warp_max(x)), highest = largest == -INFINITY ? 0.0f : largest; // it met no key yet
            const float shrink = expf(most[r] - highest), p = expf(x - highest);
            most[r] = largest;
            sum[r] = sum[r] * shrink + p;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                acc[r][c] *= shrink;
            my_weights[r * OTHER + lane] = ft_keeps(filter, first + own + r, key) ? p : 0.0f;
        }
        __syncwarp();
        accumulate(acc, my_weights, tile_v, d);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float total = ft_warp_sum(sum[r]);
        const int query = first + own + r;
        if (query >= at.queries) continue;
        const int64_t row = at.first_query + query;
        store_row(out.data + row * out.stride + at.head * d, acc[r], at.keys > 0 ? problem.keep_scale / total : 0.0f, d);
        if (lse.data != nullptr && lane == 0)
            lse.data[row * lse.stride + at.head] = at.keys > 0 ? most[r] + logf(total) : -INFINITY;
    }
}

template <class T, int CHUNKS> ft_status run_forward(ft_device *device, const ft_attention_forward_args &a, const ft_bias_view &bias) {
    ft_attention_problem p = ft_attention_problem_of(a.shape, a.shape.max_queries, rows_of_block<CHUNKS>());
    p.bias = bias;
    return ft_launch("attention_forward", plain_forward<T, CHUNKS>, ft_attention_grid(p, a.shape.sequences), dim3(THREADS),
                     forward_bytes<CHUNKS>(p.head_dim), ft_stream(device), ft_view_of<const T>(a.q),
                     ft_view_of<const T>(a.k), ft_view_of<const T>(a.v), ft_view_of<T>(a.out),
                     ft_view_of<float>(a.lse), p);
}

// ---- backward: `own` and `other` as in backward.cu ----------------------------------------------------------------

template <int CHUNKS> size_t backward_bytes(int d) {
    constexpr int ROWS = rows_of_block<CHUNKS>();
    return size_t(2 * ROWS * d + 2 * OTHER * other_stride(d) + 2 * ROWS * OTHER) * sizeof(float);
}

template <class T> struct pass_arguments {
    ft_view<const T> own[2], other[2];
    ft_view<T> result[2];
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    ft_attention_problem problem;
};

template <class T, int CHUNKS, bool OF_KEYS> FT_KERNEL void __launch_bounds__(THREADS, 2) plain_backward(pass_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    constexpr int ROWS = rows_of_warp<CHUNKS>(), ALL = rows_of_block<CHUNKS>();
    const int d = a.problem.head_dim, stride = other_stride(d);
    float *const own0 = reinterpret_cast<float *>(bytes), *const own1 = own0 + ALL * d;
    float *const other0 = own1 + ALL * d, *const other1 = other0 + OTHER * stride;
    float *const weights0 = other1 + OTHER * stride, *const weights1 = weights0 + ALL * OTHER;
    const ft_attention_place at = ft_attention_place_of(a.problem);
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query, other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * ALL, column = at.head * d;
    if (first >= own_count) return;
    const int lane = int(threadIdx.x) % FT_WARP, own = int(threadIdx.x) / FT_WARP * ROWS;
    load_rows(own0, d, a.own[0].data + (own_row + first) * a.own[0].stride + column, a.own[0].stride, ALL, d, own_count - first);
    load_rows(own1, d, a.own[1].data + (own_row + first) * a.own[1].stride + column, a.own[1].stride, ALL, d, own_count - first);

    float result0[ROWS][CHUNKS] = {}, result1[ROWS][CHUNKS] = {};
    const ft_attention_span span = ft_attention_span_of<OTHER, OF_KEYS>(a.problem, first, ALL, other_count);
    int head = OF_KEYS ? at.head * a.problem.group : at.head; // keys meet all the heads that share them, one after the other
    for (int left = OF_KEYS ? a.problem.group : 1; left > 0; left--, head++) {
        ft_attention_place of_head = at;
        of_head.head = head;
        const ft_score_filter filter = ft_score_filter_of(a.problem, of_head);
        const int place = (OF_KEYS ? head : head / a.problem.group) * d;
        for (int base = span.first; base < span.end; base += OTHER) {
            __syncthreads(); // all have read the rows of before
            const int valid = other_count - base;
            load_rows(other0, stride, a.other[0].data + (other_row + base) * a.other[0].stride + place, a.other[0].stride, OTHER,
                      d, valid);
            load_rows(other1, stride, a.other[1].data + (other_row + base) * a.other[1].stride + place, a.other[1].stride, OTHER,
                      d, valid);
            __syncthreads();
            float s[ROWS], dp[ROWS];
            dot(s, own0 + own * d, other0, d);
            dot(dp, own1 + own * d, other1, d);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int mine = first + own + r, others = base + lane;
                const int query = OF_KEYS ? others : mine, key = OF_KEYS ? mine : others;
                float p = 0.0f, ds = 0.0f;
                if (mine < own_count && others < other_count && ft_attention_sees(a.problem, query, key)) {
                    const int64_t row = at.first_query + query;
                    const bool keep = ft_keeps(filter, query, key);
                    const float bias = a.problem.bias.data != nullptr ? a.problem.bias.of(head)[query - key] : 0.0f;
                    p = expf((s[r] + bias) * a.problem.scale - a.lse.data[row * a.lse.stride + head]);
                    ds = p * ((keep ? dp[r] * a.problem.keep_scale : 0.0f) - a.delta[row * a.problem.heads + head]);
                    if (!keep) p = 0.0f;
                }
                weights0[(own + r) * OTHER + lane] = ds;
                if (OF_KEYS) weights1[(own + r) * OTHER + lane] = p;
            }
            __syncwarp();
            accumulate(result0, weights0 + own * OTHER, other0, d);
            if (OF_KEYS) accumulate(result1, weights1 + own * OTHER, other1, d);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (first + own + r >= own_count) continue;
        const int64_t row = own_row + first + own + r;
        store_row(a.result[0].data + row * a.result[0].stride + column, result0[r], a.problem.scale, d);
        if (OF_KEYS) store_row(a.result[1].data + row * a.result[1].stride + column, result1[r], a.problem.keep_scale, d);
    }
}

template <class T, int CHUNKS, bool OF_KEYS>
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
                                         ft_attention_problem_of(a.shape, longest, rows_of_block<CHUNKS>())};
    arguments.problem.bias = bias;
    dim3 grid = ft_attention_grid(arguments.problem, a.shape.sequences);
    if (OF_KEYS) grid.y = unsigned(ft_attention_key_heads(&a.shape));
    return ft_launch("attention_backward", plain_backward<T, CHUNKS, OF_KEYS>, grid, dim3(THREADS),
                     backward_bytes<CHUNKS>(arguments.problem.head_dim), ft_stream(device), arguments);
}

template <class T, int CHUNKS>
ft_status run_backward(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &bias) {
    FT_TRY((run_pass<T, CHUNKS, false>(device, a, delta, bias)));
    return run_pass<T, CHUNKS, true>(device, a, delta, bias);
}

ft_status too_wide(const char *op, int head_dim) {
    return ft_fail(FT_INVALID, op, "attention on CUDA has heads of at most %d columns, not %d", int(FT_CUDA_HEAD_DIM), head_dim);
}

} // namespace

// Instances: fp32 in three sizes, so that common heads cost no idle registers; 16-bit types, for which this is the
// exception, in the one that fits all.

ft_status ft_attention_plain_forward(ft_device *device, const ft_attention_forward_args &a, const ft_bias_view &bias) {
    if (a.shape.head_dim > FT_CUDA_HEAD_DIM) return too_wide("attention_forward", a.shape.head_dim);
    if (a.q.dtype == FT_F16) return run_forward<__half, 8>(device, a, bias);
    if (a.q.dtype == FT_BF16) return run_forward<__nv_bfloat16, 8>(device, a, bias);
    if (a.shape.head_dim <= 64) return run_forward<float, 2>(device, a, bias);
    return a.shape.head_dim <= 128 ? run_forward<float, 4>(device, a, bias) : run_forward<float, 8>(device, a, bias);
}

ft_status ft_attention_plain_backward(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &bias) {
    if (a.shape.head_dim > FT_CUDA_HEAD_DIM) return too_wide("attention_backward", a.shape.head_dim);
    if (a.q.dtype == FT_F16) return run_backward<__half, 8>(device, a, delta, bias);
    if (a.q.dtype == FT_BF16) return run_backward<__nv_bfloat16, 8>(device, a, delta, bias);
    if (a.shape.head_dim <= 64) return run_backward<float, 2>(device, a, delta, bias);
    return a.shape.head_dim <= 128 ? run_backward<float, 4>(device, a, delta, bias) : run_backward<float, 8>(device, a, delta, bias);
}
