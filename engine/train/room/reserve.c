// reserve.c - the planned bytes of a run, on its device and, beside a device with memory of its own, those of its process on the host,
// reserved before the first of them is taken.
#include "base/clock.h"
#include "base/log.h"
#include "engine/config/device_list.h"
#include "engine/model/state/pack.h"
#include "engine/train/room/admission.h"
#include "engine/train/room/company.h"
#include "engine/train/room/observer.h"
#include "engine/train/room/room.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ft_admission_request request_of_host(const ft_room *room, bool may_wait) {
    const ft_offload_choice choice = room->config->memory.offload;
    const bool beside = ft_device_queues(room->device);
    // Of a pack the program is the trunk's (company.h).
    const size_t bytes = room->trunk != NULL ? ft_host_held(&room->host) : ft_budget_takes_of_host(&room->planned, &room->host);
    ft_admission_request request = ft_admission_request_of(room->config, beside ? bytes : 0);
    request.min_free = 0; // is of the device
    request.host = true;
    request.pinned = choice != FT_OFFLOAD_NONE && choice != FT_OFFLOAD_AUTO;
    request.wait = request.wait && may_wait;
    return request;
}

// More than `where` has for all its runs together: as little begun as a run that the forecast refuses. The same status from a
// want of memory for the ledger itself is no such thing.
static ft_status refused(ft_room *room, const ft_candidate *where, size_t bytes, ft_status status) {
    if (status == FT_NO_MEMORY && bytes > where->capacity)
        room->refusal = (ft_memory_refusal){.bytes = bytes, .limit = where->capacity, .planned = true};
    return status;
}

// The frozen model's, where the run is the first of those that share it; else nothing. It outlives the run.
static ft_status enter_trunk(ft_room *room, const ft_candidate *where, const ft_admission_request *like) {
    ft_admission_request request = *like, process = *like;
    ft_ledger *reservation = NULL, *host_reservation = NULL;
    ft_candidate host;
    int chosen;
    request.bytes = ft_company_owes(room);
    process.bytes = ft_company_owes_host(room);
    if (request.bytes + process.bytes == 0) return FT_OK;
    FT_TRY(refused(room, where, request.bytes, ft_admission_enter(1, where, &request, &reservation, &chosen)));
    process.min_free = 0; // is of the device
    process.host = true;
    ft_status status = process.bytes > 0 ? ft_candidate_cpu(&host) : FT_OK;
    if (status == FT_OK && process.bytes > 0)
        status = refused(room, &host, process.bytes, ft_admission_enter(1, &host, &process, &host_reservation, &chosen));
    if (status != FT_OK) return ft_ledger_close(reservation), status;
    ft_company_reserved(room, reservation, host_reservation);
    return FT_OK;
}

static ft_status leave(ft_room *room, ft_status status) {
    ft_ledger_close(room->reservation);
    ft_ledger_close(room->host_reservation);
    room->reservation = room->host_reservation = NULL;
    return status;
}

// In both ledgers, or in none. All runs go to the host last, so that no two wait for each other.
static ft_status enter(ft_room *room, const ft_candidate *where, const ft_admission_request *request, bool wait) {
    ft_candidate host;
    int chosen;
    ft_admission_request now = *request;
    now.wait = wait;
    FT_TRY(refused(room, where, now.bytes, ft_admission_enter(1, where, &now, &room->reservation, &chosen)));
    ft_status status = enter_trunk(room, where, &now);
    if (status != FT_OK) return leave(room, status);
    const ft_admission_request process = request_of_host(room, wait);
    if (process.bytes == 0) return FT_OK;
    status = ft_candidate_cpu(&host);
    if (status == FT_OK)
        status =
            refused(room, &host, process.bytes, ft_admission_enter(1, &host, &process, &room->host_reservation, &chosen));
    return status == FT_OK ? FT_OK : leave(room, status);
}

