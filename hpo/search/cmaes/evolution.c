#include "hpo/search/cmaes/evolution.h"

#include "hpo/search/cmaes/eigen.h"

#include <math.h>
#include <string.h>

// ---- constants of dimension and generation --------------------------------------------------------------------------

int ft_evolution_lambda(int n) { return 4 + (int)floor(3 * log(n)); }

// Sum squared over sum of squares of weights [from, to).
static double effective(const double *weight, int from, int to) {
    double sum = 0, square = 0;
    for (int i = from; i < to; i++)
        sum += weight[i], square += weight[i] * weight[i];
    return square > 0 ? sum * sum / square : 0;
}

static void set_weights(ft_evolution *e) {
    const int half = e->lambda / 2;
    const double n = e->n;
    double *w = e->weight, better = 0, worse = 0;
    for (int i = 0; i < e->lambda; i++) {
        w[i] = log((e->lambda + 1) / 2.0) - log(i + 1);
        *(i < half ? &better : &worse) += fabs(w[i]);
    }
    const double m = e->effective = effective(w, 0, half), unlearnt = effective(w, half, e->lambda);
    e->cc = (4 + m / n) / (n + 4 + 2 * m / n);
    e->c1 = 2 / ((n + 1.3) * (n + 1.3) + m);
    e->cmu = fmin(1 - e->c1, 2 * (0.25 + m - 2 + 1 / m) / ((n + 2) * (n + 2) + m));
    e->cs = (m + 2) / (n + m + 5);
    e->damping = 1 + e->cs + 2 * fmax(0, sqrt((m - 1) / (n + 1)) - 1);
    e->expected = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
    // As much as leaves the matrix positive definite.
    const double most = fmin(fmin(1 + e->c1 / e->cmu, 1 + 2 * unlearnt / (m + 2)), (1 - e->c1 - e->cmu) / (n * e->cmu));
    for (int i = 0; i < e->lambda; i++)
        w[i] *= i < half ? 1 / better : worse > 0 ? most / worse : 0;
}

ft_status ft_evolution_init(int n, int lambda, ft_arena *arena, ft_evolution *out) {
    const size_t d = (size_t)n, many = (size_t)lambda;
    double *room = ft_arena_alloc(arena, (2 * many + many * d + 5 * d + 3 * d * d) * sizeof *room);
    if (room == NULL) return FT_NO_MEMORY;
    *out = (ft_evolution){.n = n, .lambda = lambda, .weight = room, .squared = room + many};
    double **const parts[] = {&out->mean, &out->path, &out->path_sigma, &out->length, &out->rotated};
    room += 2 * many;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++, room += d)
        *parts[i] = room;
    out->step = room;
    out->covariance = room + many * d;
    out->axis = out->covariance + d * d;
    out->scratch = out->axis + d * d;
    set_weights(out);
    return FT_OK;
}

// ---- the distribution -----------------------------------------------------------------------------------------------

static void find_axes(ft_evolution *e) {
    const size_t n = (size_t)e->n;
    memcpy(e->scratch, e->covariance, n * n * sizeof *e->scratch);
    ft_eigen(e->scratch, e->n, e->length, e->axis);
    for (size_t k = 0; k < n; k++)
        e->length[k] = sqrt(fmax(e->length[k], 1e-30));
}

void ft_evolution_begin(ft_evolution *e, const double *mean, double sigma, const double *covariance) {
    const size_t n = (size_t)e->n;
    e->sigma = sigma;
    e->generations = 0;
    for (size_t i = 0; i < n; i++) {
        e->mean[i] = mean[i];
        e->path[i] = e->path_sigma[i] = 0;
        for (size_t k = 0; k < n; k++)
            e->covariance[i * n + k] = covariance != NULL ? covariance[i * n + k] : i == k;
    }
    find_axes(e);
}

void ft_evolution_point(const ft_evolution *e, const double *z, double *out) {
    const int n = e->n;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += e->axis[i * n + k] * (e->length[k] * z[k]);
        out[i] = e->mean[i] + e->sigma * sum;
    }
}

double ft_evolution_deviation(const ft_evolution *e, int axis) {
    return e->sigma * sqrt(fmax(e->covariance[axis * e->n + axis], 0));
}

