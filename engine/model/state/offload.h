// offload.h - AdamW's state in memory of the host (memory.offload = optimizer), for a device that has memory of its own.
//
// Moments, and in 16 bits the tails or the master copy of weights (stores.h), lie in pinned memory of the host. An update
// streams them through the device, a chunk after the other in two slots: while one chunk is updated and sent back on the
// computing stream, the next is on its way up on the copying stream, so that both directions of the link are busy. AdamW works
// element by element: the bits are those of an update in one piece.
//
//   copying     up 0 | up 1 |  wait used 0  | up 2 | wait used 1 | up 3
//   computing   wait filled 0 | adamw 0 | down 0 | wait filled 1 | adamw 1 | down 1 ...
//
// Bytes over the link in an update: 8 a trained parameter each way in fp32, 10 in bf16, 12 in fp16. The slots live in the arena
// of the steps, where an update has room that activations needed before.
#ifndef FT_OFFLOAD_H
#define FT_OFFLOAD_H

#include "base/arena.h"
#include "engine/config/config.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/device.h"

enum { FT_OFFLOAD_SLOTS = 2 };

typedef struct ft_offload {
    ft_event *filled[FT_OFFLOAD_SLOTS]; // the chunk is there
    ft_event *used[FT_OFFLOAD_SLOTS];   // and has gone back
    ft_adamw_range *ranges;             // room for those of a chunk
} ft_offload;

// Does a run with these options, on this device, keep AdamW's state on the host? Not where the device's memory is the host's,
// as on the CPU: there is no other.
bool ft_offloads_optimizer(const ft_config *config, const ft_device *device);

// The same of frozen layers (window.h).
bool ft_offloads_trunk(const ft_config *config, const ft_device *device);

// A set of ft_offload_choice: what such a run keeps on the host; what of it is so; as memory.offload has it ("none", "trunk+optimizer", ...); and
// for people.
unsigned ft_offload_set(const ft_config *config, const ft_device *device);
unsigned ft_offload_set_of(bool optimizer, bool inputs, bool trunk);
const char *ft_offload_name(unsigned set);
const char *ft_offload_text(unsigned set);

struct ft_store;
// Behind the allocation of a store's state and ranges. `arena` lives as long as the store.
ft_status ft_offload_create(struct ft_store *store, ft_arena *arena);
void ft_offload_free(struct ft_store *store); // one that was never created is fine
// An update of the store as *adamw describes it, whose m and v, and whose tail, or parameter where there is a master copy, lie on the
// host. Inside FT_SCOPE_UPDATE. Queued like any op.
ft_status ft_offload_update(const struct ft_store *store, const ft_adamw_args *adamw);

#endif
