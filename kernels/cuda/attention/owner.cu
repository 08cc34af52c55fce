// owner.cu - the backward of attention by one owner: a block takes a sequence and head, and everything that belongs to them. In the
// notation of backward.cu it makes five products where the two passes make seven, for it has the scores and <dout, V> once:
//     s^T = K Q^T,  <V, dout>,  dV = (mask P)^T dout,  dK = scale dS^T Q,  dQ = scale dS K
// 128 keys at a time, 16 a warp, it goes over all queries. dK and dV stay in registers. dQ wants sums over the keys of all warps: dS^T goes
// through shared memory, each warp multiplies 16 queries and 16 columns of it with K, and adds that to a slab that only this block has,
// fp32, in the order of the keys. The first keys do not read it, the last do not write it: those go to dQ. So sequences of up to
// 128 keys have no slab. A number is summed by one warp in one order, whatever block it is, and in that of the passes: the same bits
// as theirs, every time.
//
// For chips whose tensor cores bind (path.h). Of the shared memory of 99 KB it takes 75, so a block has a multiprocessor for
// itself, two warps a scheduler; between one tile of queries and the next there is one barrier, for all buffers are there twice.
#include "kernels/cuda/attention/gradient.h"

namespace {

constexpr int KEYS = FT_CUDA_OWNER_KEYS, WARPS = KEYS / 16, THREADS = WARPS * FT_WARP;

// Queries at a time: as many as give each warp 16 x 16 of dQ.
template <int D> constexpr int queries_of() { return WARPS * 256 / D; }

template <int D> constexpr size_t shared_bytes() {
    constexpr int QUERIES = queries_of<D>();
    return 2 * ft_tile_bytes(KEYS, D) + 4 * ft_tile_bytes(QUERIES, D) + 2 * ft_tile_bytes(KEYS, QUERIES) + 4 * QUERIES * sizeof(float);
}

template <class T> struct owner_arguments {
    ft_view<const T> q, k, v, dout;
    ft_view<T> dq, dk, dv;
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    float *slabs;       // of a block, one behind the other
    int64_t slab;       // numbers of one
    int items;          // sequences * heads
    ft_attention_problem problem;
};

template <class T, int D> struct owner_memory {
    static constexpr int QUERIES = queries_of<D>(), STRIDE = ft_tile_stride(D);
    static constexpr int OWN = KEYS * STRIDE, TILE = QUERIES * STRIDE, SCORES = KEYS * ft_tile_stride(QUERIES);
    T *k, *v, *q, *dout, *ds; // the last three twice
    float *lse, *delta;       // twice
};

// Adds nothing to dQ: there are no keys.
template <class T, int D> FT_DEVICE void clear_queries(const ft_view<T> &dq, const ft_attention_place &at) {
    for (int i = int(threadIdx.x); i < at.queries * (D / 8); i += THREADS)
        *reinterpret_cast<uint4 *>(dq.data + int64_t(at.first_query + i / (D / 8)) * dq.stride + at.head * D + i % (D / 8) * 8) =
            make_uint4(0, 0, 0, 0);
}

// 16 x 16 of dQ, complete, as accumulators d. Rows from `valid` on are not there. Neighbouring lanes swap halves, so that four of them
// write the 32 bytes of a row at once.
template <class T> FT_DEVICE void store_queries(T *to, int64_t stride, int valid, const float (&d)[2][4], float scale) {
    const int lane = int(threadIdx.x) % FT_WARP, g = lane / 4, t = lane % 4;
    const bool odd = t % 2 != 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const unsigned left = ft_pack<T>(d[0][h * 2] * scale, d[0][h * 2 + 1] * scale);
        const unsigned right = ft_pack<T>(d[1][h * 2] * scale, d[1][h * 2 + 1] * scale);
        const unsigned other = __shfl_xor_sync(FT_ALL_LANES, odd ? left : right, 1);
        const uint2 four = make_uint2(odd ? other : left, odd ? right : other);
        if (g + h * 8 < valid) *reinterpret_cast<uint2 *>(to + (g + h * 8) * stride + (odd ? 8 : 0) + t / 2 * 4) = four;
    }
}

