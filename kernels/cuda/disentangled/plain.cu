// plain.cu - disentangled attention by fused multiply-adds in fp32, for fp32 and for head sizes and views
// that do not fit tensor cores. As in attention/plain.cu a warp owns a few rows and its lanes are 32 rows of the other
// side, for the products back the columns. All that a product needs lies in shared memory 32 columns at a time, so that
// the rows of both tables for the distances of a tile fit beside it.
#include "kernels/cuda/disentangled/disentangled.h"

namespace {

constexpr int WARPS = 4, THREADS = WARPS * FT_WARP, OTHER = FT_WARP, PIECE = FT_WARP;
constexpr int PITCH = PIECE + 1; // odd: lanes that read one column of 32 rows meet 32 banks

// CHUNKS: of 32 columns, that a lane holds sums of.
template <int CHUNKS> FT_HOST_DEVICE constexpr int rows_of_warp() { return CHUNKS == 8 ? 2 : 4; }
template <int CHUNKS> FT_HOST_DEVICE constexpr int rows_of_block() { return WARPS * rows_of_warp<CHUNKS>(); }

template <class T> struct positions {
    ft_view<const T> own, other; // tables; either may be absent
    ft_position_slots slots;
};

// Columns first.. of `rows` rows; beyond `valid` rows and beyond the head are zeros.
template <class T>
FT_DEVICE void load_rows(float *to, int pitch, const T *from, int64_t stride, int rows, int valid, int columns) {
    const int lane = int(threadIdx.x) % FT_WARP;
    for (int row = int(threadIdx.x) / FT_WARP; row < rows; row += WARPS)
        to[row * pitch + lane] = row < valid && lane < columns ? ft_to_float(from[row * stride + lane]) : 0.0f;
}

// Rows of a table for the distances u = first.., likewise. Distances that no pair of the sequence has are zeros: their
// row may be anything.
template <class T, bool OF_KEYS>
FT_DEVICE void load_window(float *to, ft_view<const T> table, const ft_position_slots &slots, int first, int rows, int lowest,
                           int highest, int column, int columns) {
    const int lane = int(threadIdx.x) % FT_WARP;
    for (int row = int(threadIdx.x) / FT_WARP; row < rows; row += WARPS) {
        const int u = first + row;
        const bool there = table.data != nullptr && u >= lowest && u <= highest && lane < columns;
        to[row * PITCH + lane] = there ? ft_to_float(*table.at(slots.of(OF_KEYS ? -u : u), column + lane)) : 0.0f;
    }
}

// What a tile of scores is made of, 32 columns at a time.
template <int ALL> struct tile {
    enum { WINDOW = ALL + OTHER - 1 }; // row w of a window is for u = first - base + w - (OTHER - 1)
    float own[ALL * PIECE], own1[ALL * PIECE];
    float other[OTHER * PITCH], other1[OTHER * PITCH];
    float own_table[WINDOW * PITCH], other_table[WINDOW * PITCH];
    float weights[ALL * OTHER], weights1[ALL * OTHER];
};

// dots[r] += <own, other + own table> + <other, other table> over the columns in shared memory
template <int ROWS, int ALL> FT_DEVICE void add_scores(float (&dots)[ROWS], const tile<ALL> &t, int own, int columns) {
    const int lane = int(threadIdx.x) % FT_WARP, window = (own - lane + OTHER - 1) * PITCH;
    for (int c = 0; c < columns; c++) {
        const float x = t.other[lane * PITCH + c];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            dots[r] = fmaf(t.own[(own + r) * PIECE + c], x + t.own_table[window + r * PITCH + c], dots[r]);
            dots[r] = fmaf(x, t.other_table[window + r * PITCH + c], dots[r]);
        }
    }
}

// ---- forward -------------------------------------------------------------------------------------------------------------

template <class T> struct forward_arguments {
    ft_view<const T> q, k, v;
    ft_view<T> out;
    ft_view<float> lse;
    positions<T> position;
    ft_attention_problem problem;
};

