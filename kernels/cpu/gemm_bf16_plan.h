// gemm_bf16_plan.h - how a product of bf16 rows (bf16.h) is cut into blocks: the part that does not depend on the
// instruction set.
//
// Each thread owns a rectangle of C, as in gemm_plan.h, and computes blocks of rows x columns of it. Both operands are
// packed into words of 32 bits, 16 or 32 of them a block of k (tiles/bf16_words.h); scratch is for 32. B is packed for
// all k and the columns of a block, once for all rows; or, where the rows are few or k is long, panel by panel where it
// is used. Of A the rows of a block are packed for `inner` blocks of k: they stay in the second-level cache while they
// meet all panels. The sums of a block lie in scratch until they are complete; then come bias, scale and rounding.
#ifndef FT_CPU_GEMM_BF16_PLAN_H
#define FT_CPU_GEMM_BF16_PLAN_H

#include "kernels/cpu/bf16.h"
#include "kernels/ops/gemm.h"

#include <stdbool.h>

enum {
    FT_GEMM_BF16_PANEL = 48, // columns at most
    FT_GEMM_BF16_TILE = 32,  // rows at most
    FT_GEMM_BF16_ROWS = 96,  // of a block at most
    FT_GEMM_BF16_COLUMNS = 768,
    FT_GEMM_BF16_APART = 16 // words between packed rows of A
};

typedef struct ft_gemm_bf16_plan {
    bool
        swapped; // C^T = B A^T: few rows and a B stored [n,k]. So the weight's rows are widened as they lie, not turned
    int64_t m, n, k;                  // of the product that is computed; m: of further rows too
    int64_t blocks, inner;            // of k: all, and as many of A's as are packed at once
    int64_t rows, columns;            // of a block of C
    bool packs_b;                     // for all k, before the rows go over it
    size_t a_words, b_words, c_words; // of one thread
} ft_gemm_bf16_plan;

// Whether a product's sum is that of bf16.h: of rows of bf16, A as it lies. With A transposed it goes over rows, that
// is, over tokens, which micro-batches split anywhere: it stays the one chain of gemm.h.
bool ft_gemm_is_bf16(const ft_gemm_args *args);
// Whether gemm of the instruction set takes the arguments as they are, else half_ops.c widens them.
bool ft_gemm_takes(const ft_gemm_args *args);
ft_gemm_bf16_plan ft_gemm_bf16_plan_of(const ft_gemm_args *args);

#endif
