#include "engine/train/room/admission.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "engine/config/options.h"
#include "engine/memory/memory.h"
#include "engine/memory/process.h"
#include "engine/train/room/limit.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- devices -----------------------------------------------------------------------------------------------------

// $FTENGINE_LEDGER_CAPACITY of `total`.
static ft_status capacity_of(size_t total, size_t *capacity) {
    static const char name[] = "FTENGINE_LEDGER_CAPACITY";
    const char *text = getenv(name);
    *capacity = total;
    if (text == NULL || text[0] == '\0') return FT_OK;
    ft_config config = {0};
    ft_status status = ft_option_set(&config, ft_option_at(ft_option_find("memory.limit")), text, NULL, name);
    size_t given = status == FT_OK ? ft_limit_of(&config, total) : 0;
    if (given > 0 && given < total) *capacity = given;
    ft_config_free(&config);
    if (status != FT_INVALID) return status;
    return ft_fail(FT_INVALID, name, "takes a size as memory.limit does, 24GiB or 80%%; got \"%.40s\"", text);
}

// The lowest limit that this process shares with others.
static ft_host_limit lowest_shared(const ft_host_limits *limits) {
    ft_host_limit lowest = {.bytes = SIZE_MAX};
    for (int i = 0; i < limits->count; i++) {
        const ft_host_limit *l = &limits->list[i];
        if (l->kind != FT_LIMIT_ADDRESSES && l->kind != FT_LIMIT_DATA && l->bytes < lowest.bytes) lowest = *l;
    }
    return lowest;
}

// Reservations, and of each what its process does not hold yet.
typedef struct promises {
    const ft_reservation *list;
    int count;
    bool visible[FT_LEDGER_ENTRIES]; // is its process? Else it counts everywhere, in full
    size_t missing[FT_LEDGER_ENTRIES];
} promises;

static size_t sum(size_t a, size_t b) { return b > SIZE_MAX - a ? SIZE_MAX : a + b; }

// What a limit leaves beside all that is reserved under it, and what is left of it now less what is promised there and not taken
// yet. Reservations of processes that the limit is not about, another cgroup's, take nothing of it.
static size_t unused_under(const ft_host_limit *limit, const promises *p, size_t held, bool left_known) {
    size_t reserved = 0, promised = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->visible[i] && !ft_host_limit_is_shared(limit, p->list[i].pid)) continue;
        reserved = sum(reserved, p->list[i].bytes);
        promised = sum(promised, p->missing[i]);
    }
    const size_t left = sum(limit->left, held); // what this process holds is part of what it asks for
    const size_t now = promised < left ? left - promised : 0, ever = reserved < limit->bytes ? limit->bytes - reserved : 0;
    return left_known && now < ever ? now : ever;
}

// The promised is looked at before what is left: memory that is taken between the two looks is then missing twice, never not at
// all.
static size_t cpu_unused(void *context, const ft_reservation *reservations, int count) {
    promises p = {.list = reservations, .count = count};
    for (int i = 0; i < count; i++) {
        const ft_reservation *r = &reservations[i];
        p.visible[i] = r->started != 0 && ft_process_started(r->pid) == r->started;
        const size_t held = p.visible[i] ? ft_process_held(r->pid) : 0;
        p.missing[i] = held < r->bytes ? r->bytes - held : 0;
    }
    const size_t held = ft_process_held(getpid()), available = ft_cpu_available_bytes();
    ft_host_limits limits;
    ft_host_limits_read(&limits);
    ft_host_limit given = lowest_shared(&limits); // what the user leaves of it
    if (capacity_of(given.bytes, &given.bytes) != FT_OK) ft_error_clear(); // was refused when the candidate was made
    limits.list[0].left = available;
    size_t least = unused_under(&given, &p, held, false);
    for (int i = 0; i < limits.count; i++) {
        const ft_host_limit_kind kind = limits.list[i].kind;
        if (kind == FT_LIMIT_ADDRESSES || kind == FT_LIMIT_DATA) continue; // of this process alone, and not in the same bytes: ft_host_judge
        const size_t unused = unused_under(&limits.list[i], &p, held, available > 0);
        if (unused < least) least = unused;
    }
    return least;
}

