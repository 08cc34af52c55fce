// foresee.c - whether memory for a run would be refused before its first step, found without beginning it: for who has several to
// train and would rather hear of the last one's refusal before the first has taken hours.
#include "engine/train/fit/eval_budget.h"
#include "engine/train/fit/forecast.h"
#include "engine/train/job/features.h"
#include "engine/train/room/observer.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"

#include "base/log.h"

#include <string.h>

// As open.c forecasts a run that has its job, but for the reservation: what others hold now may be free by then.
static ft_status forecast(ft_room *room, const ft_config *config) {
    room->config = config;
    room->autofit = (ft_autofit){.chosen = false};
    room->refusal = (ft_memory_refusal){0};
    FT_TRY(ft_room_plan_steps(room));
    FT_TRY(ft_room_forecast(room));
    return ft_room_check_host(room);
}

// device.name = auto: a CUDA device that the run does not fit is left for the CPU.
static bool fits_on_cpu(const ft_room *room, const ft_config *config) {
    if (room->device->place[0] == '\0' || strcmp(config->device.name, "auto") != 0 || ft_run_observer_of() != NULL) return false;
    ft_room there;
    ft_error error;
    ft_error_save(&error);
    bool fits = ft_room_open_on(room->job, "cpu", &there) == FT_OK && forecast(&there, config) == FT_OK;
    (void)ft_room_close(&there);
    ft_error_restore(&error);
    return fits;
}

static ft_status foresee(ft_job *job, ft_room *room, const ft_config *config, int count, const int64_t *seeds, int *at) {
    ft_host_limits limits;
    FT_TRY(ft_room_open(job, config, room));
    ft_run_limits(&limits);
    ft_host_watch(config, &limits);
    FT_TRY(ft_job_open(config, &(ft_job_source){.labels = 0}, job));
    FT_TRY(ft_job_tokenise(job));
    if (config->model.init == FT_INIT_PRETRAINED) FT_TRY(ft_job_find_features(job, &room->device->target, room->gemm_tuning)); // one for all seeds
    FT_TRY(ft_job_measure(job)); // as the run does, for what it takes
    for (*at = 0; *at < count; ++*at) {
        ft_config one = *config; // strings are shared
        one.train.seed = seeds[*at];
        job->config = &one;
        ft_status status = forecast(room, &one);
        if (status == FT_NO_MEMORY && fits_on_cpu(room, &one)) status = FT_OK;
        job->config = room->config = config;
        FT_TRY(status);
        if (config->train.data_seed != FT_AUTO) break; // the order of the texts is one for all seeds, and all else is
    }
    return FT_OK;
}

ft_status ft_train_foresee(const ft_config *config, int count, const int64_t *seeds, int *at, ft_memory_refusal *refusal) {
    ft_job job = {.config = NULL};
    ft_room room = {.job = NULL};
    const ft_log_level level = ft_log_get_level();
    *at = 0;
    ft_log_set_level(FT_LOG_SILENT); // the run says it
    ft_status status = foresee(&job, &room, config, count, seeds, at);
    ft_log_set_level(level);
    ft_heap_watch_end();
    if (refusal != NULL && status == FT_NO_MEMORY) *refusal = room.refusal;
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_room_close(&room);
    ft_job_close(&job);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}
