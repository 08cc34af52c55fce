// backward.cu - gradients of disentangled attention on tensor cores: two passes as in disentangled.h, each
// followed by the sum of what it gathered for a table of positions. A block of a pass owns 64 rows at a time, 16 a warp,
// which sweep over the other side as in sweep.h and compute the scores again.
//
// dS of a step goes three ways: with the other rows to the gradient of the own rows; skewed to a band, whose columns are
// distances, with the own table's chunk to the same; and, for the own table's gradient, through shared memory: the bands
// of all strips for one chunk, with the own rows, are added to the block's slab as soon as the last strip has passed it.
#include "kernels/cuda/disentangled/bands.h"
#include "kernels/cuda/tile/exp2.h"

namespace {

constexpr float LOG2_E = 1.4426950408889634f;
constexpr int STEP = FT_CUDA_STRIP, STRIPS = FT_SWEEP_STRIPS;
constexpr int TABLE = ft_table_chunks(1); // chunks of a table in shared memory
// Steps between two visits to the slab, which have as many chunks. A warp takes half of the columns of one at a time, or of
// two or four, that share the own rows. Wide heads have no room for the bands of four steps: at 128 on chips of 99 KB, at 96
// for two blocks on chips of 163 KB. Nor heads of 32 for those of eight: a block less on both. For keys four chunks at a time
// are too many registers on sm_80 (8 bytes spilled).
FT_HOST_DEVICE constexpr int flush_steps(int head_dim, bool of_keys) { return head_dim > 64 ? 2 : head_dim == 64 && !of_keys ? 8 : 4; }
// Of a strip in shared memory: what the other strips have not passed yet, these steps, and the closing one, which no
// barrier keeps from the visit before. (Of eight steps twelve would do; of sixteen a step finds its own without a division.)
FT_HOST_DEVICE constexpr int strip_bands(int head_dim, bool of_keys) {
    return flush_steps(head_dim, of_keys) == 8 ? 16 : STRIPS + flush_steps(head_dim, of_keys);
}

// ---- a pass ----------------------------------------------------------------------------------------------------------------

// Where the pieces are in shared memory: rings of both tables, two steps of both other matrices, own rows, bands, and lse
// and delta of two steps.
template <class T, int D, bool OF_KEYS> struct pieces {
    T *own_table, *other_table, *other0, *other1, *own, *bands;
    float *queries;
    FT_METHOD explicit pieces(unsigned char *bytes) {
        constexpr int CHUNK = ft_chunk_elements(D);
        own_table = reinterpret_cast<T *>(bytes);
        other_table = own_table + TABLE * CHUNK;
        other0 = other_table + TABLE * CHUNK;
        other1 = other0 + 2 * CHUNK;
        own = other1 + 2 * CHUNK;
        bands = own + STRIPS * CHUNK;
        queries = reinterpret_cast<float *>(bands + STRIPS * strip_bands(D, OF_KEYS) * FT_BAND_ELEMENTS);
    }
};
template <int D, bool OF_KEYS> constexpr size_t shared_bytes() {
    return size_t((2 * TABLE + 4 + STRIPS) * ft_chunk_elements(D) + STRIPS * strip_bands(D, OF_KEYS) * FT_BAND_ELEMENTS) * 2 +
           4 * STEP * sizeof(float);
}

template <class T, int D, bool OF_KEYS>
FT_DEVICE void sweep_item(const ft_disentangled_pass<T> &a, const pieces<T, D, OF_KEYS> &shared, const ft_attention_place &at, float *slab) {
    constexpr int CHUNK = ft_chunk_elements(D);
    // Own rows as left operands stay in registers where there is room; else they are read again at every step.
    constexpr bool KEEPS0 = OF_KEYS ? D < 96 : D < 128, KEEPS1 = OF_KEYS ? D < 128 : true;
    constexpr int UNROLL = OF_KEYS && D == 128 ? 2 : D / 16;
    constexpr bool KEEPS_BEHIND = D <= 64;
    constexpr int BANDS = strip_bands(D, OF_KEYS);
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query, other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * FT_SWEEP_ROWS, column = at.head * D, newest = first / STEP;
    const int warp = int(threadIdx.x) / FT_WARP, g = int(threadIdx.x) % FT_WARP / 4, t = int(threadIdx.x) % 4;
    const int mine = first + warp * STEP; // the strip
    const int left_over = (own_count - first + STEP - 1) / STEP, strips = left_over < STRIPS ? left_over : STRIPS;
    const bool active = warp < strips;
    const int steps = (other_count + STEP - 1) / STEP;
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * LOG2_E;
    const ft_chunk_lane<D> lane = ft_chunk_lane_of<D>();
    const ft_skew skew = ft_skew_of();

    // lse in powers of two and D of a query; past the last one they are not read
    auto lse_of = [&](int query) {
        return query < at.queries ? *a.lse.at(at.first_query + query, at.head) * LOG2_E : 0.0f;
    };
    auto delta_of = [&](int query) {
        return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + at.head] : 0.0f;
    };
    auto load_table = [&](int chunk, int place) {
        ft_load_table_chunks<D, OF_KEYS>(shared.own_table + place, shared.other_table + place, a.tables, chunk,
                                         1 - other_count, own_count - 1, column);
    };
    int table_place = STRIPS * CHUNK;
    auto load_step = [&](int k) {
        if (k >= steps) return;
        const int buffer = k % 2;
        load_table(newest - k, table_place);
        ft_load_chunk<D>(shared.other0 + buffer * CHUNK, a.other[0].at(other_row + k * STEP, column), a.other[0].stride,
                         other_count - k * STEP);
        ft_load_chunk<D>(shared.other1 + buffer * CHUNK, a.other[1].at(other_row + k * STEP, column), a.other[1].stride,
                         other_count - k * STEP);
        if (OF_KEYS && threadIdx.x < 2 * STEP) {
            const int query = k * STEP + int(threadIdx.x) % STEP;
            shared.queries[buffer * 2 * STEP + int(threadIdx.x)] = threadIdx.x < STEP ? lse_of(query) : delta_of(query);
        }
        ft_copy_async_commit();
        table_place = ft_chunk_ring<D, TABLE>::next(table_place);
    };

