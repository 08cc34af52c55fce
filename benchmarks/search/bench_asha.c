// bench_asha.c - how many steps of training a pruner saves: recorded curves, replayed under the real sampler and pruner.
//
//     bench_asha STUDY.db AGAIN.db SEEDS TRIALS [freeze_thaw] [FROM] [section.key=value ...]
//
// STUDY.db is a study of one flat space whose trials were all trained to their ends, with a value at the same steps, AGAIN.db some of
// its settings, trained again with other seeds. A suggestion is answered as recorded_curves.h says.
//
// For each seed a study of TRIALS trials without a pruner gives the value to reach and the steps that it took; then one with
// study.pruner of the settings (halving, when nothing is said) goes on until a trial is complete with that value, or until it
// has taken as many steps. One line of JSON a seed; `none_first_steps` is when the study without a pruner had its best, the
// stricter of the two yardsticks. The best of many trials is also the luckiest: `place_steps` is when the best trial is at a place where
// trials are on average as good as where that one was, and stays so. With `freeze_thaw` no pruner decides, but hpo/search/curves, evaluation by evaluation, which
// trial goes on or begins (freeze_thaw_replay.h). Seeds count from FROM, 0.
#include "benchmarks/search/freeze_thaw_replay.h"
#include "benchmarks/search/recorded_curves.h"
#include "hpo/pruner/pruner.h"
#include "hpo/search/sampler.h"
#include "hpo/study/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a study ----------------------------------------------------------------------------------------------------------

