#include "hpo/search/gp/outlook.h"

#include "hpo/search/gp/drawing.h"
#include "hpo/search/gp/matrix.h"
#include "hpo/search/history/random_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// In five dimensions 96 points of 800 showed half of the gain that 400 of 4,000 do.
enum { CANDIDATES = 4000, POINTS = 400, DRAWS = 1000 };

typedef struct looking {
    double *points;            // [count][axes], the best trial first
    double *mean, *covariance; // [count], [count][count] upper triangle; of the model's values
    int count;
} looking;

static ft_status find_points(ft_gp_drawing *d, looking *l) {
    const size_t axes = (size_t)d->axes.count;
    ft_gp_branches branches;
    double *fixed = ft_arena_alloc(&d->arena, (axes + 1) * sizeof *fixed);
    l->points = ft_arena_alloc(&d->arena, ((POINTS + 2) * axes + 1) * sizeof *l->points);
    if (fixed == NULL || l->points == NULL) return FT_NO_MEMORY;
    for (size_t a = 0; a < axes; a++)
        fixed[a] = NAN;
    FT_TRY(ft_gp_all_branches(d, &branches));
    ft_gp_climb climb = ft_gp_climb_of(d, &branches, fixed, d->trials->count);
    int branch, more;
    memcpy(l->points, d->elite, axes * sizeof *l->points);
    FT_TRY(ft_gp_climb_run(&climb, &d->arena, l->points + axes, &branch));
    l->count = branch >= 0 ? 2 : 1;
    climb.candidates = CANDIDATES;
    FT_TRY(ft_gp_climb_list(&climb, &d->arena, POINTS, l->points + (size_t)l->count * axes, &more));
    // What would rather fail, or break a limit, is no gain.
    const int all = l->count + more;
    l->count = 1;
    for (int i = 1; i < all; i++) {
        if (ft_gp_chance(&d->acquisition, l->points + (size_t)i * axes) < log(0.5)) continue;
        memmove(l->points + (size_t)l->count++ * axes, l->points + (size_t)i * axes, axes * sizeof *l->points);
    }
    return FT_OK;
}

// Covariances of the points, less what the trials explain.
static ft_status believe(ft_gp_drawing *d, looking *l) {
    ft_gp_acquisition *q = &d->acquisition;
    ft_gp_model *m = &q->objective;
    const size_t n = (size_t)l->count, known = (size_t)m->points.count, axes = (size_t)d->axes.count;
    ft_gp_points points;
    ft_gp_pairs pairs;
    ft_gp_scratch s;
    double *kernel = ft_arena_alloc(&d->arena, (n * known + 1) * sizeof *kernel),
           *pull = ft_arena_alloc(&d->arena, (n * known + 1) * sizeof *pull);
    double *theta = ft_arena_alloc(&d->arena, (axes + 1) * sizeof *theta), variance;
    l->mean = ft_arena_alloc(&d->arena, n * sizeof *l->mean);
    if (kernel == NULL || pull == NULL || theta == NULL || l->mean == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_gp_points_init(&points, d->axes.count, d->axes.choice, l->count, &d->arena));
    for (size_t i = 0; i < n; i++) {
        const double *point = l->points + i * axes;
        ft_gp_points_add(&points, point);
        ft_gp_believe(q, point, &l->mean[i], &variance, NULL, NULL);
        memcpy(kernel + i * known, m->kernel, known * sizeof *kernel);
        memcpy(pull + i * known, m->pull, known * sizeof *pull);
    }
    theta[0] = log(m->variance);
    for (size_t a = 0; a < axes; a++)
        theta[1 + a] = log(m->weight[a]);
    FT_TRY(ft_gp_pairs_of(&points, &d->arena, &pairs));
    FT_TRY(ft_gp_scratch_init(&s, l->count, &d->arena));
    ft_gp_covariance(&pairs, theta, 0, m->rough, &s);
    const double scale = q->belief != NULL ? q->belief->scale : 1;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) {
            double explained = 0;
            for (size_t k = 0; k < known; k++)
                explained += kernel[i * known + k] * pull[j * known + k];
            s.covariance[i * n + j] = scale * scale * (s.covariance[i * n + j] - explained);
        }
    l->covariance = s.covariance;
    return FT_OK;
}

