#include "engine/train/longer.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/train/job/schedule.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/run_end.h"
#include "kernels/devices/devices.h"

#include <string.h>

static const char total_key[] = "total_steps", epochs_key[] = "train.epochs", steps_key[] = "train.max_steps";

bool ft_longer_looks_at(const char *key) {
    return strcmp(key, total_key) == 0 || strcmp(key, epochs_key) == 0 || strcmp(key, steps_key) == 0;
}

// Steps by train.max_steps, whatever train.epochs says: another number of epochs changes nothing, and somebody wanted something.
static ft_status check_wish(const ft_trainer *t, const json_t *saved, const char *path) {
    const long long steps = (long long)t->room.config->train.max_steps;
    const char *was = json_string_value(json_object_get(saved, epochs_key));
    char now[64];
    if (steps == 0 || was == NULL || ft_option_text(t->room.config, ft_option_find(epochs_key), now, sizeof now) != FT_OK || strcmp(was, now) == 0)
        return FT_OK;
    ft_fail(FT_INVALID, path, "%s was %s and is %s, but this run has the steps of %s = %lld", epochs_key, was, now, steps_key, steps);
    ft_hint("more steps: %s=N, or %s=0 for those of %s", steps_key, steps_key, epochs_key);
    return FT_INVALID;
}

static ft_status check_fewer(const ft_trainer *t, int64_t planned, int64_t step, const char *path) {
    const long long total = (long long)t->room.plan.total_steps;
    if (total >= planned) return FT_OK;
    ft_fail(FT_INVALID, path, "this run is one of %lld steps, and has made %lld: it cannot become one of %lld", (long long)planned, (long long)step, total);
    ft_hint("it goes on to %lld steps or, with a learning rate that does not end with them, to more; fewer are another run (output.exists = new)",
            (long long)planned);
    return FT_INVALID;
}

static ft_schedule schedule_of(const ft_config *c, int64_t total) {
    return ft_schedule_of(c, ft_warmup_steps(c->train.warmup_ratio, c->train.warmup_steps, total), total);
}

int64_t ft_longer_same_rates(const ft_config *config, int64_t planned, int64_t total, int64_t step) {
    const ft_schedule was = schedule_of(config, planned), is = schedule_of(config, total);
    int64_t at = 0;
    while (at < step && ft_schedule_factor(&was, at) == ft_schedule_factor(&is, at)) at++;
    return at;
}

// Every update so far has had the learning rate that it has in the longer run.
ft_status ft_longer_check_rates(const ft_config *c, int64_t planned, int64_t total, int64_t step, const char *dir, const char *path) {
    const int64_t at = ft_longer_same_rates(c, planned, total, step);
    const ft_schedule was = schedule_of(c, planned), is = schedule_of(c, total);
    char name[64];
    if (at == step) return FT_OK;
    FT_TRY(ft_option_text(c, ft_option_find("train.lr_scheduler"), name, sizeof name));
    const bool share = c->train.lr_scheduler == FT_SCHED_CONSTANT_WITH_WARMUP;
    const double rate = c->train.learning_rate;
    ft_fail(FT_INVALID, path, "this run of %lld steps cannot go on to %lld: with train.lr_scheduler = %s%s its step %lld had the learning rate %.4g, in the longer run %.4g",
            (long long)planned, (long long)total, name, share ? " and train.warmup_ratio" : "", (long long)at + 1, rate * ft_schedule_factor(&was, at),
            rate * ft_schedule_factor(&is, at));
    if (share) ft_hint("a run with train.warmup_steps=%lld, which is no share, can go on", (long long)was.warmup_steps);
    else ft_hint("a run with train.lr_scheduler=constant, or constant_with_warmup and train.warmup_steps, can go on");
    ft_hint("so many steps from the first on: ftengine train %s/config.ini output.exists=new %s=%lld", dir, steps_key, (long long)total);
    return FT_INVALID;
}

