#include "engine/generate/sampling.h"

#include "base/heap.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ft_candidate {
    double weight; // exp((logit - largest) / temperature)
    int32_t token;
} ft_candidate;

size_t ft_token_sampler_host_bytes(int64_t vocabulary) { return (size_t)vocabulary * sizeof(ft_candidate); }

void ft_token_sampler_free(ft_token_sampler *s) {
    free(s->candidates);
    *s = (ft_token_sampler){.candidates = NULL};
}

static ft_status make_room(ft_token_sampler *s, int64_t vocabulary) {
    if (vocabulary <= s->capacity) return FT_OK;
    ft_candidate *grown = ft_realloc(s->candidates, (size_t)vocabulary, sizeof *grown, "probabilities of tokens");
    if (grown == NULL) return FT_NO_MEMORY;
    s->candidates = grown;
    s->capacity = vocabulary;
    return FT_OK;
}

double ft_sampling_number(uint64_t seed, uint64_t row, uint64_t index) {
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)row, (uint32_t)(row >> 32)};
    ft_philox4x32_7(c, ft_splitmix64(seed));
    return (double)(((uint64_t)c[0] << 32 | c[1]) >> 11) * 0x1p-53;
}

static ft_status find_largest(const float *logits, int64_t n, int32_t *token) {
    int64_t best = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite = finite && isfinite(logits[i]);
        if (logits[i] > logits[best]) best = i;
    }
    *token = (int32_t)best;
    return finite ? FT_OK : ft_fail(FT_DIVERGED, NULL, "the model's logits are not finite");
}

static int by_weight(const void *left, const void *right) {
    const ft_candidate *a = left, *b = right;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

// Those that may be drawn, and the sum of their weights. A token whose probability is below (1 - top_p) / n is none of
// those: all such tokens together are what is left out at most, so that few have to be put in order.
static int64_t most_probable(ft_candidate *list, int64_t n, double all, double top_p, double *sum) {
    const double least = (1 - top_p) * all / (double)n;
    int64_t count = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (list[i].weight >= least) list[count++] = list[i];
    qsort(list, (size_t)count, sizeof *list, by_weight);
    for (*sum = 0; kept < count && *sum < top_p * all; kept++)
        *sum += list[kept].weight;
    return kept;
}

// Numbers in the order of the floats that they are made of.
static uint32_t rank_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

static float of_rank(uint32_t rank) {
    const uint32_t bits = rank >> 31 ? rank & ~(1u << 31) : ~rank;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// The k-th largest, k <= n: the largest number that k of them reach, bit by bit.
static float kth_largest(const float *logits, int64_t n, int64_t k) {
    uint32_t rank = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t higher = rank | 1u << bit;
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            count += rank_of(logits[i]) >= higher;
        if (count >= k) rank = higher;
    }
    return of_rank(rank);
}

// Those that may be drawn, in sampler->candidates, and the sum of their weights. token: the largest.
static ft_status find_candidates(const ft_sampling *s, const float *logits, int64_t n, ft_token_sampler *sampler,
                                 int32_t *token, int64_t *count, double *sum) {
    FT_TRY(find_largest(logits, n, token));
    FT_TRY(make_room(sampler, n));
    const double largest = (double)logits[*token];
    ft_candidate *list = sampler->candidates;
    *count = 0;
    *sum = 0;
    const bool all = s->top_k <= 0 || s->top_k >= n;
    const float least = all ? 0 : kth_largest(logits, n, s->top_k);
    for (int64_t i = 0; i < n; i++) {
        if (!all && logits[i] < least) continue;
        ft_candidate *c = &list[(*count)++];
        *c = (ft_candidate){exp(((double)logits[i] - largest) / s->temperature), (int32_t)i};
        *sum += c->weight;
    }
    if (s->top_p < 1) *count = most_probable(list, *count, *sum, s->top_p, sum);
    return FT_OK;
}

ft_status ft_sampling_probabilities(const ft_sampling *s, const float *logits, int64_t n, ft_token_sampler *sampler,
                                    double *probability) {
    int32_t token;
    int64_t count = 0;
    double sum = 1;
    memset(probability, 0, (size_t)n * sizeof *probability);
    if (s->temperature == 0)
        FT_TRY(find_largest(logits, n, &token));
    else
        FT_TRY(find_candidates(s, logits, n, sampler, &token, &count, &sum));
    if (count == 0) probability[token] = 1;
    for (int64_t i = 0; i < count; i++)
        probability[sampler->candidates[i].token] = sampler->candidates[i].weight / sum;
    return FT_OK;
}

ft_status ft_sample(const ft_sampling *s, const float *logits, int64_t n, uint64_t row, uint64_t index,
                    ft_token_sampler *sampler, int32_t *token) {
    int64_t count;
    double sum, before = 0;
    if (s->temperature == 0) return find_largest(logits, n, token);
    FT_TRY(find_candidates(s, logits, n, sampler, token, &count, &sum));
    const double at = ft_sampling_number(s->seed, row, index) * sum;
    for (int64_t i = 0; i < count; i++) {
        *token = sampler->candidates[i].token;
        before += sampler->candidates[i].weight;
        if (before > at) break;
    }
    return FT_OK;
}
