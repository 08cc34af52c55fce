#include "engine/plan/plan.h"

#include "base/log.h"
#include "engine/config/device_list.h"
#include "engine/config/share.h"
#include "engine/train/fit/autofit.h"
#include "engine/train/fit/host_plan.h"
#include "engine/train/fit/run_rehearsal.h"
#include "engine/train/job/alone.h"
#include "engine/train/job/features.h"
#include "engine/plan/planning.h"
#include "engine/train/room/budget.h"
#include "engine/train/room/observer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_results(const ft_room *room, ft_plan *plan) {
    const ft_model *model = &room->model;
    plan->memory = ft_memory_read(room->memory);
    plan->site_count = ft_memory_holders_at_peak(room->memory, plan->sites, FT_PLAN_SITES);
    plan->dtype = model->dtype;
    plan->parameters = model->parameters.real_total;
    plan->trained_parameters = model->parameters.real_trainable;
    if (model->parameters.table >= 0) { // models of pictures have no words
        const ft_parameter *table = &model->parameters.list[model->parameters.table];
        plan->rows = table->rows, plan->rows_held = table->held, plan->rows_trained = table->trained;
    }
    plan->rows_save = room->job->word_rows_save;
    plan->train = room->plan.texts;
    plan->eval = room->eval_capacity;
    plan->trunk = room->plan.trunk;
    plan->features = room->job->features.on;
    plan->alone = ft_job_alone(room->job);
    plan->eval_extra = room->eval_extra;
    plan->checkpoint_every = model->checkpoint_every;
    plan->keeps_activation = model->keeps_activation;
    plan->rebuilds_norms = model->rebuilds_norms;
    plan->offloads = ft_parameters_state_on_host(&model->parameters);
    plan->storage = room->config->model.storage == FT_KEEP_AUTO ? FT_KEEP_AS_READ : room->config->model.storage;
    plan->offloads_trunk = model->parameters.window.on;
    plan->freezes_layers = ft_parameters_frozen_in_layers(&model->parameters) > 0;
    plan->offloads_inputs = model->inputs.count > 0; // none travels where fewer than two are kept
    plan->host_bytes = room->budget.pinned;
    plan->total_steps = room->plan.total_steps;
    plan->max_length = room->job->max_length;
    plan->threads = room->device->target.threads;
    const int later = plan->threads > 1 ? plan->threads - 1 : 0; // the run's own; this process plans alone
    ft_host_plan(room, &plan->memory, plan->memory.peak_reserved + plan->memory.peak_common, later, &plan->host);
    ft_host_plan(room, &plan->memory, 0, later, &plan->host_others);
    plan->compute_capability = room->device->target.compute_capability;
}

// The device that is planned for.
ft_status ft_planning_look(const ft_config *config, const ft_plan_request *request, ft_device_facts *facts) {
    char name[FT_DEVICE_NAME]; // of several the first: its rank's share is planned, with what all have in common
    const int ranks = ft_device_list_count(config->device.name), threads = config->device.threads > 0 ? (int)config->device.threads : ft_cpu_threads();
    FT_TRY(ft_device_list_check(config));
    ft_device_list_name(config->device.name, 0, name);
    const ft_card *card = strcmp(name, "cpu") == 0 ? NULL : request->card;
    if (card == NULL) {
        FT_TRY(ft_device_look(name, ranks == 1 ? (int)config->device.threads : threads / ranks > 0 ? threads / ranks : 1, facts));
    } else {
        *facts = (ft_device_facts){.target = ft_card_target(card)};
        snprintf(facts->name, sizeof facts->name, "%.15s", strncmp(name, "cuda", 4) == 0 ? name : "cuda");
    }
    if (request->card != NULL) facts->total_bytes = request->card->bytes;
    return FT_OK;
}

void ft_planning_budget(const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    const bool is_here = request->card == NULL;
    const ft_budget budget = ft_budget_of_plan(config, &(ft_budget_device){.target = facts->target, .bytes = facts->total_bytes,
                                                                           .outside = is_here ? 0 : FT_CARD_OUTSIDE_BYTES,
                                                                           .is_here = is_here, .whole = request->whole_device});
    plan->graph_bytes = budget.graphs;
    plan->communication_bytes = budget.communication;
    plan->budget_bytes = request->budget_bytes != 0 ? request->budget_bytes : budget.most;
}

// The limits of the process that a plan is judged by; NULL: those of this machine say nothing about it.
static const ft_host_limits *host_limits(const ft_plan_request *request, ft_host_limits *room) {
    if (request->card != NULL || request->whole_device || request->budget_bytes != 0) return NULL;
    ft_run_limits(room);
    return room;
}

typedef ft_status (*chooser)(const ft_room *room, size_t limit, ft_config *config, ft_autofit *fit);

