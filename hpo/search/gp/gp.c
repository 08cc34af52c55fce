#include "hpo/search/gp/gp.h"

#include "hpo/search/gp/choose.h"
#include "hpo/search/gp/classifier.h"
#include "hpo/search/gp/drawing.h"
#include "hpo/search/gp/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ELITES = 5, MOST_RUNNING = 64, MOST_FAILED = 100, RECENT = 20 };

ft_gp_options ft_gp_defaults(void) {
    return (ft_gp_options){
        .warp = FT_GP_HALF, .fitted = 80, .modelled = 300, .candidates = 800, .starts = 5, .pending = true, .rough = true};
}

typedef ft_gp_drawing drawing;

// ---- which trials ---------------------------------------------------------------------------------------------------

// Points of some targets; values go along.
typedef struct sample {
    ft_gp_points points;
    double *y;
    bool *good;
} sample;

static ft_status take(drawing *d, const int *from, const double *y, const bool *good, const int *chosen, int count,
                      int room, sample *out) {
    FT_TRY(ft_gp_points_init(&out->points, d->axes.count, d->axes.choice, count + room, &d->arena));
    out->y = ft_arena_alloc(&d->arena, (size_t)(count + room + 1) * sizeof *out->y);
    out->good = ft_arena_alloc(&d->arena, (size_t)(count + room + 1) * sizeof *out->good);
    if (out->y == NULL || out->good == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        ft_gp_points_add(&out->points, d->points + (size_t)from[chosen[i]] * (size_t)d->axes.count);
        if (y != NULL) out->y[i] = y[chosen[i]];
        if (good != NULL) out->good[i] = good[chosen[i]];
    }
    return FT_OK;
}

typedef struct choosing {
    ft_gp_ranked *scratch;
    bool *mark;
    int *chosen, *from;
    double *value, *y;
} choosing;

static ft_status choosing_room(drawing *d, choosing *c) {
    const size_t n = (size_t)d->targets.count + 1;
    *c = (choosing){.scratch = ft_arena_alloc(&d->arena, n * sizeof *c->scratch),
                    .mark = ft_arena_alloc(&d->arena, n * sizeof *c->mark),
                    .chosen = ft_arena_alloc(&d->arena, n * sizeof *c->chosen),
                    .from = ft_arena_alloc(&d->arena, n * sizeof *c->from),
                    .value = ft_arena_alloc(&d->arena, n * sizeof *c->value),
                    .y = ft_arena_alloc(&d->arena, n * sizeof *c->y)};
    return c->scratch != NULL && c->mark != NULL && c->chosen != NULL && c->from != NULL && c->value != NULL &&
                   c->y != NULL
               ? FT_OK
               : FT_NO_MEMORY;
}

// ---- models ---------------------------------------------------------------------------------------------------------

// Running trials and those that came to no end, with the value that is expected of them: their places become less
// uncertain, no better and no worse. Else there would always be much to learn where every trial fails.
static ft_status add_expected(drawing *d, const double *theta, sample *s, ft_gp_model *model) {
    const int before = s->points.count;
    const ft_gp_targets *t = &d->targets;
    double *point = ft_arena_alloc(&d->arena, (size_t)(d->axes.count + 1) * sizeof *point), variance;
    if (point == NULL) return FT_NO_MEMORY;
    for (int64_t i = d->trials->count - 1; d->options->pending && i >= 0 && s->points.count < before + MOST_RUNNING;
         i--) {
        const ft_trial *trial = &d->trials->trial[i];
        if (trial->state != FT_RUNNING || i == d->number || trial->param_count == 0) continue;
        ft_gp_point(&d->axes, trial, true, point);
        ft_gp_ask(model, point, &s->y[s->points.count], &variance, NULL, NULL);
        ft_gp_points_add(&s->points, point);
    }
    for (int i = t->count - 1; i >= 0 && s->points.count < s->points.capacity; i--) {
        if (t->good[i]) continue;
        const double *at = d->points + (size_t)i * (size_t)d->axes.count;
        ft_gp_ask(model, at, &s->y[s->points.count], &variance, NULL, NULL);
        ft_gp_points_add(&s->points, at);
    }
    return s->points.count > before ? ft_gp_model_of(&s->points, s->y, theta, &d->arena, model) : FT_OK;
}

