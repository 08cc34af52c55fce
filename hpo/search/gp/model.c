#include "hpo/search/gp/model.h"

#include "hpo/search/gp/matrix.h"

#include <math.h>
#include <string.h>

static const double LOG_2PI = 1.83787706640934548356;
static const double FINER = 8; // how much shorter the lengths of what is rough are

static double *room(ft_arena *arena, size_t count) { return ft_arena_alloc(arena, (count + 1) * sizeof(double)); }

// ---- points ---------------------------------------------------------------------------------------------------------

ft_status ft_gp_points_init(ft_gp_points *points, int axes, const bool *choice, int capacity, ft_arena *arena) {
    const size_t size = (size_t)axes * (size_t)capacity;
    *points = (ft_gp_points){.axes = axes, .choice = choice, .capacity = capacity};
    points->at = room(arena, size);
    points->there = room(arena, size);
    return points->at != NULL && points->there != NULL ? FT_OK : FT_NO_MEMORY;
}

static double place(bool choice, double u) {
    if (choice) return isnan(u) ? -1 : u;
    return isnan(u) ? 0 : u - 0.5;
}

void ft_gp_points_add(ft_gp_points *points, const double *point) {
    const int i = points->count++;
    for (int a = 0; a < points->axes; a++) {
        const size_t k = (size_t)a * (size_t)points->capacity + (size_t)i;
        points->at[k] = place(points->choice[a], point[a]);
        points->there[k] = points->choice[a] || isnan(point[a]) ? 0 : 0.5;
    }
}

bool ft_gp_points_lack(const ft_gp_points *points, int axis, int point) {
    const size_t k = (size_t)axis * (size_t)points->capacity + (size_t)point;
    return points->choice[axis] ? points->at[k] < 0 : points->there[k] == 0;
}

// out [n] = squared distances of the points from `from` on to one at (at, there), along an axis.
static void distances(const ft_gp_points *p, int axis, int from, int n, double at, double there, double *restrict out) {
    const double *x = p->at + (size_t)axis * (size_t)p->capacity + from;
    const double *y = p->there + (size_t)axis * (size_t)p->capacity + from;
    if (p->choice[axis]) {
        for (int i = 0; i < n; i++)
            out[i] = x[i] != at ? 1 : 0;
        return;
    }
    for (int i = 0; i < n; i++)
        out[i] = (x[i] - at) * (x[i] - at) + (y[i] - there) * (y[i] - there);
}

ft_status ft_gp_pairs_of(const ft_gp_points *points, ft_arena *arena, ft_gp_pairs *out) {
    const size_t n = (size_t)points->count, pairs = n * (n - (n > 0)) / 2;
    *out = (ft_gp_pairs){.points = points->count, .axes = points->axes};
    out->squared = room(arena, pairs * (size_t)points->axes);
    if (out->squared == NULL) return FT_NO_MEMORY;
    double *next = out->squared;
    for (int a = 0; a < points->axes; a++)
        for (int i = 0; i < points->count; i++) {
            const size_t k = (size_t)a * (size_t)points->capacity + (size_t)i;
            const int others = points->count - i - 1;
            distances(points, a, i + 1, others, points->at[k], points->there[k], next);
            next += others;
        }
    return FT_OK;
}

ft_status ft_gp_scratch_init(ft_gp_scratch *s, int points, ft_arena *arena) {
    const size_t n = (size_t)points;
    double *matrices = room(arena, 4 * n * n), *pairs = room(arena, 3 * (n * n / 2)), *vectors = room(arena, 6 * n);
    if (matrices == NULL || pairs == NULL || vectors == NULL) return FT_NO_MEMORY;
    *s = (ft_gp_scratch){.covariance = matrices,
                         .inverse = matrices + n * n,
                         .work = matrices + 2 * n * n,
                         .extra = matrices + 3 * n * n,
                         .shape = pairs,
                         .slope = pairs + n * n / 2,
                         .tip = pairs + 2 * (n * n / 2),
                         .vector = vectors,
                         .other = vectors + n,
                         .third = vectors + 2 * n,
                         .fourth = vectors + 3 * n,
                         .fifth = vectors + 4 * n,
                         .sixth = vectors + 5 * n};
    return FT_OK;
}

// ---- covariance -----------------------------------------------------------------------------------------------------

// shape [n] holds squared distances, weighted; becomes m(r), and slope [n] (1 + r) e^-r.
static void matern(double *restrict shape, double *restrict slope, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double r = sqrt(5 * shape[i]), e = exp(-r);
        slope[i] = (1 + r) * e;
        shape[i] = (1 + r + r * r / 3) * e;
    }
}

