// importance.c - PED-ANOVA. For one parameter, put the trials that have it on a grid and estimate two densities: of all
// trials and of the best tenth. The further apart they are (Pearson divergence), the more the parameter mattered.
// Trials in which it had another distribution, or was absent, are groups of their own, weighted by how many of the best
// they hold.
#include "hpo/search/importance.h"

#include "hpo/search/history/normal.h"
#include "hpo/search/history/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 50 };

// ---- density on the grid --------------------------------------------------------------------------------------------

static int grid_size(const ft_distribution *d) {
    if (d->kind == FT_CATEGORICAL) return d->choice_count;
    double cells = GRID;
    if (d->kind == FT_INT && d->log)
        cells = ceil(log(d->high - d->low + 1) / log(2)) + 1;
    else if (d->step != 0)
        cells = nearbyint((d->high - d->low) / d->step) + 1;
    return cells < GRID ? (int)cells : GRID;
}

static int cell_of(const ft_distribution *d, int cells, double value) {
    if (d->kind == FT_CATEGORICAL) return ft_distribution_find_choice(d, &d->choices[(int)value]);
    double low = d->low, high = d->high;
    if (d->log) {
        low = log(low);
        high = log(high);
        value = log(value);
    }
    if (isinf(high - low)) { // the widest ranges: halves have the same cells
        low /= 2;
        high /= 2;
        value /= 2;
    }
    double cell = ceil((value - low) / ((high - low) / (cells - 1)) - 0.5);
    return !(cell >= 0) ? 0 : cell > cells - 1 ? cells - 1 : (int)cell;
}

// One width for all kernels, by Scott's rule over the counts; a cell must not be narrower than a kernel's middle 90%.
static double kernel_width(const int *count, int cells, int total) {
    double mean = 0, variance = 0;
    for (int i = 0; i < cells; i++)
        mean += (double)i * count[i];
    mean /= total;
    for (int i = 0; i < cells; i++)
        variance += (i - mean) * (i - mean) * count[i];
    double deviation = sqrt(variance / (total > 2 ? total - 1 : 1));
    // Quartiles over the occupied cells: where the running count reaches a quarter and exceeds three quarters.
    int first = -1, third = -1, last = 0, running = 0;
    for (int i = 0; i < cells; i++) {
        if (count[i] == 0) continue;
        running += count[i];
        last = i;
        if (first < 0 && running >= total / 4) first = i;
        if (third < 0 && running > (int64_t)total * 3 / 4) third = i;
    }
    if (third < 0) third = last;
    double spread = (third - first) / 1.34;
    double width = 1.059 * (spread < deviation ? spread : deviation) * pow(total, -0.2);
    return width > 0.5 / 1.64 ? width : 0.5 / 1.64;
}

// Adds to each cell what the kernel around `mu` puts there.
static void add_normal(double *density, int cells, double mu, double sigma, double weight) {
    double whole = ft_log_normal_mass((-0.5 - mu) / sigma, (cells - 0.5 - mu) / sigma);
    for (int x = 0; x < cells; x++)
        density[x] += weight * exp(ft_log_normal_mass((x - 0.5 - mu) / sigma, (x + 0.5 - mu) / sigma) - whole);
}

// The mixture of one kernel a occupied cell, weighted by its count, and a wide one of weight 1.
static void estimate(const ft_distribution *d, const int *count, int cells, int total, double *density) {
    double weight = 1.0 / (total + 1);
    for (int x = 0; x < cells; x++)
        density[x] = 0;
    if (d->kind == FT_CATEGORICAL) {
        int kernels = 1; // the prior
        for (int i = 0; i < cells; i++)
            kernels += count[i] > 0;
        double base = 1.0 / kernels, sum = base * cells + 1;
        for (int i = 0; i < cells; i++)
            for (int x = 0; count[i] > 0 && x < cells; x++)
                density[x] += weight * count[i] * (base + (x == i)) / sum;
        for (int x = 0; x < cells; x++)
            density[x] += weight / cells;
    } else {
        double sigma = kernel_width(count, cells, total);
        for (int i = 0; i < cells; i++)
            if (count[i] > 0) add_normal(density, cells, i, sigma, weight * count[i]);
        add_normal(density, cells, (cells - 1) / 2.0, cells, weight);
    }
    for (int x = 0; x < cells; x++)
        density[x] += 1e-12;
}

static double divergence(const double *top, const double *all, int cells) {
    double sum = 0;
    for (int x = 0; x < cells; x++) {
        double ratio = top[x] / all[x] - 1;
        sum += all[x] * ratio * ratio;
    }
    return sum;
}

// ---- groups ---------------------------------------------------------------------------------------------------------

// A trial that counts: COMPLETE, with finite values only.
typedef struct sample {
    const ft_trial *trial;
    bool top;
} sample;

