// warpgroup_forward.cu - forward.cu for heads of 64 on compute capability 9.0: the same sweep, but the four strips of a
// block are the rows of a warpgroup in the products whose right operand is the same for all of them: P V, and the own
// table's with the own rows. These read it from shared memory once for four warps. <own, other> and the other table's
// products stay on mma.sync: what they take from the other table are distances of a strip's own.
//
// A tile is two steps, 32 keys, and brings two chunks of each table, numbered as they come (warpgroup_backward.cu): the
// strip of warp w meets chunk k + 4 - w at step k. The own table's products with all strips are made when a chunk
// comes, so that a strip has use for them w steps later; until then their words wait in registers.
//
// Own rows are multiplied by `shrink` once, a power of two, so that scores are in the unit of positional words
// (sweep.h) from the start. Both terms: of models with one alone (rare) forward.cu has the scores.
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/attention/warpgroup.h"
#include "kernels/cuda/disentangled/warpgroup_forward.h"

#include <limits.h>

namespace {

constexpr int D = 64, STEP = FT_CUDA_STRIP, STRIPS = FT_SWEEP_STRIPS, CHUNK = ft_chunk_elements(D);
constexpr int STEPS = 2, KEYS = STEPS * STEP, TILE = KEYS * FT_TENSOR_ROW; // of a tile: its keys, bytes of a matrix
constexpr int VALUES = 3; // tiles: one is multiplied still when the next but one is asked for
constexpr int CHUNKS = ft_table_chunks(2 * STEPS - 1);        // of the other table in shared memory
[[maybe_unused]] constexpr int WARP_ROWS = 8 * FT_TENSOR_ROW; // bytes of eight rows
static_assert(STRIPS * STEP == FT_GROUP_ROWS && CHUNKS % STEPS == 0, "a tile of chunks lies in one piece");

// Where the pieces are in shared memory: tiles of values, the own table's first four chunks, two tiles of those that
// follow; two tiles of keys, and a ring of the other table's chunks.
template <class T> struct pieces {
    unsigned char *values, *first_own, *own_table;
    T *keys, *other_table;
    FT_METHOD explicit pieces(unsigned char *bytes) {
        values = bytes;
        first_own = values + VALUES * TILE;
        own_table = first_own + 2 * TILE;
        keys = reinterpret_cast<T *>(own_table + 2 * TILE);
        other_table = keys + 2 * STEPS * CHUNK;
    }
};
constexpr size_t SHARED = (VALUES + 4) * TILE + (2 * STEPS + CHUNKS) * CHUNK * 2;

template <class T> struct arguments {
    ft_view<const T> q, k, v;
    ft_view<T> out;
    ft_view<float> lse;
    ft_sweep_tables<T> tables;
    ft_attention_problem problem;
};

// Numbers that the loop wants in registers: not made anew at every turn from what they were made of.
#ifdef __CUDACC__
template <class X> FT_DEVICE void keep(X &x) {
    if constexpr (sizeof(X) == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
}
#else
template <class X> void keep(X &) {}
#endif

[[maybe_unused]] FT_DEVICE ft_row_words either(bool second, const ft_row_words &a, const ft_row_words &b) {
    return {{{second ? b.w[0][0] : a.w[0][0], second ? b.w[0][1] : a.w[0][1]},
             {second ? b.w[1][0] : a.w[1][0], second ? b.w[1][1] : a.w[1][1]}}};
}

template <class T> FT_DEVICE void forward_block(const arguments<T> &a, unsigned char *bytes) {
    const ft_attention_place at = ft_attention_place_of(a.problem);
    const int first = at.tile * FT_SWEEP_ROWS, column = at.head * D;
    if (first >= at.queries) return;
    const pieces<T> shared(bytes);
    const int thread = int(threadIdx.x), warp = thread / FT_WARP, lane = thread % FT_WARP, g = lane / 4, t = lane % 4;
    const int mine = first + warp * STEP;  // the strip
    const bool active = mine < at.queries; // else it has its part in the warpgroup's products alone, with zeros
    const int steps = (at.keys + KEYS - 1) / KEYS * STEPS; // of whole tiles
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * FT_LOG2_E * a.tables.grow;
    const ft_chunk_lane<D> chunk_lane = ft_chunk_lane_of<D>();
    ft_skew skew = ft_skew_of();
    keep(skew.row_source);
    keep(skew.row_select);
#pragma unroll
    for (int x = 0; x < 2; x++) {
        keep(skew.column_source[x]);
        keep(skew.column_select[x]);
    }

    // ---- copies: of 32 rows a warp brings eight, a lane 16 bytes of two of them. Distances that the sequence has not
    // are taken for the nearest that it has.
    const int row = warp * 8 + lane / 8, unit = lane % 8, spread = warp * 8 + ft_spread(lane / 8);
    int lowest = 1 - at.keys > -a.tables.slots.reach ? 1 - at.keys : -a.tables.slots.reach,
        highest = at.queries - 1 < a.tables.slots.reach ? at.queries - 1 : a.tables.slots.reach;
    const int32_t *slots = a.tables.slots.slots + a.tables.slots.reach;
    const T *own_rows = a.tables.own.data + column + unit * 8, *other_rows = a.tables.other.data + column + unit * 8;
    unsigned own_stride = unsigned(a.tables.own.stride), other_stride = unsigned(a.tables.other.stride);
    // Where they go: rows of the own table lie within eight in the order of ft_spread, so that columns of products are
    // spread, and values, as columns of probabilities are. (ft_spread(4 + x) is ft_spread(x) + 2, and a row's place
    // within its 128 bytes changes by half of them every four rows.)
    const int own_to[2] = {ft_tensor_place(row, unit), ft_tensor_place(row + 4, unit)};
    const int other_to = spread * ft_tile_stride(D) + unit * 8, keys_to = row * ft_tile_stride(D) + unit * 8;
    auto load_tables = [&](unsigned char *own, T *other, const int(&slot)[2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ft_copy_async16(own + own_to[i], own_rows + uint64_t(unsigned(slot[i])) * own_stride);
            ft_copy_async16(other + other_to + i * 2 * ft_tile_stride(D),
                            other_rows + uint64_t(unsigned(slot[i])) * other_stride);
        }
    };
    // Row o of chunk n is u = 16 (first / 16 + 4 - n) - o.
    int distance = first + STEP * STRIPS - spread; // a lane's first one in the chunks whose slots are looked up next
    auto find_slots = [&](int(&slot)[2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int u = distance - i * 2;
            slot[i] = __ldg(slots + (u < lowest ? lowest : u > highest ? highest : u));
        }
        distance -= KEYS;
    };
    const T *keys_from = a.k.at(at.first_key + row, column + unit * 8),
            *values_from =
                a.v.at(at.first_key + spread, column + unit * 8); // (beyond the text their addresses are nobody's)
    unsigned keys_stride = unsigned(a.k.stride), values_stride = unsigned(a.v.stride);
    int keys_left = at.keys - row, values_left = at.keys - spread;
    keep(lowest);
    keep(highest);
    keep(slots);
    keep(own_rows);
    keep(other_rows);
    keep(own_stride);
    keep(other_stride);
    keep(keys_stride);
    keep(values_stride);
    // A tile's place in the buffers. They take turns: of two, and of three where values are.
    int values_turn = 0, chunks = STRIPS * CHUNK, slot[2];
    auto load_tile = [&](int turn) { // the next one
        load_tables(shared.own_table + turn * TILE, shared.other_table + chunks, slot);
        find_slots(slot);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ft_copy_async16_or_zero(shared.keys + turn * STEPS * CHUNK + keys_to + i * 4 * ft_tile_stride(D),
                                    keys_from + uint64_t(keys_stride) * (i * 4), keys_left > i * 4);
            ft_copy_async16_or_zero(shared.values + values_turn + own_to[i],
                                    values_from + uint64_t(values_stride) * (i * 2), values_left > i * 2);
        }
        keys_from += uint64_t(keys_stride) * KEYS;
        values_from += uint64_t(values_stride) * KEYS;
        keys_left -= KEYS;
        values_left -= KEYS;
        values_turn = values_turn == (VALUES - 1) * TILE ? 0 : values_turn + TILE;
        chunks = chunks == (CHUNKS - STEPS) * CHUNK ? 0 : chunks + STEPS * CHUNK;
        ft_copy_async_commit();
    };
    if (steps > 0) {
#pragma unroll
        for (int n = 0; n < STRIPS; n += STEPS) {
            find_slots(slot);
            load_tables(shared.first_own + n / STEPS * TILE, shared.other_table + n * CHUNK, slot);
        }
        find_slots(slot);
        load_tile(0);
    }

    unsigned own[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        ft_left_of_rows<D>(own[c], a.q.at(at.first_query + (active ? mine : 0), column), a.q.stride, at.queries - mine,
                           c * 16);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const float2 pair = ft_unpack<T>(own[c][q]);
            own[c][q] = ft_pack<T>(pair.x * a.tables.shrink, pair.y * a.tables.shrink);
        }
    }

