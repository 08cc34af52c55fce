#include "hpo/search/gp/axes.h"

#include <math.h>
#include <string.h>

static void widen(ft_gp_axis *axis, bool *choice, const ft_distribution *d) {
    *choice = d->kind == FT_CATEGORICAL;
    axis->log = d->log;
    double low = d->low - d->step / 2, high = d->high + d->step / 2;
    if (d->log) low = log(low), high = log(high);
    if (low < axis->low) axis->low = low;
    if (high > axis->high) axis->high = high;
}

// seen [names] = 1 + a distribution of each name that has more than one value.
static void look(const ft_trials *trials, const ft_trial_param *params, int count, int *seen) {
    for (int i = 0; i < count; i++)
        if (!ft_distribution_single(trials->distributions[params[i].distribution]))
            seen[params[i].name] = 1 + params[i].distribution;
}

static void add(ft_gp_axes *axes, const ft_trials *trials, int name) {
    int at = axes->count++;
    for (; at > 0 && strcmp(trials->names.name[name], trials->names.name[axes->axis[at - 1].name]) < 0; at--)
        axes->axis[at] = axes->axis[at - 1];
    axes->axis[at] = (ft_gp_axis){.name = name, .low = INFINITY, .high = -INFINITY};
}

static void widen_all(ft_gp_axes *axes, const ft_trials *trials, const ft_trial_param *params, int count) {
    for (int i = 0; i < count; i++) {
        const int a = axes->of_name[params[i].name];
        if (a >= 0) widen(&axes->axis[a], &axes->choice[a], trials->distributions[params[i].distribution]);
    }
}

ft_status ft_gp_axes_of(const ft_trials *trials, int name, int distribution, ft_arena *arena, ft_gp_axes *out) {
    const size_t names = (size_t)trials->names.count + 1;
    const ft_trial_param asked = {.name = name, .distribution = distribution};
    int *seen = ft_arena_alloc(arena, names * sizeof *seen);
    *out = (ft_gp_axes){.axis = ft_arena_alloc(arena, names * sizeof *out->axis),
                        .choice = ft_arena_alloc(arena, names * sizeof *out->choice),
                        .of_name = ft_arena_alloc(arena, names * sizeof *out->of_name)};
    if (seen == NULL || out->axis == NULL || out->choice == NULL || out->of_name == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < trials->count; i++)
        if (trials->trial[i].state != FT_WAITING)
            look(trials, trials->trial[i].params, trials->trial[i].param_count, seen);
    if (name >= 0) look(trials, &asked, 1, seen);
    for (int n = 0; n < trials->names.count; n++) {
        out->of_name[n] = -1;
        if (seen[n] > 0) add(out, trials, n);
    }
    for (int a = 0; a < out->count; a++)
        out->of_name[out->axis[a].name] = a;
    for (int64_t i = 0; i < trials->count; i++)
        if (trials->trial[i].state != FT_WAITING)
            widen_all(out, trials, trials->trial[i].params, trials->trial[i].param_count);
    if (name >= 0) widen_all(out, trials, &asked, 1);
    return FT_OK;
}

// Halves all along: of the widest ranges the width is no double, and of others the bits are the same.
double ft_gp_unit(const ft_gp_axes *axes, int a, double value) {
    const ft_gp_axis *axis = &axes->axis[a];
    if (axes->choice[a]) return floor(value);
    return ((axis->log ? log(value) : value) / 2 - axis->low / 2) / (axis->high / 2 - axis->low / 2);
}

double ft_gp_axis_value(const ft_gp_axis *axis, double unit) {
    const double half = axis->low / 2 + unit * (axis->high / 2 - axis->low / 2);
    return axis->log ? exp(2 * half) : 2 * half;
}

double ft_gp_value(const ft_gp_axes *axes, int a, const ft_distribution *d, double unit) {
    if (d->kind == FT_CATEGORICAL) return fmin(fmax(floor(unit), 0), d->choice_count - 1);
    double x = ft_gp_axis_value(&axes->axis[a], unit);
    if (d->step != 0) {
        const double last = nearbyint((d->high - d->low) / d->step), k = nearbyint((x - d->low) / d->step);
        x = d->low + fmin(fmax(k, 0), last) * d->step;
    }
    return x > d->low ? x < d->high ? x : d->high : d->low;
}

void ft_gp_point(const ft_gp_axes *axes, const ft_trial *trial, bool announced, double *point) {
    for (int a = 0; a < axes->count; a++) {
        const ft_trial_param *param = ft_trial_find_param(trial, axes->axis[a].name);
        if (param == NULL && announced) param = ft_trial_find_relative(trial, axes->axis[a].name);
        point[a] = param != NULL ? ft_gp_unit(axes, a, param->value) : NAN;
    }
}
