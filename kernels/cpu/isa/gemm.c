// gemm.c - the matrix product: who computes which block (see gemm_plan.h), block by block.
#include "kernels/cpu/gemm_bf16_plan.h"
#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/isa/gemm_bf16.h"
#include "kernels/cpu/isa/tiles/gemm_pack.h"
#include "kernels/ops/check.h"
#include "kernels/ops/segment_product.h"

#include <assert.h>

static_assert((int)FT_GEMM_MC % (int)TILE_ROWS == 0 && (int)FT_GEMM_NC % (int)PANEL == 0 &&
                  (int)FT_GEMM_WIDEST_PANEL % (int)PANEL == 0,
              "blocks must hold whole tiles");

typedef struct job {
    ft_gemm_view view;
    const ft_gemm_args *args;
    int row_parts, column_parts;
    float *scratch;
    size_t b_floats, a_floats; // of one thread
} job;

static void pack_block(const ft_gemm_view *v, int64_t k0, int64_t k, int64_t n0, int64_t n, const panels *all,
                       float *out) {
    for (int i = 0; i < all->count; i++) {
        int first = all->first[i], width = all->first[i + 1] - first;
        int real = n - first < width ? (int)n - first : width;
        if (v->b_half) {
            pack_half_columns(v->b_half + k0 * v->ldb + n0 + first, v->ldb, k, real, width, out + first * k);
            continue;
        }
        if (v->trans_b)
            pack_rows(v->b + (n0 + first) * v->ldb + k0, v->ldb, k, real, width, out + first * k);
        else
            pack_columns(v->b + k0 * v->ldb + n0 + first, v->ldb, k, real, width, out + first * k);
    }
}

// C[m0.., n0..] of m x n over k0..k0+k, B's block packed.
static void multiply_block(const ft_gemm_view *v, int64_t m0, int64_t m, int64_t n0, int64_t n, int64_t k0, int64_t k,
                           const panels *all, const float *b, float *a_packed) {
    bool last_k = k0 + k == v->k;
    tile t = {.k = k, .a_row = v->lda, .b_row = v->ldb, .ldc = v->ldc, .load_c = k0 > 0 || v->accumulate};
    int mode = v->trans_a ? A_PACKED : v->trans_c ? C_SWAPPED : v->direct_b ? B_DIRECT : PLAIN;
    if (v->a_half) pack_half_tiles(v->a_half + k0 * v->lda + m0, v->lda, k, m, a_packed);
    else if (v->trans_a) pack_tiles(v->a + k0 * v->lda + m0, v->lda, k, m, a_packed);
    for (int j = 0; j < all->count; j++) {
        int64_t first = all->first[j], vectors = (all->first[j + 1] - first) / REG_LANES;
        int64_t left = n - first - (vectors - 1) * REG_LANES;
        t.last_lanes = (int)(left < REG_LANES ? left : REG_LANES);
        t.b = v->direct_b ? v->b + k0 * v->ldb + n0 + first : b + first * k;
        int rows;
        for (int64_t i = 0, number = 0; i < m; i += rows, number++) {
            int64_t row = m0 + i, column = n0 + first;
            rows = tile_rows(m - i);
            t.a = v->trans_a ? a_packed + number * TILE_ROWS * k : v->a + row * v->lda + k0;
            t.c = v->trans_c ? v->c + column * v->ldc + row : v->c + row * v->ldc + column;
            t.bias = v->bias && last_k ? v->bias + (v->trans_c ? row : column) : NULL;
            kernels[mode][rows - 1][vectors - 1](&t);
        }
    }
}

// Once the sums of C[m0..m1, n..n + columns] are complete.
static void scale_part(const ft_gemm_view *v, int64_t m0, int64_t m1, int64_t n, int64_t columns) {
    int64_t first = v->trans_c ? n : m0, rows = v->trans_c ? columns : m1 - m0, at = v->trans_c ? m0 : n, cols = v->trans_c ? m1 - m0 : columns;
    for (int64_t i = first; i < first + rows; i++)
        for (int64_t j = at; j < at + cols; j++) v->c[i * v->ldc + j] *= v->scale;
}

