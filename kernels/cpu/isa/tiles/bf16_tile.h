// bf16_tile.h - the innermost loops of a product of bf16 rows, one a unit: multiply-adds of fp32 (every instruction
// set), VDPBF16PS, and the tiles of AMX. All add blocks of 32 k to sums that lie in C as kernels/cpu/bf16.h says.
//
// Operands are packed (bf16_words.h): A as rows of words, B as a panel as wide as the tile. Rows and columns are whole
// tiles.
#ifndef FT_CPU_BF16_TILE_H
#define FT_CPU_BF16_TILE_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/isa/tiles/amx.h"
#include "kernels/cpu/isa/tiles/bf16_words.h"

typedef void bf16_tile(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row);

// ---- multiply-adds of fp32 ------------------------------------------------------------------------------------------

// BF16_CHAINS 2: both chains at once, in twice the registers; 1: one after the other, the even one's sums wait in
// memory.
#if defined(FT_ISA_avx512)
enum { BF16_ROWS = 4, BF16_VECTORS = 3, BF16_CHAINS = 2 };
#elif defined(FT_ISA_avx2)
enum { BF16_ROWS = 6, BF16_VECTORS = 2, BF16_CHAINS = 1 };
#elif defined(FT_ISA_neon)
enum { BF16_ROWS = 6, BF16_VECTORS = 4, BF16_CHAINS = 1 };
#else
enum { BF16_ROWS = 4, BF16_VECTORS = 4, BF16_CHAINS = 1 };
#endif

#if defined(FT_ISA_portable)
FT_VEC reg sum_fma(reg a, reg b, reg c) {
    for (int i = 0; i < REG_LANES; i++)
        c.x[i] = ft_bf16_fma(a.x[i], b.x[i], c.x[i]);
    return c;
}
FT_VEC reg sum_add(reg a, reg b) {
    for (int i = 0; i < REG_LANES; i++)
        a.x[i] = ft_bf16_add(a.x[i], b.x[i]);
    return a;
}
FT_VEC reg sum_operand(reg a) {
    for (int i = 0; i < REG_LANES; i++)
        a.x[i] = ft_bf16_operand(a.x[i]);
    return a;
}
#else // a control register says what is flushed: sums_begin
FT_VEC reg sum_fma(reg a, reg b, reg c) { return reg_fma(a, b, c); }
FT_VEC reg sum_add(reg a, reg b) { return reg_add(a, b); }
FT_VEC reg sum_operand(reg a) { return a; }
#endif

// Denormal operands count as zeros and tiny results become them, for what runs between begin and end, and not for the
// rest of the program.
typedef uint64_t sums_state;
#if defined(FT_ISA_portable)
static sums_state sums_begin(void) { return 0; }
static void sums_end(sums_state state) {}
#elif defined(FT_ISA_neon)
enum { FLUSH_OPERANDS_AND_RESULTS = 1 << 24, FLUSHED_A_RESULT = 1 << 3 }; // of FPCR and FPSR
static sums_state sums_begin(void) {
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    __asm__ volatile("msr fpcr, %0" ::"r"(state | FLUSH_OPERANDS_AND_RESULTS) : "memory");
    return state;
}
static void sums_end(sums_state state) { __asm__ volatile("msr fpcr, %0" ::"r"(state) : "memory"); }
#else
enum { FLUSH_OPERANDS_AND_RESULTS = 0x8040 };
static sums_state sums_begin(void) {
    const unsigned state = _mm_getcsr();
    _mm_setcsr(state | FLUSH_OPERANDS_AND_RESULTS);
    return state;
}
static void sums_end(sums_state state) { _mm_setcsr((unsigned)state); }
#endif

// C += E + O
FT_VEC void add_chains(reg e, reg o, float *c) { reg_store(c, sum_add(sum_operand(reg_load(c)), sum_add(e, o))); }

