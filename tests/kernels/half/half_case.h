// half_case.h - rows in bf16 and fp16 for the ops over them, and what else such an op reads.
#ifndef FT_HALF_CASE_H
#define FT_HALF_CASE_H

#include "../half_matrix.h"

static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {5, 8}, {37, 40}, {9, 264}, {70, 33}, {130, 16}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST_ROWS = 130 };

// Everything a case may read; ops take what they need.
typedef struct half_case {
    int64_t rows, cols;
    ft_dtype dtype;
    typed x, residual, dy, vectors; // vectors: bias, and two more
    typed wide;                     // [2 * rows + 2, cols] fp32: what ops read in fp32 in every precision
    ft_tensor bias;
    ft_tensor wide_residual, wide_dy, gamma, beta; // of `wide`
    ft_activation kind;
    bool optional; // bias, residual, ... are there
    int keep;      // which views alias
    bool narrow;   // what adds up from layer to layer is of the rows' type too, not fp32
    ft_step_state step;
    int32_t slot[MOST_ROWS], position[MOST_ROWS];
    ft_dropout dropout;
} half_case;

static half_case *case_new(ft_dtype dtype, int64_t rows, int64_t cols, float probability) {
    half_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (half_case){.rows = rows, .cols = cols, .dtype = dtype, .optional = true};
    c->x = typed_random(dtype, rows, cols, 0, true, 1, 0.3);
    c->residual = typed_random(dtype, rows, cols, 0, true, 1, 0);
    c->dy = typed_random(dtype, rows, cols, 0, true, 1, 0);
    c->vectors = typed_random(dtype, 3, cols, 0, true, 0.4, 0.6);
    c->bias = ft_rows(c->vectors.t, 0, 1);
    c->wide = typed_random(FT_F32, 2 * rows + 2, cols, 0, true, 1, 0.3);
    c->wide_residual = ft_rows(c->wide.t, 0, rows);
    c->wide_dy = ft_rows(c->wide.t, rows, rows);
    c->gamma = ft_rows(c->wide.t, 2 * rows, 1);
    c->beta = ft_rows(c->wide.t, 2 * rows + 1, 1);
    c->step = (ft_step_state){.seed = 0x123456789ABCDEF0u, .step = 7, .loss_scale = 1};
    for (int64_t t = 0; t < rows; t++) {
        c->slot[t] = (int32_t)(t / 9);
        c->position[t] = (int32_t)(t % 9);
    }
    c->dropout = (ft_dropout){.probability = probability, .layer = 3, .site = FT_SITE_FFN_OUTPUT};
    c->dropout.step = &c->step;
    c->dropout.slot = c->slot;
    c->dropout.position = c->position;
    return c;
}
static void case_free(half_case *c) {
    typed all[] = {c->x, c->residual, c->dy, c->vectors, c->wide};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        typed_free(all[i]);
    free(c);
}
static double *doubles(int64_t n) {
    double *d = calloc((size_t)n + 1, sizeof *d);
    assert_non_null(d);
    return d;
}
static void free_all(typed *matrices, size_t n) {
    for (size_t i = 0; i < n; i++)
        typed_free(matrices[i]);
}
#define FREE_ALL(...)                                                                                                  \
    do {                                                                                                               \
        typed list_[] = {__VA_ARGS__};                                                                                 \
        free_all(list_, sizeof list_ / sizeof *list_);                                                                 \
    } while (0)

#endif
