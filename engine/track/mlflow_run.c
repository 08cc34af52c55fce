#include "engine/track/mlflow_run.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/track/machine.h"
#include "engine/track/mlflow_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

ft_status ft_mlflow_tell_lines(ft_mlflow *client, json_t *record, ft_feed *feed, bool *changed) {
    for (;;) {
        ft_mlflow_batch batch;
        ft_feed_piece piece;
        FT_TRY(ft_mlflow_batch_open(&batch));
        ft_status status = ft_feed_take(feed, record, &batch, &piece);
        if (status == FT_OK && piece.lines > 0) status = ft_mlflow_log(client, record, &batch);
        ft_mlflow_batch_close(&batch);
        FT_TRY(status);
        if (piece.lines == 0) return FT_OK;
        FT_TRY(ft_feed_told(feed, record, &piece));
        *changed = true;
    }
}

// ---- run.json -----------------------------------------------------------------------------------------------------

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

const char *ft_mlflow_status_of(const json_t *run) {
    const char *status = text_of(run, "status");
    if (status == NULL || strcmp(status, "interrupted") == 0) return "KILLED";
    return strcmp(status, "completed") == 0 ? "FINISHED" : "FAILED";
}

// PREFIXkey of every number in an object.
static void add_numbers(ft_mlflow_batch *b, const json_t *object, const char *prefix, int64_t step, int64_t time,
                        bool *failed) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char name[250];
        snprintf(name, sizeof name, "%s%.200s", prefix, key);
        if (json_is_number(value)) ft_mlflow_metric(b, name, json_number_value(value), step, time, failed);
    }
}

ft_status ft_mlflow_figures(const json_t *run, int64_t step, int64_t time, ft_mlflow_batch *b) {
    bool failed = false;
    const char *key, *error = text_of(run, "error"), *status = text_of(run, "status"), *device = text_of(run, "device");
    const json_t *value, *memory = json_object_get(run, "memory"), *seconds = json_object_get(run, "seconds"),
                         *best = json_object_get(run, "best");
    json_object_foreach(json_object_get(run, "metrics"), key, value) // evaluations have their own lines
        if (json_is_number(value) && strncmp(key, "eval_", 5) != 0)
            ft_mlflow_metric(b, key, json_number_value(value), step, time, &failed);
    if (json_is_number(json_object_get(seconds, "total")))
        ft_mlflow_metric(b, "train_runtime", json_number_value(json_object_get(seconds, "total")), step, time, &failed);
    if (json_number_value(json_object_get(seconds, "train")) > 0)
        ft_mlflow_metric(b, "train_steps_per_second",
                         json_number_value(json_object_get(run, "steps")) /
                             json_number_value(json_object_get(seconds, "train")),
                         step, time, &failed);
    if (json_is_number(json_object_get(best, "value"))) {
        ft_mlflow_metric(b, "best_value", json_number_value(json_object_get(best, "value")), step, time, &failed);
        ft_mlflow_metric(b, "best_step", json_number_value(json_object_get(best, "step")), step, time, &failed);
    }
    add_numbers(b, memory, "memory/", step, time, &failed);
    add_numbers(b, json_object_get(memory, "at_peak"), "memory/at_peak/", step, time, &failed);
    add_numbers(b, json_object_get(run, "planned"), "planned/", step, time, &failed);
    if (status != NULL) ft_mlflow_tag(b, "ftengine.status", status, &failed);
    if (device != NULL) ft_mlflow_tag(b, "ftengine.device", device, &failed);
    if (error != NULL) ft_mlflow_tag(b, "error_message", error, &failed);
    if (status != NULL && strcmp(status, "oom") == 0) ft_mlflow_tag(b, "oom_error", "true", &failed);
    return failed ? ft_fail_memory(0, "a request") : FT_OK;
}

// ---- a run --------------------------------------------------------------------------------------------------------

typedef struct tracked {
    const char *directory, *name, *config, *json, *path; // config.ini, run.json, mlflow.json
    bool live, model;
    time_t began;    // what run.json says is older than that is of an earlier session
    int64_t started; // milliseconds
    json_t *record;
    ft_feed feed;
    ft_machine *machine;
    ft_arena arena;
} tracked;

static int64_t changed_ms(const char *path, int64_t otherwise) {
    struct stat file;
    return stat(path, &file) == 0 ? (int64_t)file.st_mtim.tv_sec * 1000 + file.st_mtim.tv_nsec / 1000000 : otherwise;
}

static void look(void *context) {
    tracked *t = context;
    if (ft_feed_look(&t->feed) != FT_OK) ft_error_clear(); // the next look sees it all
    if (t->live) ft_machine_look(t->machine);
}

