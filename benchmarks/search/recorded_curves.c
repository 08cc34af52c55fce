#include "benchmarks/search/recorded_curves.h"

#include "hpo/search/history/normal.h"
#include "hpo/search/history/random_stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the recorded trials ----------------------------------------------------------------------------------------------


static bool same_steps(const ft_trial *a, const ft_trial *b) {
    bool same = a->report_count == b->report_count;
    for (int i = 0; i < a->report_count && same; i++)
        same = a->reports[i].step == b->reports[i].step;
    return same;
}

static bool all_finite(const ft_trial *t) {
    bool all = isfinite(t->values[0]);
    for (int i = 0; i < t->report_count; i++)
        all = all && isfinite(t->reports[i].value);
    return all;
}

static ft_status gather(const ft_trials *study, const char *where, recorded_curves *c) {
    if (study->objectives != 1) return ft_fail(FT_INVALID, where, "it has %d objectives", study->objectives);
    for (int64_t i = 0; i < study->count; i++) {
        const ft_trial *t = &study->trial[i];
        if (t->state != FT_COMPLETE || t->report_count == 0 || !all_finite(t)) continue;
        if (t->param_count != study->names.count || (c->count > 0 && !same_steps(t, c->trial[0])))
            return ft_fail(FT_INVALID, where, "trial %lld has other parameters or steps than the first", (long long)i);
        c->trial[c->count++] = t;
    }
    if (c->count < 10) return ft_fail(FT_INVALID, where, "%d complete trials with evaluations; at least 10 are needed", c->count);
    c->points = c->trial[0]->report_count + 1;
    return FT_OK;
}

// 0 to 1 over the range.
static double part(const ft_distribution *d, double value) {
    if (d->high <= d->low) return 0;
    return d->log ? log(value / d->low) / log(d->high / d->low) : (value - d->low) / (d->high - d->low);
}

// In widths, squared.
static double apart(const recorded_curves *c, const ft_trial *recorded, const double *values) {
    double sum = 0;
    for (int name = 0; name < c->study->names.count; name++) {
        const ft_trial_param *p = ft_trial_find_param(recorded, name);
        const ft_distribution *d = c->study->distributions[p->distribution];
        double difference = d->kind == FT_CATEGORICAL ? p->value != values[name] : part(d, p->value) - part(d, values[name]);
        sum += difference * difference / (c->width[name] * c->width[name]);
    }
    return sum;
}

static double weight_of(const recorded_curves *c, int i, const double *values) {
    return exp(-0.5 * apart(c, c->trial[i], values)) + 1e-12; // the farthest place has some neighbour
}

// The mean of all curves but `without` (-1: of all) around `values`; mean [points].
static void mean_around(const recorded_curves *c, const double *values, int without, double *mean) {
    double weights = 0;
    memset(mean, 0, (size_t)c->points * sizeof *mean);
    for (int i = 0; i < c->count; i++) {
        double weight = i == without ? 0 : weight_of(c, i, values);
        weights += weight;
        for (int k = 0; k < c->points; k++)
            mean[k] += weight * c->value[i * c->points + k];
    }
    for (int k = 0; k < c->points; k++)
        mean[k] /= weights;
}

// Of what each trial is away from the mean of the others around it, the mean square of all evaluations; *last: of final values alone.
// values [parameters] and mean [points] are scratch.
static double leave_each_out(const recorded_curves *c, double *values, double *mean, double *last) {
    double sum = 0;
    *last = 0;
    for (int i = 0; i < c->count; i++) {
        for (int name = 0; name < c->study->names.count; name++)
            values[name] = ft_trial_find_param(c->trial[i], name)->value;
        mean_around(c, values, i, mean);
        for (int k = 0; k < c->points; k++) {
            const double residual = c->value[i * c->points + k] - mean[k];
            sum += residual * residual;
            if (k == c->points - 1) *last += residual * residual / c->count;
        }
    }
    return sum / (c->count * c->points);
}

