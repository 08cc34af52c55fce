// bias.cu - a bias of scores by distance and head (attention.h of the ops): its lines, which the other kernels add, and its gradient, the sum of
// dS over the pairs of a distance.
//
// The gradient is a pass of its own that computes scores and dS again, on tensor cores or in fp32. A block has a slab, a line of distances, and
// takes tile after tile of its head: dS of a tile goes to shared memory, and each thread adds a diagonal of it to the slab. Then the slabs are
// added, in order, to the rows of the slots. No two blocks add to one number: a device gives the same bits every time.
#include "kernels/cuda/attention/gradient.h"

namespace {

constexpr int OTHER = 32, WARPS = 4, THREADS = WARPS * FT_WARP, DS_STRIDE = OTHER + 1;

struct slot_of_distance {
    const int32_t *slots;
    int reach;
    FT_METHOD int of(int delta) const { return slots[(delta < -reach ? -reach : delta > reach ? reach : delta) + reach]; }
};

// ---- lines ------------------------------------------------------------------------------------------------------------

FT_KERNEL void __launch_bounds__(THREADS)
    attention_bias_lines(ft_view<const float> table, slot_of_distance slots, float *lines, int floats, int origin, float inverse) {
    const int i = int(blockIdx.x) * THREADS + int(threadIdx.x), head = int(blockIdx.y);
    if (i < floats) lines[int64_t(head) * floats + i] = *table.at(slots.of(i - origin), head) * inverse;
}

// ---- gradient ---------------------------------------------------------------------------------------------------------

template <class T> struct gradient_arguments {
    ft_view<const T> q, k, v, dout;
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    float *slabs;       // [slab][head][distances], as a line has them
    ft_attention_problem problem;
    int items;
};

// dS of `rows` queries from `first` on and OTHER keys from `base` on, all there is of it: each thread a distance.
FT_DEVICE void add_diagonals(float *slab, const float *ds, int rows, int distance) {
    for (int w = int(threadIdx.x); w < rows + OTHER - 1; w += THREADS) {
        const int offset = w - (OTHER - 1), begin = offset < 0 ? 0 : offset, end = offset + OTHER < rows ? offset + OTHER : rows;
        float sum = 0.0f;
        for (int r = begin; r < end; r++) sum += ds[r * DS_STRIDE + r - offset];
        slab[distance + offset] += sum;
    }
}

// Of the block; zeros to begin with.
template <class T> FT_DEVICE float *slab_of(const gradient_arguments<T> &a) {
    float *const slab = a.slabs + (int64_t(blockIdx.x) * a.problem.heads + int(blockIdx.y)) * a.problem.bias.floats;
    for (int i = int(threadIdx.x); i < a.problem.bias.floats; i += THREADS) slab[i] = 0.0f;
    __syncthreads();
    return slab + a.problem.bias.origin;
}

template <class T> struct query_numbers { // lse and D of a query; past the last one they are not read
    const gradient_arguments<T> &a;
    const ft_attention_place &at;
    FT_METHOD float lse(int query) const { return query < at.queries ? *a.lse.at(at.first_query + query, at.head) : 0.0f; }
    FT_METHOD float delta(int query) const {
        return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + at.head] : 0.0f;
    }
};

constexpr int OWN = 16 * WARPS;
template <int D> constexpr size_t tile_bytes() { return 2 * ft_tile_bytes(OWN, D) + 2 * ft_tile_bytes(OTHER, D) + OWN * DS_STRIDE * sizeof(float); }

