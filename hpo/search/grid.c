#include "hpo/search/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MOST_POINTS = 1e7;

void ft_grid_free(ft_grid *grid) {
    free(grid->size);
    free(grid->taken);
    *grid = (ft_grid){0};
}

ft_status ft_grid_init(ft_grid *grid, const ft_grid_axis *axes, int axis_count) {
    *grid = (ft_grid){.axes = axes, .axis_count = axis_count};
    if (axis_count < 1) return ft_fail(FT_INVALID, "study.sampler", "a grid needs at least one parameter");
    grid->size = ft_calloc((size_t)axis_count, sizeof *grid->size, "a grid");
    if (grid->size == NULL) return FT_NO_MEMORY;
    double points = 1;
    for (int i = 0; i < axis_count; i++) {
        double size = ft_distribution_size(axes[i].distribution);
        if (isinf(size)) size = axes[i].points;
        if (size < 1) {
            ft_status status =
                ft_fail(FT_INVALID, axes[i].name, "a grid needs a number of points for a float without step");
            ft_hint("give it a step, a list of choices, or a number of points");
            return status;
        }
        points *= size;
        if (points > MOST_POINTS)
            return ft_fail(FT_INVALID, axes[i].name, "the grid has more than %.0f points", MOST_POINTS);
        grid->size[i] = (int)size;
    }
    grid->points = (int64_t)points;
    grid->taken = ft_calloc((size_t)grid->points, sizeof *grid->taken, "a grid");
    return grid->taken == NULL ? FT_NO_MEMORY : FT_OK;
}

double ft_grid_value(const ft_grid_axis *axis, int size, int index) {
    const ft_distribution *d = axis->distribution;
    if (d->kind == FT_CATEGORICAL) return index;
    if (index == 0 && size > 1) return d->low; // exp(log(3e-6)) lies below 3e-6, outside of the range
    if (index == size - 1) return d->high; // exactly, and the only point of a grid of one
    if (d->step != 0) return d->low + index * d->step;
    double part = (double)index / (size - 1);
    return d->log ? exp(log(d->low) + part * (log(d->high) - log(d->low))) : d->low + part * (d->high - d->low);
}

// The point of the axis that a value is, -1 for none.
static int index_of(const ft_grid_axis *axis, int size, double value) {
    const ft_distribution *d = axis->distribution;
    double guess = value;
    if (d->kind != FT_CATEGORICAL && size > 1) {
        double part = d->log && d->step == 0 ? log(value / d->low) / log(d->high / d->low)
                                             : (value - d->low) / (d->high - d->low);
        guess = part * (size - 1);
    } else if (d->kind != FT_CATEGORICAL) {
        guess = 0;
    }
    if (!(guess > -0.5 && guess < size - 0.5)) return -1;
    int index = (int)nearbyint(guess);
    double exact = ft_grid_value(axis, size, index);
    return fabs(value - exact) <= 1e-9 * fmax(fabs(value), fabs(exact)) ? index : -1;
}

// Marks the points from `base` on that the indices leave open, axis by axis; -1 = any.
static void mark(ft_grid *grid, const int *index, int axis, int64_t base) {
    if (axis == grid->axis_count) {
        grid->taken[base] = true;
        return;
    }
    bool any = index[axis] < 0;
    for (int i = any ? 0 : index[axis]; i < (any ? grid->size[axis] : index[axis] + 1); i++)
        mark(grid, index, axis + 1, base * grid->size[axis] + i);
}

static ft_status find_taken(ft_grid *grid, ft_trials *trials, int64_t except) {
    memset(grid->taken, 0, (size_t)grid->points * sizeof *grid->taken);
    int *index = ft_calloc((size_t)grid->axis_count, 2 * sizeof *index, "a grid"), *name = index + grid->axis_count;
    if (index == NULL) return FT_NO_MEMORY;
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < grid->axis_count; i++)
        status = ft_trials_name(trials, grid->axes[i].name, &name[i]);
    for (int64_t t = 0; status == FT_OK && t < trials->count; t++) {
        const ft_trial *trial = &trials->trial[t];
        if (t == except || trial->state == FT_WAITING) continue;
        bool some = false, on_grid = true;
        for (int i = 0; i < grid->axis_count; i++) {
            const ft_trial_param *param = ft_trial_find_param(trial, name[i]);
            if (param == NULL && trial->state == FT_RUNNING) param = ft_trial_find_relative(trial, name[i]);
            index[i] = param == NULL ? -1 : index_of(&grid->axes[i], grid->size[i], param->value);
            some = some || param != NULL;
            on_grid = on_grid && (param == NULL || index[i] >= 0);
        }
        if (some && on_grid) mark(grid, index, 0, 0);
    }
    free(index);
    return status;
}

ft_status ft_grid_left(ft_grid *grid, ft_trials *trials, int64_t *left) {
    FT_TRY(find_taken(grid, trials, -1));
    *left = 0;
    for (int64_t i = 0; i < grid->points; i++)
        *left += !grid->taken[i];
    return FT_OK;
}

ft_status ft_grid_draw(ft_grid *grid, ft_trials *trials, int64_t number) {
    FT_TRY(find_taken(grid, trials, number));
    int64_t point = 0;
    while (point < grid->points && grid->taken[point])
        point++;
    if (point == grid->points)
        return ft_fail(FT_FAILED, "study.sampler", "all %lld points of the grid are taken", (long long)grid->points);
    for (int i = grid->axis_count - 1; i >= 0; i--) {
        const ft_grid_axis *axis = &grid->axes[i];
        int name, distribution;
        FT_TRY(ft_trials_name(trials, axis->name, &name));
        FT_TRY(ft_trials_distribution(trials, axis->distribution, &distribution));
        double value = ft_grid_value(axis, grid->size[i], (int)(point % grid->size[i]));
        FT_TRY(ft_trials_set_relative(trials, number, name, distribution, value));
        point /= grid->size[i];
    }
    return FT_OK;
}
