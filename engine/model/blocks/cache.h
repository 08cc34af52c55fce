// cache.h - keys and values of texts that are gone on with token by token, so that a step computes the new tokens
// alone.
//
// A text has a slot of `room` rows in every layer: its keys, as they are turned, and its values beside them. Its first
// micro-batch has all of its tokens and leaves their rows there; each one behind it has one token a text, whose query
// reads the slot. Rows are written by adding them to zeros (-0 becomes 0), so that a slot is cleared before another
// text has it.
//
// One query of each text is a micro-batch for the op of attention too: sequences of one query each, whose keys stand
// apart. Between the keys of two slots stands a sequence of no query and whatever keys lie there, which nobody reads.
// So slots are as many pairs of sequences, in order.
#ifndef FT_CACHE_H
#define FT_CACHE_H

#include "engine/memory/memory.h"
#include "engine/model/state/net.h"

enum { FT_CACHE_WINDOWS = 2 }; // that layers of one model may have, none among them

typedef struct ft_cache {
    ft_memory *memory;
    int32_t slots, room;
    int32_t layers;
    int64_t width;  // of keys, and of values
    ft_tensor rows; // [layers * slots * room, 2 * width] of the model's type
    int32_t windows, window[FT_CACHE_WINDOWS];
    // Of the micro-batch under way, device:
    const int32_t *row;                       // [tokens] of a layer, where the keys of a token go
    const int32_t *cu_queries;                // [2 * slots + 1], as ft_attention_shape has them
    const int32_t *cu_keys[FT_CACHE_WINDOWS]; // the same for layers of each window
    bool steps; // it has one token a text, in the order of slots; else texts from their beginning
} ft_cache;

// Memory for so many texts of so many tokens each. FT_FAILED: layers have other windows than this has room for.
ft_status ft_cache_create(const ft_model *model, int32_t slots, int32_t room, ft_cache *cache);
void ft_cache_free(ft_cache *cache); // {0} is fine
// Another text will have the slot. Queued.
ft_status ft_cache_clear(const ft_cache *cache, int32_t slot);
// Keys of a text of `count` tokens that a layer of window number `window` reads: the first of them in its slot.
int32_t ft_cache_first(const ft_cache *cache, int window, int32_t count);

// Internal to the blocks. k, v [tokens, width] go to the layer's rows.
typedef struct ft_pass ft_pass;
ft_status ft_cache_keep(ft_pass *pass, int layer, ft_tensor k, ft_tensor v);
// out [tokens, heads * width] from q, of a micro-batch of steps whose keys are kept.
ft_status ft_cache_attend(ft_pass *pass, int layer, ft_tensor q, ft_tensor out);

#endif
