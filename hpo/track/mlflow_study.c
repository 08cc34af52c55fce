#include "hpo/track/mlflow_study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/track/mlflow_run.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct told_trial {
    bool ended, open; // all of it was told; its lines are being read
    ft_feed feed;
} told_trial;

typedef struct tracked {
    const ft_study_place *place;
    const char *path; // mlflow.json
    bool live, changed;
    json_t *file, *record, *trials; // all of it, the study's record, the trials' by number
    ft_storage *storage;
    ft_stored *study;
    told_trial *trial; // [trial_count]
    int64_t trial_count;
    ft_arena arena;
} tracked;

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

// ---- a trial ------------------------------------------------------------------------------------------------------

// The same for all who ever tell of it, so that nobody makes a second run.
static ft_status record_of(tracked *t, int64_t number, json_t **record) {
    char key[24], id[80];
    bool failed = false;
    snprintf(key, sizeof key, "%lld", (long long)number);
    *record = json_object_get(t->trials, key);
    if (*record != NULL && text_of(*record, "id") != NULL) return FT_OK;
    snprintf(id, sizeof id, "%.40s-%lld", text_of(t->record, "id"), (long long)number);
    *record = json_pack("{s:s}", "id", id);
    ft_json_put(t->trials, key, *record, &failed);
    t->changed = true;
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

static const char *value_text(const ft_distribution *distribution, double value, char out[400]) {
    if (distribution->kind != FT_CATEGORICAL) {
        ft_shortest_double(value, out);
        return out;
    }
    const ft_choice *c = &distribution->choices[(int)value];
    switch (c->kind) {
    case FT_CHOICE_NULL: return "None";
    case FT_CHOICE_BOOL: return c->integer ? "true" : "false";
    case FT_CHOICE_INT: snprintf(out, 400, "%lld", (long long)c->integer); return out;
    case FT_CHOICE_FLOAT: ft_shortest_double(c->number, out); return out;
    default: return c->text;
    }
}

static ft_status tell_params(tracked *t, ft_mlflow *client, const ft_trial *trial, json_t *record) {
    ft_mlflow_batch batch;
    bool failed = false;
    if (json_is_true(json_object_get(record, "params"))) return FT_OK;
    FT_TRY(ft_mlflow_batch_open(&batch));
    for (int i = 0; i < trial->param_count; i++) {
        const ft_trial_param *p = &trial->params[i];
        char text[400];
        ft_mlflow_param(&batch, t->study->trials.names.name[p->name],
                        value_text(t->study->trials.distributions[p->distribution], p->value, text), &failed);
    }
    ft_status status = failed ? ft_fail_memory(0, "a request") : ft_mlflow_log(client, record, &batch);
    ft_mlflow_batch_close(&batch);
    FT_TRY(status);
    ft_json_put(record, "params", json_true(), &failed);
    t->changed = true;
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

// Attributes of the trial: numbers are figures of its end (evaluations have their own lines), texts are tags.
static ft_status add_attributes(tracked *t, int64_t number, int64_t step, int64_t time, ft_mlflow_batch *batch,
                                bool *oom) {
    ft_attribute *list;
    int count;
    bool failed = false;
    ft_arena arena = {0};
    ft_status status = ft_stored_attributes(t->study, number, FT_USER_ATTRIBUTE, &arena, &list, &count);
    for (int i = 0; status == FT_OK && i < count; i++) {
        json_t *value = NULL;
        double figure;
        status = ft_pyjson_parse(list[i].json, list[i].key, &value);
        if (status != FT_OK) break;
        const char *key = list[i].key;
        if (strcmp(key, "oom") == 0)
            *oom = json_is_true(value);
        else if (ft_pyjson_number(value, &figure)) {
            if (strncmp(key, "eval_", 5) != 0) ft_mlflow_metric(batch, key, figure, step, time, &failed);
        } else if (json_is_string(value) && strcmp(key, "directory") != 0)
            ft_mlflow_tag(batch, strcmp(key, "error") == 0 ? "error_message" : key, json_string_value(value), &failed);
        json_decref(value);
    }
    ft_arena_free(&arena);
    return status == FT_OK && failed ? ft_fail_memory(0, "a request") : status;
}

static int64_t last_step(const ft_trial *trial, const json_t *record) {
    int64_t step = json_integer_value(json_object_get(record, "train_step"));
    if (trial->report_count > 0 && trial->reports[trial->report_count - 1].step > step)
        step = trial->reports[trial->report_count - 1].step;
    return step > 0 ? step : 0;
}

static ft_status tell_trial_end(tracked *t, ft_mlflow *client, const ft_trial *trial, int64_t ended, json_t *record) {
    ft_mlflow_batch batch;
    bool failed = false, oom = false;
    const int64_t step = last_step(trial, record);
    FT_TRY(ft_mlflow_batch_open(&batch));
    for (int i = 0; i < trial->value_count; i++) {
        char key[24] = "value";
        if (t->study->trials.objectives > 1) snprintf(key, sizeof key, "value_%d", i);
        ft_mlflow_metric(&batch, key, trial->values[i], step, ended, &failed);
    }
    ft_mlflow_tag(&batch, "ftengine.state", ft_trial_state_name(trial->state), &failed);
    if (trial->state == FT_PRUNED) ft_mlflow_tag(&batch, "pruned", "true", &failed);
    ft_status status = add_attributes(t, trial->number, step, ended, &batch, &oom);
    if (oom) ft_mlflow_tag(&batch, "oom", "true", &failed);
    if (status == FT_OK) status = failed ? ft_fail_memory(0, "a request") : ft_mlflow_log(client, record, &batch);
    ft_mlflow_batch_close(&batch);
    FT_TRY(status);
    t->changed = true;
    FT_TRY(ft_mlflow_end(client, record, trial->state == FT_FAIL || oom ? "FAILED" : "FINISHED", ended));
    ft_json_put(record, "ended", json_true(), &failed);
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

static ft_status open_feed(tracked *t, int64_t number) {
    told_trial *told = &t->trial[number];
    char directory[4096];
    if (told->open) return FT_OK;
    snprintf(directory, sizeof directory, "%s/trials/%05lld", t->place->directory, (long long)number);
    FT_TRY(ft_feed_open(directory, &told->feed));
    told->open = true;
    return ft_feed_look(&told->feed);
}

static ft_status tell_trial(tracked *t, ft_mlflow *client, const char *experiment, int64_t number, bool last) {
    const ft_trial *trial = &t->study->trials.trial[number];
    told_trial *told = &t->trial[number];
    json_t *record;
    char name[40], digits[24];
    int64_t started, ended;
    bool changed = false;
    if (told->ended || trial->state == FT_WAITING) return FT_OK;
    FT_TRY(record_of(t, number, &record));
    told->ended = json_is_true(json_object_get(record, "ended"));
    if (told->ended) return FT_OK;
    FT_TRY(ft_stored_times(t->study, number, &started, &ended));
    snprintf(name, sizeof name, "trial %lld", (long long)number);
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    json_t *tags = json_pack("{s:s}", "ftengine.trial", digits);
    const ft_mlflow_request request = {.experiment = experiment,
                                       .name = name,
                                       .source = "ftengine tune",
                                       .parent = text_of(t->record, "run_id"),
                                       .started = started >= 0 ? started / 1000 : now_ms(),
                                       .tags = tags};
    ft_status status =
        tags != NULL ? ft_mlflow_begin(client, record, &request, &changed) : ft_fail_memory(0, "a request");
    json_decref(tags);
    t->changed = t->changed || changed;
    FT_TRY(status);
    FT_TRY(open_feed(t, number));
    FT_TRY(tell_params(t, client, trial, record));
    FT_TRY(ft_mlflow_tell_lines(client, record, &told->feed, &t->changed));
    if (ft_trial_finished(trial->state)) {
        FT_TRY(tell_trial_end(t, client, trial, ended >= 0 ? ended / 1000 : now_ms(), record));
        told->ended = true;
        ft_feed_close(&told->feed);
        told->open = false;
    } else if (last && t->live) { // its coordinator is gone, and it waits for another
        t->changed = true;
        return ft_mlflow_end(client, record, "KILLED", now_ms());
    }
    return FT_OK;
}

// ---- the study ----------------------------------------------------------------------------------------------------

static ft_status read_study(tracked *t) {
    if (t->storage == NULL) FT_TRY(ft_storage_open(t->place->url, FT_STORAGE_READ, &t->storage));
    if (t->study == NULL)
        FT_TRY(ft_stored_open(t->storage, t->place->name, &t->study));
    else
        FT_TRY(ft_stored_refresh(t->study));
    const int64_t count = t->study->trials.count;
    told_trial *grown = ft_realloc(t->trial, (size_t)count + 1, sizeof *grown, "trials that MLflow is told of");
    if (grown == NULL) return FT_NO_MEMORY;
    if (count > t->trial_count) memset(grown + t->trial_count, 0, (size_t)(count - t->trial_count) * sizeof *grown);
    t->trial = grown;
    t->trial_count = count;
    return FT_OK;
}

// Of the first objective; NaN: there is none.
static double best_value(const ft_trials *trials) {
    double best = NAN;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (trial->state != FT_COMPLETE || ft_trial_violation(trial) > 0) continue;
        if (isnan(best) || (trials->maximize[0] ? trial->values[0] > best : trial->values[0] < best))
            best = trial->values[0];
    }
    return best;
}

// The study's own counts, as its attributes have them, when another trial has ended.
static ft_status tell_counts(tracked *t, ft_mlflow *client) {
    static const char *const names[] = {"completed_trials", "pruned_trials", "failed_trials", "oom_trials"};
    ft_mlflow_batch batch;
    ft_arena arena = {0};
    bool failed = false;
    int64_t finished = 0;
    const int64_t time = now_ms();
    for (int64_t i = 0; i < t->study->trials.count; i++)
        finished += ft_trial_finished(t->study->trials.trial[i].state);
    if (finished == json_integer_value(json_object_get(t->record, "finished"))) return FT_OK;
    FT_TRY(ft_mlflow_batch_open(&batch));
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < sizeof names / sizeof names[0]; i++) {
        const char *json;
        status = ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, names[i], &arena, &json);
        if (status == FT_OK && json != NULL)
            ft_mlflow_metric(&batch, names[i], strtod(json, NULL), finished, time, &failed);
    }
    const double best = best_value(&t->study->trials);
    if (!isnan(best)) ft_mlflow_metric(&batch, "best_value", best, finished, time, &failed);
    if (status == FT_OK) status = failed ? ft_fail_memory(0, "a request") : ft_mlflow_log(client, t->record, &batch);
    ft_mlflow_batch_close(&batch);
    ft_arena_free(&arena);
    FT_TRY(status);
    ft_json_put(t->record, "finished", json_integer((json_int_t)finished), &failed);
    t->changed = true;
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

static ft_status tell_end(tracked *t, ft_mlflow *client) {
    static const char *const names[] = {"config.ini", "best.ini", "report.html"};
    bool running = false;
    for (int64_t i = 0; i < t->study->trials.count; i++)
        running = running || t->study->trials.trial[i].state == FT_RUNNING;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = ft_path_join(&t->arena, t->place->directory, names[i]);
        if (path == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_mlflow_artifact(client, t->record, path, names[i]));
    }
    if (running && !t->live) return FT_OK; // somebody else's coordinator is at it
    t->changed = true;
    return ft_mlflow_end(client, t->record, running ? "KILLED" : "FINISHED", now_ms());
}