// Scales for y [count], of the targets from [count]. *evidence of *some values.
static ft_status find_scales(drawing *d, choosing *c, const double *y, int count, double **theta, double *evidence,
                             int *some) {
    sample fitted;
    *theta = ft_arena_alloc(&d->arena, (size_t)ft_gp_theta_size(d->axes.count) * sizeof **theta);
    if (*theta == NULL) return FT_NO_MEMORY;
    *some = ft_gp_choose(c->value, count, d->options->fitted, c->scratch, c->mark, c->chosen);
    FT_TRY(take(d, c->from, y, NULL, c->chosen, *some, 0, &fitted));
    return ft_gp_fit(&fitted.points, fitted.y, d->options->rough, &d->arena, *theta, evidence);
}

// A model of values y [count] of the targets from [count].
static ft_status learn(drawing *d, choosing *c, int count, const double *theta, ft_gp_model *model, bool expected) {
    sample all;
    int some = ft_gp_choose(c->value, count, d->options->modelled, c->scratch, c->mark, c->chosen);
    FT_TRY(take(d, c->from, c->y, NULL, c->chosen, some, expected ? MOST_RUNNING + MOST_FAILED : 0, &all));
    FT_TRY(ft_gp_model_of(&all.points, all.y, theta, &d->arena, model));
    return expected ? add_expected(d, theta, &all, model) : FT_OK;
}

// What teachers leave of the values in place of these, with their own scales, where that is more likely.
static ft_status hear_teachers(drawing *d, choosing *c, int count, double **theta, double evidence) {
    ft_gp_belief *belief = ft_arena_alloc(&d->arena, sizeof *belief);
    double *residual = ft_arena_alloc(&d->arena, (size_t)(count + 1) * sizeof *residual), *own, likely;
    const double **points = ft_arena_alloc(&d->arena, (size_t)(count + 1) * sizeof *points);
    bool trusted;
    int some;
    if (belief == NULL || residual == NULL || points == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_gp_belief_of(d->options->teachers, d->trials, &d->axes, &d->arena, belief, &trusted));
    for (int i = 0; i < count; i++)
        points[i] = d->points + (size_t)c->from[i] * (size_t)d->axes.count;
    if (!trusted || !ft_gp_belief_regress(belief, points, c->y, count, residual)) return FT_OK;
    FT_TRY(find_scales(d, c, residual, count, &own, &likely, &some));
    if (!(likely - ft_gp_belief_cost(belief, some) > evidence)) return FT_OK;
    d->acquisition.belief = belief;
    *theta = own;
    memcpy(c->y, residual, (size_t)count * sizeof *residual);
    return FT_OK;
}

// What 1 of y is as a loss, among the better half, which is not bent; *zero: what y = 0 is, where that is known.
static double unit_of(const double *loss, const double *y, int count, double *zero) {
    int best = 0, other = -1;
    for (int i = 1; i < count; i++)
        if (loss[i] < loss[best]) best = i;
    for (int i = 0; i < count; i++) {
        int less = 0;
        for (int k = 0; k < count; k++)
            less += loss[k] < loss[i];
        if (2 * less < count && (other < 0 || loss[i] > loss[other])) other = i;
    }
    const double apart = y[other] - y[best], unit = other != best && apart > 0 ? loss[other] / apart - loss[best] / apart : 0;
    *zero = loss[best] - unit * y[best];
    return unit;
}

static ft_status learn_losses(drawing *d, choosing *c) {
    ft_gp_targets *t = &d->targets;
    ft_gp_acquisition *q = &d->acquisition;
    double *theta, evidence;
    int count = 0, some;
    for (int i = 0; i < t->count; i++)
        if (!isnan(t->loss[i])) c->from[count] = i, c->value[count++] = t->loss[i];
    if (count < 2) return FT_OK;
    FT_TRY(ft_gp_warp_losses(d->options->warp, c->value, count, &d->arena, c->y));
    d->unit = unit_of(c->value, c->y, count, &d->zero);
    FT_TRY(find_scales(d, c, c->y, count, &theta, &evidence, &some));
    // Every other trial, and not for ever: who is wrong in a way that ranks do not show costs half of few.
    const bool hears = d->options->teachers != NULL && d->number % 2 == 1 && count <= FT_TEACHERS_HEARD;
    if (hears) FT_TRY(hear_teachers(d, c, count, &theta, evidence));
    d->noise = exp(theta[1 + d->axes.count]);
    FT_TRY(learn(d, c, count, theta, &q->objective, true));
    // The best is what the model says of the best: noise may have made one trial look better than it is.
    q->best = INFINITY;
    for (int i = 0; i < t->count; i++) {
        double mean, variance;
        if (!t->keeps[i]) continue;
        ft_gp_believe(q, d->points + (size_t)i * (size_t)d->axes.count, &mean, &variance, NULL, NULL);
        q->best = fmin(q->best, mean);
    }
    q->improves = isfinite(q->best);
    return FT_OK;
}

