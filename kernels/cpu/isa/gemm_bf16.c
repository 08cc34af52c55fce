// gemm_bf16.c - the product of bf16 rows whose sum is that of kernels/cpu/bf16.h: who computes which block (gemm_bf16_plan.h), on
// which unit (tiles/bf16_tile.h). Bias, scale and rounding follow where the sums lie.
#include "kernels/cpu/isa/gemm_bf16.h"

#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/isa/tiles/bf16_tile.h"
#include "kernels/half.h"
#include "kernels/ops/check.h"

#include <assert.h>

static_assert((int)BF16_ROWS <= 8 && (int)PANEL <= (int)FT_GEMM_BF16_PANEL, "scratch must hold whole tiles");

enum { SUM_ROW = FT_GEMM_BF16_PANEL, PANEL_WORDS = 6144 };

typedef struct job {
    const ft_gemm_args *args;
    const bf16_unit *unit;
    ft_gemm_bf16_plan plan;
    int row_parts, column_parts;
    float *scratch;
} job;

// What one thread works on: rows [row, row + rows) of A and C, columns [column, column + columns) of C.
typedef struct block {
    ft_tensor a, c;
    int64_t row, rows, column, columns;
    float *packed_a, *packed_b, *sums;
    int64_t a_row;
} block;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static const uint16_t *half_at(ft_tensor t, int64_t row, int64_t column) { return (const uint16_t *)t.data + row * t.stride + column; }

// Elements [k0, k0 + k) of the block's rows; rows that fill up the last tile are zeros.
static void pack_a(const job *g, const block *w, int64_t k0, int64_t k) {
    const int64_t tiles = (w->rows + g->unit->rows - 1) / g->unit->rows, words = (k + BF16_BLOCK - 1) / BF16_BLOCK * g->unit->words;
    for (int64_t i = 0; i < tiles * g->unit->rows; i++) {
        float *to = w->packed_a + i * w->a_row;
        if (i < w->rows) g->unit->pack_row(half_at(w->a, w->row + i, k0), k, to);
        else memset(to, 0, (size_t)words * sizeof *to);
    }
}

static void pack_panel(const job *g, int64_t column, int n, int width, int64_t k0, int64_t k, float *to) {
    const ft_tensor b = g->args->b;
    if (g->args->trans_b) g->unit->pack_rows(half_at(b, column, k0), b.stride, k, n, width, to);
    else g->unit->pack_columns(half_at(b, k0, column), b.stride, k, n, width, to);
}

// ---- the sums before and after ----------------------------------------------------------------------------------------

static void begin_sums(const job *g, const block *w, int64_t column, int n) {
    const int64_t rows = (w->rows + g->unit->rows - 1) / g->unit->rows * g->unit->rows;
    memset(w->sums, 0, (size_t)(rows * SUM_ROW) * sizeof *w->sums);
    if (!g->args->accumulate) return;
    for (int64_t i = 0; i < w->rows; i++) {
        float *to = w->sums + i * SUM_ROW;
        if (w->c.dtype == FT_F32) memcpy(to, (const float *)w->c.data + (w->row + i) * w->c.stride + column, (size_t)n * sizeof *to);
        else ft_widen(FT_BF16, half_at(w->c, w->row + i, column), to, n);
    }
}

static void end_sums(const job *g, const block *w, int64_t column, int n) {
    const float scale = g->args->scale;
    const ft_tensor bias = g->args->bias;
    float wide[SUM_ROW];
    if (bias.data && bias.dtype == FT_F32) memcpy(wide, (const float *)bias.data + column, (size_t)n * sizeof *wide);
    else if (bias.data) ft_widen(FT_BF16, (const uint16_t *)bias.data + column, wide, n);
    for (int64_t i = 0; i < w->rows; i++) {
        float *sum = w->sums + i * SUM_ROW;
        if (bias.data)
            for (int j = 0; j < n; j++) sum[j] += wide[j];
        if (scale != 0)
            for (int j = 0; j < n; j++) sum[j] *= scale;
        if (w->c.dtype == FT_F32) memcpy((float *)w->c.data + (w->row + i) * w->c.stride + column, sum, (size_t)n * sizeof *sum);
        else ft_narrow(FT_BF16, sum, (uint16_t *)w->c.data + (w->row + i) * w->c.stride + column, n);
    }
}