    __syncthreads(); // all have read what the item before left
    if (steps > 0) {
        for (int chunk = 1; chunk <= strips; chunk++)
            load_table(newest + chunk, (STRIPS - chunk) * CHUNK);
        for (int strip = 0; strip < strips; strip++)
            ft_load_chunk<D>(shared.own + strip * CHUNK, a.own[0].at(own_row + first + strip * STEP, column), a.own[0].stride,
                             own_count - first - strip * STEP);
        load_step(0);
    }
    const T *const own_shared = shared.own + warp * CHUNK, *const own_rows1 = a.own[1].at(own_row + mine, column);
    unsigned own0[KEEPS0 ? D / 16 : 1][4], own1[KEEPS1 ? D / 16 : 1][4];
    if (KEEPS1 && active)
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_left_of_rows<D>(own1[KEEPS1 ? c : 0], own_rows1, a.own[1].stride, own_count - mine, c * 16);
    auto left0 = [&](unsigned(&to)[4], int c) {
        if (KEEPS0)
#pragma unroll
            for (int q = 0; q < 4; q++)
                to[q] = own0[KEEPS0 ? c : 0][q];
        else
            ft_left<D>(to, own_shared, 0, c * 16);
    };
    auto left1 = [&](unsigned(&to)[4], int c) {
        if (KEEPS1)
#pragma unroll
            for (int q = 0; q < 4; q++)
                to[q] = own1[KEEPS1 ? c : 0][q];
        else
            ft_left_of_rows<D>(to, own_rows1, a.own[1].stride, own_count - mine, c * 16);
    };
    auto rows_of = [&](const T *chunk) { return [=](unsigned(&to)[4], int c) { ft_ldmatrix_x4(to, chunk + lane.rows + c * 16); }; };
    float own_lse[2] = {}, own_delta[2] = {};
    bool own_valid[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        own_valid[h] = mine + g + h * 8 < own_count;
        if (OF_KEYS) continue;
        own_lse[h] = lse_of(mine + g + h * 8);
        own_delta[h] = delta_of(mine + g + h * 8);
    }