// Nobody else of the study is on the device; but of a coordinator that was killed just now the workers have what they
// reserved until they are gone.
static ft_status enter_alone(ft_room *room, const ft_candidate *where, const ft_admission_request *request) {
    for (const double end = ft_now() + FT_LEAVING_SECONDS;; ft_error_clear()) {
        const ft_status status = enter(room, where, request, request->wait);
        if (status != FT_NO_DEVICE || request->wait || ft_now() >= end) return status;
        FT_TRY(ft_admission_pause(0.1));
    }
}

// Under a watcher: tries when it says so, until there is room.
static ft_status enter_in_turn(const ft_run_observer *observer, ft_room *room, const ft_candidate *where,
                               const ft_admission_request *request) {
    for (bool full = false, alone;; full = true) {
        ft_pack_rest(ft_pack_present()); // others of its process train meanwhile
        ft_status status = observer->turn(observer->context, request->bytes + ft_company_owes(room), full, &alone);
        ft_pack_wake(ft_pack_present());
        FT_TRY(status);
        status = alone ? enter_alone(room, where, request) : enter(room, where, request, false);
        if (status != FT_NO_DEVICE || alone) return status;
        ft_error_clear();
    }
}

ft_status ft_room_reserve_less(ft_room *room, const ft_memory_counters *planned, const ft_host_memory *host) {
    ft_candidate where;
    FT_TRY(ft_candidate_of(room->device, &where));
    const size_t bytes = ft_budget_takes(&room->budget, &where, planned, host);
    if (room->reservation != NULL) FT_TRY(ft_ledger_shrink(room->reservation, bytes));
    return room->host_reservation != NULL ? ft_ledger_shrink(room->host_reservation, ft_budget_takes_of_host(planned, host)) : FT_OK;
}

// All ranks or none: the first one of a host enters for all that are there, waiting if it has to, and leaves the others their shares.
// They do not wait: two runs that each have a part would wait for each other.
static ft_status enter_host_of_ranks(ft_room *room, const ft_candidate *where, const ft_admission_request *request) {
    ft_ranks *r = room->ranks;
    ft_admission_request all = *request;
    const ft_run_observer *observer = ft_run_observer_of();
    const bool leads = ft_group_near(r->group)->rank == 0;
    if (leads) {
        for (int i = 0; i < r->ranks; i++)
            if (i != r->rank && ft_group_is_near(r->group, i)) all.bytes += ft_ranks_facts(r, i)->takes;
        FT_TRY(observer != NULL ? enter_in_turn(observer, room, where, &all) : enter(room, where, &all, request->wait));
        if (room->reservation != NULL) FT_TRY(ft_ledger_shrink(room->reservation, request->bytes));
    }
    FT_TRY(ft_group_barrier(r->group));
    if (!leads) FT_TRY(enter(room, where, request, false));
    return ft_group_barrier(r->group); // only now others of the watcher's may try
}

static bool is_mine(const ft_ranks *r, int turn) {
    int before = 0;
    for (int i = 0; i < r->ranks; i++)
        before += strcmp(ft_ranks_facts(r, i)->place, ft_ranks_facts(r, r->rank)->place) < 0;
    return before == turn;
}

// Each on its own device, one after the other in the order of the devices, so that of two runs that try at the same
// time one gets them all. *full, on all ranks: one found no room, and none has reserved anything. `last`: that one ends
// the run instead.
static ft_status enter_in_order(ft_room *room, const ft_candidate *where, const ft_admission_request *request,
                                bool last, bool *full) {
    ft_ranks *r = room->ranks;
    *full = false;
    for (int turn = 0; turn < r->ranks && !*full; turn++) {
        const ft_status status = is_mine(r, turn) ? enter(room, where, request, false) : FT_OK;
        if (status == FT_NO_DEVICE && last && request->wait)
            return ft_fail(FT_NO_DEVICE, "device.wait_timeout", "no room on %s after %.0f seconds", where->name,
                           request->timeout);
        if (status != FT_OK && (status != FT_NO_DEVICE || last)) return status;
        if (status != FT_OK) ft_error_clear();
        size_t entered = status == FT_OK;
        FT_TRY(ft_ranks_least(r, 1, &entered));
        *full = entered == 0;
    }
    if (!*full) return FT_OK;
    (void)leave(room, FT_OK);
    return ft_group_barrier(r->group); // only now others of the watcher's may try
}

