// best.c - best.ini, of several objectives front/, and whose model stays on disk (study.keep).
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/log.h"
#include "engine/train/repeat/repeat.h"
#include "engine/train/run_dir.h"
#include "hpo/search/history/pareto.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/slots.h"
#include "hpo/study/thaw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char best_file[] = "best.ini", front_directory[] = "front";

static bool eligible(const ft_trial *trial) { return trial->state == FT_COMPLETE && ft_trial_violation(trial) <= 0; }

int64_t ft_tuning_best(const ft_tuning *t) {
    const ft_trials *trials = &t->study->trials;
    int64_t best = -1;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (!eligible(trial)) continue;
        double sign = trials->maximize[0] ? -1 : 1;
        if (best < 0 || sign * trial->values[0] < sign * trials->trial[best].values[0]) best = i;
    }
    return best;
}

// ---- who stays ------------------------------------------------------------------------------------------------------

// The trials that no other beats (k < 0), or of all the k best; kept [count] by trial.
static ft_status choose(const ft_tuning *t, int64_t k, bool *kept) {
    const ft_trials *trials = &t->study->trials;
    const int objectives = trials->objectives;
    int64_t count = 0;
    double *points = ft_calloc((size_t)(trials->count * objectives) + 1, sizeof *points, "objectives");
    int64_t *number = ft_calloc((size_t)trials->count + 1, sizeof *number, "trial numbers");
    bool *chosen = ft_calloc((size_t)trials->count + 1, sizeof *chosen, "the best trials");
    ft_status status = points != NULL && number != NULL && chosen != NULL ? FT_OK : FT_NO_MEMORY;
    for (int64_t i = 0; status == FT_OK && i < trials->count; i++) {
        if (!eligible(&trials->trial[i])) continue;
        for (int j = 0; j < objectives; j++)
            points[count * objectives + j] = (trials->maximize[j] ? -1 : 1) * trials->trial[i].values[j];
        number[count++] = i;
    }
    if (status == FT_OK)
        status = k < 0 ? ft_pareto_front(points, count, objectives, chosen)
                       : ft_pareto_best(points, count, objectives, k < count ? k : count, chosen);
    for (int64_t i = 0; status == FT_OK && i < count; i++)
        kept[number[i]] = chosen[i];
    free(points);
    free(number);
    free(chosen);
    return status;
}

static ft_status choose_kept(const ft_tuning *t, bool *kept) {
    const char *keep = t->options->keep;
    int64_t best = ft_tuning_best(t);
    if (strcmp(keep, "none") == 0) return FT_OK;
    if (strcmp(keep, "top-k") == 0) return choose(t, t->options->keep_count, kept);
    if (t->study->trials.objectives > 1) return choose(t, -1, kept);
    if (best >= 0) kept[best] = true;
    return FT_OK;
}

// Logs, figures and predictions stay; what is left of a model goes, and of those of its folds and seeds.
static ft_status make_lean(const ft_tuning *t, int64_t number) {
    ft_arena arena = {0};
    const char **members = NULL;
    int count = 0;
    char *directory = ft_tuning_trial_directory(t, number, &arena);
    ft_status status = directory != NULL ? ft_run_dir_make_lean(directory) : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_repeat_members(directory, &arena, &members, &count);
    for (int i = 0; status == FT_OK && i < count; i++)
        status = ft_run_dir_make_lean(members[i]);
    ft_arena_free(&arena);
    return status;
}

// Whether a worker may still be in the directory of a trial that has ended. Who has just ended one here has seen it
// leave; of the others' the last look tells, for a claim is given up behind the end. At last nothing is left to a later
// call.
static ft_status is_left(ft_tuning *t, int64_t number, bool last, bool *left) {
    bool others = false;
    ft_arena arena = {0};
    const char *directory = ft_tuning_trial_directory(t, number, &arena);
    *left =
        ft_tuning_ended_last(t, number) || (directory != NULL && !ft_path_exists(directory)); // another machine has it
    ft_arena_free(&arena);
    if (directory == NULL) return FT_NO_MEMORY;
    if (*left) return FT_OK;
    FT_TRY(ft_tuning_claimed(t, number, &others));
    *left = !others;
    if (*left || !last) return FT_OK;
    FT_TRY(ft_tuning_claim(t, number, left));
    if (*left) ft_tuning_release(t, number);
    return FT_OK;
}