    float result0[D / 8][4] = {}, result1[OF_KEYS ? D / 8 : 1][4] = {};
    ft_chunk_ring<D, TABLE> ring(warp);
    ft_row_words carry = {};
    ft_chunk_behind<D, KEEPS_BEHIND> behind;
    ft_band_carry band_carry = {};
    T *const my_bands = shared.bands + warp * BANDS * FT_BAND_ELEMENTS;
    // The band that dS of step k completes: to the gradient of the own rows, and to shared memory.
    auto add_band = [&](const unsigned (&ds)[2][2], int k) {
        unsigned band[4];
        ft_skew_band(band, skew, band_carry, ds);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            unsigned b[4];
            ft_ldmatrix_x4_transposed(b, shared.own_table + ring.before + lane.inner + n * 16);
            ft_mma<T>(result0[2 * n], band, b[0], b[1]);
            ft_mma<T>(result0[2 * n + 1], band, b[2], b[3]);
        }
        if (slab != nullptr) ft_store_band(my_bands + k % BANDS * FT_BAND_ELEMENTS, band);
    };
    if (steps > 0) { // what every step hands to the next one
        ft_copy_async_wait<0>();
        __syncthreads();
        if (active) {
            if (KEEPS0)
#pragma unroll
                for (int c = 0; c < D / 16; c++)
                    ft_left<D>(own0[KEEPS0 ? c : 0], own_shared, 0, c * 16);
            if (a.tables.own.data != nullptr)
                carry = ft_own_term<D, UNROLL, T>(a.tables.shrink, left0, rows_of(shared.own_table + ring.before));
            if (a.tables.other.data != nullptr) ft_load_behind(behind, shared.other_table + ring.before, lane);
        }
    }
    float *const slab_row = slab == nullptr ? nullptr : slab + int64_t(a.slabs.origin) * D;
    auto flush = [&](int first_chunk, int end) {
        ft_flush_bands<D, BANDS, flush_steps(D, OF_KEYS) / 2>(shared.own, shared.bands, slab_row, newest + strips, first_chunk, end, strips, steps);
    };
    int flushed = 0;
    for (int k = 0; k < steps; k++) {
        ft_copy_async_wait<0>();
        __syncthreads(); // what was loaded is there for all, and what was read before may be overwritten
        load_step(k + 1);
        if (active) {
            const T *const other0 = shared.other0 + k % 2 * CHUNK, *const other1 = shared.other1 + k % 2 * CHUNK;
            float p[2][4], ds[2][4] = {};
            ft_sweep_scores<D, UNROLL>(p, a.tables, shared.other_table + ring.now, shared.other_table + ring.before, lane, skew, carry, behind,
                                       behind, left0, rows_of(shared.own_table + ring.now), rows_of(other0));
#pragma unroll UNROLL
            for (int c = 0; c < D / 16; c++) {
                unsigned left[4], b[4];
                left1(left, c);
                ft_ldmatrix_x4(b, other1 + lane.rows + c * 16);
                ft_mma<T>(ds[0], left, b[0], b[1]);
                ft_mma<T>(ds[1], left, b[2], b[3]);
            }
            // Absent rows of either side have no part in a gradient: 2^-inf = 0. (Their products are with zeros, but an
            // infinite dS would be a NaN in the band.)
            if (mine + STEP > own_count || (k + 1) * STEP > other_count)
#pragma unroll
                for (int q = 0; q < 8; q++)
                    if (!own_valid[q % 4 / 2] || k * STEP + ft_spread_column(q / 4, q % 4) >= other_count)
                        p[q / 4][q % 4] = -INFINITY;
            const float *const tile_lse = shared.queries + k % 2 * 2 * STEP, *const tile_delta = tile_lse + STEP;
            auto finish = [&](int q, bool keep) { // p becomes P (for keys, of what was kept), ds dS
                const int n = q / 4, e = q % 4, there = ft_spread_column(n, e);
                const float probability = ft_exp2(fmaf(p[n][e], factor, -(OF_KEYS ? tile_lse[there] : own_lse[e / 2])));
                const float gradient = keep ? ds[n][e] : 0.0f;
                ds[n][e] = probability * fmaf(gradient, a.problem.keep_scale, -(OF_KEYS ? tile_delta[there] : own_delta[e / 2]));
                p[n][e] = keep ? probability : 0.0f;
            };
            if (filter.threshold != 0) {
                const ft_kept_16x16 kept = ft_kept_of_16x16<OF_KEYS, true>(filter, mine, k * STEP);
#pragma unroll
                for (int q = 0; q < 8; q++)
                    finish(q, ft_is_kept<OF_KEYS>(kept, q));
            } else {
#pragma unroll
                for (int q = 0; q < 8; q++)
                    finish(q, true);
            }
            unsigned left[4];
            ft_left_of<T>(left, ds[0], ds[1]);
            const unsigned words[2][2] = {{left[0], left[1]}, {left[2], left[3]}};
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                unsigned b[4];
                ft_ldmatrix_x4_transposed(b, other0 + lane.inner + n * 16);
                ft_mma<T>(result0[2 * n], left, b[0], b[1]);
                ft_mma<T>(result0[2 * n + 1], left, b[2], b[3]);
            }
            if constexpr (OF_KEYS) {
                ft_left_of<T>(left, p[0], p[1]);
#pragma unroll
                for (int n = 0; n < D / 16; n++) {
                    unsigned b[4];
                    ft_ldmatrix_x4_transposed(b, other1 + lane.inner + n * 16);
                    ft_mma<T>(result1[2 * n], left, b[0], b[1]);
                    ft_mma<T>(result1[2 * n + 1], left, b[2], b[3]);
                }
            }
            if (a.tables.own.data != nullptr) add_band(words, k);
        }
        ring.advance();
        if (slab != nullptr && k + 1 - flushed == flush_steps(D, OF_KEYS)) {
            __syncthreads();
            flush(flushed, k + 1);
            flushed = k + 1;
        }
    }
    if (steps > 0 && a.tables.own.data != nullptr) {
        const unsigned nothing[2][2] = {};
        if (active) add_band(nothing, steps);
        if (slab != nullptr) {
            __syncthreads();
            flush(flushed, steps + strips);
        }
    }
    if (!active) return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (!own_valid[h]) continue;
        const int64_t row = own_row + mine + g + h * 8;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const int place = column + n * 8 + t * 2;
            *reinterpret_cast<unsigned *>(a.result[0].at(row, place)) =
                ft_pack<T>(result0[n][h * 2] * a.problem.scale, result0[n][h * 2 + 1] * a.problem.scale);
            if constexpr (OF_KEYS)
                *reinterpret_cast<unsigned *>(a.result[1].at(row, place)) =
                    ft_pack<T>(result1[n][h * 2] * a.problem.keep_scale, result1[n][h * 2 + 1] * a.problem.keep_scale);
        }
    }
}

