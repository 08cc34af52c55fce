#include "kernels/cpu/gemm_plan.h"

#include "kernels/cpu/pool.h"

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }
static int64_t parts_of(int64_t value, int64_t size) { return (value + size - 1) / size; }

ft_gemm_view ft_gemm_view_of(const ft_gemm_args *args) {
    const ft_tensor *a = &args->a, *b = &args->b, *c = &args->c;
    ft_gemm_view v = {.m = c->rows,
                      .n = c->cols,
                      .k = args->trans_a ? a->rows : a->cols,
                      .a = a->data,
                      .b = b->data,
                      .c = c->data,
                      .lda = a->stride,
                      .ldb = b->stride,
                      .ldc = c->stride,
                      .trans_a = args->trans_a,
                      .trans_b = args->trans_b,
                      .accumulate = args->accumulate,
                      .bias = args->bias.data,
                      .scale = args->scale};
    if (a->dtype == FT_BF16) v.a_half = a->data, v.b_half = b->data;
    for (int i = 0; i < args->more_count; i++) v.m += args->more[i].c.rows;
    if (args->more_count == 0 && !v.trans_a && v.trans_b && v.m <= FT_GEMM_SWAP_ROWS && v.n > v.m) {
        ft_gemm_view s = v;
        s.m = v.n, s.n = v.m;
        s.a = v.b, s.lda = v.ldb, s.trans_a = false;
        s.b = v.a, s.ldb = v.lda, s.trans_b = true;
        s.trans_c = true;
        return s;
    }
    v.direct_b = !v.trans_a && !v.trans_b && v.m <= FT_GEMM_DIRECT_ROWS && v.n % FT_GEMM_VECTOR == 0;
    return v;
}

void ft_gemm_scratch(const ft_gemm_view *v, size_t *b_floats, size_t *a_floats) {
    int64_t kc = at_most(v->k, FT_GEMM_KC);
    int64_t columns = at_most(parts_of(v->n, FT_GEMM_WIDEST_PANEL) * FT_GEMM_WIDEST_PANEL, FT_GEMM_NC);
    *b_floats = v->direct_b ? 0 : (size_t)(parts_of(columns * kc, 64) * 64);
    int64_t rows = v->trans_a ? at_most(parts_of(v->m, 24) * 24, FT_GEMM_MC) : 0;
    *a_floats = (size_t)(parts_of(rows * kc, 64) * 64);
}

// A thread more must save more than it costs, which is 1 or 2 us: this many multiply-adds take 3 to 8.
enum { FT_GEMM_WORK_OF_A_THREAD = 400000 };

void ft_gemm_grid(const ft_gemm_view *v, int threads, int mr, int nr, int *row_parts, int *column_parts) {
    int64_t tiles_m = parts_of(v->m, mr), tiles_n = parts_of(v->n, nr);
    double work = (double)v->m * (double)v->n * (double)v->k;
    threads = (int)at_most(threads, 1 + (int64_t)(work / FT_GEMM_WORK_OF_A_THREAD));
    *row_parts = *column_parts = 1;
    double best = 0;
    for (int columns = 1; columns <= threads && columns <= tiles_n; columns++) {
        int rows = (int)at_most(threads / columns, tiles_m);
        if (rows < 1) rows = 1;
        // The largest share of one thread, per element of k, in multiply-adds. An element packed costs about 8, one
        // that is only fetched 2, once for each block of columns.
        double m = (double)(parts_of(tiles_m, rows) * mr), n = (double)(parts_of(tiles_n, columns) * nr);
        double blocks = (double)parts_of((int64_t)n, FT_GEMM_NC);
        double cost = m * n + (v->direct_b ? 2 : 8) * n + (v->trans_a ? 4 : 2) * m * blocks;
        if (columns == 1 || cost < best) {
            best = cost;
            *row_parts = rows;
            *column_parts = columns;
        }
    }
}

void ft_gemm_cut(const ft_gemm_view *v, int *row_parts, int *column_parts) {
    // B is packed anew for every part of the rows, which is worth it to many rows alone; every part of the columns packs its own.
    int *parts = v->trans_a ? row_parts : column_parts;
    const int64_t size = v->trans_a ? v->m : v->n, least = v->trans_a ? 4 * FT_GEMM_MC : 2 * FT_GEMM_WIDEST_PANEL;
    if (*row_parts * *column_parts == 1) return;
    for (int pieces = FT_POOL_PIECES; pieces > 1; pieces--) {
        if (size / (*parts * pieces) < least) continue;
        *parts *= pieces;
        return;
    }
}
