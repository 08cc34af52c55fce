#include "engine/plan/outlook.h"

#include "base/log.h"
#include "engine/config/share.h"
#include "engine/plan/planning.h"
#include "engine/train/fit/run_rehearsal.h"
#include "engine/train/room/budget.h"

typedef struct outlook_call {
    const ft_plan_request *request;
    ft_device_facts facts;
    size_t budget;
} outlook_call;

// Rehearsed under `limit`. *refused: a request did not fit. can: whether autofit finds what fits into the budget; NULL: nobody asks.
static ft_status rehearse(const outlook_call *call, const ft_job *job, size_t limit, ft_memory_counters *memory, bool *refused, bool *can) {
    ft_device *device;
    ft_rehearsal r;
    FT_TRY(ft_plan_open(call->facts.name, call->facts.target, SIZE_MAX / 4, &device));
    ft_status status = ft_rehearse(job, job->config, device, limit, &r);
    ft_memory_refusal refusal;
    *refused = status == FT_NO_MEMORY && r.room.memory != NULL && ft_memory_refused(r.room.memory, &refusal);
    if (status == FT_OK) *memory = ft_memory_read(r.room.memory);
    if (status == FT_OK && can != NULL) {
        r.room.budget.pinned = ft_budget_pinned(true);
        status = ft_autofit_can(&r.room, call->budget, can);
    }
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_rehearsal_close(&r);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

static ft_status judge(const outlook_call *call, const ft_job *job, ft_outlook *one) {
    bool refused, can = false;
    ft_memory_counters memory;
    one->kind = FT_OUTLOOK_FIT;
    ft_status status = rehearse(call, job, call->budget, &memory, &refused, NULL);
    if (refused) {
        status = rehearse(call, job, SIZE_MAX / 4, &memory, &refused, &can);
        one->kind = can ? FT_OUTLOOK_REFIT : FT_OUTLOOK_NEVER;
    }
    if (status != FT_OK) return status;
    one->bytes = memory.peak_reserved;
    const bool short_of_host = one->kind != FT_OUTLOOK_NEVER && ft_planning_host_short(job->config, call->request, &call->facts.target,
                                                                                       memory.peak_pinned, ft_budget_pinned(true));
    if (short_of_host && one->kind == FT_OUTLOOK_REFIT) { // what is fitted sends less there
        ft_plan plan;
        FT_TRY(ft_plan_run(job->config, call->request, &plan));
        if (!plan.fits) one->kind = FT_OUTLOOK_NEVER;
    } else if (short_of_host) {
        one->kind = FT_OUTLOOK_NEVER;
    }
    if (!ft_planning_supported(&call->facts.target)) one->kind = FT_OUTLOOK_NOT_SUPPORTED;
    return FT_OK;
}

// Every fold with every seed, or every share.
static ft_status judge_all(const outlook_call *call, const ft_config *config, ft_plan_jobs *jobs, ft_outlook *outlook) {
    const bool seeds = ft_planning_every_seed(config, jobs->with_data);
    ft_status status = FT_OK;
    for (int fold = 0; fold < jobs->count; fold++)
        for (int i = 0; status == FT_OK && i < (seeds ? config->train.seeds.count : 1); i++) {
            const int64_t share = jobs->of_fold[fold].data.share;
            ft_config one = ft_config_has_shares(config) ? ft_config_of_share(config, share) : *config; // strings are shared
            ft_outlook next;
            one.data.fold = jobs->of_fold[fold].data.fold;
            if (seeds) one.train.seed = config->train.seeds.values[i];
            jobs->job[fold].config = &one;
            status = judge(call, &jobs->job[fold], &next);
            jobs->job[fold].config = &jobs->of_fold[fold];
            if (status != FT_OK) continue;
            if (next.kind > outlook->kind) outlook->kind = next.kind;
            if (next.bytes > outlook->bytes) outlook->bytes = next.bytes;
        }
    return status;
}

ft_status ft_outlook_of(const ft_config *config, const ft_plan_request *request, ft_plan_jobs *jobs, ft_outlook *outlook) {
    outlook_call call = {.request = request};
    ft_plan budget = {.fits = false};
    *outlook = (ft_outlook){.kind = FT_OUTLOOK_FIT};
    FT_TRY(ft_planning_look(config, request, &call.facts));
    ft_planning_budget(config, request, &call.facts, &budget);
    call.budget = outlook->budget = budget.budget_bytes;
    const ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT); // what training says while it opens
    ft_status status = ft_planning_check(config, &call.facts);
    if (status == FT_OK) status = ft_plan_jobs_open(jobs, config, request->labels);
    if (status == FT_OK) status = judge_all(&call, config, jobs, outlook);
    ft_log_set_level(level);
    return status;
}