// Params cannot change there: a run that goes on with others keeps those that it began with.
static ft_status tell_params(tracked *t, ft_mlflow *client) {
    ft_config config;
    ft_mlflow_batch batch;
    bool failed = false;
    if (json_is_true(json_object_get(t->record, "params"))) return FT_OK;
    FT_TRY(ft_config_load(&config, 1, &t->config, 0, NULL));
    ft_status status = ft_mlflow_batch_open(&batch);
    for (int i = 0; status == FT_OK && i < ft_option_count(); i++) {
        char text[4400];
        status = ft_option_text(&config, i, text, sizeof text);
        if (status == FT_OK) ft_mlflow_param(&batch, ft_option_name(i), text, &failed);
    }
    if (status == FT_OK && failed) status = ft_fail_memory(0, "a request");
    if (status == FT_OK) status = ft_mlflow_log(client, t->record, &batch);
    ft_mlflow_batch_close(&batch);
    ft_config_free(&config);
    FT_TRY(status);
    ft_json_put(t->record, "params", json_true(), &failed);
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

static ft_status tell_machine(tracked *t, ft_mlflow *client) {
    ft_mlflow_batch batch;
    if (t->machine->count == 0) return FT_OK;
    FT_TRY(ft_mlflow_batch_open(&batch));
    ft_status status = ft_machine_take(t->machine, t->record, &batch);
    if (status == FT_OK) status = ft_mlflow_log(client, t->record, &batch);
    ft_mlflow_batch_close(&batch);
    return status == FT_OK ? ft_machine_told(t->machine, t->record) : status;
}

static ft_status tell_files(tracked *t, ft_mlflow *client) {
    static const char *const names[] = {"config.ini", "run.json", "train.log", "report.html"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = ft_path_join(&t->arena, t->directory, names[i]);
        if (path == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_mlflow_artifact(client, t->record, path, names[i]));
    }
    return FT_OK;
}

// Of a run that was killed there is no run.json, or an older one.
static ft_status tell_end(tracked *t, ft_mlflow *client) {
    json_t *run = NULL;
    ft_mlflow_batch batch;
    struct stat file;
    const int64_t time = changed_ms(t->json, now_ms());
    if (stat(t->json, &file) == 0 && (!t->live || file.st_mtim.tv_sec >= t->began)) FT_TRY(ft_json_load(t->json, &run));
    ft_status status = ft_mlflow_batch_open(&batch);
    if (status == FT_OK && run != NULL)
        status = ft_mlflow_figures(run, json_integer_value(json_object_get(run, "steps")), time, &batch);
    if (status == FT_OK) status = ft_mlflow_log(client, t->record, &batch);
    ft_mlflow_batch_close(&batch);
    if (status == FT_OK) status = tell_files(t, client);
    if (status == FT_OK)
        status = ft_mlflow_end(client, t->record, ft_mlflow_status_of(run), run != NULL ? time : now_ms());
    // Behind the end: whatever becomes of a large file, the run does not stay RUNNING.
    if (status == FT_OK && t->model) status = ft_mlflow_tell_model(client, t->record, t->directory);
    json_decref(run);
    return status;
}

static ft_status tell_all(tracked *t, ft_mlflow *client, const char *experiment, bool last, bool *changed) {
    const ft_mlflow_request request = {
        .experiment = experiment, .name = t->name, .source = "ftengine train", .started = t->started};
    FT_TRY(ft_mlflow_begin(client, t->record, &request, changed));
    if (*changed) FT_TRY(ft_json_save(t->path, t->record)); // before anything is said under this name
    *changed = *changed || !json_is_true(json_object_get(t->record, "params")) || t->machine->count > 0;
    FT_TRY(tell_params(t, client));
    FT_TRY(ft_mlflow_tell_lines(client, t->record, &t->feed, changed));
    FT_TRY(tell_machine(t, client));
    if (!last) return FT_OK;
    *changed = true;
    return tell_end(t, client);
}

static ft_status tell(void *context, ft_mlflow *client, const char *experiment, bool last) {
    tracked *t = context;
    bool changed = false;
    ft_status status = tell_all(t, client, experiment, last, &changed);
    if (json_object_get(t->record, "run_id") == NULL)
        t->feed.offset = t->feed.seen = t->feed.count = 0; // a new run: all of it again
    if (!changed) return status;
    ft_error error;
    ft_error_save(&error);
    const ft_status saved = ft_json_save(t->path, t->record); // also of what went well before something failed
    if (status == FT_OK) return saved;
    ft_error_restore(&error);
    return status;
}

static ft_status open_run(tracked *t) {
    const char *slash = strrchr(t->directory, '/');
    t->name = slash != NULL && slash[1] != '\0' ? slash + 1 : t->directory;
    if (strncmp(t->name, "seed-", 5) == 0 || strncmp(t->name, "fold-", 5) == 0 || strncmp(t->name, "share-", 6) == 0) // of several: "reviews-001/seed-2"
        while (slash > t->directory && *--slash != '/') t->name = slash;
    t->config = ft_path_join(&t->arena, t->directory, "config.ini");
    t->json = ft_path_join(&t->arena, t->directory, "run.json");
    t->path = ft_path_join(&t->arena, t->directory, "mlflow.json");
    if (t->config == NULL || t->json == NULL || t->path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(t->config))
        return ft_fail(FT_INVALID, t->directory, "this is no run directory: it has no config.ini");
    t->started = changed_ms(t->config, now_ms());
    t->machine = ft_calloc(1, sizeof *t->machine, "samples of the machine");
    if (t->machine == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_feed_open(t->directory, &t->feed));
    FT_TRY(ft_follow_load(t->path, &t->record));
    if (json_object_get(t->record, "id") != NULL) return FT_OK;
    json_decref(t->record);
    t->record = ft_mlflow_record();
    return t->record != NULL ? ft_json_save(t->path, t->record) : FT_FAILED;
}

ft_status ft_mlflow_track_run(const ft_follow *follow, const char *directory) {
    int lock;
    tracked t = {.live = follow->live, .model = follow->model, .began = time(NULL) - 1};
    t.directory = ft_path_absolute(&t.arena, NULL, directory);
    ft_status status = t.directory == NULL ? ft_error_code()
                       : ft_path_is_directory(t.directory)
                           ? ft_follow_lock(follow, t.directory, &lock)
                           : ft_fail(FT_INVALID, directory, "there is no such directory");
    if (status == FT_OK && lock >= 0) {
        status = open_run(&t);
        if (status == FT_OK) status = ft_follow_all(follow, &(ft_followed){.context = &t, .look = look, .tell = tell});
        close(lock);
    }
    ft_feed_close(&t.feed);
    json_decref(t.record);
    free(t.machine);
    ft_arena_free(&t.arena);
    return status;
}