template <class T, int D, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(FT_SWEEP_THREADS, 2) disentangled_backward(ft_disentangled_pass<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    const pieces<T, D, OF_KEYS> shared(bytes);
    ft_sweep_items<D, OF_KEYS>(a, [&](const ft_attention_place &at, float *slab) { sweep_item<T, D, OF_KEYS>(a, shared, at, slab); });
}

template <class T, int D, bool OF_KEYS>
ft_status run_sweep(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta,
                    const ft_slabs &slabs, bool warpgroups) {
    const ft_attention_shape &shape = a.shape.attention;
    const ft_tensor &own0 = OF_KEYS ? a.k : a.q, &own1 = OF_KEYS ? a.v : a.dout;
    const ft_tensor &other0 = OF_KEYS ? a.q : a.k, &other1 = OF_KEYS ? a.dout : a.v;
    const ft_tensor &result0 = OF_KEYS ? a.dk : a.dq, &result1 = OF_KEYS ? a.dv : a.dq;
    const ft_tensor &own_table = OF_KEYS ? a.pos_query : a.pos_key, &other_table = OF_KEYS ? a.pos_key : a.pos_query;
    ft_disentangled_pass<T> arguments = {
        {ft_view_of<const T>(own0), ft_view_of<const T>(own1)},
        {ft_view_of<const T>(other0), ft_view_of<const T>(other1)},
        {ft_view_of<T>(result0), ft_view_of<T>(result1)},
        ft_view_of<const float>(a.lse),
        delta,
        ft_sweep_tables_of<T>(a.shape, own_table, other_table),
        slabs,
        ft_attention_problem_of(shape, OF_KEYS ? shape.max_keys : shape.max_queries, FT_SWEEP_ROWS),
        0};
    arguments.items = shape.sequences * arguments.problem.tiles;
    const int blocks = slabs.data != nullptr ? slabs.count : arguments.items;
    if (blocks == 0) return FT_OK;
    const dim3 grid(unsigned(blocks), unsigned(shape.heads));
    if constexpr (D == 64)
        if (warpgroups) return ft_disentangled_warpgroup_pass(device, arguments, OF_KEYS, grid);
    return ft_launch("disentangled_attention_backward", disentangled_backward<T, D, OF_KEYS>, grid, dim3(FT_SWEEP_THREADS), shared_bytes<D, OF_KEYS>(),
                     ft_stream(device), arguments);
}

template <class T, int D>
ft_status run_either(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta, bool of_keys,
                     const ft_slabs &slabs, bool warpgroups = false) {
    return of_keys ? run_sweep<T, D, true>(device, a, delta, slabs, warpgroups) : run_sweep<T, D, false>(device, a, delta, slabs, warpgroups);
}

template <class T>
ft_status run_head_dim(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta, bool of_keys,
                       const ft_slabs &slabs, bool warpgroups) {
    switch (a.shape.attention.head_dim) {
    case 32: return run_either<T, 32>(device, a, delta, of_keys, slabs);
    case 64: return run_either<T, 64>(device, a, delta, of_keys, slabs, warpgroups);
    case 96: return run_either<T, 96>(device, a, delta, of_keys, slabs);
    default: return run_either<T, 128>(device, a, delta, of_keys, slabs);
    }
}