// All queries over 128 keys from `first` on.
template <class T, int D>
FT_DEVICE void own_keys(const owner_arguments<T> &a, const owner_memory<T, D> &memory, const ft_attention_place &at, int first,
                        float *slab) {
    using M = owner_memory<T, D>;
    constexpr int QUERIES = M::QUERIES, STRIDE = M::STRIDE, SCORE_STRIDE = ft_tile_stride(QUERIES);
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP, g = lane / 4, t = lane % 4 * 2;
    const int mine = warp * 16, keys = at.keys - first, tiles = (at.queries + QUERIES - 1) / QUERIES;
    const int strips = keys < KEYS ? (keys + 15) / 16 : WARPS; // of keys, one a warp
    const bool is_first = first == 0, is_last = first + KEYS >= at.keys;
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * FT_LOG2_E;
    const int column = at.head * D;

    auto load = [&](int tile) {
        const int base = tile * QUERIES, buffer = tile % 2, valid = at.queries - base;
        const int64_t row = at.first_query + base;
        ft_tile_load<QUERIES, D, THREADS>(memory.q + buffer * M::TILE, a.q.data + row * a.q.stride + column, a.q.stride, valid);
        ft_tile_load<QUERIES, D, THREADS>(memory.dout + buffer * M::TILE, a.dout.data + row * a.dout.stride + column, a.dout.stride, valid);
        if (int(threadIdx.x) < QUERIES) {
            const bool there = int(threadIdx.x) < valid;
            const int64_t query = row + int(threadIdx.x);
            memory.lse[buffer * QUERIES + int(threadIdx.x)] = there ? a.lse.data[query * a.lse.stride + at.head] * FT_LOG2_E : 0.0f;
            memory.delta[buffer * QUERIES + int(threadIdx.x)] = there ? a.delta[query * a.problem.heads + at.head] : 0.0f;
        }
    };

    __syncthreads(); // all are done with the keys before
    const int64_t key = at.first_key + first;
    ft_tile_load<KEYS, D, THREADS>(memory.k, a.k.data + key * a.k.stride + column, a.k.stride, keys);
    ft_tile_load<KEYS, D, THREADS>(memory.v, a.v.data + key * a.v.stride + column, a.v.stride, keys);
    if (tiles > 0) load(0);
    ft_copy_async_commit();
    if (warp >= strips) // the dS of a warp without keys
        for (int i = lane; i < 2 * 16 * QUERIES / 8; i += FT_WARP) {
            const int row = mine + i % 16, buffer = i / (2 * QUERIES); // of rows below each other none meet in a bank
            *reinterpret_cast<uint4 *>(memory.ds + buffer * M::SCORES + row * SCORE_STRIDE + i / 16 % (QUERIES / 8) * 8) = make_uint4(0, 0, 0, 0);
        }
    ft_copy_async_wait<0>();
    __syncthreads();
    if (tiles > 1) load(1);
    ft_copy_async_commit();

    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    for (int tile = 0; tile < tiles; tile++) {
        const int buffer = tile % 2, base = tile * QUERIES;
        const T *const q = memory.q + buffer * M::TILE, *const dout = memory.dout + buffer * M::TILE;
        const float *const lse = memory.lse + buffer * QUERIES, *const delta = memory.delta + buffer * QUERIES;
        T *const scores = memory.ds + buffer * M::SCORES;

        // What is in the slab is on its way while the scores are made.
        const int strip = warp % (QUERIES / 16), columns = warp / (QUERIES / 16) * 16; // the warp's 16 x 16 of dQ
        float4 *const kept_sums = reinterpret_cast<float4 *>(slab) + (int64_t(tile) * WARPS + warp) * 2 * FT_WARP + lane;
        float dq[2][4] = {};
        if (!is_first)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const float4 sum = kept_sums[n * FT_WARP];
                dq[n][0] = sum.x, dq[n][1] = sum.y, dq[n][2] = sum.z, dq[n][3] = sum.w;
            }

        if (warp < strips) {
            float p[QUERIES / 8][4] = {}, ds[QUERIES / 8][4] = {};
            ft_score_products<D>(p, ds, memory.k, memory.v, mine, q, dout);
            // dQ sums over keys: those that are not there have a probability of 2^-inf = 0. Queries that are not there add nothing as they
            // are: their rows are zeros, and so are lse and D.
            if (mine + 16 > keys)
#pragma unroll
                for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (mine + g + e / 2 * 8 >= keys) p[n][e] = -INFINITY;
#pragma unroll
            for (int c = 0; c < QUERIES / 16; c++) {
                ft_score_gradients<true>(
                    p, ds, c, filter, first + mine, base, factor, a.problem.keep_scale, [&](int, int there) { return lse[there]; },
                    [&](int, int there) { return delta[there]; });
                unsigned of_dk[4], of_dv[4];
                ft_left_of<T>(of_dk, ds[2 * c], ds[2 * c + 1]);
                ft_left_of<T>(of_dv, p[2 * c], p[2 * c + 1]);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    *reinterpret_cast<unsigned *>(scores + (mine + g + i % 2 * 8) * SCORE_STRIDE + c * 16 + i / 2 * 8 + t) = of_dk[i];
#pragma unroll
                for (int n = 0; n < D / 16; n++) {
                    unsigned b[4];
                    ft_right_of_columns<D>(b, q, c * 16, n * 16);
                    ft_mma<T>(dk[2 * n], of_dk, b[0], b[1]);
                    ft_mma<T>(dk[2 * n + 1], of_dk, b[2], b[3]);
                    ft_right_of_columns<D>(b, dout, c * 16, n * 16);
                    ft_mma<T>(dv[2 * n], of_dv, b[0], b[1]);
                    ft_mma<T>(dv[2 * n + 1], of_dv, b[2], b[3]);
                }
            }
        }
        ft_copy_async_wait<0>();
        __syncthreads(); // dS of all warps is there, and the next tile; nobody reads this one any more
        if (tile + 2 < tiles) load(tile + 2);
        ft_copy_async_commit();

#pragma unroll
        for (int c = 0; c < WARPS; c++) { // of keys that are not there both are zeros
            unsigned left[4], b[4];
            ft_left_of_columns<QUERIES>(left, scores, c * 16, strip * 16);
            ft_right_of_columns<D>(b, memory.k, c * 16, columns);
            ft_mma<T>(dq[0], left, b[0], b[1]);
            ft_mma<T>(dq[1], left, b[2], b[3]);
        }
        if (is_last) {
            const int64_t row = at.first_query + base + strip * 16;
            store_queries(a.dq.data + row * a.dq.stride + column + columns, a.dq.stride, at.queries - base - strip * 16, dq, a.problem.scale);
        } else {
#pragma unroll
            for (int n = 0; n < 2; n++)
                kept_sums[n * FT_WARP] = make_float4(dq[n][0], dq[n][1], dq[n][2], dq[n][3]);
        }
    }

    // Through the warp's own rows of V, which nobody else reads: stores of 16 bytes.
    if (warp >= strips) return;
    T *const rows = memory.v + mine * STRIDE;
    const int64_t row = at.first_key + first + mine;
    auto store = [&](const float (&d)[D / 8][4], float scale, const ft_view<T> &to) {
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *reinterpret_cast<unsigned *>(rows + (g + h * 8) * STRIDE + n * 8 + t) = ft_pack<T>(d[n][h * 2] * scale, d[n][h * 2 + 1] * scale);
        __syncwarp();
        ft_tile_store<16, D>(to.data + row * to.stride + column, to.stride, rows, keys - mine);
        __syncwarp();
    };
    store(dv, a.problem.keep_scale, a.dv);
    store(dk, a.problem.scale, a.dk);
}