template <class T, int CHUNKS> FT_KERNEL void __launch_bounds__(THREADS, 2) disentangled_plain_forward(forward_arguments<T> a) {
    constexpr int ROWS = rows_of_warp<CHUNKS>(), ALL = rows_of_block<CHUNKS>();
    FT_SHARED(tile<ALL>, tiles, 1);
    tile<ALL> &t = tiles[0];
    const ft_attention_problem &problem = a.problem;
    const int d = problem.head_dim;
    const ft_attention_place at = ft_attention_place_of(problem);
    const int first = at.tile * ALL, head_column = at.head * d;
    if (first >= at.queries) return;
    const int lane = int(threadIdx.x) % FT_WARP, own = int(threadIdx.x) / FT_WARP * ROWS;
    const ft_score_filter filter = ft_score_filter_of(problem, at);
    const T *const rows_q = a.q.at(at.first_query + first, head_column);

    float acc[ROWS][CHUNKS] = {}, most[ROWS], sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        most[r] = -INFINITY;
        sum[r] = 0.0f; // the lane's part
    }
    for (int base = 0; base < at.keys; base += OTHER) {
        float s[ROWS] = {};
        for (int c = 0; c < d; c += PIECE) {
            const int column = head_column + c, columns = d - c < PIECE ? d - c : PIECE;
            __syncthreads(); // all have read what was there
            load_rows(t.own, PIECE, rows_q + c, a.q.stride, ALL, at.queries - first, columns);
            load_rows(t.other, PITCH, a.k.at(at.first_key + base, column), a.k.stride, OTHER, at.keys - base, columns);
            const int distance = first - base - (OTHER - 1);
            load_window<T, false>(t.own_table, a.position.own, a.position.slots, distance, tile<ALL>::WINDOW, 1 - at.keys,
                                  at.queries - 1, column, columns);
            load_window<T, false>(t.other_table, a.position.other, a.position.slots, distance, tile<ALL>::WINDOW, 1 - at.keys,
                                  at.queries - 1, column, columns);
            __syncthreads();
            add_scores<ROWS>(s, t, own, columns);
        }
        const int key = base + lane;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float x = key < at.keys ? s[r] * problem.scale : -INFINITY;
            const float largest = fmaxf(most[r], ft_warp_max(x)), shrink = expf(most[r] - largest);
            const float p = expf(x - largest);
            most[r] = largest;
            sum[r] = sum[r] * shrink + p;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                acc[r][c] *= shrink;
            t.weights[(own + r) * OTHER + lane] = ft_keeps(filter, first + own + r, key) ? p : 0.0f;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (c * PIECE >= d) continue;
            const int columns = d - c * PIECE;
            __syncthreads();
            load_rows(t.other, PITCH, a.v.at(at.first_key + base, head_column + c * PIECE), a.v.stride, OTHER, at.keys - base,
                      columns);
            __syncthreads();
            for (int j = 0; j < OTHER; j++) {
                const float x = t.other[j * PITCH + lane];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    acc[r][c] = fmaf(t.weights[(own + r) * OTHER + j], x, acc[r][c]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float total = ft_warp_sum(sum[r]);
        const int query = first + own + r;
        if (query >= at.queries) continue;
        const int64_t row = at.first_query + query;
        const float factor = at.keys > 0 ? problem.keep_scale / total : 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c * PIECE + lane < d) *a.out.at(row, head_column + c * PIECE + lane) = ft_from_float<T>(acc[r][c] * factor);
        if (a.lse.data != nullptr && lane == 0) *a.lse.at(row, at.head) = at.keys > 0 ? most[r] + logf(total) : -INFINITY;
    }
}

template <class T, int CHUNKS> ft_status run_forward(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    const ft_attention_shape &shape = a.shape.attention;
    const forward_arguments<T> arguments = {
        ft_view_of<const T>(a.q),
        ft_view_of<const T>(a.k),
        ft_view_of<const T>(a.v),
        ft_view_of<T>(a.out),
        ft_view_of<float>(a.lse),
        {ft_view_of<const T>(a.pos_key), ft_view_of<const T>(a.pos_query), ft_position_slots_of(a.shape)},
        ft_attention_problem_of(shape, shape.max_queries, rows_of_block<CHUNKS>())};
    return ft_launch("disentangled_attention_forward", disentangled_plain_forward<T, CHUNKS>,
                     ft_attention_grid(arguments.problem, shape.sequences), dim3(THREADS), 0, ft_stream(device), arguments);
}

// ---- backward: `own` and `other` as in disentangled.h ----------------------------------------------------------------------

template <class T> struct pass_arguments {
    ft_view<const T> own[2], other[2]; // Q and dout, or K and V
    ft_view<T> result[2];
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    positions<T> position;
    ft_slabs slabs;
    ft_attention_problem problem;
    int items;
};

// What a tile of scores gives to the slab, whose row of u = 0 is `slab`: the sum over its rows of dS own. A distance belongs
// to one warp, a column to a lane: what a thread reads there, itself has written.
template <int ALL>
FT_DEVICE void add_band(float *slab, const tile<ALL> &t, int distance, int lowest, int highest, int d, int columns) {
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP;
    for (int w = (warp - distance) & (WARPS - 1); w < tile<ALL>::WINDOW; w += WARPS) {
        if (distance + w < lowest || distance + w > highest) continue;
        const int offset = w - (OTHER - 1); // own row - other row within the tile
        const int begin = offset < 0 ? 0 : offset, end = offset + OTHER < ALL ? offset + OTHER : ALL;
        float sum = 0.0f;
        for (int r = begin; r < end; r++)
            sum = fmaf(t.weights[r * OTHER + r - offset], t.own[r * PIECE + lane], sum);
        if (lane < columns) slab[int64_t(distance + w) * d + lane] += sum;
    }
}

