// fragment.h - products of 16-bit matrices on tensor cores, accumulated in fp32: mma.m16n8k16 and its operands. A warp
// holds a matrix in pieces (fragments); `lane` below is threadIdx.x % 32, g = lane / 4, t = lane % 4.
//
//     accumulators d[4], 16 x 8:  d[0], d[1] = row g, columns 2t, 2t+1;  d[2], d[3] = row g+8, the same columns
//     left operand a[4], 16 x 16: pairs of columns: a[0] = row g, 2t..; a[1] = row g+8, 2t..; a[2] = row g, 2t+8..;
//                                 a[3] = row g+8, 2t+8..
//     right operand b[2], 16 x 8: pairs of rows: b[0] = rows 2t, 2t+1 of column g; b[1] = rows 2t+8, 2t+9 of column g
//     (PTX ISA, "Matrix Fragments for mma.m16n8k16")
//
// So two accumulators side by side, rounded, are a left operand: products can be chained without shared memory.
// Matrices in shared memory are row-major with ft_tile_stride() elements from row to row.
#ifndef FT_CUDA_TILE_FRAGMENT_H
#define FT_CUDA_TILE_FRAGMENT_H

#include "kernels/cuda/tile/async_copy.h"

// ---- the two instructions ----------------------------------------------------------------------------------------------
#ifdef __CUDACC__
// Four 8 x 8 matrices of 16-bit numbers: lane i gives the address of row i % 8 of matrix i / 8 (16 bytes, aligned), and
// gets of matrix m the pair 2t, 2t+1 of row g in r[m].
FT_DEVICE void ft_ldmatrix_x4(unsigned (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ft_shared_address(row))
                 : "memory");
}
// The same, every matrix transposed: the pair is rows 2t, 2t+1 of column g.
FT_DEVICE void ft_ldmatrix_x4_transposed(unsigned (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ft_shared_address(row))
                 : "memory");
}
// d += a b. T: __nv_bfloat16 or __half.
template <class T> FT_DEVICE void ft_mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (std::is_same<T, __half>::value)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
#include <simt/fragment.h>
#endif

// ---- matrices in shared memory -----------------------------------------------------------------------------------------
// 16 bytes between rows: the eight rows that ldmatrix reads at once then lie in different banks, for every number of
// columns that is a multiple of 32.
FT_HOST_DEVICE constexpr int ft_tile_stride(int columns) { return columns + 8; }
FT_HOST_DEVICE constexpr size_t ft_tile_bytes(int rows, int columns) { return size_t(rows) * ft_tile_stride(columns) * 2; }

// Where the 16 bytes number i of a tile are: eight that follow each other are written at once, and meet in no bank. Where rows
// have no 64 columns, these are half of a row and the same half four rows below.
struct ft_tile_chunk {
    int row, column;
};
template <int COLUMNS> FT_DEVICE ft_tile_chunk ft_tile_chunk_of(int i) {
    static_assert(COLUMNS % 32 == 0, "four chunks side by side");
    if constexpr (COLUMNS % 64 == 0) {
        return {i / (COLUMNS / 8), i % (COLUMNS / 8) * 8};
    } else {
        constexpr int FOURS = COLUMNS / 32;
        const int eight = i / 8;
        return {eight / (4 * FOURS) * 8 + i / 4 % 2 * 4 + eight % (4 * FOURS) / FOURS, eight % FOURS * 32 + i % 4 * 8};
    }
}