ft_status ft_candidate_cpu(ft_candidate *candidate) {
    *candidate = (ft_candidate){.name = "cpu", .ledger = "cpu", .trains = true, .unused = cpu_unused};
    return capacity_of(ft_cpu_total_bytes(), &candidate->capacity);
}

// What the driver says is free has nothing left of what other programs and contexts hold. Of a reservation it does not
// know how much of it is taken, so that between the entry of a run and its first step, seconds, another program's
// memory may be counted on twice; of runs in the ledger never, for the capacity holds for their sum.
static size_t accelerator_unused(void *device, const ft_reservation *reservations, int count) {
    size_t bytes = ft_device_free_bytes(device);
    return bytes > 0 ? bytes : SIZE_MAX;
}

ft_status ft_candidate_of(ft_device *device, ft_candidate *candidate) {
    if (device->place[0] == '\0') return ft_candidate_cpu(candidate);
    *candidate = (ft_candidate){.accelerator = true, .trains = true, .unused = accelerator_unused, .device = ft_device_under(device)};
    snprintf(candidate->name, sizeof candidate->name, "%s", device->name);
    snprintf(candidate->ledger, sizeof candidate->ledger, "%s", device->place);
    return capacity_of(device->total_bytes, &candidate->capacity);
}

ft_status ft_candidate_cuda(int ordinal, const char *uuid, size_t total_bytes, ft_candidate *candidate) {
    *candidate = (ft_candidate){.accelerator = true};
    snprintf(candidate->name, sizeof candidate->name, "cuda:%d", ordinal);
    snprintf(candidate->ledger, sizeof candidate->ledger, "cuda-%s", uuid); // ft_device.place
    return capacity_of(total_bytes, &candidate->capacity);
}

static ft_status open_ledger(const ft_candidate *c, ft_ledger **ledger) {
    return ft_ledger_open(
        // What reservations on the CPU take depends on where their processes are: cpu_unused knows.
        &(ft_ledger_device){.name = c->ledger, .capacity = c->unused == cpu_unused ? SIZE_MAX : c->capacity, .unused = c->unused,
                            .context = c->device},
        ledger);
}

ft_status ft_candidate_read(const ft_candidate *candidate, ft_ledger_state *state) {
    ft_ledger *ledger;
    FT_TRY(open_ledger(candidate, &ledger));
    ft_status status = ft_ledger_read(ledger, state);
    ft_ledger_close(ledger);
    return status;
}

// ---- the choice --------------------------------------------------------------------------------------------------

ft_admission_request ft_admission_request_of(const ft_config *c, size_t bytes) {
    return (ft_admission_request){.bytes = bytes,
                                  .min_free = (size_t)c->device.min_free_memory,
                                  .wait = c->device.wait,
                                  .timeout = c->device.wait_timeout,
                                  .interval = c->device.check_interval};
}

static size_t least_free(const ft_admission_request *r) { return r->bytes > r->min_free ? r->bytes : r->min_free; }

int ft_admission_choose(int count, const ft_candidate *candidates, const size_t *free_bytes,
                        const ft_admission_request *request) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        const ft_candidate *c = &candidates[i], *b = best >= 0 ? &candidates[best] : NULL;
        if (!c->trains || free_bytes[i] < least_free(request)) continue;
        if (b == NULL || c->accelerator > b->accelerator ||
            (c->accelerator == b->accelerator && free_bytes[i] > free_bytes[best]))
            best = i;
    }
    return best;
}

typedef struct admission {
    const ft_admission_request *request;
    int count;
    ft_candidate candidates[FT_CANDIDATES]; // that could ever hold the run
    int index[FT_CANDIDATES];               // of each among the caller's
    ft_ledger *ledgers[FT_CANDIDATES];
    ft_ledger_state state; // of the one last looked at
    int looked_at;
    double began, told;
} admission;

// What a run needs of the device beside its allocator: the driver's share, and on the CPU program, texts and tokens, which it
// holds already.
static size_t outside_on(const ft_candidate *c, const ft_admission_request *request) {
    return request->driver + (c->accelerator ? 0 : ft_process_held(getpid()));
}