template <class T, int D> FT_KERNEL void __launch_bounds__(THREADS) attention_bias_gradient(gradient_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    constexpr int STRIDE = ft_tile_stride(D);
    T *const own0 = reinterpret_cast<T *>(bytes), *const own1 = own0 + OWN * STRIDE;
    T *const other0 = own1 + OWN * STRIDE, *const other1 = other0 + OTHER * STRIDE;
    float *const all_ds = reinterpret_cast<float *>(other1 + OTHER * STRIDE);
    float *const slab = slab_of(a);
    const int lane = int(threadIdx.x) % FT_WARP, g = lane / 4, t = lane % 4 * 2, mine = int(threadIdx.x) / FT_WARP * 16;
    const float factor = a.problem.scale * FT_LOG2_E;
    for (int item = int(blockIdx.x); item < a.items; item += int(gridDim.x)) {
        const ft_attention_place at = ft_attention_place_of(a.problem, item);
        const int first = at.tile * OWN, column = at.head * D, key_column = at.head / a.problem.group * D;
        if (first >= at.queries) continue; // the whole block alike
        const ft_score_filter filter = ft_score_filter_of(a.problem, at);
        const query_numbers<T> numbers = {a, at};
        float own_lse[2], own_delta[2];
        for (int h = 0; h < 2; h++) {
            own_lse[h] = numbers.lse(first + mine + g + h * 8) * FT_LOG2_E;
            own_delta[h] = numbers.delta(first + mine + g + h * 8);
        }
        __syncthreads(); // all have read the item before
        ft_tile_load<OWN, D, THREADS>(own0, a.q.at(at.first_query + first, column), a.q.stride, at.queries - first);
        ft_tile_load<OWN, D, THREADS>(own1, a.dout.at(at.first_query + first, column), a.dout.stride, at.queries - first);
        const ft_attention_span span = ft_attention_span_of<OTHER, false>(a.problem, first, OWN, at.keys);
        for (int base = span.first; base < span.end; base += OTHER) {
            __syncthreads(); // all have read the tile before
            ft_tile_load<OTHER, D, THREADS>(other0, a.k.at(at.first_key + base, key_column), a.k.stride, at.keys - base);
            ft_tile_load<OTHER, D, THREADS>(other1, a.v.at(at.first_key + base, key_column), a.v.stride, at.keys - base);
            ft_copy_async_commit();
            ft_copy_async_wait<0>();
            __syncthreads();
            float p[OTHER / 8][4] = {}, ds[OTHER / 8][4] = {};
            ft_score_products<D>(p, ds, own0, own1, mine, other0, other1);
            const float *const line = a.problem.bias.of(at.head);
#pragma unroll
            for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int key = base + n * 8 + t + e % 2, query = first + mine + g + e / 2 * 8;
                    const bool seen = key < at.keys && query < at.queries && abs(query - key) <= a.problem.behind; // never causal
                    p[n][e] = seen ? p[n][e] + line[query - key] : -INFINITY;
                }
#pragma unroll
            for (int c = 0; c < OTHER / 16; c++)
                ft_score_gradients<false>(p, ds, c, filter, first + mine, base, factor, a.problem.keep_scale,
                                          [&](int row, int) { return own_lse[row]; }, [&](int row, int) { return own_delta[row]; });
#pragma unroll
            for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) all_ds[(mine + g + e / 2 * 8) * DS_STRIDE + n * 8 + t + e % 2] = ds[n][e];
            __syncthreads();
            add_diagonals(slab, all_ds, OWN, first - base);
        }
        ft_copy_async_wait<0>(); // of an item that sees no key
    }
}

// In fp32: a thread a pair of the tile, over columns in shared memory 32 at a time.
constexpr int PLAIN_ROWS = 16, PIECE = 32, PIECE_STRIDE = PIECE + 1;

template <class T> FT_DEVICE void load_piece(float *to, ft_view<const T> from, int64_t row, int rows, int valid, int column, int columns) {
    for (int i = int(threadIdx.x); i < rows * PIECE; i += THREADS) {
        const int r = i / PIECE, c = i % PIECE;
        to[r * PIECE_STRIDE + c] = r < valid && c < columns ? ft_to_float(*from.at(row + r, column + c)) : 0.0f;
    }
}

