// study_loop.c - one trial after the other, until a stop rule, a signal or an error.
#include "hpo/study.h"

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/train/stop.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum { PATIENCE = 120 }; // seconds that a trial has for saving when it is asked to stop

// ---- stop rules -----------------------------------------------------------------------------------------------------

static bool reaches(bool maximize, double value, double target) { return maximize ? value >= target : value <= target; }

// Finished trials, those of them that completed, and how many came since the best one.
typedef struct counts {
    int64_t finished, completed, since_best;
    bool target;
} counts;

static counts count_trials(const ft_tuning *t) {
    const ft_trials *trials = &t->study->trials;
    const int64_t best = ft_tuning_best(t);
    counts c = {0};
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (!ft_trial_finished(trial->state)) continue;
        c.finished++;
        c.since_best += i > best;
        if (trial->state != FT_COMPLETE) continue;
        c.completed++;
        double target = t->config->study.target;
        bool counts_too = ft_trial_violation(trial) <= 0;
        c.target = c.target || (counts_too && !isnan(target) && reaches(trials->maximize[0], trial->values[0], target));
    }
    return c;
}

static const char *reason_to_stop(const ft_tuning *t) {
    const ft_config *config = t->config;
    counts c = count_trials(t);
    if (t->goal > 0 && c.finished >= t->goal) return "all trials are done";
    if (c.target) return "the target is reached";
    if (config->study.completed > 0 && c.completed >= config->study.completed) return "enough trials completed";
    if (config->study.no_improvement > 0 && c.completed > 0 && c.since_best >= config->study.no_improvement)
        return "no better trial for long enough";
    return NULL;
}

static bool time_is_up(const ft_tuning *t) {
    return t->config->study.timeout > 0 && ft_now() - t->started >= t->config->study.timeout;
}

// ---- one trial ------------------------------------------------------------------------------------------------------

static ft_status drain(ft_tuning *t, int64_t number, bool *pruned) {
    for (;;) {
        json_t *line;
        FT_TRY(ft_trial_line(&t->process, &line));
        if (line == NULL) return FT_OK;
        ft_status status = ft_tuning_judge(t, number, line, pruned);
        json_decref(line);
        if (status != FT_OK || *pruned) return status;
    }
}

// Until the trial has ended, is pruned, or has to stop. *ended with its exit code.
static ft_status watch(ft_tuning *t, int64_t number, bool *pruned, bool *ended, int *code) {
    *pruned = *ended = false;
    while (!*ended && !*pruned) {
        FT_TRY(ft_trial_wait(&t->process, 0.1, ended, code));
        FT_TRY(drain(t, number, pruned));
        if (*ended || *pruned) return FT_OK;
        if (ft_stop_signal() != 0 || time_is_up(t)) return FT_OK;
        ft_display_trial(t);
    }
    return FT_OK;
}

// A trial that had ended before its end was stored needs no process.
static bool ended_before(const char *directory) {
    ft_arena arena = {0};
    json_t *run = NULL;
    const char *path = ft_path_join(&arena, directory, "run.json"), *status;
    bool ended = path != NULL && ft_path_exists(path) && ft_json_load(path, &run) == FT_OK &&
                 (status = json_string_value(json_object_get(run, "status"))) != NULL &&
                 strcmp(status, "completed") == 0;
    json_decref(run);
    ft_arena_free(&arena);
    if (!ended) ft_error_clear();
    return ended;
}

static ft_status count_failure(ft_tuning *t, int64_t number, int code) {
    bool counted = t->study->trials.trial[number].state == FT_FAIL && code != FT_NO_MEMORY && code != FT_DIVERGED;
    t->failures = counted ? t->failures + 1 : 0;
    int64_t most = t->config->study.max_failures;
    if (most == 0 || t->failures < most) return FT_OK;
    ft_arena arena = {0};
    char *directory = ft_tuning_trial_directory(t, number, &arena);
    ft_status status = ft_fail(FT_FAILED, t->place.name, "%d trials in a row failed", t->failures);
    if (directory != NULL) ft_hint("see %s/log.txt; study.max_failures says how many are too many", directory);
    ft_arena_free(&arena);
    return status;
}

static ft_status ended(ft_tuning *t, int64_t number, int code) {
    t->ran++;
    t->current = -1;
    FT_TRY(ft_tuning_tidy(t));
    ft_display_finished(t, number);
    return count_failure(t, number, code);
}