// One parameter's width after the other, as long as that makes the error less.
static void choose_widths(recorded_curves *c, double *values, double *mean) {
    static const double widths[] = {0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 1, 2, 100}; // the last: it does not matter
    const int names = c->study->names.count;
    for (int name = 0; name < names; name++)
        c->width[name] = 0.4;
    double last, least = leave_each_out(c, values, mean, &last), before = INFINITY;
    while (least < before) {
        before = least;
        for (int name = 0; name < names; name++) {
            double chosen = c->width[name];
            for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
                c->width[name] = widths[i];
                double error = leave_each_out(c, values, mean, &last);
                if (error < least) least = error, chosen = widths[i];
            }
            c->width[name] = chosen;
        }
    }
    leave_each_out(c, values, mean, &last);
    double highest = c->value[c->points - 1], lowest = highest;
    for (int i = 0; i < c->count; i++) {
        double value = c->value[i * c->points + c->points - 1];
        highest = fmax(highest, value);
        lowest = fmin(lowest, value);
    }
    printf("{\"curves\": %d, \"evaluations\": %d, \"parameters\": %d, \"lowest\": %g, \"highest\": %g, \"residual\": %.4g, "
           "\"kernel_widths\": {", c->count, c->points - 1, names, lowest, highest, sqrt(last));
    for (int name = 0; name < names; name++)
        printf("%s\"%s\": %g", name > 0 ? ", " : "", c->study->names.name[name], c->width[name]);
    printf("}}\n");
}

// ---- luck --------------------------------------------------------------------------------------------------------------

static bool same_setting(const ft_trials *study, const ft_trial *a, const ft_trial *b) {
    bool same = true;
    for (int name = 0; name < study->names.count && same; name++)
        same = ft_trial_find_param(a, name)->value == ft_trial_find_param(b, name)->value;
    return same;
}

static double point_of(const recorded_curves *c, const ft_trial *t, int k) { return k < c->points - 1 ? t->reports[k].value : t->values[0]; }

// Fills `level` and `luck` of the next setting from its runs.
static void add_setting(recorded_curves *c, const ft_trial *const *run) {
    double *luck = c->luck + (int64_t)c->settings * c->runs * c->points;
    for (int k = 0; k < c->points; k++) {
        double mean = 0;
        for (int i = 0; i < c->runs; i++)
            mean += point_of(c, run[i], k) / c->runs;
        for (int i = 0; i < c->runs; i++)
            luck[i * c->points + k] = point_of(c, run[i], k) - mean;
        if (k == c->points - 1) c->level[c->settings] = mean;
    }
    c->settings++;
}

// Trials of one setting stand side by side.
static ft_status learn_luck(const ft_trials *again, recorded_curves *c) {
    static const char where[] = "the settings trained again";
    recorded_curves runs = {.study = again};
    runs.trial = ft_calloc((size_t)again->count + 1, sizeof *runs.trial, "curves");
    ft_status status = runs.trial != NULL ? gather(again, where, &runs) : FT_NO_MEMORY;
    if (status == FT_OK && runs.points != c->points)
        status = ft_fail(FT_INVALID, where, "%d evaluations, and the recorded study has %d", runs.points - 1, c->points - 1);
    for (c->runs = 1; status == FT_OK && c->runs < runs.count && same_setting(again, runs.trial[0], runs.trial[c->runs]); c->runs++) continue;
    if (status == FT_OK && (c->runs < 2 || runs.count < 3 * c->runs || runs.count % c->runs != 0))
        status = ft_fail(FT_INVALID, where, "at least three are needed, each of them as often as the first, twice or more");
    if (status == FT_OK) c->level = ft_calloc((size_t)runs.count, sizeof *c->level, "curves");
    if (status == FT_OK) c->luck = ft_calloc((size_t)runs.count * (size_t)c->points, sizeof *c->luck, "curves");
    if (status == FT_OK && (c->level == NULL || c->luck == NULL)) status = FT_NO_MEMORY;
    for (int i = 0; status == FT_OK && i < runs.count; i += c->runs) {
        for (int k = 1; k < c->runs; k++)
            if (!same_setting(again, runs.trial[i], runs.trial[i + k]))
                status = ft_fail(FT_INVALID, where, "complete trial %d is of another setting than the one before", i + k);
        if (status == FT_OK) add_setting(c, runs.trial + i);
    }
    free(runs.trial);
    return status;
}

