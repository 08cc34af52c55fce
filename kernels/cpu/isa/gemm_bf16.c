// gemm_bf16.c - the product of bf16 rows whose sum is that of kernels/cpu/bf16.h: who computes which block
// (gemm_bf16_plan.h), on which unit (tiles/bf16_tile.h). Bias, scale and rounding follow where the sums lie.
#include "kernels/cpu/isa/gemm_bf16.h"

#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/bf16_tile.h"
#include "kernels/half.h"
#include "kernels/ops/check.h"

#include <assert.h>

static_assert((int)BF16_ROWS <= 8 && (int)PANEL <= (int)FT_GEMM_BF16_PANEL, "scratch must hold whole tiles");

enum { MOST_ROWS = FT_GEMM_BF16_ROWS, MOST_COLUMNS = FT_GEMM_BF16_COLUMNS, PANEL_WORDS = 6144 };

typedef struct job {
    const ft_gemm_args *args;
    const bf16_unit *unit;
    ft_gemm_bf16_plan plan;
    int row_parts, column_parts;
    float *scratch;
} job;

// What one thread works on: rows [row, row + rows) of A and C, columns [column, column + columns) of C; of C^T when
// swapped.
typedef struct block {
    ft_tensor a, c;
    int64_t row, rows, column, columns;
    float *packed_a, *packed_b, *sums;
    int64_t a_row, sum_row;
} block;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static const uint16_t *half_at(ft_tensor t, int64_t row, int64_t column) {
    return (const uint16_t *)t.data + row * t.stride + column;
}

// Elements [k0, k0 + k) of the block's rows; rows that fill up the last tile are zeros.
static void pack_a(const job *g, const block *w, int64_t k0, int64_t k) {
    const int64_t tiles = (w->rows + g->unit->rows - 1) / g->unit->rows,
                  words = (k + BF16_BLOCK - 1) / BF16_BLOCK * g->unit->words;
    for (int64_t i = 0; i < tiles * g->unit->rows; i++) {
        float *to = w->packed_a + i * w->a_row;
        if (i < w->rows)
            g->unit->pack_row(half_at(w->a, w->row + i, k0), k, to);
        else
            memset(to, 0, (size_t)words * sizeof *to);
    }
}

static void pack_panel(const job *g, int64_t column, int n, int width, int64_t k0, int64_t k, float *to) {
    const ft_tensor b = g->plan.swapped ? g->args->a : g->args->b;
    if (g->args->trans_b)
        g->unit->pack_rows(half_at(b, column, k0), b.stride, k, n, width, to);
    else
        g->unit->pack_columns(half_at(b, k0, column), b.stride, k, n, width, to);
}

// ---- the sums before and after

static void load_row(ft_tensor c, int64_t row, int64_t column, int64_t n, float *to) {
    if (c.dtype == FT_F32)
        memcpy(to, (const float *)c.data + row * c.stride + column, (size_t)n * sizeof *to);
    else
        ft_widen(FT_BF16, half_at(c, row, column), to, n);
}

static void begin_sums(const job *g, const block *w) {
    const int64_t rows = (w->rows + g->unit->rows - 1) / g->unit->rows * g->unit->rows;
    memset(w->sums, 0, (size_t)(rows * w->sum_row) * sizeof *w->sums);
    if (!g->args->accumulate) return;
    float turned[MOST_ROWS];
    for (int64_t i = 0; !g->plan.swapped && i < w->rows; i++)
        load_row(w->c, w->row + i, w->column, w->columns, w->sums + i * w->sum_row);
    for (int64_t j = 0; g->plan.swapped && j < w->columns; j++) {
        load_row(w->c, w->column + j, w->row, w->rows, turned);
        for (int64_t i = 0; i < w->rows; i++)
            w->sums[i * w->sum_row + j] = turned[i];
    }
}

// Bias, scale and rounding of n sums at once, and into a row of C.
static void end_row(const job *g, const float *sum, const float *bias, int64_t n, lane_row c, int64_t column) {
    const v16 scale = v_set1(g->args->scale);
    for (int64_t j = 0; j < n; j += FT_LANES) {
        v16 x = v_load_any(sum + j, n - j);
        if (g->args->bias.data) x = v_add(x, v_load_any(bias + j, n - j));
        if (g->args->scale != 0) x = v_mul(x, scale);
        v_store_row(c, column + j, x, n - j, true);
    }
}

