// shards.h - AdamW's moments dealt out among ranks that are apart (distributed.shard = optimizer): of every trained
// store each has those of one part. Gradients are summed on all of them as without it, so the bits are the same; each
// updates its part, and all get what the others updated.
#ifndef FT_SHARDS_H
#define FT_SHARDS_H

#include "engine/model/state/parameters.h"

// Of a store of `count` elements, on that rank. All ranks have `room` for as many, so that they take the same memory.
ft_shard ft_shard_of(int64_t count, int rank, int ranks);
// The same where the parameters are dealt out, else all of it.
ft_shard ft_shard_here(const ft_parameters *parameters, int64_t count);
// Cuts the ranges of a store to the part that is here, counted from its begin; all of them stay in store->all_ranges.
ft_status ft_shards_cut(ft_parameters *parameters, ft_store *store);

// Collectives of the memory's ranks, queued like all of theirs: what is queued on the device from then on finds them
// done. Behind an update: weights, their exact form, and what is kept wide.
ft_status ft_shards_spread(const ft_parameters *parameters);
// Elements [first, first + count) of a store's moment, wherever they are, come to `to` on every rank's device.
ft_status ft_shards_bring(const ft_parameters *parameters, const ft_store *store, ft_store_state moment, int64_t first,
                          int64_t count, float *to);

#endif