// The trial is to stop: it saves, and goes on at the next call. One that was through just in time is taken.
static ft_status stop_trial(ft_tuning *t, int64_t number, bool *interrupted) {
    int code;
    bool pruned = false;
    ft_trial_stop(&t->process, SIGTERM); // a second Ctrl-C ends this process, and with it the trial
    FT_TRY(ft_trial_end(&t->process, PATIENCE, &code));
    FT_TRY(drain(t, number, &pruned));
    *interrupted = !pruned && code != 0;
    if (*interrupted) return FT_OK;
    if (!pruned) FT_TRY(ft_tuning_finish(t, number, code));
    return ended(t, number, code);
}

static ft_status follow(ft_tuning *t, int64_t number, const char *directory, bool *interrupted) {
    bool pruned = false, gone = false;
    int code = 0;
    if (ended_before(directory)) {
        ft_trial_attach(directory, &t->process);
        FT_TRY(drain(t, number, &pruned));
        gone = true;
    } else {
        FT_TRY(ft_trial_start(directory, &t->process));
        FT_TRY(watch(t, number, &pruned, &gone, &code));
    }
    if (!pruned && !gone) return stop_trial(t, number, interrupted);
    if (pruned) { // it is in the file already; what the child still does is of no interest
        ft_trial_stop(&t->process, SIGTERM);
        FT_TRY(ft_trial_end(&t->process, PATIENCE, &code));
        return ended(t, number, 0);
    }
    if (code == FT_INTERRUPTED || code == FT_TERMINATED) { // not by us: the machine is going down, or a person did it
        *interrupted = true;
        ft_info("trial %lld was stopped from outside and is saved", (long long)number);
        return FT_OK;
    }
    FT_TRY(ft_tuning_finish(t, number, code));
    return ended(t, number, code);
}

static ft_status run_trial(ft_tuning *t, int64_t number, bool *interrupted) {
    *interrupted = false;
    t->current = number;
    t->current_step = 0;
    t->current_value = NAN;
    ft_status status = ft_tuning_prepare(t, number);
    if (status == FT_INVALID) { // these values do not go together: a result, though not one to learn from
        char error[512];
        snprintf(error, sizeof error, "%s (%s)", ft_error_message(), ft_error_where());
        ft_error_clear();
        FT_TRY(ft_tuning_fail(t, number, "invalid", error));
        return ended(t, number, FT_INVALID);
    }
    ft_arena arena = {0};
    char *directory = status == FT_OK ? ft_tuning_trial_directory(t, number, &arena) : NULL;
    if (status == FT_OK) status = directory != NULL ? follow(t, number, directory, interrupted) : FT_NO_MEMORY;
    ft_error error;
    int code;
    ft_error_save(&error);
    ft_status end = ft_trial_end(&t->process, 0, &code); // after an error it may still be running
    if (status != FT_OK)
        ft_error_restore(&error);
    else
        status = end;
    ft_arena_free(&arena);
    return status;
}

// ---- the loop -------------------------------------------------------------------------------------------------------

static ft_status stopped(ft_tuning *t) {
    int signal_number = ft_stop_signal() != 0 ? ft_stop_signal() : SIGTERM;
    ft_status status = ft_stop_status(signal_number);
    ft_fail(status, NULL, "stopped; `ftengine tune --study %s` goes on%s", t->place.name,
            t->current >= 0 ? " with the trial that was running" : "");
    return status;
}

static ft_status loop(ft_tuning *t) {
    while ((t->stopped_by = reason_to_stop(t)) == NULL) {
        int64_t number;
        bool interrupted;
        if (ft_stop_signal() != 0) return stopped(t);
        if (time_is_up(t)) {
            t->stopped_by = "the time is up";
            return FT_OK;
        }
        FT_TRY(ft_tuning_next(t, &number));
        if (number < 0) {
            t->stopped_by = "every point of the grid was tried";
            return FT_OK;
        }
        FT_TRY(run_trial(t, number, &interrupted));
        if (!interrupted) continue;
        if (ft_stop_signal() != 0 || !time_is_up(t)) return stopped(t);
        t->stopped_by = "the time is up";
        return FT_OK;
    }
    return FT_OK;
}

ft_status ft_tuning_run(ft_tuning *t) {
    FT_TRY(ft_tuning_tidy(t));
    ft_display_start(t);
    ft_status status = loop(t);
    ft_status_line("%s", "");
    FT_TRY(status);
    FT_TRY(ft_display_end(t));
    if (count_trials(t).completed > 0) return FT_OK;
    if (strcmp(t->stopped_by, "the time is up") == 0) return FT_OK;
    return ft_fail(FT_FAILED, t->place.name, "no trial completed");
}