// Rows m0 to m1 of all there are, those that lie elsewhere included.
static void multiply_rows(const job *g, int64_t m0, int64_t m1, int64_t n, int64_t columns, int64_t k0, int64_t k, const panels *all,
                          const float *b_packed, float *a_packed) {
    ft_gemm_view v = g->view;
    const int more = g->args->more_count;
    int64_t before = 0, rows = more > 0 ? g->args->c.rows : v.m; // a swapped product has others
    for (int i = 0;; i++) {
        const int64_t last = m1 - before < rows ? m1 - before : rows;
        for (int64_t m = m0 > before ? m0 - before : 0; m < last; m += FT_GEMM_MC)
            multiply_block(&v, m, last - m < FT_GEMM_MC ? last - m : FT_GEMM_MC, n, columns, k0, k, all, b_packed, a_packed);
        if (i == more) return;
        const ft_gemm_rows *next = &g->args->more[i];
        before += rows;
        rows = next->c.rows;
        v.a = next->a.data, v.lda = next->a.stride;
        v.c = next->c.data, v.ldc = next->c.stride;
    }
}

static void multiply_part(void *context, int task, int thread) {
    const job *g = context;
    const ft_gemm_view *v = &g->view;
    float *b_packed = g->scratch + (g->b_floats + g->a_floats) * (size_t)thread, *a_packed = b_packed + g->b_floats;
    int64_t m0, m1, n0, n1;
    ft_share(v->m, TILE_ROWS, g->row_parts, task % g->row_parts, &m0, &m1);
    ft_share(v->n, REG_LANES, g->column_parts, task / g->row_parts, &n0, &n1);
    if (m0 >= m1) return;
    int64_t slabs = v->k > 0 ? (v->k + FT_GEMM_KC - 1) / FT_GEMM_KC : 1; // without k, C still becomes 0 (+ bias)
    for (int64_t n = n0; n < n1; n += FT_GEMM_NC) {
        int64_t columns = n1 - n < FT_GEMM_NC ? n1 - n : FT_GEMM_NC;
        panels all = panels_of(columns);
        for (int64_t s = 0; s < slabs; s++) {
            int64_t k0 = v->k * s / slabs, k = v->k * (s + 1) / slabs - k0;
            if (!v->direct_b) pack_block(v, k0, k, n, columns, &all, b_packed);
            multiply_rows(g, m0, m1, n, columns, k0, k, &all, b_packed, a_packed);
        }
        if (v->scale != 0) scale_part(v, m0, m1, n, columns);
    }
}

FT_ISA_OP(gemm) {
    FT_TRY(ft_gemm_check(&ft_cpu_of(device)->target, args));
    if (ft_gemm_is_bf16(args)) return FT_ISA_NAME(gemm_bf16)(device, args);
    job g = {.view = ft_gemm_view_of(args), .args = args, .scratch = args->workspace.data};
    if (g.view.m <= 0 || g.view.n <= 0) return FT_OK;
    ft_gemm_scratch(&g.view, &g.b_floats, &g.a_floats);
    ft_gemm_grid(&g.view, ft_cpu_of(device)->threads, TILE_ROWS, REG_LANES, &g.row_parts, &g.column_parts);
    ft_gemm_cut(&g.view, &g.row_parts, &g.column_parts);
    ft_pool_run(ft_cpu_of(device)->pool, g.row_parts * g.column_parts, multiply_part, &g);
    return FT_OK;
}

// Of fp32, and bf16: of fp16 the rows are widened before (half_ops.c), product by product.
FT_ISA_OP(segment_product) {
    FT_TRY(ft_segment_product_check(&ft_cpu_of(device)->target, args));
    for (int i = 0; i < args->count; i++) {
        ft_gemm_args one = *args->product[i];
        one.workspace = args->workspace;
        if (one.c.rows > 0 && one.c.cols > 0) FT_TRY(FT_ISA_NAME(gemm)(device, &one));
    }
    return FT_OK;
}
