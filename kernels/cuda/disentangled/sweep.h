// sweep.h - the walk of a warp over a head on tensor cores, shared by forward.cu and
// backward.cu. `own`, `other` and u as in disentangled.h.
//
// A warp owns a strip of 16 rows; a step is 16 rows of the other side, for all strips of the block. Both tables come in
// chunks: row o of chunk a is the table's row for u = 16a - o, so the strip that begins at row I meets, at step k, chunks
// I/16 - k and the one behind it. The next step needs one new chunk. A chunk's product with the own rows, or with the
// rows of the step, depends on the distance alone and is skewed to where the scores are (tile/skew.h):
//     own term    own rows . own table: every chunk once a strip, its words kept for the next step
//     other term  other table . other rows: two chunks at every step
// So nothing is gathered from shared memory, and any map from distances to rows will do: the loader alone knows slots.
//
// Words of positional products are fp16 whatever the rows are, in units of a power of two near 1 / scale: products up to
// 65504 / scale have the precision of fp16, larger ones the largest number instead of infinity.
#ifndef FT_CUDA_DISENTANGLED_SWEEP_H
#define FT_CUDA_DISENTANGLED_SWEEP_H

#include "kernels/cuda/disentangled/disentangled.h"
#include "kernels/cuda/tile/skew.h"

constexpr int FT_SWEEP_STRIPS = 4, FT_SWEEP_ROWS = FT_SWEEP_STRIPS * FT_CUDA_STRIP, FT_SWEEP_THREADS = FT_SWEEP_STRIPS * FT_WARP;

FT_HOST_DEVICE constexpr int ft_chunk_elements(int head_dim) { return FT_CUDA_STRIP * ft_tile_stride(head_dim); }
// Chunks of a table in shared memory: those of a step, and `ahead` that are on their way.
FT_HOST_DEVICE constexpr int ft_table_chunks(int ahead) { return FT_SWEEP_STRIPS + 1 + ahead; }

template <class T> struct ft_sweep_tables {
    ft_view<const T> own, other; // either may be absent
    ft_position_slots slots;
    float shrink, grow; // of positional products: powers of two, one the inverse of the other
};
template <class T>
static inline ft_sweep_tables<T> ft_sweep_tables_of(const ft_disentangled_shape &shape, const ft_tensor &own,
                                                    const ft_tensor &other) {
    int exponent = 0;
    while (exponent < 14 && shape.attention.scale * float(1 << exponent) < 1.0f)
        exponent++;
    return {ft_view_of<const T>(own), ft_view_of<const T>(other), ft_position_slots_of(shape), 1.0f / float(1 << exponent),
            float(1 << exponent)};
}

// Starts the copies of 16 rows; rows from `valid` on become zeros. All threads of the block take part.
template <int D, class T> FT_DEVICE void ft_load_chunk(T *chunk, const T *rows, int64_t stride, int valid) {
    constexpr int UNITS = D / 8; // of 16 bytes
#pragma unroll
    for (int first = 0; first < FT_CUDA_STRIP * UNITS; first += FT_SWEEP_THREADS) {
        const int i = first + int(threadIdx.x);
        if (FT_CUDA_STRIP * UNITS % FT_SWEEP_THREADS != 0 && i >= FT_CUDA_STRIP * UNITS) continue;
        const auto [row, column] = ft_tile_chunk_of<D>(i);
        const bool there = row < valid;
        ft_copy_async16_or_zero(chunk + row * ft_tile_stride(D) + column, rows + (there ? row * stride : 0) + column, there);
    }
}
// The same of chunk a of both tables. Distances that the sequence has not are taken for the nearest that it has: rows of
// others may be anything.
template <int D, bool OF_KEYS, class T>
FT_DEVICE void ft_load_table_chunks(T *own, T *other, const ft_sweep_tables<T> &tables, int a, int lowest, int highest,
                                    int head_column) {
    constexpr int UNITS = D / 8;
#pragma unroll
    for (int first = 0; first < FT_CUDA_STRIP * UNITS; first += FT_SWEEP_THREADS) {
        const int i = first + int(threadIdx.x);
        if (FT_CUDA_STRIP * UNITS % FT_SWEEP_THREADS != 0 && i >= FT_CUDA_STRIP * UNITS) continue;
        const auto [row, column] = ft_tile_chunk_of<D>(i);
        int u = FT_CUDA_STRIP * a - row;
        u = u < lowest ? lowest : u > highest ? highest : u;
        const int64_t slot = tables.slots.of(OF_KEYS ? -u : u);
        const int to = row * ft_tile_stride(D) + column;
        if (tables.own.data != nullptr) ft_copy_async16(own + to, tables.own.at(slot, head_column + column));
        if (tables.other.data != nullptr) ft_copy_async16(other + to, tables.other.at(slot, head_column + column));
    }
}

// Own rows as left operands, from global memory: rows from `valid` on are zeros.
template <int D, class T>
FT_DEVICE void ft_left_of_rows(unsigned (&left)[4], const T *rows, int64_t stride, int valid, int column) {
    const int lane = int(threadIdx.x) % FT_WARP;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const int row = lane / 4 + q % 2 * 8, place = column + q / 2 * 8 + lane % 4 * 2;
        left[q] = row < valid ? *reinterpret_cast<const unsigned *>(rows + row * stride + place) : 0u;
    }
}

