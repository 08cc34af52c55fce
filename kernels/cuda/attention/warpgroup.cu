// warpgroup.cu - streaming attention forward on the instructions of sm_90a alone: a block has 128 queries of a head. One warp
// asks the copy engine for tiles of keys and values, three buffers each; two warpgroups of 64 queries make products of them. While
// the tensor cores multiply the values of a tile, the softmax of the next one is at work; and the two groups ask for products in
// turns, so that one's softmax is at work beside the other's products (`turns` below).
// BANDED below: there is a window, or causality, or heads share keys. Tiles of keys that the block sees none of are not brought, each of its
// warpgroups multiplies those that its own queries see some of, and a warp masks those that they see not all of. These are instances of
// their own, so that the others stay as short as they were.
// Same results as forward.cu as far as sums in another order allow, same dropout, bit by bit the same from run to run.
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/attention/warpgroup.h"

#include <stdlib.h>

namespace {

constexpr int ROWS = FT_GROUPS_ROWS, BUFFERS = 3; // of keys, and of values (paths.md: why a third, and no fourth)

// A block has a multiprocessor for itself, as its registers fill one: of 227 KiB it takes 112, 224, and 128 in bands of heads of 128, whose
// edges are cut finer by tiles of 64 keys.
template <int D, bool BANDED> struct plan {
    static constexpr int KEYS = D == 128 && BANDED ? 64 : 128, TILES = D / FT_TENSOR_COLUMNS;
    static constexpr int QUERY_TILE = ROWS * FT_TENSOR_ROW, KEY_TILE = KEYS * FT_TENSOR_ROW; // bytes of 64 columns
    static constexpr int QUERY_BYTES = TILES * QUERY_TILE, BUFFER = TILES * KEY_TILE;
    static constexpr int BARRIERS_AT = QUERY_BYTES + 2 * BUFFERS * BUFFER;
    static constexpr size_t SHARED = BARRIERS_AT + 128;
    static_assert(SHARED <= 227 * 1024, "what a block of compute capability 9.0 may have");
};

// What those who copy and those who multiply tell each other.
struct signals {
    ft_mbarrier queries, keys[BUFFERS], values[BUFFERS]; // have come
    ft_mbarrier last_values;                             // have come, with rows of the next sequence behind
    ft_mbarrier keys_free[BUFFERS], values_free[BUFFERS];
    ft_mbarrier turns[FT_GROUPS]; // a group may ask for the products of a tile
};
static_assert(sizeof(signals) <= 128, "room for them");

// Where the tiles of keys, one after the other, and their values lie, and of which parity a buffer's phase is that has them.
struct tile_place {
    int buffer;
    unsigned parity;
};
[[maybe_unused]] FT_DEVICE tile_place behind(tile_place at) {
    return at.buffer + 1 < BUFFERS ? tile_place{at.buffer + 1, at.parity} : tile_place{0, at.parity ^ 1};
}

template <int D> FT_DEVICE void copy_tiles(unsigned char *to, const ft_cu_tensor_map &map, int tile_bytes, int column, int row,
                                           ft_mbarrier *arrives) {
    ft_mbarrier_arrive_expect(arrives, unsigned(D / FT_TENSOR_COLUMNS * tile_bytes));
    ft_copy_matrix<D>(to, map, tile_bytes, column, row, arrives);
}

// Keys that `rows` queries from `first` on see, from the beginning of a tile on.
template <int D, bool BANDED>
FT_DEVICE ft_attention_span keys_of(const ft_attention_problem &problem, const ft_attention_place &at, int first, int rows) {
    if (!BANDED) return {0, at.keys};
    return ft_attention_span_of<plan<D, BANDED>::KEYS, false>(problem, first, at.queries - first < rows ? at.queries - first : rows, at.keys);
}

// One warp brings the tiles of a span, whose columns of keys and values begin at `key_column`. Its first lane alone waits for room: others might
// come when that phase is over, and wait for the next of its parity.
template <int D, bool BANDED>
FT_DEVICE void bring(unsigned char *bytes, signals *signal, const ft_cu_tensor_map &q, const ft_cu_tensor_map &k, const ft_cu_tensor_map &v,
                     const ft_attention_place &at, int first, const ft_attention_span &span, int key_column) {
    using p = plan<D, BANDED>;
    const int lane = int(threadIdx.x) % FT_WARP;
    unsigned char *const tiles_k = bytes + p::QUERY_BYTES, *const tiles_v = tiles_k + BUFFERS * p::BUFFER;
    if (lane == 0) copy_tiles<D>(bytes, q, p::QUERY_TILE, at.head * D, at.first_query + first, &signal->queries);
    tile_place tile = {0, 0};
    for (int base = span.first; base < span.end; base += p::KEYS, tile = behind(tile)) {
        const int buffer = tile.buffer, rows = at.keys - base, row = at.first_key + base;
        const bool whole = rows >= p::KEYS;
        if (lane == 0) {
            ft_mbarrier_wait(signal->keys_free + buffer, tile.parity ^ 1);
            copy_tiles<D>(tiles_k + buffer * p::BUFFER, k, p::KEY_TILE, key_column, row, signal->keys + buffer);
            ft_mbarrier_wait(signal->values_free + buffer, tile.parity ^ 1);
            copy_tiles<D>(tiles_v + buffer * p::BUFFER, v, p::KEY_TILE, key_column, row, whole ? signal->values + buffer : &signal->last_values);
        }
        if (whole) continue;
        __syncwarp(); // (scores of keys that are not there are masked)
        ft_wait_together(&signal->last_values, 0);
        ft_zero_rows<D>(tiles_v + buffer * p::BUFFER, p::KEY_TILE, rows, p::KEYS);
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(signal->values + buffer);
    }
}

// The scores of a tile of keys, begun; and what the probabilities of a tile add to the sums.
template <class T, int D, int KEYS>
FT_DEVICE void begin_scores(float (&s)[KEYS / 8][4], unsigned (&left)[D / 16][4], const unsigned char *keys) {
    ft_wgmma_hold(left);
    ft_wgmma_fence(s);
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        ft_wgmma<T, KEYS, false>(s, left[c], ft_wgmma_rows(keys, KEYS * FT_TENSOR_ROW, c), c > 0);
    ft_wgmma_commit();
}
template <class T, int D, int KEYS>
FT_DEVICE void begin_sums(float (&sums)[D / 8][4], unsigned (&left)[KEYS / 16][4], const unsigned char *values) {
    ft_wgmma_hold(left);
    ft_wgmma_fence(sums);
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++)
        ft_wgmma<T, D, true>(sums, left[c], ft_wgmma_columns(values, KEYS * FT_TENSOR_ROW, c), true);
    ft_wgmma_commit();
}

