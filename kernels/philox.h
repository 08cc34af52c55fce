// philox.h - counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and
// which of them decides about which element of which dropout.
//
// Dropout is a function of (seed, step, layer, site, element): nothing is stored, and any backend, batch split or
// recomputation drops the same elements. 7 rounds pass BigCrush; 16 random bits decide about one element:
// it is dropped when its bits are below ft_dropout_threshold(p), and kept ones are scaled by 1/(true keep rate).
//
// Rows of activations: the element is (slot of the sequence in the effective batch, position of the token in it,
// channel). One Philox4x32 call with counter {channel / 8, position, slot, 0} serves 8 neighbouring channels:
// channel c takes half (c & 1) (0 = low) of word (c % 8) / 2.
//
// Attention scores: the element is (slot, head, query position i, key position j). One Philox2x32 call serves the block
// {i, i+8} x {j, j+8}: counter {(i>>4)<<22 | (j>>4)<<12 | (i&7)<<3 | (j&7), slot<<8 | head}, word (i>>3)&1, half
// (j>>3)&1. The block is symmetric, so kernels that own rows of queries and kernels that own rows of keys both use every
// bit of a call, and it is what one thread of a 16x16 tensor-core tile holds. Limits: i, j < 16384, head < 256, slot < 2^24.
// Why 16 bits and not 8, counted: kernels/cuda/attention/paths.md.
#ifndef FT_PHILOX_H
#define FT_PHILOX_H

#include <stdint.h>

#if defined(__CUDACC__)
#define FT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FT_HOST_DEVICE static inline
#endif

// Where a dropout stands. Sites are part of the random stream: never renumber them.
typedef enum ft_dropout_site {
    FT_SITE_EMBEDDING = 0,
    FT_SITE_ATTENTION = 1,        // attention probabilities
    FT_SITE_ATTENTION_OUTPUT = 2, // after the output projection
    FT_SITE_FFN_OUTPUT = 3,       // after the second product of the feed-forward block; in front of it where that is gated
    FT_SITE_HEAD = 4,             // in the head; layer counts its dropouts
    FT_SITE_CONVOLUTION = 5,      // behind the convolution of DeBERTa's v2-x models
    FT_SITE_ADAPTER = 6,          // in front of an adapter; layer counts them
    FT_SITE_ADAPTER_TABLE = 7,    // the same where it reads the table of relative positions
    FT_SITE_GATE = 8,             // in front of the second product of a gated feed-forward block, where something is dropped behind it too
} ft_dropout_site;

FT_HOST_DEVICE uint64_t ft_splitmix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// The key of one dropout in one step: 64 bits for Philox4x32 (low word = key 0), the low 32 for Philox2x32.
// `step` counts optimizer steps from 0; layer < 65536.
FT_HOST_DEVICE uint64_t ft_dropout_key(uint64_t seed, uint32_t step, uint32_t layer, uint32_t site) {
    return ft_splitmix64(ft_splitmix64(seed) ^ ((uint64_t)step << 24 | (uint64_t)(layer & 0xFFFF) << 8 | (site & 0xFF)));
}

// How many of the 65536 values drop: round(65536 p), p in [0, 1).
FT_HOST_DEVICE uint32_t ft_dropout_threshold(float p) { return (uint32_t)(p * 65536.0f + 0.5f); }
FT_HOST_DEVICE float ft_dropout_scale(uint32_t threshold) {
    return threshold >= 65536 ? 0.0f : 65536.0f / (float)(65536 - threshold);
}

FT_HOST_DEVICE void ft_philox4x32_7(uint32_t c[4], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 7; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

FT_HOST_DEVICE void ft_philox2x32_7(uint32_t c[2], uint32_t key) {
    for (int round = 0; round < 7; round++) {
        uint64_t p = (uint64_t)0xD256D193u * c[0];
        c[0] = (uint32_t)(p >> 32) ^ key ^ c[1];
        c[1] = (uint32_t)p;
        key += 0x9E3779B9u;
    }
}

// The 16 bits of one element; the definition that fast kernels must agree with.
FT_HOST_DEVICE uint32_t ft_dropout_bits_row(uint64_t key, uint32_t slot, uint32_t position, uint32_t channel) {
    uint32_t c[4] = {channel / 8, position, slot, 0};
    ft_philox4x32_7(c, key);
    return (c[channel % 8 / 2] >> (channel & 1) * 16) & 0xFFFF;
}

FT_HOST_DEVICE uint32_t ft_dropout_bits_score(uint64_t key, uint32_t slot, uint32_t head, uint32_t i, uint32_t j) {
    uint32_t c[2] = {(i >> 4) << 22 | (j >> 4) << 12 | (i & 7) << 3 | (j & 7), slot << 8 | head};
    ft_philox2x32_7(c, (uint32_t)key);
    return (c[(i >> 3) & 1] >> ((j >> 3) & 1) * 16) & 0xFFFF;
}

#endif
