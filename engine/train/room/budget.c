#include "engine/train/room/budget.h"

#include "engine/memory/process.h"
#include "engine/train/room/device_graphs.h"
#include "engine/train/room/joining.h"
#include "engine/train/room/limit.h"
#include "engine/train/room/observer.h"
#include "kernels/devices/devices.h"

#include <unistd.h>

// On an accelerator kernels and those of the library of products are loaded when they are first launched, beside the
// allocator: of what is free when a run is planned this much is not for tensors.
enum { LATER_CODE = 256 << 20 };

// What the process holds of a device beside its allocator.
static size_t held_on(const ft_candidate *where) { return where->accelerator ? 0 : ft_process_held(getpid()); }

// Of the device, whatever its allocator takes.
static size_t beside_allocator(const ft_budget *b) { return b->graphs + b->communication; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

// What it will hold there. (Texts that it still holds now are given back before.)
static size_t outside_on(const ft_candidate *where, size_t process) { return where->accelerator ? 0 : process; }

static ft_status find_most(const ft_budget *b, ft_device *device, size_t limit, size_t process, size_t *most) {
    ft_candidate where;
    size_t beside = beside_allocator(b); // reserved too, whatever memory.limit says
    *most = limit;
    const bool studied = ft_run_observer_of() != NULL;
    if (!studied && beside == 0) return FT_OK;
    FT_TRY(ft_candidate_of(device, &where));
    if (studied) beside += outside_on(&where, process);
    if (where.capacity > beside && where.capacity - beside < limit) *most = where.capacity - beside;
    return FT_OK;
}

// Bytes that a run could reserve on an open device now, those outside the allocator left out; SIZE_MAX: nobody knows.
static size_t free_now(ft_device *device, size_t process) {
    ft_candidate where;
    ft_ledger_state state;
    ft_error before;
    ft_error_save(&before);
    bool known = ft_candidate_of(device, &where) == FT_OK && ft_candidate_read(&where, &state) == FT_OK;
    ft_error_restore(&before);
    if (!known) return SIZE_MAX;
    const size_t outside = outside_on(&where, process);
    return state.free > outside ? state.free - outside : 0;
}

// memory.limit = auto is what is free now, for a run that may not wait for more and is alone in deciding.
static size_t find_now(const ft_budget *b, const ft_config *config, ft_device *device, size_t process) {
    if (config->memory.limit != 0 || config->device.wait || ft_run_observer_of() != NULL) return b->most;
    const size_t unused = free_now(device, process), later = device->place[0] != '\0' ? LATER_CODE + beside_allocator(b) : 0;
    const size_t now = unused > later ? unused - later : 0;
    return now >= b->most ? b->most : now > 0 ? now : 1; // 0 would be no limit
}

ft_status ft_budget_find(const ft_config *config, ft_device *device, size_t limit, size_t process, ft_budget *budget) {
    *budget = (ft_budget){.graphs = ft_step_graphs_outside(config, device), .communication = ft_room_communication(config)};
    FT_TRY(find_most(budget, device, limit, process, &budget->most));
    budget->now = find_now(budget, config, device, process);
    budget->host = ft_cpu_available_bytes();
    if (config->memory.offload == FT_OFFLOAD_AUTO && ft_device_queues(device)) budget->pinned = ft_budget_pinned(false);
    return FT_OK;
}

ft_budget ft_budget_of_plan(const ft_config *config, const ft_budget_device *device) {
    const ft_device like = {.target = device->target};
    const size_t limit = ft_limit_of(config, device->bytes), graphs = ft_step_graphs_outside(config, &like), sums = ft_room_communication(config);
    size_t most = device->whole && limit != 0 ? limit : device->bytes - device->outside;
    const bool bounded = !device->is_here || graphs + sums > 0; // else a limit may be beyond what this machine has
    most = most > graphs + sums ? most - graphs - sums : 1;     // 0 would be no limit
    if (limit != 0 && !(bounded && limit > most)) most = limit;
    return (ft_budget){.most = most, .now = most, .graphs = graphs, .communication = sums};
}

size_t ft_budget_pinned(bool planned) {
    ft_candidate host;
    ft_ledger_state state;
    ft_error before;
    const size_t available = ft_cpu_available_bytes();
    if (available == 0 && !planned) return 0;
    ft_error_save(&before);
    bool known = ft_candidate_cpu(&host) == FT_OK;
    state.free = known ? host.capacity : 0;
    if (known && !planned) known = ft_candidate_read(&host, &state) == FT_OK; // a plan leaves no ledger behind
    ft_error_restore(&before);
    const size_t held = ft_process_held(getpid()); // is in what is asked for
    if (!known || (available > 0 && state.free >= available + held)) return available;
    return state.free > held ? state.free - held : 1; // 0 would be unknown
}

size_t ft_budget_takes(const ft_budget *budget, const ft_candidate *where, const ft_memory_counters *planned, const ft_host_memory *host) {
    if (where->accelerator) return planned->peak_reserved + beside_allocator(budget);
    return larger(ft_host_held(host), planned->peak_reserved + planned->peak_common + held_on(where));
}

size_t ft_budget_takes_of_host(const ft_memory_counters *planned, const ft_host_memory *host) {
    return larger(ft_host_held(host), planned->peak_pinned + ft_process_held(getpid()));
}
