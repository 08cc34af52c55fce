// tensor_memory.cu - streaming attention forward on the instructions of sm_100a and sm_100f (tile/tcgen05.h): a block has 128 queries of a head, and 256 columns
// of tensor memory for their scores and sums. One warp asks the copy engine for tiles, one asks the tensor cores for products, four have a row a
// thread: scores of a tile come out of tensor memory, probabilities go to shared memory in 16 bits, from where they are multiplied by the values.
// The scores of a tile are made while the softmax of the tile before is at work; two blocks share a multiprocessor.
// Full attention only. Same results as forward.cu as far as sums in another order allow, same dropout, bit by bit the same from run to run.
#include "kernels/cuda/attention/row_softmax.h"
#include "kernels/cuda/attention/warpgroup.h"
#include "kernels/cuda/tile/tcgen05.h"

#include <stdlib.h>

namespace {

constexpr int ROWS = FT_TENSOR_ROWS, BUFFERS = 2, ROW_WARPS = ROWS / FT_WARP, THREADS = (ROW_WARPS + 2) * FT_WARP;
[[maybe_unused]] constexpr int COPIES = ROW_WARPS, PRODUCTS = ROW_WARPS + 1; // these warps
[[maybe_unused]] constexpr int PIECE = 32;
constexpr int PATTERNS = ROWS * FT_TENSOR_ROW; // bytes of 64 columns of all rows

template <int D> struct plan { // as half a multiprocessor's 227 KiB and 512 columns allow
    static constexpr int KEYS = D == 64 ? 128 : 64, KEY_TILE = KEYS * FT_TENSOR_ROW, BUFFER = D / FT_TENSOR_COLUMNS * KEY_TILE; // bytes
    static constexpr int KEYS_AT = D / FT_TENSOR_COLUMNS * PATTERNS, VALUES_AT = KEYS_AT + BUFFERS * BUFFER;
    static constexpr int PROBABILITIES_AT = VALUES_AT + BUFFERS * BUFFER;
    static constexpr int SIGNALS_AT = PROBABILITIES_AT + KEYS / FT_TENSOR_COLUMNS * PATTERNS;
    static constexpr size_t SHARED = SIGNALS_AT + 128;
    static constexpr int COLUMNS = 256; // of tensor memory: KEYS of scores, then D of sums
    static_assert(KEYS + D <= COLUMNS, "room for both");
};

// What the three kinds of warps tell each other.
struct signals {
    ft_mbarrier queries, keys[BUFFERS], values[BUFFERS]; // have come
    ft_mbarrier last_values;                             // have come, with rows of the next sequence behind
    ft_mbarrier keys_free[BUFFERS], values_free[BUFFERS]; // have been multiplied
    ft_mbarrier scores, scores_free;                      // are in tensor memory; are in registers
    ft_mbarrier probabilities, sums;                      // are in shared memory; have them added
    unsigned columns;                                     // of tensor memory: where they begin
};
static_assert(sizeof(signals) <= 128, "room for them");

[[maybe_unused]] FT_DEVICE unsigned parity_of(int tile) { return unsigned(tile / BUFFERS & 1); }
template <int D> FT_DEVICE int tiles_of(const ft_attention_place &at) { return (at.keys + plan<D>::KEYS - 1) / plan<D>::KEYS; }

// One warp brings tiles; its first lane alone waits for room, as in warpgroup.cu.
template <int D>
FT_DEVICE void bring(unsigned char *bytes, signals *signal, const ft_cu_tensor_map &q, const ft_cu_tensor_map &k, const ft_cu_tensor_map &v,
                     const ft_attention_place &at, int first) {
    using p = plan<D>;
    const int lane = int(threadIdx.x) % FT_WARP, column = at.head * D;
    auto copy = [&](unsigned char *to, const ft_cu_tensor_map &map, int tile_bytes, int row, ft_mbarrier *arrives) {
        ft_mbarrier_arrive_expect(arrives, unsigned(D / FT_TENSOR_COLUMNS * tile_bytes));
        ft_copy_matrix<D>(to, map, tile_bytes, column, row, arrives);
    };
    if (lane == 0) copy(bytes, q, PATTERNS, at.first_query + first, &signal->queries);
#pragma unroll 1
    for (int i = 0; i < tiles_of<D>(at); i++) {
        const int buffer = i % BUFFERS, rows = at.keys - i * p::KEYS, row = at.first_key + i * p::KEYS;
        unsigned char *const values = bytes + p::VALUES_AT + buffer * p::BUFFER;
        if (lane == 0) {
            ft_mbarrier_wait(signal->keys_free + buffer, parity_of(i) ^ 1);
            copy(bytes + p::KEYS_AT + buffer * p::BUFFER, k, p::KEY_TILE, row, signal->keys + buffer);
            ft_mbarrier_wait(signal->values_free + buffer, parity_of(i) ^ 1);
            copy(values, v, p::KEY_TILE, row, rows >= p::KEYS ? signal->values + buffer : &signal->last_values);
        }
        if (rows >= p::KEYS) continue;
        __syncwarp(); // (scores of keys that are not there are masked)
        ft_wait_together(&signal->last_values, 0);
        ft_zero_rows<D>(values, p::KEY_TILE, rows, p::KEYS);
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(signal->values + buffer);
    }
}

// One thread asks for products: the scores of the next tile before the sums of this one, which wait for its softmax. Buffers are given back that
// somebody waits for: a commit must not arrive where a block was that has ended.
template <class T, int D> FT_DEVICE void multiply(unsigned char *bytes, signals *signal, unsigned columns, int tiles) {
    using p = plan<D>;
    auto scores = [&](int i) {
        const int buffer = i % BUFFERS;
        ft_mbarrier_wait(signal->keys + buffer, parity_of(i));
        ft_tensor_heard();
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_tcgen05<T, p::KEYS, false>(columns, ft_tcgen05_rows(bytes, PATTERNS, c), ft_tcgen05_rows(bytes + p::KEYS_AT + buffer * p::BUFFER, p::KEY_TILE, c), c > 0);
        ft_tcgen05_commit(&signal->scores);
        if (i + BUFFERS < tiles) ft_tcgen05_commit(signal->keys_free + buffer);
    };
    ft_mbarrier_wait(&signal->queries, 0);
    scores(0);
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
        const int buffer = i % BUFFERS;
        if (i + 1 < tiles) {
            ft_mbarrier_wait(&signal->scores_free, unsigned(i & 1));
            scores(i + 1);
        }
        ft_mbarrier_wait(&signal->probabilities, unsigned(i & 1));
        ft_mbarrier_wait(signal->values + buffer, parity_of(i));
        ft_tensor_heard();
#pragma unroll
        for (int c = 0; c < p::KEYS / 16; c++)
            ft_tcgen05<T, D, true>(columns + p::KEYS, ft_tcgen05_rows(bytes + p::PROBABILITIES_AT, PATTERNS, c),
                                   ft_tcgen05_columns(bytes + p::VALUES_AT + buffer * p::BUFFER, p::KEY_TILE, c), i + c > 0);
        ft_tcgen05_commit(&signal->sums);
        if (i + BUFFERS < tiles) ft_tcgen05_commit(signal->values_free + buffer);
    }
}

