// warpgroup_backward.cu - the passes of backward.cu for heads of 64 on compute capability 9.0: the same sweep, but the four strips of a
// block are the rows of a warpgroup where a product has the same other rows for all of them: <dout, V>, and what dS and P add to the
// gradients of own rows. These read the other rows from shared memory once for four warps, where mma.sync reads them once for each.
// Products with tables differ from strip to strip, for a strip's distances do, and stay on mma.sync.
//
// Other rows come in tiles of two steps, as wgmma wants them (tile/wgmma.h), and within eight rows in the order of ft_spread: so
// a product's columns are spread as skew.h has scores, and mma.sync reads the same tile.
#include "kernels/cuda/disentangled/bands.h"
#include "kernels/cuda/tile/exp2.h"
#include "kernels/cuda/tile/wgmma.h"

namespace {

constexpr float LOG2_E = 1.4426950408889634f;
constexpr int D = 64, STEP = FT_CUDA_STRIP, STRIPS = FT_SWEEP_STRIPS, CHUNK = ft_chunk_elements(D);
constexpr int STEPS = 2, OTHER = STEPS * STEP, TILE = OTHER * FT_TENSOR_ROW; // of a tile of other rows, its rows and bytes
constexpr int TABLE = ft_table_chunks(2 * STEPS - 1);                        // chunks of a table in shared memory
static_assert(STRIPS * STEP == 64, "a block's rows are a warpgroup's");
// As in backward.cu.
FT_HOST_DEVICE constexpr int flush_steps(bool of_keys) { return of_keys ? 4 : 8; }
FT_HOST_DEVICE constexpr int strip_bands(bool of_keys) { return of_keys ? STRIPS + 4 : 16; }
static_assert(flush_steps(true) % STEPS == 0 && flush_steps(false) % STEPS == 0, "visits to the slab are between tiles");

// Where the pieces are in shared memory: two tiles of both other matrices, rings of both tables, own rows, bands, and lse and delta of
// two tiles.
template <class T, bool OF_KEYS> struct pieces {
    unsigned char *others;
    T *own_table, *other_table, *own, *bands;
    float *queries;
    FT_METHOD explicit pieces(unsigned char *bytes) {
        others = bytes;
        own_table = reinterpret_cast<T *>(others + 4 * TILE);
        other_table = own_table + TABLE * CHUNK;
        own = other_table + TABLE * CHUNK;
        bands = own + STRIPS * CHUNK;
        queries = reinterpret_cast<float *>(bands + STRIPS * strip_bands(OF_KEYS) * FT_BAND_ELEMENTS);
    }
};
template <bool OF_KEYS> constexpr size_t shared_bytes() {
    return 4 * TILE + size_t((2 * TABLE + STRIPS) * CHUNK + STRIPS * strip_bands(OF_KEYS) * FT_BAND_ELEMENTS) * 2 + 4 * OTHER * sizeof(float);
}

// A warp's eight rows of a tile, begun: the first of the tile is `rows`, of which `valid` are there, the others are zeros.
template <class T> FT_DEVICE void load_rows(unsigned char *tile, const T *rows, int64_t stride, int valid) {
    const int lane = int(threadIdx.x) % FT_WARP, first = int(threadIdx.x) / FT_WARP * 8;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int place = i * 4 + lane / 8, unit = lane % 8, row = first + ft_spread(place);
        const bool there = row < valid;
        ft_copy_async16_or_zero(tile + ft_tensor_place(first + place, unit), rows + (there ? row * stride : 0) + unit * 8, there);
    }
}
// They have come, and products may read them behind the next barrier of the block.
FT_DEVICE void hand_over_rows(const unsigned char *tile) { ft_async_fence(tile + int(threadIdx.x) / FT_WARP * 8 * FT_TENSOR_ROW, 8 * FT_TENSOR_ROW); }