template <class T> FT_KERNEL void __launch_bounds__(THREADS, 2) attention_plain_bias_gradient(gradient_arguments<T> a) {
    constexpr int PAIRS = PLAIN_ROWS * OTHER / THREADS; // of a thread: rows threadIdx / 32 + 4 n, its lane's key
    FT_SHARED(float, own0, PLAIN_ROWS *PIECE_STRIDE);
    FT_SHARED(float, own1, PLAIN_ROWS *PIECE_STRIDE);
    FT_SHARED(float, other0, OTHER *PIECE_STRIDE);
    FT_SHARED(float, other1, OTHER *PIECE_STRIDE);
    FT_SHARED(float, all_ds, PLAIN_ROWS *DS_STRIDE);
    float *const slab = slab_of(a);
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP, d = a.problem.head_dim;
    for (int item = int(blockIdx.x); item < a.items; item += int(gridDim.x)) {
        const ft_attention_place at = ft_attention_place_of(a.problem, item);
        const int first = at.tile * PLAIN_ROWS;
        if (first >= at.queries) continue; // the whole block alike
        const ft_score_filter filter = ft_score_filter_of(a.problem, at);
        const query_numbers<T> numbers = {a, at};
        const ft_attention_span span = ft_attention_span_of<OTHER, false>(a.problem, first, PLAIN_ROWS, at.keys);
        for (int base = span.first; base < span.end; base += OTHER) {
            float s[PAIRS] = {}, dp[PAIRS] = {};
            for (int c = 0; c < d; c += PIECE) {
                const int columns = d - c < PIECE ? d - c : PIECE, column = at.head * d + c, key_column = at.head / a.problem.group * d + c;
                __syncthreads(); // all have read what was there
                load_piece(own0, a.q, at.first_query + first, PLAIN_ROWS, at.queries - first, column, columns);
                load_piece(own1, a.dout, at.first_query + first, PLAIN_ROWS, at.queries - first, column, columns);
                load_piece(other0, a.k, at.first_key + base, OTHER, at.keys - base, key_column, columns);
                load_piece(other1, a.v, at.first_key + base, OTHER, at.keys - base, key_column, columns);
                __syncthreads();
                for (int i = 0; i < PIECE; i++)
#pragma unroll
                    for (int n = 0; n < PAIRS; n++) {
                        const int row = (warp + WARPS * n) * PIECE_STRIDE + i;
                        s[n] = fmaf(own0[row], other0[lane * PIECE_STRIDE + i], s[n]);
                        dp[n] = fmaf(own1[row], other1[lane * PIECE_STRIDE + i], dp[n]);
                    }
            }
#pragma unroll
            for (int n = 0; n < PAIRS; n++) {
                const int row = warp + WARPS * n, query = first + row, key = base + lane;
                float ds = 0.0f;
                if (query < at.queries && key < at.keys && ft_attention_sees(a.problem, query, key)) {
                    const float p = expf((s[n] + a.problem.bias.of(at.head)[query - key]) * a.problem.scale - numbers.lse(query));
                    ds = p * ((ft_keeps(filter, query, key) ? dp[n] * a.problem.keep_scale : 0.0f) - numbers.delta(query));
                }
                all_ds[row * DS_STRIDE + lane] = ds;
            }
            __syncthreads();
            add_diagonals(slab, all_ds, PLAIN_ROWS, first - base);
        }
    }
}

// A warp has the distances of one slot, which follow each other: the block that begins with the first of them. Lanes take every 32nd.
FT_KERNEL void __launch_bounds__(FT_WARP)
    attention_bias_sum(ft_view<float> gradient, const float *slabs, int count, ft_bias_view lines, slot_of_distance slots, int lowest, int highest, int heads) {
    const int head = int(blockIdx.y), begin = lowest + int(blockIdx.x), slot = slots.of(begin);
    if (begin > lowest && slots.of(begin - 1) == slot) return;
    float sum = 0.0f;
    for (int s = 0; s < count; s++) {
        const float *const slab = slabs + (int64_t(s) * heads + head) * lines.floats + lines.origin;
        for (int delta = begin + int(threadIdx.x); delta <= highest && slots.of(delta) == slot; delta += FT_WARP) sum += slab[delta];
    }
    sum = ft_warp_sum(sum);
    if (threadIdx.x == 0) *gradient.at(slot, head) += sum;
}

