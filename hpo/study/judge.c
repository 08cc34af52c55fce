// judge.c - what a trial reports and how it ends: each becomes one transaction.
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "hpo/pruner/internal.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/disk.h"
#include "hpo/study/pausing.h"
#include "hpo/study/slots.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_status take_back(ft_tuning *t, ft_status status) {
    ft_error error;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    ft_error_restore(&error);
    return status;
}

// Ends a group of changes.
static ft_status end_group(ft_tuning *t, ft_status status) {
    if (status == FT_OK) status = ft_storage_commit(t->storage);
    return status == FT_OK ? FT_OK : take_back(t, status);
}

// One of a trial that nobody here trains any more.
static ft_status end_released(ft_tuning *t, int64_t number, ft_status status) {
    if (status == FT_OK) status = ft_tuning_commit_released(t, number);
    return status == FT_OK ? FT_OK : take_back(t, status);
}

// The study's own figures, under the names that people's scripts give them, with whatever ends a trial.
static ft_status store_counts(ft_tuning *t) {
    int64_t count[5] = {0};
    FT_TRY(ft_tuning_count_ooms(t)); // the one that has just ended
    for (int64_t i = 0; i < t->study->trials.count; i++)
        count[t->study->trials.trial[i].state]++;
    const struct {
        const char *key;
        int64_t value;
    } figures[] = {{"completed_trials", count[FT_COMPLETE]},
                   {"pruned_trials", count[FT_PRUNED]},
                   {"failed_trials", count[FT_FAIL]},
                   {"oom_trials", t->ooms}};
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < sizeof figures / sizeof figures[0]; i++)
        status = ft_stored_set_scalar(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, figures[i].key,
                                      &(ft_choice){.kind = FT_CHOICE_INT, .integer = figures[i].value});
    return status;
}

// ---- pruning --------------------------------------------------------------------------------------------------------

static void resource_key(const ft_tuning *t, char out[64]) {
    snprintf(out, 64, "ftengine:resource:%s", t->options->pruner);
}

ft_status ft_tuning_load_resource(ft_tuning *t) {
    char key[64];
    const char *text;
    resource_key(t, key);
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, key, &t->arena, &text));
    if (text != NULL) t->resource = strtoll(text, NULL, 10);
    if (t->resource >= 0) return FT_OK;
    return ft_fail(FT_INVALID, key, "a study's attribute is no number of steps: %.40s", text);
}

// An automatic resource is found once, from the trials that are complete then. It is stored, for a later process would
// find another one.
static ft_status find_resource(ft_tuning *t) {
    char key[64];
    int64_t longest = ft_longest_complete(&t->study->trials);
    if (longest < 0) return FT_OK;
    FT_TRY(ft_tuning_load_resource(t)); // another coordinator may have been first
    if (t->resource == 0) {
        resource_key(t, key);
        bool hyperband = strcmp(t->options->pruner, "hyperband") == 0;
        int64_t share = longest / 100;
        t->resource = hyperband ? longest + 1 : share > 1 ? share : 1;
        FT_TRY(ft_stored_set_scalar(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, key,
                                    &(ft_choice){.kind = FT_CHOICE_INT, .integer = t->resource}));
    }
    ft_pruner_free(t->pruner);
    t->pruner = NULL;
    return ft_tuning_pruner(t, t->study->name, &t->pruner);
}

ft_status ft_tuning_weigh(ft_tuning *t, int64_t number, int64_t step, double value, bool *prune) {
    ft_verdict verdict = {0};
    *prune = false;
    FT_TRY(ft_stored_report(t->study, number, step, value));
    if (t->pruner == NULL) return FT_OK;
    if (ft_tuning_pruner_waits(t)) FT_TRY(find_resource(t));
    FT_TRY(ft_pruner_decide(t->pruner, &t->study->trials, number, &verdict));
    if (verdict.rungs > 0) FT_TRY(ft_stored_rungs(t->study, number, verdict.rungs, verdict.rung_value));
    *prune = verdict.prune;
    return FT_OK;
}

static ft_status end_pruned(ft_tuning *t, int64_t number, double value) {
    FT_TRY(ft_tuning_count_ooms(t)); // while the look still tells of the others' trials
    FT_TRY(ft_tuning_set_end(t, number, "pruned", ""));
    FT_TRY(ft_stored_finish(t->study, number, FT_PRUNED, &value, isnan(value) ? 0 : 1));
    return store_counts(t);
}

ft_status ft_tuning_give_up(ft_tuning *t, int64_t number) {
    const ft_trial *trial = &t->study->trials.trial[number];
    return end_pruned(t, number, trial->report_count > 0 ? ft_last_report(trial)->value : NAN);
}