// The best model that the longer run has at this step is there.
static ft_status check_best(const ft_trainer *t, const json_t *root, int64_t planned, int64_t step, const char *path) {
    const json_t *before = json_object_get(root, "before_end");
    int64_t best = -1, old;
    if (step < planned && before == NULL) return FT_OK;
    if (before == NULL && ft_run_evaluates_at(t, step)) return FT_OK;
    if (before == NULL) {
        ft_fail(FT_INVALID, path, "an older version ended this run, and has not kept what it was before the evaluation at its end");
        ft_hint("so many steps from the first on: ftengine train %s/config.ini output.exists=new %s=%lld", t->dir, steps_key,
                (long long)t->room.plan.total_steps);
        return FT_INVALID;
    }
    FT_TRY(ft_json_int(before, path, "best_step", -1, -1, INT64_MAX, &old));
    FT_TRY(ft_json_int(root, path, "best_step", -1, -1, INT64_MAX, &best));
    if (old < 0 || best == old || !ft_trainer_leads(t) || ft_run_end_has_best(t, old)) return FT_OK;
    return ft_fail(FT_INVALID, path, "the best model of this run before its end, that of step %lld, is gone: there is no checkpoints/best-%08lld",
                   (long long)old, (long long)old);
}

// Which sizes are measured depends on how often they come in the whole run.
static ft_status check_products(const ft_trainer *t, int64_t planned, const char *path) {
    if (!ft_gemm_tuning_is_auto(t->room.config) || !ft_gemms_have(t->room.device)) return FT_OK;
    ft_fail(FT_INVALID, path, "this run of %lld steps cannot go on to %lld: device.gemm_tuning = auto chooses products by the number of steps", (long long)planned,
            (long long)t->room.plan.total_steps);
    ft_hint("so many steps from the first on: ftengine train %s/config.ini output.exists=new %s=%lld", t->dir, steps_key, (long long)t->room.plan.total_steps);
    return FT_INVALID;
}

ft_status ft_longer_check(const ft_trainer *t, const json_t *root, const char *path) {
    const json_t *saved = json_object_get(root, "run");
    int64_t planned, step;
    FT_TRY(ft_json_int(saved, path, total_key, 0, 0, INT64_MAX, &planned));
    FT_TRY(ft_json_int(root, path, "step", 0, 0, INT64_MAX, &step));
    if (planned == t->room.plan.total_steps) {
        FT_TRY(check_wish(t, saved, path));
        return step < planned ? check_best(t, root, planned, step, path) : FT_OK;
    }
    FT_TRY(check_fewer(t, planned, step, path));
    FT_TRY(check_products(t, planned, path));
    FT_TRY(ft_longer_check_rates(t->room.config, planned, t->room.plan.total_steps, step, t->dir, path));
    FT_TRY(check_best(t, root, planned, step, path));
    return FT_OK;
}

ft_status ft_longer_check_gone(const ft_trainer *t) {
    json_t *run = NULL;
    int64_t planned = 0;
    ft_arena arena = {0};
    const char *file = ft_path_join(&arena, t->dir, "run.json");
    ft_status status = file == NULL ? FT_NO_MEMORY : ft_path_exists(file) ? ft_json_load(file, &run) : FT_OK;
    const char *how = json_string_value(json_object_get(run, "status"));
    const bool ended = how != NULL && strcmp(how, "completed") == 0;
    if (status == FT_OK && ended) status = ft_json_int(json_object_get(run, "resolved"), file, total_key, 0, 0, INT64_MAX, &planned);
    json_decref(run);
    ft_arena_free(&arena);
    FT_TRY(status);
    if (!ended || planned == 0 || planned >= t->room.plan.total_steps) return FT_OK;
    ft_fail(FT_INVALID, t->dir, "this run ended at its %lld steps, and its last checkpoint is gone: it cannot go on to %lld", (long long)planned,
            (long long)t->room.plan.total_steps);
    ft_hint("a run keeps its last one by itself, a trial of a study where study.keep_pruned gives room; so many steps from the first on: "
            "ftengine train %s/config.ini output.exists=new %s=%lld", t->dir, steps_key, (long long)t->room.plan.total_steps);
    return FT_INVALID;
}
