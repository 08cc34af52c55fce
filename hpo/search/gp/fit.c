#include "hpo/search/gp/fit.h"

#include "hpo/search/gp/classifier.h"
#include "hpo/search/gp/minimise.h"

#include <math.h>
#include <string.h>

enum { STEPS = 30, CLASSIFIER_STEPS = 15 };

typedef struct fitting {
    ft_gp_pairs pairs;
    ft_gp_scratch scratch;
    const double *y; // NULL: labels
    const bool *good;
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

// Adds ln of a prior of a weight that is flat from about 0.1 to 10 and steep beyond, and its derivative by ln weight.
static double within_reason(double log_weight, double *gradient) {
    const double weight = exp(log_weight);
    *gradient += 0.1 / weight - 0.1 * weight;
    return -0.1 / weight - 0.1 * weight;
}

static double mean_log_weight(int axes) { return -2 * (sqrt(2.0) + 0.5 * log(axes)); }

static double objective(void *context, const double *theta, double *gradient) {
    fitting *f = context;
    const int axes = f->pairs.axes;
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
                     ? within_reason(theta[1 + a], &gradient[1 + a])
                     : log_normal(theta[1 + a], mean_log_weight(axes), 2 * sqrt(3.0), &gradient[1 + a]);
    if (f->y != NULL) {
        const double variance = exp(theta[0]), noise = exp(theta[1 + axes]);
        value += theta[0] - variance + 0.3 * theta[1 + axes] - 30 * noise;
        gradient[0] += 1 - variance;
        gradient[1 + axes] += 0.3 - 30 * noise;
    } else {
        value += log_normal(theta[0], log(10), 1, &gradient[0]);
    }
    for (int i = 0; i < axes + (f->y != NULL ? 2 : 1); i++)
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

// Starts: all axes alike and long or short, with much noise or hardly any. The most likely of them is followed.
static ft_status best_of(fitting *f, int steps, ft_arena *arena, double *theta, double *evidence) {
    const int axes = f->pairs.axes, size = ft_gp_theta_size(axes), used = f->y != NULL ? size : size - 1;
    double *low = ft_arena_alloc(arena, 5 * (size_t)size * sizeof *low), *high = low + size, *start = high + size,
           *unused = start + size;
    if (low == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < size; i++) {
        low[i] = i == 0 ? -6 : i <= axes ? log(1e-4) : log(1e-6);
        high[i] = i == 0 ? 6 : i <= axes ? log(1e4) : 0;
    }
    const double weights[] = {fmax(mean_log_weight(axes), low[1]), log(0.5), log(8)}, noises[] = {log(1e-2), log(1e-5)};
    double best = INFINITY, value;
    for (int k = 0; k < (f->y != NULL ? 6 : 3); k++) {
        for (int i = 0; i < size; i++)
            start[i] = i == 0 ? (f->y != NULL ? 0 : log(10)) : i <= axes ? weights[k % 3] : noises[k / 3];
        value = objective(f, start, unused);
        if (k > 0 && !(value < best)) continue;
        best = value;
        memcpy(theta, start, (size_t)size * sizeof *theta);
    }
    const ft_minimise m = {
        .function = objective, .context = f, .low = low, .high = high, .n = used, .steps = steps, .tolerance = 0.02};
    FT_TRY(ft_minimise_run(&m, theta, &value));
    if (evidence != NULL) *evidence = -value;
    return FT_OK;
}

ft_status ft_gp_fit(const ft_gp_points *points, const double *y, ft_arena *arena, double *theta, double *evidence) {
    fitting f = {.y = y};
    FT_TRY(init(points, arena, &f));
    return best_of(&f, STEPS, arena, theta, evidence);
}

ft_status ft_gp_fit_classifier(const ft_gp_points *points, const bool *good, double offset, ft_arena *arena,
                               double *theta) {
    fitting f = {.good = good, .offset = offset};
    FT_TRY(init(points, arena, &f));
    return best_of(&f, CLASSIFIER_STEPS, arena, theta, NULL);
}