ft_status recorded_curves_of(const ft_trials *study, const ft_trials *again, recorded_curves *c) {
    *c = (recorded_curves){.study = study};
    c->trial = ft_calloc((size_t)study->count + 1, sizeof *c->trial, "curves");
    if (c->trial == NULL) return FT_NO_MEMORY;
    FT_TRY(gather(study, "the recorded study", c));
    c->value = ft_calloc((size_t)c->count * (size_t)c->points, sizeof *c->value, "curves");
    c->width = ft_calloc((size_t)study->names.count + 1, sizeof *c->width, "curves");
    double *values = ft_calloc((size_t)study->names.count + (size_t)c->points, sizeof *values, "curves"); // and a mean
    if (c->value == NULL || c->width == NULL || values == NULL) {
        free(values);
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->points; k++)
            c->value[i * c->points + k] = k < c->points - 1 ? c->trial[i]->reports[k].value : c->trial[i]->values[0];
    const ft_status status = learn_luck(again, c);
    if (status == FT_OK) choose_widths(c, values, values + study->names.count);
    free(values);
    return status;
}

void recorded_curves_free(recorded_curves *c) {
    free(c->trial);
    free(c->value);
    free(c->width);
    free(c->level);
    free(c->luck);
}

// ---- a curve ------------------------------------------------------------------------------------------------------------

enum { NEAR = 3 };

// The settings trained again whose levels are nearest.
static void settings_near(const recorded_curves *c, double level, int *nearest) {
    for (int n = 0; n < NEAR; n++) {
        nearest[n] = -1;
        for (int i = 0; i < c->settings; i++) {
            bool taken = false;
            for (int k = 0; k < n; k++)
                taken = taken || nearest[k] == i;
            if (!taken && (nearest[n] < 0 || fabs(c->level[i] - level) < fabs(c->level[nearest[n]] - level))) nearest[n] = i;
        }
    }
}

void recorded_curves_draw(const recorded_curves *c, int64_t seed, int64_t number, const double *values, double *curve) {
    ft_random_stream stream = ft_random_stream_of((uint64_t)seed, number, FT_DRAW_UNIFORM, "curve");
    int nearest[NEAR];
    mean_around(c, values, -1, curve);
    settings_near(c, curve[c->points - 1], nearest);
    for (int n = 0; n < NEAR * c->runs; n++) { // a sum of normal parts of them has their mean covariance
        const double part = ft_truncated_normal_quantile(ft_random_double(&stream), -9, 9) / sqrt(NEAR * (c->runs - 1.0));
        const double *luck = c->luck + ((int64_t)nearest[n / c->runs] * c->runs + n % c->runs) * c->points;
        for (int k = 0; k < c->points; k++)
            curve[k] += part * luck[k];
    }
}

void recorded_curves_mean(const recorded_curves *c, const double *values, double *curve) { mean_around(c, values, -1, curve); }

// ---- how far a study has come -----------------------------------------------------------------------------------------

void recorded_race_add(recorded_race *race, const recorded_curves *c, const double *values, double value, const recorded_race *goal,
                       double *curve) {
    const double sign = c->study->maximize[0] ? 1 : -1;
    if (sign * value <= sign * race->best) return;
    mean_around(c, values, -1, curve);
    race->best = value;
    race->place = curve[c->points - 1];
    if (goal == NULL) {
        race->best_since = race->place_since = race->steps;
        return;
    }
    if (race->best_since == 0 && sign * race->best >= sign * goal->best) race->best_since = race->steps;
    if (sign * race->place < sign * goal->place)
        race->place_since = 0;
    else if (race->place_since == 0)
        race->place_since = race->steps;
}

bool recorded_race_over(const recorded_race *race, const recorded_race *goal) {
    return goal != NULL && ((race->best_since > 0 && race->place_since > 0) || race->steps >= goal->steps);
}
