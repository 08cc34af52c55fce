// tiles.h - matrix products of our own on sm_90a, for what their epilogues save: C[M,N] = A[M,K] B, A and B of bf16 or fp16, sums in fp32.
//
// A block for every multiprocessor takes tile after tile of 128 x 256 numbers. It has three warpgroups:
//     a warp asks the copy engine for tiles of 64 terms, three stages ahead;
//     two warpgroups multiply, 64 rows each, and put the sums, rounded, into a staging place of their own;
//     three warps beside the first one work on what is there (the epilogue, the caller's), while these two are at the next tile.
// So tensor cores wait for no epilogue but for the way into the staging place, as long as it takes less than the products of a tile.
// (A fourth warpgroup would leave a thread 128 registers, as many as it has sums: ptxas refuses the product.)
//
// Stages, full and empty, and staging places, staged and free, are handed over by mbarriers. The staging place of 64 rows has rows of 512
// bytes, of which 16 bytes number c of row r lie at c ^ r % 8: sums are written and rows are read without conflicts.
// Tiles follow each other so that those of a wave share rows of A and of B in L2: sixteen tiles of rows, column by column.
// Neither the place of a tile nor who computes it changes a bit: a number is one chain of sums over K.
#ifndef FT_CUDA_PRODUCTS_TILES_H
#define FT_CUDA_PRODUCTS_TILES_H

#include "kernels/cuda/tile/fragment.h"
#include "kernels/cuda/tile/wgmma.h"

