// gemm_plan.h - how a matrix product is cut into blocks: the part that does not depend on the instruction set.
//
// Each thread of a grid of rows x columns owns a rectangle of C and computes it alone: it packs blocks of B (and of A,
// when A is transposed) into its own scratch, so that a product needs one fork and no barrier. Threads in one column of
// the grid pack the same B twice; the grid is chosen so that this stays small.
//
// `swapped`: C^T = B^T A^T is computed instead, with C written transposed. With few rows in A and B transposed (a
// weight [out,in] and few tokens) the small A is then what gets packed, and the weight is read where it lies.
// `direct_b`: with few rows a B stored [k,n] is not packed either; reading it once in place costs less than copying it.
#ifndef FT_CPU_GEMM_PLAN_H
#define FT_CPU_GEMM_PLAN_H

#include "kernels/ops/gemm.h"

// Multiples of every micro-kernel's tile. A packed block of B is FT_GEMM_NC x FT_GEMM_KC, of A FT_GEMM_MC x FT_GEMM_KC.
enum {
    FT_GEMM_KC = 384,
    FT_GEMM_MC = 96,
    FT_GEMM_NC = 768,
    FT_GEMM_WIDEST_PANEL = 48,
    FT_GEMM_VECTOR = 16,
    FT_GEMM_SWAP_ROWS = 160,
    FT_GEMM_DIRECT_ROWS = 96 // products of so few rows read B where it lies; for more, packing it costs less than fetching rows that lie apart
};

// One product in the micro-kernels' terms: C[m,n] = A[m,k] B[k,n].
typedef struct ft_gemm_view {
    int64_t m, n, k; // m: of further rows too (ft_gemm_args.more), which are no part of a, c and `swapped`
    const float *a, *b;
    const uint16_t *a_half, *b_half; // the two in bf16, of a transposed A and a B as it lies: widened as they are packed; NULL: fp32
    float *c;
    int64_t lda, ldb, ldc;
    bool trans_a, trans_b; // A is stored [k,m]; B is stored [n,k]
    bool trans_c;          // C is stored [n,m]; bias then belongs to rows
    bool direct_b;         // B is read where it lies; n is a multiple of every vector then
    bool accumulate;
    const float *bias;
    float scale; // 0: none
} ft_gemm_view;

ft_gemm_view ft_gemm_view_of(const ft_gemm_args *args);
// Scratch of one thread, in floats: a block of B, then one of A. b_floats is a multiple of 64.
void ft_gemm_scratch(const ft_gemm_view *view, size_t *b_floats, size_t *a_floats);
// How many threads of at most `threads` share rows and columns, in multiples of mr and nr.
void ft_gemm_grid(const ft_gemm_view *view, int threads, int mr, int nr, int *row_parts, int *column_parts);
// Cuts the rectangles of several threads finer, where it costs little: by columns, or, where A is packed, by rows.
void ft_gemm_cut(const ft_gemm_view *view, int *row_parts, int *column_parts);

#endif
