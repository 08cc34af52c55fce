// warpgroup_backward.cu - gradients of attention on the instructions of sm_90a alone: the two passes of backward.cu,
// in its words. A block has 128 own rows, 64 a warpgroup; one warp asks the copy engine for tiles of 64 others, both matrices of
// them, in three buffers. Before a tile's sums the scores and <dout, V> of the next one are queued, so that its P is made while the
// tensor cores are at those sums; not in the pass of keys at 128 columns, whose sums leave no registers for that.
// dS and P go from registers into their products. In the pass of keys they are transposed, which costs nothing: keys are its rows. What belongs
// to a query, lse and D, lies in shared memory there, brought with the query's tile.
// Same results as backward.cu as far as sums in another order allow, same dropout, one writer of every number in one order.
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/attention/warpgroup.h"

namespace {

constexpr int OTHER = 64, BUFFERS = 3, TILE = OTHER * FT_TENSOR_ROW;
static_assert(OTHER == FT_GROUP_ROWS, "own tiles have the size of others");

template <int D, bool OF_KEYS> struct plan {
    static constexpr int MATRIX = D / FT_TENSOR_COLUMNS * TILE, PAIR = 2 * MATRIX;
    static constexpr int OTHERS_AT = FT_GROUPS * PAIR, ROWS_AT = OTHERS_AT + BUFFERS * PAIR;
    static constexpr int BARRIERS_AT = ROWS_AT + BUFFERS * 2 * OTHER * int(sizeof(float));
    static constexpr size_t SHARED = BARRIERS_AT + 128; // 161.6 KiB at most, of 227 that such a chip has
};

// What those who copy and those who multiply tell each other.
struct signals {
    ft_mbarrier own[FT_GROUPS], others[BUFFERS]; // have come
    ft_mbarrier last_others;                     // have come, with rows of the next sequence behind
    ft_mbarrier free[BUFFERS];                   // of their products
    ft_mbarrier own_read[FT_GROUPS];             // by all warps of the group, for the last time
};
static_assert(sizeof(signals) <= 128, "room for them");

// Of the queries of a tile: lse in powers of two, and D.
struct query_rows {
    float lse[OTHER], delta[OTHER];
};

template <class T> struct pass_arguments {
    ft_view<T> result[2];
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    ft_attention_problem problem;
};

// Where own and other rows are.
struct pass_rows {
    int own_row, own_count, other_row, other_count, first; // first: of the block
};

// Of the row `query` of a sequence; past the last one they are not read.
template <class T> FT_DEVICE float lse_of(const pass_arguments<T> &a, const ft_attention_place &at, int query) {
    return query < at.queries ? a.lse.data[(at.first_query + query) * a.lse.stride + at.head] * FT_LOG2_E : 0.0f;
}
template <class T> FT_DEVICE float delta_of(const pass_arguments<T> &a, const ft_attention_place &at, int query) {
    return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + at.head] : 0.0f;
}

// A buffer's turn: the number of a tile of others.
[[maybe_unused]] FT_DEVICE unsigned parity_of(int tile) { return unsigned(tile / BUFFERS & 1); }

// One warp brings tiles. Its first lane alone waits for room: others might come when that phase is over, and wait for the next of its parity.
template <int D, bool OF_KEYS>
FT_DEVICE void bring(unsigned char *bytes, signals *signal, const ft_cu_tensor_map &own0, const ft_cu_tensor_map &own1,
                     const ft_cu_tensor_map &other0, const ft_cu_tensor_map &other1, int column, const pass_rows &rows) {
    using p = plan<D, OF_KEYS>;
    const int lane = int(threadIdx.x) % FT_WARP;
    auto copy_pair = [&](unsigned char *to, const ft_cu_tensor_map &first, const ft_cu_tensor_map &second, int row, ft_mbarrier *arrives) {
        ft_mbarrier_arrive_expect(arrives, p::PAIR);
        ft_copy_matrix<D>(to, first, TILE, column, row, arrives);
        ft_copy_matrix<D>(to + p::MATRIX, second, TILE, column, row, arrives);
    };
#pragma unroll 1
    for (int i = 0; i < FT_GROUPS && lane == 0; i++)
        if (rows.first + i * FT_GROUP_ROWS < rows.own_count)
            copy_pair(bytes + i * p::PAIR, own0, own1, rows.own_row + rows.first + i * FT_GROUP_ROWS, signal->own + i);
#pragma unroll 1
    for (int i = 0; i * OTHER < rows.other_count; i++) {
        const int buffer = i % BUFFERS, valid = rows.other_count - i * OTHER;
        unsigned char *const others = bytes + p::OTHERS_AT + buffer * p::PAIR;
        if (lane == 0) {
            ft_mbarrier_wait(signal->free + buffer, parity_of(i) ^ 1);
            copy_pair(others, other0, other1, rows.other_row + i * OTHER, valid >= OTHER ? signal->others + buffer : &signal->last_others);
        }
        if (valid >= OTHER) continue;
        __syncwarp();
        ft_wait_together(&signal->last_others, 0);
        ft_zero_rows<D>(others, TILE, valid, OTHER);
        ft_zero_rows<D>(others + p::MATRIX, TILE, valid, OTHER);
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(signal->others + buffer);
    }
}