// ---- the tables ----------------------------------------------------------------------------------------------------------

constexpr int SUM_THREADS = 64; // columns

// Adds the slabs to the rows of the slots. A block has the distances of one slot, which follow each other: it is the one
// that begins with the first of them. Slabs are added in order, distances within a slab as well.
FT_KERNEL void __launch_bounds__(SUM_THREADS)
    disentangled_table_sum(ft_view<float> gradient, ft_slabs slabs, ft_position_slots slots, int lowest, int highest,
                           int heads, int head_dim, float factor, int sign) {
    const int head = int(blockIdx.y), column = int(blockIdx.z) * SUM_THREADS + int(threadIdx.x);
    const int begin = lowest + int(blockIdx.x);
    const int64_t slot = slots.of(begin);
    if (column >= head_dim || (begin > lowest && slots.of(begin - 1) == slot)) return;
    int end = begin + 1;
    while (end <= highest && slots.of(end) == slot)
        end++;
    float sum = 0.0f;
    for (int s = 0; s < slabs.count; s++) {
        const float *const slab = slabs.of(s, head, heads, head_dim) + int64_t(slabs.origin) * head_dim + column;
        for (int delta = begin; delta < end; delta++)
            sum += slab[int64_t(sign * delta) * head_dim];
    }
    *gradient.at(slot, head * head_dim + column) += sum * factor;
}

ft_status sum_slabs(ft_device *device, const ft_disentangled_attention_backward_args &a, bool of_keys, const ft_slabs &slabs) {
    const ft_attention_shape &s = a.shape.attention;
    if (slabs.data == nullptr) return FT_OK;
    const int distances = s.max_queries + s.max_keys - 1, pieces = (s.head_dim + SUM_THREADS - 1) / SUM_THREADS;
    return ft_launch("disentangled_attention_backward", disentangled_table_sum,
                     dim3(unsigned(distances), unsigned(s.heads), unsigned(pieces)), dim3(SUM_THREADS), 0, ft_stream(device),
                     ft_view_of<float>(of_keys ? a.dpos_query : a.dpos_key), slabs, ft_position_slots_of(a.shape),
                     1 - int(s.max_keys), int(s.max_queries) - 1, int(s.heads), int(s.head_dim), s.scale, of_keys ? -1 : 1);
}

bool fits_tensor_cores(const ft_disentangled_attention_backward_args &a) {
    const ft_tensor views[] = {a.q, a.k, a.v, a.pos_key, a.pos_query, a.dout, a.dq, a.dk, a.dv};
    for (const ft_tensor &view : views)
        if (!ft_attention_is_aligned(view)) return false;
    return ft_attention_has_tensor_path(a.shape.attention, a.q.dtype);
}

ft_status run_pass(ft_device *device, const ft_disentangled_attention_backward_args &a, const float *delta, bool of_keys, bool warpgroups) {
    const ft_slabs slabs = ft_slabs_of(device, a, of_keys);
    if (!fits_tensor_cores(a))
        FT_TRY(ft_disentangled_plain_backward(device, a, delta, of_keys, slabs));
    else if (a.q.dtype == FT_F16)
        FT_TRY(run_head_dim<__half>(device, a, delta, of_keys, slabs, warpgroups));
    else
        FT_TRY(run_head_dim<__nv_bfloat16>(device, a, delta, of_keys, slabs, warpgroups));
    return sum_slabs(device, a, of_keys, slabs);
}

} // namespace

extern "C" ft_status ft_cuda_disentangled_attention_backward(ft_device *device,
                                                             const ft_disentangled_attention_backward_args *args) {
    const ft_disentangled_attention_backward_args &a = *args;
    const ft_attention_shape &shape = a.shape.attention;
    if (shape.sequences == 0 || (shape.max_queries == 0 && shape.max_keys == 0)) return FT_OK;
    float *const delta = static_cast<float *>(a.workspace.data);
    bool warpgroups = false;
    if (shape.head_dim == 64 && fits_tensor_cores(a))
        FT_TRY(ft_attention_takes_warpgroups(device, ft_cuda_of(device)->disentangled_warpgroups, &warpgroups));
    FT_TRY(ft_attention_delta(device, a.out, a.dout, shape.heads, shape.head_dim, delta));
    FT_TRY(run_pass(device, a, delta, false, warpgroups));
    return run_pass(device, a, delta, true, warpgroups);
}