// Where a strip's chunks are in the ring of a table, in elements: `now` of chunk I/16 - k, `before` of the one behind it.
template <int D, int CHUNKS> struct ft_chunk_ring {
    int now, before;
    FT_METHOD explicit ft_chunk_ring(int strip)
        : now((FT_SWEEP_STRIPS - strip) * ft_chunk_elements(D)), before(now - ft_chunk_elements(D)) {}
    FT_METHOD static int next(int place) {
        return place + ft_chunk_elements(D) == CHUNKS * ft_chunk_elements(D) ? 0 : place + ft_chunk_elements(D);
    }
    FT_METHOD void advance() {
        before = now;
        now = next(now);
    }
};

// left(a, c): the own rows' columns from 16c on as left operand; right(b, c): these columns of a chunk of the own table as two right
// operands whose columns are spread. UNROLL: how many of these are on their way at once; all of them, where they are kept in registers.
template <int D, int UNROLL, class T, class Left, class Right> FT_DEVICE ft_row_words ft_own_term(float shrink, Left left, Right right) {
    float first[4] = {}, second[4] = {};
#pragma unroll UNROLL
    for (int c = 0; c < D / 16; c++) {
        unsigned a[4], b[4];
        left(a, c);
        right(b, c);
        ft_mma<T>(first, a, b[0], b[1]);
        ft_mma<T>(second, a, b[2], b[3]);
    }
    return ft_row_words_of(first, second, shrink);
}
// The other table's chunk that was met a step before, as left operand: kept in registers, where there is room, as every
// chunk but the ends is met twice.
template <int D, bool KEPT> struct ft_chunk_behind {
    unsigned words[KEPT ? D / 16 : 1][4];
};
template <int D, bool KEPT, class T>
FT_DEVICE void ft_load_behind(ft_chunk_behind<D, KEPT> &behind, const T *chunk, const ft_chunk_lane<D> &lane) {
    if constexpr (KEPT)
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_ldmatrix_x4(behind.words[c], chunk + lane.reversed + c * 16);
}
// Scores of a strip with 16 other rows in shared memory, in spread columns. left, own_right as above; right(b, c): of the other rows.
// carry: the own term of the chunk before, afterwards that of this one; if it is kept, `behind` has the other table's chunk before
// and `next` gets this one (the same, or another where a loop is unrolled by two), else other_before is read.
template <int D, int UNROLL, bool KEPT, class T, class Left, class OwnRight, class Right>
FT_DEVICE void ft_sweep_scores(float (&scores)[2][4], const ft_sweep_tables<T> &tables, const T *other_chunk, const T *other_before,
                               const ft_chunk_lane<D> &lane, const ft_skew &skew, ft_row_words &carry, ft_chunk_behind<D, KEPT> &behind,
                               ft_chunk_behind<D, KEPT> &next, Left left, OwnRight own_right, Right right) {
    static_assert(!KEPT || UNROLL == D / 16); // else the words are not registers
#pragma unroll
    for (int i = 0; i < 8; i++)
        scores[i / 4][i % 4] = 0.0f;
    if (tables.own.data != nullptr) {
        const ft_row_words words = ft_own_term<D, UNROLL, T>(tables.shrink, left, own_right);
        ft_skew_rows(scores, skew, carry, words, tables.grow);
        carry = words;
    }
    if (tables.other.data == nullptr) {
#pragma unroll UNROLL
        for (int c = 0; c < D / 16; c++) {
            unsigned a[4], b[4];
            right(b, c);
            left(a, c);
            ft_mma<T>(scores[0], a, b[0], b[1]);
            ft_mma<T>(scores[1], a, b[2], b[3]);
        }
        return;
    }
    float low[2][4] = {}, high[2][4] = {};
#pragma unroll UNROLL
    for (int c = 0; c < D / 16; c++) {
        unsigned a[4], b[4], now[4], (&before)[4] = behind.words[KEPT ? c : 0];
        right(b, c);
        left(a, c);
        ft_mma<T>(scores[0], a, b[0], b[1]);
        ft_mma<T>(scores[1], a, b[2], b[3]);
        ft_ldmatrix_x4(now, other_chunk + lane.reversed + c * 16);
        ft_mma<T>(low[0], now, b[0], b[1]);
        ft_mma<T>(low[1], now, b[2], b[3]);
        if (!KEPT) ft_ldmatrix_x4(before, other_before + lane.reversed + c * 16);
        ft_mma<T>(high[0], before, b[0], b[1]);
        ft_mma<T>(high[1], before, b[2], b[3]);
        if (KEPT)
#pragma unroll
            for (int q = 0; q < 4; q++)
                next.words[c][q] = now[q];
    }
    ft_skew_columns(scores, skew, ft_column_words_of(low[0], low[1], tables.shrink),
                    ft_column_words_of(high[0], high[1], tables.shrink), tables.grow);
}

// The column of a score, within its 16, of accumulator b and element e.
FT_DEVICE int ft_spread_column(int b, int e) { return 8 * b + int(threadIdx.x) % 4 + 4 * (e % 2); }

#endif