// The sums of the warp's rows, each times its factor.
template <int D> FT_DEVICE void shrink_sums(unsigned sums, float by) {
#pragma unroll
    for (int c = 0; c < D; c += PIECE) {
        float x[PIECE];
        ft_tensor_load(x, sums + c);
        ft_tensor_loaded(x);
#pragma unroll
        for (int n = 0; n < PIECE; n++)
            x[n] *= by;
        ft_tensor_store(sums + c, x);
    }
    ft_tensor_stored();
}

// That these are made here: the compiler rounds nothing later.
template <int N> FT_DEVICE void hold(unsigned (&x)[N]) {
#ifdef __CUDACC__
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+r"(x[n]));
#endif
}

// A number that the compiler knows nothing of: CUDA 12's would count for all pieces of a row in front of the first one, and spill 328 bytes with heads of
// 64; 13.0's does not, and has nine instructions less a turn without.
[[maybe_unused]] FT_DEVICE int unknown(int x) {
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ < 13
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// A row a thread: probabilities of tile after tile, and at the end what is in the sums.
template <class T, int D>
FT_DEVICE void soften(unsigned char *bytes, signals *signal, unsigned columns, const ft_view<T> &out, const ft_view<float> &lse,
                      const ft_attention_problem &problem, const ft_attention_place &at, int first) {
    using p = plan<D>;
    constexpr int KEYS = p::KEYS;
    const int lane = int(threadIdx.x) % FT_WARP, row = int(threadIdx.x), own = row - lane, tiles = tiles_of<D>(at);
    const unsigned scores = columns + ft_tensor_quarter(), sums = scores + p::KEYS;
    unsigned char *const probabilities = bytes + p::PROBABILITIES_AT;
    const ft_score_filter filter = ft_score_filter_of(problem, at);
    const float factor = problem.scale * FT_LOG2_E;
    ft_row_softmax softmax;
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
        float s[KEYS], shrink = 1.0f;
        ft_wait_together(&signal->scores, unsigned(i & 1));
        ft_tensor_heard();
#pragma unroll
        for (int c = 0; c < KEYS; c += PIECE)
            ft_tensor_load(s + c, scores + c);
        ft_tensor_loaded(s);
        ft_tensor_told();
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(&signal->scores_free);

        const int keys = at.keys - i * KEYS;
        if (keys < KEYS)
#pragma unroll
            for (int n = 0; n < KEYS; n++)
                if (n >= keys) s[n] = -INFINITY;
        const bool shrinks = ft_next_row(softmax, s, factor, &shrink);
        if (filter.threshold != 0)
#pragma unroll
            for (int n = 0; n < KEYS; n += 16)
                ft_drop_16_of_row(s + n, filter, unknown(first + row), i * KEYS + n);

        unsigned rounded[KEYS / 2]; // half the registers, before those of sums come
#pragma unroll
        for (int n = 0; n < KEYS / 2; n++)
            rounded[n] = ft_pack<T>(s[2 * n], s[2 * n + 1]);
        hold(rounded);
        if (i > 0) { // the products that read the last probabilities, and made the sums what they are
            ft_wait_together(&signal->sums, unsigned((i - 1) & 1));
            ft_tensor_heard();
            if (shrinks) shrink_sums<D>(sums, shrink);
        }
#pragma unroll
        for (int n = 0; n < KEYS; n += 8)
            *reinterpret_cast<uint4 *>(probabilities + n / FT_TENSOR_COLUMNS * PATTERNS + ft_tensor_place(row, n % FT_TENSOR_COLUMNS / 8)) =
                make_uint4(rounded[n / 2], rounded[n / 2 + 1], rounded[n / 2 + 2], rounded[n / 2 + 3]);
        const unsigned char *const mine = probabilities + own * FT_TENSOR_ROW;
        ft_async_fence(mine, size_t(FT_WARP * FT_TENSOR_ROW), mine + (KEYS > FT_TENSOR_COLUMNS ? PATTERNS : 0), size_t(FT_WARP * FT_TENSOR_ROW), mine, 0);
        ft_tensor_told();
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(&signal->probabilities);
    }

    // Through the tile of queries, whose rows nobody reads any more.
    const float factor_out = tiles > 0 ? problem.keep_scale / softmax.sum : 0.0f;
    if (lse.data != nullptr && first + row < at.queries)
        lse.data[(at.first_query + first + row) * lse.stride + at.head] = tiles > 0 ? softmax.base2 * FT_LN_2 + logf(softmax.sum) : -INFINITY;
    if (tiles > 0) {
        ft_wait_together(&signal->sums, unsigned((tiles - 1) & 1));
        ft_tensor_heard();
    }
#pragma unroll 1
    for (int c = 0; c < D; c += PIECE) {
        float x[PIECE] = {};
        if (tiles > 0) {
            ft_tensor_load(x, sums + c);
            ft_tensor_loaded(x);
        }
#pragma unroll
        for (int n = 0; n < PIECE; n += 8) {
            float y[8];
#pragma unroll
            for (int e = 0; e < 8; e++)
                y[e] = x[n + e] * factor_out;
            *reinterpret_cast<uint4 *>(bytes + (c + n) / FT_TENSOR_COLUMNS * PATTERNS + ft_tensor_place(row, (c + n) % FT_TENSOR_COLUMNS / 8)) =
                make_uint4(ft_pack<T>(y[0], y[1]), ft_pack<T>(y[2], y[3]), ft_pack<T>(y[4], y[5]), ft_pack<T>(y[6], y[7]));
        }
    }
    ft_tensor_told();
    __syncwarp();
#pragma unroll
    for (int half = 0; half < FT_WARP; half += 16)
        ft_store_matrix<T, D>(out.data + (at.first_query + first + own + half) * out.stride + at.head * D, out.stride, bytes, PATTERNS, own + half,
                              at.queries - first - own - half);
}