// Another one, in the pass of keys: lse and D of each tile.
template <class T>
FT_DEVICE void bring_rows(query_rows *of_tiles, signals *signal, const pass_arguments<T> &a, const ft_attention_place &at) {
    const int lane = int(threadIdx.x) % FT_WARP;
#pragma unroll 1
    for (int i = 0; i * OTHER < at.queries; i++) {
        query_rows *const of_tile = of_tiles + i % BUFFERS;
        float lse[2], delta[2]; // on their way while there is no room yet
#pragma unroll
        for (int h = 0; h < 2; h++) {
            lse[h] = lse_of(a, at, i * OTHER + lane + h * FT_WARP);
            delta[h] = delta_of(a, at, i * OTHER + lane + h * FT_WARP);
        }
        if (lane == 0) ft_mbarrier_wait(signal->free + i % BUFFERS, parity_of(i) ^ 1);
        __syncwarp();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            of_tile->lse[lane + h * FT_WARP] = lse[h];
            of_tile->delta[lane + h * FT_WARP] = delta[h];
        }
        __syncwarp();
        if (lane == 0) ft_mbarrier_arrive(signal->others + i % BUFFERS);
    }
}

// Own rows times rows of a tile of others, begun.
template <class T, int D, bool IN_REGISTERS, int L>
FT_DEVICE void begin_scores(float (&s)[OTHER / 8][4], unsigned (&left)[L][4], const unsigned char *own, const unsigned char *others) {
    uint64_t of_own = 0;
    if constexpr (IN_REGISTERS) ft_wgmma_hold(left);
    else of_own = ft_wgmma_made_here(ft_wgmma_rows(own, TILE, 0));
    ft_wgmma_fence_new(s);
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        if constexpr (IN_REGISTERS) ft_wgmma<T, OTHER, false>(s, left[c], ft_wgmma_rows(others, TILE, c), c > 0);
        else ft_wgmma_of_rows<T>(s, ft_wgmma_rows_at(of_own, TILE, c), ft_wgmma_rows(others, TILE, c), c > 0);
    ft_wgmma_commit();
}
// What a tile adds to a result, begun; the group is the caller's to close.
template <class T, int D>
FT_DEVICE void begin_sums(float (&sums)[D / 8][4], unsigned (&left)[OTHER / 16][4], const unsigned char *others, bool is_first) {
    ft_wgmma_hold(left);
    ft_wgmma_fence(sums);
#pragma unroll
    for (int c = 0; c < OTHER / 16; c++)
        ft_wgmma<T, D, true>(sums, left[c], ft_wgmma_columns(others, TILE, c), !is_first || c > 0);
}

// Scores become P. `valid`: how many of the tile's others are there, OTHER unless it is the last.
template <bool OF_KEYS>
FT_DEVICE void exponentiate(float (&s)[OTHER / 8][4], float factor, const float (&own_lse)[2], const query_rows *of_tile, int valid) {
    const int t = int(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < OTHER / 8; n++) {
        float2 of_column = {};
        if (OF_KEYS) of_column = *reinterpret_cast<const float2 *>(of_tile->lse + n * 8 + t);
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = ft_exp2(fmaf(s[n][e], factor, -(!OF_KEYS ? own_lse[e / 2] : e % 2 == 0 ? of_column.x : of_column.y)));
    }
    // Behind the exponentials, so that a branch stands between them and the wait for <dout, V> and the sums: within a block of code ptxas
    // puts them behind that wait.
    if (valid < OTHER)
#pragma unroll
        for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (n * 8 + t + e % 2 >= valid) s[n][e] = 0.0f;
}

