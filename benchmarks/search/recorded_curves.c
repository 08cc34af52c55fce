#include "benchmarks/search/recorded_curves.h"

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

static ft_status gather(const ft_trials *study, recorded_curves *c) {
    static const char where[] = "the recorded study";
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

// Fills `residual`. Returns the mean square of all evaluations'.
static double leave_each_out(recorded_curves *c, double *values) {
    double sum = 0;
    for (int i = 0; i < c->count; i++) {
        double *residual = c->residual + i * c->points;
        for (int name = 0; name < c->study->names.count; name++)
            values[name] = ft_trial_find_param(c->trial[i], name)->value;
        mean_around(c, values, i, residual);
        for (int k = 0; k < c->points; k++) {
            residual[k] = c->value[i * c->points + k] - residual[k];
            sum += residual[k] * residual[k];
        }
    }
    return sum / (c->count * c->points);
}

// One parameter's width after the other, as long as that makes the error less.
static void choose_widths(recorded_curves *c, double *values) {
    static const double widths[] = {0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 1, 2, 100}; // the last: it does not matter
    const int names = c->study->names.count;
    for (int name = 0; name < names; name++)
        c->width[name] = 0.4;
    double least = leave_each_out(c, values), before = INFINITY;
    while (least < before) {
        before = least;
        for (int name = 0; name < names; name++) {
            double chosen = c->width[name];
            for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
                c->width[name] = widths[i];
                double error = leave_each_out(c, values);
                if (error < least) least = error, chosen = widths[i];
            }
            c->width[name] = chosen;
        }
    }
    leave_each_out(c, values);
    double last = 0, highest = c->value[c->points - 1], lowest = highest;
    for (int i = 0; i < c->count; i++) {
        double residual = c->residual[i * c->points + c->points - 1], value = c->value[i * c->points + c->points - 1];
        last += residual * residual;
        highest = fmax(highest, value);
        lowest = fmin(lowest, value);
    }
    printf("{\"curves\": %d, \"evaluations\": %d, \"parameters\": %d, \"lowest\": %g, \"highest\": %g, \"residual\": %.4g, "
           "\"kernel_widths\": {", c->count, c->points - 1, names, lowest, highest, sqrt(last / c->count));
    for (int name = 0; name < names; name++)
        printf("%s\"%s\": %g", name > 0 ? ", " : "", c->study->names.name[name], c->width[name]);
    printf("}}\n");
}

ft_status recorded_curves_of(const ft_trials *study, recorded_curves *c) {
    *c = (recorded_curves){.study = study};
    c->trial = ft_calloc((size_t)study->count + 1, sizeof *c->trial, "curves");
    if (c->trial == NULL) return FT_NO_MEMORY;
    FT_TRY(gather(study, c));
    c->value = ft_calloc((size_t)c->count * (size_t)c->points, sizeof *c->value, "curves");
    c->residual = ft_calloc((size_t)c->count * (size_t)c->points, sizeof *c->residual, "curves");
    c->width = ft_calloc((size_t)study->names.count + 1, sizeof *c->width, "curves");
    double *values = ft_calloc((size_t)study->names.count + 1, sizeof *values, "curves");
    if (c->value == NULL || c->residual == NULL || c->width == NULL || values == NULL) {
        free(values);
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->points; k++)
            c->value[i * c->points + k] = k < c->points - 1 ? c->trial[i]->reports[k].value : c->trial[i]->values[0];
    choose_widths(c, values);
    free(values);
    return FT_OK;
}

void recorded_curves_free(recorded_curves *c) {
    free(c->trial);
    free(c->value);
    free(c->residual);
    free(c->width);
}

// ---- a curve ------------------------------------------------------------------------------------------------------------

void recorded_curves_draw(const recorded_curves *c, int64_t seed, int64_t number, const double *values, double *curve) {
    ft_random_stream stream = ft_random_stream_of((uint64_t)seed, number, FT_DRAW_UNIFORM, "curve");
    double all = 0, upto = 0;
    for (int i = 0; i < c->count; i++)
        all += weight_of(c, i, values);
    const double drawn = ft_random_double(&stream) * all;
    int neighbour = 0;
    while (neighbour + 1 < c->count && (upto += weight_of(c, neighbour, values)) <= drawn)
        neighbour++;
    mean_around(c, values, -1, curve);
    for (int k = 0; k < c->points; k++)
        curve[k] += c->residual[neighbour * c->points + k];
}

void recorded_curves_mean(const recorded_curves *c, const double *values, double *curve) { mean_around(c, values, -1, curve); }
