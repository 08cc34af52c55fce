// int8_product.c - products of 8 bits: rows become codes and weights strips (int8_plan.h), all of them, then tiles are multiplied.
//
// Two runs of the pool: what one needs of the other lies in scratch that all threads share, so that nothing is made twice and blocks may be
// dealt in any way.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/gemm_kernel.h"
#include "kernels/cpu/isa/tiles/int8_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/ops/quantised.h"

#include <assert.h>
#include <float.h>
#include <math.h>

// Of every instruction set; open.c asks.
bool FT_ISA_NAME(int8_unit_agrees)(ft_int8_unit unit);

static_assert((int)FT_INT8_STRIPS % (int)INT8_TILE_STRIPS == 0 && (int)FT_INT8_STRIP == (int)FT_LANES, "blocks must hold whole tiles");

enum { CODE_ROWS = 32, PACKED_STRIPS = 4 }; // of a task

typedef struct job {
    const ft_int8_product_args *args;
    ft_int8_plan plan;
    uint8_t *codes;
    float *steps, *scales;
    int32_t *zeros, *sums;
    int8_t *weights;
    int64_t code_tasks;             // in front of those that pack
    int64_t row_blocks, strip_group; // of the product: rows and strips of a task
    ft_int8_unit unit;
} job;

// ---- rows to codes --------------------------------------------------------------------------------------------------

// 0: the row counts as zeros; NaN: it is no row of numbers.
static float step_of(const float *x, int64_t n, float *lowest) {
    const v16 infinity = v_set1(INFINITY);
    v16 low = v_zero(), high = v_zero();
    m16 finite = m_first(FT_LANES);
    for (int64_t k = 0; k < n; k += FT_LANES) {
        const v16 v = v_load_any(x + k, n - k);
        finite = m_and(finite, v_lt(v_abs(v), infinity));
        low = v_min(v, low);
        high = v_max(v, high);
    }
    *lowest = -v_hmax(v_neg(low));
    const float step = (v_hmax(high) - *lowest) / 255.0f;
    if (m_any(m_not(finite)) || !(step < INFINITY)) return NAN;
    return step >= FLT_MIN ? step : 0;
}

// 16 numbers that are whole and from 0 to 255.
FT_VEC void put_codes(uint8_t *out, v16 v, int64_t n) {
    const u16x u = u_from_v(v);
#if defined(FT_ISA_avx512)
    _mm512_mask_cvtepi32_storeu_epi8(out, m_first(n < FT_LANES ? (int)n : FT_LANES), u);
#else
    uint32_t code[FT_LANES];
    u_store(code, u);
    for (int i = 0; i < FT_LANES && i < n; i++) out[i] = (uint8_t)code[i];
#endif
}

static void code_row(const job *g, int64_t row) {
    const int64_t k = g->plan.k, length = g->plan.length;
    const float *x = ft_row(g->args->x, row);
    uint8_t *out = g->codes + row * length;
    float low;
    const float step = step_of(x, k, &low);
    g->steps[row] = step;
    g->zeros[row] = 0;
    if (!(step > 0)) {
        memset(out, 0, (size_t)length);
        return;
    }
    const float inverse = 1.0f / step, zero = rintf(-low / step);
    g->zeros[row] = (int32_t)zero;
    const v16 by = v_set1(inverse), at_zero = v_set1(zero), most = v_set1(255);
    for (int64_t i = 0; i < length; i += FT_LANES) { // what stands behind k meets weights of zero
        const v16 q = v_add(v_round(v_mul(v_load_any(x + i, k - i), by)), at_zero);
        put_codes(out + i, v_max(v_min(q, most), v_zero()), length - i);
    }
}

// ---- weights to strips ----------------------------------------------------------------------------------------------

// Strip `strip` of all is of which part, and its first output there.
static int part_of(const ft_int8_product_args *a, int64_t strip, int64_t *output) {
    int i = 0;
    for (; strip >= ft_int8_strips(a->part[i].outputs); i++) strip -= ft_int8_strips(a->part[i].outputs);
    *output = strip * FT_INT8_STRIP;
    return i;
}

static int outputs_of(const ft_int8_part *part, int64_t output) {
    return (int)(part->outputs - output < FT_INT8_STRIP ? part->outputs - output : FT_INT8_STRIP);
}

// Numbers of any kind: w [outputs][k].
static void pack_each(const int8_t *w, int64_t k, int64_t length, int outputs, int8_t *out) {
    for (int64_t p = 0; p < length; p++)
        for (int j = 0; j < FT_INT8_STRIP; j++) out[p / 4 * 64 + j * 4 + p % 4] = j < outputs && p < k ? w[j * k + p] : 0;
}

