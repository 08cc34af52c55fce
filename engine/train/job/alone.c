#include "engine/train/job/alone.h"

#include "engine/model/spec/model_config.h"

#include <stddef.h>

const char *ft_job_alone(const ft_job *job) {
    if (job->features.on) return "training a head alone on a frozen model";
    return ft_model_config_reads_pictures(&job->model_config) ? "a model of pictures" : NULL;
}
