// score_bias.h - a bias of scores by distance and head (attention.h). Scores lie as in streaming_softmax.h: keys down and queries across the
// lanes, so that the bias of a key's scores is a stretch of its head's line, whose places are distances.
#ifndef FT_CPU_SCORE_BIAS_H
#define FT_CPU_SCORE_BIAS_H

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/lanes/vec.h"

typedef struct bias_lines {
    ft_bias_lines shape;
    float *line; // [heads][shape.floats]; NULL: there is no bias
} bias_lines;

static int32_t bias_slot(const ft_attention_bias *b, int64_t delta) {
    const int64_t reach = b->reach;
    return b->slots[(delta < -reach ? -reach : delta > reach ? reach : delta) + reach];
}

static bias_lines bias_lines_make(const ft_attention_shape *s, const ft_attention_bias *b, float *line) {
    bias_lines lines = {.shape = ft_bias_lines_of(s), .line = b->table.data ? line : NULL};
    for (int64_t i = 0; i < lines.shape.floats && lines.line; i++) {
        const float *row = ft_row(b->table, bias_slot(b, i - lines.shape.origin));
        for (int32_t h = 0; h < s->heads; h++) line[h * lines.shape.floats + i] = row[h];
    }
    return lines;
}

static void add_bias(const bias_lines *b, int32_t head, float *scores, int64_t row, int64_t query, int64_t lanes, int64_t key, int64_t keys) {
    const float *line = b->line + head * b->shape.floats + b->shape.origin + query - key;
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < lanes; i += FT_LANES)
            v_store(scores + j * row + i, v_add(v_load(scores + j * row + i), v_load(line + i - j)));
}

// sums: of distance 0. Of `rows` queries; every distance gets the keys in order.
__attribute__((unused)) static void add_by_distance(float *sums, const float *ds, int64_t row, int64_t query, int64_t rows, int64_t key, int64_t keys) {
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < rows; i += FT_LANES) {
            float *to = sums + query + i - key - j;
            v_store_any(to, v_add(v_load_any(to, rows - i), v_load(ds + j * row + i)), rows - i);
        }
}

#endif
