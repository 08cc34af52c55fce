// resize_axis.h - one dimension of a picture in another size, in plain C and, with the same bits, in AVX2.
#ifndef FT_RESIZE_AXIS_H
#define FT_RESIZE_AXIS_H

#include "engine/images/picture.h"
#include "engine/images/resize.h"

enum { FT_RESIZE_BITS = 22, FT_RESIZE_LOW_BITS = 11 }; // of a weight behind the point, and of its lower part in a pair

typedef struct ft_resize_span {
    int32_t first, count;
} ft_resize_span;

// Output i is the sum of spans[i].count inputs from spans[i].first on, times weight[i * most + ...]. pair has the same weights two by two, as products
// of 16 bits take them: [pairs * i + j][2] are the upper and the lower parts of weights 2 j and 2 j + 1, each w >> 11 and w & 2047; 0 for one behind the last.
typedef struct ft_resize_axis {
    ft_resize_span *spans;
    int32_t *weight, *pair;
    int32_t most, pairs;
} ft_resize_axis;

// FT_NO_MEMORY alone can go wrong; *axis is to be freed then too.
ft_status ft_resize_axis_make(ft_resample filter, int32_t in, int32_t out, ft_resize_axis *axis);
void ft_resize_axis_free(ft_resize_axis *axis);

// How the sums are made. Strides are bytes from row to row.
typedef struct ft_resize_functions {
    // `count` rows of `width` outputs each, of the rows at `from`.
    void (*rows)(const ft_resize_axis *axis, const uint8_t *from, size_t from_stride, int32_t width, int32_t count, uint8_t *to);
    // Row y of the result, `stride` bytes, from the rows at `from`.
    void (*columns)(const ft_resize_axis *axis, int32_t y, const uint8_t *from, size_t stride, uint8_t *to);
} ft_resize_functions;

extern const ft_resize_functions ft_resize_plain;
// The plain columns, from byte `begin` of the row on.
void ft_resize_columns_from(const ft_resize_axis *axis, int32_t y, const uint8_t *from, size_t stride, size_t begin, uint8_t *to);
// What this processor does fastest.
const ft_resize_functions *ft_resize_best(void);

#endif