    // ---- the own term: words of the chunks of the tile before, of the last one that came w / 2 tiles ago, and of that
    // which the strip met last
    ft_row_words before[STEPS] = {}, last = {}, carry = {};
    ft_chunk_behind<D, true> behind[2];
    const bool one = warp % 2 != 0, two = warp / 2 != 0;
    auto words_of = [&](const float(&left)[4], const float(&right)[4]) { return ft_row_words_of(left, right, 1.0f); };
    if (steps > 0) {
        ft_copy_async_wait<0>();
        ft_async_fence(shared.first_own + warp * WARP_ROWS, WARP_ROWS, shared.first_own + TILE + warp * WARP_ROWS,
                       WARP_ROWS, shared.own_table + warp * WARP_ROWS, WARP_ROWS);
        ft_async_fence(shared.values + warp * WARP_ROWS, WARP_ROWS);
        __syncthreads();
        float products[FT_GROUP_ROWS / 8][4];
        ft_wgmma_hold(own);
        ft_wgmma_fence_new(products);
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_wgmma<T, FT_GROUP_ROWS, false>(products, own[c], ft_wgmma_rows(shared.first_own, 2 * TILE, c), c > 0);
        ft_wgmma_commit();
        ft_load_behind(behind[0], shared.other_table + (STRIPS - 1 - warp) * CHUNK, chunk_lane);
        ft_wgmma_wait<0>(products);
        ft_wgmma_hold(own);
        ft_row_words come[STRIPS];
#pragma unroll
        for (int i = 0; i < STRIPS; i++)
            come[i] = words_of(products[2 * i], products[2 * i + 1]);
        before[0] = come[2];
        before[1] = come[3];
        last = either(two, come[3], come[1]);
        carry = either(two, either(one, come[3], come[2]), either(one, come[1], come[0]));
    }