static ft_status tell_all(tracked *t, ft_mlflow *client, const char *experiment, bool last) {
    bool changed = false;
    FT_TRY(read_study(t));
    json_t *tags = json_pack("{s:s}", "ftengine.study", t->study->name);
    const ft_mlflow_request request = {
        .experiment = experiment, .name = t->study->name, .source = "ftengine tune", .started = now_ms(), .tags = tags};
    ft_status status =
        tags != NULL ? ft_mlflow_begin(client, t->record, &request, &changed) : ft_fail_memory(0, "a request");
    json_decref(tags);
    t->changed = t->changed || changed;
    FT_TRY(status);
    for (int64_t i = 0; i < t->study->trials.count; i++)
        FT_TRY(tell_trial(t, client, experiment, i, last));
    FT_TRY(tell_counts(t, client));
    return last ? tell_end(t, client) : FT_OK;
}

// The study's run was deleted there: a new one, with all that has been.
static ft_status begin_anew(tracked *t) {
    for (int64_t i = 0; i < t->trial_count; i++) {
        ft_feed_close(&t->trial[i].feed);
        t->trial[i] = (told_trial){.ended = false};
    }
    return json_object_clear(t->trials) == 0 ? FT_OK : ft_fail_memory(0, "a record");
}

static ft_status tell(void *context, ft_mlflow *client, const char *experiment, bool last) {
    tracked *t = context;
    const ft_status status = tell_all(t, client, experiment, last);
    ft_error error;
    ft_error_save(&error);
    if (text_of(t->record, "run_id") == NULL && json_object_size(t->trials) > 0) (void)begin_anew(t);
    const ft_status saved =
        t->changed ? ft_json_save(t->path, t->file) : FT_OK; // also of what went well before something failed
    t->changed = t->changed && saved != FT_OK;
    if (status == FT_OK) return saved;
    ft_error_restore(&error);
    return status;
}

