#include "engine/plan/jobs.h"

#include "engine/config/options.h"
#include "engine/config/share.h"
#include "engine/plan/relevance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Options that are read only once a job is open, by the steps and by what their memory is laid out with.
bool ft_plan_jobs_read(int option) {
    static const char *const later[] = {
        "model.head.hidden",      "train.batch_size",           "train.gradient_accumulation_steps", "train.micro_batch_tokens",
        "train.micro_batch",      "train.gradient_checkpointing", "train.seed",                      "train.seeds",
        "train.epochs",           "train.max_steps",            "train.drop_last",                   "train.weight_decay",
        "eval.batch_size",        "eval.batch_multiplier",      "memory.limit",                      "memory.max_split_size",
        "memory.expandable_segments", "memory.garbage_collection_threshold", "memory.recompute_activation",
        "memory.recompute_layernorm", "memory.offload", "memory.map_weights",
    };
    const char *name = ft_option_name(option);
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (strcmp(name, later[i]) == 0) return false;
    return ft_option_relevance(option) != FT_IRRELEVANT;
}

static ft_status make_key(const ft_config *config, char **key) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    size_t size;
    *key = NULL;
    FILE *stream = open_memstream(key, &size);
    if (stream == NULL) return ft_fail_memory(0, "options as text");
    for (int i = 0; i < ft_option_count(); i++)
        if (ft_plan_jobs_read(i)) fprintf(stream, "%s\n", ft_option_get(config, ft_option_at(i), scratch));
    const bool failed = ferror(stream) != 0;
    if (fclose(stream) == 0 && !failed && *key != NULL) return FT_OK;
    free(*key);
    return ft_fail_memory(0, "options as text");
}

// Every option again, with strings that live as long as the jobs.
static ft_status copy_config(const ft_config *config, ft_config *copy) {
    char scratch[FT_OPTION_TEXT_LIMIT];
    *copy = *config;
    copy->arena = (ft_arena){0};
    for (int i = 0; i < ft_option_count(); i++) {
        const ft_option *option = ft_option_at(i);
        FT_TRY(ft_option_set(copy, option, ft_option_get(config, option, scratch), NULL, option->name));
    }
    return FT_OK;
}

void ft_plan_jobs_close(ft_plan_jobs *jobs) {
    for (int i = 0; i < jobs->count; i++) ft_job_close(&jobs->job[i]);
    free(jobs->job);
    free(jobs->of_fold);
    free(jobs->key);
    ft_arena_free(&jobs->config.arena);
    *jobs = (ft_plan_jobs){.key = NULL};
}

static ft_status open_jobs(ft_plan_jobs *jobs, int labels) {
    const ft_config *c = &jobs->config;
    jobs->with_data = c->data.train[0] != '\0' || c->data.validation[0] != '\0' || c->data.test[0] != '\0';
    const bool every = c->data.folds > 0 && c->data.fold == 0 && jobs->with_data;
    const bool shares = ft_config_has_shares(c) && jobs->with_data;
    const int count = shares ? c->data.shares.count : every ? (int)c->data.folds : 1;
    jobs->job = ft_calloc((size_t)count, sizeof *jobs->job, "jobs that are planned");
    jobs->of_fold = ft_calloc((size_t)count, sizeof *jobs->of_fold, "jobs that are planned");
    if (jobs->job == NULL || jobs->of_fold == NULL) return FT_NO_MEMORY;
    const ft_job_source source = {.without_weights = true, .without_data = !jobs->with_data, .labels = labels};
    for (; jobs->count < count; jobs->count++) {
        ft_config *one = &jobs->of_fold[jobs->count];
        ft_job *job = &jobs->job[jobs->count];
        *one = shares ? ft_config_of_share(c, c->data.shares.values[jobs->count]) : *c;
        if (every) one->data.fold = jobs->count + 1;
        ft_status status = ft_job_open(one, &source, job);
        if (status == FT_OK) status = ft_job_tokenise(job);
        if (status != FT_OK) {
            ft_job_close(job);
            return status;
        }
    }
    return FT_OK;
}

ft_status ft_plan_jobs_open(ft_plan_jobs *jobs, const ft_config *config, int labels) {
    char *key;
    FT_TRY(make_key(config, &key));
    if (jobs->key != NULL && strcmp(jobs->key, key) == 0) {
        free(key);
        return FT_OK;
    }
    ft_plan_jobs_close(jobs);
    ft_status status = copy_config(config, &jobs->config);
    if (status == FT_OK) status = open_jobs(jobs, labels);
    if (status == FT_OK) {
        jobs->key = key;
        return FT_OK;
    }
    free(key);
    ft_error error;
    ft_error_save(&error);
    ft_plan_jobs_close(jobs);
    ft_error_restore(&error);
    return status;
}
