// row_dropout.h - the dropout factors of rows, 128 channels at a time: kernels/philox.h with a counter a lane.
//
//     ft_row_dropout d = ft_row_dropout_begin(&args->dropout);        // once an op
//     _Alignas(64) uint16_t bits[FT_DROPOUT_PIECE];
//     ft_row_dropout_bits(&d, row, channel, bits);                    // channel: a multiple of 8
//     x = v_mul(x, ft_row_dropout_factor(&d, bits + i));              // of channels channel + i .. + 15
#ifndef FT_CPU_ROW_DROPOUT_H
#define FT_CPU_ROW_DROPOUT_H

#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/op.h"
#include "kernels/philox.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the order of 16-bit halves in memory is taken for granted here"
#endif

enum { FT_DROPOUT_PIECE = 128 };

typedef struct ft_row_dropout {
    const int32_t *slot, *position;
    uint64_t key;
    uint32_t threshold;
    float scale;
} ft_row_dropout;

FT_VEC ft_row_dropout ft_row_dropout_begin(const ft_dropout *d) {
    if (d->probability == 0.0f) return (ft_row_dropout){NULL, NULL, 0, 0, 1.0f};
    uint32_t threshold = ft_dropout_threshold(d->probability);
    return (ft_row_dropout){d->slot, d->position, ft_dropout_key(d->step->seed, d->step->step, d->layer, d->site),
                            threshold, ft_dropout_scale(threshold)};
}

// Out of line: four registers of state want all the registers there are.
static __attribute__((noinline, unused)) void ft_row_dropout_bits(const ft_row_dropout *d, int64_t row, int64_t channel,
                                                                  uint16_t bits[FT_DROPOUT_PIECE]) {
    u16x c0 = u_add(u_iota(), u_set1((uint32_t)(channel / 8)));
    u16x c1 = u_set1((uint32_t)d->position[row]), c2 = u_set1((uint32_t)d->slot[row]), c3 = u_set1(0);
    uint32_t k0 = (uint32_t)d->key, k1 = (uint32_t)(d->key >> 32);
    for (int round = 0; round < 7; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        u16x high0, low0, high1, low1;
        u_mul_wide(c0, u_set1(0xD2511F53u), &high0, &low0);
        u_mul_wide(c2, u_set1(0xCD9E8D57u), &high1, &low1);
        c0 = u_xor(u_xor(high1, c1), u_set1(k0));
        c2 = u_xor(u_xor(high0, c3), u_set1(k1));
        c1 = low1;
        c3 = low0;
    }
    // A lane's four words are the eight halves of its eight channels, in order.
    u16x out[4];
    u_interleave4(c0, c1, c2, c3, out);
    for (int i = 0; i < 4; i++)
        u_store((uint32_t *)(void *)(bits + 32 * i), out[i]);
}

FT_VEC v16 ft_row_dropout_factor(const ft_row_dropout *d, const uint16_t *bits) {
    return v_select(u_lt(u_load_u16(bits), u_set1(d->threshold)), v_zero(), v_set1(d->scale));
}

#endif
