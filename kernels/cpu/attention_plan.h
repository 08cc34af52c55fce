// attention_plan.h - how attention is cut into items of work and who does which: the part that does not depend on the
// instruction set.
//
// An item is one head of one sequence, or one block of its rows. Threads take contiguous runs of items of about equal
// cost; this decides only who computes: an item's result depends on its own sequence alone.
#ifndef FT_CPU_ATTENTION_PLAN_H
#define FT_CPU_ATTENTION_PLAN_H

#include "kernels/ops/attention.h"

#include <stdbool.h>

enum {
    FT_ATTENTION_QUERIES = 64, // rows of queries in a block
    FT_ATTENTION_KEYS = 64, // rows of keys in a block: the steps of the streaming softmax, so part of the result's bits
    FT_ATTENTION_ITEM_COST = 64, // what an item costs besides its scores, in scores
};

// Scratch of one thread, in floats: queries across the lanes, a block of scores, keys and values; backward the same of
// the outputs' gradients and of the scores', and the queries' and gradients' rows.
static inline size_t ft_attention_forward_floats(int64_t head_dim) {
    return (size_t)(head_dim + FT_ATTENTION_KEYS) * FT_ATTENTION_QUERIES + 2 * (size_t)head_dim * FT_ATTENTION_KEYS;
}
static inline size_t ft_attention_backward_floats(int64_t head_dim) {
    return 2 * (size_t)(2 * head_dim + FT_ATTENTION_KEYS) * FT_ATTENTION_QUERIES +
           2 * (size_t)head_dim * FT_ATTENTION_KEYS;
}
// Of bf16 also: results that are not complete, and forward the queries before them; backward the gradients of all keys of a sequence.
static inline size_t ft_attention_forward_half_floats(int64_t head_dim) { return (size_t)head_dim * FT_ATTENTION_QUERIES; }
static inline size_t ft_attention_backward_half_floats(int64_t head_dim, int64_t max_keys) {
    return (size_t)head_dim * (size_t)(FT_ATTENTION_QUERIES + 2 * max_keys);
}
// Scratch of one thread.
static inline size_t ft_attention_forward_thread_floats(const ft_attention_forward_args *args) {
    const int64_t d = args->shape.head_dim;
    return ft_attention_forward_floats(d) + (args->q.dtype == FT_BF16 ? ft_attention_forward_half_floats(d) : 0);
}
static inline size_t ft_attention_backward_thread_floats(const ft_attention_backward_args *args) {
    const int64_t d = args->shape.head_dim;
    return ft_attention_backward_floats(d) + (args->q.dtype == FT_BF16 ? ft_attention_backward_half_floats(d, args->shape.max_keys) : 0);
}

// The bias of every distance that sequences may have, one line for each head: lines follow each other. Vectors of lanes may begin at any
// distance and end behind the last one.
typedef struct ft_bias_lines {
    int64_t floats, origin; // of a line, and where in it distance 0 is
} ft_bias_lines;
static inline ft_bias_lines ft_bias_lines_of(const ft_attention_shape *s) {
    const int64_t before = s->max_keys > 0 ? s->max_keys - 1 : 0;
    return (ft_bias_lines){(before + s->max_queries + FT_ATTENTION_QUERIES + 15) / 16 * 16, before};
}
static inline size_t ft_bias_line_floats(const ft_attention_shape *s) { return (size_t)(ft_bias_lines_of(s).floats * s->heads); }
// Sums of dS by distance, of every sequence and head: floats in front of those of a sequence.
enum { FT_BIAS_SUM_PAD = 16 };
static inline int64_t ft_bias_sums_before(const ft_attention_shape *s, int64_t queries, int64_t keys, int64_t sequences) {
    return (queries + keys + FT_BIAS_SUM_PAD * sequences) * s->heads;
}

typedef enum ft_attention_cut { FT_CUT_NOTHING, FT_CUT_QUERIES, FT_CUT_KEYS } ft_attention_cut;

typedef struct ft_attention_item {
    int32_t sequence, head;
    int64_t queries, keys;                                // of the sequence
    int64_t first_query, last_query, first_key, last_key; // the item's part of them
} ft_attention_item;

// Rows of one side that rows [first, last) of the other reach, `before` and `after` their own places, in whole blocks of `block` from the first
// row of the sequence on: a block reaches another one exactly if that reaches it. first == last: none.
typedef struct ft_attention_span {
    int64_t first, last;
} ft_attention_span;
static inline ft_attention_span ft_attention_reach(int32_t before, int32_t after, int64_t first, int64_t last, int64_t rows, int64_t block) {
    ft_attention_span span = {0, rows};
    if (first - before >= rows) return (ft_attention_span){rows, rows};
    if (first > before) span.first = (first - before) / block * block;
    if (last + after < rows) span.last = (last + after + block - 1) / block * block;
    if (span.last > rows) span.last = rows;
    return span;
}
// Keys that queries see, and queries that see keys.
static inline ft_attention_span ft_attention_keys(ft_attention_band band, int64_t first, int64_t last, int64_t keys) {
    return ft_attention_reach(band.behind, band.ahead, first, last, keys, FT_ATTENTION_KEYS);
}
static inline ft_attention_span ft_attention_queries(ft_attention_band band, int64_t first, int64_t last, int64_t queries) {
    return ft_attention_reach(band.ahead, band.behind, first, last, queries, FT_ATTENTION_QUERIES);
}

typedef void ft_attention_work(void *context, const ft_attention_item *item, int thread);

// Cost of all items; *largest (optional) is that of the costliest.
int64_t ft_attention_cost(const ft_attention_shape *shape, ft_attention_cut cut, int64_t *largest);
// Calls work for the items of part `index` of `parts`.
void ft_attention_part(const ft_attention_shape *shape, ft_attention_cut cut, int64_t cost, int index, int parts,
                       ft_attention_work *work, void *context, int thread);

#endif
