#include "hpo/search/gp/classifier.h"

#include "hpo/search/gp/matrix.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static double logistic(double f) { return f >= 0 ? 1 / (1 + exp(-f)) : exp(f) / (1 + exp(f)); }

static double log_likelihood(const bool *good, double offset, const double *f, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double t = good[i] ? offset + f[i] : -(offset + f[i]);
        sum += t > 0 ? -log1p(exp(-t)) : t - log1p(exp(t));
    }
    return sum;
}

// What Newton's method finds and what follows from it. Vectors [n].
typedef struct laplace {
    double *root;  // sqrt W
    double *slope; // d ln p / df
    double *third; // d^3 ln p / df^3
    double *a;     // K^-1 f
} laplace;

// scratch->work = R of B = I + sqrt(W) K sqrt(W), at f; scratch->covariance has K, both triangles.
static bool factor(const bool *good, double offset, const double *f, int n, ft_gp_scratch *s, laplace *l) {
    const size_t width = (size_t)n;
    for (int i = 0; i < n; i++) {
        const double p = logistic(offset + f[i]), w = p * (1 - p);
        l->root[i] = sqrt(w);
        l->slope[i] = (good[i] ? 1 : 0) - p;
        l->third[i] = w * (2 * p - 1);
    }
    for (size_t i = 0; i < width; i++) {
        const double *k = s->covariance + i * width;
        double *b = s->work + i * width;
        for (size_t j = i; j < width; j++)
            b[j] = l->root[i] * l->root[j] * k[j];
        b[i] += 1;
    }
    return ft_cholesky(s->work, n);
}

// The mode, from where f is; false: not found. *value = ln of the integrand there. next [n] is scratch.
static bool find_mode(const bool *good, double offset, int n, ft_gp_scratch *s, laplace *l, double *f, double *next,
                      double *value) {
    *value = -INFINITY;
    for (int step = 0; step < 30; step++) {
        if (!factor(good, offset, f, n, s, l)) return false;
        // a = b - sqrt(W) B^-1 sqrt(W) K b, b = W f + slope
        for (int i = 0; i < n; i++)
            l->a[i] = l->root[i] * l->root[i] * f[i] + l->slope[i];
        ft_matrix_rows(s->covariance, l->a, n, next);
        for (int i = 0; i < n; i++)
            next[i] *= l->root[i];
        ft_cholesky_solve(s->work, n, next);
        for (int i = 0; i < n; i++)
            l->a[i] -= l->root[i] * next[i];
        ft_matrix_rows(s->covariance, l->a, n, next);
        double inner = 0, now;
        for (int i = 0; i < n; i++)
            inner += l->a[i] * next[i];
        now = log_likelihood(good, offset, next, n) - 0.5 * inner;
        if (!isfinite(now)) return false;
        memcpy(f, next, (size_t)n * sizeof *f);
        const bool done = fabs(now - *value) < 1e-13 * (1 + fabs(now));
        *value = now;
        if (done) return factor(good, offset, f, n, s, l);
    }
    return factor(good, offset, f, n, s, l);
}

static void mirror(double *matrix, int n) {
    const size_t width = (size_t)n;
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < i; j++)
            matrix[i * width + j] = matrix[j * width + i];
}

// scratch->inverse = Q = sqrt(W) B^-1 sqrt(W), from the factor in scratch->work.
static void precision(int n, ft_gp_scratch *s, const laplace *l) {
    const size_t width = (size_t)n;
    ft_cholesky_inverse(s->work, n, s->extra, s->inverse);
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++)
            s->inverse[i * width + j] *= l->root[i] * l->root[j];
}

static double evidence(const ft_gp_pairs *pairs, const bool *good, double offset, const double *theta, ft_gp_scratch *s,
                       double *f, double *gradient, laplace *l) {
    const int n = pairs->points;
    const size_t width = (size_t)n;
    double value;
    ft_gp_covariance(pairs, theta, 0, 0, s);
    mirror(s->covariance, n);
    if (!find_mode(good, offset, n, s, l, f, s->vector, &value)) return -INFINITY;
    value -= ft_cholesky_half_log_det(s->work, n);
    if (gradient == NULL) return value;
    // The gradient is sum over i, j of M_ij dK_ij / 2 with M = a a' - Q + 2 u slope', made symmetric:
    // u = (I - Q K) (half of third times the posterior's variances).
    precision(n, s, l);
    for (int i = 0; i < n; i++) {
        double variance = s->covariance[(size_t)i * width + (size_t)i];
        const double *k = s->covariance + (size_t)i * width;
        double *q = s->vector;
        ft_matrix_rows(s->inverse, k, n, q);
        for (int j = 0; j < n; j++)
            variance -= k[j] * q[j];
        s->other[i] = 0.5 * variance * l->third[i];
    }
    double *u = s->other, *ku = s->vector;
    ft_matrix_rows(s->covariance, u, n, ku);
    double *qku = s->work; // free now
    ft_matrix_rows(s->inverse, ku, n, qku);
    for (int i = 0; i < n; i++)
        u[i] -= qku[i];
    for (size_t i = 0; i < width; i++) {
        double *row = s->inverse + i * width;
        for (size_t j = i; j < width; j++)
            row[j] = l->a[i] * l->a[j] - row[j] + u[i] * l->slope[j] + u[j] * l->slope[i];
    }
    memset(gradient, 0, (size_t)(pairs->axes + 1) * sizeof *gradient);
    ft_gp_covariance_gradient(pairs, theta, s->inverse, s, gradient);
    return value;
}

double ft_gp_classifier_evidence(const ft_gp_pairs *pairs, const bool *good, double offset, const double *theta,
                                 ft_gp_scratch *s, double *mode, double *gradient) {
    laplace l = {.root = s->third, .slope = s->fourth, .third = s->fifth, .a = s->sixth};
    return evidence(pairs, good, offset, theta, s, mode, gradient, &l);
}

ft_status ft_gp_classifier_of(const ft_gp_points *points, const bool *good, double offset, const double *theta,
                              ft_arena *arena, ft_gp_model *m) {
    const int n = points->count;
    ft_gp_pairs pairs;
    ft_gp_scratch s;
    FT_TRY(ft_gp_model_room(points, theta, arena, m));
    FT_TRY(ft_gp_pairs_of(points, arena, &pairs));
    FT_TRY(ft_gp_scratch_init(&s, n, arena));
    laplace l = {.root = s.third, .slope = s.fourth, .third = s.fifth, .a = s.sixth};
    memset(m->alpha, 0, (size_t)n * sizeof *m->alpha);
    if (evidence(&pairs, good, offset, theta, &s, m->alpha, NULL, &l) == -INFINITY)
        return ft_fail(FT_FAILED, "study.sampler", "the covariance of %d trials is not positive definite", n);
    m->offset = offset;
    memcpy(m->alpha, l.slope, (size_t)n * sizeof *m->alpha); // at the mode K^-1 f is the slope
    precision(n, &s, &l);
    memcpy(m->precision, s.inverse, (size_t)n * (size_t)n * sizeof *m->precision);
    return FT_OK;
}

double ft_gp_log_odds(double mean, double variance, double *by_mean, double *by_variance) {
    const double shrink = 1 / sqrt(1 + PI * variance / 8), t = shrink * mean;
    const double value = t > 0 ? -log1p(exp(-t)) : t - log1p(exp(t)), slope = logistic(-t);
    *by_mean = slope * shrink;
    *by_variance = slope * mean * -0.5 * shrink * shrink * shrink * PI / 8;
    return value;
}