// The verdict knows all that was reported before, to whomever.
static ft_status report(ft_tuning *t, ft_slot *slot, int64_t step, double value, bool *pruned) {
    bool prune;
    const int64_t number = slot->number;
    FT_TRY(ft_stored_refresh(t->study));
    *pruned = ft_trial_finished(t->study->trials.trial[number].state); // another program has: the worker may leave it
    if (*pruned) return FT_OK;
    if (slot->thawed) return ft_stored_report(t->study, number, step, value);
    FT_TRY(ft_tuning_weigh(t, number, step, value, &prune));
    if (ft_fidelity_parts(t->config) > 0 && step >= ft_fidelity_parts(t->config)) prune = false; // trained on all texts, it is at its end
    if (!prune && ft_tuning_pauses(t)) {
        bool may_begin, goes_on;
        int64_t left;
        FT_TRY(ft_tuning_may_ask(t, &may_begin, &left));
        FT_TRY(ft_tuning_its_turn(t, slot, may_begin || t->add > 0, &goes_on, &prune)); // of --add this one is no part yet
        slot->paused = !prune && !goes_on;
    }
    if (!prune) return FT_OK;
    *pruned = true;
    return end_pruned(t, number, value);
}

ft_status ft_tuning_judge(ft_tuning *t, ft_slot *slot, const json_t *line, bool *pruned) {
    const ft_objective *objective = &t->objectives.list[0];
    const ft_trial *trial = &t->study->trials.trial[slot->number];
    const json_t *value = json_object_get(line, objective->key);
    int64_t step = json_integer_value(json_object_get(line, "step"));
    *pruned = false;
    if (!objective->reported || !json_is_number(value) || step < 0) return FT_OK;
    slot->value = json_number_value(value);
    if (ft_tuning_reports_runs(t)) value = json_object_get(json_object_get(line, "run_metrics"), objective->key);
    if (!json_is_number(value)) return FT_OK;
    if (t->objectives.count > 1) return FT_OK; // Optuna knows no reports of several objectives
    // A resumed trial tells again what has been judged.
    if (trial->report_count > 0 && ft_last_report(trial)->step >= step) return FT_OK;
    FT_TRY(ft_storage_begin(t->storage));
    return end_group(t, report(t, slot, step, json_number_value(value), pruned));
}

// ---- the end --------------------------------------------------------------------------------------------------------

static ft_status set_number(ft_tuning *t, int64_t number, const char *key, const json_t *value) {
    ft_choice choice = {.kind = FT_CHOICE_FLOAT, .number = json_number_value(value)};
    if (json_is_integer(value)) choice = (ft_choice){.kind = FT_CHOICE_INT, .integer = json_integer_value(value)};
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, key, &choice);
}

static ft_status set_text(ft_tuning *t, int64_t number, const char *key, const char *text) {
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, key,
                                &(ft_choice){.kind = FT_CHOICE_TEXT, .text = text});
}

ft_status ft_tuning_set_end(ft_tuning *t, int64_t number, const char *status, const char *error) {
    t->ended.known = true;
    t->ended.number = number;
    snprintf(t->ended.status, sizeof t->ended.status, "%s", status);
    snprintf(t->ended.error, sizeof t->ended.error, "%s", error);
    for (char *c = t->ended.error; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20) *c = ' ';
    FT_TRY(set_text(t, number, "status", status));
    FT_TRY(ft_neighbours_store(t, number));
    return error[0] != '\0' ? set_text(t, number, "error", error) : FT_OK;
}

bool ft_tuning_ended_last(const ft_tuning *t, int64_t number) { return t->ended.known && t->ended.number == number; }

// In the words of the scripts that people have.
static ft_status store_peak(ft_tuning *t, int64_t number, const json_t *bytes) {
    if (!json_is_number(bytes)) return FT_OK;
    ft_choice gb = {.kind = FT_CHOICE_FLOAT, .number = json_number_value(bytes) / 0x1p30};
    FT_TRY(set_number(t, number, "peak_memory_bytes", bytes));
    return ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, "peak_memory_gb", &gb);
}

// Figures of run.json that are worth a column beside the parameters.
static ft_status store_figures(ft_tuning *t, int64_t number, const json_t *run) {
    const char *key;
    json_t *value, *metrics = json_object_get(run, "metrics");
    json_object_foreach(metrics, key, value) {
        if (json_is_number(value)) FT_TRY(set_number(t, number, key, value));
    }
    static const char *const paths[][2] = {{"seconds", "total"}, {"memory", "peak_reserved_bytes"}, {"planned", "peak_reserved_bytes"}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", paths[i][0], paths[i][1]);
        value = json_object_get(json_object_get(run, paths[i][0]), paths[i][1]);
        if (json_is_number(value)) FT_TRY(set_number(t, number, name, value));
    }
    value = json_object_get(run, "steps");
    if (json_is_number(value)) FT_TRY(set_number(t, number, "steps", value));
    value = json_object_get(run, "device");
    if (json_is_string(value)) FT_TRY(set_text(t, number, "device", json_string_value(value)));
    return store_peak(t, number, json_object_get(json_object_get(run, "memory"), "peak_reserved_bytes"));
}

