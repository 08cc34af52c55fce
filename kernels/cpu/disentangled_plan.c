#include "kernels/cpu/disentangled_plan.h"
#include "kernels/ops/check.h"

ft_panels ft_panels_of(const ft_disentangled_shape *shape) {
    const ft_attention_shape *a = &shape->attention;
    int64_t low = 1 - (int64_t)a->max_keys, high = (int64_t)a->max_queries - 1, reach = shape->reach;
    // The first panel of which every distance is -reach or below, the last of which every one is reach or above.
    int64_t lowest = ft_round_down(-reach - (FT_DELTAS - 1), FT_DELTAS), highest = ft_round_up(reach, FT_DELTAS);
    low = ft_round_down(low, FT_DELTAS);
    high = ft_round_down(high, FT_DELTAS);
    if (low < lowest) low = lowest;
    if (high > highest) high = highest;
    ft_panels p = {.first = low / FT_DELTAS, .count = high >= low ? (high - low) / FT_DELTAS + 1 : 0};
    p.floats = p.count * FT_DELTAS * a->head_dim;
    return p;
}

static size_t take(size_t *at, int64_t floats) {
    size_t start = *at;
    *at += (size_t)ft_round_up(floats, 16); // every piece begins with a cache line
    return start;
}

ft_disentangled_scratch ft_disentangled_forward_scratch(int64_t head_dim) {
    ft_disentangled_scratch s = {.width = ft_round_up(head_dim, 16)};
    s.queries = take(&s.floats, head_dim * FT_SCORE_ROW);
    s.scores = take(&s.floats, FT_ATTENTION_KEYS * FT_SCORE_ROW);
    s.keys = take(&s.floats, s.width * FT_ATTENTION_KEYS);
    s.values = take(&s.floats, s.width * FT_ATTENTION_KEYS);
    return s;
}

ft_disentangled_scratch ft_disentangled_backward_scratch(int64_t head_dim) {
    ft_disentangled_scratch s = ft_disentangled_forward_scratch(head_dim);
    s.near_queries = take(&s.floats, s.width * FT_ATTENTION_QUERIES);
    s.near_douts = take(&s.floats, s.width * FT_ATTENTION_QUERIES);
    s.douts = take(&s.floats, head_dim * FT_ATTENTION_QUERIES);
    s.dscores = take(&s.floats, FT_BAND_ROWS * FT_SCORE_ROW);
    s.rows[0] = take(&s.floats, s.width * FT_WINDOW);
    s.rows[1] = take(&s.floats, s.width * FT_WINDOW);
    return s;
}

// Of all heads of a sequence.
static size_t delta_floats_of(const ft_attention_shape *a, int tables, int64_t queries, int64_t keys) {
    return (size_t)(ft_delta_rows_of(queries, keys).rows * ft_round_up(a->head_dim, 16) * a->heads * tables);
}

size_t ft_delta_floats(const ft_disentangled_shape *shape, int tables, int threads) {
    const ft_attention_shape *a = &shape->attention;
    size_t one = delta_floats_of(a, tables, a->max_queries, a->max_keys);
    // With two heads or more a thread, the last one to finish works alone for half of the time at worst. Short
    // sequences come in larger waves still, for otherwise the threads would wait for each other more than they work.
    int64_t sequences = (2 * (int64_t)threads + a->heads - 1) / a->heads;
    if (one > 0 && sequences < (int64_t)(FT_DELTA_FLOATS / one)) sequences = (int64_t)(FT_DELTA_FLOATS / one);
    if (sequences > a->sequences) sequences = a->sequences;
    return one * (size_t)sequences;
}

int32_t ft_delta_wave(const ft_disentangled_shape *shape, int tables, size_t room, int32_t first) {
    const ft_attention_shape *a = &shape->attention;
    int32_t last = first;
    for (; last < a->sequences; last++) {
        size_t need = delta_floats_of(a, tables, a->cu_queries[last + 1] - a->cu_queries[last],
                                      a->cu_keys[last + 1] - a->cu_keys[last]);
        if (need > room) break;
        room -= need;
    }
    return last;
}

ft_status ft_check_lengths(const char *op, const ft_attention_shape *shape, int64_t queries, int64_t keys) {
    FT_REQUIRE(op, shape->cu_queries[shape->sequences] == queries && shape->cu_keys[shape->sequences] == keys);
    for (int32_t s = 0; s < shape->sequences; s++) {
        FT_REQUIRE(op, shape->cu_queries[s + 1] - shape->cu_queries[s] <= shape->max_queries);
        FT_REQUIRE(op, shape->cu_keys[s + 1] - shape->cu_keys[s] <= shape->max_keys);
    }
    return FT_OK;
}