namespace ft_product {

constexpr int ROWS = 128, COLUMNS = 256, TERMS = FT_TENSOR_COLUMNS, STAGES = 3, TOGETHER = 16; // TOGETHER: tiles of rows
constexpr int GROUP = 4 * FT_WARP, HALVES = 2, HALF = ROWS / HALVES, THREADS = (1 + HALVES) * GROUP;
constexpr int EPILOGUE_WARPS = 3, EPILOGUE_THREADS = EPILOGUE_WARPS * FT_WARP; // behind the warp that copies

// Bytes of shared memory, and where things begin.
constexpr int A_TILE = ROWS * FT_TENSOR_ROW, B_TILE = COLUMNS * FT_TENSOR_ROW, STAGE = A_TILE + B_TILE;
constexpr int STAGED_ROW = COLUMNS * 2, STAGED = HALF * STAGED_ROW, STAGED_AT = STAGES * STAGE;
constexpr int VECTORS_AT = STAGED_AT + HALVES * STAGED, VECTOR = COLUMNS * 4; // of fp32, one a half: what the epilogue has added to its sums
constexpr int SIGNALS_AT = VECTORS_AT + HALVES * VECTOR, MOST_SHARED = 227 * 1024;

struct signals {
    ft_mbarrier full[STAGES], empty[STAGES]; // of stages
    ft_mbarrier staged[HALVES], free[HALVES]; // of staging places
};
constexpr size_t SHARED = SIGNALS_AT + sizeof(signals);
static_assert(SHARED <= MOST_SHARED, "of a block on 9.0");

struct problem {
    int rows, columns, terms;          // M, N, K
    int row_tiles, column_tiles, tiles; // the last: of all
};
static inline problem problem_of(int64_t rows, int64_t columns, int64_t terms) {
    const int down = int((rows + ROWS - 1) / ROWS), across = int((columns + COLUMNS - 1) / COLUMNS);
    return {int(rows), int(columns), int(terms), down, across, down * across};
}

// Where tile number n begins.
struct place {
    int row, column;
};
FT_DEVICE place place_of(const problem &p, int n) {
    const int band = TOGETHER * p.column_tiles, first = n / band * TOGETHER, in_band = n % band;
    const int height = p.row_tiles - first < TOGETHER ? p.row_tiles - first : TOGETHER;
    return {(first + in_band % height) * ROWS, in_band / height * COLUMNS};
}

// A stage after the other, and the parity of its turn.
struct turn {
    int stage = 0;
    unsigned parity = 0;
    FT_METHOD void next() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

// A lane leaves the wait when it has seen the phase; instructions of whole warps behind it want all of them.
FT_DEVICE void wait_together(ft_mbarrier *barrier, unsigned parity) {
    ft_mbarrier_wait(barrier, parity);
    __syncwarp();
}
// By a warp that is done with what it was given.
FT_DEVICE void hand_over(ft_mbarrier *barrier) {
    __syncwarp();
    if (threadIdx.x % FT_WARP == 0) ft_mbarrier_arrive(barrier);
}

// One lane brings the tiles. TALL: B is [N,K], rows of it are columns of the product; else [K,N].
template <bool TALL>
FT_DEVICE void bring(unsigned char *bytes, signals *signal, const ft_cu_tensor_map &a, const ft_cu_tensor_map &b, const problem &p) {
    turn now;
    for (int n = int(blockIdx.x); n < p.tiles; n += int(gridDim.x)) {
        const place at = place_of(p, n);
        for (int k = 0; k < p.terms; k += TERMS, now.next()) {
            unsigned char *const to = bytes + now.stage * STAGE;
            ft_mbarrier *const full = signal->full + now.stage;
            ft_mbarrier_wait(signal->empty + now.stage, now.parity ^ 1);
            ft_mbarrier_arrive_expect(full, STAGE);
            ft_tensor_copy(to, a, k, at.row, full);
            if (TALL) {
                ft_tensor_copy(to + A_TILE, b, k, at.column, full);
            } else {
#pragma unroll
                for (int i = 0; i < COLUMNS / FT_TENSOR_COLUMNS; i++)
                    ft_tensor_copy(to + A_TILE + i * TERMS * FT_TENSOR_ROW, b, at.column + i * FT_TENSOR_COLUMNS, k, full);
            }
        }
    }
}

// The sums of a tile's 64 rows, for one warpgroup. Products of a stage run while the next one is waited for.
template <class T, bool TALL>
FT_DEVICE void multiply(float (&sums)[COLUMNS / 8][4], const unsigned char *bytes, signals *signal, int half, int terms, turn &now) {
    const int lane = int(threadIdx.x) % FT_WARP;
    int before = -1; // the stage whose products may still run
    ft_wgmma_fence_new(sums);
#pragma unroll 1
    for (int k = 0; k < terms; k += TERMS, now.next()) {
        const unsigned char *const stage = bytes + now.stage * STAGE;
        wait_together(signal->full + now.stage, now.parity);
        const uint64_t a = ft_wgmma_rows(stage + half * HALF * FT_TENSOR_ROW, 0, 0);
        ft_wgmma_fence();
#pragma unroll
        for (int c = 0; c < TERMS / 16; c++)
            ft_wgmma_wide<T, !TALL>(sums, ft_wgmma_rows_at(a, 0, c),
                                    TALL ? ft_wgmma_rows(stage + A_TILE, 0, c) : ft_wgmma_columns(stage + A_TILE, TERMS * FT_TENSOR_ROW, c), k > 0 || c > 0);
        ft_wgmma_commit();
        ft_wgmma_wait<1>();
        if (before >= 0 && lane == 0) ft_mbarrier_arrive(signal->empty + before);
        before = now.stage;
    }
    ft_wgmma_wait<0>(sums);
    if (lane == 0) ft_mbarrier_arrive(signal->empty + before);
}

FT_DEVICE int staged_place(int row, int chunk) { return row * STAGED_ROW + (chunk ^ row % 8) * 16; }

// Its sums, plus its vector where there is one, rounded, to the staging place, whose turn has come.
template <class T, bool HAS_VECTOR> FT_DEVICE void stage_sums(unsigned char *staged, const float (&sums)[COLUMNS / 8][4], const float *vector) {
    const unsigned thread = unsigned(ft_wgmma_made_here(int(threadIdx.x))); // what comes of it would take registers from the sums
    const int lane = int(thread % FT_WARP), row = int(thread / FT_WARP % 4 * 16) + lane / 4, pair = lane % 4;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
        float2 more = make_float2(0.0f, 0.0f);
        if (HAS_VECTOR) more = *reinterpret_cast<const float2 *>(vector + n * 8 + pair * 2);
#pragma unroll
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<unsigned *>(staged + staged_place(row + h * 8, n) + pair * 4) =
                ft_pack<T>(sums[n][h * 2] + more.x, sums[n][h * 2 + 1] + more.y);
    }
}

// The warpgroup that multiplies half `half` of every tile.
template <class T, bool TALL, bool HAS_VECTOR>
FT_DEVICE void multiply_all(unsigned char *bytes, signals *signal, int half, const problem &p) {
    unsigned char *const staged = bytes + STAGED_AT + half * STAGED;
    const float *const vector = reinterpret_cast<const float *>(bytes + VECTORS_AT + half * VECTOR);
    turn now;
    unsigned parity = 0;
#pragma unroll 1
    for (int n = int(blockIdx.x); n < p.tiles; n += int(gridDim.x), parity ^= 1) {
        float sums[COLUMNS / 8][4];
        multiply<T, TALL>(sums, bytes, signal, half, p.terms, now);
        wait_together(signal->free + half, parity);
        stage_sums<T, HAS_VECTOR>(staged, sums, vector);
        hand_over(signal->staged + half);
    }
}

// The whole block. epilogue: by EPILOGUE_WARPS from the second warp on, a class with
//     begin(half, place)           what sums of a half want to find: their vector, where HAS_VECTOR says that one is added
//     finish(half, place, staged)  the work on what they come to; halves one after the other, by the same warps
template <class T, bool TALL, bool HAS_VECTOR, class Epilogue>
FT_DEVICE void block(unsigned char *bytes, const ft_cu_tensor_map &a, const ft_cu_tensor_map &b, const problem &p, Epilogue epilogue) {
    signals *const signal = reinterpret_cast<signals *>(bytes + SIGNALS_AT);
    const int group = int(threadIdx.x) / GROUP;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            ft_mbarrier_init(signal->full + i, 1);
            ft_mbarrier_init(signal->empty + i, 4 * HALVES);
        }
        for (int half = 0; half < HALVES; half++) {
            ft_mbarrier_init(signal->staged + half, 4);
            ft_mbarrier_init(signal->free + half, EPILOGUE_WARPS);
        }
        ft_mbarrier_init_done();
    }
    __syncthreads();
    if (group > 0) {
        multiply_all<T, TALL, HAS_VECTOR>(bytes, signal, group - 1, p);
    } else if (threadIdx.x < FT_WARP) {
        if (threadIdx.x == 0) bring<TALL>(bytes, signal, a, b, p);
    } else {
        unsigned parity = 0;
#pragma unroll 1
        for (int half = 0; half < HALVES && int(blockIdx.x) < p.tiles; half++) {
            epilogue.begin(half, place_of(p, int(blockIdx.x)));
            hand_over(signal->free + half);
        }
#pragma unroll 1
        for (int n = int(blockIdx.x); n < p.tiles; n += int(gridDim.x), parity ^= 1)
#pragma unroll 1
            for (int half = 0; half < HALVES; half++) {
                wait_together(signal->staged + half, parity);
                epilogue.finish(half, place_of(p, n), bytes + STAGED_AT + half * STAGED);
                const int next = n + int(gridDim.x);
                if (next >= p.tiles) continue;
                epilogue.begin(half, place_of(p, next));
                hand_over(signal->free + half);
            }
    }
}

} // namespace ft_product

#endif
