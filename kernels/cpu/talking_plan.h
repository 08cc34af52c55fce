// talking_plan.h - scratch of attention with talking heads on the CPU: the part that does not depend on the instruction set.
#ifndef FT_CPU_TALKING_PLAN_H
#define FT_CPU_TALKING_PLAN_H

#include "kernels/ops/talking_attention.h"

// Queries of one sequence whose gradients are one term of a sum: part of the result's bits.
enum { FT_TALKING_ROWS = 16 };

// Numbers of one query: of all heads, a key a column, rows rounded up to whole vectors.
static inline int64_t ft_talking_row(const ft_attention_shape *s) { return ((int64_t)s->max_keys + 15) / 16 * 16; }
static inline int64_t ft_talking_scores(const ft_attention_shape *s) { return s->heads * ft_talking_row(s); }
// What a query leaves for the sums of its keys and of the mixing matrices: dZ and a, and its terms of the two matrices.
static inline int64_t ft_talking_mixing(const ft_attention_shape *s) { return ((int64_t)s->heads * s->heads + 15) / 16 * 16; }
static inline int64_t ft_talking_record(const ft_attention_shape *s) { return 2 * ft_talking_scores(s) + 2 * ft_talking_mixing(s); }
// Blocks of FT_TALKING_ROWS that are in the works together: two queries or more for every thread.
static inline int64_t ft_talking_blocks(int threads) { return (2 * (int64_t)threads + FT_TALKING_ROWS - 1) / FT_TALKING_ROWS; }
// Of a thread: forward z and m; backward P, its factors of dropout, dA and what goes from one to the other.
enum { FT_TALKING_FORWARD = 2, FT_TALKING_BACKWARD = 4 };

#endif
