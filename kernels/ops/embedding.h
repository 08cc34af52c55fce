// embedding.h - the sum of up to three table rows per token, and the gradient of one table.
//
// forward:  out[t] = word[word_ids[t]] + position[position_ids[t]] + type[type_ids[t]], added in this order.
//           position and type are optional. Ids are checked by the caller; the op trusts them.
// backward: table_gradient[ids[t]] += dout[t] in token order (one chain per element: no atomics, and splitting the tokens
//           over calls changes no bit). Tokens whose id is padding_id (if >= 0) give no gradient. A GPU has many threads and no
//           chain: it is told which tokens have the same id (order), and adds them in a fixed order of its own.
#ifndef FT_EMBEDDING_H
#define FT_EMBEDDING_H
#include "kernels/ops/op.h"

#include <stdbool.h>

typedef struct ft_embedding_forward_args {
    const int32_t *word_ids, *position_ids, *type_ids; // [T] each, device
    ft_tensor word, position, type;                    // tables [rows, H]; position and type optional
    ft_tensor out;                                     // [T,H]
    ft_workspace workspace;
} ft_embedding_forward_args;
size_t ft_embedding_forward_workspace(const ft_target *target, const ft_embedding_forward_args *args);
ft_status ft_embedding_forward_check(const ft_target *target, const ft_embedding_forward_args *args);

typedef struct ft_embedding_backward_args {
    const int32_t *ids;       // [T], device
    const int32_t *order;     // [T], device, the caller's: what ft_embedding_order makes of ids; NULL where it is not wanted
    ft_tensor dout;           // [T,H], fp32 or 16 bits
    ft_tensor table_gradient; // [rows,H] fp32, accumulated
    int32_t padding_id;       // -1: none
    ft_workspace workspace;
} ft_embedding_backward_args;
size_t ft_embedding_backward_workspace(const ft_target *target, const ft_embedding_backward_args *args);
ft_status ft_embedding_backward_check(const ft_target *target, const ft_embedding_backward_args *args);

// Whether embedding_backward needs `order` there: on CUDA. The CPU goes over the tokens as they stand.
bool ft_embedding_order_wanted(const ft_target *target);
// On the host: the tokens by id, those of the same id as they stand. Linear: two passes over them where ids have up to 22 bits,
// one up to 11. `space` is [tokens] of scratch.
void ft_embedding_order(const int32_t *ids, int32_t tokens, int32_t *order, int32_t *space);
#endif
