// skewed_product.h - the small matrix products of disentangled attention's backward, on operands where they lie.
//
//     C[r,c] += sum_p a(r,p) (x[p,c] + t[r,p,c])        a(r,p) = a[r * a_row + p * a_step], t likewise
//
// Like tile_product.h, lanes along the columns and one chain of fused multiply-adds over p in order; but rows and steps
// of `a` are any distance apart, so that its diagonals can be its rows, and t, optional, is a row of a table that both
// r and p decide about: the one of their distance. Rows of x, t and a lie in scratch and are whole vectors long; C has
// `columns` and may end inside of a vector.
#ifndef FT_CPU_SKEWED_PRODUCT_H
#define FT_CPU_SKEWED_PRODUCT_H

#include "kernels/cpu/isa/lanes/vec.h"

#include <stdbool.h>

// Tiles of C in registers: SKEW_ROWS x SKEW_VECTORS, and fewer rows of one vector for what is left of the columns.
#if defined(FT_ISA_avx512)
enum { SKEW_VECTORS = 4, SKEW_ROWS = 6 };
#elif defined(FT_ISA_avx2) || defined(FT_ISA_neon)
enum { SKEW_VECTORS = 1, SKEW_ROWS = 4 };
#else
enum { SKEW_VECTORS = 1, SKEW_ROWS = 2 };
#endif

typedef struct skewed {
    int64_t rows, columns, steps;
    const float *a;
    int64_t a_row, a_step;
    const float *x;
    int64_t x_step;
    const float *t; // NULL: none
    int64_t t_row, t_step;
    float *c;
    int64_t c_row;
    bool accumulate; // else C is written
} skewed;

// rows, vectors and table are constants where this is inlined.
FT_VEC void skew_run(const skewed *s, const int rows, const int vectors, const bool table) {
    v16 acc[SKEW_ROWS][SKEW_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            acc[r][j] =
                s->accumulate ? v_load_any(s->c + r * s->c_row + j * FT_LANES, s->columns - j * FT_LANES) : v_zero();
    const float *a = s->a, *x = s->x, *t = s->t;
    const int64_t a_row = s->a_row, a_step = s->a_step, x_step = s->x_step, t_row = s->t_row, t_step = s->t_step;
    for (int64_t p = s->steps; p > 0; p--, a += a_step, x += x_step) {
        v16 row[SKEW_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            row[j] = v_load(x + j * FT_LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            v16 y = v_set1(a[r * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                acc[r][j] = v_fma(y, table ? v_add(row[j], v_load(t + r * t_row + j * FT_LANES)) : row[j], acc[r][j]);
        }
        if (table) t += t_step;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            v_store_any(s->c + r * s->c_row + j * FT_LANES, acc[r][j], s->columns - j * FT_LANES);
}

typedef void skew_function(const skewed *s);
#define FT_SKEWS(rows, vectors)                                                                                        \
    static void skew_plain_##rows##x##vectors(const skewed *s) { skew_run(s, rows, vectors, false); }                  \
    static void skew_table_##rows##x##vectors(const skewed *s) { skew_run(s, rows, vectors, true); }
#define FT_SKEW_NAMES(rows, vectors)                                                                                   \
    { skew_plain_##rows##x##vectors, skew_table_##rows##x##vectors }
// clang-format off
FT_SKEWS(1, 1) FT_SKEWS(2, 1)
#if !defined(FT_ISA_portable)
FT_SKEWS(3, 1) FT_SKEWS(4, 1)
#endif
#if defined(FT_ISA_avx512)
FT_SKEWS(5, 1) FT_SKEWS(6, 1)
FT_SKEWS(1, 4) FT_SKEWS(2, 4) FT_SKEWS(3, 4) FT_SKEWS(4, 4) FT_SKEWS(5, 4) FT_SKEWS(6, 4)
#endif
// By rows - 1 and whether there is a table.
static skew_function *const skews_of_1[SKEW_ROWS][2] = {
    FT_SKEW_NAMES(1, 1), FT_SKEW_NAMES(2, 1),
#if !defined(FT_ISA_portable)
    FT_SKEW_NAMES(3, 1), FT_SKEW_NAMES(4, 1),
#endif
#if defined(FT_ISA_avx512)
    FT_SKEW_NAMES(5, 1), FT_SKEW_NAMES(6, 1),
#endif
};
#if defined(FT_ISA_avx512)
static skew_function *const skews_of_4[SKEW_ROWS][2] = {
    FT_SKEW_NAMES(1, 4), FT_SKEW_NAMES(2, 4), FT_SKEW_NAMES(3, 4),
    FT_SKEW_NAMES(4, 4), FT_SKEW_NAMES(5, 4), FT_SKEW_NAMES(6, 4),
};
#endif
// clang-format on
#undef FT_SKEWS
#undef FT_SKEW_NAMES

// Some columns, all rows.
FT_VEC void skew_column(skewed s, skew_function *const (*functions)[2]) {
    for (int64_t groups = (s.rows + SKEW_ROWS - 1) / SKEW_ROWS; groups > 0; groups--) {
        int64_t n = (s.rows + groups - 1) / groups;
        functions[n - 1][s.t != NULL](&s);
        s.a += n * s.a_row;
        s.c += n * s.c_row;
        if (s.t) s.t += n * s.t_row;
        s.rows -= n;
    }
}

static void skewed_product(skewed s) {
    while (s.columns > 0) {
        int64_t done = FT_LANES;
#if defined(FT_ISA_avx512)
        if (s.columns > 3 * FT_LANES) {
            done = 4 * FT_LANES;
            skew_column(s, skews_of_4);
        } else
            skew_column(s, skews_of_1);
#else
        skew_column(s, skews_of_1);
#endif
        s.x += done;
        s.c += done;
        if (s.t) s.t += done;
        s.columns -= done;
    }
}

#endif