// ---- blocks -------------------------------------------------------------------------------------------------------------

// Adds `blocks` blocks of k to the sums, a few at a time: so many that their part of the panel stays in the first-level cache
// while all rows go over it.
static void add_products(const job *g, const block *w, int vectors, const float *b, int64_t blocks) {
    const bf16_unit *u = g->unit;
    const int width = vectors * u->lanes, most = PANEL_WORDS / (width * u->words);
    const sums_state state = u->begin();
    for (int64_t done = 0; done < blocks;) {
        const int64_t some = least(blocks - done, most > 0 ? most : 1);
        for (int64_t i = 0; i < w->rows; i += u->rows)
            u->tiles[vectors - 1](some, w->packed_a + i * w->a_row + done * u->words, w->a_row, b + done * u->words * width, w->sums + i * SUM_ROW,
                                  SUM_ROW);
        done += some;
    }
    u->end(state);
}

// The block's rows against its columns, panel by panel, nearly equally wide. Where k is not packed as a whole, it is packed anew
// for each.
static void multiply_block(const job *g, const block *w, bool whole) {
    const bf16_unit *u = g->unit;
    const int64_t vectors = (w->columns + u->lanes - 1) / u->lanes, panels = (vectors + u->vectors - 1) / u->vectors;
    const int64_t outer = g->plan.outer * BF16_BLOCK;
    for (int64_t p = 0; p < panels; p++) {
        const int64_t first = vectors * p / panels, last = vectors * (p + 1) / panels, at = first * u->lanes;
        const int n = (int)least(w->columns - at, (last - first) * u->lanes);
        begin_sums(g, w, w->column + at, n);
        if (whole) {
            add_products(g, w, (int)(last - first), w->packed_b + at * g->plan.blocks * u->words, g->plan.blocks);
        } else {
            for (int64_t k0 = 0; k0 < g->plan.k; k0 += outer) {
                const int64_t k = least(g->plan.k - k0, outer);
                pack_a(g, w, k0, k);
                pack_panel(g, w->column + at, n, (int)(last - first) * u->lanes, k0, k, w->packed_b);
                add_products(g, w, (int)(last - first), w->packed_b, (k + BF16_BLOCK - 1) / BF16_BLOCK);
            }
        }
        end_sums(g, w, w->column + at, n);
    }
}

static void pack_b(const job *g, const block *w) {
    const bf16_unit *u = g->unit;
    const int64_t vectors = (w->columns + u->lanes - 1) / u->lanes, panels = (vectors + u->vectors - 1) / u->vectors;
    for (int64_t p = 0; p < panels; p++) {
        const int64_t first = vectors * p / panels, last = vectors * (p + 1) / panels, at = first * u->lanes;
        pack_panel(g, w->column + at, (int)least(w->columns - at, (last - first) * u->lanes), (int)(last - first) * u->lanes, 0, g->plan.k,
                   w->packed_b + at * g->plan.blocks * u->words);
    }
}

static void multiply_part(void *context, int task, int thread) {
    const job *g = context;
    const ft_gemm_bf16_plan *p = &g->plan;
    block w = {.packed_a = g->scratch + (p->a_words + p->b_words + p->c_words) * (size_t)task,
               .a_row = p->outer * g->unit->words + FT_GEMM_BF16_APART};
    w.packed_b = w.packed_a + p->a_words;
    w.sums = w.packed_b + p->b_words;
    const bool whole = p->outer == p->blocks;
    int64_t m0, m1, n0, n1;
    ft_share(p->m, g->unit->rows, g->row_parts, task % g->row_parts, &m0, &m1);
    ft_share(p->n, FT_GEMM_VECTOR, g->column_parts, task / g->row_parts, &n0, &n1);
    if (m0 >= m1) return;
    for (w.column = n0; w.column < n1; w.column += p->columns) {
        w.columns = least(n1 - w.column, p->columns);
        if (whole) pack_b(g, &w);
        int64_t before = 0; // rows that lie elsewhere are as if they stood below
        for (int i = -1; i < g->args->more_count; i++) {
            w.a = i < 0 ? g->args->a : g->args->more[i].a;
            w.c = i < 0 ? g->args->c : g->args->more[i].c;
            const int64_t last = least(m1 - before, w.c.rows);
            for (w.row = m0 > before ? m0 - before : 0; w.row < last; w.row += p->rows) {
                w.rows = least(last - w.row, p->rows);
                if (whole) pack_a(g, &w, 0, p->k);
                multiply_block(g, &w, whole);
            }
            before += w.c.rows;
        }
    }
}