static void end_sums(const job *g, const block *w) {
    float bias[MOST_COLUMNS], turned[MOST_ROWS]; // of a row of C
    const ft_tensor b = g->args->bias;
    if (b.data) load_row(b, 0, g->plan.swapped ? w->row : w->column, g->plan.swapped ? w->rows : w->columns, bias);
    for (int64_t i = 0; !g->plan.swapped && i < w->rows; i++)
        end_row(g, w->sums + i * w->sum_row, bias, w->columns, lanes_of(w->c, w->row + i, true), w->column);
    for (int64_t j = 0; g->plan.swapped && j < w->columns; j++) {
        for (int64_t i = 0; i < w->rows; i++)
            turned[i] = w->sums[i * w->sum_row + j];
        end_row(g, turned, bias, w->rows, lanes_of(w->c, w->column + j, true), w->row);
    }
}

// ---- blocks

// Columns of a block, cut into panels of nearly equal width.
typedef struct panel {
    int64_t at;                  // first column in the block
    int columns, vectors, width; // width: with those that fill up the last vector
} panel;
static int64_t panels_of_block(const job *g, const block *w) {
    const int64_t vectors = (w->columns + g->unit->lanes - 1) / g->unit->lanes;
    return (vectors + g->unit->vectors - 1) / g->unit->vectors;
}
static panel panel_of(const job *g, const block *w, int64_t p, int64_t panels) {
    const int64_t lanes = g->unit->lanes, vectors = (w->columns + lanes - 1) / lanes, first = vectors * p / panels,
                  last = vectors * (p + 1) / panels;
    const int64_t width = (last - first) * lanes;
    return (panel){first * lanes, (int)least(w->columns - first * lanes, width), (int)(last - first), (int)width};
}

// Adds `blocks` blocks of k to the sums of a panel, a few at a time: so many that their part of B stays in the
// first-level cache while all rows go over it.
static void add_products(const job *g, const block *w, panel n, const float *b, int64_t blocks) {
    const bf16_unit *u = g->unit;
    const int most = PANEL_WORDS / (n.width * u->words);
    const sums_state state = u->begin();
    for (int64_t done = 0; done < blocks;) {
        const int64_t some = least(blocks - done, most > 0 ? most : 1);
        for (int64_t i = 0; i < w->rows; i += u->rows)
            u->tiles[n.vectors - 1](some, w->packed_a + i * w->a_row + done * u->words, w->a_row,
                                    b + done * u->words * n.width, w->sums + i * w->sum_row + n.at, w->sum_row);
        done += some;
    }
    u->end(state);
}

static void multiply_block(const job *g, const block *w) {
    const int64_t panels = panels_of_block(g, w), step = g->plan.inner * BF16_BLOCK;
    begin_sums(g, w);
    for (int64_t k0 = 0; k0 < g->plan.k; k0 += step) {
        const int64_t k = least(g->plan.k - k0, step), before = k0 / BF16_BLOCK * g->unit->words;
        pack_a(g, w, k0, k);
        for (int64_t p = 0; p < panels; p++) {
            const panel n = panel_of(g, w, p, panels);
            if (!g->plan.packs_b) pack_panel(g, w->column + n.at, n.columns, n.width, k0, k, w->packed_b);
            const float *b =
                g->plan.packs_b ? w->packed_b + n.at * g->plan.blocks * g->unit->words + before * n.width : w->packed_b;
            add_products(g, w, n, b, (k + BF16_BLOCK - 1) / BF16_BLOCK);
        }
    }
    end_sums(g, w);
}