template <class T> ft_status run_gradient(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &lines, float *slabs, int count, bool tensor_path) {
    tensor_path = tensor_path && !a.shape.causal; // no model has a causal bias, and its comparison would spill
    gradient_arguments<T> arguments = {ft_view_of<const T>(a.q), ft_view_of<const T>(a.k), ft_view_of<const T>(a.v), ft_view_of<const T>(a.dout),
                                       ft_view_of<const float>(a.lse), delta, slabs,
                                       ft_attention_problem_of(a.shape, a.shape.max_queries, tensor_path ? OWN : PLAIN_ROWS), 0};
    arguments.problem.bias = lines;
    arguments.items = a.shape.sequences * arguments.problem.tiles;
    const auto launch = [&](auto kernel, size_t bytes) {
        return ft_launch("attention_backward", kernel, dim3(unsigned(count), unsigned(a.shape.heads)), dim3(THREADS), bytes, ft_stream(device), arguments);
    };
    if constexpr (sizeof(T) == 2)
        if (tensor_path) switch (a.shape.head_dim) {
            case 32: return launch(attention_bias_gradient<T, 32>, tile_bytes<32>());
            case 64: return launch(attention_bias_gradient<T, 64>, tile_bytes<64>());
            case 96: return launch(attention_bias_gradient<T, 96>, tile_bytes<96>());
            default: return launch(attention_bias_gradient<T, 128>, tile_bytes<128>());
            }
    return launch(attention_plain_bias_gradient<T>, 0);
}

slot_of_distance slots_of(const ft_attention_bias &bias) { return {bias.slots, bias.reach}; }

} // namespace

ft_status ft_attention_bias_lines(ft_device *device, const ft_attention_shape &shape, const ft_attention_bias &bias, void *scratch, ft_bias_view *lines) {
    *lines = {};
    if (bias.table.data == nullptr) return FT_OK;
    *lines = {static_cast<const float *>(scratch), int(ft_cuda_bias_floats(shape.max_queries, shape.max_keys)), int(ft_cuda_bias_origin(shape.max_keys))};
    return ft_launch("attention_forward", attention_bias_lines, dim3(unsigned((lines->floats + THREADS - 1) / THREADS), unsigned(shape.heads)),
                     dim3(THREADS), 0, ft_stream(device), ft_view_of<const float>(bias.table), slots_of(bias), static_cast<float *>(scratch),
                     lines->floats, lines->origin, 1.0f / shape.scale);
}

ft_status ft_attention_bias_gradient(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_bias_view &lines, bool tensor_path) {
    const ft_attention_shape &s = a.shape;
    const int longest = s.max_queries > s.max_keys ? s.max_queries : s.max_keys, count = int(ft_cuda_slabs(device->target.sm_count, s.heads, s.sequences, longest));
    float *const slabs = reinterpret_cast<float *>(reinterpret_cast<char *>(const_cast<float *>(lines.data)) + ft_cuda_bias_line_bytes(s.heads, s.max_queries, s.max_keys));
    if (s.max_queries == 0 || s.max_keys == 0) return FT_OK;
    switch (a.q.dtype) {
    case FT_F16: FT_TRY(run_gradient<__half>(device, a, delta, lines, slabs, count, tensor_path)); break;
    case FT_BF16: FT_TRY(run_gradient<__nv_bfloat16>(device, a, delta, lines, slabs, count, tensor_path)); break;
    default: FT_TRY(run_gradient<float>(device, a, delta, lines, slabs, count, tensor_path)); break;
    }
    return ft_launch("attention_backward", attention_bias_sum, dim3(unsigned(s.max_queries + s.max_keys - 1), unsigned(s.heads)), dim3(FT_WARP), 0,
                     ft_stream(device), ft_view_of<float>(a.dbias), slabs, count, lines, slots_of(a.bias), 1 - int(s.max_keys), int(s.max_queries) - 1, int(s.heads));
}