    // ---- tiles
    float sums[D / 8][4] = {};
    ft_running_softmax softmax;
    unsigned left[STEPS][4] = {};
    const unsigned char *values = shared.values;
    int turn = 0;
#pragma unroll 1
    for (int k = 0; k < steps; k += STEPS) {
        const unsigned char *const own_table = shared.own_table + turn * TILE;
        if (k > 0) { // (the first tile has come already)
            ft_copy_async_wait<0>();
            ft_async_fence(own_table + warp * WARP_ROWS, WARP_ROWS, values + warp * WARP_ROWS, WARP_ROWS, nullptr, 0);
            __syncthreads(); // what was loaded is there for all, and what was read before may be overwritten
        }
        float products[KEYS / 8][4];
        ft_wgmma_fence_new(products);
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_wgmma<T, KEYS, false>(products, own[c], ft_wgmma_rows(own_table, TILE, c), c > 0);
        ft_wgmma_commit();
        if (k + STEPS < steps) load_tile(turn ^ 1);
        ft_wgmma_wait<0>(products);
        ft_wgmma_wait<0>(sums); // the values of the tile before are in them
        ft_wgmma_hold(left);
        ft_wgmma_hold(own);
        if (active) {
            // The strip has use for those that came w chunks ago: w / 2 tiles, and one more if w is odd.
            const ft_row_words come[STEPS] = {words_of(products[0], products[1]), words_of(products[2], products[3])},
                               passed[STEPS] = {either(two, come[0], before[0]), either(two, come[1], before[1])},
                               met[STEPS] = {either(one, passed[0], last), either(one, passed[1], passed[0])};
            before[0] = come[0];
            before[1] = come[1];
            last = passed[1];
            float s[STEPS][2][4];
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                const T *const keys = shared.keys + (turn * STEPS + i) * CHUNK + chunk_lane.rows,
                               *const other = shared.other_table + unsigned(k + i + STRIPS - warp) % CHUNKS * CHUNK +
                                              chunk_lane.reversed;
                ft_skew_rows(s[i], skew, carry, met[i], 1.0f);
                carry = met[i];
                float low[2][4] = {}, high[2][4] = {};
#pragma unroll
                for (int c = 0; c < D / 16; c++) {
                    unsigned b[4], now[4];
                    ft_ldmatrix_x4(b, keys + c * 16);
                    ft_mma<T>(s[i][0], own[c], b[0], b[1]);
                    ft_mma<T>(s[i][1], own[c], b[2], b[3]);
                    ft_ldmatrix_x4(now, other + c * 16);
                    ft_mma<T>(low[0], now, b[0], b[1]);
                    ft_mma<T>(low[1], now, b[2], b[3]);
                    ft_mma<T>(high[0], behind[i].words[c], b[0], b[1]);
                    ft_mma<T>(high[1], behind[i].words[c], b[2], b[3]);
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        behind[1 - i].words[c][q] = now[q];
                }
                ft_skew_columns(s[i], skew, ft_column_words_of(low[0], low[1], a.tables.shrink),
                                ft_column_words_of(high[0], high[1], a.tables.shrink), 1.0f);
            }
            const int base = k * STEP;
            if (base + KEYS > at.keys) // the last tile, where it is not full
#pragma unroll
                for (int i = 0; i < STEPS; i++)
#pragma unroll
                    for (int q = 0; q < 8; q++)
                        if (base + i * STEP + ft_spread_column(q / 4, q % 4) >= at.keys) s[i][q / 4][q % 4] = -INFINITY;
            ft_next_scores(softmax, reinterpret_cast<float(&)[STEPS * 2][4]>(s), factor, [&](const float(&shrink)[2]) {
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        sums[n][e] *= shrink[e / 2];
            });
            // (either way from the same numbers, as in forward.cu)
            if (filter.threshold != 0) { // out of the product; the sum of the softmax has them
#pragma unroll
                for (int i = 0; i < STEPS; i++) {
                    const ft_kept_16x16 kept = ft_kept_of_16x16<false, true>(filter, mine, base + i * STEP);
                    float left_in[2][4];
#pragma unroll
                    for (int q = 0; q < 8; q++)
                        left_in[q / 4][q % 4] = ft_is_kept<false>(kept, q) ? s[i][q / 4][q % 4] : 0.0f;
                    ft_left_of<T>(left[i], left_in[0], left_in[1]);
                }
            } else {
#pragma unroll
                for (int i = 0; i < STEPS; i++)
                    ft_left_of<T>(left[i], s[i][0], s[i][1]);
            }
        }
        ft_wgmma_hold(left);
        ft_wgmma_fence(sums);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            ft_wgmma<T, D, true>(sums, left[i], ft_wgmma_columns(values, TILE, i), true);
        ft_wgmma_commit();
        values = values == shared.values + (VALUES - 1) * TILE ? shared.values : values + TILE;
        turn ^= 1;
    }
    ft_wgmma_wait<0>(sums);
    ft_wgmma_hold(left);

    if (!active) return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = softmax.sum[h];
        total += __shfl_xor_sync(FT_ALL_LANES, total, 1);
        total += __shfl_xor_sync(FT_ALL_LANES, total, 2);
        const int query = mine + g + h * 8;
        if (query >= at.queries) continue;
        const int64_t place = at.first_query + query;
        const float inverse = at.keys > 0 ? a.problem.keep_scale / total : 0.0f;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *reinterpret_cast<unsigned *>(a.out.at(place, column + n * 8 + t * 2)) =
                ft_pack<T>(sums[n][h * 2] * inverse, sums[n][h * 2 + 1] * inverse);
        if (a.lse.data != nullptr && t == 0)
            *a.lse.at(place, at.head) = at.keys > 0 ? softmax.base2[h] * FT_LN_2 + logf(total) : -INFINITY;
    }
}

