#include "hpo/search/gp/targets.h"

#include "hpo/search/history/normal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *sorted, int n) {
    if (n == 0) return NAN;
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return 0.5 * sorted[(n - 1) / 2] + 0.5 * sorted[n / 2]; // the sum of both may be too large
}

// ---- trials ---------------------------------------------------------------------------------------------------------

static const ft_trial_constraint *constraint_of(const ft_trial *trial, int name) {
    for (int i = 0; i < trial->constraint_count; i++)
        if (trial->constraints[i].name == name) return &trial->constraints[i];
    return NULL;
}

// What every completed trial tells is a quantity to be learned; what only some have, as an excess of memory, is a
// refusal.
static void find_limits(const ft_trials *trials, ft_gp_targets *t) {
    for (int name = 0; name < trials->constraint_names.count; name++) {
        bool all = true;
        int64_t complete = 0;
        for (int64_t i = 0; i < trials->count && all; i++) {
            if (trials->trial[i].state != FT_COMPLETE) continue;
            complete++;
            const ft_trial_constraint *c = constraint_of(&trials->trial[i], name);
            all = c != NULL && isfinite(c->value);
        }
        if (!all || complete == 0) continue;
        int at = t->limits++;
        for (; at > 0 && strcmp(trials->constraint_names.name[name], trials->constraint_names.name[t->limit[at - 1]]) < 0; at--)
            t->limit[at] = t->limit[at - 1];
        t->limit[at] = name;
    }
}

static double last_value(const ft_trial *trial) {
    if (trial->value_count > 0) return trial->values[0];
    return trial->report_count > 0 ? trial->reports[trial->report_count - 1].value : NAN;
}

static void take(const ft_trials *trials, const ft_trial *trial, ft_gp_targets *t, int room) {
    const int at = t->count++;
    double value = trial->state == FT_FAIL ? NAN : last_value(trial);
    if (trials->maximize[0]) value = -value;
    t->number[at] = trial->number;
    t->good[at] = isfinite(value);
    for (int k = 0; k < trial->constraint_count; k++) { // a limit that is not learned
        bool learned = false;
        for (int l = 0; l < t->limits; l++)
            learned = learned || t->limit[l] == trial->constraints[k].name;
        if (!learned && trial->constraints[k].value > 0) t->good[at] = false;
    }
    t->keeps[at] = t->good[at] && trial->state == FT_COMPLETE;
    for (int l = 0; l < t->limits; l++) {
        const ft_trial_constraint *c = constraint_of(trial, t->limit[l]);
        t->constraint[(size_t)l * (size_t)room + (size_t)at] = c != NULL && isfinite(c->value) ? c->value : NAN;
        if (c == NULL || c->value > 0) t->keeps[at] = false;
    }
    t->loss[at] = t->good[at] ? value : NAN;
    t->losses += t->good[at];
    t->bad += !t->good[at];
}

ft_status ft_gp_targets_of(const ft_trials *trials, ft_arena *arena, ft_gp_targets *t) {
    const size_t room = (size_t)trials->count + 1, names = (size_t)trials->constraint_names.count;
    *t = (ft_gp_targets){.number = ft_arena_alloc(arena, room * sizeof *t->number),
                         .loss = ft_arena_alloc(arena, 2 * room * sizeof *t->loss),
                         .good = ft_arena_alloc(arena, room * sizeof *t->good),
                         .keeps = ft_arena_alloc(arena, room * sizeof *t->keeps),
                         .constraint = ft_arena_alloc(arena, room * (names + 1) * sizeof *t->constraint),
                         .limit = ft_arena_alloc(arena, (names + 1) * sizeof *t->limit)};
    if (t->number == NULL || t->loss == NULL || t->good == NULL || t->keeps == NULL || t->constraint == NULL ||
        t->limit == NULL)
        return FT_NO_MEMORY;
    find_limits(trials, t);
    for (int64_t i = 0; i < trials->count; i++)
        if (ft_trial_finished(trials->trial[i].state)) take(trials, &trials->trial[i], t, (int)room);
    // constraint rows were as long as the study
    for (int l = 1; l < t->limits; l++)
        memmove(t->constraint + (size_t)l * (size_t)t->count, t->constraint + (size_t)l * room,
                (size_t)t->count * sizeof *t->constraint);
    double *sorted = t->loss + room;
    int complete = 0;
    for (int i = 0; i < t->count; i++)
        if (t->good[i] && trials->trial[t->number[i]].state == FT_COMPLETE) sorted[complete++] = t->loss[i];
    const double middle = median_of(sorted, complete);
    for (int i = 0; i < t->count; i++)
        if (trials->trial[t->number[i]].state == FT_PRUNED && t->loss[i] < middle) t->loss[i] = middle;
    return FT_OK;
}

