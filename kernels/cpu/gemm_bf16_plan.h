// gemm_bf16_plan.h - how a product of bf16 rows (bf16.h) is cut into blocks: the part that does not depend on the
// instruction set.
//
// Each thread owns a rectangle of C, as in gemm_plan.h. Both operands are packed into words of 32 bits, 16 or 32 of them a
// block of k (tiles/bf16_words.h); scratch is for 32. The sums of `rows` rows and a panel of columns lie in scratch until
// they are complete: there bias, scale and rounding are done, while they are in the first-level cache.
#ifndef FT_CPU_GEMM_BF16_PLAN_H
#define FT_CPU_GEMM_BF16_PLAN_H

#include "kernels/cpu/bf16.h"
#include "kernels/ops/gemm.h"

#include <stdbool.h>

enum {
    FT_GEMM_BF16_PANEL = 48, // columns at most
    FT_GEMM_BF16_TILE = 32,  // rows at most
    FT_GEMM_BF16_APART = 16  // words between packed rows of A
};

typedef struct ft_gemm_bf16_plan {
    int64_t m, n, k;         // m: of further rows too
    int64_t blocks, outer;   // of k: all, and as many as are packed at once
    int64_t rows, columns;   // packed at once, multiples of tile and panel
    size_t a_words, b_words, c_words; // of one thread
} ft_gemm_bf16_plan;

// Whether a product's sum is that of bf16.h: of rows of bf16, A as it lies. With A transposed it goes over rows, that is, over
// tokens, which micro-batches split anywhere: it stays the one chain of gemm.h.
bool ft_gemm_is_bf16(const ft_gemm_args *args);
// Whether gemm of the instruction set takes the arguments as they are, else half_ops.c widens them.
bool ft_gemm_takes(const ft_gemm_args *args);
ft_gemm_bf16_plan ft_gemm_bf16_plan_of(const ft_gemm_args *args);

#endif
