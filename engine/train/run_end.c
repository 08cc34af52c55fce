#include "engine/train/run_end.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/train/longer.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char before_key[] = "before_end", earlier_key[] = "earlier_total_steps", predictions[] = "predictions.jsonl";

bool ft_run_evaluates_at(const ft_trainer *t, int64_t step) {
    const ft_config *c = t->room.config;
    if (!t->job.split[FT_SPLIT_VALIDATION].present || c->eval.strategy == FT_EVAL_NO) return false;
    return step % (c->eval.strategy == FT_EVAL_STEPS ? c->eval.steps : t->room.plan.steps_per_epoch) == 0;
}

// Not in the middle of an end that was noted by an earlier session.
void ft_run_end_note(ft_trainer *t) {
    if (t->end.unscheduled && t->end.before.step == t->step.state.step) return;
    t->end.unscheduled = true;
    t->end.before = t->step.state;
}

// ---- the best model before it ---------------------------------------------------------------------------------------

static char *best_path(const ft_trainer *t, int64_t step, ft_arena *arena) {
    return ft_arena_format(arena, "%s/checkpoints/best-%08lld", t->dir, (long long)step);
}

bool ft_run_end_has_best(const ft_trainer *t, int64_t step) {
    ft_arena arena = {0};
    const char *path = best_path(t, step, &arena);
    const bool has = path != NULL && ft_path_is_directory(path);
    ft_arena_free(&arena);
    return has;
}

// A second name for each file: whoever writes one anew makes another file.
static ft_status link_files(const char *from, const char *to) {
    DIR *d = opendir(from);
    if (d == NULL) return ft_fail_errno(FT_FAILED, errno, from, "cannot read");
    FT_TRY(ft_make_directories(to));
    ft_status status = FT_OK;
    for (struct dirent *e; status == FT_OK && (e = readdir(d)) != NULL;) {
        ft_arena arena = {0};
        struct stat file;
        const char *old = ft_path_join(&arena, from, e->d_name), *new = ft_path_join(&arena, to, e->d_name);
        if (old == NULL || new == NULL) status = FT_NO_MEMORY;
        else if (lstat(old, &file) == 0 && S_ISREG(file.st_mode) && link(old, new) != 0) status = ft_copy_file(old, new);
        ft_arena_free(&arena);
    }
    closedir(d);
    return status;
}

static ft_status fill(const char *from, const char *to, const char *result, ft_arena *arena) {
    const char *model = ft_path_join(arena, from, result), *copy = ft_path_join(arena, to, result);
    const char *lines = ft_path_join(arena, from, predictions), *lines_copy = ft_path_join(arena, to, predictions);
    if (model == NULL || copy == NULL || lines == NULL || lines_copy == NULL) return FT_NO_MEMORY;
    FT_TRY(link_files(model, copy));
    return ft_path_exists(lines) ? ft_copy_file(lines, lines_copy) : FT_OK;
}

static ft_status keep(const ft_trainer *t, ft_arena *arena) {
    const char *path = best_path(t, t->step.state.best_step, arena), *result = ft_run_result(t->room.config);
    const char *model = ft_path_join(arena, t->dir, result), *checkpoints = ft_path_join(arena, t->dir, "checkpoints");
    ft_atomic_dir dir;
    if (path == NULL || model == NULL || checkpoints == NULL) return FT_NO_MEMORY;
    // There from a session that was killed behind this: what stands in its place now is the end's.
    if (ft_path_is_directory(path) || !ft_path_is_directory(model)) return FT_OK;
    FT_TRY(ft_make_directories(checkpoints));
    FT_TRY(ft_atomic_dir_open(&dir, path));
    const ft_status status = fill(t->dir, dir.temporary, result, arena);
    if (status == FT_OK) return ft_atomic_dir_commit(&dir);
    ft_atomic_dir_abort(&dir);
    return status;
}

// A schedule that ends with the steps can only go on where a deadline ended it.
static bool may_go_on(const ft_trainer *t) {
    const int64_t total = t->room.plan.total_steps, step = t->step.state.step;
    return step < total || ft_longer_same_rates(t->room.config, total, total + 1, step) == step;
}

ft_status ft_run_end_keep_best(ft_trainer *t) {
    if (!t->end.unscheduled || t->step.state.best_step < 0 || !ft_trainer_leads(t) || !may_go_on(t)) return FT_OK;
    ft_arena arena = {0};
    const ft_status status = keep(t, &arena);
    ft_arena_free(&arena);
    return status;
}

ft_status ft_run_end_forget(const ft_trainer *t) {
    ft_arena arena = {0};
    const char *checkpoints = ft_path_join(&arena, t->dir, "checkpoints");
    DIR *d = checkpoints != NULL && ft_trainer_leads(t) ? opendir(checkpoints) : NULL;
    ft_status status = checkpoints != NULL ? FT_OK : FT_NO_MEMORY;
    for (struct dirent *e; d != NULL && status == FT_OK && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "best-", 5) != 0) continue;
        const char *path = ft_path_join(&arena, checkpoints, e->d_name);
        status = path != NULL ? ft_remove_tree(path) : FT_NO_MEMORY;
    }
    if (d != NULL) closedir(d);
    ft_arena_free(&arena);
    return status;
}

