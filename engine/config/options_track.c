// options_track.c - [track]: who else is told what a run does.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_track_section
#include "engine/config/option_rows.h"

static const ft_option rows[] = {
    BOOL(track.tensorboard, FREE, "false", .elsewhere = "tensorboard report_to tensorboard_dir use_tensorboard",
         .help = "Event files for TensorBoard in the run directory's tensorboard/: figures under the Trainer's names, "
                 "memory by category, the configuration; of a study's trials parameters and objectives too (tensorboard "
                 "--logdir STUDY/trials)."),
    STRING(track.mlflow, FREE, "", .elsewhere = "mlflow mlflow_tracking_uri tracking_uri mlflow_uri",
           .help = "Address of an MLflow server that is told of runs and studies while they go on, as http://127.0.0.1:5000; "
                   "`ftengine track` tells it what it missed. Empty: MLFLOW_TRACKING_URI, if that is set; none: nobody. "
                   "Name and password are MLflow's own variables."),
    STRING(track.experiment, FREE, "", .elsewhere = "experiment_name mlflow_experiment_name mlflow_experiment",
           .help = "Experiment there, made if it is not there yet. Empty: MLFLOW_EXPERIMENT_NAME, else Default."),
    BOOL(track.log_model, FREE, "false", .elsewhere = "hf_mlflow_log_artifacts log_models",
         .help = "A run's model among its artifacts there, when it has ended: mlflow.transformers.load_model(\"runs:/RUN_ID/model\") is "
                 "a pipeline of it. Not of a study's trials; `ftengine track RUN --model` does it afterwards."),
};
const ft_section ft_track_section = {
    .name = "track", .help = "Who else is told what a run does.", .rows = rows, .count = ROWS};
