#include "hpo/parzen_fast.h"

#include <stdlib.h>
#include <string.h>

// The loops over kernels are written to be vectorised, which gcc does for -O3 only, and with
// comparisons only where they may not trap.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-trapping-math")
#endif

enum { BLOCK = 16 }; // kernels whose largest bound is looked at together

// ---- Masses of cells --------------------------------------------------------------------------------------------
// A mass costs two error functions. Values with a step repeat, and with them (mu, sigma): kernels with an equal pair
// form a group, and every value asked for gets a row with one mass a group, filled when needed and kept for later
// trials.

typedef struct mass_row {
    double value;
    double *mass; // [groups] at least, UNKNOWN until asked for; NULL = free place
    int length;
} mass_row;

typedef struct ft_mass_table {
    int *index; // hash table of groups, -1 = free
    int index_size, groups, group_capacity;
    double *mu, *sigma; // [groups]
    mass_row *rows;     // hash table by value
    int row_size, row_count;
    size_t masses;  // in all rows
    bool direct;    // hardly any two kernels are equal: masses are computed where they are needed
    int decided_at; // kernels when that was found
} mass_table;

static const double UNKNOWN = 1; // no logarithm of a probability
enum { MOST_MASSES = 1 << 20 };  // a table that outgrows 8 MiB starts again

static uint64_t hash_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits *= 0x9E3779B97F4A7C15u;
    return bits ^ bits >> 29;
}

static void clear_table(mass_table *t) {
    for (int i = 0; i < t->row_size; i++)
        free(t->rows[i].mass);
    free(t->rows);
    free(t->index);
    free(t->mu);
    free(t->sigma);
    *t = (mass_table){0};
}

void ft_parzen_fast_free(ft_parzen_fast *fast) {
    for (int i = 0; fast->tables != NULL && i < fast->dimensions; i++)
        clear_table(&fast->tables[i]);
    free(fast->tables);
    free(fast->constant);
    free(fast->bound);
    free(fast->kept);
    free(fast->terms);
    *fast = (ft_parzen_fast){0};
}

static ft_status start_table(mass_table *t, ft_parzen_dimension *d, int kernels) {
    clear_table(t);
    for (int k = 0; k < kernels; k++)
        d->group[k] = -1;
    t->decided_at = kernels;
    t->group_capacity = 2 * kernels + 64;
    t->index_size = 4 * t->group_capacity;
    t->index = ft_calloc((size_t)t->index_size, sizeof *t->index, "TPE");
    t->mu = ft_calloc((size_t)t->group_capacity, sizeof *t->mu, "TPE");
    t->sigma = ft_calloc((size_t)t->group_capacity, sizeof *t->sigma, "TPE");
    t->row_size = 64;
    t->rows = ft_calloc((size_t)t->row_size, sizeof *t->rows, "TPE");
    if (t->index == NULL || t->mu == NULL || t->sigma == NULL || t->rows == NULL) {
        clear_table(t); // without rows the sizes must not stay
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < t->index_size; i++)
        t->index[i] = -1;
    return FT_OK;
}

// Gives every kernel that has none its group.
static ft_status find_groups(mass_table *t, ft_parzen_dimension *d, int kernels) {
    bool grown = kernels >= 2 * t->decided_at;
    if (t->direct && !grown) return FT_OK;
    if (t->index == NULL || grown) FT_TRY(start_table(t, d, kernels));
    for (int k = 0; k < kernels; k++) {
        if (d->group[k] >= 0) continue;
        uint64_t place = (hash_double(d->mu[k]) * 31 + hash_double(d->sigma[k])) % (uint64_t)t->index_size;
        int g;
        while ((g = t->index[place]) >= 0 && (t->mu[g] != d->mu[k] || t->sigma[g] != d->sigma[k]))
            place = (place + 1) % (uint64_t)t->index_size;
        if (g < 0) {
            if (t->groups == t->group_capacity) { // full of pairs that are no more
                FT_TRY(start_table(t, d, kernels));
                k = -1;
                continue;
            }
            g = t->groups++;
            t->mu[g] = d->mu[k];
            t->sigma[g] = d->sigma[k];
            t->index[place] = g;
        }
        d->group[k] = g;
    }
    t->direct = kernels > 64 && t->decided_at == kernels && t->groups > kernels / 2;
    return FT_OK;
}