// Of P and <dout, V> what the products want: dS, and of keys P where it was kept. `own` and `base`: of the first row and column.
template <class T, bool OF_KEYS, int L>
FT_DEVICE void make_left(unsigned (&left0)[OTHER / 16][4], unsigned (&left1)[L][4], float (&s)[OTHER / 8][4], float (&dp)[OTHER / 8][4],
                         const ft_score_filter &filter, float keep_scale, const float (&own_delta)[2], const query_rows *of_tile, int own, int base) {
    const int t = int(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int c = 0; c < OTHER / 16; c++) {
        float2 of_column[2] = {};
        if (OF_KEYS)
#pragma unroll
            for (int h = 0; h < 2; h++)
                of_column[h] = *reinterpret_cast<const float2 *>(of_tile->delta + c * 16 + h * 8 + t);
        auto finish = [&](int q, bool keep) {
            const int n = 2 * c + q / 4, e = q % 4;
            const float delta = !OF_KEYS ? own_delta[e / 2] : e % 2 == 0 ? of_column[q / 4].x : of_column[q / 4].y;
            dp[n][e] = s[n][e] * fmaf(keep ? dp[n][e] : 0.0f, keep_scale, -delta);
            if (OF_KEYS && !keep) s[n][e] = 0.0f;
        };
        if (filter.threshold != 0) {
            const ft_kept_16x16 kept = ft_kept_of_16x16<OF_KEYS>(filter, own, base + c * 16);
#pragma unroll
            for (int q = 0; q < 8; q++)
                finish(q, ft_is_kept<OF_KEYS>(kept, q));
        } else {
#pragma unroll
            for (int q = 0; q < 8; q++)
                finish(q, true);
        }
        ft_left_of<T>(left0[c], dp[2 * c], dp[2 * c + 1]);
        if constexpr (OF_KEYS) ft_left_of<T>(left1[c], s[2 * c], s[2 * c + 1]);
    }
}

