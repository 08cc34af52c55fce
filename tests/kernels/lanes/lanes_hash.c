// lanes_hash [VECTORS [UNIT ...]] - a line a function of vec.h and vmath.h, and of the tiles of matrix products: a hash of what it
// makes of many inputs - all patterns of bits, infinities, NaN, denormals, and around the bounds of conversions.
// Compiled once an instruction set by test_lanes.sh: the lines must be the same. With FT_MODEL_UNITS the tiles of
// VDPBF16PS and AMX run on a model of those instructions (model_units.h), and are held to the others. A NaN that was
// computed counts as one, whatever its payload.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/lanes/vmath.h"
#ifdef FT_MODEL_UNITS
#include "tests/kernels/lanes/model_units.h"
#endif
#include "kernels/cpu/isa/tiles/bf16_tile.h"
#include "kernels/cpu/isa/tiles/gemm_pack.h"
#include "kernels/cpu/isa/tiles/int8_kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state;
static uint32_t word(void) {
    random_state += 0x9E3779B97F4A7C15u;
    uint64_t z = random_state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}
static uint32_t pattern(void) {
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x00800000, 0x7F800000,
                                     0xFF800000, 0x7FC00000, 0x7F800001, 0x4F000000, 0xCF000000, 0x4EFFFFFF, 0xCF000001,
                                     0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0x7F7FFFFF, 0xFFFFFFFF};
    const uint32_t x = word();
    switch (x % 8) {
    case 0: return edges[word() % (sizeof edges / sizeof *edges)];
    case 1:
    case 2: return word();
    case 3: return (word() & 0x807FFFFF) | (120 + word() % 16) << 23;
    default: return (word() & 0x807FFFFF) | (110 + word() % 50) << 23;
    }
}

static uint64_t hash;
static void add_word(uint32_t x) { hash = (hash ^ x) * 0x100000001B3u; }
static void add_bits(u16x a) {
    uint32_t x[16];
    u_store(x, a);
    for (int i = 0; i < 16; i++)
        add_word(x[i]);
}
static void add_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    add_word((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC00000 : bits);
}
static void add_vector(v16 a) {
    float x[16];
    v_store(x, a);
    for (int i = 0; i < 16; i++)
        add_float(x[i]);
}
static void add_truths(m16 m) { add_bits(u_select(m, u_set1(1), u_set1(0))); }