static mass_row *find_row(mass_row *rows, int size, double value) {
    uint64_t place = hash_double(value) % (uint64_t)size;
    while (rows[place].mass != NULL && rows[place].value != value)
        place = (place + 1) % (uint64_t)size;
    return &rows[place];
}

static void forget_rows(mass_table *t) {
    for (int i = 0; i < t->row_size; i++)
        free(t->rows[i].mass);
    memset(t->rows, 0, (size_t)t->row_size * sizeof *t->rows);
    t->row_count = 0;
    t->masses = 0;
}

static ft_status row_of(mass_table *t, double value, double **mass) {
    mass_row *row = find_row(t->rows, t->row_size, value);
    if (row->mass == NULL || row->length < t->groups) {
        int length = t->groups + t->groups / 4 + 16;
        if (t->masses + (size_t)length > MOST_MASSES) forget_rows(t);
        if (2 * t->row_count >= t->row_size) {
            mass_row *rows = ft_calloc(2 * (size_t)t->row_size, sizeof *rows, "TPE");
            if (rows == NULL) return FT_NO_MEMORY;
            for (int i = 0; i < t->row_size; i++)
                if (t->rows[i].mass != NULL) *find_row(rows, 2 * t->row_size, t->rows[i].value) = t->rows[i];
            free(t->rows);
            t->rows = rows;
            t->row_size *= 2;
        }
        row = find_row(t->rows, t->row_size, value);
        double *longer = ft_realloc(row->mass, (size_t)length, sizeof *longer, "TPE");
        if (longer == NULL) return FT_NO_MEMORY;
        for (int g = row->length; g < length; g++)
            longer[g] = UNKNOWN;
        t->row_count += row->mass == NULL;
        t->masses += (size_t)(length - row->length);
        *row = (mass_row){value, longer, length};
    }
    *mass = row->mass;
    return FT_OK;
}

// ---- The filter -------------------------------------------------------------------------------------------------
// Bound of a kernel: log weight - slack - (distance to the cell in units of sqrt(2) sigma)^2 + log(width of the cell);
// for choices the row itself. A mass is at most the width times the largest density in the cell.

typedef struct filter_dimension {
    const float *at;    // numbers: mu in units of the range; choices: the index
    const float *scale; // numbers: 1 / sigma; NULL for choices
    float left, right;  // numbers: the cell in units of the range; choices: left is the index
    float hit, miss, prior;
} filter_dimension;

__attribute__((always_inline)) static inline void add_number(float *bound, int n, const filter_dimension *f) {
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

__attribute__((always_inline)) static inline void add_choice(float *bound, int n, const filter_dimension *f) {
    const float *restrict at = f->at;
    float *restrict out = bound;
    float hit = f->hit, miss = f->miss, index = f->left;
    for (int k = 0; k < n - 1; k++)
        out[k] += at[k] == index ? hit : miss;
    out[n - 1] += f->prior;
}

// bound [n, rounded up to blocks] and the largest of each block.
__attribute__((always_inline)) static inline void
filter_body(const filter_dimension *f, int dimensions, const float *constant, int n, float *bound, float *largest) {
    memcpy(bound, constant, (size_t)n * sizeof *bound);
    for (int i = 0; i < dimensions; i++)
        if (f[i].scale == NULL)
            add_choice(bound, n, &f[i]);
        else
            add_number(bound, n, &f[i]);
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

static void filter_portable(const filter_dimension *f, int dimensions, const float *constant, int n, float *bound,
                            float *largest) {
    filter_body(f, dimensions, constant, n, bound, largest);
}

#if defined(__x86_64__)
// Without fma, so that the bits are those of the portable version.
__attribute__((target("avx2"))) static void filter_avx2(const filter_dimension *f, int dimensions,
                                                        const float *constant, int n, float *bound, float *largest) {
    filter_body(f, dimensions, constant, n, bound, largest);
}
#endif

static void filter(const filter_dimension *f, int dimensions, const float *constant, int n, float *bound,
                   float *largest) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        filter_avx2(f, dimensions, constant, n, bound, largest);
        return;
    }
#endif
    filter_portable(f, dimensions, constant, n, bound, largest);
}

