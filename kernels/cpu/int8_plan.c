#include "kernels/cpu/int8_plan.h"

enum { ALIGNMENT = 256 };

static size_t take(size_t *at, int64_t count, size_t size) {
    const size_t first = *at;
    *at += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return first;
}

ft_int8_plan ft_int8_plan_of(const ft_int8_product_args *args) {
    ft_int8_plan p = {.rows = args->x.rows, .k = args->x.cols, .length = (args->x.cols + 3) / 4 * 4};
    for (int i = 0; i < args->parts && i < FT_INT8_MOST_PARTS; i++) p.strips += ft_int8_strips(args->part[i].outputs);
    size_t at = 0;
    p.codes = take(&at, p.rows * p.length, 1);
    p.steps = take(&at, p.rows, sizeof(float));
    p.zeros = take(&at, p.rows, sizeof(int32_t));
    p.weights = take(&at, p.strips * FT_INT8_STRIP * p.length, 1);
    p.sums = take(&at, p.strips * FT_INT8_STRIP, sizeof(int32_t));
    p.scales = take(&at, p.strips * FT_INT8_STRIP, sizeof(float));
    p.bytes = at;
    return p;
}
