#include "hpo/search/curves/curve_model.h"

#include "hpo/search/gp/matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PRIOR_CURVES = 4; // that the prior counts as
static const double PRIOR_MEAN = 0.1; // the same, of where the curves lie
static const double PRIOR_RISE =
    1; // variance of what a curve gains; this and the next ones in units of the final values'
static const double PRIOR_NOISE = 0.1; // of an evaluation
static const double PRIOR_LAST = 0.02; // of the final value about the last evaluation
static const double FENCE = 3;         // distances to the quartile, behind which values count as the fence

// ---- the prior: curves a - b g(t) -----------------------------------------------------------------------------------

// What is left of the way at a stage: 1 until it begins, 0 at the end, between them a power law.
static double left_of(double power, double begin, int stage, int stages) {
    const double at = (stage + 1.0) / stages;
    if (at <= begin) return 1;
    const double x = (at - begin) / (1 - begin), last = pow(10, -power);
    return (pow(1 + 9 * x, -power) - last) / (1 - last);
}

// covariance [stages + 1][stages + 1] in units of the final value's variance.
static void prior_of(int stages, double *covariance) {
    static const double powers[] = {0.5, 1, 2, 4}, begins[] = {0, 0.1, 0.25, 0.4};
    const int n = stages + 1;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < 4; p++)
                for (int b = 0; b < 4; b++)
                    sum += left_of(powers[p], begins[b], i < stages ? i : stages - 1, stages) *
                           left_of(powers[p], begins[b], j < stages ? j : stages - 1, stages);
            covariance[i * n + j] = 1 + PRIOR_RISE * sum / 16;
            if (i == j) covariance[i * n + j] += i < stages ? PRIOR_NOISE : PRIOR_LAST;
        }
}

// ---- location and scale ---------------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct measure {
    double middle, scale;
    double low[FT_CURVE_STAGES + 1]; // by stage: values below count as this. How bad a bad curve is does not matter
} measure;

enum { FEW = 4 }; // values that tell no quartiles

// Middle and scale are those of the latest stage that a quarter of the curves came to: what is behind it is a choice.
static void measure_of(const ft_curve *curves, int64_t count, int stages, double *scratch, measure *m) {
    m->middle = m->scale = 0;
    for (int k = 0; k <= stages; k++) {
        int n = 0;
        m->low[k] = -INFINITY;
        for (int64_t i = 0; i < count; i++)
            if (curves[i].known > k) scratch[n++] = curves[i].value[k];
        if (n == 0) return;
        qsort(scratch, (size_t)n, sizeof *scratch, ascending);
        const double low = scratch[n / 4], middle = scratch[n / 2], high = scratch[n - 1 - n / 4];
        if (n >= FEW) m->low[k] = middle - FENCE * fmax(high - middle, (high - low) / 2);
        if (k > 0 && 4 * (int64_t)n < count) continue;
        m->middle = middle;
        // Values that differ by rounding alone are no measure: in units of that all others would drown the prior.
        if (high - low > 1e-9 * (fabs(high) + fabs(low))) m->scale = (high - low) / 1.349; // as of a normal distribution
    }
}

// ---- the regressions ------------------------------------------------------------------------------------------------

// Sums over (1, y_0 .. y_k) of all curves that came to stage k, the prior among them; in units of scale around middle.
static double moments(const ft_curve *curves, int64_t count, int k, const measure *m, const double *prior,
                      int prior_width, double *out) {
    const int n = k + 2;
    double row[FT_CURVE_STAGES + 2], weights = PRIOR_CURVES;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = i > 0 && j > 0 ? PRIOR_CURVES * prior[(i - 1) * prior_width + j - 1] : 0;
    out[0] = PRIOR_MEAN;
    for (int64_t c = 0; c < count; c++) {
        if (curves[c].known <= k) continue;
        row[0] = 1;
        for (int j = 0; j <= k; j++)
            row[j + 1] = (fmax(curves[c].value[j], m->low[j]) - m->middle) / m->scale;
        for (int i = 0; i < n; i++)
            for (int j = i; j < n; j++)
                out[i * n + j] += curves[c].weight * row[i] * row[j];
        weights += curves[c].weight;
    }
    return weights;
}

