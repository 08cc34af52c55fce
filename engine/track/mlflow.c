#include "engine/track/mlflow.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"
#include "engine/track/web.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

enum { MOST_METRICS = 800, MOST_OTHERS = 100 }; // 1000 in a batch, of which 100 params and 100 tags

struct ft_mlflow {
    ft_web *web;
    const char *uri;             // without a slash at its end
    const char *user, *password; // of the environment; NULL: none
    char *bearer;                // a header line
    double patience;
    ft_arena arena;
};

// ---- the server ---------------------------------------------------------------------------------------------------

static const char *set(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static ft_status fill(const char *uri, ft_mlflow *m) {
    size_t length = strlen(uri);
    while (length > 0 && uri[length - 1] == '/')
        length--;
    m->uri = ft_arena_strndup(&m->arena, uri, length);
    m->user = set("MLFLOW_TRACKING_USERNAME");
    m->password = set("MLFLOW_TRACKING_PASSWORD");
    const char *token = set("MLFLOW_TRACKING_TOKEN"), *insecure = set("MLFLOW_TRACKING_INSECURE_TLS");
    for (const char *c = token; c != NULL && *c != '\0'; c++) // a line break would begin another header
        if (!isgraph((unsigned char)*c))
            return ft_fail(FT_INVALID, "MLFLOW_TRACKING_TOKEN", "holds characters that no token has");
    if (m->user == NULL && token != NULL) m->bearer = ft_arena_format(&m->arena, "Authorization: Bearer %s", token);
    if (m->uri == NULL || (m->user == NULL && token != NULL && m->bearer == NULL)) return FT_NO_MEMORY;
    return ft_web_open(insecure != NULL && (strcasecmp(insecure, "true") == 0 || strcmp(insecure, "1") == 0),
                       set("MLFLOW_TRACKING_SERVER_CERT_PATH"), &m->web);
}

ft_status ft_mlflow_open(const char *uri, ft_mlflow **client) {
    *client = NULL;
    if (!ft_web_is_address(uri)) return ft_fail(FT_INVALID, "track.mlflow", "this is no address of a server");
    ft_mlflow *m = ft_calloc(1, sizeof *m, "a tracker");
    if (m == NULL) return FT_NO_MEMORY;
    m->patience = 20;
    const ft_status status = fill(uri, m);
    if (status == FT_OK) return *client = m, FT_OK;
    ft_mlflow_close(m);
    return status;
}

void ft_mlflow_close(ft_mlflow *m) {
    if (m == NULL) return;
    ft_web_close(m->web);
    if (m->bearer != NULL) explicit_bzero(m->bearer, strlen(m->bearer));
    ft_arena_free(&m->arena);
    free(m);
}

void ft_mlflow_patience(ft_mlflow *m, double seconds) { m->patience = seconds; }

// MLflow's own words where it has any.
static ft_status refused(const ft_mlflow *m, const char *path, int code, const json_t *answer) {
    char host[200];
    const char *message = json_string_value(json_object_get(answer, "message"));
    ft_fail(code == 401 || code == 403 ? FT_INVALID : FT_FAILED, ft_web_host(m->uri, host, sizeof host),
            "MLflow answered %d to %s%s%.400s", code, path, message != NULL ? ": " : "",
            message != NULL ? message : "");
    if (code == 401)
        ft_hint("MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, say who this is");
    if (code == 403)
        ft_hint(
            "if the server speaks of DNS rebinding, it does not know this name of its own: its option --allowed-hosts");
    return ft_error_code();
}

// *code: the answer's, 0: there was none. *answer may be NULL; body is taken.
static ft_status call(ft_mlflow *m, const char *method, const char *path, json_t *body, int *code, json_t **answer) {
    const char *headers[3] = {"Content-Type: application/json", m->bearer, NULL};
    ft_arena arena = {0};
    char *text = body != NULL ? ft_json_line(body) : NULL;
    const char *url = ft_arena_format(&arena, "%s/api/2.0/mlflow/%s", m->uri, path);
    ft_web_answer got = {.text = NULL};
    json_t *read = NULL;
    *code = 0;
    *answer = NULL;
    ft_status status = url == NULL || (body != NULL && text == NULL) ? FT_NO_MEMORY : FT_OK;
    json_decref(body);
    if (status == FT_OK)
        status = ft_web_send(m->web,
                             &(ft_web_request){.method = method,
                                               .url = url,
                                               .headers = headers,
                                               .user = m->user,
                                               .password = m->password,
                                               .body = text,
                                               .length = text != NULL ? strlen(text) : 0,
                                               .timeout = m->patience},
                             &got);
    if (status == FT_OK) {
        *code = got.status;
        if (got.text != NULL && ft_json_parse(got.text, strlen(got.text), path, &read) != FT_OK) ft_error_clear(); // said below
        if (got.status < 200 || got.status >= 300)
            status = refused(m, path, got.status, read);
        else if (!json_is_object(read))
            status = ft_fail(FT_FAILED, m->uri, "this is no MLflow: what it answers to %s is no JSON object", path);
    }
    free(got.text);
    free(text);
    ft_arena_free(&arena);
    if (status == FT_OK) return *answer = read, FT_OK;
    json_decref(read);
    return status;
}

// What only has to be done.
static ft_status post(ft_mlflow *m, const char *path, json_t *body, int *code) {
    json_t *answer;
    if (body == NULL) return ft_fail_memory(0, "a request");
    const ft_status status = call(m, "POST", path, body, code, &answer);
    json_decref(answer);
    return status;
}

// ---- experiments --------------------------------------------------------------------------------------------------

static char *escape(const char *text, ft_arena *arena) {
    char *out = ft_arena_alloc(arena, 3 * strlen(text) + 1), *to = out;
    for (; out != NULL && *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("-._~/", c) != NULL)
            *to++ = (char)c;
        else
            to += sprintf(to, "%%%02X", c);
    }
    return out;
}