// The same with the part of short lengths; tip [n] = m(8 r).
static void rough_matern(double *restrict shape, double *restrict slope, double *restrict tip, double rough, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double r = sqrt(5 * shape[i]), e = exp(-r), t = FINER * r, f = exp(-t);
        tip[i] = (1 + t + t * t / 3) * f;
        slope[i] = (1 + r) * e + rough * (FINER * FINER) * (1 + t) * f;
        shape[i] = (1 + r + r * r / 3) * e + rough * tip[i];
    }
}

void ft_gp_covariance(const ft_gp_pairs *pairs, const double *theta, double noise, double rough, ft_gp_scratch *s) {
    const size_t n = (size_t)pairs->points, count = n * (n - (n > 0)) / 2;
    const double variance = exp(theta[0]);
    memset(s->shape, 0, count * sizeof *s->shape);
    for (int a = 0; a < pairs->axes; a++) {
        const double weight = exp(theta[1 + a]), *d = pairs->squared + (size_t)a * count;
        for (size_t p = 0; p < count; p++)
            s->shape[p] += weight * d[p];
    }
    s->rough = rough;
    if (rough > 0) rough_matern(s->shape, s->slope, s->tip, rough, count);
    else matern(s->shape, s->slope, count);
    const double *next = s->shape;
    for (size_t i = 0; i < n; i++) {
        double *row = s->covariance + i * n;
        row[i] = variance * (1 + rough) + noise;
        for (size_t j = i + 1; j < n; j++)
            row[j] = variance * *next++;
    }
}