// Scores to probabilities relative to the largest so far; of the tile that begins at key `base`, for the warp's queries from `row` on.
template <bool BANDED, int N, class Shrink>
FT_DEVICE void mask_and_exponentiate(ft_running_softmax &softmax, float (&s)[N][4], float factor, const ft_attention_problem &problem, int keys,
                                     int row, int base, Shrink shrink_sums) {
    bool partly = keys - base < N * 8; // the last tile, where it is not full, and those at the edges of what is seen
    if (BANDED) partly = partly || !ft_attention_reaches_all<false>(problem, row, 16, base, N * 8);
    if (partly) {
        const int t = int(threadIdx.x) % 4 * 2, g = int(threadIdx.x) % FT_WARP / 4;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = n * 8 + t + e % 2; // of the tile
                if (key >= keys - base || (BANDED && !ft_attention_sees(problem, row - base + g + e / 2 * 8, key))) s[n][e] = -INFINITY;
            }
    }
    ft_next_scores<BANDED>(softmax, s, factor, shrink_sums);
}
// Out of the product; the sum of the softmax has them.
template <int N> FT_DEVICE void drop(float (&s)[N][4], const ft_score_filter &filter, int row, int column) {
    if (filter.threshold == 0) return;
#pragma unroll
    for (int c = 0; c < N / 2; c++) {
        const ft_kept_16x16 kept = ft_kept_of_16x16<false>(filter, row, column + c * 16);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (!ft_is_kept<false>(kept, e)) s[2 * c][e] = 0.0f;
            if (!ft_is_kept<false>(kept, 4 + e)) s[2 * c + 1][e] = 0.0f;
        }
    }
}

