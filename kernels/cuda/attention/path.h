// path.h - which of attention's kernels for tensor cores a call gets, and why: plain C, for who plans scratch as for who
// launches.
//
//     mma     mma.sync, the backward in two passes: every chip from 8.0 on
//     wgmma   warpgroups of compute capability 9.0 (warpgroup.cu, warpgroup_backward.cu), causal and with shared keys too; what they are not made
//             for - other head sizes, a bias - goes to mma; of disentangled attention both directions at heads of 64 (forward: with both terms)
//     tcgen05 forward on tensor memory of compute capability 10.0 and 10.3 (tensor_memory.cu), full attention at heads of 64 and 128; the rest as mma
//     owner   forward as mma, backward by one block a sequence and head (owner.cu)
//     auto    of mma, wgmma and owner the one that counting favours on this chip, for this call
//
// FTENGINE_ATTENTION names one. Who names none gets wgmma where a check on this very GPU has found it to be mma's equal (self_check.h), and mma
// elsewhere; so does `auto`, as far as warpgroups go. Who names wgmma or owner gets it unchecked: that is for measuring. tcgen05 is nobody's who does
// not name it, as no chip has run it; who does gets it where the same check has found it right.
#ifndef FT_CUDA_ATTENTION_PATH_H
#define FT_CUDA_ATTENTION_PATH_H

#include "kernels/ops/attention.h"
#include "kernels/ops/geometry.h"

#include <stdlib.h>
#include <string.h>

#define FT_ATTENTION_PATH_NAME "FTENGINE_ATTENTION"

typedef enum ft_attention_path { FT_PATH_MMA, FT_PATH_WGMMA, FT_PATH_TCGEN05, FT_PATH_OWNER, FT_PATH_AUTO, FT_PATH_UNKNOWN, FT_PATH_UNNAMED } ft_attention_path;

static inline ft_attention_path ft_attention_path_asked(void) {
    static const char *const names[] = {"mma", "wgmma", "tcgen05", "owner", "auto"};
    const char *text = getenv(FT_ATTENTION_PATH_NAME);
    if (text == NULL || text[0] == '\0') return FT_PATH_UNNAMED;
    for (int i = 0; i < FT_PATH_UNKNOWN; i++)
        if (strcmp(text, names[i]) == 0) return (ft_attention_path)i;
    return FT_PATH_UNKNOWN;
}

// FTENGINE_ATTENTION_TURNS: 0 lets the two groups of wgmma's forward (warpgroup.cu) ask for products when they like; for measuring, as their results
// are the same.
#define FT_ATTENTION_TURNS_NAME "FTENGINE_ATTENTION_TURNS"

static inline ft_status ft_attention_takes_turns(bool *takes) {
    const char *text = getenv(FT_ATTENTION_TURNS_NAME);
    const bool is_one = text == NULL || text[0] == '\0' || strcmp(text, "1") == 0;
    *takes = is_one;
    if (is_one || strcmp(text, "0") == 0) return FT_OK;
    return ft_fail(FT_INVALID, FT_ATTENTION_TURNS_NAME, "'%s' is neither 0 nor 1", text);
}

// Whether a chip has tcgen05 and kernels that were compiled for these targets have code for it there: 100a is for 10.0 alone, 100f for its family.
static inline bool ft_attention_has_tensor_memory(int capability, const char *targets) {
    if (capability == 100) return strstr(targets, "sm_100a") != NULL || strstr(targets, "sm_100f") != NULL;
    return capability == 103 && (strstr(targets, "sm_100f") != NULL || strstr(targets, "sm_103a") != NULL || strstr(targets, "sm_103f") != NULL);
}

// Of the calls that have a path on tensor cores.
static inline bool ft_attention_has_owner(const ft_attention_shape *s) {
    return (s->head_dim == 32 || s->head_dim == 64) && !ft_attention_is_banded(s) && ft_attention_group(s) == 1;
}

// Chips with 99 KB of shared memory a block. There tensor cores bind (sums in fp32 at half rate), and an owner makes 5 products where
// two passes make 7; elsewhere shared memory binds, through which an owner moves as much.
static inline bool ft_attention_owner_chip(const ft_target *target) {
    const int capability = target->compute_capability;
    return capability == 86 || capability == 89 || capability == 120 || capability == 121;
}

// Whether one owner is the faster backward on such a chip, by counting what the busiest multiprocessor multiplies; the longest sequence
// of a shape stands for all. A block of the passes has 64 rows, an owner's 128 keys; what does not fill them is paid for as if it did.
static inline bool ft_attention_owner_saves(const ft_target *target, const ft_attention_shape *s) {
    const int64_t chip = target->sm_count > 0 ? target->sm_count : 1, heads = (int64_t)s->sequences * s->heads;
    const int64_t of_queries = (heads * ((s->max_queries + 63) / 64) + chip - 1) / chip; // blocks, of 3 products each
    const int64_t of_keys = (heads * ((s->max_keys + 63) / 64) + chip - 1) / chip;       // of 4
    const int64_t of_owner = (heads + chip - 1) / chip * ft_cuda_owner_tiles(s->max_keys); // of 5
    return 5 * of_owner * FT_CUDA_OWNER_KEYS * s->max_queries < 64 * (3 * of_queries * s->max_keys + 4 * of_keys * s->max_queries);
}

// What a backward call on tensor cores gets. An unknown name is for the op to complain about.
static inline bool ft_attention_takes_owner(const ft_target *target, const ft_attention_shape *s) {
    const ft_attention_path asked = ft_attention_path_asked();
    if (asked == FT_PATH_AUTO && !(ft_attention_owner_chip(target) && ft_attention_owner_saves(target, s))) return false;
    return (asked == FT_PATH_OWNER || asked == FT_PATH_AUTO) && ft_attention_has_owner(s);
}

// Scratch of it, in bytes, for every call up to this shape: a plan is made for the largest, and smaller ones may be the owner's then.
static inline size_t ft_attention_owner_bytes(const ft_target *target, const ft_attention_shape *s) {
    const ft_attention_path asked = ft_attention_path_asked();
    const bool possible = asked == FT_PATH_OWNER || (asked == FT_PATH_AUTO && ft_attention_owner_chip(target));
    if (!possible || !ft_attention_has_owner(s) || ft_cuda_owner_tiles(s->max_keys) < 2) return 0;
    return (size_t)(ft_cuda_owner_blocks(target->sm_count, s->heads, s->sequences) * ft_cuda_owner_slab(s->max_queries, s->head_dim)) *
           sizeof(float);
}

#endif
