#include "hpo/search/gp/fit.h"

#include "hpo/search/gp/classifier.h"
#include "hpo/search/gp/minimise.h"

#include <math.h>
#include <string.h>

enum { STEPS = 30, CLASSIFIER_STEPS = 15 };
static const double LEAST_WEIGHT = 1e-4, NOT_ROUGH = -1000; // a logarithm of 0 that a minimum can be looked for beside

typedef struct fitting {
    ft_gp_pairs pairs;
    ft_gp_scratch scratch;
    const double *y; // NULL: labels
    const bool *good;
    bool rough; // it may be
    double offset;
    double *mode; // [points]
    bool *lacked; // [axes] by some point
} fitting;

// Adds ln of the prior of ln x ~ N(mean, deviation) and its derivative.
static double log_normal(double x, double mean, double deviation, double *gradient) {
    const double z = (x - mean) / deviation;
    *gradient -= z / deviation;
    return -0.5 * z * z;
}

// Adds ln of a prior of a weight that is flat from about 0.1 to 1 / steep and steep beyond, and its derivative by ln weight.
static double within_reason(double log_weight, double steep, double *gradient) {
    const double weight = exp(log_weight);
    *gradient += 0.1 / weight - steep * weight;
    return -0.1 / weight - steep * weight;
}

static double mean_log_weight(int axes) { return -2 * (sqrt(2.0) + 0.5 * log(axes)); }

static double objective(void *context, const double *theta, double *gradient) {
    fitting *f = context;
    const int axes = f->pairs.axes;
    const double steep = f->rough ? fmin(0.01 * axes, 0.1) : 0.1;
    double value;
    if (f->y != NULL) {
        value = ft_gp_log_likelihood(&f->pairs, f->y, theta, &f->scratch, gradient);
    } else {
        memset(f->mode, 0, (size_t)f->pairs.points * sizeof *f->mode);
        value = ft_gp_classifier_evidence(&f->pairs, f->good, f->offset, theta, &f->scratch, f->mode, gradient);
    }
    if (!isfinite(value)) return INFINITY;
    for (int a = 0; a < axes; a++)
        value += f->y != NULL && !f->lacked[a]
                     ? within_reason(theta[1 + a], steep, &gradient[1 + a])
                     : log_normal(theta[1 + a], mean_log_weight(axes), 2 * sqrt(3.0), &gradient[1 + a]);
    if (f->y != NULL) {
        const double variance = exp(theta[0]), noise = exp(theta[1 + axes]), rough = exp(theta[2 + axes]), unlikely = axes * axes;
        value += theta[0] - variance + 0.3 * theta[1 + axes] - 30 * noise - unlikely * rough;
        gradient[0] += 1 - variance;
        gradient[1 + axes] += 0.3 - 30 * noise;
        gradient[2 + axes] -= unlikely * rough;
    } else {
        value += log_normal(theta[0], log(10), 1, &gradient[0]);
    }
    for (int i = 0; i < axes + (f->y != NULL ? 3 : 1); i++)
        gradient[i] = -gradient[i];
    return -value;
}

static ft_status init(const ft_gp_points *points, ft_arena *arena, fitting *f) {
    FT_TRY(ft_gp_pairs_of(points, arena, &f->pairs));
    FT_TRY(ft_gp_scratch_init(&f->scratch, points->count, arena));
    f->mode = ft_arena_alloc(arena, (size_t)(points->count + 1) * sizeof *f->mode);
    f->lacked = ft_arena_alloc(arena, (size_t)(points->axes + 1) * sizeof *f->lacked);
    if (f->mode == NULL || f->lacked == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < points->axes; a++)
        for (int i = 0; i < points->count && !f->lacked[a]; i++)
            f->lacked[a] = ft_gp_points_lack(points, a, i);
    return FT_OK;
}

typedef struct start {
    double *theta;
    double value;
} start;

// The most likely start with all axes alike, long or short, with much noise or hardly any, and this much of what is rough.
static void find_start(fitting *f, double log_rough, start *best, double *theta, double *unused) {
    const int axes = f->pairs.axes, size = ft_gp_theta_size(axes), lengths = f->rough ? 4 : 3;
    const double weights[] = {fmax(mean_log_weight(axes), log(LEAST_WEIGHT)), log(0.5), log(8), log(100)}, noises[] = {log(1e-2), log(1e-5)};
    best->value = INFINITY;
    for (int k = 0; k < (f->y != NULL ? 2 * lengths : lengths); k++) {
        for (int i = 0; i < size; i++)
            theta[i] = i == 0 ? (f->y != NULL ? 0 : log(10)) : i <= axes ? weights[k % lengths] : i == axes + 1 ? noises[k / lengths] : log_rough;
        const double value = objective(f, theta, unused);
        if (k > 0 && !(value < best->value)) continue;
        best->value = value;
        memcpy(best->theta, theta, (size_t)size * sizeof *theta);
    }
}

// Two starts are followed, a smooth one and a rough one: from one alone ripples were taken for noise, and the fit stayed there.
static ft_status best_of(fitting *f, int steps, ft_arena *arena, double *theta, double *evidence) {
    const int axes = f->pairs.axes, size = ft_gp_theta_size(axes), used = f->y != NULL ? size : size - 2;
    double *low = ft_arena_alloc(arena, 5 * (size_t)size * sizeof *low), *high = low + size, *room = high + size, *unused = room + size,
           best = INFINITY;
    if (low == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < size; i++) {
        low[i] = i == 0 ? -6 : log(i <= axes ? LEAST_WEIGHT : i == axes + 1 ? 1e-6 : 1e-5);
        high[i] = i == 0 ? 6 : i <= axes ? log(1e4) : i == axes + 1 ? 0 : log(10);
    }
    if (!f->rough) low[axes + 2] = high[axes + 2] = NOT_ROUGH;
    const ft_minimise m = {
        .function = objective, .context = f, .low = low, .high = high, .n = used, .steps = steps, .tolerance = 0.02};
    for (int k = 0; k < (f->rough ? 2 : 1); k++) {
        start s = {.theta = unused + size};
        find_start(f, !f->rough ? NOT_ROUGH : k == 0 ? log(1e-3) : log(0.3), &s, room, unused);
        FT_TRY(ft_minimise_run(&m, s.theta, &s.value));
        if (k > 0 && !(s.value < best)) continue;
        best = s.value;
        memcpy(theta, s.theta, (size_t)size * sizeof *theta);
    }
    if (evidence != NULL) *evidence = -best;
    return FT_OK;
}

ft_status ft_gp_fit(const ft_gp_points *points, const double *y, bool rough, ft_arena *arena, double *theta, double *evidence) {
    fitting f = {.y = y, .rough = rough};
    FT_TRY(init(points, arena, &f));
    return best_of(&f, STEPS, arena, theta, evidence);
}

ft_status ft_gp_fit_classifier(const ft_gp_points *points, const bool *good, double offset, ft_arena *arena,
                               double *theta) {
    fitting f = {.good = good, .offset = offset};
    FT_TRY(init(points, arena, &f));
    return best_of(&f, CLASSIFIER_STEPS, arena, theta, NULL);
}