ft_status FT_ISA_NAME(gemm_bf16)(ft_device *device, const ft_gemm_args *args) {
    const ft_cpu *cpu = ft_cpu_of(device);
    job g = {.args = args, .unit = &bf16_units[cpu->bf16], .plan = ft_gemm_bf16_plan_of(args), .scratch = args->workspace.data};
    if (g.plan.m <= 0 || g.plan.n <= 0) return FT_OK;
    const ft_gemm_view shares = {.m = g.plan.m, .n = g.plan.n, .k = g.plan.k, .trans_a = true};
    ft_gemm_grid(&shares, cpu->threads, g.unit->rows, FT_GEMM_VECTOR, &g.row_parts, &g.column_parts);
    ft_pool_run(cpu->pool, g.row_parts * g.column_parts, multiply_part, &g);
    return FT_OK;
}

#if defined(FT_ISA_avx512)
// ---- does the unit keep the contract? -------------------------------------------------------------------------------------

// Two blocks of k, among them the pair that tells one order from another: from C = 2^24 two products of 1 make 2^24 + 2.
bool FT_ISA_NAME(bf16_unit_agrees)(ft_bf16_unit unit) {
    enum { K = 2 * BF16_BLOCK, ROWS = FT_GEMM_BF16_TILE, COLUMNS = FT_GEMM_BF16_PANEL };
    const bf16_unit *u = &bf16_units[unit];
    static const uint16_t odd_values[] = {0x3F80, 0x0001, 0x8040, 0x0080, 0x2000, 0xA000, 0x7F00, 0xDF80};
    uint16_t a[ROWS][K], b[COLUMNS][K];
    float packed_a[ROWS * K], packed_b[COLUMNS * K], sums[ROWS * COLUMNS], want[ROWS * COLUMNS];
    uint32_t state = 1;
    for (int i = 0; i < ROWS + COLUMNS; i++)
        for (int k = 0; k < K; k++) {
            state = state * 1664525u + 1013904223u;
            const uint32_t x = state >> 16; // from 2^-7 to 2, and now and then another one
            const uint16_t value = x % 61 == 0 ? odd_values[x % 8] : (uint16_t)((x & 0x87FF) | 0x3C00);
            *(i < ROWS ? &a[i][k] : &b[i - ROWS][k]) = i % 16 == 0 ? (k < 2 ? 0x3F80 : 0) : value;
        }
    const int columns = u->vectors * u->lanes;
    for (int i = 0; i < ROWS; i++) {
        u->pack_row(a[i], K, packed_a + i * (K / BF16_BLOCK * u->words));
        for (int j = 0; j < columns; j++) {
            float sum = i % 4 ? (float)(i * j) - 99.5f : 0x1p24f;
            sums[i * COLUMNS + j] = sum;
            for (int at = 0; at < K; at += BF16_BLOCK) {
                float chain[2] = {0, 0};
                for (int k = at; k < at + BF16_BLOCK; k++)
                    chain[k % 2] = ft_bf16_fma(ft_bf16_operand(ft_from_bf16(a[i][k])), ft_bf16_operand(ft_from_bf16(b[j][k])), chain[k % 2]);
                sum = ft_bf16_add(ft_bf16_operand(sum), ft_bf16_add(chain[0], chain[1]));
            }
            want[i * COLUMNS + j] = sum;
        }
    }
    u->pack_rows(b[0], K, K, columns, columns, packed_b);
    const sums_state before = u->begin();
    for (int i = 0; i < ROWS; i += u->rows)
        u->tiles[u->vectors - 1](K / BF16_BLOCK, packed_a + i * (K / BF16_BLOCK * u->words), K / BF16_BLOCK * u->words, packed_b, sums + i * COLUMNS, COLUMNS);
    u->end(before);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < columns; j++) {
            const float got = sums[i * COLUMNS + j], right = want[i * COLUMNS + j];
            if (memcmp(&got, &right, sizeof got) != 0 && !(isnan(got) && isnan(right))) return false;
        }
    return true;
}
#endif
