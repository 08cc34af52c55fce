// embedding.h - the sum of up to three table rows per token, and the gradient of one table.
//
// forward:  out[t] = word[word_ids[t]] + position[position_ids[t]] + type[type_ids[t]], added in this order.
//           position and type are optional. Ids are checked by the caller; the op trusts them.
// backward: table_gradient[ids[t]] += dout[t] in token order (one chain per element: no atomics, and splitting the tokens
//           over calls changes no bit). Tokens whose id is padding_id (if >= 0) give no gradient.
#ifndef FT_EMBEDDING_H
#define FT_EMBEDDING_H
#include "kernels/op.h"

typedef struct ft_embedding_forward_args {
    const int32_t *word_ids, *position_ids, *type_ids; // [T] each, device
    ft_tensor word, position, type;                    // tables [rows, H]; position and type optional
    ft_tensor out;                                     // [T,H]
    ft_workspace workspace;
} ft_embedding_forward_args;
size_t ft_embedding_forward_workspace(const ft_target *target, const ft_embedding_forward_args *args);

typedef struct ft_embedding_backward_args {
    const int32_t *ids;       // [T], device
    ft_tensor dout;           // [T,H], fp32 or 16 bits
    ft_tensor table_gradient; // [rows,H] fp32, accumulated
    int32_t padding_id;       // -1: none
    ft_workspace workspace;
} ft_embedding_backward_args;
size_t ft_embedding_backward_workspace(const ft_target *target, const ft_embedding_backward_args *args);
#endif
