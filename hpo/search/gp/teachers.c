#include "hpo/search/gp/teachers.h"

#include "hpo/search/gp/fit.h"
#include "hpo/search/gp/targets.h"

#include <math.h>

// ---- models ---------------------------------------------------------------------------------------------------------

static ft_status learn(ft_gp_teachers *t, ft_arena *scratch, int source) {
    const ft_lesson_source *s = &t->lessons->source[source];
    const size_t axes = (size_t)t->lessons->axes;
    ft_gp_points points;
    FT_TRY(ft_gp_points_init(&points, t->lessons->axes, t->choice, s->count, &t->arena));
    double *theta = ft_arena_alloc(scratch, (size_t)ft_gp_theta_size(t->lessons->axes) * sizeof *theta);
    double *y = ft_arena_alloc(scratch, (size_t)(s->count + 1) * sizeof *y);
    if (theta == NULL || y == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < s->count; i++) {
        for (size_t a = 0; a < axes; a++)
            t->point[a] = t->known[(size_t)source * axes + a]
                              ? ft_lessons_unit(&t->lessons->axis[a], s->value[(size_t)i * axes + a])
                              : NAN;
        ft_gp_points_add(&points, t->point);
    }
    FT_TRY(ft_gp_warp_losses(FT_GP_HALF, s->loss, s->count, scratch, y));
    FT_TRY(ft_gp_fit(&points, y, false, scratch, theta, NULL));
    return ft_gp_model_of(&points, y, theta, &t->arena, &t->model[source]);
}

static ft_status init(const ft_lessons *lessons, ft_gp_teachers *t) {
    const size_t axes = (size_t)lessons->axes + 1;
    t->model = ft_arena_alloc(&t->arena, (size_t)(lessons->sources + 1) * sizeof *t->model);
    t->choice = ft_arena_alloc(&t->arena, axes * sizeof *t->choice);
    t->known = ft_arena_alloc(&t->arena, (size_t)(lessons->sources + 1) * axes * sizeof *t->known);
    t->point = ft_arena_alloc(&t->arena, axes * sizeof *t->point);
    if (t->model == NULL || t->choice == NULL || t->known == NULL || t->point == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < lessons->axes; a++)
        t->choice[a] = lessons->axis[a].choice;
    for (int s = 0; s < lessons->sources; s++)
        for (int a = 0; a < lessons->axes; a++)
            t->known[s * lessons->axes + a] = ft_lessons_known(lessons, s, a);
    ft_status status = FT_OK;
    for (int s = 0; s < lessons->sources && status == FT_OK; s++) {
        ft_arena scratch = {0};
        status = learn(t, &scratch, s);
        ft_arena_free(&scratch);
    }
    return status;
}

ft_status ft_gp_teachers_init(const ft_lessons *lessons, ft_gp_teachers *t) {
    *t = (ft_gp_teachers){.lessons = lessons};
    ft_status status = init(lessons, t);
    if (status != FT_OK) ft_gp_teachers_free(t);
    return status;
}

void ft_gp_teachers_free(ft_gp_teachers *t) {
    ft_arena_free(&t->arena);
    *t = (ft_gp_teachers){0};
}

// ---- questions ------------------------------------------------------------------------------------------------------

void ft_gp_teachers_point(const ft_gp_teachers *t, const ft_trials *trials, const ft_trial *trial, bool announced,
                          double *point) {
    for (int a = 0; a < t->lessons->axes; a++) {
        const int name = ft_trials_find_name(trials, t->lessons->axis[a].name);
        const ft_trial_param *p = name >= 0 ? ft_trial_find_param(trial, name) : NULL;
        if (p == NULL && name >= 0 && announced) p = ft_trial_find_relative(trial, name);
        point[a] = p != NULL ? ft_lessons_unit(&t->lessons->axis[a], p->value) : NAN;
    }
}

double ft_gp_teachers_mean(ft_gp_teachers *t, int source, const double *point, double *gradient) {
    const bool *known = t->known + (size_t)source * (size_t)t->lessons->axes;
    double mean;
    for (int a = 0; a < t->lessons->axes; a++)
        t->point[a] = known[a] ? point[a] : NAN;
    ft_gp_ask(&t->model[source], t->point, &mean, NULL, gradient, NULL);
    return mean;
}

// ---- trust ----------------------------------------------------------------------------------------------------------

// Kendall's tau of two rankings: 1 alike, -1 reversed; ties count for neither.
static double concordance(const double *x, const double *y, int n) {
    double sum = 0;
    int pairs = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const double sign = (x[i] - x[k]) * (y[i] - y[k]);
            sum += (sign > 0) - (sign < 0);
            pairs += y[i] != y[k];
        }
    return pairs > 0 ? sum / pairs : 0;
}

// The standard deviation of tau between rankings that have nothing to do with each other.
static double by_chance(int n) { return sqrt(2.0 * (2 * n + 5) / (9.0 * n * (n - 1))); }

static ft_status weigh(ft_gp_teachers *t, const ft_trials *trials, ft_arena *arena, double *weight, int *judged) {
    const int sources = t->lessons->sources, most = FT_TEACHERS_JUDGED;
    ft_gp_targets targets;
    FT_TRY(ft_gp_targets_of(trials, arena, &targets));
    double *loss = ft_arena_alloc(arena, (size_t)most * sizeof *loss);
    double *expected = ft_arena_alloc(arena, (size_t)most * (size_t)(sources + 1) * sizeof *expected);
    double *point = ft_arena_alloc(arena, (size_t)(t->lessons->axes + 1) * sizeof *point);
    int n = 0;
    if (loss == NULL || expected == NULL || point == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < targets.count && n < most; i++) {
        if (isnan(targets.loss[i])) continue;
        ft_gp_teachers_point(t, trials, &trials->trial[targets.number[i]], false, point);
        for (int s = 0; s < sources; s++)
            expected[s * most + n] = ft_gp_teachers_mean(t, s, point, NULL);
        loss[n++] = targets.loss[i];
    }
    for (int s = 0; s < sources; s++)
        weight[s] = n < FT_TEACHERS_UNJUDGED ? 1 : fmax(0, concordance(expected + s * most, loss, n) - by_chance(n));
    *judged = n;
    return FT_OK;
}

ft_status ft_gp_teachers_weigh(ft_gp_teachers *t, const ft_trials *trials, double *weight, int *judged) {
    ft_arena arena = {0};
    ft_status status = weigh(t, trials, &arena, weight, judged);
    ft_arena_free(&arena);
    return status;
}