// ---- scales ---------------------------------------------------------------------------------------------------------

static void standardise(double *y, int n) {
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++)
        mean += y[i];
    mean /= n;
    for (int i = 0; i < n; i++)
        square += (y[i] - mean) * (y[i] - mean);
    const double deviation = sqrt(square / n);
    for (int i = 0; i < n; i++)
        y[i] = deviation > 0 ? (y[i] - mean) / deviation : 0;
}

// Above the median: where a normal distribution with the better half's spread has the same rank.
static void by_rank(double *y, const double *sorted, int n, double median) {
    double square = 0;
    int better = 0;
    for (int i = 0; i < n; i++)
        if (y[i] <= median) square += (y[i] - median) * (y[i] - median), better++;
    const double spread = sqrt(square / better);
    if (!(spread > 0)) return;
    for (int i = 0; i < n; i++) {
        if (y[i] <= median) continue;
        int less = 0, equal = 0;
        for (int k = 0; k < n; k++)
            less += sorted[k] < y[i], equal += sorted[k] == y[i];
        y[i] = median + spread * ft_truncated_normal_quantile((less + 0.5 * equal) / n, -9, 9);
    }
}

// What losses are divided by so that squares neither overflow nor vanish: 1, or the largest of those that keep their distances, so that
// a penalty of 1e300 for a bad trial leaves the differences between the good ones.
static double scale_of(const double *sorted, int n, double median, bool by_rank) {
    const bool bends = by_rank && n > 0 && sorted[0] < median;
    double largest = 0;
    for (int i = 0; i < n; i++)
        if (!bends || sorted[i] <= median) largest = fmax(largest, fabs(sorted[i]));
    return largest > 0x1p500 || (largest < 0x1p-500 && largest > 0) ? largest : 1;
}

// Later trials are where it is good: of the first ones alone is known how far losses of the space go apart, and by their lower quartile
// that is no disaster's where most of them are. The better half of all stays as it is.
static void cut(double *y, const double *loss, double scale, int n, double best, double median) {
    enum { FIRST = 10, REACH = 3 };
    double first[FIRST];
    const int count = n < FIRST ? n : FIRST;
    for (int i = 0; i < count; i++)
        first[i] = loss[i] / scale;
    qsort(first, (size_t)count, sizeof *first, ascending);
    const double reach = count > 0 ? best + REACH * (first[count / 4] - best) : 0;
    const double most = reach < 0x1p500 ? fmax(reach, median) : median; // all of the first are disasters
    for (int i = 0; i < n && most > best; i++)
        if (y[i] > most) y[i] = most;
}

ft_status ft_gp_warp_losses(ft_gp_warp warp, const double *loss, int n, ft_arena *arena, double *y) {
    double *sorted = ft_arena_alloc(arena, (size_t)(n + 1) * sizeof *sorted);
    if (sorted == NULL) return FT_NO_MEMORY;
    memcpy(sorted, loss, (size_t)n * sizeof *sorted);
    double median = median_of(sorted, n);
    const double scale = scale_of(sorted, n, median, warp != FT_GP_PLAIN);
    for (int i = 0; i < n; i++)
        y[i] = loss[i] / scale, sorted[i] /= scale;
    median /= scale;
    const double best = n > 0 ? sorted[0] : 0, range = median - best;
    if (warp == FT_GP_CUT) cut(y, loss, scale, n, best, median);
    else if (warp != FT_GP_PLAIN) by_rank(y, sorted, n, median);
    if (warp == FT_GP_LOG && range > 0)
        for (int i = 0; i < n; i++)
            y[i] = log(y[i] - best + 0.1 * range);
    standardise(y, n);
    return FT_OK;
}

void ft_gp_warp_limit(const double *value, int n, double *y, double *mean) {
    double scale = 0, sum = 0, square = 0;
    for (int i = 0; i < n; i++)
        scale += fabs(value[i]) / n;
    for (int i = 0; i < n; i++) {
        y[i] = scale > 0 ? copysign(log1p(fabs(value[i]) / scale), value[i]) : 0;
        sum += y[i];
    }
    *mean = sum / n;
    for (int i = 0; i < n; i++)
        square += (y[i] - *mean) * (y[i] - *mean);
    const double deviation = square > 0 ? sqrt(square / n) : 1;
    for (int i = 0; i < n; i++)
        y[i] /= deviation;
    *mean /= deviation;
}
