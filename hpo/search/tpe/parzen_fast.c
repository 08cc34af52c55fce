// The loops over kernels are written to be vectorised, which gcc does for -O3 only, and with comparisons only where
// they may not trap. Multiply and add stay apart: their bits must not depend on the processor. (In front of the
// headers: what is inlined from there must agree.)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-trapping-math,fp-contract=off")
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#include "hpo/search/tpe/parzen_fast.h"

#include "hpo/search/tpe/parzen_masses.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdlib.h>
#include <string.h>

// Kernels are looked at in blocks: a block is left out, or all of it is computed. A multiple of the number of sums, so
// that summand i mod 8 is the same counted from the block.
enum { BLOCK = 16 };

// ---- The filter -------------------------------------------------------------------------------------------------
// Bound of a kernel: log weight - slack - (distance to the cell in units of sqrt(2) sigma)^2 + log(width of the cell);
// for choices the row itself. A mass is at most the width times the largest density in the cell.

typedef struct filter_dimension {
    const float *at;    // numbers: mu in units of the range; choices: the index
    const float *scale; // numbers: 1 / sigma; NULL for choices
    float left, right;  // numbers: the cell in units of the range; choices: left is the index
    float hit, miss, prior;
} filter_dimension;

#define INLINE __attribute__((always_inline)) static inline

INLINE void bound_number(float *bound, int n, const filter_dimension *f) {
    const float *restrict at = f->at, *restrict scale = f->scale;
    float *restrict out = bound;
    float left = f->left, right = f->right;
    for (int k = 0; k < n; k++) {
        float before = left - at[k], behind = at[k] - right;
        float distance = before > behind ? before : behind;
        distance = distance > 0 ? distance : 0;
        float z = distance * scale[k];
        z = z < 1e15f ? z : 1e15f; // stays finite, so that no bound is NaN
        out[k] -= z * z;
    }
}

INLINE void bound_choice(float *bound, int n, const filter_dimension *f) {
    const float *restrict at = f->at;
    float *restrict out = bound;
    float hit = f->hit, miss = f->miss, index = f->left;
    for (int k = 0; k < n - 1; k++)
        out[k] += at[k] == index ? hit : miss;
    out[n - 1] += f->prior;
}

// bound [n, rounded up to blocks] and the largest of each block.
INLINE void filter_body(const filter_dimension *f, int dimensions, const float *constant, int n, float *bound,
                        float *largest) {
    memcpy(bound, constant, (size_t)n * sizeof *bound);
    for (int i = 0; i < dimensions; i++)
        if (f[i].scale == NULL)
            bound_choice(bound, n, &f[i]);
        else
            bound_number(bound, n, &f[i]);
    int blocks = (n + BLOCK - 1) / BLOCK;
    for (int k = n; k < blocks * BLOCK; k++)
        bound[k] = -INFINITY;
    for (int b = 0; b < blocks; b++) {
        const float *p = bound + b * BLOCK;
        float m[BLOCK / 2];
        for (int i = 0; i < BLOCK / 2; i++)
            m[i] = p[i] > p[i + BLOCK / 2] ? p[i] : p[i + BLOCK / 2];
        for (int i = 0; i < BLOCK / 4; i++)
            m[i] = m[i] > m[i + BLOCK / 4] ? m[i] : m[i + BLOCK / 4];
        for (int i = 0; i < BLOCK / 8; i++)
            m[i] = m[i] > m[i + BLOCK / 8] ? m[i] : m[i + BLOCK / 8];
        largest[b] = m[0] > m[1] ? m[0] : m[1];
    }
}

// ---- Summands ---------------------------------------------------------------------------------------------------
// The expressions of the plain density for a whole block, one dimension after the other; `first` is its first kernel.

// Log weights where the bound reaches the limit.
INLINE void begin_body(const double *restrict log_weight, const float *restrict bound, float limit,
                       double *restrict terms) {
    for (int e = 0; e < BLOCK; e++)
        terms[e] = bound[e] < limit ? -INFINITY : log_weight[e];
}