template <class T, int D>
FT_DEVICE void tensor_memory_block(unsigned char *bytes, const ft_cu_tensor_map &q, const ft_cu_tensor_map &k, const ft_cu_tensor_map &v,
                                   const ft_view<T> &out, const ft_view<float> &lse, const ft_attention_problem &problem) {
    using p = plan<D>;
    const ft_attention_place at = ft_attention_place_of(problem);
    const int first = at.tile * ROWS, warp = int(threadIdx.x) / FT_WARP;
    if (first >= at.queries) return;
    signals *const signal = reinterpret_cast<signals *>(bytes + p::SIGNALS_AT);
    if (threadIdx.x == 0) {
        for (ft_mbarrier *one : {&signal->queries, &signal->last_values, &signal->scores, &signal->sums})
            ft_mbarrier_init(one, 1);
        for (ft_mbarrier *of_rows : {&signal->scores_free, &signal->probabilities})
            ft_mbarrier_init(of_rows, ROW_WARPS);
        for (int i = 0; i < BUFFERS; i++)
            for (ft_mbarrier *one : {signal->keys + i, signal->values + i, signal->keys_free + i, signal->values_free + i})
                ft_mbarrier_init(one, 1);
        ft_mbarrier_init_done();
    }
    if (warp == PRODUCTS) {
        ft_tensor_allocate<p::COLUMNS>(&signal->columns);
        ft_tensor_told();
    }
    __syncthreads();
    ft_tensor_heard();
    const unsigned columns = signal->columns;
    if (warp < ROW_WARPS) {
        soften<T, D>(bytes, signal, columns, out, lse, problem, at, first);
    } else if (at.keys > 0) {
        if (warp == COPIES) bring<D>(bytes, signal, q, k, v, at, first);
        else if (threadIdx.x % FT_WARP == 0) multiply<T, D>(bytes, signal, columns, tiles_of<D>(at));
        __syncwarp();
    }
    __syncthreads(); // nobody has anything to do there any more
    if (warp == PRODUCTS) {
        ft_tensor_heard();
        ft_tensor_free<p::COLUMNS>(columns);
    }
}