template <class T, bool OF_KEYS>
FT_DEVICE void sweep_item(const ft_disentangled_pass<T> &a, const pieces<T, OF_KEYS> &shared, const ft_attention_place &at, float *slab) {
    constexpr int BANDS = strip_bands(OF_KEYS);
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query, other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * FT_SWEEP_ROWS, column = at.head * D, newest = first / STEP;
    const int warp = int(threadIdx.x) / FT_WARP, g = int(threadIdx.x) % FT_WARP / 4, t = int(threadIdx.x) % 4;
    const int mine = first + warp * STEP; // the strip
    const int left_over = (own_count - first + STEP - 1) / STEP, strips = left_over < STRIPS ? left_over : STRIPS;
    const bool active = warp < strips; // else it has its part in the warpgroup's products alone, with zeros
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
    auto tile_of = [&](int k, int matrix) { return shared.others + (k / STEPS % 2 * 2 + matrix) * TILE; };
    auto queries_of = [&](int k) { return shared.queries + k / STEPS % 2 * 2 * OTHER; };
    int table_place = STRIPS * CHUNK;
    auto load_tile = [&](int k) { // of the steps from k on
        if (k >= steps) return;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            load_table(newest - k - i, table_place);
            table_place = ft_chunk_ring<D, TABLE>::next(table_place);
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
            load_rows(tile_of(k, m), a.other[m].at(other_row + k * STEP, column), a.other[m].stride, other_count - k * STEP);
        if (OF_KEYS && threadIdx.x < 2 * OTHER) {
            const int query = k * STEP + int(threadIdx.x) % OTHER;
            queries_of(k)[threadIdx.x] = threadIdx.x < OTHER ? lse_of(query) : delta_of(query);
        }
        ft_copy_async_commit();
    };

    __syncthreads(); // all have read what the item before left
    if (steps > 0) {
        for (int chunk = 1; chunk <= strips; chunk++)
            load_table(newest + chunk, (STRIPS - chunk) * CHUNK);
        for (int strip = 0; strip < strips; strip++)
            ft_load_chunk<D>(shared.own + strip * CHUNK, a.own[0].at(own_row + first + strip * STEP, column), a.own[0].stride,
                             own_count - first - strip * STEP);
        load_tile(0);
    }
    unsigned own0[D / 16][4], own1[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        ft_left_of_rows<D>(own1[c], a.own[1].at(own_row + (active ? mine : 0), column), a.own[1].stride, own_count - mine, c * 16);
    auto left0 = [&](unsigned(&to)[4], int c) {
#pragma unroll
        for (int q = 0; q < 4; q++)
            to[q] = own0[c][q];
    };
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
    unsigned left_ds[STEPS][4] = {}, left_p[OF_KEYS ? STEPS : 1][4] = {};
    ft_chunk_ring<D, TABLE> ring(warp);
    ft_row_words carry = {};
    ft_chunk_behind<D, true> behind;
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
#pragma unroll
            for (int c = 0; c < D / 16; c++)
                ft_left<D>(own0[c], shared.own + warp * CHUNK, 0, c * 16);
            if (a.tables.own.data != nullptr)
                carry = ft_own_term<D, D / 16>(shared.own_table + ring.before, lane.rows, a.tables.shrink, left0);
            if (a.tables.other.data != nullptr) ft_load_behind(behind, shared.other_table + ring.before, lane);
        }
    }
    float *const slab_row = slab == nullptr ? nullptr : slab + int64_t(a.slabs.origin) * D;
    auto flush = [&](int first_chunk, int end) {
        ft_flush_bands<D, BANDS, flush_steps(OF_KEYS) / 2>(shared.own, shared.bands, slab_row, newest + strips, first_chunk, end, strips, steps);
    };
    // What a tile's products read and add to is whose again.
    auto wait_for_sums = [&] {
        ft_wgmma_wait<0>(result0);
        if constexpr (OF_KEYS) ft_wgmma_wait<0>(result1);
        ft_wgmma_hold(left_ds);
        if constexpr (OF_KEYS) ft_wgmma_hold(left_p);
    };
    // A lane's part of 16 other rows of a tile, as a right operand by rows, whose columns are spread as they lie.
    const int right_place = ft_tensor_place((int(threadIdx.x) / 16 % 2) * 8 + int(threadIdx.x) % 8, int(threadIdx.x) / 8 % 2);
    int flushed = 0;