// Starts the copies of a tile: ROWS rows of `global`, `stride` elements apart; rows from `valid` on become zeros. All
// THREADS of the block take part. `global` and rows are aligned to 16 bytes, and row 0 exists if any is valid.
template <int ROWS, int COLUMNS, int THREADS, class T>
FT_DEVICE void ft_tile_load(T *tile, const T *global, int64_t stride, int valid) {
    constexpr int CHUNKS = COLUMNS / 8; // of 16 bytes
    static_assert(ROWS % 8 == 0 && ROWS * CHUNKS % THREADS == 0, "tile and block");
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / THREADS; i++) {
        const auto [row, column] = ft_tile_chunk_of<COLUMNS>(i * THREADS + int(threadIdx.x));
        bool there = row < valid;
        ft_copy_async16_or_zero(tile + row * ft_tile_stride(COLUMNS) + column,
                                global + (there ? row * stride : 0) + column, there);
    }
}

// Stores ROWS rows of a tile that one warp has written (and waited for: __syncwarp); rows from `valid` on are not there.
template <int ROWS, int COLUMNS, class T>
FT_DEVICE void ft_tile_store(T *global, int64_t stride, const T *tile, int valid) {
    constexpr int CHUNKS = COLUMNS / 8;
    static_assert(ROWS % 8 == 0 && ROWS * CHUNKS % FT_WARP == 0, "tile and warp");
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / FT_WARP; i++) {
        const auto [row, column] = ft_tile_chunk_of<COLUMNS>(i * FT_WARP + int(threadIdx.x) % FT_WARP);
        if (row < valid)
            *reinterpret_cast<uint4 *>(global + row * stride + column) =
                *reinterpret_cast<const uint4 *>(tile + row * ft_tile_stride(COLUMNS) + column);
    }
}

// ---- fragments out of them ---------------------------------------------------------------------------------------------
// The left operand at rows row.. and columns column.. of a tile.
template <int COLUMNS, class T> FT_DEVICE void ft_left(unsigned (&a)[4], const T *tile, int row, int column) {
    int lane = int(threadIdx.x) % FT_WARP;
    ft_ldmatrix_x4(a, tile + (row + lane % 16) * ft_tile_stride(COLUMNS) + column + lane / 16 * 8);
}
// The left operand of a tile that lies transposed: its columns column.. are the operand's rows, its rows row.. the columns.
template <int COLUMNS, class T> FT_DEVICE void ft_left_of_columns(unsigned (&a)[4], const T *tile, int row, int column) {
    int lane = int(threadIdx.x) % FT_WARP;
    ft_ldmatrix_x4_transposed(a, tile + (row + lane % 8 + lane / 16 * 8) * ft_tile_stride(COLUMNS) + column + lane / 8 % 2 * 8);
}
// Two right operands of a tile whose rows are the columns of the product: b[0], b[1] for rows row..row+7, b[2], b[3] for
// the next eight; summed over its columns column..column+15.
template <int COLUMNS, class T> FT_DEVICE void ft_right_of_rows(unsigned (&b)[4], const T *tile, int row, int column) {
    int lane = int(threadIdx.x) % FT_WARP;
    ft_ldmatrix_x4(b, tile + (row + lane % 8 + lane / 16 * 8) * ft_tile_stride(COLUMNS) + column + lane / 8 % 2 * 8);
}
// Two right operands of a tile whose columns are the columns of the product: b[0], b[1] for columns column..column+7,
// b[2], b[3] for the next eight; summed over its rows row..row+15.
template <int COLUMNS, class T> FT_DEVICE void ft_right_of_columns(unsigned (&b)[4], const T *tile, int row, int column) {
    int lane = int(threadIdx.x) % FT_WARP;
    ft_ldmatrix_x4_transposed(b, tile + (row + lane % 16) * ft_tile_stride(COLUMNS) + column + lane / 16 * 8);
}

// Two accumulators side by side as a left operand.
template <class T> FT_DEVICE void ft_left_of(unsigned (&a)[4], const float (&first)[4], const float (&second)[4]) {
    a[0] = ft_pack<T>(first[0], first[1]);
    a[1] = ft_pack<T>(first[2], first[3]);
    a[2] = ft_pack<T>(second[0], second[1]);
    a[3] = ft_pack<T>(second[2], second[3]);
}

#endif