template <class T, int D>
FT_KERNEL void __launch_bounds__(THREADS, 2)
    attention_tensor_memory(FT_MAP_ARGUMENT(q), FT_MAP_ARGUMENT(k), FT_MAP_ARGUMENT(v), ft_view<T> out, ft_view<float> lse,
                            ft_attention_problem problem) {
#ifdef FT_SM_100A
    FT_DYNAMIC_SHARED(bytes);
    tensor_memory_block<T, D>(bytes, q, k, v, out, lse, problem);
#else
    __trap(); // ft_attention_takes_tensor_memory does not let it come to this
#endif
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_forward_args &a) {
    const ft_attention_problem p = ft_attention_problem_of(a.shape, a.shape.max_queries, ROWS);
    ft_cu_tensor_map q, k, v;
    FT_TRY(ft_tensor_map_of(device, a.q, ROWS, &q));
    FT_TRY(ft_tensor_map_of(device, a.k, plan<D>::KEYS, &k));
    FT_TRY(ft_tensor_map_of(device, a.v, plan<D>::KEYS, &v));
    return ft_launch("attention_tensor_memory", attention_tensor_memory<T, D>, ft_attention_grid(p, a.shape.sequences), dim3(THREADS),
                     plan<D>::SHARED, ft_stream(device), q, k, v, ft_view_of<T>(a.out), ft_view_of<float>(a.lse), p);
}

} // namespace

ft_status ft_attention_takes_tensor_memory(ft_device *device, bool *takes) {
    const char *name = FT_ATTENTION_PATH_NAME;
    const ft_cuda *cuda = ft_cuda_of(device);
    *takes = false;
    if (ft_attention_path_asked() != FT_PATH_TCGEN05 || cuda->no_tensor_memory) return FT_OK;
    int capability[2];
    for (int i = 0; i < 2; i++) {
        const unsigned what = i == 0 ? FT_CU_ATTRIBUTE_CAPABILITY_MAJOR : FT_CU_ATTRIBUTE_CAPABILITY_MINOR;
        if (cuda->driver->device_get_attribute(&capability[i], what, cuda->handle) != FT_CU_SUCCESS)
            return ft_fail(FT_FAILED, name, "the compute capability of %s cannot be read", device->name);
    }
    if (capability[0] != 10 || (capability[1] != 0 && capability[1] != 3))
        return ft_fail(FT_NO_DEVICE, name, "tcgen05 is for compute capability 10.0 and 10.3, %s has %d.%d: leave it out, or say mma", device->name,
                       capability[0], capability[1]);
#ifdef __CUDACC__
    if (!ft_attention_has_tensor_memory(10 * capability[0] + capability[1], FT_CUDA_TARGETS))
        return ft_fail(FT_NO_DEVICE, name, "these kernels (%s) have no tcgen05 for %d.%d: leave it out, or say mma", FT_CUDA_TARGETS, capability[0],
                       capability[1]);
#endif
    *takes = true;
    return FT_OK;
}

ft_status ft_attention_tensor_memory_forward(ft_device *device, const ft_attention_forward_args &a) {
    if (a.q.dtype == FT_F16) return a.shape.head_dim == 64 ? run<__half, 64>(device, a) : run<__half, 128>(device, a);
    return a.shape.head_dim == 64 ? run<__nv_bfloat16, 64>(device, a) : run<__nv_bfloat16, 128>(device, a);
}
