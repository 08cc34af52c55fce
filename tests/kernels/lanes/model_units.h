// model_units.h - VDPBF16PS and AMX's tiles (TDPBF16PS, TDPBUSD) in plain C, as Intel's manual has them, in the place of the intrinsics: so
// the operands and loops of bf16_tile.h and int8_kernel.h run where no such unit is. It shows that they do what they should; not that
// silicon does what the manual says.
#ifndef FT_TEST_MODEL_UNITS_H
#define FT_TEST_MODEL_UNITS_H

#include "kernels/cpu/bf16.h"
#include "kernels/half.h"

#include <immintrin.h>

static float model_product(uint16_t a, uint16_t b, float c) {
    return ft_bf16_fma(ft_bf16_operand(ft_from_bf16(a)), ft_bf16_operand(ft_from_bf16(b)), ft_bf16_operand(c));
}

// Of each pair the high half first.
static __m512 model_dot(__m512 c, __m512bh a, __m512bh b) {
    uint16_t x[32], y[32];
    float z[16];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y), memcpy(z, &c, sizeof z);
    for (int i = 0; i < 16; i++)
        z[i] = model_product(x[2 * i], y[2 * i], model_product(x[2 * i + 1], y[2 * i + 1], z[i]));
    memcpy(&c, z, sizeof z);
    return c;
}

// Tiles are whole, 16 rows of 64 bytes, or this would not do.
static unsigned char model_tiles[8][16][64];
static int model_configured;
static void model_config(const void *config) {
    const unsigned char *c = config;
    model_configured = c[0] == 1 && c[1] == 0;
    for (int t = 0; t < 8; t++)
        model_configured &= c[16 + 2 * t] == 64 && c[17 + 2 * t] == 0 && c[48 + t] == 16;
    for (int i = 2; i < 64; i++) // reserved: not zero is a fault
        if (i < 16 || (i >= 32 && i < 48) || i >= 56) model_configured &= c[i] == 0;
}
static void model_release(void) { model_configured = 0; }
static void model_load(int t, const void *from, long stride) {
    if (!model_configured) abort();
    for (int i = 0; i < 16; i++)
        memcpy(model_tiles[t][i], (const char *)from + i * stride, 64);
}
static void model_store(int t, void *to, long stride) {
    if (!model_configured) abort();
    for (int i = 0; i < 16; i++)
        memcpy((char *)to + i * stride, model_tiles[t][i], 64);
}
static void model_multiply(int c, int a, int b) {
    if (!model_configured || c == a || a == b || b == c) abort();
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float sum[2] = {0, 0}, total;
            for (int k = 0; k < 16; k++)
                for (int odd = 0; odd < 2; odd++) {
                    uint16_t x, y;
                    memcpy(&x, &model_tiles[a][m][4 * k + 2 * odd], sizeof x);
                    memcpy(&y, &model_tiles[b][k][4 * n + 2 * odd], sizeof y);
                    sum[odd] = model_product(x, y, sum[odd]);
                }
            memcpy(&total, &model_tiles[c][m][4 * n], sizeof total);
            total = ft_bf16_add(ft_bf16_operand(total), ft_bf16_add(sum[0], sum[1]));
            memcpy(&model_tiles[c][m][4 * n], &total, sizeof total);
        }
}

static void model_zero(int t) {
    if (!model_configured) abort();
    memset(model_tiles[t], 0, sizeof model_tiles[t]);
}
// a without a sign, b with one; a sum wraps.
static void model_multiply_int8(int c, int a, int b) {
    if (!model_configured || c == a || a == b || b == c) abort();
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            uint32_t sum;
            memcpy(&sum, &model_tiles[c][m][4 * n], sizeof sum);
            for (int k = 0; k < 64; k++) sum += (uint32_t)(model_tiles[a][m][k] * (int8_t)model_tiles[b][k / 4][4 * n + k % 4]);
            memcpy(&model_tiles[c][m][4 * n], &sum, sizeof sum);
        }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define FT_DOT
#define FT_AMX
#define FT_AMX_INT8
#undef _tile_zero
#undef _tile_dpbusd
#define _tile_zero model_zero
#define _tile_dpbusd model_multiply_int8
#define _mm512_dpbf16_ps model_dot
#define _tile_loadconfig model_config
#define _tile_release model_release
#define _tile_loadd model_load
#define _tile_stored model_store
#define _tile_dpbf16ps model_multiply

#endif