template <class T, int D, bool OF_KEYS>
FT_DEVICE void multiply(unsigned char *bytes, signals *signal, const pass_arguments<T> &a, const ft_attention_place &at, const pass_rows &rows) {
    using p = plan<D, OF_KEYS>;
    // Own rows as left operands in registers, where sums of results leave some: both matrices, the first, or none. And with two results of
    // 128 columns a tile's scores have to wait for the sums of the tile before.
    constexpr bool LEFT0_IN_REGISTERS = D == 64 || !OF_KEYS, LEFT1_IN_REGISTERS = D == 64, AHEAD = LEFT0_IN_REGISTERS;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 4, group = warp / 4;
    const int own = warp % 4 * 16, first = rows.first + warp * 16; // the warp's rows of the group's tile, and of the sequence
    unsigned char *const own_tiles = bytes + group * p::PAIR;
    const ft_score_filter filter = ft_score_filter_of(a.problem, at);
    const float factor = a.problem.scale * FT_LOG2_E;

    float own_lse[2] = {}, own_delta[2] = {};
    if (!OF_KEYS)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            own_lse[h] = lse_of(a, at, first + lane / 4 + h * 8);
            own_delta[h] = delta_of(a, at, first + lane / 4 + h * 8);
        }
    float result0[D / 8][4], result1[OF_KEYS ? D / 8 : 1][4];
    if (rows.other_count > 0) {
        unsigned own0[LEFT0_IN_REGISTERS ? D / 16 : 1][4], own1[LEFT1_IN_REGISTERS ? D / 16 : 1][4];
        unsigned left0[OTHER / 16][4], left1[OF_KEYS ? OTHER / 16 : 1][4];
        float s[OTHER / 8][4], dp[OTHER / 8][4];
        auto others_of = [&](int tile) { return bytes + p::OTHERS_AT + tile % BUFFERS * p::PAIR; };
        auto begin_p = [&](int tile) {
            ft_wait_together(signal->others + tile % BUFFERS, parity_of(tile));
            begin_scores<T, D, LEFT0_IN_REGISTERS>(s, own0, own_tiles, others_of(tile));
        };
        auto begin_dp = [&](int tile) {
            begin_scores<T, D, LEFT1_IN_REGISTERS>(dp, own1, own_tiles + p::MATRIX, others_of(tile) + p::MATRIX);
        };
        auto rows_of = [&](int tile) { return reinterpret_cast<const query_rows *>(bytes + p::ROWS_AT) + tile % BUFFERS; };
        auto exponentiate_all = [&](int tile) {
            exponentiate<OF_KEYS>(s, factor, own_lse, rows_of(tile), rows.other_count - tile * OTHER);
        };
        auto make = [&](int tile) { // of them what the results' products want
            make_left<T, OF_KEYS>(left0, left1, s, dp, filter, a.problem.keep_scale, own_delta, rows_of(tile), first, tile * OTHER);
        };
        auto add = [&](int tile) { // to the results, a group
            begin_sums<T, D>(result0, left0, others_of(tile), tile == 0);
            if constexpr (OF_KEYS) begin_sums<T, D>(result1, left1, others_of(tile) + p::MATRIX, tile == 0);
            ft_wgmma_commit();
        };
        ft_wait_together(signal->own + group, 0);
        if constexpr (LEFT0_IN_REGISTERS) ft_left_of_matrix<D>(own0, own_tiles, TILE, own);
        if constexpr (LEFT1_IN_REGISTERS) ft_left_of_matrix<D>(own1, own_tiles + p::MATRIX, TILE, own);
        begin_p(0);
        begin_dp(0);
        ft_wgmma_wait<1>(s);
        exponentiate_all(0);
        ft_wgmma_wait<0>(dp);
        int tile = 0;
        for (; (tile + 1) * OTHER < rows.other_count; tile++) {
            make(tile);
            if constexpr (AHEAD) {
                begin_p(tile + 1);
                begin_dp(tile + 1);
                add(tile);
                ft_wgmma_wait<2>(s);
                exponentiate_all(tile + 1);
                ft_wgmma_wait<0>(dp);
                ft_wgmma_hold(own0);
                if constexpr (LEFT1_IN_REGISTERS) ft_wgmma_hold(own1);
                ft_wgmma_hold(left0); // the next ones come into these registers
                if constexpr (OF_KEYS) ft_wgmma_hold(left1);
                if (OF_KEYS) __syncwarp(); // all lanes have read lse and D
                if (lane == 0) ft_mbarrier_arrive(signal->free + tile % BUFFERS);
                __syncwarp(); // products are of whole warps
            } else {
                add(tile);
                ft_wgmma_wait<0>(result0);
                ft_wgmma_hold(left0);
                if constexpr (OF_KEYS) ft_wgmma_hold(left1);
                if (OF_KEYS) __syncwarp(); // all lanes have read lse and D
                if (lane == 0) ft_mbarrier_arrive(signal->free + tile % BUFFERS);
                begin_p(tile + 1);
                begin_dp(tile + 1);
                ft_wgmma_wait<1>(s);
                exponentiate_all(tile + 1);
                ft_wgmma_wait<0>(dp);
            }
        }
        make(tile);
        add(tile);
        ft_wgmma_wait<0>(result0);
        ft_wgmma_hold(left0);
        if constexpr (OF_KEYS) {
            ft_wgmma_wait<0>(result1);
            ft_wgmma_hold(left1);
        }
        if (!LEFT1_IN_REGISTERS) { // products of other warps may read rows of this one
            if (lane == 0) ft_mbarrier_arrive(signal->own_read + group);
            ft_wait_together(signal->own_read + group, 0);
        }
    } else {
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                result0[n][e] = 0.0f;
                if (OF_KEYS) result1[n][e] = 0.0f;
            }
    }

    // Through the own tiles, whose rows nobody but their warp uses any more.
    __syncwarp();
    const float scale[2] = {a.problem.scale, a.problem.scale}, keep_scale[2] = {a.problem.keep_scale, a.problem.keep_scale};
    ft_sums_to_matrix<T, D>(own_tiles, TILE, own, result0, scale);
    if constexpr (OF_KEYS) ft_sums_to_matrix<T, D>(own_tiles + p::MATRIX, TILE, own, result1, keep_scale);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < (OF_KEYS ? 2 : 1); i++)
        ft_store_matrix<T, D>(a.result[i].data + int64_t(rows.own_row + first) * a.result[i].stride + at.head * D, a.result[i].stride,
                              own_tiles + i * p::MATRIX, TILE, own, rows.own_count - first);
}