static ft_status learn_limits(drawing *d, choosing *c) {
    ft_gp_targets *t = &d->targets;
    ft_gp_acquisition *q = &d->acquisition;
    q->limit = ft_arena_alloc(&d->arena, (size_t)(t->limits + 1) * sizeof *q->limit);
    if (q->limit == NULL) return FT_NO_MEMORY;
    for (int l = 0; l < t->limits; l++) {
        int count = 0, some;
        double *theta, mean, smallest = INFINITY, largest = -INFINITY;
        for (int i = 0; i < t->count; i++) {
            const double value = t->constraint[(size_t)l * (size_t)t->count + (size_t)i];
            if (isnan(value)) continue;
            c->from[count] = i;
            c->value[count++] = value;
            smallest = fmin(smallest, value);
            largest = fmax(largest, value);
        }
        if (count < 2 || smallest == largest || largest <= 0) continue; // nobody has broken it
        ft_gp_warp_limit(c->value, count, c->y, &mean);
        for (int i = 0; i < count; i++)
            c->y[i] -= mean, c->value[i] = fabs(c->value[i]); // near the limit it has to be known best
        FT_TRY(find_scales(d, c, c->y, count, &theta, NULL, &some));
        FT_TRY(learn(d, c, count, theta, &q->limit[q->limits], false));
        q->limit[q->limits++].offset = mean;
    }
    return FT_OK;
}

static ft_status learn_ends(drawing *d, choosing *c) {
    ft_gp_targets *t = &d->targets;
    sample fitted, all;
    if (t->bad == 0) return FT_OK;
    double *theta = ft_arena_alloc(&d->arena, (size_t)ft_gp_theta_size(d->axes.count) * sizeof *theta);
    if (theta == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->count; i++)
        c->from[i] = i;
    const double offset = log((t->losses + 1.0) / (t->bad + 1.0));
    int some = ft_gp_choose(NULL, t->count, d->options->fitted, c->scratch, c->mark, c->chosen);
    FT_TRY(take(d, c->from, NULL, t->good, c->chosen, some, 0, &fitted));
    FT_TRY(ft_gp_fit_classifier(&fitted.points, fitted.good, offset, &d->arena, theta));
    some = ft_gp_choose(NULL, t->count, d->options->modelled, c->scratch, c->mark, c->chosen);
    FT_TRY(take(d, c->from, NULL, t->good, c->chosen, some, 0, &all));
    FT_TRY(ft_gp_classifier_of(&all.points, all.good, offset, theta, &d->arena, &d->acquisition.odds));
    d->acquisition.doubts = true;
    // A failed trial tells little, and a small chance of a large gain always tempts: the more of the last ones failed,
    // the less.
    int failed = 0;
    for (int i = t->count - 1; i >= 0 && i >= t->count - RECENT; i--)
        failed += !t->good[i];
    d->acquisition.caution = 1 + failed * failed;
    return FT_OK;
}

static ft_status find_elite(drawing *d, choosing *c) {
    const size_t axes = (size_t)d->axes.count;
    int count = 0;
    for (int i = 0; i < d->targets.count; i++)
        if (d->targets.keeps[i]) c->scratch[count++] = (ft_gp_ranked){d->targets.loss[i], i};
    qsort(c->scratch, (size_t)count, sizeof *c->scratch, ft_gp_by_loss);
    d->elites = count < ELITES ? count : ELITES;
    d->elite = ft_arena_alloc(&d->arena, (ELITES * axes + 1) * sizeof *d->elite);
    if (d->elite == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < d->elites; i++)
        memcpy(d->elite + (size_t)i * axes, d->points + (size_t)c->scratch[i].at * axes, axes * sizeof *d->elite);
    return FT_OK;
}

ft_status ft_gp_prepare(ft_gp_drawing *d, int name, int distribution) {
    choosing c;
    FT_TRY(ft_gp_axes_of(d->trials, name, distribution, &d->arena, &d->axes));
    FT_TRY(ft_gp_targets_of(d->trials, &d->arena, &d->targets));
    const size_t axes = (size_t)d->axes.count;
    d->points = ft_arena_alloc(&d->arena, ((size_t)d->targets.count * axes + 1) * sizeof *d->points);
    d->acquisition.axes = d->axes.count;
    d->acquisition.scratch = ft_arena_alloc(&d->arena, (2 * axes + 1) * sizeof *d->acquisition.scratch);
    if (d->points == NULL || d->acquisition.scratch == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < d->targets.count; i++)
        ft_gp_point(&d->axes, &d->trials->trial[d->targets.number[i]], false, d->points + (size_t)i * axes);
    FT_TRY(choosing_room(d, &c));
    FT_TRY(learn_losses(d, &c));
    FT_TRY(learn_limits(d, &c));
    FT_TRY(learn_ends(d, &c));
    return find_elite(d, &c);
}

