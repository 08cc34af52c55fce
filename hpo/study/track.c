// track.c - who else is told of a study: TensorBoard of a trial's parameters and objectives, people of ends and
// trouble.
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/track/notice.h"
#include "engine/track/notify.h"
#include "engine/track/tensorboard.h"

#include <stdio.h>
#include <string.h>

static ft_status read_params(const ft_tuning *t, const ft_trial *trial, ft_arena *arena, ft_hparam *out) {
    for (int i = 0; i < trial->param_count; i++) {
        const ft_trial_param *p = &trial->params[i];
        const char *name = t->study->trials.names.name[p->name];
        const ft_space_rule *rule = ft_space_find(&t->space, name);
        out[i] = (ft_hparam){.name = name, .number = p->value};
        if (rule == NULL || rule->distribution.kind != FT_CATEGORICAL) continue;
        out[i].text = ft_space_value_text(rule, p->value, arena);
        if (out[i].text == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status write_summary(const ft_tuning *t, int64_t number, ft_arena *arena) {
    const ft_trial *trial = &t->study->trials.trial[number];
    const char *directory = ft_tuning_trial_directory(t, number, arena), *names[FT_OBJECTIVE_LIMIT];
    ft_hparam *params = ft_arena_alloc(arena, (size_t)(trial->param_count + 1) * sizeof *params);
    if (directory == NULL || params == NULL) return FT_NO_MEMORY;
    if (!ft_path_is_directory(directory)) return FT_OK; // refused before it had one
    int64_t started, ended;
    FT_TRY(ft_stored_times(t->study, number, &started, &ended));
    FT_TRY(read_params(t, trial, arena, params));
    for (int i = 0; i < t->objectives.count; i++)
        names[i] = t->objectives.list[i].name;
    const int values = t->objectives.count;
    const ft_trial_summary summary = {.number = number,
                                      .step =
                                          trial->report_count > 0 ? trial->reports[trial->report_count - 1].step : 0,
                                      .started = (double)started * 1e-6,
                                      .ended = (double)ended * 1e-6,
                                      .success = trial->state == FT_COMPLETE,
                                      .params = trial->param_count,
                                      .param = params,
                                      .values = values,
                                      .objective = names,
                                      .value = trial->value_count == values ? trial->values : NULL};
    return ft_tensorboard_trial(directory, &summary);
}

static void show_on_board(const ft_tuning *t, int64_t number) {
    ft_arena arena = {0};
    if (write_summary(t, number, &arena) != FT_OK) {
        ft_error error;
        ft_error_save(&error);
        ft_warn("trial %lld is not on TensorBoard's HPARAMS page: %s (%s)", (long long)number, error.message,
                error.where);
        ft_error_clear();
    }
    ft_arena_free(&arena);
}

// ---- people -------------------------------------------------------------------------------------------------------

typedef struct tally {
    int64_t state[5], finished, ooms;
} tally;

static tally count(const ft_tuning *t) {
    tally c = {.ooms = t->ooms};
    for (int64_t i = 0; i < t->study->trials.count; i++)
        c.state[t->study->trials.trial[i].state]++;
    c.finished = c.state[FT_COMPLETE] + c.state[FT_PRUNED] + c.state[FT_FAIL];
    return c;
}

// "baseline: 120 of 500 trials, best eval.accuracy 0.931 (trial 87), 2 failed, 5 out of memory: WHY"
static char *study_text(const ft_tuning *t, const tally *c, int64_t best, const char *why, ft_arena *arena) {
    char of[40] = "", figure[200] = "", failed[40] = "", ooms[60] = "", value[FT_FIGURE_TEXT];
    const char *name = t->objectives.list[0].name;
    if (t->goal > 0) snprintf(of, sizeof of, " of %lld", (long long)t->goal);
    if (best >= 0)
        snprintf(figure, sizeof figure, ", best %.100s %s (trial %lld)", name,
                 ft_figure_text(name, t->study->trials.trial[best].values[0], 4, value), (long long)best);
    if (c->state[FT_FAIL] > 0) snprintf(failed, sizeof failed, ", %lld failed", (long long)c->state[FT_FAIL]);
    if (c->ooms > 0) snprintf(ooms, sizeof ooms, ", %lld out of memory", (long long)c->ooms);
    return ft_arena_format(arena, "%s: %lld%s trials%s%s%s%s%s", t->place.name, (long long)c->finished, of, figure,
                           failed, ooms, why[0] != '\0' ? ": " : "", why);
}

static json_t *params_json(const ft_tuning *t, int64_t number, ft_arena *arena, bool *failed) {
    const ft_trial *trial = &t->study->trials.trial[number];
    ft_hparam *params = ft_arena_alloc(arena, (size_t)(trial->param_count + 1) * sizeof *params);
    json_t *object = json_object();
    if (params == NULL || read_params(t, trial, arena, params) != FT_OK) *failed = true;
    for (int i = 0; !*failed && i < trial->param_count; i++)
        ft_json_put(object, params[i].name,
                    params[i].text != NULL ? ft_json_text(params[i].text) : json_real(params[i].number), failed);
    return object;
}

static json_t *notice_of(const ft_tuning *t, const char *event, const char *why, int64_t number, ft_arena *arena) {
    const tally c = count(t);
    const int64_t best = ft_tuning_best(t), shown = number >= 0 ? number : best;
    const char *text = study_text(t, &c, best, why, arena);
    json_t *notice = text != NULL ? ft_notice(event, text) : NULL;
    if (notice == NULL) return NULL;
    bool failed = false;
    ft_json_put(notice, "study", ft_json_text(t->place.name), &failed);
    ft_json_put(notice, "directory", ft_json_text(t->directory), &failed);
    if (why[0] != '\0') ft_json_put(notice, "error", ft_json_text(why), &failed);
    if (shown >= 0) {
        const ft_trial *trial = &t->study->trials.trial[shown];
        ft_json_put(notice, "trial", json_integer((json_int_t)shown), &failed);
        if (trial->value_count > 0) ft_json_put(notice, "value", json_real(trial->values[0]), &failed);
        ft_json_put(notice, "params", params_json(t, shown, arena, &failed), &failed);
    }
    ft_json_put(notice, "counts",
                json_pack("{s:I, s:I, s:I, s:I}", "completed_trials", (json_int_t)c.state[FT_COMPLETE], "pruned_trials",
                          (json_int_t)c.state[FT_PRUNED], "failed_trials", (json_int_t)c.state[FT_FAIL], "oom_trials",
                          (json_int_t)c.ooms),
                &failed);
    if (!failed) return notice;
    json_decref(notice);
    ft_fail_memory(0, "a notice");
    return NULL;
}

void ft_tuning_tell(ft_tuning *t, const char *event, const char *why, int64_t number) {
    ft_arena arena = {0};
    ft_error error;
    if (t->notifier == NULL) return;
    ft_error_save(&error);
    ft_notify(t->notifier, notice_of(t, event, why, number, &arena));
    ft_arena_free(&arena);
    ft_error_restore(&error);
}

// A study that will be opened again is at no end; that it pauses is told elsewhere.
void ft_tuning_tell_end(ft_tuning *t, ft_status outcome) {
    ft_error error;
    if (outcome == FT_OK) {
        ft_tuning_tell(t, "study.finished", "", -1);
        return;
    }
    if (ft_error_disk_full() || ft_error_locked()) return;
    ft_error_save(&error);
    const bool asked = outcome == FT_INTERRUPTED || outcome == FT_TERMINATED;
    ft_tuning_tell(t, asked ? "study.stopped" : "study.failed", error.message, -1);
}

// The first trial that went wrong, and every tenth: the others are like them.
static void tell_of_trouble(ft_tuning *t, int64_t number) {
    enum { EVERY = 10 };
    const char *text = NULL; // JSON
    ft_arena arena = {0};
    const ft_trial_state state = t->study->trials.trial[number].state;
    const bool failed = state == FT_FAIL;
    const char *key = failed ? "error" : "oom_error";
    if (state == FT_COMPLETE || t->notifier == NULL) return;
    if (ft_tuning_ended_last(t, number) && strcmp(t->ended.status, "pruned") == 0) return;
    ft_status status = ft_stored_attribute(t->study, number, FT_USER_ATTRIBUTE, key, &arena, &text);
    int64_t *told = failed ? &t->failed_trials : &t->oom_trials;
    if (status != FT_OK)
        ft_error_clear(); // then without the reason
    else if ((failed || text != NULL) && (*told)++ % EVERY == 0) {
        json_t *why = NULL; // [text]: a value alone is no document
        const char *document = text != NULL ? ft_arena_format(&arena, "[%s]", text) : NULL;
        if (document != NULL && ft_json_parse(document, strlen(document), "", &why) != FT_OK) ft_error_clear(); // then without the reason
        ft_tuning_tell(t, failed ? "trial.failed" : "trial.oom", json_is_string(json_array_get(why, 0)) ? json_string_value(json_array_get(why, 0)) : "",
                       number);
        json_decref(why);
    }
    ft_arena_free(&arena);
}

void ft_tuning_track(ft_tuning *t, int64_t number) {
    if (t->config->track.tensorboard) show_on_board(t, number);
    tell_of_trouble(t, number);
}