template <class T, int CHUNKS, bool OF_KEYS>
FT_DEVICE void backward_item(const pass_arguments<T> &a, tile<rows_of_block<CHUNKS>()> &t, const ft_attention_place &at,
                             float *slab) {
    constexpr int ROWS = rows_of_warp<CHUNKS>(), ALL = rows_of_block<CHUNKS>();
    const int d = a.problem.head_dim, head_column = at.head * d;
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query, other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * ALL;
    const int lane = int(threadIdx.x) % FT_WARP, own = int(threadIdx.x) / FT_WARP * ROWS;
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);

    float result0[ROWS][CHUNKS] = {}, result1[ROWS][CHUNKS] = {};
    for (int base = 0; base < other_count; base += OTHER) {
        const int distance = first - base - (OTHER - 1), valid = other_count - base;
        float s[ROWS] = {}, dp[ROWS] = {};
        for (int c = 0; c < d; c += PIECE) {
            const int column = head_column + c, columns = d - c < PIECE ? d - c : PIECE;
            __syncthreads(); // all have read what was there
            load_rows(t.own, PIECE, a.own[0].at(own_row + first, column), a.own[0].stride, ALL, own_count - first, columns);
            load_rows(t.own1, PIECE, a.own[1].at(own_row + first, column), a.own[1].stride, ALL, own_count - first, columns);
            load_rows(t.other, PITCH, a.other[0].at(other_row + base, column), a.other[0].stride, OTHER, valid, columns);
            load_rows(t.other1, PITCH, a.other[1].at(other_row + base, column), a.other[1].stride, OTHER, valid, columns);
            load_window<T, OF_KEYS>(t.own_table, a.position.own, a.position.slots, distance, tile<ALL>::WINDOW,
                                    1 - other_count, own_count - 1, column, columns);
            load_window<T, OF_KEYS>(t.other_table, a.position.other, a.position.slots, distance, tile<ALL>::WINDOW,
                                    1 - other_count, own_count - 1, column, columns);
            __syncthreads();
            add_scores<ROWS>(s, t, own, columns);
            for (int i = 0; i < columns; i++) {
                const float x = t.other1[lane * PITCH + i];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    dp[r] = fmaf(t.own1[(own + r) * PIECE + i], x, dp[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int mine = first + own + r, others = base + lane;
            const int query = OF_KEYS ? others : mine, key = OF_KEYS ? mine : others;
            float p = 0.0f, ds = 0.0f;
            if (mine < own_count && others < other_count) {
                const int64_t row = at.first_query + query;
                const bool keep = ft_keeps(filter, query, key);
                p = expf(s[r] * a.problem.scale - *a.lse.at(row, at.head));
                ds = p * ((keep ? dp[r] * a.problem.keep_scale : 0.0f) - a.delta[row * a.problem.heads + at.head]);
                if (!keep) p = 0.0f;
            }
            t.weights[(own + r) * OTHER + lane] = ds;
            if (OF_KEYS) t.weights1[(own + r) * OTHER + lane] = p;
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (c * PIECE >= d) continue;
            const int column = head_column + c * PIECE, columns = d - c * PIECE;
            __syncthreads();
            if (slab != nullptr)
                load_rows(t.own, PIECE, a.own[0].at(own_row + first, column), a.own[0].stride, ALL, own_count - first, columns);
            load_rows(t.other, PITCH, a.other[0].at(other_row + base, column), a.other[0].stride, OTHER, valid, columns);
            if (OF_KEYS)
                load_rows(t.other1, PITCH, a.other[1].at(other_row + base, column), a.other[1].stride, OTHER, valid, columns);
            load_window<T, OF_KEYS>(t.own_table, a.position.own, a.position.slots, distance, tile<ALL>::WINDOW,
                                    1 - other_count, own_count - 1, column, columns);
            __syncthreads();
            for (int j = 0; j < OTHER; j++) {
                const float x = t.other[j * PITCH + lane], y = OF_KEYS ? t.other1[j * PITCH + lane] : 0.0f;
                const float *const positions = t.own_table + (own - j + OTHER - 1) * PITCH + lane;
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float weight = t.weights[(own + r) * OTHER + j];
                    result0[r][c] = fmaf(weight, x + positions[r * PITCH], result0[r][c]);
                    if (OF_KEYS) result1[r][c] = fmaf(t.weights1[(own + r) * OTHER + j], y, result1[r][c]);
                }
            }
            if (slab != nullptr)
                add_band(slab + int64_t(a.slabs.origin) * d + c * PIECE, t, distance, 1 - other_count, own_count - 1, d, columns);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (first + own + r >= own_count) continue;
        const int64_t row = own_row + first + own + r;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (c * PIECE + lane >= d) continue;
            const int column = head_column + c * PIECE + lane;
            *a.result[0].at(row, column) = ft_from_float<T>(result0[r][c] * a.problem.scale);
            if (OF_KEYS) *a.result[1].at(row, column) = ft_from_float<T>(result1[r][c] * a.problem.keep_scale);
        }
    }
}

template <class T, int CHUNKS, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(THREADS, 2) disentangled_plain_backward(pass_arguments<T> a) {
    constexpr int ALL = rows_of_block<CHUNKS>();
    FT_SHARED(tile<ALL>, tiles, 1);
    float *slab = nullptr;
    if (a.slabs.data != nullptr) {
        slab = a.slabs.of(int(blockIdx.x), int(blockIdx.y), a.problem.heads, a.problem.head_dim);
        for (int i = int(threadIdx.x); i < a.slabs.distances * a.problem.head_dim; i += THREADS)
            slab[i] = 0.0f;
        __syncthreads();
    }
    for (int item = int(blockIdx.x); item < a.items; item += int(gridDim.x)) {
        const ft_attention_place at = ft_attention_place_of(a.problem, item);
        if (at.tile * ALL >= (OF_KEYS ? at.keys : at.queries)) continue; // the whole block alike
        backward_item<T, CHUNKS, OF_KEYS>(a, tiles[0], at, slab);
    }
}

template <class T, int CHUNKS, bool OF_KEYS>
ft_status run_pass(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta,
                   const ft_slabs &slabs) {
    const ft_attention_shape &shape = a.shape.attention;
    const ft_tensor &own0 = OF_KEYS ? a.k : a.q, &own1 = OF_KEYS ? a.v : a.dout;
    const ft_tensor &other0 = OF_KEYS ? a.q : a.k, &other1 = OF_KEYS ? a.dout : a.v;
    const ft_tensor &result0 = OF_KEYS ? a.dk : a.dq, &result1 = OF_KEYS ? a.dv : a.dq;
    const ft_tensor &own_table = OF_KEYS ? a.pos_query : a.pos_key, &other_table = OF_KEYS ? a.pos_key : a.pos_query;
    pass_arguments<T> arguments = {
        {ft_view_of<const T>(own0), ft_view_of<const T>(own1)},
        {ft_view_of<const T>(other0), ft_view_of<const T>(other1)},
        {ft_view_of<T>(result0), ft_view_of<T>(result1)},
        ft_view_of<const float>(a.lse),
        delta,
        {ft_view_of<const T>(own_table), ft_view_of<const T>(other_table), ft_position_slots_of(a.shape)},
        slabs,
        ft_attention_problem_of(shape, OF_KEYS ? shape.max_keys : shape.max_queries, rows_of_block<CHUNKS>()),
        0};
    arguments.items = shape.sequences * arguments.problem.tiles;
    const int blocks = slabs.data != nullptr ? slabs.count : arguments.items;
    if (blocks == 0) return FT_OK;
    return ft_launch("disentangled_attention_backward", disentangled_plain_backward<T, CHUNKS, OF_KEYS>,
                     dim3(unsigned(blocks), unsigned(shape.heads)), dim3(THREADS), 0, ft_stream(device), arguments);
}

template <class T, int CHUNKS>
ft_status run_backward(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta, bool of_keys,
                       const ft_slabs &slabs) {
    return of_keys ? run_pass<T, CHUNKS, true>(device, a, delta, slabs) : run_pass<T, CHUNKS, false>(device, a, delta, slabs);
}

} // namespace

// Instances as in attention/plain.cu.

ft_status ft_disentangled_plain_forward(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    const int d = a.shape.attention.head_dim;
    if (a.q.dtype == FT_F16) return run_forward<__half, 8>(device, a);
    if (a.q.dtype == FT_BF16) return run_forward<__nv_bfloat16, 8>(device, a);
    if (d <= 64) return run_forward<float, 2>(device, a);
    return d <= 128 ? run_forward<float, 4>(device, a) : run_forward<float, 8>(device, a);
}

ft_status ft_disentangled_plain_backward(ft_device *device, const ft_disentangled_attention_backward_args &a,
                                         const float *delta, bool of_keys, const ft_slabs &slabs) {
    const int d = a.shape.attention.head_dim;
    if (a.q.dtype == FT_F16) return run_backward<__half, 8>(device, a, delta, of_keys, slabs);
    if (a.q.dtype == FT_BF16) return run_backward<__nv_bfloat16, 8>(device, a, delta, of_keys, slabs);
    if (d <= 64) return run_backward<float, 2>(device, a, delta, of_keys, slabs);
    return d <= 128 ? run_backward<float, 4>(device, a, delta, of_keys, slabs)
                    : run_backward<float, 8>(device, a, delta, of_keys, slabs);
}