// Turns. A group asks for the products of a tile, its scores and the sums of the tile before, when the other has asked for its own: then tensor
// cores have work of one group while the other is at its exponentials, and not of both at once and of neither after. Group 0 has the first turn. They
// are taken at tiles that both groups multiply, as many by either; a turn's end is the phase of the other group's barrier, to which a lane of each
// warp comes. Nobody waits for products, keys or values in its turn, so that it ends; and the next arrivals come from warps that were told of a turn by
// all four of the other group, so that no phase is passed over. Who waits for a turn has given back what lies before the tile's keys and its
// predecessor's values: the other can go on.
struct turns {
    ft_mbarrier *own, *other;
    unsigned first, count; // in bands: where tiles of turns begin, and of how many keys together; else whether there are any
    unsigned parity;
};
template <bool BANDED> FT_DEVICE bool is_turn(const turns &t, int base) { return BANDED ? unsigned(base) - t.first < t.count : t.count != 0; }
template <bool BANDED> FT_DEVICE void take_turn(const turns &t, int base) {
    if (is_turn<BANDED>(t, base)) ft_wait_together(t.own, t.parity);
}
template <bool BANDED> FT_DEVICE void hand_over_turn(turns &t, int base) {
    const bool mine = is_turn<BANDED>(t, base);
    if (mine && threadIdx.x % FT_WARP == 0) ft_mbarrier_arrive(t.other);
    t.parity ^= BANDED ? unsigned(mine) : 1;
}