static ft_status look_for_experiment(ft_mlflow *m, const char *name, int *code, json_t **answer) {
    ft_arena arena = {0};
    const char *escaped = escape(name, &arena),
               *path = escaped != NULL ? ft_arena_format(&arena, "experiments/get-by-name?experiment_name=%s", escaped)
                                       : NULL;
    const ft_status status = path != NULL ? call(m, "GET", path, NULL, code, answer) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

static ft_status take_id(const json_t *from, const char *key, char **id) {
    const char *text = json_string_value(json_object_get(from, key));
    if (text == NULL) return ft_fail(FT_FAILED, "MLflow", "its answer has no %s", key);
    *id = ft_calloc(strlen(text) + 1, 1, "an id");
    if (*id == NULL) return FT_NO_MEMORY;
    strcpy(*id, text);
    return FT_OK;
}

ft_status ft_mlflow_experiment(ft_mlflow *m, const char *name, char **id) {
    json_t *answer;
    int code = 0; // without memory there is no call
    *id = NULL;
    for (int tries = 0; tries < 2; tries++) { // two that make it at once: the second looks again
        ft_status status = look_for_experiment(m, name, &code, &answer);
        if (status == FT_OK) {
            const json_t *experiment = json_object_get(answer, "experiment");
            const char *stage = json_string_value(json_object_get(experiment, "lifecycle_stage"));
            status = stage != NULL && strcmp(stage, "deleted") == 0
                         ? ft_fail(FT_INVALID, "track.experiment",
                                   "MLflow's experiment %s is deleted: restore it, or name another", name)
                         : take_id(experiment, "experiment_id", id);
            json_decref(answer);
            return status;
        }
        if (code != 404) return status;
        ft_error_clear();
        json_t *body = json_pack("{s:s}", "name", name);
        if (body == NULL) return ft_fail_memory(0, "a request");
        status = call(m, "POST", "experiments/create", body, &code, &answer);
        if (status == FT_OK) {
            status = take_id(answer, "experiment_id", id);
            json_decref(answer);
            return status;
        }
        if (code != 400 || tries > 0) return status;
        ft_error_clear();
    }
    return FT_FAILED;
}

// ---- runs ---------------------------------------------------------------------------------------------------------

json_t *ft_mlflow_record(void) {
    unsigned char bytes[16];
    char id[33];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        ft_fail_errno(FT_FAILED, errno, NULL, "the system gives no random numbers");
        return NULL;
    }
    for (int i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    json_t *record = json_pack("{s:s}", "id", id);
    if (record == NULL) ft_fail_memory(0, "a record");
    return record;
}

static const char *text_of(const json_t *record, const char *key) {
    return json_string_value(json_object_get(record, key));
}

static ft_status keep(json_t *record, const char *key, const char *text) {
    bool failed = false;
    ft_json_put(record, key, json_string(text), &failed);
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}

static ft_status keep_run(json_t *record, const json_t *run) {
    const json_t *info = json_object_get(run, "info");
    const char *id = text_of(info, "run_id"), *uri = text_of(info, "artifact_uri");
    if (id == NULL) return ft_fail(FT_FAILED, "MLflow", "its answer has no run_id");
    FT_TRY(keep(record, "run_id", id));
    FT_TRY(keep(record, "artifacts", uri != NULL ? uri : ""));
    return keep(record, "status", "RUNNING");
}

static ft_status search(ft_mlflow *m, json_t *record, const char *experiment, bool *found) {
    char filter[100];
    json_t *answer;
    int code;
    snprintf(filter, sizeof filter, "tags.`ftengine.id` = '%.40s'", text_of(record, "id"));
    json_t *body = json_pack("{s:[s], s:s, s:i}", "experiment_ids", experiment, "filter", filter, "max_results", 1);
    if (body == NULL) return ft_fail_memory(0, "a request");
    FT_TRY(call(m, "POST", "runs/search", body, &code, &answer));
    const json_t *run = json_array_get(json_object_get(answer, "runs"), 0);
    *found = run != NULL;
    const ft_status status = *found ? keep_run(record, run) : FT_OK;
    json_decref(answer);
    return status;
}

static void add_tag(json_t *tags, const char *key, const char *value, bool *failed) {
    if (value != NULL) ft_json_append(tags, json_pack("{s:s, s:o}", "key", key, "value", ft_json_text(value)), failed);
}

static ft_status create(ft_mlflow *m, json_t *record, const ft_mlflow_request *r) {
    json_t *tags = json_array(), *answer;
    bool failed = false;
    const char *key, *user = set("USER") != NULL ? set("USER") : "unknown";
    const json_t *value;
    int code;
    add_tag(tags, "ftengine.id", text_of(record, "id"), &failed);
    add_tag(tags, "mlflow.user", user, &failed);
    add_tag(tags, "mlflow.source.name", r->source, &failed);
    add_tag(tags, "mlflow.source.type", "LOCAL", &failed);
    add_tag(tags, "mlflow.parentRunId", r->parent, &failed);
    json_object_foreach((json_t *)r->tags, key, value) add_tag(tags, key, json_string_value(value), &failed);
    json_t *body = json_pack("{s:s, s:s, s:I, s:o}", "experiment_id", r->experiment, "run_name", r->name, "start_time",
                             (json_int_t)r->started, "tags", tags);
    if (body == NULL || failed) {
        json_decref(body);
        return ft_fail_memory(0, "a request");
    }
    FT_TRY(call(m, "POST", "runs/create", body, &code, &answer));
    const ft_status status = keep_run(record, json_object_get(answer, "run"));
    json_decref(answer);
    return status;
}

// Somebody has deleted it there: what comes is a new run.
static ft_status forget(json_t *record, ft_status status) {
    ft_error error;
    json_t *fresh = ft_mlflow_record();
    ft_error_save(&error);
    if (fresh == NULL) return FT_NO_MEMORY;
    json_object_clear(record);
    const bool kept = json_object_update(record, fresh) == 0;
    json_decref(fresh);
    if (!kept) return ft_fail_memory(0, "a record");
    ft_error_restore(&error);
    return status;
}

static ft_status set_status(ft_mlflow *m, json_t *record, const char *status, int64_t time) {
    int code;
    json_t *body = json_pack("{s:s, s:s}", "run_id", text_of(record, "run_id"), "status", status);
    bool failed = body == NULL;
    if (time >= 0) ft_json_put(body, "end_time", json_integer((json_int_t)time), &failed);
    if (failed) {
        json_decref(body);
        return ft_fail_memory(0, "a request");
    }
    const ft_status told = post(m, "runs/update", body, &code);
    if (code == 404 || (code == 400 && strstr(ft_error_message(), "active") != NULL)) return forget(record, told);
    FT_TRY(told);
    return keep(record, "status", status);
}

ft_status ft_mlflow_begin(ft_mlflow *m, json_t *record, const ft_mlflow_request *request, bool *changed) {
    const char *status = text_of(record, "status");
    *changed = text_of(record, "run_id") == NULL || status == NULL || strcmp(status, "RUNNING") != 0;
    if (!*changed) return FT_OK;
    if (text_of(record, "run_id") != NULL && set_status(m, record, "RUNNING", -1) == FT_OK) return FT_OK;
    if (text_of(record, "run_id") != NULL) return ft_error_code();
    ft_error_clear(); // it was deleted there
    bool found;
    FT_TRY(search(m, record, request->experiment, &found));
    return found ? FT_OK : create(m, record, request);
}

ft_status ft_mlflow_end(ft_mlflow *m, json_t *record, const char *status, int64_t time) {
    return set_status(m, record, status, time);
}

// ---- what is logged -----------------------------------------------------------------------------------------------

ft_status ft_mlflow_batch_open(ft_mlflow_batch *b) {
    *b = (ft_mlflow_batch){json_array(), json_array(), json_array()};
    if (b->metrics != NULL && b->params != NULL && b->tags != NULL) return FT_OK;
    ft_mlflow_batch_close(b);
    return ft_fail_memory(0, "a request");
}

void ft_mlflow_batch_close(ft_mlflow_batch *b) {
    json_decref(b->metrics);
    json_decref(b->params);
    json_decref(b->tags);
    *b = (ft_mlflow_batch){0};
}

void ft_mlflow_metric(ft_mlflow_batch *b, const char *key, double value, int64_t step, int64_t time, bool *failed) {
    json_t *number = isfinite(value) ? json_real(value)
                                     : json_string(isnan(value) ? "NaN"
                                                   : value > 0  ? "Infinity"
                                                                : "-Infinity");
    ft_json_append(b->metrics,
                   json_pack("{s:s, s:o, s:I, s:I}", "key", key, "value", number, "timestamp", (json_int_t)time, "step",
                             (json_int_t)step),
                   failed);
}

void ft_mlflow_param(ft_mlflow_batch *b, const char *key, const char *value, bool *failed) {
    if (value[0] != '\0') add_tag(b->params, key, value, failed);
}

void ft_mlflow_tag(ft_mlflow_batch *b, const char *key, const char *value, bool *failed) {
    add_tag(b->tags, key, value, failed);
}

// Members from `from` on, at most `most`, of an array.
static json_t *part_of(const json_t *array, size_t from, size_t most, bool *failed) {
    json_t *part = json_array();
    for (size_t i = from; i < from + most && i < json_array_size(array); i++)
        ft_json_append(part, json_incref(json_array_get(array, i)), failed);
    return part;
}

ft_status ft_mlflow_log(ft_mlflow *m, json_t *record, const ft_mlflow_batch *b) {
    const size_t metrics = json_array_size(b->metrics), params = json_array_size(b->params),
                 tags = json_array_size(b->tags);
    for (size_t i = 0; i * MOST_METRICS < metrics || i * MOST_OTHERS < params || i * MOST_OTHERS < tags; i++) {
        bool failed = false;
        int code;
        json_t *body = json_pack("{s:s, s:o}", "run_id", text_of(record, "run_id"), "metrics",
                                 part_of(b->metrics, i * MOST_METRICS, MOST_METRICS, &failed));
        ft_json_put(body, "params", part_of(b->params, i * MOST_OTHERS, MOST_OTHERS, &failed), &failed);
        ft_json_put(body, "tags", part_of(b->tags, i * MOST_OTHERS, MOST_OTHERS, &failed), &failed);
        if (body == NULL || failed) {
            json_decref(body);
            return ft_fail_memory(0, "a request");
        }
        const ft_status told = post(m, "runs/log-batch", body, &code);
        if (code == 404 || (code == 400 && strstr(ft_error_message(), "active") != NULL)) return forget(record, told);
        FT_TRY(told);
    }
    return FT_OK;
}

// ---- files --------------------------------------------------------------------------------------------------------

static const char artifacts[] = "mlflow-artifacts:/";

bool ft_mlflow_takes_artifacts(const json_t *record) {
    const char *at = text_of(record, "artifacts");
    return at != NULL && strncmp(at, artifacts, sizeof artifacts - 1) == 0;
}

// A large file takes its time: at least this many bytes a second go to a server that is worth waiting for.
static const double SLOWEST = 1e6;

static double patience_for(const ft_mlflow *m, const char *path) {
    struct stat file;
    return m->patience + (path != NULL && stat(path, &file) == 0 ? (double)file.st_size / SLOWEST : 0);
}

// Of a file, or a text.
static ft_status put_artifact(ft_mlflow *m, json_t *record, const char *path, const char *text, const char *name) {
    const char *at = text_of(record, "artifacts"), *headers[2] = {m->bearer, NULL};
    ft_arena arena = {0};
    ft_web_answer answer;
    if (!ft_mlflow_takes_artifacts(record) || (path != NULL && !ft_path_exists(path))) return FT_OK;
    at += sizeof artifacts - 1;
    at += strspn(at, "/");
    const char *to = ft_arena_format(&arena, "%s/%s", at, name), *escaped = to != NULL ? escape(to, &arena) : NULL;
    const char *url =
        escaped != NULL ? ft_arena_format(&arena, "%s/api/2.0/mlflow-artifacts/artifacts/%s", m->uri, escaped) : NULL;
    ft_status status = url != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        status = ft_web_send(m->web,
                             &(ft_web_request){.method = "PUT",
                                               .url = url,
                                               .headers = headers,
                                               .user = m->user,
                                               .password = m->password,
                                               .file = path,
                                               .body = text,
                                               .length = text != NULL ? strlen(text) : 0,
                                               .timeout = patience_for(m, path)},
                             &answer);
        if (status == FT_OK && (answer.status < 200 || answer.status >= 300))
            status = refused(m, "an artifact", answer.status, NULL);
        free(answer.text);
    }
    ft_arena_free(&arena);
    return status;
}

ft_status ft_mlflow_artifact(ft_mlflow *m, json_t *record, const char *path, const char *name) {
    return put_artifact(m, record, path, NULL, name);
}

ft_status ft_mlflow_artifact_text(ft_mlflow *m, json_t *record, const char *text, const char *name) {
    return put_artifact(m, record, NULL, text, name);
}