// Only a limit that is none too small to be given.
static void hint_of_limit(size_t bytes, const char *what) {
    if (bytes >= (size_t)ft_option_at(ft_option_find("memory.limit"))->least) ft_hint("memory.limit=%zu %s", bytes, what);
}

static ft_status refuse_all(int count, const ft_candidate *candidates, const ft_admission_request *request) {
    char need[24], most[24], rest[24];
    const ft_candidate *largest = NULL;
    for (int i = 0; i < count; i++)
        if (candidates[i].trains && (largest == NULL || candidates[i].capacity > largest->capacity))
            largest = &candidates[i];
    if (largest == NULL) return ft_fail(FT_NO_DEVICE, "device.name", "there is no device to train on");
    ft_bytes_text(largest->capacity, most);
    if (request->bytes <= largest->capacity)
        return ft_fail(FT_NO_DEVICE, "device.min_free_memory", "%s must be free, but no device has more than %s (%s)",
                       ft_bytes_text(request->min_free, need), most, largest->name);
    size_t outside = outside_on(largest, request);
    if (request->host) {
        ft_fail(FT_NO_MEMORY, request->pinned ? "memory.offload" : "the host", "%s of the host are needed%s, and a run may have %s there",
                ft_bytes_text(request->bytes, need), request->pinned ? " with what is pinned" : " beside the device", most);
        ft_hint(request->pinned ? "memory.offload=none needs less" : "ftengine plan shows its parts (host)");
        return FT_NO_MEMORY;
    }
    ft_fail(FT_NO_MEMORY, largest->name, "does not fit: %s needed of %s, with %s outside the allocator",
            ft_bytes_text(request->bytes, need), most, ft_bytes_text(outside, rest));
    if (outside < largest->capacity)
        hint_of_limit(largest->capacity - outside, "leaves room for that; ftengine plan says what fits then");
    return FT_NO_MEMORY;
}

// Keeps the devices that could ever hold the run; of those that wait, accelerators alone where there are any.
static ft_status gather(admission *a, int count, const ft_candidate *candidates) {
    bool accelerators = false;
    size_t need = least_free(a->request);
    for (int i = 0; i < count; i++)
        accelerators |= candidates[i].trains && candidates[i].accelerator && candidates[i].capacity >= need;
    for (int i = 0; i < count && a->count < FT_CANDIDATES; i++) {
        const ft_candidate *c = &candidates[i];
        if (!c->trains || c->capacity < need || (a->request->wait && accelerators && !c->accelerator)) continue;
        a->index[a->count] = i;
        a->candidates[a->count++] = *c;
    }
    return a->count > 0 ? FT_OK : refuse_all(count, candidates, a->request);
}

// One look at every device, and one try at the best. *entered: its place in the arrays, or -1.
static ft_status try_once(admission *a, int *entered) {
    size_t free_bytes[FT_CANDIDATES];
    *entered = -1;
    for (int i = 0; i < a->count; i++) {
        FT_TRY(ft_ledger_read(a->ledgers[i], &a->state));
        a->looked_at = i;
        free_bytes[i] = a->state.free;
    }
    for (int tries = 0; tries < a->count; tries++) {
        int best = ft_admission_choose(a->count, a->candidates, free_bytes, a->request);
        bool done;
        if (best < 0) break;
        a->looked_at = best;
        FT_TRY(ft_ledger_enter(a->ledgers[best], a->request->bytes, a->request->min_free, &a->state, &done));
        if (done) return *entered = best, FT_OK;
        free_bytes[best] = 0; // somebody was faster: the next best
    }
    return FT_OK;
}

// "cpu has 1.00GiB free of 4.00GiB, 3.00GiB are needed; pid 12 has reserved 3.00GiB"
static void describe(const admission *a, char *out, size_t size) {
    char have[24], whole[24], need[24];
    const ft_ledger_state *s = &a->state;
    const ft_candidate *c = &a->candidates[a->looked_at];
    size_t at = (size_t)snprintf(out, size, "%s has %s free of %s, %s %s", c->name, ft_bytes_text(s->free, have),
                                 ft_bytes_text(c->capacity, whole), ft_bytes_text(least_free(a->request), need),
                                 a->request->bytes >= a->request->min_free ? "are needed" : "must be free");
    enum { SHOWN = 4 };
    for (int i = 0; i < s->count && i < SHOWN && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s pid %lld has reserved %s", i == 0 ? ";" : ",",
                               (long long)s->reservations[i].pid, ft_bytes_text(s->reservations[i].bytes, have));
    if (s->count > SHOWN && at < size) at += (size_t)snprintf(out + at, size - at, ", %d more", s->count - SHOWN);
    if (s->count == 0 && at < size) (void)snprintf(out + at, size - at, "; other programs hold the rest");
}

