// The tokens of a batch by id: a radix sort, least digit first, whose every pass keeps the order of equal digits.
#include "kernels/ops/embedding.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT }; // the counters fit the first cache, and two passes do for every vocabulary

bool ft_embedding_order_wanted(const ft_target *target) { return target->backend == FT_BACKEND_CUDA; }

// from: NULL for the order in which they stand.
static void by_digit(const int32_t *ids, int32_t tokens, int shift, const int32_t *from, int32_t *to) {
    int32_t place[DIGITS] = {0};
    for (int32_t t = 0; t < tokens; t++) place[ids[t] >> shift & (DIGITS - 1)]++;
    for (int32_t d = 0, before = 0; d < DIGITS; d++) {
        const int32_t count = place[d];
        place[d] = before;
        before += count;
    }
    for (int32_t i = 0; i < tokens; i++) {
        const int32_t t = from != NULL ? from[i] : i;
        to[place[ids[t] >> shift & (DIGITS - 1)]++] = t;
    }
}

void ft_embedding_order(const int32_t *ids, int32_t tokens, int32_t *order, int32_t *space) {
    int32_t all = 0; // every bit that some id has
    for (int32_t t = 0; t < tokens; t++) all |= ids[t];
    int passes = 1;
    while (passes * DIGIT < 31 && all >> passes * DIGIT != 0) passes++;
    const int32_t *from = NULL;
    for (int pass = 0; pass < passes; pass++) { // the last one ends in `order`
        int32_t *to = (passes - pass) % 2 != 0 ? order : space;
        by_digit(ids, tokens, pass * DIGIT, from, to);
        from = to;
    }
}
