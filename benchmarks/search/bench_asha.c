// bench_asha.c - how many steps of training a pruner saves: recorded curves, replayed under the real sampler and pruner.
//
//     bench_asha STUDY.db SEEDS TRIALS [section.key=value ...]
//
// STUDY.db is a study of one flat space whose trials were all trained to their ends, with a value at the same steps. A
// suggestion is answered by a curve that nobody recorded and that is like those: the mean of the recorded ones, weighted by
// a normal kernel over the distance of their parameters, and on it what one of these neighbours, drawn for this trial, is away
// from the mean of its own. (The nearest curve alone would answer all suggestions around it with the same luck.) Distances:
// parameters as parts of their ranges, of logarithms where they are so searched; another choice is as far away as the other end.
// The kernel has a width a parameter, those with which curves are best told from the others: with one for all, what the learning
// rate alone decides would count as luck, and the luckiest of many trials would be better than any training can be.
//
// For each seed a study of TRIALS trials without a pruner gives the value to reach and the steps that it took; then one with
// study.pruner of the settings (halving, when nothing is said) goes on until a trial is complete with that value, or until it
// has taken as many steps. One line of JSON a seed; `none_first_steps` is when the study without a pruner had its best, the
// stricter of the two yardsticks.
#include "hpo/pruner/pruner.h"
#include "hpo/search/history/random_stream.h"
#include "hpo/search/sampler.h"
#include "hpo/study/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the recorded trials ----------------------------------------------------------------------------------------------

typedef struct curves {
    const ft_trials *study;
    const ft_trial **trial;   // [count] that can be replayed
    int count, points;        // evaluations of each, and behind them the final value
    double *value, *residual; // [count][points]: as recorded; less the mean of the others around it
    double *width;            // [parameters] of the kernel
} curves;

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