static void look(void *context) {
    tracked *t = context;
    for (int64_t i = 0; i < t->trial_count; i++)
        if (t->trial[i].open && ft_feed_look(&t->trial[i].feed) != FT_OK) ft_error_clear(); // the next look sees it all
}

static ft_status open_records(tracked *t) {
    bool failed = false;
    t->path = ft_path_join(&t->arena, t->place->directory, "mlflow.json");
    if (t->path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_follow_load(t->path, &t->file));
    if (json_object_get(t->file, "study") == NULL) {
        json_t *record = ft_mlflow_record();
        if (record == NULL) return FT_FAILED;
        ft_json_put(t->file, "study", record, &failed);
        ft_json_put(t->file, "trials", json_object(), &failed);
        if (failed) return ft_fail_memory(0, "a record");
        FT_TRY(ft_json_save(t->path, t->file));
    }
    t->record = json_object_get(t->file, "study");
    t->trials = json_object_get(t->file, "trials");
    if (json_is_object(t->record) && json_is_object(t->trials) && text_of(t->record, "id") != NULL) return FT_OK;
    return ft_fail(FT_INVALID, t->path, "this is no record of what MLflow was told");
}

ft_status ft_mlflow_track_study(const ft_follow *follow, const ft_study_place *place) {
    int lock;
    tracked t = {.place = place, .live = follow->live};
    FT_TRY(ft_follow_lock(follow, place->directory, &lock));
    if (lock < 0) return FT_OK;
    ft_status status = open_records(&t);
    if (status == FT_OK) status = ft_follow_all(follow, &(ft_followed){.context = &t, .look = look, .tell = tell});
    ft_error error;
    ft_error_save(&error);
    for (int64_t i = 0; i < t.trial_count; i++)
        ft_feed_close(&t.trial[i].feed);
    free(t.trial);
    ft_stored_close(t.study);
    if (t.storage != NULL && ft_storage_close(t.storage) != FT_OK) ft_error_clear(); // it was only read
    json_decref(t.file);
    ft_arena_free(&t.arena);
    close(lock);
    ft_error_restore(&error);
    return status;
}