void ft_gp_covariance_gradient(const ft_gp_pairs *pairs, const double *theta, const double *factor, ft_gp_scratch *s,
                               double *gradient) {
    const size_t n = (size_t)pairs->points, count = n * (n - (n > 0)) / 2;
    const double variance = exp(theta[0]);
    double by_variance = 0;
    size_t p = 0;
    for (size_t i = 0; i < n; i++) {
        by_variance += 0.5 * (1 + s->rough) * factor[i * n + i];
        for (size_t j = i + 1; j < n; j++, p++) {
            by_variance += factor[i * n + j] * s->shape[p];
            s->slope[p] *= factor[i * n + j];
        }
    }
    gradient[0] += variance * by_variance;
    for (int a = 0; a < pairs->axes; a++) {
        const double *d = pairs->squared + (size_t)a * count;
        double sum[4] = {0}; // four sums: one alone waits for each addition
        size_t k = 0;
        for (; k + 4 <= count; k += 4)
            for (size_t lane = 0; lane < 4; lane++)
                sum[lane] += s->slope[k + lane] * d[k + lane];
        for (; k < count; k++)
            sum[0] += s->slope[k] * d[k];
        gradient[1 + a] -= variance * exp(theta[1 + a]) * 5 / 6 * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}

// Sum over i < j of what `inverse` has there times the tip.
static double along_tips(const ft_gp_scratch *s, int points) {
    const size_t n = (size_t)points;
    const double *next = s->tip;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            sum += s->inverse[i * n + j] * *next++;
    return sum;
}

double ft_gp_log_likelihood(const ft_gp_pairs *pairs, const double *y, const double *theta, ft_gp_scratch *s,
                            double *gradient) {
    const int n = pairs->points;
    const size_t width = (size_t)n;
    const double noise = exp(theta[1 + pairs->axes]), rough = exp(theta[2 + pairs->axes]);
    double *alpha = s->vector, fit = 0, by_noise = 0;
    ft_gp_covariance(pairs, theta, noise, rough, s);
    if (!ft_cholesky(s->covariance, n)) return -INFINITY;
    memcpy(alpha, y, width * sizeof *alpha);
    ft_cholesky_solve(s->covariance, n, alpha);
    for (int i = 0; i < n; i++)
        fit += y[i] * alpha[i];
    const double value = -0.5 * fit - ft_cholesky_half_log_det(s->covariance, n) - 0.5 * n * LOG_2PI;
    ft_cholesky_inverse(s->covariance, n, s->work, s->inverse);
    for (size_t i = 0; i < width; i++) {
        double *row = s->inverse + i * width;
        for (size_t j = i; j < width; j++)
            row[j] = alpha[i] * alpha[j] - row[j];
        by_noise += row[i];
    }
    memset(gradient, 0, (size_t)ft_gp_theta_size(pairs->axes) * sizeof *gradient);
    ft_gp_covariance_gradient(pairs, theta, s->inverse, s, gradient);
    gradient[1 + pairs->axes] = 0.5 * noise * by_noise;
    if (rough > 0) gradient[2 + pairs->axes] = rough * exp(theta[0]) * (0.5 * by_noise + along_tips(s, n));
    return value;
}

// ---- questions ------------------------------------------------------------------------------------------------------

ft_status ft_gp_model_room(const ft_gp_points *points, const double *theta, ft_arena *arena, ft_gp_model *m) {
    const size_t n = (size_t)points->count;
    *m = (ft_gp_model){.points = *points, .variance = exp(theta[0])};
    m->weight = room(arena, (size_t)points->axes);
    m->precision = room(arena, n * n);
    m->alpha = room(arena, 4 * n);
    if (m->weight == NULL || m->precision == NULL || m->alpha == NULL) return FT_NO_MEMORY;
    m->kernel = m->alpha + n;
    m->pull = m->alpha + 2 * n;
    m->slope = m->alpha + 3 * n;
    for (int a = 0; a < points->axes; a++)
        m->weight[a] = exp(theta[1 + a]);
    return FT_OK;
}

ft_status ft_gp_model_of(const ft_gp_points *points, const double *y, const double *theta, ft_arena *arena,
                         ft_gp_model *m) {
    ft_gp_pairs pairs;
    ft_gp_scratch s;
    double noise = exp(theta[1 + points->axes]);
    FT_TRY(ft_gp_model_room(points, theta, arena, m));
    m->rough = exp(theta[2 + points->axes]);
    FT_TRY(ft_gp_pairs_of(points, arena, &pairs));
    FT_TRY(ft_gp_scratch_init(&s, points->count, arena));
    ft_gp_covariance(&pairs, theta, noise, m->rough, &s);
    // Points that nearly coincide: the noise that makes them distinct is found in a few steps.
    for (int tries = 0; !ft_cholesky(s.covariance, points->count); tries++) {
        if (tries == 10)
            return ft_fail(FT_FAILED, "study.sampler", "the covariance of %d trials is not positive definite",
                           points->count);
        noise = 4 * noise + 1e-10 * m->variance;
        ft_gp_covariance(&pairs, theta, noise, m->rough, &s);
    }
    if (points->count > 0) memcpy(m->alpha, y, (size_t)points->count * sizeof *y);
    ft_cholesky_solve(s.covariance, points->count, m->alpha);
    ft_cholesky_inverse(s.covariance, points->count, s.work, m->precision);
    return FT_OK;
}

void ft_gp_ask(ft_gp_model *m, const double *point, double *mean, double *variance, double *mean_gradient,
               double *variance_gradient) {
    const ft_gp_points *p = &m->points;
    const int n = p->count;
    const size_t width = (size_t)n;
    double *k = m->kernel, *pull = m->pull;
    memset(k, 0, width * sizeof *k);
    for (int a = 0; a < p->axes; a++) {
        const double at = place(p->choice[a], point[a]), there = p->choice[a] || isnan(point[a]) ? 0 : 0.5,
                     w = m->weight[a];
        const double *x = p->at + (size_t)a * (size_t)p->capacity, *y = p->there + (size_t)a * (size_t)p->capacity;
        if (p->choice[a])
            for (int i = 0; i < n; i++)
                k[i] += x[i] != at ? w : 0;
        else
            for (int i = 0; i < n; i++)
                k[i] += w * ((x[i] - at) * (x[i] - at) + (y[i] - there) * (y[i] - there));
    }
    if (m->rough > 0) rough_matern(k, m->slope, m->pull, m->rough, width); // pull: scratch until it is known
    else matern(k, m->slope, width);
    double sum = 0, explained = 0;
    for (int i = 0; i < n; i++) {
        k[i] *= m->variance;
        sum += k[i] * m->alpha[i];
    }
    if (variance != NULL) ft_matrix_rows(m->precision, k, n, pull);
    for (int i = 0; variance != NULL && i < n; i++)
        explained += k[i] * pull[i];
    const double least = 1e-12 * m->variance, left = m->variance * (1 + m->rough) - explained;
    *mean = m->offset + sum;
    if (variance != NULL) *variance = left > least ? left : least;
    if (mean_gradient == NULL) return;
    for (int a = 0; a < p->axes; a++) {
        mean_gradient[a] = 0;
        if (variance_gradient != NULL) variance_gradient[a] = 0;
        if (p->choice[a] || isnan(point[a])) continue;
        const double *x = p->at + (size_t)a * (size_t)p->capacity, at = point[a] - 0.5;
        double by_mean = 0, by_variance = 0;
        for (int i = 0; i < n; i++) {
            const double step = m->slope[i] * (x[i] - at);
            by_mean += step * m->alpha[i];
            if (variance_gradient != NULL) by_variance += step * pull[i];
        }
        const double scale = m->variance * m->weight[a] * 5 / 3;
        mean_gradient[a] = scale * by_mean;
        if (variance_gradient != NULL) variance_gradient[a] = left > least ? -2 * scale * by_variance : 0;
    }
}