// One warpgroup of queries; `span`: what the block sees, of which tiles come.
template <class T, int D, bool BANDED>
FT_DEVICE void multiply(unsigned char *bytes, signals *signal, const ft_view<T> &out, const ft_view<float> &lse,
                        const ft_attention_problem &problem, const ft_attention_place &at, int first, const ft_attention_span &span, bool in_turns) {
    using p = plan<D, BANDED>;
    constexpr int KEYS = p::KEYS;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 4, g = lane / 4;
    const int own = warp * 16; // the warp's rows of the tile
    unsigned char *const tiles_k = bytes + p::QUERY_BYTES, *const tiles_v = tiles_k + BUFFERS * p::BUFFER;
    const ft_score_filter filter = ft_score_filter_of(problem, at);
    const float factor = problem.scale * FT_LOG2_E;

    // A buffer that this group has no use for is given back when it has come: not before, as its turn may be that of the tile before it still.
    const int group = warp / 4;
    auto span_of = [&](int which) { return keys_of<D, BANDED>(problem, at, first + which * FT_GROUP_ROWS, FT_GROUP_ROWS); };
    const ft_attention_span mine = span_of(group);
    const bool sees = BANDED ? mine.first < mine.end : at.keys > 0;
    int base = BANDED ? span.first : 0; // of the tile at hand
    tile_place tile = {0, 0};
    auto next_tile = [&] {
        base += KEYS;
        tile = behind(tile);
    };
    auto pass_over = [&] {
        ft_wait_together(signal->keys + tile.buffer, tile.parity);
        if (lane == 0) ft_mbarrier_arrive(signal->keys_free + tile.buffer);
        ft_wait_together(signal->values + tile.buffer, tile.parity);
        if (lane == 0) ft_mbarrier_arrive(signal->values_free + tile.buffer);
        next_tile();
    };
    turns turn = {signal->turns + group, signal->turns + (1 - group), 0, 0, unsigned(group ^ 1)};
    if (in_turns && first + FT_GROUP_ROWS < at.queries) {
        const ft_attention_span others = span_of(1 - group);
        const int begin = mine.first > others.first ? mine.first : others.first, end = mine.end < others.end ? mine.end : others.end;
        turn.first = unsigned(begin);
        turn.count = unsigned(end > begin ? end - begin : 0);
    }
    if constexpr (BANDED) {
        if (span.first < span.end) ft_wait_together(&signal->queries, 0); // else nothing comes; and into their place goes the output
#pragma unroll 1
        while (base < (sees ? mine.first : span.end))
            pass_over();
    }

    float sums[D / 8][4] = {};
    ft_running_softmax softmax;
    if (sees) {
        unsigned left[D / 16][4], probabilities[KEYS / 16][4];
        if (!BANDED) ft_wait_together(&signal->queries, 0);
        ft_left_of_matrix<D>(left, bytes, p::QUERY_TILE, own);
        float s[KEYS / 8][4], shrink[2]; // (what is in the sums is multiplied when no product adds to them)
        bool shrinks;                    // the warp's
        auto round_probabilities = [&] {
#pragma unroll
            for (int c = 0; c < KEYS / 16; c++)
                ft_left_of<T>(probabilities[c], s[2 * c], s[2 * c + 1]);
        };
        auto exponentiate = [&] {
            shrinks = false;
            shrink[0] = shrink[1] = 1.0f;
            mask_and_exponentiate<BANDED>(softmax, s, factor, problem, at.keys, first + own, base, [&](const float(&by)[2]) {
                shrinks = true;
                shrink[0] = by[0];
                shrink[1] = by[1];
            });
            drop(s, filter, first + own, base);
        };
        ft_wait_together(signal->keys + tile.buffer, tile.parity);
        take_turn<BANDED>(turn, base);
        begin_scores<T, D, KEYS>(s, left, tiles_k + tile.buffer * p::BUFFER);
        hand_over_turn<BANDED>(turn, base);
        ft_wgmma_wait<0>(s);
        ft_wgmma_hold(left);
        if (lane == 0) ft_mbarrier_arrive(signal->keys_free + tile.buffer);
        exponentiate();
        round_probabilities();
        tile_place before = tile; // whose values are not in the sums yet
        for (next_tile(); base < (BANDED ? mine.end : at.keys); next_tile()) {
            ft_wait_together(signal->keys + tile.buffer, tile.parity);
            ft_wait_together(signal->values + before.buffer, before.parity);
            take_turn<BANDED>(turn, base);
            begin_scores<T, D, KEYS>(s, left, tiles_k + tile.buffer * p::BUFFER);
            begin_sums<T, D, KEYS>(sums, probabilities, tiles_v + before.buffer * p::BUFFER);
            hand_over_turn<BANDED>(turn, base);
            ft_wgmma_wait<1>(s);
            ft_wgmma_hold(left);
            if (lane == 0) ft_mbarrier_arrive(signal->keys_free + tile.buffer);
            exponentiate();
            ft_wgmma_wait<0>(sums);
            ft_wgmma_hold(probabilities); // the next ones come into these registers
            if (lane == 0) ft_mbarrier_arrive(signal->values_free + before.buffer);
            if (shrinks)
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        sums[n][e] *= shrink[e / 2];
            round_probabilities();
            before = tile;
        }
        ft_wait_together(signal->values + before.buffer, before.parity);
        begin_sums<T, D, KEYS>(sums, probabilities, tiles_v + before.buffer * p::BUFFER);
        ft_wgmma_wait<0>(sums);
        ft_wgmma_hold(probabilities);
        if constexpr (BANDED) {
            if (lane == 0) ft_mbarrier_arrive(signal->values_free + before.buffer);
#pragma unroll 1
            while (base < span.end)
                pass_over();
        }
    }

    // Through the tile of queries, whose rows nobody but their warp reads.
    float factor_out[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float total = softmax.sum[h];
        total += __shfl_xor_sync(FT_ALL_LANES, total, 1);
        total += __shfl_xor_sync(FT_ALL_LANES, total, 2);
        factor_out[h] = sees ? problem.keep_scale / total : 0.0f;
        const int query = first + own + g + h * 8;
        if (lse.data != nullptr && lane % 4 == 0 && query < at.queries)
            lse.data[(at.first_query + query) * lse.stride + at.head] =
                sees ? softmax.base2[h] * FT_LN_2 + logf(total) : -INFINITY;
    }
    __syncwarp(); // where the queries have been read
    ft_sums_to_matrix<T, D>(bytes, p::QUERY_TILE, own, sums, factor_out);
    __syncwarp();
    ft_store_matrix<T, D>(out.data + (at.first_query + first + own) * out.stride + at.head * D, out.stride, bytes, p::QUERY_TILE, own,
                          at.queries - first - own);
}