static ft_status gather(const ft_trials *study, curves *c) {
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
static double apart(const curves *c, const ft_trial *recorded, const double *values) {
    double sum = 0;
    for (int name = 0; name < c->study->names.count; name++) {
        const ft_trial_param *p = ft_trial_find_param(recorded, name);
        const ft_distribution *d = c->study->distributions[p->distribution];
        double difference = d->kind == FT_CATEGORICAL ? p->value != values[name] : part(d, p->value) - part(d, values[name]);
        sum += difference * difference / (c->width[name] * c->width[name]);
    }
    return sum;
}

static double weight_of(const curves *c, int i, const double *values) {
    return exp(-0.5 * apart(c, c->trial[i], values)) + 1e-12; // the farthest place has some neighbour
}

// The mean of all curves but `without` (-1: of all) around `values`; mean [points].
static void mean_around(const curves *c, const double *values, int without, double *mean) {
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
static double leave_each_out(curves *c, double *values) {
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
static void choose_widths(curves *c, double *values) {
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

static ft_status make_curves(const ft_trials *study, curves *c) {
    *c = (curves){.study = study};
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

static void free_curves(curves *c) {
    free(c->trial);
    free(c->value);
    free(c->residual);
    free(c->width);
}

// ---- a study ----------------------------------------------------------------------------------------------------------

typedef struct replay {
    const curves *curves;
    ft_tuning *tuning; // its settings
    ft_trials trials;
    ft_sampler *sampler;
    ft_pruner *pruner; // NULL: none
    double best;       // of the complete trials; NaN: there is none
    int64_t steps, best_steps, pruned;
    double *values, *curve; // of the trial
} replay;

static ft_status suggest(replay *r, int64_t number, double *values) {
    const ft_trials *recorded = r->curves->study;
    for (int name = 0; name < recorded->names.count; name++) {
        const ft_distribution *d = recorded->distributions[ft_trial_find_param(r->curves->trial[0], name)->distribution];
        int id, distribution;
        FT_TRY(ft_sampler_suggest(r->sampler, number, recorded->names.name[name], d, &values[name]));
        FT_TRY(ft_trials_name(&r->trials, recorded->names.name[name], &id));
        FT_TRY(ft_trials_distribution(&r->trials, d, &distribution));
        FT_TRY(ft_trials_set_param(&r->trials, number, id, distribution, values[name]));
    }
    return FT_OK;
}

// Evaluation by evaluation, until the end or the pruner's verdict.
static ft_status train(replay *r, int64_t number, const double *curve, bool *pruned) {
    const int last = r->curves->points - 1;
    int64_t done = 0;
    for (int i = 0; i < last && !*pruned; i++) {
        int64_t step = r->curves->trial[0]->reports[i].step;
        ft_verdict verdict = {0};
        FT_TRY(ft_trials_report(&r->trials, number, step, curve[i]));
        r->steps += step - done;
        done = step;
        if (r->pruner == NULL) continue;
        FT_TRY(ft_pruner_decide(r->pruner, &r->trials, number, &verdict));
        for (int k = 0; k < verdict.rungs; k++)
            FT_TRY(ft_trials_add_rung(&r->trials, number, verdict.rung_value));
        *pruned = verdict.prune;
        if (*pruned) return ft_trials_finish(&r->trials, number, FT_PRUNED, &curve[i], 1);
    }
    return ft_trials_finish(&r->trials, number, FT_COMPLETE, &curve[last], 1);
}

// The trial's curve; of one seed and number the same with and without a pruner, as far as its parameters are.
static void make_curve(const replay *r, int64_t number, const double *values, double *curve) {
    const curves *c = r->curves;
    ft_random_stream stream = ft_random_stream_of((uint64_t)r->tuning->options->seed, number, FT_DRAW_UNIFORM, "curve");
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

static ft_status one_trial(replay *r) {
    int64_t number;
    bool pruned = false;
    FT_TRY(ft_trials_append(&r->trials, FT_RUNNING, &number));
    FT_TRY(suggest(r, number, r->values));
    make_curve(r, number, r->values, r->curve);
    FT_TRY(train(r, number, r->curve, &pruned));
    r->pruned += pruned;
    double sign = r->curves->study->maximize[0] ? 1 : -1, value = r->curve[r->curves->points - 1];
    if (pruned || sign * value <= sign * r->best) return FT_OK;
    r->best = value;
    r->best_steps = r->steps;
    return FT_OK;
}

static ft_status begin(replay *r, const curves *c, ft_tuning *tuning, bool prunes) {
    *r = (replay){.curves = c, .tuning = tuning, .best = NAN};
    r->values = ft_calloc((size_t)c->study->names.count + 1, sizeof *r->values, "a replay");
    r->curve = ft_calloc((size_t)c->points, sizeof *r->curve, "a replay");
    if (r->values == NULL || r->curve == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_trials_init(&r->trials, 1, c->study->maximize));
    FT_TRY(ft_tuning_sampler(tuning, &r->trials, &r->sampler));
    return prunes ? ft_tuning_pruner(tuning, "replay", &r->pruner) : FT_OK;
}

static void finish(replay *r) {
    ft_sampler_free(r->sampler);
    ft_pruner_free(r->pruner);
    ft_trials_free(&r->trials);
    free(r->values);
    free(r->curve);
}

// Until so many trials, or a value as good as `goal`, or more steps than `most`.
static ft_status run(replay *r, int64_t trials, double goal, int64_t most) {
    double sign = r->curves->study->maximize[0] ? 1 : -1;
    while (r->trials.count < trials && !(sign * r->best >= sign * goal) && r->steps < most)
        FT_TRY(one_trial(r));
    return FT_OK;
}

static ft_status compare(const curves *c, ft_tuning *tuning, int64_t trials) {
    replay none, pruned = {.best = NAN};
    ft_status status = begin(&none, c, tuning, false);
    if (status == FT_OK) status = run(&none, trials, NAN, INT64_MAX);
    if (status == FT_OK) status = begin(&pruned, c, tuning, true);
    if (status == FT_OK) status = run(&pruned, INT64_MAX, none.best, none.steps);
    if (status == FT_OK) {
        bool reached = c->study->maximize[0] ? pruned.best >= none.best : pruned.best <= none.best;
        printf("{\"seed\": %lld, \"best\": %.6g, \"none_steps\": %lld, \"none_first_steps\": %lld, \"reached\": %s, \"steps\": "
               "%lld, "
               "\"trials\": %lld, \"pruned\": %lld}\n",
               (long long)tuning->options->seed, none.best, (long long)none.steps, (long long)none.best_steps,
               reached ? "true" : "false", (long long)pruned.steps, (long long)pruned.trials.count, (long long)pruned.pruned);
    }
    finish(&none);
    finish(&pruned);
    return status;
}

// ---- all of it --------------------------------------------------------------------------------------------------------

static ft_status replay_seed(const curves *c, int64_t seed, int64_t trials, int count, char **settings) {
    const char *overrides[64] = {"study.pruner=halving"};
    char text[64];
    ft_config config;
    snprintf(text, sizeof text, "study.seed=%lld", (long long)seed);
    overrides[1] = text;
    for (int i = 0; i < count && i < 60; i++)
        overrides[2 + i] = settings[i];
    ft_status status = ft_study_config_load(&config, 0, NULL, 2 + count, overrides);
    if (status == FT_OK) {
        ft_tuning tuning = {.config = &config,
                            .options = ft_study_options_of(&config),
                            .objectives = {.count = 1, .list = {{.name = "value", .reported = true}}}};
        status = compare(c, &tuning, trials);
        ft_config_free(&config);
    }
    return status;
}

static ft_status replay_all(const char *path, int64_t seeds, int64_t trials, int count, char **settings) {
    ft_storage *storage;
    ft_stored *study;
    curves c;
    FT_TRY(ft_storage_open(path, FT_STORAGE_READ, &storage));
    FT_TRY(ft_stored_open(storage, NULL, &study));
    FT_TRY(make_curves(&study->trials, &c));
    for (int64_t seed = 0; seed < seeds; seed++)
        FT_TRY(replay_seed(&c, seed, trials, count, settings));
    free_curves(&c);
    ft_stored_close(study);
    return ft_storage_close(storage);
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 60) {
        fprintf(stderr, "bench_asha STUDY.db SEEDS TRIALS [section.key=value ...]\n");
        return 2;
    }
    ft_status status = replay_all(argv[1], strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10), argc - 4, argv + 4);
    if (status != FT_OK) {
        fprintf(stderr, "%s (%s)\n", ft_error_message(), ft_error_where());
        for (int i = 0; i < ft_error_hint_count(); i++)
            fprintf(stderr, "  hint: %s\n", ft_error_hint(i));
    }
    return (int)status;
}