template <class T>
FT_KERNEL void __launch_bounds__(FT_SWEEP_THREADS, 2) disentangled_warpgroup_forward(arguments<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    forward_block(a, bytes);
#else
    __trap(); // ft_attention_takes_warpgroups does not let it come to this
#endif
}

template <class T> ft_status run(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    const ft_attention_shape &shape = a.shape.attention;
    const arguments<T> arguments = {ft_view_of<const T>(a.q),
                                    ft_view_of<const T>(a.k),
                                    ft_view_of<const T>(a.v),
                                    ft_view_of<T>(a.out),
                                    ft_view_of<float>(a.lse),
                                    ft_sweep_tables_of<T>(a.shape, a.pos_key, a.pos_query),
                                    ft_attention_problem_of(shape, shape.max_queries, FT_SWEEP_ROWS)};
    return ft_launch("disentangled_warpgroup_forward", disentangled_warpgroup_forward<T>,
                     ft_attention_grid(arguments.problem, shape.sequences), dim3(FT_SWEEP_THREADS), SHARED,
                     ft_stream(device), arguments);
}

} // namespace

bool ft_disentangled_has_warpgroup_forward(const ft_disentangled_attention_forward_args &a) {
    return a.shape.attention.head_dim == 64 && a.pos_key.data != nullptr && a.pos_query.data != nullptr &&
           a.pos_key.stride <= INT_MAX && a.pos_query.stride <= INT_MAX && a.k.stride <= INT_MAX &&
           a.v.stride <= INT_MAX;
}
ft_status ft_disentangled_warpgroup_forward(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    return a.q.dtype == FT_F16 ? run<__half>(device, a) : run<__nv_bfloat16>(device, a);
}