template <class T, int D, bool BANDED>
FT_DEVICE void warpgroup_block(unsigned char *bytes, const ft_cu_tensor_map &q, const ft_cu_tensor_map &k, const ft_cu_tensor_map &v,
                               const ft_view<T> &out, const ft_view<float> &lse, const ft_attention_problem &problem, bool in_turns) {
    ft_attention_place at = ft_attention_place_of(problem);
    if (BANDED) at.tile = problem.tiles - 1 - at.tile; // causal: those with the most keys first
    const int first = at.tile * ROWS, group = int(threadIdx.x) / FT_GROUP;
    if (first >= at.queries) return;
    const ft_attention_span span = keys_of<D, BANDED>(problem, at, first, ROWS);
    signals *const signal = reinterpret_cast<signals *>(bytes + plan<D, BANDED>::BARRIERS_AT);
    if (threadIdx.x == 0) {
        const unsigned users = first + FT_GROUP_ROWS < at.queries ? 4 * FT_GROUPS : 4; // warps: of a group without queries none
        ft_mbarrier_init(&signal->queries, 1);
        ft_mbarrier_init(&signal->last_values, 1);
        for (int i = 0; i < BUFFERS; i++) {
            ft_mbarrier_init(signal->keys + i, 1);
            ft_mbarrier_init(signal->values + i, 1);
            ft_mbarrier_init(signal->keys_free + i, users);
            ft_mbarrier_init(signal->values_free + i, users);
        }
        for (int i = 0; i < FT_GROUPS; i++)
            ft_mbarrier_init(signal->turns + i, 4);
        ft_mbarrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        ft_registers_give<FT_COPY_REGISTERS>();
        if (threadIdx.x < FT_WARP && span.first < span.end)
            bring<D, BANDED>(bytes, signal, q, k, v, at, first, span, (BANDED ? at.head / problem.group : at.head) * D);
    } else {
        ft_registers_take<FT_PRODUCT_REGISTERS>();
        if (first + (group - 1) * FT_GROUP_ROWS < at.queries) multiply<T, D, BANDED>(bytes, signal, out, lse, problem, at, first, span, in_turns);
    }
}

template <class T, int D>
FT_KERNEL void __launch_bounds__(FT_GROUPS_THREADS, 1)
    attention_warpgroup(FT_MAP_ARGUMENT(q), FT_MAP_ARGUMENT(k), FT_MAP_ARGUMENT(v), ft_view<T> out, ft_view<float> lse,
                        ft_attention_problem problem, bool in_turns) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    warpgroup_block<T, D, false>(bytes, q, k, v, out, lse, problem, in_turns);
#else
    __trap(); // ft_attention_takes_warpgroups does not let it come to this