// What follows the name adds to the hash, of the inputs p, q, r and a, b, c, the same bits, and n.
static uint64_t vectors = 20000;
#define EACH(name, ...)                                                                                                \
    do {                                                                                                               \
        random_state = 1;                                                                                              \
        hash = 0xCBF29CE484222325u;                                                                                    \
        for (uint64_t turn = 0; turn < vectors; turn++) {                                                              \
            uint32_t x[3][16];                                                                                         \
            for (int i = 0; i < 48; i++)                                                                               \
                x[i / 16][i % 16] = pattern();                                                                         \
            const u16x p = u_load(x[0]), q = u_load(x[1]), r = u_load(x[2]);                                           \
            const v16 a = v_bits(p), b = v_bits(q), c = v_bits(r);                                                     \
            const int n = (int)(turn % 17);                                                                            \
            (void)p, (void)q, (void)r, (void)a, (void)b, (void)c, (void)n;                                             \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        printf("%-12s %016" PRIx64 "\n", name, hash);                                                                  \
    } while (0)
#define VECTOR(f, ...) EACH(#f, add_vector(f(__VA_ARGS__)))
#define BITS(f, ...) EACH(#f, add_bits(f(__VA_ARGS__)))
#define TRUTHS(f, ...) EACH(#f, add_truths(f(__VA_ARGS__)))

static void functions(void) {
    VECTOR(v_add, a, b);
    VECTOR(v_sub, a, b);
    VECTOR(v_mul, a, b);
    VECTOR(v_div, a, b);
    VECTOR(v_fma, a, b, c);
    VECTOR(v_fnma, a, b, c);
    VECTOR(v_fms, a, b, c);
    VECTOR(v_max, a, b);
    VECTOR(v_min, a, b);
    VECTOR(v_sqrt, a);
    VECTOR(v_round, a);
    VECTOR(v_floor, a);
    VECTOR(v_abs, a);
    VECTOR(v_neg, a);
    VECTOR(v_copysign, a, b);
    VECTOR(v_keep, v_lt(a, b), c);
    VECTOR(v_from_i, p);
    BITS(u_from_v, a);
    TRUTHS(v_lt, a, b);
    TRUTHS(v_le, a, b);
    TRUTHS(v_gt, a, b);
    TRUTHS(v_eq, a, b);
    TRUTHS(v_is_nan, a);
    TRUTHS(m_first, n);
    TRUTHS(m_and, v_lt(a, b), u_lt(p, q));
    TRUTHS(m_or, v_lt(a, b), u_lt(p, q));
    TRUTHS(m_not, v_lt(a, b));
    EACH("m_any", add_word((uint32_t)(m_any(m_and(v_eq(a, b), m_first(n))) != 0)));
    EACH("v_hsum", add_float(v_hsum(a)));
    EACH("v_hmax", add_float(v_hmax(a)));
    BITS(u_add, p, q);
    BITS(u_sub, p, q);
    BITS(u_mul, p, q);
    BITS(u_mulhi, p, q);
    BITS(u_and, p, q);
    BITS(u_andnot, p, q);
    BITS(u_or, p, q);
    BITS(u_xor, p, q);
    EACH("u_shl", add_bits(u_shl(p, (unsigned)(turn % 40))));
    EACH("u_shr", add_bits(u_shr(p, (unsigned)(turn % 40))));
    TRUTHS(u_lt, p, q);
    TRUTHS(u_eq, p, u_and(p, q));
    BITS(u_iota);
    EACH("u_load_u16", add_bits(u_load_u16((const uint16_t *)(const void *)x)));
    EACH("u_mul_wide", {
        u16x high, low;
        u_mul_wide(p, q, &high, &low);
        add_bits(high), add_bits(low);
    });
    EACH("u_interleave", {
        u16x out[4];
        u_interleave4(p, q, r, u_xor(p, q), out);
        for (int i = 0; i < 4; i++)
            add_bits(out[i]);
    });
    EACH("parts", {
        add_bits(u_load_n(x[1], n)), add_bits(u_bits(v_load_n((const float *)(const void *)x[2], n)));
        u_store_n(x[0], r, n), add_bits(u_load(x[0]));
        v_store_n((float *)(void *)x[1], a, n), add_bits(u_load(x[1]));
    });
    BITS(u_bf16_of, a);
    VECTOR(v_from_bf16, u_and(p, u_set1(0xFFFF)));
    EACH("16 bits", {
        uint16_t *half = (uint16_t *)(void *)x[0];
        add_bits(u_load_u16_n(half, n));
        u_store_u16(half + 16, u_bf16_of(b)), u_store_u16_n(half, u_bf16_of(c), n);
        add_bits(u_load(x[0]));
    });
    VECTOR(v_exp, a);
    VECTOR(v_sigmoid, a);
    VECTOR(v_tanh, a);
    EACH("v_normal_tail", {
        v16 bell;
        const v16 tail = v_normal_tail(v_abs(a), &bell);
        add_vector(tail), add_vector(bell);
    });
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

enum { M = 13, N = 29, K = 77 };

// fp32: the rows of A as they lie, in every mode of B and C, in tiles of the set's size.
static void products(void) {
    static float a[M * K], b[K * N], c[M * N], packed[K * FT_GEMM_WIDEST_PANEL * 2];
    random_state = 2, hash = 0;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(int32_t)word() * 0x1p-31f;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(int32_t)word() * 0x1p-31f;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        const panels all = panels_of(N);
        for (int j = 0; j < all.count; j++) {
            const int first = all.first[j], width = all.first[j + 1] - first, n = N - first < width ? N - first : width;
            if (by_rows)
                pack_rows(b + first * K, K, K, n, width, packed); // as [n][k]
            else
                pack_columns(b + first, N, K, n, width, packed);
            int rows;
            for (int i = 0; i < M; i += rows) {
                rows = tile_rows(M - i);
                const tile t = {.k = K,
                                .a = a + i * K,
                                .a_row = K,
                                .b = packed,
                                .c = c + i * N + first,
                                .ldc = N,
                                .load_c = by_rows,
                                .last_lanes = n - (width / REG_LANES - 1) * REG_LANES};
                kernels[PLAIN][rows - 1][width / REG_LANES - 1](&t);
            }
        }
        for (int i = 0; i < M * N; i++)
            add_float(c[i]);
    }
    printf("%-12s %016" PRIx64 "\n", "fp32 tiles", hash);
}

// bf16, of sizes about 1 and about where results are flushed.
static uint64_t bf16_products(ft_bf16_unit number, bool tiny) {
    enum { WIDTH = 96, ROWS = 32, COMPARED = 24 }; // rows of whole tiles on every set
    static uint16_t a[ROWS][K], b[WIDTH][K], turned[K][WIDTH];
    static float packed_a[ROWS][96], packed_b[96 * WIDTH], sums[ROWS][WIDTH], before[ROWS][WIDTH];
    const bf16_unit *u = &bf16_units[number];
    random_state = 3, hash = 1;
    for (uint64_t turn = 0; turn < 1 + vectors / 1000; turn++) {
        for (int i = 0; i < ROWS + WIDTH; i++)
            for (int k = 0; k < K; k++) {
                const uint32_t x = word(), at = tiny ? 52 : 120;
                const uint16_t value = (uint16_t)((x & 0x807F) | (at + (x >> 8) % 12) << 7),
                               small = (uint16_t)(x & 0x807F);
                *(i < ROWS ? &a[i][k] : &b[i - ROWS][k]) = tiny && x % 16 == 0 ? small : value;
            }
        for (int i = 0; i < WIDTH; i++)
            for (int k = 0; k < K; k++)
                turned[k][i] = b[i][k];
        for (int i = 0; i < ROWS; i++)
            u->pack_row(a[i], K, packed_a[i]);
        for (int v = 1; v <= u->vectors; v++) {
            const int width = v * u->lanes;
            for (int first = 0; first + width <= WIDTH; first += width) {
                if (v % 2)
                    u->pack_rows(b[first], K, K, width, width, packed_b);
                else
                    u->pack_columns(&turned[0][first], WIDTH, K, width, width, packed_b);
                for (int i = 0; i < ROWS; i++)
                    for (int j = 0; j < width; j++)
                        sums[i][first + j] = (float)(i * WIDTH + first + j) * (tiny ? 0x1p-133f : 1);
                for (int i = 0; i + u->rows <= ROWS; i += u->rows) {
                    const sums_state state = u->begin();
                    u->tiles[v - 1](3, packed_a[i], 96, packed_b, &sums[i][first], WIDTH);
                    u->end(state);
                }
            }
            if (v > 1 && memcmp(before, sums, COMPARED * sizeof *sums) != 0) hash = 0; // a panel of another width
            memcpy(before, sums, sizeof sums);
        }
        for (int i = 0; i < COMPARED; i++)
            for (int j = 0; j < WIDTH; j++)
                add_float(sums[i][j]);
    }
    return hash;
}

// 8 bits: every size of tile.
static uint64_t int8_products(ft_int8_unit unit) {
    enum { ROWS = 55, STRIPS = 3, LENGTH = 172, OUTPUTS = STRIPS * FT_INT8_STRIP };
    static uint8_t codes[ROWS * LENGTH];
    static int8_t weights[OUTPUTS * LENGTH];
    static int32_t zeros[ROWS], sums[OUTPUTS];
    static float steps[ROWS], scales[OUTPUTS], bias[OUTPUTS], c[ROWS][OUTPUTS];
    random_state = 4, hash = 1;
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < ROWS * LENGTH; i++)
        codes[i] = (uint8_t)(word() % 5 == 0 ? 255 : word());
    for (int i = 0; i < OUTPUTS * LENGTH; i++) {
        weights[i] = (int8_t)(word() % 5 == 0 ? -127 : (int)(word() % 255) - 127);
        sums[i / (FT_INT8_STRIP * LENGTH) * FT_INT8_STRIP + i / 4 % FT_INT8_STRIP] += weights[i];
    }
    for (int i = 0; i < ROWS; i++)
        zeros[i] = (int32_t)(word() % 256), steps[i] = (float)word() * 0x1p-40f;
    for (int j = 0; j < OUTPUTS; j++)
        scales[j] = (float)word() * 0x1p-40f, bias[j] = (float)(int32_t)word() * 0x1p-31f;
    for (int first = 0; first < STRIPS; first += int8_strips_of(unit)) {
        const int left = STRIPS - first, count = left < int8_strips_of(unit) ? left : int8_strips_of(unit);
        int8_tile t = {.words = LENGTH / 4, .a = codes, .length = LENGTH, .b = weights + first * FT_INT8_STRIP * LENGTH};
        t.steps = steps, t.zeros = zeros, t.sums = sums + first * FT_INT8_STRIP, t.scales = scales + first * FT_INT8_STRIP;
        t.ldc = OUTPUTS;
        for (int j = 0; j < count; j++) {
            t.bias[j] = bias + (first + j) * FT_INT8_STRIP;
            t.c[j] = c[0] + (first + j) * FT_INT8_STRIP;
            t.lanes[j] = FT_INT8_STRIP;
        }
#ifdef FT_MODEL_UNITS
        if (unit == FT_INT8_BY_AMX) ft_amx_begin();
#endif
        run_int8_rows(t, ROWS, count, unit);
#ifdef FT_MODEL_UNITS
        if (unit == FT_INT8_BY_AMX) ft_amx_end();
#endif
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < OUTPUTS; j++)
            add_float(c[i][j]);
    return hash;
}

