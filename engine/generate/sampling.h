// sampling.h - from the logits of all words to the next token.
//
// Greedy: the largest, of equal ones the first. Else p = softmax(logits / temperature), of the top_k largest logits
// alone and those that are equal to the last of them, as transformers' TopKLogitsWarper has it; with top_p < 1 the most
// probable of these alone whose probabilities, the largest first (of equal ones the smaller id), reach top_p together,
// as transformers' TopPLogitsWarper has it: a token stays when those in front of it have not reached it. One is drawn
// by a number of the seed, the row and how many tokens were drawn of it before (kernels/philox.h): the same whoever is
// computed beside it. All in double precision, in one order.
#ifndef FT_SAMPLING_H
#define FT_SAMPLING_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_sampling {
    double temperature; // 0: greedy
    double top_p;       // (0, 1]; 1: all tokens
    int64_t top_k;      // 0: all tokens
    uint64_t seed;
} ft_sampling;

// Scratch of one thread. {0} is empty.
typedef struct ft_token_sampler {
    struct ft_candidate *candidates; // [vocabulary]
    int64_t capacity;
} ft_token_sampler;
size_t ft_token_sampler_host_bytes(int64_t vocabulary);
void ft_token_sampler_free(ft_token_sampler *sampler);

// In [0, 1).
double ft_sampling_number(uint64_t seed, uint64_t row, uint64_t index);
// What is drawn from: probability [vocabulary], all but one 0 where nothing is drawn. Errors as of ft_sample.
ft_status ft_sampling_probabilities(const ft_sampling *sampling, const float *logits, int64_t vocabulary,
                                    ft_token_sampler *sampler, double *probability);
// FT_DIVERGED: a logit is not a number, or infinite. FT_NO_MEMORY.
ft_status ft_sample(const ft_sampling *sampling, const float *logits, int64_t vocabulary, uint64_t row, uint64_t index,
                    ft_token_sampler *sampler, int32_t *token);

#endif
