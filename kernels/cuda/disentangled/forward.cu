// forward.cu - disentangled attention on tensor cores: 64 queries a block, 16 a warp, which sweep over the keys
// as in sweep.h. Softmax in fp32, in powers of two, as in attention/softmax.h.
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/disentangled/warpgroup_forward.h"

namespace {

// Steps between two updates of the softmax; two groups of them are in shared memory. A head of 128 has room for one.
template <int D> FT_HOST_DEVICE constexpr int steps_at_once() { return D == 128 ? 1 : 2; }
template <int D> FT_HOST_DEVICE constexpr int table_chunks() { return ft_table_chunks(2 * steps_at_once<D>() - 1); }
template <int D> constexpr size_t shared_bytes() {
    return size_t(2 * table_chunks<D>() + 4 * steps_at_once<D>()) * ft_chunk_elements(D) * 2;
}

template <class T> struct forward_arguments {
    ft_view<const T> q, k, v;
    ft_view<T> out;
    ft_view<float> lse;
    ft_sweep_tables<T> tables;
    ft_attention_problem problem;
};

template <class T, int D>
FT_KERNEL void __launch_bounds__(FT_SWEEP_THREADS, 2) disentangled_forward(forward_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    constexpr int CHUNK = ft_chunk_elements(D), TABLE = table_chunks<D>(), AT_ONCE = steps_at_once<D>(), STEP = FT_CUDA_STRIP;
    constexpr bool KEEPS_BEHIND = D <= 64;
    T *const own_ring = reinterpret_cast<T *>(bytes), *const other_ring = own_ring + TABLE * CHUNK;
    T *const ring_k = other_ring + TABLE * CHUNK, *const ring_v = ring_k + 2 * AT_ONCE * CHUNK;
    const ft_attention_place at = ft_attention_place_of(a.problem);
    const int first = at.tile * FT_SWEEP_ROWS, column = at.head * D;
    if (first >= at.queries) return;
    const int warp = int(threadIdx.x) / FT_WARP, g = int(threadIdx.x) % FT_WARP / 4, t = int(threadIdx.x) % 4;
    const int mine = first + warp * STEP; // the strip
    const bool active = mine < at.queries;
    const int steps = (at.keys + STEP - 1) / STEP, groups = (steps + AT_ONCE - 1) / AT_ONCE;
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * FT_LOG2_E;
    const ft_chunk_lane<D> lane = ft_chunk_lane_of<D>();
    const ft_skew skew = ft_skew_of();

    auto load_table = [&](int chunk, int place) {
        ft_load_table_chunks<D, false>(own_ring + place, other_ring + place, a.tables, chunk, 1 - at.keys, at.queries - 1,
                                       column);
    };
    // Steps beyond the last one, that share a group with it, have zeros.
    int table_place = FT_SWEEP_STRIPS * CHUNK, step_place = 0;
    auto load_group = [&](int group) {
        for (int k = group * AT_ONCE; group < groups && k < (group + 1) * AT_ONCE; k++) {
            load_table(first / STEP - k, table_place);
            ft_load_chunk<D>(ring_k + step_place, a.k.at(at.first_key + (k < steps ? k * STEP : 0), column), a.k.stride,
                             at.keys - k * STEP);
            ft_load_chunk<D>(ring_v + step_place, a.v.at(at.first_key + (k < steps ? k * STEP : 0), column), a.v.stride,
                             at.keys - k * STEP);
            table_place = ft_chunk_ring<D, TABLE>::next(table_place);
            step_place = step_place + CHUNK == 2 * AT_ONCE * CHUNK ? 0 : step_place + CHUNK;
        }
        ft_copy_async_commit();
    };
    if (steps > 0)
        for (int chunk = 1; chunk <= FT_SWEEP_STRIPS; chunk++)
            load_table(first / STEP + chunk, (FT_SWEEP_STRIPS - chunk) * CHUNK);
    load_group(0);
    unsigned own[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        ft_left_of_rows<D>(own[c], a.q.at(at.first_query + (active ? mine : 0), column), a.q.stride, at.queries - mine, c * 16);
    auto left = [&](unsigned(&to)[4], int c) {
#pragma unroll
        for (int q = 0; q < 4; q++)
            to[q] = own[c][q];
    };

    auto rows_of = [&](const T *chunk) { return [=](unsigned(&to)[4], int c) { ft_ldmatrix_x4(to, chunk + lane.rows + c * 16); }; };

    float acc[D / 8][4] = {};
    ft_running_softmax softmax;
    ft_chunk_ring<D, TABLE> ring(warp);
    ft_row_words carry = {};
    ft_chunk_behind<D, KEEPS_BEHIND> behind;
    ft_copy_async_wait<0>();
    __syncthreads();
    if (active && groups > 0) { // what every step hands to the next one
        if (a.tables.own.data != nullptr)
            carry = ft_own_term<D, D / 16, T>(a.tables.shrink, left, rows_of(own_ring + ring.before));
        if (a.tables.other.data != nullptr) ft_load_behind(behind, other_ring + ring.before, lane);
    }
    int place = 0; // of the step's keys and values
    for (int group = 0; group < groups; group++) {
        ft_copy_async_wait<0>();
        __syncthreads(); // what was loaded is there for all, and what was read before may be overwritten
        load_group(group + 1);
        if (!active) continue;
        float s[AT_ONCE][2][4];
        const int base = group * AT_ONCE * STEP;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const T *const keys = ring_k + place + i * CHUNK;
            ft_sweep_scores<D, D / 16>(s[i], a.tables, other_ring + ring.now, other_ring + ring.before, lane, skew, carry, behind, behind, left,
                                       rows_of(own_ring + ring.now), rows_of(keys));
            ring.advance();
        }
        if (base + AT_ONCE * STEP > at.keys) // the last group, where it is not full
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
                for (int q = 0; q < 8; q++)
                    if (base + i * STEP + ft_spread_column(q / 4, q % 4) >= at.keys) s[i][q / 4][q % 4] = -INFINITY;
        ft_next_scores(softmax, reinterpret_cast<float(&)[AT_ONCE * 2][4]>(s), factor, [&](const float(&shrink)[2]) {
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[n][e] *= shrink[e / 2];
        });
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            unsigned p[4]; // (either way from the same numbers, which the compiler adds up later: changed in their place they would be copied)
            if (filter.threshold != 0) { // out of the product; the sum of the softmax has them
                const ft_kept_16x16 kept = ft_kept_of_16x16<false, true>(filter, mine, base + i * STEP);
                float left_in[2][4];
#pragma unroll
                for (int q = 0; q < 8; q++)
                    left_in[q / 4][q % 4] = ft_is_kept<false>(kept, q) ? s[i][q / 4][q % 4] : 0.0f;
                ft_left_of<T>(p, left_in[0], left_in[1]);
            } else {
                ft_left_of<T>(p, s[i][0], s[i][1]);
            }
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                unsigned b[4];
                ft_ldmatrix_x4_transposed(b, ring_v + place + i * CHUNK + lane.inner + n * 16);
                ft_mma<T>(acc[2 * n], p, b[0], b[1]);
                ft_mma<T>(acc[2 * n + 1], p, b[2], b[3]);
            }
        }
        place = place == 0 ? AT_ONCE * CHUNK : 0;
    }
    if (!active) return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = softmax.sum[h];
        total += __shfl_xor_sync(FT_ALL_LANES, total, 1);
        total += __shfl_xor_sync(FT_ALL_LANES, total, 2);
        const int query = mine + g + h * 8;
        if (query >= at.queries) continue;
        const int64_t row = at.first_query + query;
        const float inverse = at.keys > 0 ? a.problem.keep_scale / total : 0.0f;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *reinterpret_cast<unsigned *>(a.out.at(row, column + n * 8 + t * 2)) =
                ft_pack<T>(acc[n][h * 2] * inverse, acc[n][h * 2 + 1] * inverse);
        if (a.lse.data != nullptr && t == 0)
            *a.lse.at(row, at.head) = at.keys > 0 ? softmax.base2[h] * FT_LN_2 + logf(total) : -INFINITY;
    }
}