double ft_evolution_condition(const ft_evolution *e) {
    double low = INFINITY, high = 0;
    for (int k = 0; k < e->n; k++)
        low = fmin(low, e->length[k]), high = fmax(high, e->length[k]);
    return high / low * (high / low);
}

// rotated [n] = length^-1 axis' y: how many deviations y goes along each axis. Its length.
static double rotate(ft_evolution *e, const double *y) {
    double square = 0;
    for (int k = 0; k < e->n; k++) {
        double sum = 0;
        for (int i = 0; i < e->n; i++)
            sum += e->axis[i * e->n + k] * y[i];
        e->rotated[k] = sum / e->length[k];
        square += e->rotated[k] * e->rotated[k];
    }
    return sqrt(square);
}

// ---- a generation ---------------------------------------------------------------------------------------------------

// step [lambda][n] in deviations of sigma, none longer than its own may be; squared [lambda]: their lengths squared.
static void take_steps(ft_evolution *e, const double *const *points) {
    const int n = e->n;
    const double longest = sqrt(n) + 2.0 * n / (n + 2);
    for (int p = 0; p < e->lambda; p++) {
        double *y = e->step + (size_t)p * (size_t)n;
        for (int i = 0; i < n; i++)
            y[i] = (points[p][i] - e->mean[i]) / e->sigma;
        const double length = rotate(e, y), factor = length > longest ? longest / length : 1;
        for (int i = 0; i < n; i++)
            y[i] *= factor;
        e->squared[p] = length * factor * length * factor;
    }
}

static void move_mean(ft_evolution *e, double *y) {
    for (int i = 0; i < e->n; i++) {
        y[i] = 0;
        for (int p = 0; p < e->lambda / 2; p++)
            y[i] += e->weight[p] * e->step[(size_t)p * (size_t)e->n + (size_t)i];
        e->mean[i] += e->sigma * y[i];
    }
}

// Both paths and sigma. false: the step was so long that the matrix does not learn it.
static bool follow(ft_evolution *e, const double *y) {
    const int n = e->n;
    double square = 0;
    rotate(e, y);
    for (int i = 0; i < n; i++) {
        double white = 0;
        for (int k = 0; k < n; k++)
            white += e->axis[i * n + k] * e->rotated[k];
        e->path_sigma[i] = (1 - e->cs) * e->path_sigma[i] + sqrt(e->cs * (2 - e->cs) * e->effective) * white;
        square += e->path_sigma[i] * e->path_sigma[i];
    }
    const double length = sqrt(square), settled = sqrt(1 - pow(1 - e->cs, 2.0 * (e->generations + 1)));
    const bool learns = length / settled < (1.4 + 2.0 / (n + 1)) * e->expected;
    for (int i = 0; i < n; i++) {
        e->path[i] *= 1 - e->cc;
        if (learns) e->path[i] += sqrt(e->cc * (2 - e->cc) * e->effective) * y[i];
    }
    e->sigma *= exp(fmin(1, e->cs / e->damping * (length / e->expected - 1)));
    return learns;
}

static void learn(ft_evolution *e, bool learns) {
    const size_t n = (size_t)e->n;
    double sum = 0;
    for (int p = 0; p < e->lambda; p++)
        sum += e->weight[p];
    const double kept = 1 + (learns ? 0 : e->c1 * e->cc * (2 - e->cc)) - e->c1 - e->cmu * sum;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++) {
            double many = 0;
            for (int p = 0; p < e->lambda; p++) {
                const double *y = e->step + (size_t)p * n, w = e->weight[p];
                many += (w >= 0 ? w : w * (double)n / (e->squared[p] + 1e-8)) * y[i] * y[k];
            }
            double *c = &e->covariance[i * n + k];
            *c = kept * *c + e->c1 * e->path[i] * e->path[k] + e->cmu * many;
            e->covariance[k * n + i] = *c;
        }
}

void ft_evolution_tell(ft_evolution *e, const double *const *points) {
    double *y = e->scratch; // [n], until axes are found
    take_steps(e, points);
    move_mean(e, y);
    learn(e, follow(e, y));
    e->generations++;
    find_axes(e);
}
