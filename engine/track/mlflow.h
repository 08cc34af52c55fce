// mlflow.h - MLflow's REST API 2.0, as far as runs are told with it. A run there is known by a record here, a JSON
// object that whoever has it keeps in a file:
//
//     id      32 hex digits, drawn when the record is made and the run's tag ftengine.id: who was killed between
//     creating a run and
//             keeping that finds it again instead of making a second one
//     run_id  MLflow's, once it is known;  status  as last told, "RUNNING", "FINISHED", ..
//     more    belongs to the callers (`model`: mlflow_model.h)
#ifndef FT_TRACK_MLFLOW_H
#define FT_TRACK_MLFLOW_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ft_mlflow ft_mlflow;

// MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN, _INSECURE_TLS and _SERVER_CERT_PATH are as MLflow has them. FT_INVALID:
// `uri` is not http or https.
ft_status ft_mlflow_open(const char *uri, ft_mlflow **client);
void ft_mlflow_close(ft_mlflow *client); // NULL is fine
// What a request may take, seconds; 20 at first.
void ft_mlflow_patience(ft_mlflow *client, double seconds);

// The id of the experiment of this name, which is made where there is none; *id on the heap.
ft_status ft_mlflow_experiment(ft_mlflow *client, const char *name, char **id);

typedef struct ft_mlflow_request {
    const char *experiment, *name, *source; // its id; the run's name; "ftengine train"
    const char *parent;                     // run_id of the run that it lies in; NULL: none
    int64_t started;                        // milliseconds since 1970
    const json_t *tags;                     // object of texts; NULL: none
} ft_mlflow_request;
json_t *ft_mlflow_record(void); // a new one; NULL with the error set
// The record's run is there and RUNNING: found, made, or gone on with. *changed: the record has something to be kept.
ft_status ft_mlflow_begin(ft_mlflow *client, json_t *record, const ft_mlflow_request *request, bool *changed);

// Points, params and tags, in as many batches as MLflow's limits ask for. A run that somebody has deleted is FT_FAILED,
// and the record forgets it.
typedef struct ft_mlflow_batch {
    json_t *metrics, *params, *tags; // arrays
} ft_mlflow_batch;
ft_status ft_mlflow_batch_open(ft_mlflow_batch *batch);
void ft_mlflow_batch_close(ft_mlflow_batch *batch); // {0} is fine
// What is not finite is told as MLflow wants it. *failed as ft_json_put has it.
void ft_mlflow_metric(ft_mlflow_batch *batch, const char *key, double value, int64_t step, int64_t time, bool *failed);
void ft_mlflow_param(ft_mlflow_batch *batch, const char *key, const char *value,
                     bool *failed); // an empty value is left out
void ft_mlflow_tag(ft_mlflow_batch *batch, const char *key, const char *value, bool *failed);
ft_status ft_mlflow_log(ft_mlflow *client, json_t *record, const ft_mlflow_batch *batch);
ft_status ft_mlflow_end(ft_mlflow *client, json_t *record, const char *status, int64_t time);
// Whether the server itself takes the files of this run.
bool ft_mlflow_takes_artifacts(const json_t *record);
// A file or a text among the run's artifacts, where the server takes them; else nothing, and FT_OK. Absent files are
// passed over. A large file is waited for longer.
ft_status ft_mlflow_artifact(ft_mlflow *client, json_t *record, const char *path, const char *name);
ft_status ft_mlflow_artifact_text(ft_mlflow *client, json_t *record, const char *text, const char *name);

#endif
