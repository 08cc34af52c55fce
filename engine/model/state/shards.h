// shards.h - AdamW's moments dealt out among ranks that are apart (distributed.shard): of every trained store each has
// those of one part, and of its weights the exact form (tails, or the master copy); of adapters, which are small, all.
// Gradients are summed as without it (gradient_parts.h), so the bits are the same; each updates its part, and all get
// what the others updated. Whoever reads exact weights has them collected first.
#ifndef FT_SHARDS_H
#define FT_SHARDS_H

#include "engine/model/state/parameters.h"

// Of a store of `count` elements, on that rank. All ranks have `room` for as many, so that they take the same memory.
ft_shard ft_shard_of(int64_t count, int rank, int ranks);
// What this rank has of every store: with dealing out its part, else all of it. Their counts are known.
void ft_shards_find(ft_parameters *parameters);
// Cuts the ranges of a store to the part that is here, counted from its begin; all of them stay in store->all_ranges.
ft_status ft_shards_cut(ft_parameters *parameters, ft_store *store);

// Collectives of the memory's ranks, queued like all of theirs: what is queued on the device from then on finds them
// done. Behind an update: weights, what is kept wide, and the exact form where it isn't dealt out.
ft_status ft_shards_spread(const ft_parameters *parameters);
// Elements [first, first + count) of a store's moment, wherever they are, come to `to` on every rank's device.
ft_status ft_shards_bring(const ft_parameters *parameters, const ft_store *store, ft_store_state moment, int64_t first,
                          int64_t count, float *to);

// All of the exact form of what is dealt out comes to all ranks, into the arena of the steps, whose scope
// FT_SCOPE_COLLECT is for this: until another scope opens there, ft_parameter_stored gives all of it. Nothing where
// nothing is dealt out.
ft_status ft_shards_collect(ft_parameters *parameters);
void ft_shards_release(ft_parameters *parameters); // it is read; none collected is fine

#endif