static ft_status give_up(const admission *a) {
    char text[600];
    describe(a, text, sizeof text);
    if (!a->request->wait) {
        ft_fail(FT_NO_DEVICE, NULL, "no room on the device: %s", text);
        ft_hint("device.wait=true waits until there is; ftengine devices shows who has reserved what");
        // What is left at auto is fitted to memory.limit, so that a smaller run may start now.
        size_t outside = outside_on(&a->candidates[a->looked_at], a->request);
        if (a->request->pinned) ft_hint("these are bytes of the host, with what is pinned there: memory.offload=none needs less");
        else if (a->request->host) ft_hint("these are bytes of the host, for the process beside its device: ftengine plan shows its parts");
        else if (a->state.free > outside && a->request->min_free <= a->state.free)
            hint_of_limit(a->state.free - outside, "asks for a run that fits into what is free");
    } else {
        ft_fail(FT_NO_DEVICE, "device.wait_timeout", "no room on the device after %.0f seconds: %s", ft_now() - a->began,
                text);
    }
    return FT_NO_DEVICE;
}

ft_status ft_admission_pause(double seconds) {
    for (double end = ft_now() + seconds, left = seconds; left > 0 && ft_stop_signal() == 0; left = end - ft_now()) {
        double slice = fmin(left, 0.2); // a signal between the question and the sleep does not wake the sleep
        nanosleep(&(struct timespec){.tv_nsec = (long)(slice * 1e9)}, NULL);
    }
    if (ft_stop_signal() == 0) return FT_OK;
    return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while waiting for a device");
}

static ft_status enter(admission *a, int *entered) {
    a->began = ft_now();
    for (bool waited = false;; waited = true) {
        FT_TRY(try_once(a, entered));
        double elapsed = ft_now() - a->began;
        if (*entered >= 0) {
            if (waited) ft_info("waiting    over after %.0f seconds", elapsed);
            return FT_OK;
        }
        bool late = a->request->timeout > 0 && elapsed >= a->request->timeout;
        if (!a->request->wait || late) return give_up(a);
        if (!waited || elapsed - a->told >= 60) {
            char text[600];
            describe(a, text, sizeof text);
            ft_info("waiting    for a device: %s", text);
            a->told = elapsed;
        }
        double next = a->request->interval;
        if (a->request->timeout > 0) next = fmin(next, a->request->timeout - elapsed);
        FT_TRY(ft_admission_pause(next));
    }
}

static ft_status open_all(admission *a) {
    for (int i = 0; i < a->count; i++)
        FT_TRY(open_ledger(&a->candidates[i], &a->ledgers[i]));
    return FT_OK;
}

ft_status ft_admission_enter(int count, const ft_candidate *candidates, const ft_admission_request *request,
                             ft_ledger **reservation, int *chosen) {
    admission a = {.request = request};
    int entered = -1;
    *reservation = NULL;
    *chosen = 0;
    FT_TRY(gather(&a, count, candidates));
    ft_status status = open_all(&a);
    bool unkept = status == FT_FAILED; // what the user named or has to repair is FT_INVALID
    if (status == FT_OK) status = enter(&a, &entered);
    for (int i = 0; i < a.count; i++)
        if (i != entered) ft_ledger_close(a.ledgers[i]);
    if (status == FT_OK) {
        *reservation = a.ledgers[entered];
        *chosen = a.index[entered];
    } else if (unkept) {
        ft_warn("no memory is reserved, other runs may take it: %s (%s)", ft_error_message(), ft_error_where());
        ft_error_clear();
        *chosen = a.index[0];
        return FT_OK;
    }
    return status;
}