// ---- Densities --------------------------------------------------------------------------------------------------

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
    int *kept = ft_realloc(fast->kept, capacity, sizeof *kept, "TPE");
    if (kept == NULL) return FT_NO_MEMORY;
    fast->kept = kept;
    double *terms = ft_realloc(fast->terms, capacity, sizeof *terms, "TPE");
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

// terms[j] for the kernels kept[0..count), exactly as ft_parzen_log_density adds them up.
static ft_status exact_terms(ft_parzen_fast *fast, const ft_parzen *p, const double *point, const ft_parzen_cell *cells,
                             const int *kept, int count, double *terms) {
    for (int j = 0; j < count; j++)
        terms[j] = p->log_weight[kept[j]];
    for (int i = 0; i < p->dimensions; i++) {
        const ft_parzen_dimension *d = &p->dimension[i];
        mass_table *t = &fast->tables[i];
        if (d->distribution->kind == FT_CATEGORICAL) {
            for (int j = 0; j < count; j++)
                terms[j] += ft_parzen_choice(d, kept[j], p->count, point[i]);
        } else if (d->distribution->step == 0) {
            for (int j = 0; j < count; j++)
                terms[j] += ft_parzen_continuous(d, kept[j], cells[i].left);
        } else if (t->direct) {
            for (int j = 0; j < count; j++)
                terms[j] += ft_parzen_discrete(d, kept[j], cells[i]);
        } else {
            double *mass;
            FT_TRY(row_of(t, point[i], &mass));
            for (int j = 0; j < count; j++) {
                int k = kept[j], g = d->group[k];
                if (mass[g] == UNKNOWN) mass[g] = ft_parzen_mass(d, k, cells[i]);
                terms[j] += mass[g] - d->norm[k];
            }
        }
    }
    return FT_OK;
}

static ft_status density_at(ft_parzen_fast *fast, const ft_parzen *p, const double *point, ft_parzen_cell *cells,
                            filter_dimension *f, double *out) {
    int n = p->count + 1, blocks = (n + BLOCK - 1) / BLOCK, most = 0, kept = 0;
    float width, *largest = fast->bound + (size_t)blocks * BLOCK;
    *out = -INFINITY;
    if (!filter_of(p, point, cells, f, &width)) return FT_OK;
    filter(f, p->dimensions, fast->constant, n, fast->bound, largest);
    for (int b = 1; b < blocks; b++)
        if (largest[b] > largest[most]) most = b;
    int kernel = most * BLOCK;
    while (kernel + 1 < n && fast->bound[kernel] != largest[most])
        kernel++;
    double term;
    FT_TRY(exact_terms(fast, p, point, cells, &kernel, 1, &term));
    // The largest summand is at least `term`. 0.25 covers the rounding of the filter.
    float limit = (float)(term - FT_PARZEN_CUT - 0.25 - width);
    for (int b = 0; b < blocks; b++) {
        if (largest[b] < limit) continue;
        int end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
        for (int k = b * BLOCK; k < end; k++) {
            fast->kept[kept] = k;
            kept += !(fast->bound[k] < limit);
        }
    }
    FT_TRY(exact_terms(fast, p, point, cells, fast->kept, kept, fast->terms));
    *out = ft_parzen_log_sum(fast->terms, kept);
    return FT_OK;
}

ft_status ft_parzen_fast_log_density(ft_parzen_fast *fast, ft_parzen *p, const double *points, int count, double *out) {
    FT_TRY(reserve(fast, p));
    set_constants(fast, p);
    size_t dimensions = (size_t)p->dimensions;
    for (int i = 0; i < p->dimensions; i++) {
        ft_parzen_dimension *d = &p->dimension[i];
        if (d->distribution->kind != FT_CATEGORICAL && d->distribution->step != 0)
            FT_TRY(find_groups(&fast->tables[i], d, p->count + 1));
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
            status = density_at(fast, p, point, cells, f, &out[c]);
    }
    free(cells);
    free(f);
    return status;
}
