// quantised.h - matrices of 8 and 4 bits a number, in the block formats that bitsandbytes writes: where their parts lie, and how
// they are made. Plain C on the host: what is frozen is made once, when it is loaded. dequantise.h is the way back, on a device.
//
//   nf4         blocks of 64 numbers of the flattened matrix: a scale (the largest magnitude, fp32), and of each number which of 16
//               quantiles of the normal distribution is nearest to it over the scale; the even one of two in the high bits
//   nf4_double  the same, with scales of 8 bits: less their mean, in blocks of 256, each the nearest of 256 values (`map`)
//   int8        a scale for every row (its largest magnitude), numbers rounded to 1/127 of it, ties to even
//
// One buffer holds all parts of a matrix, each at a multiple of 16 bytes. NaN and infinity cannot be stored (ft_quantise).
#ifndef FT_QUANTISED_H
#define FT_QUANTISED_H
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ft_quantisation { FT_NF4 = 0, FT_NF4_DOUBLE, FT_INT8, FT_QUANTISATIONS } ft_quantisation;

enum { FT_NF4_BLOCK = 64, FT_NF4_GROUP = 256, FT_NF4_MAP = 256 }; // numbers of a block; blocks of a group; values of the map

typedef struct ft_quantised_layout {
    // Offsets in bytes into the buffer.
    size_t codes;  // uint8 [ceil(rows * cols / 2)]; int8 [rows, cols]
    size_t scales; // fp32 [scale_count]; uint8 with nf4_double
    size_t groups; // fp32 [group_count], nf4_double alone, as the two below
    size_t map;    // fp32 [256]
    size_t mean;   // fp32 [1]
    size_t bytes;  // of all
    int64_t scale_count, group_count;
} ft_quantised_layout;

static inline size_t ft_quantised_aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }
static inline ft_quantised_layout ft_quantised_layout_of(ft_quantisation format, int64_t rows, int64_t cols) {
    const int64_t count = rows * cols, blocks = (count + FT_NF4_BLOCK - 1) / FT_NF4_BLOCK;
    const size_t twice = format == FT_NF4_DOUBLE, number = sizeof(float);
    ft_quantised_layout l;
    l.codes = 0;
    l.scales = ft_quantised_aligned((size_t)(format == FT_INT8 ? count : (count + 1) / 2));
    l.scale_count = format == FT_INT8 ? rows : blocks;
    l.groups = l.scales + ft_quantised_aligned((size_t)l.scale_count * (twice ? 1 : number));
    l.group_count = twice ? (blocks + FT_NF4_GROUP - 1) / FT_NF4_GROUP : 0;
    l.map = l.groups + ft_quantised_aligned((size_t)l.group_count * number);
    l.mean = l.map + twice * FT_NF4_MAP * number;
    l.bytes = l.mean + ft_quantised_aligned(twice * number);
    return l;
}

// Rising.
static const float ft_nf4_values[16] = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};
// The 256 values between -1 and 1 that scales of 8 bits are rounded to, rising.
void ft_nf4_scale_map(float map[FT_NF4_MAP]);

// The scale of a block, from what stands from layout.scales on; of int8, of a row.
static inline float ft_quantised_scale(ft_quantisation format, const ft_quantised_layout *l, const void *from_scales, int64_t block) {
    const unsigned char *from = (const unsigned char *)from_scales;
    if (format != FT_NF4_DOUBLE) return ((const float *)from_scales)[block];
    const float *map = (const float *)(const void *)(from + (l->map - l->scales));
    const float *groups = (const float *)(const void *)(from + (l->groups - l->scales));
    const float scaled = map[from[block]] * groups[block / FT_NF4_GROUP];
    return scaled + *(const float *)(const void *)(from + (l->mean - l->scales));
}

// Of a matrix that comes in pieces: `count` numbers behind `first` others become codes, at codes + where they stand in the buffer,
// and scales in fp32, from scales[0] on. A piece begins where a scale does and ends where one does, or the matrix.
// FT_INVALID where a number is not finite.
ft_status ft_quantise_piece(ft_quantisation format, int64_t cols, int64_t first, int64_t count, const float *values, uint8_t *codes,
                            float *scales);
size_t ft_quantised_code_bytes(ft_quantisation format, int64_t count); // of so many numbers from a scale's first on
// nf4_double: scales of a whole matrix in 8 bits, with what belongs to them, from byte layout.scales of the buffer on.
void ft_quantise_scales(const ft_quantised_layout *layout, const float *scales, void *from_scales);

// The way back, on the host: `count` numbers from `first` on. codes: from the byte on that holds the first of them.
void ft_dequantise_numbers(ft_quantisation format, const ft_quantised_layout *layout, int64_t cols, int64_t first, int64_t count,
                           const uint8_t *codes, const void *from_scales, float *values);

// The whole buffer at once. values: [rows, cols].
ft_status ft_quantise(ft_quantisation format, int64_t rows, int64_t cols, const float *values, void *buffer);
#endif