#endif
}
template <class T, int D>
FT_KERNEL void __launch_bounds__(FT_GROUPS_THREADS, 1)
    attention_warpgroup_banded(FT_MAP_ARGUMENT(q), FT_MAP_ARGUMENT(k), FT_MAP_ARGUMENT(v), ft_view<T> out, ft_view<float> lse,
                               ft_attention_problem problem, bool in_turns) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    warpgroup_block<T, D, true>(bytes, q, k, v, out, lse, problem, in_turns);
#else
    __trap();
#endif
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_forward_args &a) {
    const ft_attention_problem p = ft_attention_problem_of(a.shape, a.shape.max_queries, ROWS);
    bool in_turns;
    FT_TRY(ft_attention_takes_turns(&in_turns));
    const auto launch = [&](auto kernel, int keys, size_t shared) {
        ft_cu_tensor_map q, k, v;
        FT_TRY(ft_tensor_map_of(device, a.q, ROWS, &q));
        FT_TRY(ft_tensor_map_of(device, a.k, keys, &k));
        FT_TRY(ft_tensor_map_of(device, a.v, keys, &v));
        return ft_launch("attention_warpgroup", kernel, ft_attention_grid(p, a.shape.sequences), dim3(FT_GROUPS_THREADS), shared,
                         ft_stream(device), q, k, v, ft_view_of<T>(a.out), ft_view_of<float>(a.lse), p, in_turns);
    };
    if (ft_attention_is_banded(&a.shape) || p.group > 1) return launch(attention_warpgroup_banded<T, D>, plan<D, true>::KEYS, plan<D, true>::SHARED);
    return launch(attention_warpgroup<T, D>, plan<D, false>::KEYS, plan<D, false>::SHARED);
}

} // namespace

ft_status ft_attention_takes_warpgroups(ft_device *device, bool found_fit, bool *takes) {
    const char *name = FT_ATTENTION_PATH_NAME;
    const ft_attention_path asked = ft_attention_path_asked();
    const ft_cuda *cuda = ft_cuda_of(device);
    *takes = found_fit && (asked == FT_PATH_UNNAMED || asked == FT_PATH_AUTO);
    if (asked == FT_PATH_UNKNOWN) return ft_fail(FT_INVALID, name, "'%s' is neither mma, wgmma, tcgen05, owner nor auto", getenv(name));
    if (asked != FT_PATH_WGMMA) return FT_OK;
    int capability[2];
    for (int i = 0; i < 2; i++) {
        const unsigned what = i == 0 ? FT_CU_ATTRIBUTE_CAPABILITY_MAJOR : FT_CU_ATTRIBUTE_CAPABILITY_MINOR;
        if (cuda->driver->device_get_attribute(&capability[i], what, cuda->handle) != FT_CU_SUCCESS)
            return ft_fail(FT_FAILED, name, "the compute capability of %s cannot be read", device->name);
    }
    bool built = true;
#ifdef __CUDACC__
    built = strstr(FT_CUDA_TARGETS, "sm_90a") != nullptr;
#endif
    *takes = capability[0] == 9 && capability[1] == 0 && built;
    if (*takes) return FT_OK;
    if (built)
        return ft_fail(FT_NO_DEVICE, name, "wgmma is for compute capability 9.0, %s has %d.%d: leave it out, or say mma", device->name,
                       capability[0], capability[1]);
#ifdef __CUDACC__
    return ft_fail(FT_NO_DEVICE, name, "these kernels (%s) were not built for sm_90a: leave it out, or say mma", FT_CUDA_TARGETS);
#else
    return FT_OK; // not reached: the emulator has them
#endif
}

ft_status ft_attention_warpgroup_forward(ft_device *device, const ft_attention_forward_args &a) {
    if (a.q.dtype == FT_F16) return a.shape.head_dim == 64 ? run<__half, 64>(device, a) : run<__half, 128>(device, a);
    return a.shape.head_dim == 64 ? run<__nv_bfloat16, 64>(device, a) : run<__nv_bfloat16, 128>(device, a);
}
