// mlflow_model.h - the model of a run among its artifacts: model/ as MLflow's flavor `transformers` has it, so that in
// Python mlflow.transformers.load_model("runs:/RUN_ID/model") is a pipeline; adapter/ as PEFT reads it.
#ifndef FT_TRACK_MLFLOW_MODEL_H
#define FT_TRACK_MLFLOW_MODEL_H

#include "engine/track/mlflow.h"

// Which of both there is in a run's directory, by its name there; NULL: none, as of a run that came to no checkpoint.
const char *ft_mlflow_model_of(const char *directory);
// Tells of it, unless it has been told as it is now. Nothing, and FT_OK, where there is none. FT_INVALID: the server
// takes no files. A model that transformers has no pipeline for is there as files alone. The record keeps what was told
// ("model").
ft_status ft_mlflow_tell_model(ft_mlflow *client, json_t *record, const char *directory);

#endif