// The last column of R (A = R'R): its upper part, solved, are the factors; its last element squared is what they leave.
static bool regress(double *matrix, int n, double weights, double *factor, double *spread) {
    if (!ft_cholesky(matrix, n)) return false;
    const double *last = matrix + n - 1;
    for (int i = n - 2; i >= 0; i--) {
        double sum = last[i * n];
        for (int j = i + 1; j < n - 1; j++)
            sum -= matrix[i * n + j] * factor[j];
        factor[i] = sum / matrix[i * n + i];
    }
    *spread = last[(n - 1) * n] * last[(n - 1) * n] / weights;
    return true;
}

// How the expectation of the final value moves with what stage k adds: through all stages behind it.
static void pulls(ft_curve_model *m) {
    const int last = m->stages, width = last + 2;
    m->pull[last] = 1;
    for (int k = last - 1; k >= 0; k--) {
        m->pull[k] = 0;
        for (int j = k + 1; j <= last; j++)
            m->pull[k] += m->pull[j] * m->factor[j * width + 1 + k];
    }
}

ft_status ft_curve_model_of(const ft_curve *curves, int64_t count, int stages, ft_arena *arena, ft_curve_model *m) {
    if (stages < 1 || stages > FT_CURVE_STAGES)
        return ft_fail(FT_INVALID, "learning curves", "%d evaluations of a trial; they are modelled from 1 to %d",
                       stages, FT_CURVE_STAGES);
    const size_t n = (size_t)stages + 1, width = n + 1;
    int64_t points = 1;
    for (int64_t i = 0; i < count; i++)
        points += curves[i].known;
    double *scratch = ft_arena_alloc(arena, (size_t)points * sizeof *scratch);
    double *prior = ft_arena_alloc(arena, n * n * sizeof *prior),
           *matrix = ft_arena_alloc(arena, width * width * sizeof *matrix);
    measure *by = ft_arena_alloc(arena, sizeof *by);
    *m = (ft_curve_model){.stages = stages,
                          .factor = ft_arena_alloc(arena, n * width * sizeof *m->factor),
                          .spread = ft_arena_alloc(arena, n * sizeof *m->spread),
                          .pull = ft_arena_alloc(arena, n * sizeof *m->pull)};
    if (scratch == NULL || prior == NULL || matrix == NULL || by == NULL || m->factor == NULL || m->spread == NULL ||
        m->pull == NULL)
        return FT_NO_MEMORY;
    measure_of(curves, count, stages, scratch, by);
    if (!(by->scale > 0)) by->scale = 1; // nothing to measure with yet
    m->scale = by->scale;
    prior_of(stages, prior);
    for (int k = 0; k <= stages; k++) {
        double *factor = m->factor + (size_t)k * width;
        const double weights = moments(curves, count, k, by, prior, (int)n, matrix);
        if (!regress(matrix, k + 2, weights, factor, &m->spread[k]))
            return ft_fail(FT_FAILED, "learning curves", "the values of stage %d have no covariance", k);
        m->spread[k] *= m->scale * m->scale;
        double sum = 0;
        for (int j = 1; j <= k; j++)
            sum += factor[j];
        factor[0] = factor[0] * m->scale + by->middle * (1 - sum);
    }
    pulls(m);
    return FT_OK;
}

double ft_curve_news(const ft_curve_model *m, int stage) { return m->pull[stage] * m->pull[stage] * m->spread[stage]; }

void ft_curve_ask(const ft_curve_model *m, const double *value, int known, double *mean, double *variance) {
    double y[FT_CURVE_STAGES + 1];
    *variance = 0;
    for (int k = 0; k <= m->stages; k++) {
        const double *factor = m->factor + (size_t)k * ((size_t)m->stages + 2);
        if (k < known) {
            y[k] = value[k];
            continue;
        }
        y[k] = factor[0];
        for (int j = 0; j < k; j++)
            y[k] += factor[1 + j] * y[j];
        *variance += ft_curve_news(m, k);
    }
    *mean = y[m->stages];
}
