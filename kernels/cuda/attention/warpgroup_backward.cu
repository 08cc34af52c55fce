// warpgroup_backward.cu - gradients of attention on the instructions of sm_90a alone: the two passes of backward.cu,
// in its words. A block has 128 own rows, 64 a warpgroup; one warp asks the copy engine for tiles of 64 others, both matrices of
// them, in three buffers. Before a tile's sums the scores and <dout, V> of the next one are queued, so that its P is made while the
// tensor cores are at those sums; not in the pass of keys at 128 columns, whose sums leave no registers for that.
// dS and P go from registers into their products. In the pass of keys they are transposed, which costs nothing: keys are its rows. What belongs
// to a query, lse and D, lies in shared memory there, brought with the query's tile.
// BANDED below, as in warpgroup.cu: there is a window, or causality, or heads share keys. In the pass of keys the tiles of the heads that share
// them follow each other, and the sums go on from one head to the next.
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
    int own_column, other_column;                          // the latter of the first head
    int heads;                                             // whose others come, one after the other
    ft_attention_span span;                                // of the others those that the block reaches
};
// A tile of others: how many came before it, where it begins, and of which of the heads it is.
struct turn {
    int number, base, head;
};

// Of the row `query` of a sequence; past the last one they are not read.
template <class T> FT_DEVICE float lse_of(const pass_arguments<T> &a, const ft_attention_place &at, int head, int query) {
    return query < at.queries ? a.lse.data[(at.first_query + query) * a.lse.stride + head] * FT_LOG2_E : 0.0f;
}
template <class T> FT_DEVICE float delta_of(const pass_arguments<T> &a, const ft_attention_place &at, int head, int query) {
    return query < at.queries ? a.delta[int64_t(at.first_query + query) * a.problem.heads + head] : 0.0f;
}

// What `count` own rows from `first` on reach of the others.
template <bool OF_KEYS, bool BANDED>
FT_DEVICE ft_attention_span others_of_rows(const ft_attention_problem &problem, int first, int count, int own_count, int other_count) {
    if (!BANDED) return {0, other_count};
    return ft_attention_span_of<OTHER, OF_KEYS>(problem, first, own_count - first < count ? own_count - first : count, other_count);
}

// A buffer's turn: the number of a tile of others.
[[maybe_unused]] FT_DEVICE unsigned parity_of(int tile) { return unsigned(tile / BUFFERS & 1); }

// One warp brings tiles. Its first lane alone waits for room: others might come when that phase is over, and wait for the next of its parity.
template <int D, bool OF_KEYS>
FT_DEVICE void bring(unsigned char *bytes, signals *signal, const ft_cu_tensor_map &own0, const ft_cu_tensor_map &own1,
                     const ft_cu_tensor_map &other0, const ft_cu_tensor_map &other1, const pass_rows &rows) {
    using p = plan<D, OF_KEYS>;
    const int lane = int(threadIdx.x) % FT_WARP;
    auto copy_pair = [&](unsigned char *to, const ft_cu_tensor_map &first, const ft_cu_tensor_map &second, int column, int row, ft_mbarrier *arrives) {
        ft_mbarrier_arrive_expect(arrives, p::PAIR);
        ft_copy_matrix<D>(to, first, TILE, column, row, arrives);
        ft_copy_matrix<D>(to + p::MATRIX, second, TILE, column, row, arrives);
    };
#pragma unroll 1
    for (int i = 0; i < FT_GROUPS && lane == 0; i++)
        if (rows.first + i * FT_GROUP_ROWS < rows.own_count)
            copy_pair(bytes + i * p::PAIR, own0, own1, rows.own_column, rows.own_row + rows.first + i * FT_GROUP_ROWS, signal->own + i);
    int i = 0;
#pragma unroll 1
    for (int head = 0; head < rows.heads; head++)
#pragma unroll 1
        for (int base = rows.span.first; base < rows.span.end; base += OTHER, i++) {
            const int buffer = i % BUFFERS, valid = rows.other_count - base;
            unsigned char *const others = bytes + p::OTHERS_AT + buffer * p::PAIR;
            if (lane == 0) {
                ft_mbarrier_wait(signal->free + buffer, parity_of(i) ^ 1);
                copy_pair(others, other0, other1, rows.other_column + head * D, rows.other_row + base,
                          valid >= OTHER ? signal->others + buffer : &signal->last_others);
            }
            if (valid >= OTHER) continue;
            __syncwarp();
            ft_wait_together(&signal->last_others, head & 1);
            ft_zero_rows<D>(others, TILE, valid, OTHER);
            ft_zero_rows<D>(others + p::MATRIX, TILE, valid, OTHER);
            __syncwarp();
            if (lane == 0) ft_mbarrier_arrive(signal->others + buffer);
        }
}

