// gemm.h - C[M,N] (=|+=) op(A)[M,K] op(B)[K,N] (+ bias[N]), or C = scale op(A) op(B)
//
// op(X) is X or its transpose (trans_a, trans_b). A and B are H, C is H or fp32, sums are fp32. bias (optional, vector of
// N, C's type) is added after the sum. No aliasing between C and the inputs. The gradient of a weight is a C of fp32 that
// is accumulated, with A and B of 16 bits. Several products with one B are one call (`more`): on the CPU B is then packed once for all.
// Determinism (CPU): each element is ONE chain of fused multiply-adds over k = 0..K-1 in order, starting from 0 or, with
// accumulate, from C. So a result does not depend on the other rows or columns present, on the thread count or on the
// instruction set, and, where C is fp32, splitting K over several accumulating calls changes no bit.
// Of bf16 with A as it lies the sum is another one: that of AMX's tiles, two chains for every 32 k (kernels/cpu/bf16.h). All of the
// above holds, but K may be split at multiples of 32 alone. Micro-batches split K of gradients of weights anywhere: with A transposed
// (K are tokens) bf16, too, has the one chain, of the numbers in fp32.
#ifndef FT_GEMM_H
#define FT_GEMM_H
#include "kernels/ops/op.h"

// Further rows of A and C, of the same columns and types, that lie elsewhere.
typedef struct ft_gemm_rows {
    ft_tensor a, c;
} ft_gemm_rows;

typedef struct ft_gemm_args {
    ft_tensor a, b, c;
    bool trans_a, trans_b;
    bool accumulate;
    ft_tensor bias; // optional [N]
    const ft_gemm_rows *more; // [more_count] as if they stood below A and C; of an A that is not transposed, without a scale
    int more_count;
    float scale;    // of the sum, before it is rounded to C's type; 0: none, which is 1. Without accumulate, bias and trans_a only
    ft_workspace workspace;
} ft_gemm_args;
// The product of the rows -1: that are not in `more`, or of the i-th of it, with all of the scratch.
static inline ft_gemm_args ft_gemm_part(const ft_gemm_args *args, int i) {
    ft_gemm_args one = *args;
    if (i >= 0) one.a = args->more[i].a, one.c = args->more[i].c;
    one.more = NULL;
    one.more_count = 0;
    return one;
}
enum { FT_GEMM_MANY_ROWS = 1 << 16 }; // scratch of fp32 products grows no more with further rows
size_t ft_gemm_workspace(const ft_target *target, const ft_gemm_args *args);
ft_status ft_gemm_check(const ft_target *target, const ft_gemm_args *args);
#endif