template <class T, int D, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(FT_GROUPS_THREADS, 1)
    attention_warpgroup_backward(FT_MAP_ARGUMENT(own0), FT_MAP_ARGUMENT(own1), FT_MAP_ARGUMENT(other0), FT_MAP_ARGUMENT(other1),
                                 pass_arguments<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    const ft_attention_place at = ft_attention_place_of(a.problem);
    const pass_rows rows = {OF_KEYS ? at.first_key : at.first_query, OF_KEYS ? at.keys : at.queries, OF_KEYS ? at.first_query : at.first_key,
                            OF_KEYS ? at.queries : at.keys, at.tile * FT_GROUPS_ROWS};
    const int group = int(threadIdx.x) / FT_GROUP;
    if (rows.first >= rows.own_count) return;
    signals *const signal = reinterpret_cast<signals *>(bytes + plan<D, OF_KEYS>::BARRIERS_AT);
    if (threadIdx.x == 0) {
        const unsigned users = rows.first + FT_GROUP_ROWS < rows.own_count ? 4 * FT_GROUPS : 4; // warps: of a group without rows none
        ft_mbarrier_init(&signal->last_others, 1);
        for (int i = 0; i < BUFFERS; i++) {
            ft_mbarrier_init(signal->others + i, OF_KEYS ? 2 : 1); // tiles, and rows of queries
            ft_mbarrier_init(signal->free + i, users);
        }
        for (int i = 0; i < FT_GROUPS; i++) {
            ft_mbarrier_init(signal->own + i, 1);
            ft_mbarrier_init(signal->own_read + i, 4);
        }
        ft_mbarrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        ft_registers_give<FT_COPY_REGISTERS>();
        const int warp = rows.other_count > 0 ? int(threadIdx.x) / FT_WARP : 4;
        if (warp == 0) bring<D, OF_KEYS>(bytes, signal, own0, own1, other0, other1, at.head * D, rows);
        if (OF_KEYS && warp == 1) bring_rows(reinterpret_cast<query_rows *>(bytes + plan<D, OF_KEYS>::ROWS_AT), signal, a, at);
    } else {
        ft_registers_take<FT_PRODUCT_REGISTERS>();
        if (rows.first + (group - 1) * FT_GROUP_ROWS < rows.own_count) multiply<T, D, OF_KEYS>(bytes, signal, a, at, rows);
    }
#else
    __trap(); // ft_attention_asks_for_warpgroups does not let it come to this
#endif
}

template <class T, int D, bool OF_KEYS>
ft_status run_pass(ft_device *device, const ft_attention_backward_args &a, const float *delta, const ft_cu_tensor_map (&maps)[4]) {
    const int longest = OF_KEYS ? a.shape.max_keys : a.shape.max_queries;
    if (longest == 0) return FT_OK;
    const pass_arguments<T> arguments = {{ft_view_of<T>(OF_KEYS ? a.dk : a.dq), ft_view_of<T>(OF_KEYS ? a.dv : a.dq)},
                                         ft_view_of<const float>(a.lse),
                                         delta,
                                         ft_attention_problem_of(a.shape, longest, FT_GROUPS_ROWS)};
    const ft_cu_tensor_map *const own = maps + (OF_KEYS ? 2 : 0), *const other = maps + (OF_KEYS ? 0 : 2);
    return ft_launch("attention_warpgroup_backward", attention_warpgroup_backward<T, D, OF_KEYS>,
                     ft_attention_grid(arguments.problem, a.shape.sequences), dim3(FT_GROUPS_THREADS), plan<D, OF_KEYS>::SHARED,
                     ft_stream(device), own[0], own[1], other[0], other[1], arguments);
}

template <class T, int D> ft_status run(ft_device *device, const ft_attention_backward_args &a, const float *delta) {
    const ft_tensor *const views[4] = {&a.q, &a.dout, &a.k, &a.v};
    ft_cu_tensor_map maps[4];
    for (int i = 0; i < 4; i++)
        FT_TRY(ft_tensor_map_of(device, *views[i], OTHER, &maps[i]));
    FT_TRY((run_pass<T, D, false>(device, a, delta, maps)));
    return run_pass<T, D, true>(device, a, delta, maps);
}

} // namespace

ft_status ft_attention_warpgroup_backward(ft_device *device, const ft_attention_backward_args &a, const float *delta) {
    if (a.q.dtype == FT_F16) return a.shape.head_dim == 64 ? run<__half, 64>(device, a, delta) : run<__half, 128>(device, a, delta);
    return a.shape.head_dim == 64 ? run<__nv_bfloat16, 64>(device, a, delta) : run<__nv_bfloat16, 128>(device, a, delta);
}
