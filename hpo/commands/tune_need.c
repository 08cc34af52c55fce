#include "hpo/commands/tune_need.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/plan/plan.h"
#include "engine/plan/texts.h"
#include "engine/train/room/observer.h"
#include "hpo/plan/points.h"
#include "hpo/space/options_study.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTS = 16 };           // planned at most
static const double SECONDS = 5; // and no further one after so long
static const uint64_t SEED = 26; // of a sample, as for `ftengine plan`

static size_t least_of(size_t a, size_t b) { return a == 0 || b < a ? b : a; }

// Of a trial's processes together: what its ranks have in common is the first one's, which was planned.
static size_t of_ranks(const ft_plan *plan, int ranks) {
    const size_t common = plan->memory.peak_common, first = plan->host.peak;
    return first + (size_t)(ranks - 1) * (first > common ? first - common : 0);
}

static void add(ft_tuning_need *need, const ft_plan *plan, int ranks, size_t *smallest) {
    const size_t peak = of_ranks(plan, ranks), others = (size_t)ranks * plan->host_others.peak;
    if (plan->alone != NULL) snprintf(need->alone, sizeof need->alone, "%s", plan->alone);
    const bool fits = !plan->process_short;
    *smallest = least_of(*smallest, peak);
    if (!fits) return;
    need->fits = true;
    need->least = least_of(need->least, peak);
    const bool gpu = plan->threads == 0;
    const size_t weights = plan->memory.at_peak[FT_MEM_WEIGHTS];
    if (peak > need->largest) {
        need->largest = peak;
        need->trunk = gpu ? 0 : weights;
    }
    if (gpu && plan->fits && plan->memory.peak_reserved > need->device_largest) {
        need->device_largest = plan->memory.peak_reserved;
        need->device_trunk = weights;
        need->device_bytes = plan->budget_bytes;
    }
    if (others > need->others) need->others = others;
}

// Has it frozen weights that other trials can have in common with it (engine/train/room/company.h)?
static bool can_share(const ft_config *point, const ft_plan *plan) {
    const bool gpu = plan->threads == 0;
    if (point->adapter.type == FT_ADAPTER_NONE || point->model.storage == FT_KEEP_AUTO) return false;
    return !gpu || (point->device.graphs != FT_GRAPHS_ON && point->device.gemm_tuning[0] == '\0' && point->memory.offload != FT_OFFLOAD_AUTO && !plan->offloads_trunk);
}

// A step of a batch as large as those of several trials is what theirs together are, but for their adapters. On a GPU their products are (pack.h),
// and all that is no product is queued trial by trial.
static double gain_of(const ft_plan *one, const ft_plan *all) {
    const double apart = one->threads > 0 ? 0 : FT_PACK_PLANNED * (one->step_seconds - one->product_seconds);
    const double together = one->threads > 0 ? all->step_seconds : all->product_seconds;
    return FT_PACK_PLANNED * one->step_seconds / (apart + together);
}

static void predict_gain(const ft_config *point, const ft_plan *plan, ft_tuning_need *need) {
    ft_config larger = *point;
    ft_plan all;
    if (need->gain > 0 || ft_study_options_of(point)->pack != FT_AUTO) return;
    larger.train.batch_size *= FT_PACK_PLANNED;
    larger.train.micro_batch = FT_AUTO;
    if (ft_plan_run(&larger, &(ft_plan_request){.budget_bytes = 0}, &all) == FT_OK && all.step_seconds > 0) need->gain = gain_of(plan, &all);
    ft_error_clear();
}

// Points as far apart in their list as they can be: of a large space its corners come first.
static ft_status plan_points(const ft_config *config, ft_points *points, const ft_trial_devices *devices, ft_tuning_need *need) {
    const int ranks = (int)ft_study_options_of(config)->devices_per_trial;
    const double began = ft_now();
    const int64_t count = points->count < POINTS ? points->count : POINTS;
    int64_t planned = 0;
    bool share = true;
    size_t smallest = 0;
    for (int64_t i = 0; i < count && (planned + need->unread == 0 || ft_now() - began < SECONDS); i++) {
        ft_config point;
        ft_plan plan;
        char missing[FT_PLAN_MISSING];
        ft_status status = ft_points_config(points, config, i * points->count / count, &point);
        if (status == FT_OK && devices->count > 0) point.device.name = devices->list[0];
        if (status == FT_OK) status = ft_plan_find_texts(&point, missing);
        if (status == FT_OK) status = ft_plan_run(&point, &(ft_plan_request){.budget_bytes = 0}, &plan);
        if (status == FT_OK) add(need, &plan, ranks, &smallest);
        if (status == FT_OK) share = share && can_share(&point, &plan);
        if (status == FT_OK && share) predict_gain(&point, &plan, need);
        if (status == FT_OK) planned++;
        ft_arena_free(&point.arena);
        if (status == FT_NO_MEMORY) need->unread++; // not even its texts had room
        else if (status != FT_OK && status != FT_INVALID) return status;
        ft_error_clear();
    }
    if (!share) need->trunk = need->device_trunk = 0;
    if (!need->fits) need->least = need->largest = smallest; // and is refused with that
    if (planned == 0 && need->unread > 0) need->killed = true;
    need->all = points->exhaustive && planned == points->count;
    return FT_OK;
}

static void alive(void *context, int64_t step, int64_t steps, size_t bytes, bool logged) {}

// Trials are planned as they will run: beside the coordinator.
static ft_status plan_space(const ft_config *config, ft_tuning_need *need) {
    ft_space space = {0};
    ft_points points = {0};
    ft_run_observer observer = {.name = "", .alive = alive, .beside = ft_tuning_coordinator_bytes()};
    ft_run_observe(&observer);
    ft_log_set_level(FT_LOG_SILENT); // the trials say it
    ft_arena arena = {0};
    ft_trial_devices devices;
    ft_status status = ft_space_read(config, &space);
    if (status == FT_OK) status = ft_trial_devices_find(config, &arena, &devices);
    if (status == FT_OK) status = ft_points_make(&space, true, SEED, &points);
    if (status == FT_OK) status = plan_points(config, &points, &devices, need);
    ft_points_free(&points);
    ft_space_free(&space);
    ft_arena_free(&arena);
    return status;
}

// In the child.
static void plan_and_leave(const ft_config *config, int out) {
    ft_tuning_need need = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (plan_space(config, &need) != FT_OK) need = (ft_tuning_need){0};
    (void)!write(out, &need, sizeof need);
    _exit(0);
}

static bool killed(pid_t pid) {
    int status = 0;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    return got == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// What a process of its own finds; killed before it said anything: *killed_early.
static ft_tuning_need ask_a_process(const ft_config *config, bool *killed_early) {
    ft_tuning_need need = {0};
    int ends[2];
    *killed_early = false;
    if (pipe(ends) != 0) return need;
    fflush(NULL); // or what is buffered would be written twice
    const pid_t pid = fork();
    if (pid == 0) plan_and_leave(config, ends[1]);
    close(ends[1]);
    const bool read_all = pid > 0 && read(ends[0], &need, sizeof need) == (ssize_t)sizeof need;
    close(ends[0]);
    if (!read_all) need = (ft_tuning_need){0};
    const bool ended = pid > 0 && killed(pid);
    *killed_early = ended && !read_all;
    return need;
}

// A want of memory kills each time; somebody who kills processes does it once.
ft_tuning_need ft_tune_need(const ft_config *config) {
    bool killed_early;
    ft_tuning_need need = ask_a_process(config, &killed_early);
    if (killed_early) need = ask_a_process(config, &killed_early);
    need.killed = need.killed || killed_early;
    return need;
}