static ft_status remove_models(ft_tuning *t, bool last) {
    const ft_trials *trials = &t->study->trials;
    if (strcmp(t->options->keep, "all") == 0) return FT_OK;
    bool *lean = ft_realloc(t->lean, (size_t)trials->count + 1, sizeof *lean, "the trials' directories");
    if (lean == NULL) return FT_NO_MEMORY;
    memset(lean + t->lean_count, 0, (size_t)(trials->count - t->lean_count) * sizeof *lean);
    t->lean = lean;
    t->lean_count = trials->count;
    bool *kept = ft_calloc((size_t)trials->count + 1, sizeof *kept, "the trials to keep");
    if (kept == NULL) return FT_NO_MEMORY;
    ft_status status = choose_kept(t, kept);
    if (status == FT_OK) status = ft_tuning_keep_pruned(t, kept);
    for (int64_t i = 0; status == FT_OK && i < trials->count; i++) {
        // A pruned one has its end in the file before its worker has left it, which may still write there.
        bool left = false;
        if (kept[i] || lean[i] || !ft_trial_finished(trials->trial[i].state) || ft_slots_of(t, i) != NULL) continue;
        status = is_left(t, i, last, &left); // another coordinator's worker may not have left it either
        if (status == FT_OK && !left) continue;
        if (status == FT_OK) status = make_lean(t, i);
        lean[i] = status == FT_OK;
    }
    free(kept);
    return status;
}

// ---- what has to be on the disk --------------------------------------------------------------------------------------

// Most trials of a study leave nothing that stays. Where few do, workers do not wait for the disk (a fsync costs
// milliseconds, and a run has twenty), and what becomes the best is written out here, before anybody is told of it.
bool ft_tuning_keeps_few(const ft_tuning *t) {
    const char *keep = t->options->keep;
    return strcmp(keep, "none") == 0 || (strcmp(keep, "best") == 0 && t->objectives.count == 1);
}