// The job under `limit` with the settings of `config`; *refused: a request did not fit, and plan->refusal says which. choose, if not
// NULL: it is asked what of all that is at `auto` is taken under the plan's budget (plan->autofit.chosen, *fitted).
static ft_status plan_under(const ft_job *job, const ft_config *config, const ft_device_facts *facts, size_t limit, ft_plan *plan,
                            bool *refused, chooser choose, ft_config *fitted) {
    ft_device *device;
    ft_rehearsal r;
    FT_TRY(ft_plan_open(facts->name, facts->target, SIZE_MAX / 4, &device));
    ft_status status = ft_rehearse(job, config, device, limit, &r);
    r.room.budget.pinned = ft_budget_pinned(true);
    if (status == FT_OK) read_results(&r.room, plan);
    if (status == FT_OK) status = ft_rehearsal_price(&r, &plan->step_seconds, &plan->product_seconds);
    if (status == FT_OK && choose != NULL) status = choose(&r.room, plan->budget_bytes, fitted, &plan->autofit);
    if (status == FT_OK && plan->ranks != NULL) status = ft_scaling_find(&r, plan->ranks, &plan->scaling);
    *refused = status == FT_NO_MEMORY && r.room.memory != NULL && ft_memory_refused(r.room.memory, &plan->refusal);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_rehearsal_close(&r);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// A run whose memory.limit is auto is fitted to what the process may have beside its other parts, too. Where there is less of that than
// was planned for, the plan is made again.
static bool leave_room_for_host(const ft_job *job, const ft_plan_request *request, ft_plan *plan) {
    ft_host_limits room;
    if (job->config->memory.limit != 0 || plan->threads == 0 || request->budget_bytes != 0) return false;
    const size_t beside = ft_host_room(job->config, &plan->host_others, host_limits(request, &room));
    if (beside >= plan->memory.peak_reserved || beside >= plan->budget_bytes) return false;
    plan->budget_bytes = beside > 0 ? beside : 1;
    return true;
}

// What the process may have leaves too little for the device's memory, and nothing that is at `auto` fits: the least that it takes is planned
// without a limit, so that the limit of the process is named with what it lacks (judge_process).
static ft_status plan_least(const ft_job *job, const ft_device_facts *facts, ft_plan *plan) {
    bool refused;
    ft_config fitted;
    ft_status status = plan_under(job, job->config, facts, SIZE_MAX / 4, plan, &refused, ft_autofit_least, &fitted);
    if (status == FT_OK && plan->autofit.chosen) status = plan_under(job, &fitted, facts, SIZE_MAX / 4, plan, &refused, NULL, NULL);
    plan->of_process = status == FT_OK;
    return status;
}

// Under the plan's budget; where that is too little as far as it can be, and where settings at `auto` make it fit with those.
static ft_status plan_job(const ft_job *job, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    bool refused, bound = false;
    ft_status status = plan_under(job, job->config, facts, plan->budget_bytes, plan, &refused, NULL, NULL);
    if (status == FT_OK && leave_room_for_host(job, request, plan)) {
        bound = true;
        status = plan_under(job, job->config, facts, plan->budget_bytes, plan, &refused, NULL, NULL);
    }
    plan->fits = status == FT_OK;
    if (!refused) return status;
    ft_memory_refusal refusal = plan->refusal;
    ft_config fitted;
    status = plan_under(job, job->config, facts, SIZE_MAX / 4, plan, &refused, ft_autofit_choose, &fitted);
    if (status == FT_OK && !bound && leave_room_for_host(job, request, plan)) { // which is less than the device has
        bound = true;
        status = plan_under(job, job->config, facts, SIZE_MAX / 4, plan, &refused, ft_autofit_choose, &fitted);
    }
    plan->refusal = refusal;
    if (status == FT_OK && plan->autofit.chosen) {
        status = plan_under(job, &fitted, facts, plan->budget_bytes, plan, &refused, NULL, NULL);
        plan->fits = status == FT_OK;
    }
    return status == FT_OK && !plan->fits && bound ? plan_least(job, facts, plan) : status;
}

ft_status ft_planning_check(const ft_config *config, const ft_device_facts *facts) {
    ft_device *device;
    FT_TRY(ft_plan_open(facts->name, facts->target, SIZE_MAX / 4, &device));
    ft_status status = ft_room_check(config, device);
    ft_device_close(device);
    return status;
}

// Of two plans under the same budget.
static bool takes_more(const ft_plan *a, const ft_plan *b) {
    if (a->fits != b->fits) return !a->fits;
    if (a->memory.peak_reserved != b->memory.peak_reserved) return a->memory.peak_reserved > b->memory.peak_reserved;
    return a->memory.peak_allocated > b->memory.peak_allocated; // reserved bytes are whole segments
}

// The plan of several runs is that of the one that takes most of the device, with the host of the one that takes most there.
static void take_larger(bool first, const ft_plan *next, ft_plan *plan) {
    const ft_host_memory host = plan->host, others = plan->host_others;
    if (first || takes_more(next, plan)) *plan = *next;
    if (first || host.peak <= next->host.peak) plan->host = next->host, plan->host_others = next->host_others;
    else plan->host = host, plan->host_others = others;
}

bool ft_planning_every_seed(const ft_config *config, bool with_data) {
    return config->train.seeds.count > 0 && with_data && config->train.data_seed == FT_AUTO;
}

// The runs of a job, one for each of train.seeds: of them the plan that takes most. plan: as it is before it is planned.
static ft_status plan_seeds(ft_job *job, const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    const ft_plan before = *plan;
    const bool seeds = ft_planning_every_seed(config, plan->with_data);
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < (seeds ? config->train.seeds.count : 1); i++) {
        ft_config one = *config; // strings are shared
        ft_plan next = before;
        if (seeds) one.train.seed = config->train.seeds.values[i];
        job->config = &one;
        status = plan_job(job, request, facts, &next);
        next.of_seeds = seeds;
        next.seed = one.train.seed;
        take_larger(i == 0, &next, plan);
        job->config = config;
    }
    return status;
}

