// rope.h - rotary positions: pairs of columns of every head are turned by angles that grow with the position.
//
// Of row t at position p and head h, for i < d/2 with a = x[h d + i], b = x[h d + d/2 + i], c = table[p][i], s = table[p][d/2 + i]:
//     a' = a c - b s,  b' = b c + a s
// in place; inverse: with -s, which is the transpose and so the way of gradients back. Two products and one sum, each rounded once in fp32,
// whatever H is; then H. A row of the table is the cosines and then the sines of the d/2 angles of one position: ft_rope_angles.
#ifndef FT_ROPE_H
#define FT_ROPE_H
#include "kernels/ops/op.h"

typedef struct ft_rope_args {
    int32_t head_dim;        // even
    bool inverse;
    const int32_t *position; // [T] device, each below table.rows
    ft_tensor table;         // [positions, head_dim] fp32
    ft_tensor x;             // [T, heads*head_dim], any number of heads
    ft_workspace workspace;
} ft_rope_args;
size_t ft_rope_workspace(const ft_target *target, const ft_rope_args *args);
ft_status ft_rope_check(const ft_target *target, const ft_rope_args *args);

// How frequencies f = theta^(-2i/d) are slowed down for texts longer than those of the pre-training: f / factor of all of them, or, Llama 3's, of
// those whose wavelength w = 2 pi / f is above original / low, none of those below original / high, and between these
// (1 - t) f / factor + t f with t = (original / w - low) / (high - low).
typedef enum ft_rope_kind { FT_ROPE_DEFAULT, FT_ROPE_LINEAR, FT_ROPE_LLAMA3 } ft_rope_kind;
typedef struct ft_rope_scaling {
    ft_rope_kind kind;
    double factor;
    double low, high, original; // LLAMA3
} ft_rope_scaling; // {0}: none

// The table on the host, [positions, head_dim]: angles p f, where frequencies and angles are numbers of fp32, as transformers has them, and
// cosine and sine are the nearest ones of those.
void ft_rope_angles(double theta, const ft_rope_scaling *scaling, int32_t head_dim, int32_t positions, float *table);
#endif