INLINE void continuous_body(const ft_parzen_dimension *d, int first, int count, double x, const double *restrict before,
                            double *restrict terms) {
    const double *restrict mu = d->mu + first, *restrict sigma = d->sigma + first, *restrict norm = d->norm + first;
    for (int k = 0; k < count; k++) {
        double z = (x - mu[k]) / sigma[k];
        terms[k] = before[k] + (-0.5 * (z * z) - norm[k]);
    }
}

INLINE void choice_body(const ft_parzen_dimension *d, int first, double index, double *restrict terms) {
    const double *restrict mu = d->mu + first;
    double hit = d->log_hit, miss = d->log_miss;
    for (int e = 0; e < BLOCK; e++)
        terms[e] += mu[e] == index ? hit : miss;
}

// Adds known masses; true when one that counts is not known, and then nothing was added.
INLINE bool mass_body(const ft_parzen_dimension *d, int first, const double *mass, double *restrict terms) {
    const int *restrict group = d->group + first;
    const double *restrict norm = d->norm + first;
    double m[BLOCK];
    int unknown = 0;
    for (int e = 0; e < BLOCK; e++)
        m[e] = mass[group[e]];
    for (int e = 0; e < BLOCK; e++)
        unknown |= (m[e] == FT_MASS_UNKNOWN) & (terms[e] > -INFINITY);
    if (unknown) return true;
    for (int e = 0; e < BLOCK; e++)
        terms[e] += m[e] - norm[e];
    return false;
}

// Eight numbers side by side: gcc makes of them what the processor has.
typedef double eight __attribute__((vector_size(64)));
typedef int64_t eight_bits __attribute__((vector_size(64)));
_Static_assert(sizeof(eight) == FT_PARZEN_SUMS * sizeof(double) && BLOCK == 2 * FT_PARZEN_SUMS, "two eights a block");

INLINE void keep_larger(eight *largest, const double *terms) {
    eight t;
    memcpy(&t, terms, sizeof t);
    eight_bits larger = t > *largest;
    *largest = (eight)((larger & (eight_bits)t) | (~larger & (eight_bits)*largest));
}

// Moves the terms that reach the limit to the front, in order, and returns how many there are.
INLINE int keep_one_by_one(double *terms, int count, double limit) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        double t = terms[i];
        terms[kept] = t;
        kept += t >= limit;
    }
    return kept;
}

#if defined(__x86_64__)
// Eight at a time: what is stored never goes beyond what has been read.
__attribute__((always_inline, target("avx512f"))) static inline int keep_avx512(double *terms, int count,
                                                                                double limit) {
    int kept = 0;
    for (int i = 0; i < count; i += FT_PARZEN_SUMS) {
        __m512d t = _mm512_loadu_pd(terms + i);
        __mmask8 reach = _mm512_cmp_pd_mask(t, _mm512_set1_pd(limit), _CMP_GE_OQ);
        _mm512_storeu_pd(terms + kept, _mm512_maskz_compress_pd(reach, t));
        kept += __builtin_popcount(reach);
    }
    return kept;
}
#endif

// ft_parzen_log_sum of whole blocks, which it uses up.
INLINE double largest_body(const double *terms, int blocks) {
    eight largest[2];
    double most = -INFINITY;
    for (int i = 0; i < FT_PARZEN_SUMS; i++)
        largest[0][i] = largest[1][i] = -INFINITY;
    for (int j = 0; j < blocks; j++) {
        keep_larger(&largest[0], terms + j * BLOCK);
        keep_larger(&largest[1], terms + j * BLOCK + FT_PARZEN_SUMS);
    }
    for (int i = 0; i < FT_PARZEN_SUMS; i++) {
        most = largest[0][i] > most ? largest[0][i] : most;
        most = largest[1][i] > most ? largest[1][i] : most;
    }
    return most;
}

