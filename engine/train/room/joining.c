#include "engine/train/room/joining.h"

#include "base/log.h"
#include "engine/config/device_list.h"
#include "kernels/collectives/nccl/nccl.h"
#include "kernels/devices/devices.h"

size_t ft_room_communication(const ft_config *config) {
    return ft_device_list_is_apart(config->device.name) ? (size_t)config->distributed.channels * FT_NCCL_CHANNEL_BYTES
                                                        : 0;
}

static bool is_apart(const ft_room *room) {
    return room->ranks != NULL && ft_device_list_is_apart(room->config->device.name);
}

ft_status ft_room_find_nccl(ft_room *room) {
    return is_apart(room) ? ft_nccl_open((int)room->config->distributed.channels, &room->nccl) : FT_OK;
}

// The library takes its buffers when an operation is asked for the first time.
static ft_status warm_up(ft_room *room) {
    const ft_device_functions *f = room->device->functions;
    void *data;
    FT_TRY(ft_memory_alloc(room->memory, sizeof(float), FT_MEM_COMMUNICATION, "first sum of all ranks", &data));
    ft_status status = f->fill(room->device, data, 0, sizeof(float));
    if (status == FT_OK) status = ft_group_all_reduce(room->group, (ft_range){data, 1, FT_F32});
    if (status == FT_OK) status = ft_group_finish(room->group);
    ft_memory_free(room->memory, data);
    ft_memory_trim(room->memory);
    return status;
}

ft_status ft_room_join(ft_room *room) {
    if (!is_apart(room)) return FT_OK;
    const size_t before = ft_device_free_bytes(room->device);
    FT_TRY(ft_nccl_group_join(room->nccl, room->device, room->ranks->group, (int)room->config->distributed.channels,
                              &room->group));
    FT_TRY(warm_up(room));
    const size_t after = ft_device_free_bytes(room->device);
    room->communication = before > after ? before - after : 0;
    ft_memory_set_ranks(room->memory, (ft_memory_ranks){.rank = room->rank, .ranks = room->ranks->ranks, .group = room->group, .run_rank = room->rank,
                                                        .run_ranks = room->ranks->ranks, .run = room->group, .apart = true});
    ft_detail("NCCL       %d.%d.%d, %d channels", room->nccl->version / 10000, room->nccl->version / 100 % 100,
              room->nccl->version % 100, (int)room->config->distributed.channels);
    return FT_OK;
}

void ft_room_part(ft_room *room) {
    ft_group_close(room->group);
    ft_nccl_close(room->nccl);
    room->group = NULL;
    room->nccl = NULL;
}