// Some k of all panels, then the next: rows of B that lie far apart are met again while they are near.
static void pack_b(const job *g, const block *w) {
    const int64_t panels = panels_of_block(g, w), step = g->plan.inner * BF16_BLOCK;
    for (int64_t k0 = 0; k0 < g->plan.k; k0 += step)
        for (int64_t p = 0; p < panels; p++) {
            const panel n = panel_of(g, w, p, panels);
            float *to =
                w->packed_b + n.at * g->plan.blocks * g->unit->words + k0 / BF16_BLOCK * g->unit->words * n.width;
            pack_panel(g, w->column + n.at, n.columns, n.width, k0, least(g->plan.k - k0, step), to);
        }
}

static void multiply_part(void *context, int task, int thread) {
    const job *g = context;
    const ft_gemm_bf16_plan *p = &g->plan;
    block w = {.packed_a = g->scratch + (p->a_words + p->b_words + p->c_words) * (size_t)task,
               .a_row = p->inner * g->unit->words + FT_GEMM_BF16_APART,
               .sum_row = p->columns};
    w.packed_b = w.packed_a + p->a_words;
    w.sums = w.packed_b + p->b_words;
    int64_t m0, m1, n0, n1;
    ft_share(p->m, g->unit->rows, g->row_parts, task % g->row_parts, &m0, &m1);
    ft_share(p->n, FT_GEMM_VECTOR, g->column_parts, task / g->row_parts, &n0, &n1);
    if (m0 >= m1) return;
    for (w.column = n0; w.column < n1; w.column += p->columns) {
        w.columns = least(n1 - w.column, p->columns);
        if (p->packs_b) pack_b(g, &w);
        int64_t before = 0; // rows that lie elsewhere are as if they stood below
        for (int i = -1; i < g->args->more_count; i++) {
            w.a = p->swapped ? g->args->b : i < 0 ? g->args->a : g->args->more[i].a;
            w.c = i < 0 ? g->args->c : g->args->more[i].c;
            const int64_t rows = p->swapped ? p->m : w.c.rows, last = least(m1 - before, rows);
            for (w.row = m0 > before ? m0 - before : 0; w.row < last; w.row += p->rows) {
                w.rows = least(last - w.row, p->rows);
                multiply_block(g, &w);
            }
            before += rows;
        }
    }
}

ft_status FT_ISA_NAME(gemm_bf16)(ft_device *device, const ft_gemm_args *args) {
    const ft_cpu *cpu = ft_cpu_of(device);
    job g = {.args = args,
             .unit = &bf16_units[cpu->bf16],
             .plan = ft_gemm_bf16_plan_of(args),
             .scratch = args->workspace.data};
    if (g.plan.m <= 0 || g.plan.n <= 0) return FT_OK;
    const ft_gemm_view shares = {.m = g.plan.m, .n = g.plan.n, .k = g.plan.k, .trans_a = true};
    ft_gemm_grid(&shares, cpu->threads, g.unit->rows, FT_GEMM_VECTOR, &g.row_parts, &g.column_parts);
    ft_pool_run(cpu->pool, g.row_parts * g.column_parts, multiply_part, &g);
    return FT_OK;
}

#if defined(FT_ISA_avx512)
// ---- does the unit keep the contract?

// Two blocks of k, among them the pair that tells one order from another: from C = 2^24 two products of 1 make 2^24
// + 2.
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
                    chain[k % 2] = ft_bf16_fma(ft_bf16_operand(ft_from_bf16(a[i][k])),
                                               ft_bf16_operand(ft_from_bf16(b[j][k])), chain[k % 2]);
                sum = ft_bf16_add(ft_bf16_operand(sum), ft_bf16_add(chain[0], chain[1]));
            }
            want[i * COLUMNS + j] = sum;
        }
    }
    u->pack_rows(b[0], K, K, columns, columns, packed_b);
    const sums_state before = u->begin();
    for (int i = 0; i < ROWS; i += u->rows)
        u->tiles[u->vectors - 1](K / BF16_BLOCK, packed_a + i * (K / BF16_BLOCK * u->words), K / BF16_BLOCK * u->words,
                                 packed_b, sums + i * COLUMNS, COLUMNS);
    u->end(before);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < columns; j++) {
            const float got = sums[i * COLUMNS + j], right = want[i * COLUMNS + j];
            if (memcmp(&got, &right, sizeof got) != 0 && !(isnan(got) && isnan(right))) return false;
        }
    return true;
}
#endif
