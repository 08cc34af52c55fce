// stores.h - where the numbers of parameters lie: a list of stores, each of one format and one place, trained or not.
//
// In a store parameters stand one behind the other, in the order in which they were added to the registry (parameters.h): AdamW, offload
// and whoever divides a store among devices work on ranges of it. What other stores hold does not matter to it: adapters beside a frozen
// trunk, or a trunk of 4 bits beside a head of 16, are stores beside each other.
//
// What ops read is of format.dtype. What is trained stays as exact as fp32: in bf16 by a tail of 16 more bits a weight, which make it
// a number of fp32 (kernels/split.h); in fp16, which no number of fp32 begins with, by a master copy in fp32, of which every update
// makes the weights anew. Tails or master copy, and the moments, are the state of a store: only updates read it, and it lies on the
// device or, where offload.h streams it, in pinned memory of the host.
#ifndef FT_STORES_H
#define FT_STORES_H

#include "engine/memory/memory.h"
#include "engine/model/state/offload.h"
#include "engine/model/state/staging.h"
#include "kernels/ops/quantised.h"

typedef enum ft_exactness { FT_EXACT_AS_READ, FT_EXACT_BY_TAILS, FT_EXACT_BY_MASTER } ft_exactness;

typedef struct ft_store_format {
    ft_dtype dtype;     // of the weights
    ft_exactness exact; // how they are as exact as fp32, if they are trained
} ft_store_format;

// In which form the frozen weights of linear layers are kept.
typedef struct ft_storage {
    enum { FT_STORAGE_AS_READ, FT_STORAGE_TYPE, FT_STORAGE_QUANTISED } kind;
    ft_dtype dtype;         // FT_STORAGE_TYPE
    ft_quantisation format; // FT_STORAGE_QUANTISED
    bool multiplied;        // and products read it as it is (kernels/ops/int8_product.h): of the weights of layers alone; others are as read
} ft_storage;

// HOST: pinned. FILE: nothing is held, the numbers are read where a mapped file has them (parameters.h).
typedef enum ft_place { FT_PLACE_DEVICE, FT_PLACE_HOST, FT_PLACE_FILE } ft_place;

// An array each, [count]: m and v in fp32, of them the part that is here (shards.h), and tails or the master copy.
typedef enum ft_store_state { FT_STATE_M, FT_STATE_V, FT_STATE_EXACT, FT_STATES } ft_store_state;

// A part of a store: elements [first, first + count), and for how many there is room.
typedef struct ft_shard {
    int64_t first, count, room;
} ft_shard;

typedef struct ft_store {
    ft_store_format format;
    ft_place place;     // of its state
    bool absent;        // it has no memory, for nobody reads its weights (parameters.h: head_alone)
    ft_place home;      // of its weights: on the host those of frozen layers and of a frozen table, which nobody writes to
    bool trainable;     // it has gradients, and state
    ft_memory *owner;   // whose memory it is
    ft_memory_category category; // of the weights, exact or not
    int64_t first;      // elements of the stores in front of it; of a trained one: where its gradients begin (gradients.h)
    int64_t count;      // elements, padding included
    void *weights;      // [count] at home; of frozen layers ops read a copy of them (window.h)
    void *state[FT_STATES];
    ft_shard own;       // whose moments are here
    bool deals_exact;   // and of its exact form the same alone, on this rank (shards.h)
    void *collected;    // [count] of that, while all of it is here; else NULL
    ft_adamw_range *ranges; // weight decay over it
    int range_count;
    const ft_adamw_range *all_ranges; // over [0, count), where that is more; else NULL
    int all_count;
    ft_offload offload; // the way its state takes from the host
} ft_store;

size_t ft_store_weight_bytes(const ft_store *store); // that are held
// Bytes of an element of that array; 0: its format has none.
size_t ft_store_state_size(const ft_store *store, ft_store_state state);
// Of the array that is here.
size_t ft_store_state_bytes(const ft_store *store, ft_store_state state);
// Zeros, at its place; nothing where its format has none.
ft_status ft_store_allocate_state(ft_store *store, ft_store_state state);
void ft_store_free_state(ft_store *store); // of whatever was allocated; the way from the host too

// Elements of its weights, and of their exact form: with tails or as a master copy, of which the weights are the copy.
ft_tensor ft_store_weights(const ft_store *store, int64_t first, int64_t rows, int64_t cols);
ft_staged ft_store_exact(const ft_store *store, int64_t first, int64_t rows, int64_t cols);

#endif