typedef struct replay {
    const recorded_curves *curves;
    ft_tuning *tuning; // its settings
    ft_trials trials;
    ft_sampler *sampler;
    ft_pruner *pruner; // NULL: none
    recorded_race race;
    const recorded_race *goal; // NULL: none
    int64_t pruned;
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
        r->race.steps += step - done;
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

static ft_status one_trial(replay *r) {
    int64_t number;
    bool pruned = false;
    FT_TRY(ft_trials_append(&r->trials, FT_RUNNING, &number));
    FT_TRY(suggest(r, number, r->values));
    recorded_curves_draw(r->curves, r->tuning->options->seed, number, r->values, r->curve);
    FT_TRY(train(r, number, r->curve, &pruned));
    r->pruned += pruned;
    if (!pruned) recorded_race_add(&r->race, r->curves, r->values, r->curve[r->curves->points - 1], r->goal, r->curve);
    return FT_OK;
}

static ft_status begin(replay *r, const recorded_curves *c, ft_tuning *tuning, const recorded_race *goal, bool prunes) {
    *r = (replay){.curves = c, .tuning = tuning, .goal = goal, .race = {.best = NAN, .place = NAN}};
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

// Until so many trials, or both of the goal, or all its steps.
static ft_status run(replay *r, int64_t trials) {
    while (r->trials.count < trials && !recorded_race_over(&r->race, r->goal))
        FT_TRY(one_trial(r));
    return FT_OK;
}

static void tell(const replay *none, const recorded_race *race, int64_t trials, int64_t pruned, double seconds) {
    printf("{\"seed\": %lld, \"best\": %.6g, \"none_steps\": %lld, \"none_first_steps\": %lld, \"reached\": %s, \"steps\": %lld, "
           "\"place\": %.6g, \"place_reached\": %s, \"place_steps\": %lld, "
           "\"trials\": %lld, \"pruned\": %lld, \"found\": %.6g, \"luck\": %.4g, \"choice_seconds\": %.3g}\n",
           (long long)none->tuning->options->seed, none->race.best, (long long)none->race.steps, (long long)none->race.best_since,
           race->best_since > 0 ? "true" : "false", (long long)(race->best_since > 0 ? race->best_since : race->steps), none->race.place,
           race->place_since > 0 ? "true" : "false", (long long)(race->place_since > 0 ? race->place_since : race->steps), (long long)trials,
           (long long)pruned, race->best, none->race.best - none->race.place, seconds);
    fflush(stdout);
}

static ft_status with_pruner(const replay *none, const recorded_curves *c, ft_tuning *tuning) {
    replay pruned;
    ft_status status = begin(&pruned, c, tuning, &none->race, true);
    if (status == FT_OK) status = run(&pruned, INT64_MAX);
    if (status == FT_OK) tell(none, &pruned.race, pruned.trials.count, pruned.pruned, 0);
    finish(&pruned);
    return status;
}

static ft_status with_freeze_thaw(const replay *none, const recorded_curves *c, ft_tuning *tuning) {
    freeze_thaw_replay r;
    FT_TRY(freeze_thaw_replay_run(c, tuning, &none->race, &r));
    tell(none, &r.race, r.trials, r.paused, r.seconds);
    return FT_OK;
}

static ft_status compare(const recorded_curves *c, ft_tuning *tuning, int64_t trials, bool freezes) {
    replay none;
    ft_status status = begin(&none, c, tuning, NULL, false);
    if (status == FT_OK) status = run(&none, trials);
    if (status == FT_OK) status = freezes ? with_freeze_thaw(&none, c, tuning) : with_pruner(&none, c, tuning);
    finish(&none);
    return status;
}

// ---- all of it --------------------------------------------------------------------------------------------------------

static ft_status replay_seed(const recorded_curves *c, int64_t seed, int64_t trials, bool freezes, int count, char **settings) {
    const char *overrides[64] = {"study.pruner=halving", NULL, "study.sampler=tpe"}; // auto has a Gaussian process, whose 200 trials take longer
    char text[64];
    ft_config config;
    snprintf(text, sizeof text, "study.seed=%lld", (long long)seed);
    overrides[1] = text;
    for (int i = 0; i < count && i < 60; i++)
        overrides[3 + i] = settings[i];
    ft_status status = ft_study_config_load(&config, 0, NULL, 3 + count, overrides);
    if (status == FT_OK) {
        ft_tuning tuning = {.config = &config,
                            .options = ft_study_options_of(&config),
                            .objectives = {.count = 1, .list = {{.name = "value", .reported = true}}}};
        status = compare(c, &tuning, trials, freezes);
        ft_config_free(&config);
    }
    return status;
}

static ft_status replay_all(const char *path, const char *again_path, int64_t seeds, int64_t trials, int count, char **settings) {
    const bool freezes = count > 0 && strcmp(settings[0], "freeze_thaw") == 0;
    settings += freezes, count -= freezes;
    const bool says_from = count > 0 && strchr(settings[0], '=') == NULL;
    const int64_t from = says_from ? strtoll(settings[0], NULL, 10) : 0;
    settings += says_from, count -= says_from;
    ft_storage *storage, *again_storage;
    ft_stored *study, *again;
    recorded_curves c;
    FT_TRY(ft_storage_open(path, FT_STORAGE_READ, &storage));
    FT_TRY(ft_stored_open(storage, NULL, &study));
    FT_TRY(ft_storage_open(again_path, FT_STORAGE_READ, &again_storage));
    FT_TRY(ft_stored_open(again_storage, NULL, &again));
    FT_TRY(recorded_curves_of(&study->trials, &again->trials, &c));
    for (int64_t seed = from; seed < from + seeds; seed++)
        FT_TRY(replay_seed(&c, seed, trials, freezes, count, settings));
    recorded_curves_free(&c);
    ft_stored_close(again);
    ft_stored_close(study);
    FT_TRY(ft_storage_close(again_storage));
    return ft_storage_close(storage);
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 60) {
        fprintf(stderr, "bench_asha STUDY.db AGAIN.db SEEDS TRIALS [freeze_thaw] [FROM] [section.key=value ...]\n");
        return 2;
    }
    ft_status status = replay_all(argv[1], argv[2], strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10), argc - 5, argv + 5);
    if (status != FT_OK) {
        fprintf(stderr, "%s (%s)\n", ft_error_message(), ft_error_where());
        for (int i = 0; i < ft_error_hint_count(); i++)
            fprintf(stderr, "  hint: %s\n", ft_error_hint(i));
    }
    return (int)status;
}