template <class T, int D> ft_status run(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    const ft_attention_shape &shape = a.shape.attention;
    const forward_arguments<T> arguments = {ft_view_of<const T>(a.q),
                                            ft_view_of<const T>(a.k),
                                            ft_view_of<const T>(a.v),
                                            ft_view_of<T>(a.out),
                                            ft_view_of<float>(a.lse),
                                            ft_sweep_tables_of<T>(a.shape, a.pos_key, a.pos_query),
                                            ft_attention_problem_of(shape, shape.max_queries, FT_SWEEP_ROWS)};
    return ft_launch("disentangled_attention_forward", disentangled_forward<T, D>,
                     ft_attention_grid(arguments.problem, shape.sequences), dim3(FT_SWEEP_THREADS), shared_bytes<D>(),
                     ft_stream(device), arguments);
}

template <class T> ft_status run_head_dim(ft_device *device, const ft_disentangled_attention_forward_args &a) {
    switch (a.shape.attention.head_dim) {
    case 32: return run<T, 32>(device, a);
    case 64: return run<T, 64>(device, a);
    case 96: return run<T, 96>(device, a);
    default: return run<T, 128>(device, a);
    }
}

} // namespace

extern "C" ft_status ft_cuda_disentangled_attention_forward(ft_device *device,
                                                            const ft_disentangled_attention_forward_args *args) {
    const ft_disentangled_attention_forward_args &a = *args;
    const ft_attention_shape &shape = a.shape.attention;
    if (shape.sequences == 0 || shape.max_queries == 0) return FT_OK;
    const bool aligned = ft_attention_is_aligned(a.q) && ft_attention_is_aligned(a.k) && ft_attention_is_aligned(a.v) &&
                         ft_attention_is_aligned(a.out) && ft_attention_is_aligned(a.pos_key) &&
                         ft_attention_is_aligned(a.pos_query);
    if (!aligned || !ft_attention_has_tensor_path(shape, a.q.dtype)) return ft_disentangled_plain_forward(device, a);
    bool warpgroups;
    FT_TRY(ft_attention_takes_warpgroups(device, ft_cuda_of(device)->disentangled_forward_warpgroups, &warpgroups));
    if (warpgroups && ft_disentangled_has_warpgroup_forward(a)) return ft_disentangled_warpgroup_forward(device, a);
    return a.q.dtype == FT_F16 ? run_head_dim<__half>(device, a) : run_head_dim<__nv_bfloat16>(device, a);
}
