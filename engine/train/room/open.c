// open.c - a room opened on its device, given back, and exchanged for another.
#include "engine/train/room/room.h"

#include "base/log.h"
#include "engine/config/device_list.h"
#include "engine/model/elsewhere.h"
#include "engine/train/room/company.h"
#include "engine/train/room/device_choice.h"
#include "engine/train/room/device_graphs.h"
#include "engine/train/room/joining.h"
#include "engine/train/room/limit.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory beside that of a device which was asked for by name and has none of its own.
static ft_status check_offload(const ft_config *c, const ft_device *device) {
    if (c->memory.offload == FT_OFFLOAD_NONE || c->memory.offload == FT_OFFLOAD_AUTO || ft_device_queues(device)) return FT_OK;
    const char *name = ft_offload_name(c->memory.offload);
    if (strcmp(c->device.name, "auto") == 0)
        return ft_info("memory.offload=%s: the memory of the %s is the host's anyway", name, device->name), FT_OK;
    ft_fail(FT_INVALID, "memory.offload",
            "%s needs a device with memory of its own, and this run is computed on the %s", name, device->name);
    ft_hint("set memory.offload=none, or device.name=cuda where there is one");
    return FT_INVALID;
}

ft_status ft_room_check(const ft_config *config, const ft_device *device) {
    FT_TRY(ft_step_graphs_check(config, device));
    return check_offload(config, device);
}

// A plan of several ranks that are not there is of one host.
static ft_memory_ranks memory_ranks(const ft_room *room) {
    const ft_ranks *r = ft_ranks_present();
    const int ranks = ft_device_list_count(room->config->device.name);
    const bool apart = ft_device_list_is_apart(room->config->device.name); // they join later (joining.h)
    const bool sums = !apart && room->config->distributed.reduction == FT_REDUCTION_RING;
    if (r == NULL || ranks < 2) return (ft_memory_ranks){.ranks = ranks, .run_ranks = ranks, .apart = apart, .sums = sums};
    ft_group *near = ft_group_near(r->group);
    ft_memory_ranks m = {.rank = near->rank, .ranks = near->ranks, .run_rank = r->rank, .run_ranks = r->ranks, .apart = apart, .sums = sums};
    if (room->ranks != NULL && !apart) m.group = near, m.run = r->group;
    return m;
}

static ft_status make_memory(ft_room *room, size_t limit) {
    const ft_memory_options options = {.allocator = ft_allocator_options_of(room->config, room->device, limit)};
    FT_TRY(ft_memory_create_with(room->device, &options, &room->memory));
    ft_memory_set_ranks(room->memory, memory_ranks(room));
    return FT_OK;
}

// This process is one of those that the list of devices names; the threads of a host are divided among its ranks.
static ft_status open_rank(const ft_config *config, ft_room *room, char why[]) {
    char name[FT_DEVICE_NAME];
    const int ranks = ft_device_list_count(config->device.name), threads = config->device.threads > 0 ? (int)config->device.threads : ft_cpu_threads();
    FT_TRY(ft_device_list_check(config));
    room->ranks = ft_ranks_present();
    if (room->ranks == NULL || room->ranks->ranks != ranks)
        return ft_fail(FT_INVALID, "device.name", "%s: only ftengine train starts the %d ranks of such a run", config->device.name, ranks);
    room->rank = room->ranks->rank;
    ft_device_list_name(config->device.name, room->rank, name);
    if (ft_device_list_is_apart(config->device.name) && room->ranks->group->hosts > 1) {
        ft_fail(FT_INVALID, "device.name", "%s: GPUs of %d hosts; those of one host train one run", config->device.name, room->ranks->group->hosts);
        ft_hint("start the ranks on one host, or with device.name=cpu on several (docs/launchers.md)");
        return FT_INVALID;
    }
    FT_TRY(ft_room_find_nccl(room));
    const int near = ft_group_near(room->ranks->group)->ranks;
    return ft_device_open(name, threads / near > 0 ? threads / near : 1, config->device.isa, &room->device, why);
}

ft_status ft_room_open(const ft_job *job, const ft_config *config, ft_room *room) {
    char why[FT_DEVICE_WHY], name[24];
    *room = (ft_room){.job = job, .config = config};
    why[0] = '\0';
    if (ft_device_list_count(config->device.name) > 1) {
        FT_TRY(open_rank(config, room, why));
    } else {
        FT_TRY(ft_device_list_check(config));
        FT_TRY(ft_choose_device(config, name));
        FT_TRY(ft_company_device(config, name, room, why));
    }
    ft_cpu_tell(why, true, room->idle_gpu);
    ft_device_tell(room->device);
    FT_TRY(ft_gemm_tuning_apply(config, room->device, room->gemm_tuning));
    FT_TRY(ft_room_check(config, room->device));
    return make_memory(room, 0);
}

ft_status ft_room_open_on(const ft_job *job, const char *name, ft_room *room) {
    const ft_config *config = job->config;
    *room = (ft_room){.job = job, .config = config};
    FT_TRY(ft_device_open(name, (int)config->device.threads, config->device.isa, &room->device, NULL));
    ft_device_tell(room->device);
    FT_TRY(ft_gemm_tuning_apply(config, room->device, room->gemm_tuning)); // a file of another chip makes this device none
    FT_TRY(make_memory(room, 0));
    return config->memory.timeline ? ft_memory_trace(room->memory) : FT_OK;
}

ft_status ft_room_open_plan(const ft_job *job, const ft_config *config, ft_device *device, size_t limit, ft_room *room) {
    const ft_ranks *ranks = ft_ranks_present();
    *room = (ft_room){.job = job, .config = config, .device = device, .rehearses = true, .rank = ranks != NULL ? ranks->rank : 0};
    return make_memory(room, limit);
}

ft_status ft_room_close(ft_room *room) {
    free(room->carried.values);
    ft_absent_rows_free(&room->carried.absent);
    ft_status status = ft_memory_destroy(room->memory);
    ft_ledger_close(room->host_reservation);
    ft_ledger_close(room->reservation); // what was reserved is given back by now; it asks the device, which is open still
    ft_company_leave(room);
    ft_elsewhere_close(room->elsewhere);
    ft_room_part(room);
    ft_device_close(room->device); // of a pack it is what notes for that alone
    ft_arena_free(&room->arena);
    memset(room, 0, sizeof *room);
    return status;
}

ft_status ft_room_replace(ft_room *room, ft_room *with) {
    with->carried = room->carried;
    with->load_report = room->load_report; // of the weights that are carried
    with->arena = room->arena;
    ft_elsewhere_close(with->elsewhere);
    with->elsewhere = room->elsewhere; // the same files, as they were
    room->elsewhere = NULL;
    room->carried = (ft_carried_state){.values = NULL};
    room->arena = (ft_arena){0};
    ft_status status = ft_room_close(room);
    *room = *with;
    if (with->config == &with->fitted) room->config = &room->fitted;
    memset(with, 0, sizeof *with);
    return status;
}