static ft_status open_and_plan(const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    ft_job job;
    const ft_job_source source = {.without_weights = true, .without_data = !plan->with_data, .labels = request->labels};
    ft_host_limits limits;
    ft_host_watch(config, host_limits(request, &limits));
    ft_status status = ft_job_open(config, &source, &job);
    if (status == FT_OK) status = ft_job_tokenise(&job);
    const bool every_model = config->model.init == FT_INIT_RANDOM && ft_planning_every_seed(config, plan->with_data); // each draws its own
    if (status == FT_OK && !every_model) status = ft_job_find_features(&job, &facts->target, "");
    if (status == FT_OK && plan->with_data) status = ft_job_measure(&job); // as a run does, for what it takes
    if (status == FT_OK) status = plan_seeds(&job, config, request, facts, plan);
    ft_heap_watch_end();
    ft_job_close(&job);
    return status;
}

// The same for every share of the texts: all of them take most as a rule, but which texts come together is another matter.
static ft_status plan_shares(const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    const ft_plan before = *plan;
    for (int i = 0; i < config->data.shares.count; i++) {
        const ft_config one = ft_config_of_share(config, config->data.shares.values[i]);
        ft_plan next = before;
        FT_TRY(open_and_plan(&one, request, facts, &next));
        next.share = one.data.share;
        take_larger(i == 0, &next, plan);
    }
    return FT_OK;
}

// The same for every fold.
static ft_status plan_folds(const ft_config *config, const ft_plan_request *request, const ft_device_facts *facts, ft_plan *plan) {
    const ft_plan before = *plan;
    const bool every = config->data.folds > 0 && config->data.fold == 0 && plan->with_data;
    FT_TRY(ft_planning_check(config, facts));
    if (ft_config_has_shares(config) && plan->with_data) return plan_shares(config, request, facts, plan);
    if (!every) return open_and_plan(config, request, facts, plan);
    for (int64_t fold = 1; fold <= config->data.folds; fold++) {
        ft_config one = *config;
        ft_plan next = before;
        one.data.fold = fold;
        FT_TRY(open_and_plan(&one, request, facts, &next));
        next.fold = fold;
        take_larger(fold == 1, &next, plan);
    }
    return FT_OK;
}

bool ft_planning_supported(const ft_target *target) { return target->threads > 0 || target->compute_capability >= FT_GPU_MINIMUM_CAPABILITY; }

// As a run does.
bool ft_planning_host_short(const ft_config *config, const ft_plan_request *request, const ft_target *target, size_t pinned, size_t host) {
    const bool asked = config->memory.offload != FT_OFFLOAD_NONE && config->memory.offload != FT_OFFLOAD_AUTO && target->threads == 0;
    return request->card == NULL && asked && host > 0 && pinned > host;
}

// The process as a whole.
static void judge_process(const ft_config *config, const ft_plan_request *request, ft_plan *plan) {
    ft_host_limits room;
    plan->process_verdict = ft_host_judge(config, &plan->host, host_limits(request, &room));
    if (plan->of_process && plan->process_verdict.fits) { // it is so near that what planning leaves behind was counted as the run's
        plan->fits = true;
        plan->budget_bytes = plan->memory.peak_reserved;
    }
    plan->process_short = (plan->fits || plan->of_process) && !plan->process_verdict.fits;
    if (plan->process_short) plan->fits = false;
}

ft_status ft_plan_run(const ft_config *config, const ft_plan_request *request, ft_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->ranks = request->scaling;
    plan->with_data = config->data.train[0] != '\0' || config->data.validation[0] != '\0' || config->data.test[0] != '\0';
    ft_device_facts facts;
    FT_TRY(ft_planning_look(config, request, &facts));
    ft_planning_budget(config, request, &facts, plan);
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT); // what training says while it opens
    ft_status status = plan_folds(config, request, &facts, plan);
    ft_log_set_level(level);
    plan->host_short = plan->fits && ft_planning_host_short(config, request, &facts.target, plan->memory.peak_pinned, plan->host_bytes);
    plan->not_supported = status == FT_OK && !ft_planning_supported(&facts.target);
    if (plan->host_short || plan->not_supported) plan->fits = false;
    judge_process(config, request, plan);
    plan->outside_bytes = plan->host_others.peak; // of a GPU its own share is not known here
    plan->outside_measured = true;
    return status;
}

const char *ft_plan_verdict(const ft_plan *plan) { return plan->not_supported ? "not_supported" : plan->fits ? "fits" : "does_not_fit"; }
