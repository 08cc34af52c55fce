// warpgroup_backward.cu - the passes of backward.cu for heads of 64 on compute capability 9.0: the same sweep, but the
// four strips of a block are the rows of a warpgroup in every product whose right operand is the same for all of them:
// <dout, V>, what dS and P add to the gradients of own rows, and, four chunks at a time, what bands give to the own
// rows and to the slab. These read it from shared memory once for four warps, where mma.sync reads it once for each.
// Scores stay on mma.sync: every strip has distances of its own.
//
// A tile is two steps, 32 other rows, and brings two chunks of each table. Chunks are numbered as they come: number n
// is chunk newest + 4 - n, and the strip of warp w meets at step k chunk k + 4 - w and has the one before it behind. So
// the band that its dS completes is that of chunk k + 3 - w, and after steps 4q .. 4q + 3 all strips have passed group
// q, chunks 4q .. 4q + 3: a matrix of 64 own rows by 64 distances, beside a matrix of 64 rows of the own table. Of
// these there are three each: of the group that is multiplied, and of the two in which strips are.
//
// Other rows and the own table's lie as wgmma wants them (tile/wgmma.h), and within eight rows in the order of
// ft_spread: so columns of products are spread as skew.h has scores, and mma.sync reads the same tiles.
#include "kernels/cuda/attention/warpgroup.h"
#include "kernels/cuda/disentangled/bands.h"
#include "kernels/cuda/tile/exp2.h"

namespace {

[[maybe_unused]] constexpr float LOG2_E = 1.4426950408889634f;
constexpr int D = 64, STEP = FT_CUDA_STRIP, STRIPS = FT_SWEEP_STRIPS, CHUNK = ft_chunk_elements(D);
constexpr int STEPS = 2, OTHER = STEPS * STEP,
              OTHER_TILE = OTHER * FT_TENSOR_ROW; // of a tile of other rows, its rows and bytes
constexpr int GROUP = 4, GROUPS = 3,
              GROUP_TILE = GROUP * STEP * FT_TENSOR_ROW;      // chunks of a group, groups, bytes of their matrices
constexpr int OTHER_TABLE = ft_table_chunks(2 * STEPS - 1);   // chunks of the other table in shared memory
[[maybe_unused]] constexpr int WARP_ROWS = 8 * FT_TENSOR_ROW; // bytes of eight rows
static_assert(STRIPS * STEP == FT_GROUP_ROWS && GROUP == STRIPS && GROUP == 2 * STEPS);

// Where the pieces are in shared memory: two tiles of both other matrices, own rows, the own table's groups, bands; a
// ring of the other table's chunks; lse and delta of two tiles.
template <class T> struct pieces {
    unsigned char *others, *own, *own_table, *bands;
    T *other_table;
    float *queries;
    FT_METHOD explicit pieces(unsigned char *bytes) {
        others = bytes;
        own = others + 4 * OTHER_TILE;
        own_table = own + GROUP_TILE;
        bands = own_table + GROUPS * GROUP_TILE;
        other_table = reinterpret_cast<T *>(bands + GROUPS * GROUP_TILE);
        queries = reinterpret_cast<float *>(other_table + OTHER_TABLE * CHUNK);
    }
};
constexpr size_t SHARED =
    4 * OTHER_TILE + (1 + 2 * GROUPS) * GROUP_TILE + OTHER_TABLE * CHUNK * 2 + 4 * OTHER * sizeof(float);

template <class T, bool OF_KEYS>
FT_DEVICE void sweep_item(const ft_disentangled_pass<T> &a, const pieces<T> &shared, const ft_attention_place &at,
                          float *slab) {
    const int own_count = OF_KEYS ? at.keys : at.queries, other_count = OF_KEYS ? at.queries : at.keys;
    const int64_t own_row = OF_KEYS ? at.first_key : at.first_query,
                  other_row = OF_KEYS ? at.first_query : at.first_key;
    const int first = at.tile * FT_SWEEP_ROWS, column = at.head * D, newest = first / STEP;
    const int thread = int(threadIdx.x), warp = thread / FT_WARP, lane = thread % FT_WARP, g = lane / 4, t = lane % 4;
    const int mine = first + warp * STEP; // the strip
    const bool active = mine < own_count; // else it has its part in the warpgroup's products alone, with zeros
    const int steps = (other_count + OTHER - 1) / OTHER * STEPS; // of whole tiles
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * LOG2_E;
    const ft_chunk_lane<D> chunk_lane = ft_chunk_lane_of<D>();
    const ft_skew skew = ft_skew_of();
    const bool has_own_table = a.tables.own.data != nullptr;

    // lse in powers of two and D of a query; past the last one they are not read
    auto lse_of = [&](int query) {
        return query < at.queries ? *a.lse.at(at.first_query + query, at.head) * LOG2_E : 0.0f;
    };
    auto delta_of = [&](int query) {
        return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + at.head] : 0.0f;
    };
    auto group_of = [&](unsigned char *matrices, int chunk) { return matrices + chunk / GROUP % GROUPS * GROUP_TILE; };
    auto other_place = [&](int chunk) { return chunk % OTHER_TABLE * CHUNK; };
    auto tile_of = [&](int k, int matrix) { return shared.others + (k / STEPS % 2 * 2 + matrix) * OTHER_TILE; };
    auto queries_of = [&](int k) { return shared.queries + k / STEPS % 2 * 2 * OTHER; };