static ft_status failed(ft_tuning *t, int64_t number, const json_t *run, const char *status, const char *error) {
    if (run != NULL) FT_TRY(store_figures(t, number, run));
    FT_TRY(ft_tuning_set_end(t, number, status, error));
    return ft_stored_finish(t->study, number, FT_FAIL, NULL, 0);
}

static ft_status completed(ft_tuning *t, int64_t number, const json_t *run) {
    double values[FT_OBJECTIVE_LIMIT], excess[FT_OBJECTIVE_LIMIT]; // above 0: beyond the limit
    for (int i = 0; i < t->limits.count; i++) {
        const ft_limit *limit = &t->limits.list[i];
        char error[160];
        if (ft_objective_value(&limit->figure, run, &excess[i])) {
            excess[i] = limit->at_most ? excess[i] - limit->bound : limit->bound - excess[i];
            continue;
        }
        snprintf(error, sizeof error, "run.json has no finite %s", limit->figure.name);
        return failed(t, number, run, "failed", error);
    }
    for (int i = 0; i < t->objectives.count; i++) {
        char error[160];
        if (ft_objective_value(&t->objectives.list[i], run, &values[i])) continue;
        snprintf(error, sizeof error, "run.json has no finite %s", t->objectives.list[i].name);
        return failed(t, number, run, "failed", error);
    }
    FT_TRY(store_figures(t, number, run));
    if (t->limits.count > 0) FT_TRY(ft_stored_constraints(t->study, number, NULL, excess, t->limits.count));
    FT_TRY(ft_tuning_set_end(t, number, "completed", ""));
    return ft_stored_finish(t->study, number, FT_COMPLETE, values, t->objectives.count);
}

// ---- what broke a trial off -----------------------------------------------------------------------------------------

enum { TRACE_BYTES = 4096 }; // of log.txt, that are kept with a trial

// A killed or hung worker, a file or a device that failed: the same trial may well come to its end elsewhere.
static bool lies_outside(const ft_trial_end *end) { return end->gone || end->code == FT_FAILED; }

static ft_status count_retry(ft_tuning *t, int64_t number, const char *error, bool *retry) {
    const char *text;
    ft_arena arena = {0};
    ft_status status = ft_stored_attribute(t->study, number, FT_USER_ATTRIBUTE, "retries", &arena, &text);
    int64_t retries = status == FT_OK && text != NULL ? strtoll(text, NULL, 10) : 0;
    ft_arena_free(&arena);
    FT_TRY(status);
    *retry = retries < t->options->max_retries;
    if (!*retry) return FT_OK;
    FT_TRY(ft_stored_set_scalar(t->study, number, FT_USER_ATTRIBUTE, "retries",
                                &(ft_choice){.kind = FT_CHOICE_INT, .integer = retries + 1}));
    return set_text(t, number, "retried_after", error);
}

static ft_status broken(ft_tuning *t, int64_t number, const ft_trial_end *end, const json_t *run, const char *error,
                        const char *trace, bool *retry) {
    if (lies_outside(end) && end->disk_full)
        *retry = true; // as often as it takes: what it waits for is room
    else if (lies_outside(end))
        FT_TRY(count_retry(t, number, error, retry));
    if (*retry) return FT_OK;
    if (trace[0] != '\0') FT_TRY(set_text(t, number, "error_traceback", trace));
    return failed(t, number, run, end->code == FT_DIVERGED && !end->gone ? "diverged" : "failed", error);
}

static ft_status store_end(ft_tuning *t, int64_t number, const ft_trial_end *end, const json_t *run, const char *error,
                           const char *trace, bool *retry) {
    FT_TRY(ft_stored_refresh(t->study));
    FT_TRY(ft_tuning_count_ooms(t)); // while the look still tells of the others' trials
    if (ft_trial_finished(t->study->trials.trial[number].state)) return FT_OK; // by another program, for good
    if (!end->gone && end->code == FT_OK && run != NULL) return completed(t, number, run);
    if (!end->gone && end->code == FT_OK)
        return failed(t, number, NULL, "failed", "the run ended well and left no run.json");
    if (end->gone || end->code != FT_NO_MEMORY) return broken(t, number, end, run, error, trace, retry);
    if (run != NULL) FT_TRY(store_figures(t, number, run));
    // Who has no memory, or no disk space, may have come to writing no log: then the error is all that is known.
    FT_TRY(set_text(t, number, "error_traceback", trace[0] != '\0' ? trace : error));
    return ft_tuning_store_oom(
        t, number,
        &(ft_trial_end){
            .error = error, .entered = end->entered, .needed = end->needed, .limit = end->limit, .peak = end->peak},
        run);
}