INLINE double sum_body(const double *terms, int kept, double most) {
    eight sums = {0};
    double sum[FT_PARZEN_SUMS];
    int i = 0;
    for (; i + FT_PARZEN_SUMS <= kept; i += FT_PARZEN_SUMS) {
        const double *restrict t = terms + i;
        double part[FT_PARZEN_SUMS];
        for (int e = 0; e < FT_PARZEN_SUMS; e++)
            part[e] = ft_parzen_exp(t[e] - most);
        eight more;
        memcpy(&more, part, sizeof more);
        sums += more;
    }
    memcpy(sum, &sums, sizeof sum);
    for (int e = 0; i + e < kept; e++)
        sum[e] += ft_parzen_exp(terms[i + e] - most);
    return ft_parzen_log_of_sums(sum, most);
}

// All of it for one kind of registers.
typedef struct lanes {
    void (*filter)(const filter_dimension *f, int dimensions, const float *constant, int n, float *bound,
                   float *largest);
    void (*begin)(const double *restrict log_weight, const float *restrict bound, float limit, double *restrict terms);
    void (*continuous)(const ft_parzen_dimension *d, int first, int count, double x, const double *restrict before,
                       double *restrict terms);
    void (*choice)(const ft_parzen_dimension *d, int first, double index, double *restrict terms);
    bool (*mass)(const ft_parzen_dimension *d, int first, const double *mass, double *restrict terms);
    double (*log_sum)(double *terms, int blocks); // uses them up
} lanes;

#define LANES(name, target, keep)                                                                                      \
    target static void filter_##name(const filter_dimension *f, int dimensions, const float *constant, int n,          \
                                     float *bound, float *largest) {                                                   \
        filter_body(f, dimensions, constant, n, bound, largest);                                                       \
    }                                                                                                                  \
    target static void begin_##name(const double *restrict log_weight, const float *restrict bound, float limit,       \
                                    double *restrict terms) {                                                          \
        begin_body(log_weight, bound, limit, terms);                                                                   \
    }                                                                                                                  \
    target static void continuous_##name(const ft_parzen_dimension *d, int first, int count, double x,                 \
                                         const double *restrict before, double *restrict terms) {                      \
        continuous_body(d, first, count, x, before, terms);                                                            \
    }                                                                                                                  \
    target static void choice_##name(const ft_parzen_dimension *d, int first, double index, double *restrict terms) {  \
        choice_body(d, first, index, terms);                                                                           \
    }                                                                                                                  \
    target static bool mass_##name(const ft_parzen_dimension *d, int first, const double *mass,                        \
                                   double *restrict terms) {                                                           \
        return mass_body(d, first, mass, terms);                                                                       \
    }                                                                                                                  \
    target static double log_sum_##name(double *terms, int blocks) {                                                   \
        double most = largest_body(terms, blocks);                                                                     \
        if (most == -INFINITY) return -INFINITY;                                                                       \
        return sum_body(terms, keep(terms, blocks * BLOCK, most - FT_PARZEN_CUT), most);                               \
    }                                                                                                                  \
    static const lanes lanes_##name = {filter_##name, begin_##name, continuous_##name,                                 \
                                       choice_##name, mass_##name,  log_sum_##name};

