// int8_plan.h - the scratch of a product of 8 bits, and how it is cut into tasks: what does not depend on the instruction set.
//
// Weights are copied into strips of 16 outputs, four numbers along k of every output together, as VPDPBUSD reads them: byte (k, j) of a
// strip at k / 4 * 64 + j * 4 + k % 4. Columns of no output and k beyond K are zeros. Rows of codes are as long as a strip.
#ifndef FT_CPU_INT8_PLAN_H
#define FT_CPU_INT8_PLAN_H

#include "kernels/ops/int8_product.h"

enum { FT_INT8_STRIP = 16, FT_INT8_ROWS = 96, FT_INT8_STRIPS = 3 }; // rows and strips of a block: a tile is a part of one

typedef struct ft_int8_plan {
    int64_t rows, k, length; // length: bytes of a row of codes, k rounded up to whole fours
    int64_t strips;          // of all parts
    // Offsets into the scratch.
    size_t codes;   // uint8 [rows, length]
    size_t steps;   // float [rows]
    size_t zeros;   // int32 [rows]
    size_t weights; // int8 [strips][length / 4][16][4]
    size_t sums;    // int32 [strips * 16], of an output's codes
    size_t scales;  // float [strips * 16], an output's step
    size_t bytes;
} ft_int8_plan;

ft_int8_plan ft_int8_plan_of(const ft_int8_product_args *args);
static inline int64_t ft_int8_strips(int64_t outputs) { return (outputs + FT_INT8_STRIP - 1) / FT_INT8_STRIP; }

#endif