static ft_status store_end_and_counts(ft_tuning *t, int64_t number, const ft_trial_end *end, const json_t *run,
                                      const char *error, const char *trace, bool *retry) {
    FT_TRY(store_end(t, number, end, run, error, trace, retry));
    return ft_trial_finished(t->study->trials.trial[number].state) ? store_counts(t) : FT_OK;
}

// SQLite keeps bytes; JSON, and so an attribute, needs UTF-8, which a log need not be.
static char *clean(char *text) {
    if (text == NULL) return NULL;
    for (char *c = text; *(c += ft_utf8_valid_prefix(c, strlen(c))) != '\0';)
        *c = '?';
    return text;
}

ft_status ft_tuning_finish(ft_tuning *t, int64_t number, const ft_trial_end *end, bool *retry) {
    ft_arena arena = {0};
    json_t *run = NULL;
    *retry = false;
    const bool well = end->code == FT_OK && !end->gone;
    char *directory = ft_tuning_trial_directory(t, number, &arena), *trace = NULL;
    char *path = directory != NULL ? ft_path_join(&arena, directory, "run.json") : NULL;
    const char *logged = path != NULL ? ft_trial_error(directory, &arena) : NULL;
    if (logged != NULL)
        trace = well ? ft_arena_strdup(&arena, "") : clean(ft_trial_log_tail(directory, TRACE_BYTES, &arena));
    char *error = logged != NULL ? clean(ft_arena_strdup(&arena, end->error[0] != '\0' ? end->error : logged)) : NULL;
    ft_status status = error != NULL && trace != NULL ? FT_OK : FT_NO_MEMORY;
    // One that a worker was killed over is of an earlier session of the trial.
    if (status == FT_OK && !end->gone && ft_path_exists(path)) status = ft_json_load(path, &run);
    ft_trial_end unsaved = {.code = FT_FAILED};
    bool replaces = false;
    if (status == FT_OK && well && run != NULL && ft_tuning_sync(t, number, run, &replaces) != FT_OK) {
        // As a worker that cannot save.
        error = clean(ft_arena_strdup(&arena, ft_error_message()));
        unsaved.disk_full = ft_error_disk_full();
        ft_error_clear();
        unsaved.error = error != NULL ? error : "";
        end = &unsaved;
        if (error == NULL) status = ft_fail_memory(0, "an error's text");
        // The kernel tells of a failed write once: a second attempt would find all well. So the run has not ended, and
        // writes again what it has written since its checkpoint.
        if (status == FT_OK) status = ft_remove_tree(path);
    }
    // Else a power cut could take the end of this trial back, and leave the removal of the model that it beats.
    if (status == FT_OK && replaces) status = ft_storage_full_sync(t->storage, true);
    if (status == FT_OK) status = ft_storage_begin(t->storage);
    if (status == FT_OK)
        status = end_released(
            t, number,
            store_end_and_counts(t, number, end, run, end->code == FT_OK && !end->gone ? "" : error, trace, retry));
    if (status == FT_OK && replaces) status = ft_storage_full_sync(t->storage, false);
    if (status == FT_OK && *retry && end->disk_full) ft_disk_was_full(t, number, error);
    json_decref(run);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_tuning_fail(ft_tuning *t, int64_t number, const char *status, const char *error) {
    FT_TRY(ft_storage_begin(t->storage));
    ft_status stored = failed(t, number, NULL, status, error);
    if (stored == FT_OK) stored = store_counts(t);
    return end_released(t, number, stored);
}

ft_status ft_tuning_count_ooms(ft_tuning *t) {
    const int64_t count = t->study->trials.count;
    bool *looked = ft_realloc(t->looked, (size_t)count + 1, sizeof *looked, "trials that ran out of memory");
    if (looked == NULL) return FT_NO_MEMORY;
    memset(looked + t->looked_count, 0, (size_t)(count - t->looked_count) * sizeof *looked);
    t->looked = looked;
    t->looked_count = count;
    for (int64_t i = 0; i < count; i++) {
        ft_arena arena = {0};
        const char *text;
        if (looked[i] || t->study->trials.trial[i].state != FT_PRUNED) continue;
        if (ft_tuning_ended_last(t, i)) {
            t->ooms += strcmp(t->ended.status, "oom") == 0;
            looked[i] = true;
            continue;
        }
        ft_status status = ft_stored_attribute(t->study, i, FT_USER_ATTRIBUTE, "oom", &arena, &text);
        t->ooms += status == FT_OK && text != NULL && strcmp(text, "true") == 0;
        looked[i] = true;
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}