template <class T, int D> FT_KERNEL void __launch_bounds__(THREADS, 1) attention_owner(owner_arguments<T> a) {
    FT_DYNAMIC_SHARED(bytes);
    using M = owner_memory<T, D>;
    M memory;
    memory.k = reinterpret_cast<T *>(bytes);
    memory.v = memory.k + M::OWN;
    memory.q = memory.v + M::OWN;
    memory.dout = memory.q + 2 * M::TILE;
    memory.ds = memory.dout + 2 * M::TILE;
    memory.lse = reinterpret_cast<float *>(memory.ds + 2 * M::SCORES);
    memory.delta = memory.lse + 2 * M::QUERIES;
    float *const slab = a.slabs == nullptr ? nullptr : a.slabs + int64_t(blockIdx.x) * a.slab;
    for (int item = int(blockIdx.x); item < a.items; item += int(gridDim.x)) {
        ft_attention_place at = ft_attention_place_of(a.problem, item / a.problem.heads);
        at.head = item % a.problem.heads;
        if (at.keys == 0) clear_queries<T, D>(a.dq, at);
        for (int first = 0; first < at.keys; first += KEYS)
            own_keys<T, D>(a, memory, at, first, slab);
    }
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_backward_args &a, const float *delta) {
    const size_t deltas = ft_cuda_aligned(size_t(a.q.rows) * size_t(a.shape.heads) * sizeof(float));
    const bool has_slabs = ft_cuda_owner_tiles(a.shape.max_keys) > 1;
    owner_arguments<T> arguments = {};
    arguments.q = ft_view_of<const T>(a.q), arguments.k = ft_view_of<const T>(a.k), arguments.v = ft_view_of<const T>(a.v);
    arguments.dout = ft_view_of<const T>(a.dout);
    arguments.dq = ft_view_of<T>(a.dq), arguments.dk = ft_view_of<T>(a.dk), arguments.dv = ft_view_of<T>(a.dv);
    arguments.lse = ft_view_of<const float>(a.lse);
    arguments.delta = delta;
    arguments.slabs = has_slabs ? reinterpret_cast<float *>(static_cast<char *>(a.workspace.data) + deltas) : nullptr;
    arguments.slab = ft_cuda_owner_slab(a.shape.max_queries, D);
    arguments.items = a.shape.sequences * a.shape.heads;
    arguments.problem = ft_attention_problem_of(a.shape, 1, 1); // one tile: items are whole sequences
    const int64_t blocks = ft_cuda_owner_blocks(device->target.sm_count, a.shape.heads, a.shape.sequences);
    return ft_launch("attention_owner", attention_owner<T, D>, dim3(unsigned(blocks)), dim3(THREADS), shared_bytes<D>(),
                     ft_stream(device), arguments);
}

} // namespace

ft_status ft_attention_owner_backward(ft_device *device, const ft_attention_backward_args &a, const float *delta) {
    if (a.q.dtype == FT_F16) return a.shape.head_dim == 32 ? run<__half, 32>(device, a, delta) : run<__half, 64>(device, a, delta);
    return a.shape.head_dim == 32 ? run<__nv_bfloat16, 32>(device, a, delta) : run<__nv_bfloat16, 64>(device, a, delta);
}