#if !defined(FT_ISA_portable)
// Of a whole strip with whole words, which are moved as those of fp32 are.
static void pack_words(const int8_t *w, int64_t k, int8_t *out) {
    int64_t p = 0;
    for (; p + 32 <= k; p += 32)
        for (int half = 0; half < 2; half++)
            transpose8((const float *)(const void *)(w + half * 8 * k + p), k / 4, (float *)(void *)(out + p * FT_INT8_STRIP + half * 32), FT_INT8_STRIP);
    for (; p < k; p += 4)
        for (int j = 0; j < FT_INT8_STRIP; j++) memcpy(out + p * FT_INT8_STRIP + j * 4, w + j * k + p, 4);
}
#endif

static void pack_strip(const job *g, int64_t strip) {
    const int64_t k = g->plan.k, length = g->plan.length;
    int64_t output;
    const ft_int8_part *part = &g->args->part[part_of(g->args, strip, &output)];
    const ft_quantised_layout l = ft_quantised_layout_of(FT_INT8, part->rows, k);
    const int outputs = outputs_of(part, output);
    const int8_t *w = (const int8_t *)part->w.data + l.codes + (part->first + output) * k;
    const float *scale = (const float *)(const void *)((const char *)part->w.data + l.scales) + part->first + output;
    int8_t *out = g->weights + strip * FT_INT8_STRIP * length;
#if !defined(FT_ISA_portable)
    if (outputs == FT_INT8_STRIP && k == length) pack_words(w, k, out);
    else
#endif
        pack_each(w, k, length, outputs, out);
    for (int j = 0; j < FT_INT8_STRIP; j++) {
        int32_t sum = 0;
        for (int64_t p = 0; p < k && j < outputs; p++) sum += w[j * k + p];
        g->sums[strip * FT_INT8_STRIP + j] = sum;
        g->scales[strip * FT_INT8_STRIP + j] = j < outputs ? scale[j] * (1.0f / 127.0f) : 0;
    }
}

static void prepare(void *context, int task, int thread) {
    const job *g = context;
    int64_t first, last;
    if (task < g->code_tasks) {
        first = task * CODE_ROWS, last = first + CODE_ROWS;
        for (int64_t row = first; row < last && row < g->plan.rows; row++) code_row(g, row);
        return;
    }
    first = (task - g->code_tasks) * PACKED_STRIPS, last = first + PACKED_STRIPS;
    for (int64_t strip = first; strip < last && strip < g->plan.strips; strip++) pack_strip(g, strip);
}

// ---- the product ----------------------------------------------------------------------------------------------------

static void set_strip(const job *g, int8_tile *t, int j, int64_t row, int64_t strip) {
    const ft_int8_product_args *a = g->args;
    int64_t output, column = 0;
    const int part = part_of(a, strip, &output);
    for (int i = 0; i < part; i++) column += a->part[i].outputs;
    column += output;
    t->lanes[j] = outputs_of(&a->part[part], output);
    t->bias[j] = a->bias.data != NULL ? (const float *)a->bias.data + column : NULL;
    t->c[j] = ft_row(a->y, row) + column;
}

// `count` strips of one tile beside the rows [first, last).
static void multiply_strips(const job *g, int64_t first, int64_t last, int64_t strip, int count) {
    const int64_t length = g->plan.length;
    int8_tile t = {.words = length / 4, .length = length, .ldc = g->args->y.stride};
    t.a = g->codes + first * length;
    t.steps = g->steps + first;
    t.zeros = g->zeros + first;
    t.b = g->weights + strip * FT_INT8_STRIP * length;
    t.sums = g->sums + strip * FT_INT8_STRIP;
    t.scales = g->scales + strip * FT_INT8_STRIP;
    for (int j = 0; j < count; j++) set_strip(g, &t, j, first, strip + j);
    run_int8_rows(t, last - first, count, g->unit);
}

static void begin_unit(ft_int8_unit unit) {
#if defined(FT_ISA_avx512)
    if (unit == FT_INT8_BY_AMX) ft_amx_begin();
#endif
}
static void end_unit(ft_int8_unit unit) {
#if defined(FT_ISA_avx512)
    if (unit == FT_INT8_BY_AMX) ft_amx_end();
#endif
}

static void multiply(void *context, int task, int thread) {
    const job *g = context;
    const int64_t first = task % g->row_blocks * FT_INT8_ROWS, strips = g->plan.strips, from = task / g->row_blocks * g->strip_group;
    const int64_t last = first + FT_INT8_ROWS < g->plan.rows ? first + FT_INT8_ROWS : g->plan.rows;
    const int64_t end = from + g->strip_group < strips ? from + g->strip_group : strips;
    const int most = int8_strips_of(g->unit);
    begin_unit(g->unit);
    for (int64_t strip = from; strip < end; strip += most) multiply_strips(g, first, last, strip, end - strip < most ? (int)(end - strip) : most);
    end_unit(g->unit);
}