#pragma unroll 1
    for (int k = 0; k < steps; k += STEPS) {
        ft_copy_async_wait<0>();
#pragma unroll
        for (int m = 0; m < 2; m++)
            hand_over_rows(tile_of(k, m));
        __syncthreads(); // what was loaded is there for all, and what was read before may be overwritten
        load_tile(k + STEPS);
        const unsigned char *const other0 = tile_of(k, 0), *const other1 = tile_of(k, 1);
        float ds[OTHER / 8][4];
        ft_wgmma_hold(own1);
        ft_wgmma_fence_new(ds);
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_wgmma<T, OTHER, false>(ds, own1[c], ft_wgmma_rows(other1, TILE, c), c > 0);
        ft_wgmma_commit();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const bool here = active && k + i < steps;
            float p[2][4];
            if (here)
                ft_sweep_scores<D, D / 16>(p, a.tables, shared.own_table + ring.now, shared.other_table + ring.now,
                                           shared.other_table + ring.before, lane, skew, carry, behind, left0, [&](unsigned(&to)[4], int c) {
                                               ft_ldmatrix_x4(to, other0 + i * STEP * FT_TENSOR_ROW + (right_place ^ c * 32));
                                           });
            if (i == 0) {
                ft_wgmma_wait<0>(ds);
                ft_wgmma_hold(own1);
            }
            if (here) {
                // Absent rows of either side have no part in a gradient: 2^-inf = 0. (Their products are with zeros, but an
                // infinite dS would be a NaN in the band.)
                const int base = (k + i) * STEP;
                if (mine + STEP > own_count || base + STEP > other_count)
#pragma unroll
                    for (int q = 0; q < 8; q++)
                        if (!own_valid[q % 4 / 2] || base + ft_spread_column(q / 4, q % 4) >= other_count) p[q / 4][q % 4] = -INFINITY;
                const float *const tile_lse = queries_of(k) + i * STEP, *const tile_delta = tile_lse + OTHER;
                auto finish = [&](int q, bool keep) { // p becomes P (for keys, of what was kept), ds dS
                    const int n = q / 4, e = q % 4, there = ft_spread_column(n, e);
                    float &d = ds[2 * i + n][e];
                    const float probability = ft_exp2(fmaf(p[n][e], factor, -(OF_KEYS ? tile_lse[there] : own_lse[e / 2])));
                    const float gradient = keep ? d : 0.0f;
                    d = probability * fmaf(gradient, a.problem.keep_scale, -(OF_KEYS ? tile_delta[there] : own_delta[e / 2]));
                    p[n][e] = keep ? probability : 0.0f;
                };
                if (filter.threshold != 0) {
                    const ft_kept_16x16 kept = ft_kept_of_16x16<OF_KEYS, true>(filter, mine, base);
#pragma unroll
                    for (int q = 0; q < 8; q++)
                        finish(q, ft_is_kept<OF_KEYS>(kept, q));
                } else {
#pragma unroll
                    for (int q = 0; q < 8; q++)
                        finish(q, true);
                }
                ft_left_of<T>(left_ds[i], ds[2 * i], ds[2 * i + 1]);
                if constexpr (OF_KEYS) ft_left_of<T>(left_p[i], p[0], p[1]);
                const unsigned words[2][2] = {{left_ds[i][0], left_ds[i][1]}, {left_ds[i][2], left_ds[i][3]}};
                if (a.tables.own.data != nullptr) add_band(words, k + i);
                ring.advance();
            } else {
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    left_ds[i][q] = 0;
                    if constexpr (OF_KEYS) left_p[i][q] = 0;
                }
            }
        }
        ft_wgmma_hold(left_ds);
        ft_wgmma_fence(result0);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            ft_wgmma<T, D, true>(result0, left_ds[i], ft_wgmma_columns(other0, TILE, i), true);
        if constexpr (OF_KEYS) {
            ft_wgmma_hold(left_p);
            ft_wgmma_fence(result1);
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                ft_wgmma<T, D, true>(result1, left_p[i], ft_wgmma_columns(other1, TILE, i), true);
        }
        ft_wgmma_commit();
        wait_for_sums();
        if (slab != nullptr && k + STEPS - flushed == flush_steps(OF_KEYS) && k + STEPS <= steps) {
            __syncthreads();
            flush(flushed, k + STEPS);
            flushed = k + STEPS;
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

template <class T, bool OF_KEYS> FT_KERNEL void __launch_bounds__(FT_SWEEP_THREADS, 2) disentangled_warpgroup_backward(ft_disentangled_pass<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const pieces<T, OF_KEYS> shared(bytes);
    ft_sweep_items<D, OF_KEYS>(a, [&](const ft_attention_place &at, float *slab) { sweep_item<T, OF_KEYS>(a, shared, at, slab); });
#else
    __trap(); // ft_attention_takes_warpgroups does not let it come to this
#endif
}

template <class T> ft_status run(ft_device *device, const ft_disentangled_pass<T> &pass, bool of_keys, dim3 grid) {
    const auto launch = [&](auto kernel, size_t shared) {
        return ft_launch("disentangled_warpgroup_backward", kernel, grid, dim3(FT_SWEEP_THREADS), shared, ft_stream(device), pass);
    };
    return of_keys ? launch(disentangled_warpgroup_backward<T, true>, shared_bytes<true>())
                   : launch(disentangled_warpgroup_backward<T, false>, shared_bytes<false>());
}

} // namespace

ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__half> &pass, bool of_keys, dim3 grid) {
    return run(device, pass, of_keys, grid);
}
ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__nv_bfloat16> &pass, bool of_keys, dim3 grid) {
    return run(device, pass, of_keys, grid);
}