LANES(portable, , keep_one_by_one)
#if defined(__x86_64__)
LANES(avx2, __attribute__((target("avx2"))), keep_one_by_one)
#if defined(__clang__) // which takes the full width by itself
LANES(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))), keep_avx512)
#else
LANES(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512"))), keep_avx512)
#endif
#endif

static const lanes *best_lanes(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return &lanes_avx512;
    if (__builtin_cpu_supports("avx2")) return &lanes_avx2;
#endif
    return &lanes_portable;
}

// ---- Densities --------------------------------------------------------------------------------------------------

void ft_parzen_fast_free(ft_parzen_fast *fast) {
    for (int i = 0; fast->tables != NULL && i < fast->dimensions; i++)
        ft_mass_table_free(&fast->tables[i]);
    free(fast->tables);
    free(fast->constant);
    free(fast->bound);
    free(fast->blocks);
    free(fast->terms);
    *fast = (ft_parzen_fast){0};
}

static ft_status reserve(ft_parzen_fast *fast, const ft_parzen *p) {
    if (fast->tables == NULL) {
        fast->tables = ft_calloc((size_t)p->dimensions, sizeof *fast->tables, "TPE");
        if (fast->tables == NULL) return FT_NO_MEMORY;
        fast->dimensions = p->dimensions;
    }
    if (p->count + 1 <= fast->capacity) return FT_OK;
    size_t capacity = (size_t)p->capacity + 1, blocks = (capacity + BLOCK - 1) / BLOCK;
    float *constant = ft_realloc(fast->constant, capacity, sizeof *constant, "TPE");
    if (constant == NULL) return FT_NO_MEMORY;
    fast->constant = constant;
    float *bound = ft_realloc(fast->bound, blocks * (BLOCK + 1), sizeof *bound, "TPE");
    if (bound == NULL) return FT_NO_MEMORY;
    fast->bound = bound;
    int *list = ft_realloc(fast->blocks, blocks, sizeof *list, "TPE");
    if (list == NULL) return FT_NO_MEMORY;
    fast->blocks = list;
    double *terms = ft_realloc(fast->terms, blocks * BLOCK, sizeof *terms, "TPE");
    if (terms == NULL) return FT_NO_MEMORY;
    fast->terms = terms;
    fast->capacity = (int)capacity;
    return FT_OK;
}

static void set_constants(ft_parzen_fast *fast, const ft_parzen *p) {
    int n = p->count + 1;
    float *restrict constant = fast->constant;
    for (int k = 0; k < n; k++)
        constant[k] = (float)p->log_weight[k];
    for (int i = 0; i < p->dimensions; i++) {
        if (p->dimension[i].distribution->kind == FT_CATEGORICAL) continue;
        const float *restrict slack = p->dimension[i].slack;
        for (int k = 0; k < n; k++)
            constant[k] -= slack[k];
    }
    // A kernel that is nowhere (+inf) in one dimension and unbounded (-inf) in another.
    for (int k = 0; k < n; k++)
        if (isnan(constant[k])) constant[k] = -INFINITY;
}

// The filter's view of a point; false when it lies outside. *width: what all bounds of the point have in common.
static bool filter_of(const ft_parzen *p, const double *point, ft_parzen_cell *cells, filter_dimension *f,
                      float *width) {
    *width = 0;
    for (int i = 0; i < p->dimensions; i++) {
        const ft_parzen_dimension *d = &p->dimension[i];
        cells[i] = ft_parzen_cell_of(d, point[i]);
        if (!cells[i].inside) return false;
        if (d->distribution->kind == FT_CATEGORICAL) {
            f[i] = (filter_dimension){.at = d->at,
                                      .left = (float)point[i],
                                      .hit = (float)d->log_hit,
                                      .miss = (float)d->log_miss,
                                      .prior = (float)d->log_prior};
            continue;
        }
        double range = d->high - d->low;
        f[i] = (filter_dimension){.at = d->at,
                                  .scale = d->scale,
                                  .left = (float)((cells[i].left - d->low) / range),
                                  .right = (float)((cells[i].right - d->low) / range)};
        if (d->distribution->step != 0) *width += (float)log(cells[i].right - cells[i].left);
    }
    return true;
}

// One dimension's summand of one kernel, exactly as ft_parzen_log_density adds it. `mass`: the row of the table.
static double summand(const ft_mass_table *t, const ft_parzen *p, int dimension, int k, const double *point,
                      const ft_parzen_cell *cells, double *mass) {
    const ft_parzen_dimension *d = &p->dimension[dimension];
    if (d->distribution->kind == FT_CATEGORICAL) return ft_parzen_choice(d, k, p->count, point[dimension]);
    if (d->distribution->step == 0) return ft_parzen_continuous(d, k, cells[dimension].left);
    if (t->direct) return ft_parzen_discrete(d, k, cells[dimension]);
    int g = d->group[k];
    if (mass[g] == FT_MASS_UNKNOWN) mass[g] = ft_parzen_mass(d, k, cells[dimension]);
    return mass[g] - d->norm[k];
}

// The row of masses that a dimension needs at this point; NULL when it needs none.
static ft_status mass_of(ft_parzen_fast *fast, const ft_parzen *p, int dimension, const double *point, double **mass) {
    const ft_distribution *d = p->dimension[dimension].distribution;
    *mass = NULL;
    if (d->kind == FT_CATEGORICAL || d->step == 0 || fast->tables[dimension].direct) return FT_OK;
    return ft_mass_table_row(&fast->tables[dimension], point[dimension], mass);
}

static ft_status exact_term(ft_parzen_fast *fast, const ft_parzen *p, const double *point, const ft_parzen_cell *cells,
                            int k, double *term) {
    *term = p->log_weight[k];
    for (int i = 0; i < p->dimensions; i++) {
        double *mass;
        FT_TRY(mass_of(fast, p, i, point, &mass));
        *term += summand(&fast->tables[i], p, i, k, point, cells, mass);
    }
    return FT_OK;
}

// Adds one dimension's summands to the terms of a block. Kernels that do not count have the term -inf, and keep it.
static void add_block(const lanes *l, const ft_mass_table *t, const ft_parzen *p, int dimension, int first,
                      const double *point, const ft_parzen_cell *cells, double *mass, double *terms) {
    const ft_parzen_dimension *d = &p->dimension[dimension];
    bool numbers = d->distribution->kind != FT_CATEGORICAL, discrete = numbers && d->distribution->step != 0;
    // The last block may be short, and has the prior in it.
    bool whole = first + BLOCK <= p->count;
    if (whole && !numbers) {
        l->choice(d, first, point[dimension], terms);
        return;
    }
    if (whole && !discrete) {
        double before[BLOCK];
        memcpy(before, terms, sizeof before);
        l->continuous(d, first, BLOCK, cells[dimension].left, before, terms);
        return;
    }
    if (whole && !t->direct && !l->mass(d, first, mass, terms)) return;
    for (int e = 0; e < BLOCK; e++)
        if (terms[e] > -INFINITY) terms[e] += summand(t, p, dimension, first + e, point, cells, mass);
}

// The blocks of kernels that may count, and log weights as the beginning of their terms.
static ft_status choose_blocks(ft_parzen_fast *fast, const ft_parzen *p, const lanes *l, const double *point,
                               const ft_parzen_cell *cells, const filter_dimension *f, float width, int *chosen) {
    int n = p->count + 1, blocks = (n + BLOCK - 1) / BLOCK, most = 0;
    float *largest = fast->bound + (size_t)blocks * BLOCK;
    l->filter(f, p->dimensions, fast->constant, n, fast->bound, largest);
    for (int b = 1; b < blocks; b++)
        if (largest[b] > largest[most]) most = b;
    int kernel = most * BLOCK;
    while (kernel + 1 < n && fast->bound[kernel] != largest[most])
        kernel++;
    double term;
    FT_TRY(exact_term(fast, p, point, cells, kernel, &term));
    // The largest summand is at least `term`. 0.25 covers the rounding of the filter.
    float limit = (float)(term - FT_PARZEN_CUT - 0.25 - width);
    *chosen = 0;
    for (int b = 0; b < blocks; b++) {
        if (largest[b] < limit) continue;
        const float *bound = fast->bound + (size_t)b * BLOCK;
        double *terms = fast->terms + (size_t)*chosen * BLOCK;
        if ((b + 1) * BLOCK <= n) {
            l->begin(p->log_weight + (size_t)b * BLOCK, bound, limit, terms);
        } else {
            for (int e = 0; e < BLOCK; e++)
                terms[e] = b * BLOCK + e < n && !(bound[e] < limit) ? p->log_weight[b * BLOCK + e] : -INFINITY;
        }
        fast->blocks[(*chosen)++] = b;
    }
    return FT_OK;
}

// One dimension whose summands cost no more than their bounds: all kernels, without a filter.
static double density_alone(ft_parzen_fast *fast, const ft_parzen *p, const lanes *l, const double *point,
                            const ft_parzen_cell *cells) {
    int n = p->count + 1, whole = p->count / BLOCK * BLOCK, blocks = (n + BLOCK - 1) / BLOCK;
    double *terms = fast->terms;
    if (p->dimension[0].distribution->kind != FT_CATEGORICAL) {
        l->continuous(&p->dimension[0], 0, whole, cells[0].left, p->log_weight, terms);
    } else {
        memcpy(terms, p->log_weight, (size_t)whole * sizeof *terms);
        for (int k = 0; k < whole; k += BLOCK)
            l->choice(&p->dimension[0], k, point[0], terms + k);
    }
    for (int k = whole; k < blocks * BLOCK; k++)
        terms[k] = k < n ? p->log_weight[k] + summand(&fast->tables[0], p, 0, k, point, cells, NULL) : -INFINITY;
    return l->log_sum(terms, blocks);
}

static ft_status density_at(ft_parzen_fast *fast, const ft_parzen *p, const lanes *l, const double *point,
                            ft_parzen_cell *cells, filter_dimension *f, double *out) {
    int chosen;
    float width;
    *out = -INFINITY;
    if (!filter_of(p, point, cells, f, &width)) return FT_OK;
    if (p->dimensions == 1 && (f[0].scale == NULL || p->dimension[0].distribution->step == 0)) {
        *out = density_alone(fast, p, l, point, cells);
        return FT_OK;
    }
    FT_TRY(choose_blocks(fast, p, l, point, cells, f, width, &chosen));
    for (int i = 0; i < p->dimensions; i++) {
        double *mass;
        FT_TRY(mass_of(fast, p, i, point, &mass));
        for (int j = 0; j < chosen; j++)
            add_block(l, &fast->tables[i], p, i, fast->blocks[j] * BLOCK, point, cells, mass,
                      fast->terms + (size_t)j * BLOCK);
    }
    *out = l->log_sum(fast->terms, chosen);
    return FT_OK;
}

ft_status ft_parzen_fast_log_density(ft_parzen_fast *fast, ft_parzen *p, const double *points, int count, double *out) {
    FT_TRY(reserve(fast, p));
    set_constants(fast, p);
    size_t dimensions = (size_t)p->dimensions;
    const lanes *l = best_lanes();
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        if (d->distribution->kind != FT_CATEGORICAL && d->distribution->step != 0)
            FT_TRY(ft_mass_table_group(&fast->tables[i], d, p->count + 1));
    }
    ft_parzen_cell *cells = ft_calloc(dimensions, sizeof *cells, "TPE");
    filter_dimension *f = ft_calloc(dimensions, sizeof *f, "TPE");
    ft_status status = cells == NULL || f == NULL ? FT_NO_MEMORY : FT_OK;
    for (int c = 0; status == FT_OK && c < count; c++) {
        const double *point = points + (size_t)c * dimensions;
        int twin = 0; // small spaces draw the same point again and again
        while (twin < c && memcmp(points + (size_t)twin * dimensions, point, dimensions * sizeof *point) != 0)
            twin++;
        if (twin < c)
            out[c] = out[twin];
        else
            status = density_at(fast, p, l, point, cells, f, &out[c]);
    }
    free(cells);
    free(f);
    return status;
}