FT_ISA_OP(int8_product) {
    FT_TRY(ft_int8_product_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    char *scratch = args->workspace.data;
    job g = {.args = args, .plan = ft_int8_plan_of(args), .unit = cpu->int8};
    if (g.plan.rows == 0 || g.plan.strips == 0) return FT_OK;
    g.codes = (uint8_t *)scratch + g.plan.codes;
    g.steps = (float *)(void *)(scratch + g.plan.steps);
    g.zeros = (int32_t *)(void *)(scratch + g.plan.zeros);
    g.weights = (int8_t *)scratch + g.plan.weights;
    g.sums = (int32_t *)(void *)(scratch + g.plan.sums);
    g.scales = (float *)(void *)(scratch + g.plan.scales);
    g.code_tasks = (g.plan.rows + CODE_ROWS - 1) / CODE_ROWS;
    const int64_t packs = (g.plan.strips + PACKED_STRIPS - 1) / PACKED_STRIPS;
    g.row_blocks = (g.plan.rows + FT_INT8_ROWS - 1) / FT_INT8_ROWS;
    // About four tasks a thread where there are so many blocks.
    const int64_t groups = (g.plan.strips + FT_INT8_STRIPS - 1) / FT_INT8_STRIPS, wanted = (4 * cpu->threads + g.row_blocks - 1) / g.row_blocks;
    g.strip_group = (groups + (wanted < groups ? wanted : groups) - 1) / (wanted < groups ? wanted : groups) * FT_INT8_STRIPS;
    ft_pool_run(cpu->pool, (int)(g.code_tasks + packs), prepare, &g);
    ft_pool_run(cpu->pool, (int)(g.row_blocks * ((g.plan.strips + g.strip_group - 1) / g.strip_group)), multiply, &g);
    return FT_OK;
}

// ---- does the unit compute what it should? --------------------------------------------------------------------------

// Rows and strips of every size of tile, k in whole steps and the rest of one, codes and weights as large as they can be among them.
bool FT_ISA_NAME(int8_unit_agrees)(ft_int8_unit unit) {
    enum { ROWS = 55, STRIPS = 3, K = 172, OUTPUTS = STRIPS * FT_INT8_STRIP };
    uint8_t code[ROWS][K];
    int8_t strip[STRIPS][K / 4][FT_INT8_STRIP][4];
    int32_t zeros[ROWS], sums[OUTPUTS] = {0};
    float steps[ROWS], scales[OUTPUTS], got[ROWS][OUTPUTS];
    uint32_t state = 1;
    if (int8_tiles[unit][0][0] == NULL) return false;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K; k++) {
            state = state * 1664525u + 1013904223u;
            code[i][k] = i % 9 == 0 ? 255 : (uint8_t)(state >> 24);
        }
    for (int j = 0; j < OUTPUTS; j++)
        for (int k = 0; k < K; k++) {
            state = state * 1664525u + 1013904223u;
            const int8_t w = (int8_t)(j % 7 == 0 ? 127 : j % 7 == 1 ? -127 : (int)(state >> 24) % 255 - 127);
            strip[j / FT_INT8_STRIP][k / 4][j % FT_INT8_STRIP][k % 4] = w;
            sums[j] += w;
        }
    for (int i = 0; i < ROWS; i++) zeros[i] = i % 3 * 100, steps[i] = 1;
    for (int j = 0; j < OUTPUTS; j++) scales[j] = 1;
    const int most = int8_strips_of(unit);
    begin_unit(unit);
    for (int first = 0; first < STRIPS; first += most) {
        const int count = STRIPS - first < most ? STRIPS - first : most;
        int8_tile t = {.words = K / 4, .length = K, .ldc = OUTPUTS, .a = code[0], .b = strip[first][0][0], .steps = steps, .zeros = zeros};
        t.sums = sums + first * FT_INT8_STRIP, t.scales = scales + first * FT_INT8_STRIP;
        for (int j = 0; j < count; j++) t.c[j] = got[0] + (first + j) * FT_INT8_STRIP, t.lanes[j] = FT_INT8_STRIP;
        run_int8_rows(t, ROWS, count, unit);
    }
    end_unit(unit);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < OUTPUTS; j++) {
            int32_t sum = 0;
            for (int k = 0; k < K; k++) sum += (code[i][k] - zeros[i]) * strip[j / FT_INT8_STRIP][k / 4][j % FT_INT8_STRIP][k % 4];
            if (got[i][j] != (float)sum) return false;
        }
    return true;
}