int main(int argc, char **argv) {
    if (argc > 1) vectors = strtoull(argv[1], NULL, 10);
    functions();
    products();
    int differs = 0;
    for (int tiny = 0; tiny < 2; tiny++) {
        const uint64_t of_fma = bf16_products(FT_BF16_BY_FMA, tiny);
        printf("%-12s %016" PRIx64 "\n", tiny ? "bf16, tiny" : "bf16 tiles", of_fma);
#ifdef FT_MODEL_UNITS
        for (int unit = FT_BF16_BY_FMA + 1; unit < FT_BF16_UNITS; unit++)
            if (bf16_products((ft_bf16_unit)unit, tiny) != of_fma)
                differs = 1, fprintf(stderr, "unit %d, %s: other bits\n", unit, tiny ? "tiny" : "ordinary");
#endif
    }
    const uint64_t widened = int8_products(FT_INT8_WIDENED);
    printf("%-12s %016" PRIx64 "\n", "int8 tiles", widened);
    for (int i = 2; i < argc; i++) { // further units that this machine, or the model, has
        const ft_int8_unit unit = (ft_int8_unit)atoi(argv[i]);
        if (int8_tiles[unit][0][0] == NULL || int8_products(unit) != widened)
            differs = 1, fprintf(stderr, "8 bits, unit %d: other numbers\n", unit);
    }
    return differs;
}