// Points that nearly coincide, and rounding: as much on the diagonal as it takes. R'R = the covariance.
static ft_status factorise(ft_gp_drawing *d, looking *l) {
    const size_t n = (size_t)l->count;
    double *kept = ft_arena_alloc(&d->arena, n * n * sizeof *kept), more = 1e-10 * d->acquisition.objective.variance;
    if (kept == NULL) return FT_NO_MEMORY;
    memcpy(kept, l->covariance, n * n * sizeof *kept);
    for (int tries = 0; tries < 12; tries++, more *= 10) {
        memcpy(l->covariance, kept, n * n * sizeof *kept);
        for (size_t i = 0; i < n; i++)
            l->covariance[i * n + i] = fmax(kept[i * n + i], 0) + more;
        if (ft_cholesky(l->covariance, l->count)) return FT_OK;
    }
    return ft_fail(FT_FAILED, "study.sampler", "the covariance of %d points is not positive definite", l->count);
}

static double normal(ft_random_stream *s) {
    const double radius = sqrt(-2 * log(1 - ft_random_double(s))), angle = 6.28318530717958648 * ft_random_double(s);
    return radius * cos(angle);
}

static ft_status draw(ft_gp_drawing *d, const looking *l, double tolerance, ft_gp_outlook *out) {
    const size_t n = (size_t)l->count;
    double *z = ft_arena_alloc(&d->arena, 2 * n * sizeof *z), *value = z + n, sum = 0;
    int enough = 0;
    if (z == NULL) return FT_NO_MEMORY;
    ft_random_stream stream = ft_random_stream_of(d->options->seed, d->trials->count, FT_DRAW_ACQUIRE, "outlook");
    for (int k = 0; k < DRAWS; k++) {
        for (size_t i = 0; i < n; i++)
            z[i] = normal(&stream), value[i] = l->mean[i];
        for (size_t i = 0; i < n; i++)
            for (size_t j = i; j < n; j++)
                value[j] += l->covariance[i * n + j] * z[i];
        double least = value[0];
        for (size_t i = 1; i < n; i++)
            least = fmin(least, value[i]);
        sum += value[0] - least;
        enough += value[0] - least <= tolerance;
    }
    out->gain = d->unit * (sum / DRAWS);
    out->enough = (double)enough / DRAWS;
    return FT_OK;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A hundredth of how much better than a middling trial the best one is, as a loss: a difference of doubles may be none.
static ft_status hundredth(ft_gp_drawing *d, double *out) {
    double *loss = ft_arena_alloc(&d->arena, (size_t)(d->targets.count + 1) * sizeof *loss);
    int n = 0;
    if (loss == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < d->targets.count; i++)
        if (!isnan(d->targets.loss[i])) loss[n++] = d->targets.loss[i];
    qsort(loss, (size_t)n, sizeof *loss, ascending);
    *out = n > 0 ? 0.01 * loss[n / 2] - 0.01 * loss[0] : 0;
    return FT_OK;
}

static ft_status look(ft_gp_drawing *d, ft_gp_outlook *out) {
    looking l = {.count = 0};
    double so_far; // a hundredth of what the search has gained
    FT_TRY(ft_gp_prepare(d, -1, -1));
    if (d->targets.losses < FT_OUTLOOK_TRIALS || d->axes.count == 0 || !d->acquisition.improves || !(d->unit > 0))
        return FT_OK;
    FT_TRY(find_points(d, &l));
    FT_TRY(believe(d, &l));
    FT_TRY(factorise(d, &l));
    FT_TRY(hundredth(d, &so_far));
    const double scale = d->acquisition.belief != NULL ? d->acquisition.belief->scale : 1;
    out->tolerance = fmax(d->unit * scale * sqrt(d->noise), so_far);
    FT_TRY(draw(d, &l, out->tolerance / d->unit, out));
    out->known = true;
    out->stop = out->enough >= FT_OUTLOOK_SURE;
    return FT_OK;
}

// The scale of a suggestion is that of the better half, which is soon all in one place: there, what nobody has tried would promise no more
// than the luck of a trial, and of 120 studies of random functions that this said were at their end 36 were not. On this scale one of 65 is.
ft_status ft_gp_outlook_of(const ft_trials *trials, const ft_gp_options *options, ft_gp_outlook *out) {
    ft_gp_options own = *options;
    ft_gp_drawing d = {.trials = trials, .options = &own, .number = -1};
    own.warp = FT_GP_CUT;
    own.rough = false; // or there would always be something to gain near every trial
    *out = (ft_gp_outlook){.known = false};
    if (trials->objectives != 1 || trials->finished < FT_OUTLOOK_TRIALS) return FT_OK;
    ft_status status = look(&d, out);
    ft_arena_free(&d.arena);
    if (status != FT_FAILED) return status;
    ft_error_clear(); // these trials are no model's: nothing is known
    *out = (ft_gp_outlook){.known = false};
    return FT_OK;
}