// What the trials whose parameter `name` has distribution `id` add to its importance, before their share is taken into
// account.
static ft_status group_divergence(const ft_distribution *d, int id, int name, const sample *samples, int count,
                                  int group, int group_top, double *out) {
    int cells = grid_size(d);
    int *counts = ft_calloc(2 * (size_t)cells, sizeof *counts, "a grid");
    double *densities = counts != NULL ? ft_calloc(2 * (size_t)cells, sizeof *densities, "a grid") : NULL;
    if (densities == NULL) {
        free(counts);
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const ft_trial_param *param = ft_trial_find_param(samples[i].trial, name);
        if (param == NULL || param->distribution != id) continue;
        int cell = cell_of(d, cells, param->value);
        counts[cell]++;
        counts[cells + cell] += samples[i].top;
    }
    estimate(d, counts, cells, group, densities);
    estimate(d, counts + cells, cells, group_top, densities + cells);
    *out = divergence(densities + cells, densities, cells);
    free(counts);
    free(densities);
    return FT_OK;
}

static ft_status importance_of(const ft_trials *trials, int name, const sample *samples, int count, int top,
                               int *members, double *out) {
    *out = 0;
    int *members_top = members + trials->distribution_count;
    memset(members, 0, 2 * (size_t)trials->distribution_count * sizeof *members);
    for (int i = 0; i < count; i++) {
        const ft_trial_param *param = ft_trial_find_param(samples[i].trial, name);
        if (param == NULL) continue;
        members[param->distribution]++;
        members_top[param->distribution] += samples[i].top;
    }
    for (int id = 0; id < trials->distribution_count; id++) {
        const ft_distribution *d = trials->distributions[id];
        if (members[id] < 2 || members_top[id] == 0 || ft_distribution_single(d)) continue;
        double share_top = (double)members_top[id] / top, share = (double)members[id] / count, apart;
        FT_TRY(group_divergence(d, id, name, samples, count, members[id], members_top[id], &apart));
        *out += share_top * share_top / share * apart;
    }
    return FT_OK;
}

// ---- the best trials ------------------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Marks the best tenth, rounded up; by one objective also all that tie with its last.
static ft_status mark_top(const ft_trials *trials, int objective, sample *samples, int count, int *top) {
    const bool jointly = objective == FT_ALL_OBJECTIVES && trials->objectives > 1;
    const int tenth = (count + 9) / 10, objectives = jointly ? trials->objectives : 1, first = jointly || objective < 0 ? 0 : objective;
    double *losses = ft_calloc((size_t)count, (size_t)objectives * sizeof *losses, "objectives");
    bool *chosen = ft_calloc((size_t)count, sizeof *chosen, "objectives");
    ft_status status = losses == NULL || chosen == NULL ? FT_NO_MEMORY : FT_OK;
    for (int i = 0; status == FT_OK && i < count; i++)
        for (int o = 0; o < objectives; o++) {
            double value = samples[i].trial->values[first + o];
            losses[(size_t)i * (size_t)objectives + (size_t)o] = trials->maximize[first + o] ? -value : value;
        }
    if (status == FT_OK && jointly) {
        status = ft_pareto_best(losses, count, objectives, tenth, chosen);
    } else if (status == FT_OK) {
        qsort(losses, (size_t)count, sizeof *losses, ascending);
        for (int i = 0; i < count; i++) {
            double value = samples[i].trial->values[first];
            chosen[i] = (trials->maximize[first] ? -value : value) <= losses[tenth - 1];
        }
    }
    *top = 0;
    for (int i = 0; status == FT_OK && i < count; i++) {
        samples[i].top = chosen[i];
        *top += chosen[i];
    }
    free(losses);
    free(chosen);
    return status;
}

static bool is_finite(const ft_trial *trial, int objective) {
    for (int i = 0; i < trial->value_count; i++)
        if ((objective == FT_ALL_OBJECTIVES || objective == i) && !isfinite(trial->values[i])) return false;
    return true;
}

// Fills `samples`, and `importance` with 0 for the names that count and -1 for the others.
static int gather(const ft_trials *trials, int objective, sample *samples, double *importance) {
    int count = 0;
    for (int i = 0; i < trials->names.count; i++)
        importance[i] = -1;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (trial->state != FT_COMPLETE) continue;
        for (int p = 0; p < trial->param_count; p++)
            importance[trial->params[p].name] = 0;
        if (is_finite(trial, objective)) samples[count++] = (sample){trial, false};
    }
    return count;
}

ft_status ft_importance(const ft_trials *trials, int objective, double *importance) {
    sample *samples = ft_calloc((size_t)trials->count + 1, sizeof *samples, "trials");
    int *members = ft_calloc(2 * (size_t)trials->distribution_count + 1, sizeof *members, "distributions");
    ft_status status = samples == NULL || members == NULL ? FT_NO_MEMORY : FT_OK;
    int count = status == FT_OK ? gather(trials, objective, samples, importance) : 0, top = 0, names = 0;
    double sum = 0;
    if (count > 1) status = mark_top(trials, objective, samples, count, &top);
    for (int name = 0; status == FT_OK && name < trials->names.count; name++) {
        if (importance[name] < 0) continue;
        names++;
        if (top > 0) status = importance_of(trials, name, samples, count, top, members, &importance[name]);
        sum += importance[name];
    }
    for (int name = 0; status == FT_OK && name < trials->names.count; name++)
        if (importance[name] >= 0) importance[name] = sum > 0 ? importance[name] / sum : 1.0 / names;
    free(samples);
    free(members);
    return status;
}
