// random_stream.h - random numbers that are a function of (seed, trial, purpose, parameter name). Nothing is carried
// from trial to trial, so a killed and resumed study, or one whose parameters are asked for in another order, draws the
// same.
#ifndef FT_HPO_RANDOM_STREAM_H
#define FT_HPO_RANDOM_STREAM_H

#include <stdint.h>

// Part of the stream: never renumber.
typedef enum ft_draw {
    FT_DRAW_UNIFORM = 0,   // random search, start-up trials
    FT_DRAW_KERNEL = 1,    // TPE: which kernel a candidate comes from
    FT_DRAW_CANDIDATE = 2, // TPE: a parameter of a candidate
    FT_DRAW_DIGITS = 3,    // quasi-random: permuted digits
    FT_DRAW_ACQUIRE = 4,   // Gaussian process: where its candidates lie
    FT_DRAW_EVOLVE = 5,    // CMA-ES: normal numbers
    FT_DRAW_RESTART = 6,   // CMA-ES: where it begins anew, by restarts instead of trials
} ft_draw;

typedef struct ft_random_stream {
    uint64_t key, counter;
    uint32_t draw;
} ft_random_stream;

ft_random_stream ft_random_stream_of(uint64_t seed, int64_t trial, ft_draw draw, const char *name);
uint64_t ft_random_bits(ft_random_stream *stream);
// Uniform in [0, 1), 53 bits.
double ft_random_double(ft_random_stream *stream);
// Uniform in 0 .. n - 1, n >= 1. Biased by at most n / 2^64.
uint64_t ft_random_below(ft_random_stream *stream, uint64_t n);

#endif