    // Of chunks n and n + 1, n even, a warp brings eight rows, and products may read those of the own table once they
    // were handed over. Distances that the sequence has not are taken for the nearest that it has.
    auto load_tables = [&](int n) {
        unsigned char *const own_rows =
            group_of(shared.own_table, n) + n % GROUP * STEP * FT_TENSOR_ROW + warp * WARP_ROWS;
        T *const other_rows = shared.other_table + other_place(n + warp / 2);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int place = i * 4 + lane / 8, unit = lane % 8, row = warp % 2 * 8 + ft_spread(place);
            int u = STEP * (newest + GROUP - n - warp / 2) - row;
            u = u < 1 - other_count ? 1 - other_count : u > own_count - 1 ? own_count - 1 : u;
            const int64_t slot = a.tables.slots.of(OF_KEYS ? -u : u);
            if (has_own_table)
                ft_copy_async16(own_rows + ft_tensor_place(place, unit), a.tables.own.at(slot, column + unit * 8));
            if (a.tables.other.data != nullptr)
                ft_copy_async16(other_rows + row * ft_tile_stride(D) + unit * 8,
                                a.tables.other.at(slot, column + unit * 8));
        }
    };
    auto tables_of_warp = [&](int n) {
        return group_of(shared.own_table, n) + n % GROUP * STEP * FT_TENSOR_ROW + warp * WARP_ROWS;
    };
    // Of a tile of others a warp brings 16 rows of one matrix, in four turns; those that are not there are zeros.
    // (Their addresses are nobody's.)
    const ft_view<const T> &from = a.other[warp / 2];
    const int first_other = warp % 2 * STEP + ft_spread(lane / 8);
    const T *rows = from.at(other_row + first_other, column + lane % 8 * 8);
    auto rows_of_warp = [&](int k) { return tile_of(k, warp / 2) + warp % 2 * 2 * WARP_ROWS; };
    auto load_tile = [&](int k) { // of the steps from k on, which follows the last one that was asked for
        if (k >= steps) return;
        load_tables(GROUP + k);
        unsigned char *const to = rows_of_warp(k);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int more = i / 2 * 8 + i % 2 * 2; // ft_spread(4 + x) is ft_spread(x) + 2
            ft_copy_async16_or_zero(to + ft_tensor_place(i * 4 + lane / 8, lane % 8), rows + more * from.stride,
                                    first_other + more + k * STEP < other_count);
        }
        rows += OTHER * from.stride;
        if (OF_KEYS && thread < 2 * OTHER) {
            const int query = k * STEP + thread % OTHER;
            queries_of(k)[thread] = thread < OTHER ? lse_of(query) : delta_of(query);
        }
        ft_copy_async_commit();
    };

    __syncthreads(); // all have read what the item before left
    // Bands that no step makes: of chunks in front of a strip's first one, and of a strip without rows.
    for (int group = 0; group < (active ? 1 : GROUPS); group++)
