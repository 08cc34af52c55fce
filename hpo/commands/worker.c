// worker.c - `ftengine worker SOCKET STUDY`: trains the trials that the study's coordinator sends (hpo/workers/worker.h).
#include "engine/plan/advice.h"
#include "engine/plan/plan.h"
#include "engine/train/room/company.h"
#include "engine/train/room/admission.h"
#include "engine/train/room/observer.h"
#include "hpo/commands/commands.h"
#include "hpo/commands/worker_ranks.h"
#include "hpo/space/options_study.h"
#include "hpo/workers/worker.h"

#include "base/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

// What the functions below are called with.
typedef struct trial {
    ft_worker *worker;
    ft_worker_job *job;
} trial;

static void alive(void *context, int64_t step, int64_t steps, size_t bytes, bool logged) {
    ft_worker_alive(((trial *)context)->worker, step, steps, bytes, logged);
}

static ft_status turn(void *context, size_t bytes, bool full, bool *alone) {
    return ft_worker_turn(((trial *)context)->worker, bytes, full, alone);
}

static void priced(void *context, const ft_candidate *where, const ft_step_price *price) {
    ft_worker_priced(((trial *)context)->worker, where->ledger, price);
}

static void entered(void *context, const ft_candidate *where) {
    ft_worker_entered(((trial *)context)->worker, &(ft_worker_place){.device = where->name,
                                                                     .ledger = where->ledger,
                                                                     .capacity = where->capacity,
                                                                     .accelerator = where->accelerator});
}

// A trial may have several runs.
static void ended(void *context, size_t peak) {
    ft_worker_job *job = ((trial *)context)->job;
    if (peak > job->peak) job->peak = peak;
}

static bool keeps(void *context) { return ft_worker_keeps(((trial *)context)->worker); }

// What the run would have needed, had there been enough. A refusal while it was planned has that for its reason.
static void measure(const ft_config *config, const ft_memory_refusal *refusal, ft_worker_job *job) {
    ft_error error;
    ft_plan plan;
    job->needed = refusal->reserved + refusal->bytes;
    job->limit = refusal->limit;
    if (refusal->planned) return; // that is all of it, and of the host it may be
    ft_error_save(&error);
    if (ft_plan_run(config, &(ft_plan_request){.budget_bytes = refusal->limit}, &plan) == FT_OK && !plan.fits &&
        !plan.host_short && !plan.process_short) // of the device
        job->needed = plan.memory.peak_reserved;
    ft_error_restore(&error);
}

static ft_status run_trial(ft_worker *worker, ft_worker_job *job) {
    char name[48];
    ft_config config = {0};
    snprintf(name, sizeof name, "Trial %lld - ", (long long)job->trial);
    trial own = {worker, job};
    ft_run_observer observer = {.context = &own,
                                .name = name,
                                .alive = alive,
                                .turn = turn,
                                .priced = priced,
                                .entered = entered,
                                .ended = ended,
                                .keeps = keeps,
                                .taken = job->taken,
                                .beside = job->beside};
    ft_run_observe(&observer);
    ft_atomic_wait_for_disk(!job->taken);
    ft_memory_refusal refusal = {.bytes = 0};
    ft_status status = ft_trial_load(job, &config);
    if (status == FT_OK) status = ft_trial_train(job, &config, &refusal);
    ft_run_observe(NULL);
    ft_atomic_wait_for_disk(true);
    if (status == FT_NO_MEMORY && refusal.bytes > 0) {
        measure(&config, &refusal, job);
        if (!refusal.planned) ft_advise(&config, &refusal);
    }
    ft_config_free(&config);
    return status;
}

// context: the pack that the trial is in; NULL: it has the process for itself.
static ft_status train(void *context, ft_worker *worker, ft_worker_job *job) {
    ft_pack_member *member = NULL;
    if (context != NULL) FT_TRY(ft_pack_join(context, &member));
    const ft_status status = run_trial(worker, job);
    if (member != NULL) ft_pack_leave(member);
    return status;
}

enum { MOST_SOCKETS = 256 };

// "5" or "5,7,9": how many; 0: it is no such list.
static int read_sockets(const char *text, int sockets[MOST_SOCKETS]) {
    for (int count = 0; count < MOST_SOCKETS; text++) {
        char *end;
        const long socket = strtol(text, &end, 10);
        if (end == text || socket < 3 || socket > INT_MAX || (*end != '\0' && *end != ',')) return 0;
        sockets[count++] = (int)socket;
        text = end;
        if (*end == '\0') return count;
    }
    return 0;
}

static ft_status serve_pack(int count, const int *sockets, const char *study) {
    ft_pack *pack;
    FT_TRY(ft_pack_create(&pack));
    const ft_status status = ft_worker_serve_pack(count, sockets, study, train, pack);
    ft_pack_destroy(pack);
    return status;
}

ft_status ft_command_worker(const ft_section *const *sections, int argc, char **argv) {
    int sockets[MOST_SOCKETS];
    if (argc == 5) {
        ft_worker_show_crashes();
        return ft_trial_rank(argc, argv);
    }
    const int count = argc == 2 ? read_sockets(argv[0], sockets) : 0;
    if (count == 0) {
        ft_fail(FT_INVALID, "worker", "is started by `ftengine tune`, with a socket and the study's directory");
        ft_hint("ftengine tune --parallel K runs K of them");
        return FT_INVALID;
    }
    ft_worker_show_crashes();
    return count > 1 ? serve_pack(count, sockets, argv[1]) : ft_worker_serve(sockets[0], argv[1], train, NULL);
}
