// crew.c - how many workers a study has: as many as were asked for, or suit the cores, if their memory is there beside the coordinator's.
#include "hpo/study/study.h"

#include "base/log.h"
#include "engine/memory/counters.h"
#include "engine/memory/process.h"
#include "engine/train/room/host.h"
#include "hpo/study/slots.h"
#include "kernels/devices/devices.h"

#include <unistd.h>

// What it is to hold at most: so much beside what it holds when a study is opened. A history of 5,000 trials takes less.
enum { GROWS_BY = 8 << 20 };

size_t ft_tuning_coordinator_bytes(void) { return ft_process_held(getpid()) + GROWS_BY; }

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

// A process holds `others`, and of a pack the frozen weights, once for all its trials.
static size_t of_process(const ft_tuning_need *need, int pack) { return need->others + (pack > 1 ? need->trunk : 0); }
static size_t processes(int trials, int pack) { return (size_t)((trials + pack - 1) / pack); }

// All workers have read their texts and wait, and as many trials as must be able to train: the largest alone, or all of
// the smallest. What is between is the ledger's to say, trial by trial.
static size_t together(const ft_tuning_need *need, size_t coordinator, int trials, int pack) {
    const size_t once = of_process(need, pack), largest = less(need->largest, once), least = (size_t)trials * less(need->least, once);
    return coordinator + processes(trials, pack) * once + (least > largest ? least : largest);
}

static ft_host_verdict judge(const ft_config *config, const ft_tuning_need *need, size_t coordinator, const ft_host_limits *limits, int trials, int pack) {
    // What the user gives is not in the ledger: there all of them may have the largest trial.
    const size_t once = of_process(need, pack), all = processes(trials, pack) * once + (size_t)trials * less(need->largest, once);
    const ft_host_memory most = {.peak = coordinator + all}, now = {.peak = together(need, coordinator, trials, pack)};
    const ft_host_verdict given = ft_host_judge(config, &most, NULL);
    return given.given && !given.fits ? given : ft_host_judge(config, &now, limits);
}

// Trials that a GPU has memory for at a time, each with a model of its own.
static int models_on_device(const ft_tuning_need *need, int asked) {
    if (need->device_trunk == 0) return asked;
    const size_t models = need->device_bytes / need->device_largest;
    return models < (size_t)asked ? (int)models : asked;
}

static const double WORTH = 1.25; // of a predicted 1.14 nothing was there (benchmarks/results/packed_trials.md)

int ft_pack_of(const ft_tuning_need *need, int asked, int crew) {
    if ((need->trunk == 0 && need->device_trunk == 0) || asked < 2) return 1;
    return crew < asked || models_on_device(need, asked) < asked || need->gain >= WORTH ? asked : 1;
}

int ft_crew_of(const ft_config *config, const ft_tuning_need *need, size_t coordinator, const ft_host_limits *limits, int asked, int pack,
               ft_host_verdict *verdict) {
    int crew = asked;
    for (; crew > 0; crew--) {
        const ft_host_verdict v = judge(config, need, coordinator, limits, crew, pack);
        if (v.fits) break;
        *verdict = v;
    }
    return crew;
}

static ft_status refuse(const ft_tuning *t, const ft_host_verdict *v) {
    char need[24], limit[24], coordinator[24];
    ft_fail(FT_NO_MEMORY, ft_host_limit_name(v), "does not fit: a trial's process and its coordinator (%s) need %s, and may have %s",
            ft_bytes_text(t->coordinator, coordinator), ft_bytes_text(v->need, need), ft_bytes_text(v->limit, limit));
    ft_hint("this was found by planning the space: nothing was started; ftengine plan shows the space and the parts of a process (host)");
    return FT_NO_MEMORY;
}

static ft_status refuse_killed(void) {
    ft_fail(FT_NO_MEMORY, "study.parallel", "the process of a trial has not the memory to read its data: nothing was started");
    ft_hint("ftengine devices lists the limits of memory, and which binds");
    return FT_NO_MEMORY;
}

// How many share a process: as asked, or as pays by plan.
static void choose_pack(ft_tuning *t, const ft_tuning_need *need, const ft_host_limits *limits) {
    ft_host_verdict verdict;
    const int asked = ft_slots_asked(t);
    if (t->options->pack != FT_AUTO || t->options->devices_per_trial > 1) return;
    t->pack = ft_pack_of(need, asked, ft_crew_of(t->config, need, t->coordinator, limits, asked, 1, &verdict));
    if (t->pack > 1 && need->gain >= WORTH) ft_info("pack       %d trials share a process: by plan, their steps together take 1 / %.2f of the time, and the model is there once", t->pack, need->gain);
    else if (t->pack > 1) ft_info("pack       %d trials share a process: by plan, there is no memory for a model of each", t->pack);
}

ft_status ft_tuning_fit_crew(ft_tuning *t, const ft_tuning_need *need) {
    ft_host_limits limits;
    ft_host_verdict verdict = {.fits = true};
    char text[24], limit[24];
    t->pack = t->options->pack != FT_AUTO ? (int)t->options->pack : 1;
    t->coordinator = ft_tuning_coordinator_bytes();
    if (need->killed) return refuse_killed();
    if (need->largest == 0) return FT_OK;
    ft_host_limits_read(&limits);
    choose_pack(t, need, &limits);
    const int asked = ft_slots_asked(t);
    const int crew = ft_crew_of(t->config, need, t->coordinator, &limits, asked, t->pack, &verdict);
    if (crew == 0 && need->all) return refuse(t, &verdict); // else a smaller point may be drawn
    t->crew = crew > 0 ? crew : 1;
    if (crew < asked && t->pack > 1)
        ft_warn("%d trial%s at a time, not %d: one more needs %s with the coordinator, and %s may be taken (%s)", t->crew, t->crew == 1 ? "" : "s", asked,
                ft_bytes_text(verdict.need, text), ft_bytes_text(verdict.limit, limit), ft_host_limit_name(&verdict));
    else if (crew < asked)
        ft_warn("%d worker%s, not %d: one more needs %s with the coordinator, and %s may be taken (%s)", t->crew, t->crew == 1 ? "" : "s", asked,
                ft_bytes_text(verdict.need, text), ft_bytes_text(verdict.limit, limit), ft_host_limit_name(&verdict));
    return FT_OK;
}
