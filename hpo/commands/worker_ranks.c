#include "hpo/commands/worker_ranks.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/commands/ranks.h"
#include "engine/config/device_list.h"
#include "engine/train/room/observer.h"
#include "hpo/space/options_study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_trial_load(const ft_worker_job *job, ft_config *config) {
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, job->directory, "config.ini");
    const ft_status status = path != NULL ? ft_study_config_load(config, 1, &path, 0, NULL) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    FT_TRY(status);
    config->output.dir = job->directory;
    config->output.exists = FT_EXISTS_RESUME;
    config->device.wait = job->wait;
    config->device.wait_timeout = job->wait_timeout;
    config->device.check_interval = job->check_interval;
    if (job->devices[0] != '\0') config->device.name = job->devices;
    return FT_OK;
}

// ---- the worker

typedef struct training {
    const ft_config *config;
    ft_memory_refusal *refusal;
} training;

static ft_status train(void *context) {
    const training *own = context;
    return ft_train_all(own->config, own->refusal);
}

// Ranks compare their configurations: all of the job that is in there goes along, to the bit. NULL: out of memory.
static char *write_job(const ft_worker_job *job) {
    json_t *message = json_pack("{s:I, s:s, s:b, s:f, s:f, s:b, s:I}", "trial", (json_int_t)job->trial, "devices",
                                job->devices, "wait", job->wait, "wait_timeout", job->wait_timeout, "check_interval",
                                job->check_interval, "taken", job->taken, "beside", (json_int_t)job->beside);
    char *text = message != NULL ? ft_json_line(message) : NULL;
    json_decref(message);
    return text;
}

ft_status ft_trial_train(const ft_worker_job *job, const ft_config *config, ft_memory_refusal *refusal) {
    training own = {config, refusal};
    const int ranks = ft_device_list_count(config->device.name);
    if (ranks == 1) return train(&own);
    char *text = write_job(job);
    if (text == NULL) return ft_fail_memory(0, "the job of a rank");
    char *arguments[] = {(char *)job->directory, text}; // a path may be any bytes, JSON not
    const ft_status status = ft_ranks_lead(ranks, "worker", 2, arguments, train, &own);
    free(text);
    return status;
}

// ---- the others

// The first rank tells the study how far they are, and when memory is there.
static void say_nothing(void *context, int64_t step, int64_t steps, size_t bytes, bool logged) {}

static ft_status train_job(void *context) {
    const ft_worker_job *job = context;
    char name[48];
    ft_config config = {0};
    ft_memory_refusal refusal = {.bytes = 0};
    snprintf(name, sizeof name, "Trial %lld - ", (long long)job->trial);
    ft_run_observer observer = {.name = name, .alive = say_nothing, .taken = job->taken, .beside = job->beside};
    ft_run_observe(&observer);
    ft_status status = ft_trial_load(job, &config);
    if (status == FT_OK) status = ft_train_all(&config, &refusal);
    ft_run_observe(NULL);
    ft_config_free(&config);
    return status;
}

ft_status ft_trial_rank(int argc, char **argv) {
    json_t *message;
    const char *devices;
    FT_TRY(ft_json_parse(argv[4], strlen(argv[4]), "worker", &message));
    devices = json_string_value(json_object_get(message, "devices"));
    ft_worker_job job = {.trial = json_integer_value(json_object_get(message, "trial")),
                         .directory = argv[3],
                         .devices = devices != NULL ? devices : "",
                         .wait = json_is_true(json_object_get(message, "wait")),
                         .wait_timeout = json_number_value(json_object_get(message, "wait_timeout")),
                         .check_interval = json_number_value(json_object_get(message, "check_interval")),
                         .taken = json_is_true(json_object_get(message, "taken")),
                         .beside = (size_t)json_integer_value(json_object_get(message, "beside"))};
    const ft_status status = ft_ranks_follow(argc, argv, train_job, &job);
    json_decref(message);
    return status;
}
