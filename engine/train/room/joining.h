// joining.h - a room on one of several GPUs, joined with those of the other ranks: each has a model of its own, and
// sums go over NCCL (kernels/collectives/nccl).
#ifndef FT_TRAIN_JOINING_H
#define FT_TRAIN_JOINING_H

#include "engine/train/room/room.h"

// Bytes of a rank's device that NCCL takes beside its allocator; 0: the run is not on several GPUs.
size_t ft_room_communication(const ft_config *config);
// NCCL is there, or FT_NO_DEVICE says what is missing. Nothing where the ranks of the room have memory in common, or
// there is one.
ft_status ft_room_find_nccl(ft_room *room);
// A collective of such ranks, once what they take is reserved: room->group, of which room->memory knows from then on.
ft_status ft_room_join(ft_room *room);
void ft_room_part(ft_room *room); // when nothing of the group is wanted any more, before its device is closed

#endif