// Elements of k from `first` on, every other one of the block: one chain.
FT_VEC void one_chain(const float *a, int64_t a_row, const float *b, const int nv, const int first,
                      reg sum[BF16_ROWS][BF16_VECTORS]) {
#pragma GCC unroll 8
    for (int i = 0; i < BF16_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[i][j] = reg_zero();
    for (int p = first; p < BF16_BLOCK; p += 2) {
        reg x[BF16_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            x[j] = sum_operand(reg_load(b + (p * nv + j) * REG_LANES));
#pragma GCC unroll 8
        for (int i = 0; i < BF16_ROWS; i++) {
            const reg y = sum_operand(reg_set1(a[i * a_row + p]));
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                sum[i][j] = sum_fma(y, x[j], sum[i][j]);
        }
    }
}

// Both chains of a block; nv is a constant where this is inlined, and the sums live in registers.
FT_VEC void two_chains(const float *a, int64_t a_row, const float *b, const int nv, reg even[BF16_ROWS][BF16_VECTORS],
                       reg odd[BF16_ROWS][BF16_VECTORS]) {
#pragma GCC unroll 8
    for (int i = 0; i < BF16_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            even[i][j] = odd[i][j] = reg_zero();
    for (int p = 0; p < BF16_BLOCK; p += 2)
#pragma GCC unroll 2
        for (int q = p; q < p + 2; q++) {
            reg x[BF16_VECTORS];
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                x[j] = reg_load(b + (q * nv + j) * REG_LANES);
#pragma GCC unroll 8
            for (int i = 0; i < BF16_ROWS; i++) {
                const reg y = reg_set1(a[i * a_row + q]);
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++) {
                    if (q == p)
                        even[i][j] = sum_fma(y, x[j], even[i][j]);
                    else
                        odd[i][j] = sum_fma(y, x[j], odd[i][j]);
                }
            }
        }
}

FT_VEC void run_bf16_tile(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row,
                          const int nv) {
    for (; blocks > 0; blocks--, a += BF16_BLOCK, b += BF16_BLOCK * nv * REG_LANES) {
        reg even[BF16_ROWS][BF16_VECTORS], odd[BF16_ROWS][BF16_VECTORS];
        if (BF16_CHAINS == 2) {
            two_chains(a, a_row, b, nv, even, odd);
        } else {
            float waiting[BF16_ROWS][BF16_VECTORS * REG_LANES];
            one_chain(a, a_row, b, nv, 0, even);
#pragma GCC unroll 8
            for (int i = 0; i < BF16_ROWS; i++)
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    reg_store(&waiting[i][j * REG_LANES], even[i][j]);
            one_chain(a, a_row, b, nv, 1, odd);
#pragma GCC unroll 8
            for (int i = 0; i < BF16_ROWS; i++)
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    even[i][j] = reg_load(&waiting[i][j * REG_LANES]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < BF16_ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                add_chains(even[i][j], odd[i][j], c + i * c_row + j * REG_LANES);
    }
}

#if defined(FT_ISA_neon)
// ARM judges whether a result is tiny before it is rounded. What it flushes holds all that is flushed by the contract,
// and where it flushed nothing the bits are the contract's; else they are made again, in plain C. Training hardly ever
// comes there.
static __attribute__((noinline)) void tile_again(int64_t blocks, const float *a, int64_t a_row, const float *b,
                                                 const int width, float *c, int64_t c_row) {
    for (; blocks > 0; blocks--, a += BF16_BLOCK, b += BF16_BLOCK * width)
        for (int i = 0; i < BF16_ROWS; i++)
            for (int j = 0; j < width; j++) {
                float sum[2] = {0, 0};
                for (int k = 0; k < BF16_BLOCK; k++)
                    sum[k % 2] =
                        ft_bf16_fma(ft_bf16_operand(a[i * a_row + k]), ft_bf16_operand(b[k * width + j]), sum[k % 2]);
                c[i * c_row + j] = ft_bf16_add(ft_bf16_operand(c[i * c_row + j]), ft_bf16_add(sum[0], sum[1]));
            }
}
FT_VEC void run_checked_tile(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row,
                             const int nv) {
    float before[BF16_ROWS][BF16_VECTORS * REG_LANES];
    uint64_t status;
    for (int i = 0; i < BF16_ROWS; i++)
        memcpy(before[i], c + i * c_row, (size_t)(nv * REG_LANES) * sizeof *c);
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    __asm__ volatile("msr fpsr, %0" ::"r"(status & ~(uint64_t)FLUSHED_A_RESULT) : "memory");
    run_bf16_tile(blocks, a, a_row, b, c, c_row, nv);
    __asm__ volatile("mrs %0, fpsr" : "=r"(status)::"memory");
    if (!(status & FLUSHED_A_RESULT)) return;
    for (int i = 0; i < BF16_ROWS; i++)
        memcpy(c + i * c_row, before[i], (size_t)(nv * REG_LANES) * sizeof *c);
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" ::"r"(control & ~(uint64_t)FLUSH_OPERANDS_AND_RESULTS) : "memory");
    tile_again(blocks, a, a_row, b, nv * REG_LANES, c, c_row);
    __asm__ volatile("msr fpcr, %0" ::"r"(control) : "memory");
}
#else
#define run_checked_tile run_bf16_tile
#endif

#define FT_BF16_TILE(nv)                                                                                               \
    static void bf16_tile_##nv(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c,                \
                               int64_t c_row) {                                                                        \
        run_checked_tile(blocks, a, a_row, b, c, c_row, nv);                                                           \
    }
// A panel is packed by eight columns: narrow registers come in pairs.
#if defined(FT_ISA_avx512)
enum { BF16_GRAIN = 1 };
FT_BF16_TILE(1)
FT_BF16_TILE(2) FT_BF16_TILE(3) static bf16_tile *const bf16_tiles[] = {bf16_tile_1, bf16_tile_2, bf16_tile_3};
#elif defined(FT_ISA_avx2)
enum { BF16_GRAIN = 1 };
FT_BF16_TILE(1)
FT_BF16_TILE(2)
static bf16_tile *const bf16_tiles[] = {bf16_tile_1, bf16_tile_2};
#else
enum { BF16_GRAIN = 2 };
FT_BF16_TILE(2)
FT_BF16_TILE(4)
static bf16_tile *const bf16_tiles[] = {bf16_tile_2, bf16_tile_4};
#endif
#undef FT_BF16_TILE

#if defined(FT_ISA_avx512)
// ---- VDPBF16PS ------------------------------------------------------------------------------------------------------

#ifndef FT_DOT // a test brings its own instructions
#define FT_DOT __attribute__((target("avx512bf16")))
#endif
enum { DOT_ROWS = 4, DOT_VECTORS = 3 };

static inline FT_DOT __attribute__((always_inline)) void
run_dot_tile(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row, const int nv) {
    enum { WORDS = BF16_BLOCK / 2 };
    for (; blocks > 0; blocks--, a += WORDS, b += WORDS * nv * REG_LANES) {
        reg chain[2][DOT_ROWS][DOT_VECTORS]; // even, odd
#pragma GCC unroll 8
        for (int i = 0; i < DOT_ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                chain[0][i][j] = chain[1][i][j] = reg_zero();
        for (int p = 0; p < WORDS; p += 2)
#pragma GCC unroll 2
            for (int odd = 0; odd < 2; odd++) {
                reg x[DOT_VECTORS];
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    x[j] = reg_load(b + ((p + odd) * nv + j) * REG_LANES);
#pragma GCC unroll 8
                for (int i = 0; i < DOT_ROWS; i++) {
                    const reg y = reg_set1(a[i * a_row + p + odd]);
#pragma GCC unroll 4
                    for (int j = 0; j < nv; j++)
                        chain[odd][i][j] = _mm512_dpbf16_ps(chain[odd][i][j], (__m512bh)y, (__m512bh)x[j]);
                }
            }
#pragma GCC unroll 8
        for (int i = 0; i < DOT_ROWS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                add_chains(chain[0][i][j], chain[1][i][j], c + i * c_row + j * REG_LANES);
    }
}
#define FT_DOT_TILE(nv)                                                                                                \
    static FT_DOT void dot_tile_##nv(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c,          \
                                     int64_t c_row) {                                                                  \
        run_dot_tile(blocks, a, a_row, b, c, c_row, nv);                                                               \
    }
FT_DOT_TILE(1)
FT_DOT_TILE(2)
FT_DOT_TILE(3)
#undef FT_DOT_TILE
    static bf16_tile *const dot_tiles[DOT_VECTORS] = {dot_tile_1, dot_tile_2, dot_tile_3};

// ---- AMX ------------------------------------------------------------------------------------------------------------

enum { AMX_SIDE = FT_AMX_SIDE, AMX_ROWS = 2 * AMX_SIDE, AMX_VECTORS = 2 };

static sums_state amx_begin(void) {
    ft_amx_begin();
    return 0;
}
static void amx_end(sums_state state) { ft_amx_end(); }

// The compiler does not know that tiles are memory read: what was packed is written before this.
static FT_AMX void amx_tile_1(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row) {
    const int64_t row = a_row * 4, to = c_row * 4;
    __asm__ volatile("" ::: "memory");
    _tile_loadd(0, c, to);
    _tile_loadd(2, c + AMX_SIDE * c_row, to);
    for (; blocks > 0; blocks--, a += BF16_BLOCK / 2, b += AMX_SIDE * BF16_BLOCK / 2) {
        _tile_loadd(6, b, 64);
        _tile_loadd(4, a, row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a + AMX_SIDE * a_row, row);
        _tile_dpbf16ps(2, 5, 6);
    }
    _tile_stored(0, c, to);
    _tile_stored(2, c + AMX_SIDE * c_row, to);
}
static FT_AMX void amx_tile_2(int64_t blocks, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row) {
    const int64_t row = a_row * 4, to = c_row * 4;
    float *below = c + AMX_SIDE * c_row;
    __asm__ volatile("" ::: "memory");
    _tile_loadd(0, c, to);
    _tile_loadd(1, c + AMX_SIDE, to);
    _tile_loadd(2, below, to);
    _tile_loadd(3, below + AMX_SIDE, to);
    for (; blocks > 0; blocks--, a += BF16_BLOCK / 2, b += 2 * AMX_SIDE * BF16_BLOCK / 2) {
        _tile_loadd(6, b, 128);
        _tile_loadd(4, a, row);
        _tile_loadd(7, b + AMX_SIDE, 128);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a + AMX_SIDE * a_row, row);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, to);
    _tile_stored(1, c + AMX_SIDE, to);
    _tile_stored(2, below, to);
    _tile_stored(3, below + AMX_SIDE, to);
}
static bf16_tile *const amx_tiles[AMX_VECTORS] = {amx_tile_1, amx_tile_2};
#endif

// ---- the units ------------------------------------------------------------------------------------------------------

#define FT_BF16_PACK(words_)                                                                                           \
    static void pack_row_##words_(const uint16_t *x, int64_t k, float *out) { row_words(x, k, words_, out); }          \
    static void pack_rows_##words_(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, float *out) {          \
        panel_of_rows(b, ldb, k, n, width, words_, out);                                                               \
    }                                                                                                                  \
    static void pack_columns_##words_(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, float *out) {       \
        panel_of_columns(b, ldb, k, n, width, words_, out);                                                            \
    }
FT_BF16_PACK(WIDE)
#if defined(FT_ISA_avx512)
FT_BF16_PACK(SPLIT)
FT_BF16_PACK(PAIRED)
#endif
#undef FT_BF16_PACK

typedef struct bf16_unit {
    int rows, lanes, vectors; // of the largest tile
    int words;                // of a block
    void (*pack_row)(const uint16_t *x, int64_t k, float *out);
    void (*pack_rows)(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, float *out);
    void (*pack_columns)(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, float *out);
    sums_state (*begin)(void); // what the tiles ask of the processor, and back
    void (*end)(sums_state state);
    bf16_tile *const *tiles; // by vectors - 1
} bf16_unit;

// By ft_bf16_unit; an instruction set without one has its multiply-adds in the place.
#define FT_BF16_FMA                                                                                                    \
    {                                                                                                                  \
        BF16_ROWS, REG_LANES *BF16_GRAIN, BF16_VECTORS / BF16_GRAIN, BF16_BLOCK, pack_row_WIDE, pack_rows_WIDE,        \
            pack_columns_WIDE, sums_begin, sums_end, bf16_tiles                                                        \
    }
static const bf16_unit bf16_units[FT_BF16_UNITS] = {
    [FT_BF16_BY_FMA] = FT_BF16_FMA,
#if defined(FT_ISA_avx512)
    [FT_BF16_BY_DOT] = {DOT_ROWS, REG_LANES, DOT_VECTORS, BF16_BLOCK / 2, pack_row_SPLIT, pack_rows_SPLIT,
                        pack_columns_SPLIT, sums_begin, sums_end, dot_tiles},
    [FT_BF16_BY_AMX] = {AMX_ROWS, AMX_SIDE, AMX_VECTORS, BF16_BLOCK / 2, pack_row_PAIRED, pack_rows_PAIRED,
                        pack_columns_PAIRED, amx_begin, amx_end, amx_tiles},
#else
    [FT_BF16_BY_DOT] = FT_BF16_FMA,
    [FT_BF16_BY_AMX] = FT_BF16_FMA,
#endif
};
#undef FT_BF16_FMA

#endif
