// reserve.c - the planned bytes of a run, reserved before the first of them is taken.
#include "engine/memory/process.h"
#include "engine/train/admission.h"
#include "engine/train/observer.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <unistd.h>

// Under a watcher: tries when it says so, until there is room.
static ft_status enter_in_turn(const ft_run_observer *observer, ft_trainer *t, const ft_candidate *where,
                               const ft_admission_request *request) {
    for (bool full = false, alone;; full = true) {
        int chosen;
        FT_TRY(observer->turn(observer->context, request->bytes, full, &alone));
        ft_admission_request now = *request;
        now.wait = alone && request->wait;
        ft_status status = ft_admission_enter(1, where, &now, &t->reservation, &chosen);
        if (status == FT_OK) observer->entered(observer->context, where);
        if (status != FT_NO_DEVICE || alone) return status;
        ft_error_clear();
    }
}

ft_status ft_trainer_most(const ft_trainer *t, size_t *limit) {
    ft_candidate where;
    size_t most = ft_step_graphs_outside(t->config, t->device); // reserved too, whatever memory.limit says
    *limit = ft_memory_limit(t->memory);
    const bool studied = ft_run_observer_of() != NULL;
    if (!studied && most == 0) return FT_OK;
    FT_TRY(ft_candidate_of(t->device, &where));
    // A little more than it holds now: planning itself leaves something behind.
    const size_t outside = where.accelerator || !studied ? 0 : ft_process_resident(getpid());
    most += outside + outside / 16;
    if (where.capacity > most && where.capacity - most < *limit) *limit = where.capacity - most;
    return FT_OK;
}

// What lies outside the allocator is what the process holds by now: program, libraries, texts and tokens.
ft_status ft_trainer_reserve(ft_trainer *t, bool may_wait) {
    ft_candidate where; // the device that t was opened on
    int chosen;
    char text[24];
    FT_TRY(ft_candidate_of(t->device, &where));
    const size_t graphs = ft_step_graphs_outside(t->config, t->device);
    size_t bytes = t->planned.peak_reserved + (where.accelerator ? 0 : ft_process_resident(getpid())) + graphs;
    ft_admission_request request = ft_admission_request_of(t->config, bytes);
    request.driver = graphs;
    request.wait = request.wait && may_wait;
    const ft_run_observer *observer = ft_run_observer_of();
    if (observer != NULL) FT_TRY(enter_in_turn(observer, t, &where, &request));
    else FT_TRY(ft_admission_enter(1, &where, &request, &t->reservation, &chosen));
    if (t->reservation != NULL) ft_detail("reserved   %s of %s", ft_bytes_text(bytes, text), where.name);
    return FT_OK;
}
