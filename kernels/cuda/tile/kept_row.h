// kept_row.h - a row of fp32 in shared memory, written and read by units or by quads: the low halves of all units, then, 16 banks
// behind, the high ones. So a warp's 16-byte accesses meet in no bank either way.
#ifndef FT_CUDA_KEPT_ROW_H
#define FT_CUDA_KEPT_ROW_H

#include "kernels/cuda/unit.h"

// Where the high halves begin, and how long a row is, in quads.
FT_HOST_DEVICE int ft_kept_high(int units) { return (units + 3) / 8 * 8 + 4; }
FT_HOST_DEVICE int ft_kept_quads(int units) { return ft_kept_high(units) + units; }

FT_DEVICE void ft_keep_unit(float4 *row, int high, int at, const ft_unit &u) {
    row[at] = make_float4(u.v[0], u.v[1], u.v[2], u.v[3]);
    row[high + at] = make_float4(u.v[4], u.v[5], u.v[6], u.v[7]);
}
FT_DEVICE ft_unit ft_kept_unit(const float4 *row, int high, int at) {
    const float4 a = row[at], b = row[high + at];
    return ft_unit{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
FT_DEVICE int ft_kept_place(int high, int quad) { return quad % 2 * high + quad / 2; }
FT_DEVICE ft_quad ft_kept_quad(const float4 *row, int high, int quad) {
    const float4 all = row[ft_kept_place(high, quad)];
    return ft_quad{{all.x, all.y, all.z, all.w}};
}

#endif