// Until it has to try for the last time.
static double left_of(const ft_admission_request *request, double since) {
    return request->timeout > 0 ? request->timeout - (ft_now() - since) : request->interval;
}

// Of the first rank, which alone hears of signals in time: returns when all may try. A watcher lets it wait; with
// nobody else of the watcher's there (*since then, else negative), and with no watcher, device.wait decides for how
// long.
static ft_status wait_to_enter(const ft_admission_request *request, bool full, double *since, bool *last) {
    const ft_run_observer *observer = ft_run_observer_of();
    bool alone = true;
    if (observer != NULL)
        FT_TRY(observer->turn(observer->context, request->bytes, full, &alone));
    else if (full)
        FT_TRY(ft_admission_pause(fmin(request->interval, left_of(request, *since))));
    const double now = ft_now(), most = request->wait ? request->timeout : observer != NULL ? FT_LEAVING_SECONDS : 0;
    if (!alone || *since < 0) *since = alone ? now : -1;
    *last = alone && now - *since >= most && (!request->wait || most > 0);
    return FT_OK;
}

static ft_status enter_devices_of_ranks(ft_room *room, const ft_candidate *where, const ft_admission_request *request) {
    double since = -1;
    for (bool full = false, told = false;; told = true) {
        bool last = true;
        if (room->rank == 0) FT_TRY(wait_to_enter(request, full, &since, &last));
        size_t is_last = last; // of the first rank alone this may be 0
        FT_TRY(ft_ranks_least(room->ranks, 1, &is_last));
        FT_TRY(enter_in_order(room, where, request, is_last != 0, &full));
        if (!full) return FT_OK;
        if (!told)
            ft_info("waiting    until each of %s has room: nothing is reserved there until then",
                    room->config->device.name);
    }
}

static ft_status enter_ranks(ft_room *room, const ft_candidate *where, const ft_admission_request *request) {
    ft_ranks *r = room->ranks;
    ft_rank_facts facts = {.threads = room->device->target.threads, .takes = request->bytes};
    snprintf(facts.device, sizeof facts.device, "%s", room->device->description);
    snprintf(facts.place, sizeof facts.place, "%s", room->device->place);
    ft_ranks_note(r, &facts);
    FT_TRY(ft_ranks_tell(r));
    return (ft_device_list_is_apart(room->config->device.name) ? enter_devices_of_ranks : enter_host_of_ranks)(room, where, request);
}

ft_status ft_room_reserve(ft_room *room, bool may_wait) {
    ft_candidate where; // the device that the room was opened on
    char text[24];
    FT_TRY(ft_candidate_of(room->device, &where));
    ft_admission_request request = ft_admission_request_of(
        room->config, room->trunk != NULL && !where.accelerator ? ft_host_held(&room->host) : ft_budget_takes(&room->budget, &where, &room->planned, &room->host));
    request.driver = room->budget.graphs;
    request.wait = request.wait && may_wait;
    const ft_run_observer *observer = ft_run_observer_of();
    if (observer != NULL && observer->priced != NULL && room->price.seconds > 0)
        observer->priced(observer->context, &where, &room->price);
    if (room->ranks != NULL) FT_TRY(enter_ranks(room, &where, &request));
    else if (observer != NULL) FT_TRY(enter_in_turn(observer, room, &where, &request));
    else FT_TRY(enter(room, &where, &request, request.wait));
    if (observer != NULL && room->rank == 0) observer->entered(observer->context, &where);
    if (room->reservation != NULL) ft_detail("reserved   %s of %s", ft_bytes_text(request.bytes, text), where.name);
    return FT_OK;
}