ft_status ft_tuning_sync(const ft_tuning *t, int64_t number, const json_t *run, bool *replaces) {
    const int64_t best = ft_tuning_best(t);
    double value, sign = t->study->trials.maximize[0] ? -1 : 1;
    const char *keep = t->options->keep;
    *replaces = !ft_tuning_keeps_few(t) && strcmp(keep, "all") != 0;
    if (!ft_tuning_keeps_few(t) || strcmp(keep, "none") == 0) return FT_OK;
    if (!ft_objective_value(&t->objectives.list[0], run, &value)) return FT_OK;
    const double least = best >= 0 ? sign * t->study->trials.trial[best].values[0] : INFINITY;
    if (!t->unsure && (sign * value > least || (sign * value == least && number > best))) return FT_OK;
    *replaces = true;
    ft_arena arena = {0};
    const char *directory = ft_tuning_trial_directory(t, number, &arena);
    ft_status status = directory != NULL ? ft_sync_tree(directory) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

// ---- best.ini -------------------------------------------------------------------------------------------------------

static void write_head(const ft_tuning *t, const ft_trial *trial, const char *file, FILE *out) {
    fprintf(out, "; Trial %lld of the study %s:", (long long)trial->number, t->place.name);
    char value[FT_FIGURE_TEXT];
    for (int i = 0; i < t->objectives.count; i++) {
        const char *name = t->objectives.list[i].name;
        fprintf(out, "%s %s %s", i > 0 ? "," : "", name, ft_figure_text(name, trial->values[i], 6, value));
    }
    fprintf(out, ". Runs as it is: ftengine train %s/%s\n", t->place.directory, file);
    if (t->objectives.count > 1 && strcmp(file, best_file) == 0)
        fprintf(out, "; It is the best in %s alone: front/ has all trials that no other beats.\n",
                t->objectives.list[0].name);
}

// What the trial ran with is in its directory: the options of today may be others. Without it - another program's
// trial, or a file that this version cannot read - they are the nearest there is.
static ft_status config_of(ft_tuning *t, int64_t number, ft_config *config) {
    ft_arena arena = {0};
    char *directory = ft_tuning_trial_directory(t, number, &arena);
    const char *path = directory != NULL ? ft_path_join(&arena, directory, "config.ini") : NULL;
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    bool as_it_ran = status == FT_OK && ft_path_exists(path) && ft_tuning_is_ours(t, number);
    if (as_it_ran) status = ft_study_config_load(config, 1, &path, 0, NULL);
    if (as_it_ran && status == FT_INVALID) {
        ft_error_clear();
        as_it_ran = false;
        status = FT_OK;
    }
    if (!as_it_ran && status == FT_OK) status = ft_tuning_trial_config(t, number, config);
    ft_arena_free(&arena);
    return status;
}

// The configuration of a trial as `file` of the study's directory. What another program's trial has may not be of this
// space: then there is no file.
static ft_status write_trial(ft_tuning *t, int64_t number, const char *file) {
    ft_config config;
    ft_atomic_file out;
    ft_status status = config_of(t, number, &config);
    if (status == FT_INVALID && !ft_tuning_is_ours(t, number)) {
        ft_error_clear();
        return FT_OK;
    }
    FT_TRY(status);
    ft_fidelity_forget(t->config, &config);
    char *path = ft_path_join(&config.arena, t->directory, file);
    status = path != NULL ? ft_atomic_open(&out, path) : FT_NO_MEMORY;
    if (status == FT_OK) {
        write_head(t, &t->study->trials.trial[number], file, out.stream);
        status = ft_config_write(&config, true, true, out.stream);
        if (status == FT_OK)
            status = ft_atomic_commit(&out);
        else
            ft_atomic_abort(&out);
    }
    ft_arena_free(&config.arena);
    return status;
}

// Of several objectives: a file for each trial that no other beats, and no others.
static ft_status write_front(ft_tuning *t) {
    ft_arena arena = {0};
    const int64_t count = t->study->trials.count;
    const char *directory = ft_path_join(&arena, t->directory, front_directory);
    bool *front = ft_calloc((size_t)count + 1, sizeof *front, "the best trials");
    bool *written = ft_realloc(t->front, (size_t)count + 1, sizeof *written, "the best trials");
    ft_status status = directory != NULL && front != NULL && written != NULL ? FT_OK : FT_NO_MEMORY;
    if (written != NULL) {
        memset(written + t->front_count, 0, (size_t)(count - t->front_count) * sizeof *written);
        t->front = written;
    }
    // What an earlier call left may be of another front.
    if (status == FT_OK && t->front_count == 0) status = ft_remove_tree(directory);
    if (status == FT_OK) status = ft_make_directories(directory);
    if (status == FT_OK) status = choose(t, -1, front);
    for (int64_t i = 0; status == FT_OK && i < count; i++) {
        char file[48];
        snprintf(file, sizeof file, "%s/%05lld.ini", front_directory, (long long)i);
        if (front[i] == written[i]) continue;
        const char *path = ft_path_join(&arena, t->directory, file);
        status = front[i] ? write_trial(t, i, file) : path != NULL ? ft_remove_tree(path) : FT_NO_MEMORY;
        written[i] = front[i];
    }
    if (status == FT_OK) t->front_count = count;
    free(front);
    ft_arena_free(&arena);
    return status;
}

// What is written needs all that has ended by now. What is removed does not: who is not among the best of some trials
// is not among the best of more.
static ft_status tidy(ft_tuning *t, bool last) {
    if (last || ft_tuning_best(t) != t->best_written || t->objectives.count > 1) FT_TRY(ft_stored_refresh(t->study));
    int64_t best = ft_tuning_best(t);
    if (best >= 0 && best != t->best_written) {
        FT_TRY(write_trial(t, best, best_file));
        t->best_written = best;
    }
    if (best >= 0 && t->objectives.count > 1) FT_TRY(write_front(t));
    return remove_models(t, last);
}

// One coordinator at a time, with all that the others have finished before: what is best now is what is written last.
ft_status ft_tuning_tidy(ft_tuning *t, bool last) {
    if (!ft_tuning_lock_directory(t, last)) { // after the next trial, then
        if (last)
            ft_warn("%s may lack its best trial's %s, and keep models that are not needed: another process keeps the directory "
                    "locked; the same command again looks after it",
                    t->place.directory, best_file);
        return FT_OK;
    }
    ft_status status = tidy(t, last);
    ft_tuning_unlock_directory(t);
    return status;
}