#pragma unroll
        for (int i = 0; i < 2 * WARP_ROWS / 16 / FT_WARP; i++)
            reinterpret_cast<uint4 *>(shared.bands + group * GROUP_TILE + warp * 2 * WARP_ROWS)[i * FT_WARP + lane] =
                make_uint4(0, 0, 0, 0);
    if (steps > 0) {
        load_tables(0);
        load_tables(2);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = mine + i * 4 + lane / 8;
            const bool there = row < own_count;
            ft_copy_async16_or_zero(shared.own + ft_tensor_place(warp * STEP + i * 4 + lane / 8, lane % 8),
                                    a.own[0].at(own_row + (there ? row : first), column + lane % 8 * 8), there);
        }
        load_tile(0);
    }
    unsigned own0[D / 16][4], own1[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        ft_left_of_rows<D>(own1[c], a.own[1].at(own_row + (active ? mine : 0), column), a.own[1].stride,
                           own_count - mine, c * 16);
    auto left0 = [&](unsigned(&to)[4], int c) {
#pragma unroll
        for (int q = 0; q < 4; q++)
            to[q] = own0[c][q];
    };
    // A lane's part of 16 rows of a tile, as a right operand by rows, whose columns are spread as they lie.
    const int right_place = ft_tensor_place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    auto right_of = [&](const unsigned char *tile) {
        return [=](unsigned(&to)[4], int c) { ft_ldmatrix_x4(to, tile + (right_place ^ c * 32)); };
    };
    auto own_right = [&](int chunk) {
        return right_of(group_of(shared.own_table, chunk) + chunk % GROUP * STEP * FT_TENSOR_ROW);
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
    ft_row_words carry = {};
    ft_chunk_behind<D, true> behind[2];
    ft_band_carry band_carry = {};
    auto store_band = [&](const unsigned(&band)[4], int chunk) {
        unsigned char *const to = group_of(shared.bands, chunk);
#pragma unroll
        for (int q = 0; q < 4; q++)
            *reinterpret_cast<unsigned *>(to + ft_tensor_place(warp * STEP + g + q % 2 * 8, chunk % GROUP * 2 + q / 2) +
                                          t * 4) = band[q];
    };
    auto bands_of_warp = [&](int group) { return shared.bands + group % GROUPS * GROUP_TILE + warp * 2 * WARP_ROWS; };
    if (steps > 0) { // what every step hands to the next one
        ft_copy_async_wait<0>();
        ft_async_fence(shared.own + warp * 2 * WARP_ROWS, 2 * WARP_ROWS, tables_of_warp(0),
                       has_own_table ? WARP_ROWS : 0, tables_of_warp(2), has_own_table ? WARP_ROWS : 0);
        __syncthreads();
        if (active) {
            ft_left_of_matrix<D>(own0, shared.own, GROUP_TILE, warp * STEP);
            if (has_own_table) carry = ft_own_term<D, D / 16, T>(a.tables.shrink, left0, own_right(GROUP - 1 - warp));
            if (a.tables.other.data != nullptr)
                ft_load_behind(behind[0], shared.other_table + other_place(GROUP - 1 - warp), chunk_lane);
        }
    }
    // What a group's bands give: with the own table to the own rows, and, transposed, with the own rows to the slab, of
    // which a warp has a chunk. Row o of chunk a is u = 16 a - o; of the sums, rows are spread.
    const int last_chunk = (other_count + STEP - 1) / STEP + 3;
    auto multiply_bands = [&](int group) {
        const unsigned char *const bands = shared.bands + group % GROUPS * GROUP_TILE, *const table =
                                                                                           shared.own_table +
                                                                                           group % GROUPS * GROUP_TILE;
        const int n = group * GROUP + warp;
        const bool has_chunk = slab != nullptr && n <= last_chunk &&
                               first + STEP * (GROUP - 1 - n) < own_count; // some pair has one of its distances
        const int64_t to = (int64_t(a.slabs.origin) + (newest + GROUP - n) * STEP - ft_spread(g)) * D + t * 2;
        float sums[D / 8][4] = {};
        if (has_chunk)
#pragma unroll
            for (int i = 0; i < D / 8; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 before = *reinterpret_cast<const float2 *>(slab + to - h * 8 * D + i * 8);
                    sums[i][2 * h] = before.x;
                    sums[i][2 * h + 1] = before.y;
                }
        ft_wgmma_fence(result0);
#pragma unroll
        for (int c = 0; c < 4; c++)
            ft_wgmma_of_tiles<T, false, true>(result0, ft_wgmma_rows(bands, GROUP_TILE, c),
                                              ft_wgmma_columns(table, GROUP_TILE, c), true);
        ft_wgmma_commit();
        ft_wgmma_fence(sums);
#pragma unroll
        for (int c = 0; c < 4; c++)
            ft_wgmma_of_tiles<T, true, true>(sums, ft_wgmma_columns(bands, GROUP_TILE, c),
                                             ft_wgmma_columns(shared.own, GROUP_TILE, c), true);
        ft_wgmma_commit();
        ft_wgmma_wait<0>(result0);
        ft_wgmma_wait<0>(sums);
        if (has_chunk)
#pragma unroll
            for (int i = 0; i < D / 8; i++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *reinterpret_cast<float2 *>(slab + to - h * 8 * D + i * 8) =
                        make_float2(sums[i][2 * h], sums[i][2 * h + 1]);
    };
#pragma unroll 1
    for (int k = 0; k < steps; k += STEPS) {
        const bool passed = has_own_table && k > 0 && k % GROUP == 0; // a group by all strips
        ft_copy_async_wait<0>();
        ft_async_fence(rows_of_warp(k), 2 * WARP_ROWS, tables_of_warp(GROUP + k), has_own_table ? WARP_ROWS : 0,
                       bands_of_warp(k / GROUP + GROUPS - 1), passed ? 2 * WARP_ROWS : 0);
        __syncthreads(); // what was loaded is there for all, and what was read before may be overwritten
        load_tile(k + STEPS);
        if (passed) multiply_bands(k / GROUP - 1);
        const unsigned char *const other0 = tile_of(k, 0), *const other1 = tile_of(k, 1);
        float ds[OTHER / 8][4];
        ft_wgmma_hold(own1);
        ft_wgmma_fence_new(ds);
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_wgmma<T, OTHER, false>(ds, own1[c], ft_wgmma_rows(other1, OTHER_TILE, c), c > 0);
        ft_wgmma_commit();
        unsigned left_ds[STEPS][4] = {}, left_p[OF_KEYS ? STEPS : 1][4] = {};
        float p[2][4];
        auto scores = [&](int i) {
            const int chunk = k + i + GROUP - warp;
            ft_sweep_scores<D, D / 16>(p, a.tables, shared.other_table + other_place(chunk), shared.other_table,
                                       chunk_lane, skew, carry, behind[i], behind[1 - i], left0, own_right(chunk),
                                       right_of(other0 + i * STEP * FT_TENSOR_ROW));
        };
        auto finish_step = [&](int i) {
            // Absent rows of either side have no part in a gradient: 2^-inf = 0. (Their products are with zeros, but an
            // infinite dS would be a NaN in the band.)
            const int base = (k + i) * STEP;
            if (mine + STEP > own_count || base + STEP > other_count)
#pragma unroll
                for (int q = 0; q < 8; q++)
                    if (!own_valid[q % 4 / 2] || base + ft_spread_column(q / 4, q % 4) >= other_count)
                        p[q / 4][q % 4] = -INFINITY;
            const float *const tile_lse = queries_of(k) + i * STEP, *const tile_delta = tile_lse + OTHER;
            auto finish = [&](int q, bool keep) { // p becomes P (for keys, of what was kept), ds dS
                const int n = q / 4, e = q % 4, there = ft_spread_column(n, e);
                float &d = ds[2 * i + n][e];
                const float probability = ft_exp2(fmaf(p[n][e], factor, -(OF_KEYS ? tile_lse[there] : own_lse[e / 2])));
                const float gradient = keep ? d : 0.0f;
                d = probability *
                    fmaf(gradient, a.problem.keep_scale, -(OF_KEYS ? tile_delta[there] : own_delta[e / 2]));
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
            if (!has_own_table) return;
            const unsigned words[2][2] = {{left_ds[i][0], left_ds[i][1]}, {left_ds[i][2], left_ds[i][3]}};
            unsigned band[4];
            ft_skew_band(band, skew, band_carry, words);
            store_band(band, k + i + GROUP - 1 - warp);
        };
        if (active) scores(0);
        ft_wgmma_wait<0>(ds);
        ft_wgmma_hold(own1);
        if (active) {
            finish_step(0);
            scores(1);
            finish_step(1);
        }
        ft_wgmma_hold(left_ds);
        ft_wgmma_fence(result0);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            ft_wgmma<T, D, true>(result0, left_ds[i], ft_wgmma_columns(other0, OTHER_TILE, i), true);
        if constexpr (OF_KEYS) {
            ft_wgmma_hold(left_p);
            ft_wgmma_fence(result1);
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                ft_wgmma<T, D, true>(result1, left_p[i], ft_wgmma_columns(other1, OTHER_TILE, i), true);
        }
        ft_wgmma_commit();
        ft_wgmma_wait<0>(result0);
        if constexpr (OF_KEYS) ft_wgmma_wait<0>(result1);
        ft_wgmma_hold(left_ds);
        if constexpr (OF_KEYS) ft_wgmma_hold(left_p);
    }
    if (steps > 0 && has_own_table) { // two groups are left, of whose last chunks strips have passed none
        const int group = (steps - 1) / GROUP, end = (group + 2) * GROUP;
        for (int n = steps + GROUP; n < end; n += 2)
            load_tables(n);
        ft_copy_async_commit();
        ft_copy_async_wait<0>();
        if (active) {
            const unsigned nothing[2][2] = {}, zeros[4] = {};
            unsigned band[4];
            ft_skew_band(band, skew, band_carry, nothing);
            store_band(band, steps + GROUP - 1 - warp);
            for (int n = steps + GROUP - warp; n < end; n++)
                store_band(zeros, n);
        }
        ft_async_fence(bands_of_warp(group), 2 * WARP_ROWS, bands_of_warp(group + 1), 2 * WARP_ROWS,
                       tables_of_warp(end - 2), steps + GROUP < end ? WARP_ROWS : 0);
        __syncthreads();
        multiply_bands(group);
        multiply_bands(group + 1);
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

template <class T, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(FT_SWEEP_THREADS, 2) disentangled_warpgroup_backward(ft_disentangled_pass<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const pieces<T> shared(bytes);
    ft_sweep_items<D, OF_KEYS>(
        a, [&](const ft_attention_place &at, float *slab) { sweep_item<T, OF_KEYS>(a, shared, at, slab); });
#else
    __trap(); // ft_attention_takes_warpgroups does not let it come to this
#endif
}

template <class T> ft_status run(ft_device *device, const ft_disentangled_pass<T> &pass, bool of_keys, dim3 grid) {
    const auto launch = [&](auto kernel) {
        return ft_launch("disentangled_warpgroup_backward", kernel, grid, dim3(FT_SWEEP_THREADS), SHARED,
                         ft_stream(device), pass);
    };
    return of_keys ? launch(disentangled_warpgroup_backward<T, true>)
                   : launch(disentangled_warpgroup_backward<T, false>);
}

} // namespace

ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__half> &pass, bool of_keys,
                                         dim3 grid) {
    return run(device, pass, of_keys, grid);
}
ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__nv_bfloat16> &pass,
                                         bool of_keys, dim3 grid) {
    return run(device, pass, of_keys, grid);
}
