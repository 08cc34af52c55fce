// bf16_lanes.h - 16 lanes of bf16 from and to memory, with the bits of kernels/half.h, and rows that are bf16 or fp32.
//
// Ops compute in fp32 whatever their rows are: what is read is widened in registers, what is written is rounded there,
// once. `halves` is a constant where these are inlined: false says that no row is bf16, and the test is gone.
#ifndef FT_CPU_BF16_LANES_H
#define FT_CPU_BF16_LANES_H

#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/tensor.h"

#include <stdbool.h>

FT_VEC v16 v_from_bf16(u16x a) { return v_bits(u_shl(a, 16)); }
// To the nearest, ties to even; a NaN stays one, quiet.
FT_VEC u16x u_bf16_of(v16 a) {
    const u16x bits = u_bits(a), high = u_shr(bits, 16);
    const u16x nearest = u_shr(u_add(u_add(bits, u_set1(0x7FFF)), u_and(high, u_set1(1))), 16);
    return u_select(v_is_nan(a), u_or(high, u_set1(0x40)), nearest);
}

typedef struct lane_row {
    void *x; // NULL: absent
    bool half;
} lane_row;

FT_VEC lane_row lanes_of(ft_tensor t, int64_t row, const bool halves) {
    const bool half = halves && t.dtype == FT_BF16;
    if (t.data == NULL) return (lane_row){NULL, half};
    return (lane_row){(char *)t.data + row * t.stride * (half ? 2 : 4), half};
}
FT_VEC v16 v_load_row(lane_row r, int64_t c, int64_t n, const bool halves) {
    if (!halves || !r.half) return v_load_any((const float *)r.x + c, n);
    const uint16_t *p = (const uint16_t *)r.x + c;
    return v_from_bf16(n >= FT_LANES ? u_load_u16(p) : u_load_u16_n(p, (int)n));
}
FT_VEC void v_store_row(lane_row r, int64_t c, v16 a, int64_t n, const bool halves) {
    if (!halves || !r.half) {
        v_store_any((float *)r.x + c, a, n);
        return;
    }
    uint16_t *p = (uint16_t *)r.x + c;
    if (n >= FT_LANES)
        u_store_u16(p, u_bf16_of(a));
    else
        u_store_u16_n(p, u_bf16_of(a), (int)n);
}

// A stretch of a row as fp32, in `space` where it is bf16; and what is there rounded to where it belongs.
FT_VEC const float *v_widened(lane_row r, int64_t c, int64_t n, float *space) {
    if (r.x == NULL) return NULL;
    for (int64_t i = 0; i < n; i += FT_LANES)
        v_store_any(space + i, v_load_row(r, c + i, n - i, true), n - i);
    return space;
}
FT_VEC void v_rounded(lane_row r, int64_t c, int64_t n, const float *from) {
    if (r.x == NULL) return;
    for (int64_t i = 0; i < n; i += FT_LANES)
        v_store_row(r, c + i, v_load_any(from + i, n - i), n - i, true);
}

#endif
