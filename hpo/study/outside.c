// outside.c - ask and tell for other programs: each is one transaction with the look at what others have written.
#include "hpo/study/outside.h"

#include "base/log.h"
#include "hpo/pruner/internal.h"
#include "hpo/search/sampler.h"
#include "hpo/study/thaw.h"

#include <ctype.h>
#include <math.h>

ft_status ft_outside_open(ft_stored *study, const ft_config *config, const ft_space *space, ft_tuning *t) {
    *t = (ft_tuning){.config = config, .options = ft_study_options_of(config), .space = *space, .lock = -1, .storage = study->storage, .study = study};
    t->objectives.count = study->trials.objectives;
    t->objectives.list[0] = (ft_objective){.name = "its value", .reported = true};
    bool fresh = false;
    ft_status status = ft_tuning_load_resource(t);
    if (status == FT_OK) status = space->count > 0 ? ft_tuning_find_lessons(t, &fresh) : ft_tuning_load_lessons(t);
    if (status == FT_OK) status = ft_tuning_sampler(t, &study->trials, &t->sampler);
    if (status == FT_OK && t->objectives.count == 1) status = ft_tuning_pruner(t, study->name, &t->pruner);
    if (status == FT_OK && fresh) status = ft_tuning_store_lessons(t); // a sampler that cannot learn has been refused by now
    if (status != FT_OK) ft_outside_close(t);
    return status;
}

void ft_outside_close(ft_tuning *t) {
    ft_sampler_free(t->sampler);
    ft_pruner_free(t->pruner);
    ft_arena_free(&t->arena);
    *t = (ft_tuning){.lock = -1};
}

// Ends the group that began with the work.
static ft_status end_group(ft_tuning *t, ft_status status) {
    if (status == FT_OK) status = ft_storage_commit(t->storage);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    ft_error_restore(&error);
    return status;
}

// The oldest trial that waits, but for those that go on from a checkpoint, which only `ftengine tune` can. *number = -1: none.
static ft_status pop(ft_tuning *t, int64_t *number) {
    *number = -1;
    for (int64_t i = 0; i < t->study->trials.count && *number < 0; i++) {
        bool started = false;
        int64_t of;
        if (t->study->trials.trial[i].state != FT_WAITING) continue;
        FT_TRY(ft_thaw_of(t->study, i, &of));
        if (of < 0) FT_TRY(ft_stored_start(t->study, i, &started));
        if (started) *number = i;
    }
    return FT_OK;
}

static ft_status draw(ft_tuning *t, int64_t *number, ft_arena *arena, const char **values) {
    FT_TRY(ft_stored_refresh(t->study));
    FT_TRY(pop(t, number));
    const bool queued = *number >= 0;
    if (!queued) {
        int64_t left;
        FT_TRY(ft_sampler_left(t->sampler, &left));
        if (left == 0) return ft_fail(FT_FAILED, t->study->name, "every point of the grid was tried");
        FT_TRY(ft_stored_ask(t->study, FT_RUNNING, number));
    }
    return ft_tuning_draw(t, *number, queued, arena, values);
}

ft_status ft_outside_ask(ft_tuning *t, int64_t *number, ft_arena *arena, const char **values) {
    FT_TRY(ft_storage_begin(t->storage));
    return end_group(t, draw(t, number, arena, values));
}

// Another program's, and not at its end.
static ft_status check_trial(ft_tuning *t, int64_t number) {
    const char *name = t->study->name;
    const ft_trials *trials = &t->study->trials;
    FT_TRY(ft_stored_refresh(t->study));
    if (number < 0 || number >= trials->count) {
        ft_fail(FT_INVALID, name, "there is no trial %lld", (long long)number);
        if (trials->count > 0) ft_hint("its trials are 0 to %lld", (long long)(trials->count - 1));
        return FT_INVALID;
    }
    const ft_trial_state state = trials->trial[number].state;
    char word[16] = "";
    for (int i = 0; i < 15 && ft_trial_state_name(state)[i] != '\0'; i++) word[i] = (char)tolower(ft_trial_state_name(state)[i]);
    if (state != FT_RUNNING) return ft_fail(FT_INVALID, name, "trial %lld does not run: it is %s", (long long)number, word);
    if (ft_tuning_is_ours(t, number))
        return ft_fail(FT_INVALID, name, "trial %lld is one of `ftengine tune`, which tells how it ends", (long long)number);
    return FT_OK;
}

static ft_status weigh(ft_tuning *t, int64_t number, int64_t step, double value, bool *prune) {
    FT_TRY(check_trial(t, number));
    if (t->objectives.count != 1)
        return ft_fail(FT_INVALID, t->study->name, "a study of %d objectives takes no reports of steps", t->objectives.count);
    const ft_trial *trial = &t->study->trials.trial[number];
    for (int i = 0; i < trial->report_count; i++) // the first one stays, as in Optuna
        if (trial->reports[i].step == step && trial->reports[i].value != value)
            ft_warn("trial %lld: step %lld has the value %.17g already, which stays; %.17g is left aside", (long long)number, (long long)step,
                    trial->reports[i].value, value);
    return ft_tuning_weigh(t, number, step, value, prune);
}

ft_status ft_outside_report(ft_tuning *t, int64_t number, int64_t step, double value, bool *prune) {
    FT_TRY(ft_storage_begin(t->storage));
    return end_group(t, weigh(t, number, step, value, prune));
}

static ft_status end_trial(ft_tuning *t, int64_t number, ft_trial_state state, const double *values, int count, const double *limits,
                           int limit_count) {
    FT_TRY(check_trial(t, number));
    const ft_trial *trial = &t->study->trials.trial[number];
    const int wanted = state == FT_COMPLETE ? t->objectives.count : 0;
    double last;
    if (count != wanted && !(state == FT_PRUNED && count == 1 && t->objectives.count == 1)) {
        static const char *const words[] = {[FT_COMPLETE] = "completed", [FT_PRUNED] = "was pruned", [FT_FAIL] = "failed"};
        return ft_fail(FT_INVALID, t->study->name, "trial %lld %s with %d values, but %d %s it", (long long)number, words[state], count, wanted,
                       wanted == 1 ? "belongs to" : "belong to");
    }
    if (state == FT_PRUNED && count == 0 && trial->report_count > 0 && t->objectives.count == 1) {
        last = ft_last_report(trial)->value; // as Optuna has it
        if (!isnan(last)) values = &last, count = 1;
    }
    if (limit_count > 0) FT_TRY(ft_stored_constraints(t->study, number, NULL, limits, limit_count));
    return ft_stored_finish(t->study, number, state, values, count);
}

ft_status ft_outside_end(ft_tuning *t, int64_t number, ft_trial_state state, const double *values, int count, const double *limits,
                         int limit_count) {
    FT_TRY(ft_storage_begin(t->storage));
    return end_group(t, end_trial(t, number, state, values, count, limits, limit_count));
}