// ---- a draw ---------------------------------------------------------------------------------------------------------

ft_gp_climb ft_gp_climb_of(ft_gp_drawing *d, const ft_gp_branches *branches, const double *fixed, int64_t number) {
    return (ft_gp_climb){.trials = d->trials,
                         .axes = &d->axes,
                         .branches = branches,
                         .acquisition = &d->acquisition,
                         .fixed = fixed,
                         .elite = d->elite,
                         .elites = d->elites,
                         .seed = d->options->seed,
                         .number = number,
                         .candidates = d->options->candidates,
                         .starts = d->options->starts};
}

static ft_status climb(drawing *d, const ft_gp_branches *branches, double **point, int *branch) {
    const size_t axes = (size_t)d->axes.count + 1;
    double *fixed = ft_arena_alloc(&d->arena, 2 * axes * sizeof *fixed);
    if (fixed == NULL) return FT_NO_MEMORY;
    *point = fixed + axes;
    ft_gp_point(&d->axes, &d->trials->trial[d->number], false, fixed);
    const ft_gp_climb c = ft_gp_climb_of(d, branches, fixed, d->number);
    return ft_gp_climb_run(&c, &d->arena, *point, branch);
}

ft_status ft_gp_all_branches(ft_gp_drawing *d, ft_gp_branches *branches) {
    const ft_trials *trials = d->trials;
    double *loss = ft_arena_alloc(&d->arena, (size_t)(trials->count + 1) * sizeof *loss);
    if (loss == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < trials->count; i++)
        loss[i] = NAN;
    for (int i = 0; i < d->targets.count; i++)
        if (d->targets.keeps[i]) loss[d->targets.number[i]] = d->targets.loss[i];
    return ft_gp_branches_of(trials, &d->axes, loss, &d->arena, branches);
}

static ft_status draw_all(drawing *d, ft_trials *trials) {
    ft_gp_branches branches;
    double *point;
    int k;
    FT_TRY(ft_gp_all_branches(d, &branches));
    FT_TRY(climb(d, &branches, &point, &k));
    for (int a = 0; k >= 0 && a < d->axes.count; a++) {
        const ft_gp_branch *b = &branches.branch[k];
        const int name = d->axes.axis[a].name;
        if (!b->has[a] || ft_trial_find_param(&trials->trial[d->number], name) != NULL) continue;
        const double value = ft_gp_value(&d->axes, a, trials->distributions[b->distribution[a]], point[a]);
        FT_TRY(ft_trials_set_relative(trials, d->number, name, b->distribution[a], value));
    }
    return FT_OK;
}

ft_status ft_gp_draw(ft_trials *trials, const ft_gp_options *options, int64_t number) {
    drawing d = {.trials = trials, .options = options, .number = number};
    ft_status status = FT_OK;
    bool any = false;
    for (int64_t i = 0; i < trials->count && !any; i++)
        any = ft_trial_finished(trials->trial[i].state) && trials->trial[i].param_count > 0;
    if (!any) return FT_OK;
    status = ft_gp_prepare(&d, -1, -1);
    if (status == FT_OK && d.axes.count > 0) status = draw_all(&d, trials);
    ft_arena_free(&d.arena);
    return status;
}

static ft_status draw_one(drawing *d, int name, int distribution, double *value) {
    ft_gp_branches branches;
    double *point;
    int k;
    FT_TRY(ft_gp_branch_alone(d->trials, &d->axes, d->number, name, distribution, &d->arena, &branches));
    FT_TRY(climb(d, &branches, &point, &k));
    const int a = d->axes.of_name[name];
    if (k < 0)
        return ft_fail(FT_FAILED, d->trials->names.name[name], "no value goes with those that trial %lld has",
                       (long long)d->number);
    *value = ft_gp_value(&d->axes, a, d->trials->distributions[distribution], point[a]);
    return FT_OK;
}

ft_status ft_gp_draw_alone(ft_trials *trials, const ft_gp_options *options, int64_t number, int name, int distribution,
                           double *value) {
    drawing d = {.trials = trials, .options = options, .number = number};
    ft_status status = ft_gp_prepare(&d, name, distribution);
    if (status == FT_OK) status = draw_one(&d, name, distribution, value);
    ft_arena_free(&d.arena);
    return status;
}
