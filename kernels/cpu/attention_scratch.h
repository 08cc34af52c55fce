// attention_scratch.h - the scratch of one thread in the attention ops, and its layout. Shapes only: the workspace
// functions and the kernels lay it out with the same code.
#ifndef FT_CPU_ATTENTION_SCRATCH_H
#define FT_CPU_ATTENTION_SCRATCH_H

#include "kernels/attention.h"

enum {
    FT_ATT_ROWS = 4,    // query rows worked on at once
    FT_ATT_CHUNK = 16,  // query rows that share dropout bits: the block of philox.h
    FT_ATT_LANES = 16,
};

// Elements of fp32. k is the longest sequence rounded up to whole vectors, d the head dimension likewise.
typedef struct ft_attention_scratch {
    float *kt, *vt;          // keys and (backward) values transposed: [head_dim][k]
    float *p, *dp;           // [FT_ATT_ROWS][k] probabilities, and (backward) their gradients
    float *dk, *dv;          // backward: [keys][d] sums over the queries
    uint16_t *bits;          // dropout: [FT_ATT_CHUNK][k]
    int64_t k, d;
} ft_attention_scratch;

static inline int64_t ft_attention_round(int64_t n) { return (n + FT_ATT_LANES - 1) / FT_ATT_LANES * FT_ATT_LANES; }

// Lays thread `thread`'s scratch into `base` (may be NULL) and returns the bytes of one thread.
static inline size_t ft_attention_layout(const ft_attention_shape *shape, bool backward, void *base, int thread, ft_attention_scratch *out) {
    ft_attention_scratch s = {.k = ft_attention_round(shape->max_keys), .d = ft_attention_round(shape->head_dim)};
    size_t transposed = (size_t)shape->head_dim * (size_t)s.k, rows = FT_ATT_ROWS * (size_t)s.k;
    size_t sums = (size_t)shape->max_keys * (size_t)s.d;
    size_t floats = backward ? 2 * transposed + 2 * rows + 2 * sums : transposed + rows;
    size_t bytes = floats * sizeof(float) + (shape->dropout.probability > 0 ? FT_ATT_CHUNK * (size_t)s.k * sizeof(uint16_t) : 0);
    bytes = (bytes + 255) / 256 * 256;
    if (base != NULL) {
        float *at = (float *)(void *)((char *)base + bytes * (size_t)thread);
        s.kt = at, at += transposed;
        if (backward) s.vt = at, at += transposed;
        s.p = at, at += rows;
        if (backward) s.dp = at, at += rows, s.dk = at, at += sums, s.dv = at, at += sums;
        s.bits = (uint16_t *)(void *)at;
    }
    if (out != NULL) *out = s;
    return bytes;
}

#endif