// Another one, in the pass of keys: lse and D of each tile. `first_head`: of those that share the keys.
template <class T>
FT_DEVICE void bring_rows(query_rows *of_tiles, signals *signal, const pass_arguments<T> &a, const ft_attention_place &at, const pass_rows &rows,
                          int first_head) {
    const int lane = int(threadIdx.x) % FT_WARP;
    int i = 0;
#pragma unroll 1
    for (int head = first_head; head < first_head + rows.heads; head++)
#pragma unroll 1
        for (int base = rows.span.first; base < rows.span.end; base += OTHER, i++) {
            query_rows *const of_tile = of_tiles + i % BUFFERS;
            float lse[2], delta[2]; // on their way while there is no room yet
#pragma unroll
            for (int h = 0; h < 2; h++) {
                lse[h] = lse_of(a, at, head, base + lane + h * FT_WARP);
                delta[h] = delta_of(a, at, head, base + lane + h * FT_WARP);
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

// Scores become P. `valid`: how many of the tile's others are there, OTHER unless it is the last. The tile begins at row `base`, the warp's own rows
// at `own`.
template <bool OF_KEYS, bool BANDED>
FT_DEVICE void exponentiate(float (&s)[OTHER / 8][4], float factor, const float (&own_lse)[2], const query_rows *of_tile, int valid,
                            const ft_attention_problem &problem, int own, int base) {
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
    bool partly = valid < OTHER;
    if (BANDED) partly = partly || !ft_attention_reaches_all<OF_KEYS>(problem, own, 16, base, OTHER);
    if (partly) {
        const int here = own - base + int(threadIdx.x) % FT_WARP / 4; // the lane's first own row, counted from the tile's first row
#pragma unroll
        for (int n = 0; n < OTHER / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int there = n * 8 + t + e % 2, mine = here + e / 2 * 8;
                if (there >= valid || (BANDED && !ft_attention_sees(problem, OF_KEYS ? there : mine, OF_KEYS ? mine : there))) s[n][e] = 0.0f;
            }
    }
}

// Of P and <dout, V> what the products want: dS, and of keys P where it was kept. `own` and `base`: of the first row and column. Whether anything is
// dropped is asked once a tile: in a branch for every 16 columns ptxas makes the seven keys of Philox anew, and copies what the other branch changes. (For
// keys in bands it is asked so: they have no registers for these.)
template <class T, bool OF_KEYS, bool BANDED, int L>
FT_DEVICE void make_left(unsigned (&left0)[OTHER / 16][4], unsigned (&left1)[L][4], float (&s)[OTHER / 8][4], float (&dp)[OTHER / 8][4],
                         const ft_score_filter &filter, float keep_scale, const float (&own_delta)[2], const query_rows *of_tile, int own, int base) {
    const int t = int(threadIdx.x) % 4 * 2;
    auto make = [&](int c, auto keeps) { // of 16 columns
        float2 of_column[2] = {};
        if (OF_KEYS)
#pragma unroll
            for (int h = 0; h < 2; h++)
                of_column[h] = *reinterpret_cast<const float2 *>(of_tile->delta + c * 16 + h * 8 + t);
#pragma unroll
        for (int q = 0; q < 8; q++) {
            const int n = 2 * c + q / 4, e = q % 4;
            const bool keep = keeps(q);
            const float delta = !OF_KEYS ? own_delta[e / 2] : e % 2 == 0 ? of_column[q / 4].x : of_column[q / 4].y;
            dp[n][e] = s[n][e] * fmaf(keep ? dp[n][e] : 0.0f, keep_scale, -delta);
            if (OF_KEYS && !keep) s[n][e] = 0.0f;
        }
        ft_left_of<T>(left0[c], dp[2 * c], dp[2 * c + 1]);
        if constexpr (OF_KEYS) ft_left_of<T>(left1[c], s[2 * c], s[2 * c + 1]);
    };
    auto make_all = [&](int c) { make(c, [](int) { return true; }); };
    auto make_kept = [&](int c) {
        const ft_kept_16x16 kept = ft_kept_of_16x16<OF_KEYS>(filter, own, base + c * 16);
        make(c, [&](int q) { return ft_is_kept<OF_KEYS>(kept, q); });
    };
    if constexpr (OF_KEYS && BANDED) {
#pragma unroll
        for (int c = 0; c < OTHER / 16; c++)
            if (filter.threshold != 0) make_kept(c);
            else make_all(c);
    } else if (filter.threshold != 0) {
#pragma unroll
        for (int c = 0; c < OTHER / 16; c++) make_kept(c);
    } else {
#pragma unroll
        for (int c = 0; c < OTHER / 16; c++) make_all(c);
    }
}

template <class T, int D, bool OF_KEYS, bool BANDED>
FT_DEVICE void multiply(unsigned char *bytes, signals *signal, const pass_arguments<T> &a, const ft_attention_place &at, const pass_rows &rows) {
    using p = plan<D, OF_KEYS>;
    // Own rows as left operands in registers, where sums of results leave some: both matrices, the first, or none. And with two results of
    // 128 columns a tile's scores have to wait for the sums of the tile before.
    constexpr bool LEFT0_IN_REGISTERS = D == 64 || !OF_KEYS, LEFT1_IN_REGISTERS = D == 64, AHEAD = LEFT0_IN_REGISTERS;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP - 4, group = warp / 4;
    const int own = warp % 4 * 16, first = rows.first + warp * 16; // the warp's rows of the group's tile, and of the sequence
    unsigned char *const own_tiles = bytes + group * p::PAIR;
    ft_score_filter filter = ft_score_filter_of(a.problem, at); // (in a pass of keys of several heads, one after the other: of the tile's)
    const float factor = a.problem.scale * FT_LOG2_E;

    // A tile that this group has no use for is given back when it has come, and no sooner: its buffer's turn may be that of an earlier one still.
    // A group passes over one of a head's at most, as it has as many rows as a tile; beside the two that it may hold there is a buffer for that.
    static_assert(BUFFERS >= 3, "the tile at hand, one that is passed over, the next one");
    const int of_group = rows.first + group * FT_GROUP_ROWS;
    const ft_attention_span mine = others_of_rows<OF_KEYS, BANDED>(a.problem, of_group, FT_GROUP_ROWS, rows.own_count, rows.other_count);
    auto pass_over = [&](int number) {
        ft_wait_together(signal->others + number % BUFFERS, parity_of(number));
        if (lane == 0) ft_mbarrier_arrive(signal->free + number % BUFFERS);
    };
    auto to_mine = [&](turn t) { // over what comes before it
#pragma unroll 1
        for (; t.base < mine.first; t.base += OTHER, t.number++)
            pass_over(t.number);
        return t;
    };
    auto next_of = [&](turn t) {
        t.number++;
        if constexpr (BANDED) {
            t.base += OTHER;
            if (t.base >= mine.end) {
#pragma unroll 1
                for (; t.base < rows.span.end; t.base += OTHER, t.number++)
                    pass_over(t.number);
                t.head++;
                t.base = rows.span.first;
                if (t.head < rows.heads) t = to_mine(t);
            }
        }
        return t;
    };
    auto base_of = [&](const turn &t) { return BANDED ? t.base : t.number * OTHER; };
    auto is_there = [&](const turn &t) { return BANDED ? t.head < rows.heads : t.number * OTHER < rows.other_count; };
    const bool reaches = BANDED ? mine.first < mine.end : rows.other_count > 0;
    if constexpr (BANDED)
        if (!reaches && rows.span.first < rows.span.end) {
            ft_wait_together(signal->own + group, 0); // results go where they come
            int number = 0;
#pragma unroll 1
            for (int head = 0; head < rows.heads; head++)
#pragma unroll 1
                for (int base = rows.span.first; base < rows.span.end; base += OTHER)
                    pass_over(number++);
        }

    float own_lse[2] = {}, own_delta[2] = {};
    if (!OF_KEYS)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            own_lse[h] = lse_of(a, at, at.head, first + lane / 4 + h * 8);
            own_delta[h] = delta_of(a, at, at.head, first + lane / 4 + h * 8);
        }
    float result0[D / 8][4], result1[OF_KEYS ? D / 8 : 1][4];
    if (reaches) {
        unsigned own0[LEFT0_IN_REGISTERS ? D / 16 : 1][4], own1[LEFT1_IN_REGISTERS ? D / 16 : 1][4];
        unsigned left0[OTHER / 16][4], left1[OF_KEYS ? OTHER / 16 : 1][4];
        float s[OTHER / 8][4], dp[OTHER / 8][4];
        auto others_of = [&](const turn &tile) { return bytes + p::OTHERS_AT + tile.number % BUFFERS * p::PAIR; };
        auto begin_p = [&](const turn &tile) {
            ft_wait_together(signal->others + tile.number % BUFFERS, parity_of(tile.number));
            begin_scores<T, D, LEFT0_IN_REGISTERS>(s, own0, own_tiles, others_of(tile));
        };
        auto begin_dp = [&](const turn &tile) {
            begin_scores<T, D, LEFT1_IN_REGISTERS>(dp, own1, own_tiles + p::MATRIX, others_of(tile) + p::MATRIX);
        };
        auto rows_of = [&](const turn &tile) { return reinterpret_cast<const query_rows *>(bytes + p::ROWS_AT) + tile.number % BUFFERS; };
        auto exponentiate_all = [&](const turn &tile) {
            exponentiate<OF_KEYS, BANDED>(s, factor, own_lse, rows_of(tile), rows.other_count - base_of(tile), a.problem, first, base_of(tile));
        };
        auto make = [&](const turn &tile) { // of them what the results' products want
            make_left<T, OF_KEYS, BANDED>(left0, left1, s, dp, filter, a.problem.keep_scale, own_delta, rows_of(tile), first, base_of(tile));
        };
        turn tile = {0, rows.span.first, 0};
        if constexpr (BANDED) tile = to_mine(tile);
        auto is_first = [&](const turn &t) { return BANDED ? t.head == 0 && t.base == mine.first : t.number == 0; };
        auto add = [&](const turn &t) { // to the results, a group
            begin_sums<T, D>(result0, left0, others_of(t), is_first(t));
            if constexpr (OF_KEYS) begin_sums<T, D>(result1, left1, others_of(t) + p::MATRIX, is_first(t));
            ft_wgmma_commit();
        };
        ft_wait_together(signal->own + group, 0);
        if constexpr (LEFT0_IN_REGISTERS) ft_left_of_matrix<D>(own0, own_tiles, TILE, own);
        if constexpr (LEFT1_IN_REGISTERS) ft_left_of_matrix<D>(own1, own_tiles + p::MATRIX, TILE, own);
        begin_p(tile);
        begin_dp(tile);
        ft_wgmma_wait<1>(s);
        exponentiate_all(tile);
        ft_wgmma_wait<0>(dp);
        for (turn next = next_of(tile); is_there(next); next = next_of(tile)) {
            make(tile);
            if constexpr (AHEAD) {
                begin_p(next);
                begin_dp(next);
                add(tile);
                ft_wgmma_wait<2>(s);
                exponentiate_all(next);
                ft_wgmma_wait<0>(dp);
                ft_wgmma_hold(own0);
                if constexpr (LEFT1_IN_REGISTERS) ft_wgmma_hold(own1);
                ft_wgmma_hold(left0); // the next ones come into these registers
                if constexpr (OF_KEYS) ft_wgmma_hold(left1);
                if (OF_KEYS) __syncwarp(); // all lanes have read lse and D
                if (lane == 0) ft_mbarrier_arrive(signal->free + tile.number % BUFFERS);
                __syncwarp(); // products are of whole warps
            } else {
                add(tile);
                ft_wgmma_wait<0>(result0);
                ft_wgmma_hold(left0);
                if constexpr (OF_KEYS) ft_wgmma_hold(left1);
                if (OF_KEYS) __syncwarp(); // all lanes have read lse and D
                if (lane == 0) ft_mbarrier_arrive(signal->free + tile.number % BUFFERS);
                begin_p(next);
                begin_dp(next);
                ft_wgmma_wait<1>(s);
                exponentiate_all(next);
                ft_wgmma_wait<0>(dp);
            }
            if (BANDED && OF_KEYS) filter.slot_head += uint32_t(next.head - tile.head);
            tile = next;
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
        ft_store_matrix<T, D>(a.result[i].data + int64_t(rows.own_row + first) * a.result[i].stride + rows.own_column, a.result[i].stride,
                              own_tiles + i * p::MATRIX, TILE, own, rows.own_count - first);
}

template <class T, int D, bool OF_KEYS, bool BANDED>
FT_DEVICE void warpgroup_block(unsigned char *bytes, const ft_cu_tensor_map &own0, const ft_cu_tensor_map &own1, const ft_cu_tensor_map &other0,
                               const ft_cu_tensor_map &other1, const pass_arguments<T> &a) {
    ft_attention_place at = ft_attention_place_of(a.problem);
    if (BANDED && !OF_KEYS) at.tile = a.problem.tiles - 1 - at.tile; // causal: those with the most others first
    const int column = at.head * D, shares = BANDED ? a.problem.group : 1;
    if (BANDED && OF_KEYS) at.head *= shares; // from here on the first of those that share the keys
    pass_rows rows = {OF_KEYS ? at.first_key : at.first_query, OF_KEYS ? at.keys : at.queries, OF_KEYS ? at.first_query : at.first_key,
                      OF_KEYS ? at.queries : at.keys, at.tile * FT_GROUPS_ROWS, column, (OF_KEYS ? at.head : at.head / shares) * D,
                      OF_KEYS ? shares : 1, {}};
    const int group = int(threadIdx.x) / FT_GROUP;
    if (rows.first >= rows.own_count) return;
    rows.span = others_of_rows<OF_KEYS, BANDED>(a.problem, rows.first, FT_GROUPS_ROWS, rows.own_count, rows.other_count);
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
        const int warp = rows.span.first < rows.span.end ? int(threadIdx.x) / FT_WARP : 4;
        if (warp == 0) bring<D, OF_KEYS>(bytes, signal, own0, own1, other0, other1, rows);
        if (OF_KEYS && warp == 1) bring_rows(reinterpret_cast<query_rows *>(bytes + plan<D, OF_KEYS>::ROWS_AT), signal, a, at, rows, at.head);
    } else {
        ft_registers_take<FT_PRODUCT_REGISTERS>();
        if (rows.first + (group - 1) * FT_GROUP_ROWS < rows.own_count) multiply<T, D, OF_KEYS, BANDED>(bytes, signal, a, at, rows);
    }
}

template <class T, int D, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(FT_GROUPS_THREADS, 1)
    attention_warpgroup_backward(FT_MAP_ARGUMENT(own0), FT_MAP_ARGUMENT(own1), FT_MAP_ARGUMENT(other0), FT_MAP_ARGUMENT(other1),
                                 pass_arguments<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    warpgroup_block<T, D, OF_KEYS, false>(bytes, own0, own1, other0, other1, a);
#else
    __trap(); // ft_attention_takes_warpgroups does not let it come to this
#endif
}
template <class T, int D, bool OF_KEYS>
FT_KERNEL void __launch_bounds__(FT_GROUPS_THREADS, 1)
    attention_warpgroup_banded_backward(FT_MAP_ARGUMENT(own0), FT_MAP_ARGUMENT(own1), FT_MAP_ARGUMENT(other0), FT_MAP_ARGUMENT(other1),
                                        pass_arguments<T> a) {
#ifdef FT_SM_90A
    FT_DYNAMIC_SHARED(bytes);
    warpgroup_block<T, D, OF_KEYS, true>(bytes, own0, own1, other0, other1, a);
#else
    __trap();
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
    dim3 grid = ft_attention_grid(arguments.problem, a.shape.sequences);
    if (OF_KEYS) grid.y = unsigned(ft_attention_key_heads(&a.shape));
    const auto launch = [&](auto kernel) {
        return ft_launch("attention_warpgroup_backward", kernel, grid, dim3(FT_GROUPS_THREADS), plan<D, OF_KEYS>::SHARED, ft_stream(device), own[0],
                         own[1], other[0], other[1], arguments);
    };
    if (ft_attention_is_banded(&a.shape) || arguments.problem.group > 1) return launch(attention_warpgroup_banded_backward<T, D, OF_KEYS>);
    return launch(attention_warpgroup_backward<T, D, OF_KEYS>);
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