static ft_status put_back(const ft_trainer *t, const char *path, const char *used, ft_arena *arena) {
    const char *result = ft_run_result(t->room.config), *kept = ft_path_join(arena, path, result);
    const char *model = ft_path_join(arena, t->dir, result), *lines = ft_path_join(arena, path, predictions);
    const char *lines_copy = ft_path_join(arena, t->dir, predictions);
    ft_atomic_dir dir;
    if (kept == NULL || model == NULL || lines == NULL || lines_copy == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_atomic_dir_open(&dir, model));
    const ft_status status = link_files(kept, dir.temporary);
    if (status != FT_OK) {
        ft_atomic_dir_abort(&dir);
        return status;
    }
    FT_TRY(ft_atomic_dir_commit(&dir));
    if (ft_path_exists(lines)) FT_TRY(ft_copy_file(lines, lines_copy));
    // Its name goes at once, for half of it is none: a session that is killed now leaves nothing to put back.
    return rename(path, used) == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, path, "cannot remove");
}

static ft_status put_back_or_clean(const ft_trainer *t, ft_arena *arena) {
    const char *path = best_path(t, t->step.state.best_step, arena), *used = path != NULL ? ft_arena_format(arena, "%s.ft-old", path) : NULL;
    if (used == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_remove_tree(used)); // of a session that was killed there
    if (!ft_path_is_directory(path)) return FT_OK;
    FT_TRY(put_back(t, path, used, arena));
    return ft_remove_tree(used);
}

ft_status ft_run_end_put_back(ft_trainer *t) {
    if (t->step.state.best_step < 0 || !ft_trainer_leads(t)) return FT_OK;
    ft_arena arena = {0};
    const ft_status status = put_back_or_clean(t, &arena);
    ft_arena_free(&arena);
    return status;
}

// ---- state.json -----------------------------------------------------------------------------------------------------

static json_t *real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

void ft_run_end_put(const ft_trainer *t, json_t *root, bool *failed) {
    const ft_train_state *s = &t->end.before;
    if (json_array_size(t->end.earlier) > 0) ft_json_put(root, earlier_key, json_incref(t->end.earlier), failed);
    if (!t->end.unscheduled || s->step != t->step.state.step) return;
    const bool best = s->best_step >= 0;
    json_t *metrics = json_object();
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        ft_json_put(metrics, ft_metric_name((ft_metric)k), real_or_null(best ? s->best_metrics[k] : NAN), failed);
    ft_json_put(root, before_key,
                json_pack("{s:f, s:I, s:o, s:I, s:I, s:I, s:o}", "loss_sum", s->loss_sum, "loss_steps", (json_int_t)s->loss_steps, "best_value",
                          real_or_null(best ? s->best_value : NAN), "best_step", (json_int_t)s->best_step, "bad_evaluations",
                          (json_int_t)s->bad_evaluations, "metrics_bytes", (json_int_t)s->metrics_bytes, "best_metrics", metrics),
                failed);
}

// What an end changes; all else is as in `s`.
static ft_status read_before(const json_t *before, const char *path, ft_train_state *s) {
    FT_TRY(ft_json_number(before, path, "loss_sum", 0, &s->loss_sum));
    FT_TRY(ft_json_int(before, path, "loss_steps", 0, 0, INT64_MAX, &s->loss_steps));
    FT_TRY(ft_json_number(before, path, "best_value", 0, &s->best_value));
    FT_TRY(ft_json_int(before, path, "best_step", -1, -1, INT64_MAX, &s->best_step));
    FT_TRY(ft_json_int(before, path, "bad_evaluations", 0, 0, INT64_MAX, &s->bad_evaluations));
    FT_TRY(ft_json_int(before, path, "metrics_bytes", 0, 0, INT64_MAX, &s->metrics_bytes));
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        FT_TRY(ft_json_number(json_object_get(before, "best_metrics"), path, ft_metric_name((ft_metric)k), NAN, &s->best_metrics[k]));
    s->evaluation_pending = false;
    return FT_OK;
}

static ft_status read_earlier(ft_trainer *t, const json_t *root, const char *path) {
    const int64_t total = t->room.plan.total_steps;
    FT_TRY(ft_json_int(json_object_get(root, "run"), path, "total_steps", total, 0, INT64_MAX, &t->end.planned));
    json_decref(t->end.earlier);
    const json_t *earlier = json_object_get(root, earlier_key);
    t->end.earlier = json_is_array(earlier) ? json_deep_copy(earlier) : json_array();
    bool failed = t->end.earlier == NULL;
    if (t->end.planned != total) ft_json_append(t->end.earlier, json_integer((json_int_t)t->end.planned), &failed);
    return failed ? ft_fail_memory(0, "earlier ends of a run") : FT_OK;
}

ft_status ft_run_end_read(ft_trainer *t, const json_t *root, const char *path, ft_train_state *state) {
    const json_t *before = json_object_get(root, before_key);
    FT_TRY(read_earlier(t, root, path));
    t->end.unscheduled = json_is_object(before);
    t->end.before = *state;
    if (t->end.unscheduled) FT_TRY(read_before(before, path, &t->end.before));
    const bool goes_on = state->step < t->room.plan.total_steps;
    t->end.renewed = t->end.planned != t->room.plan.total_steps || (t->end.unscheduled && goes_on);
    if (!t->end.unscheduled || !goes_on) return FT_OK;
    *state = t->end.before;
    t->end.unscheduled = false;
    return FT_OK;
}
