// chain_parts.h - what of a step's sums goes from host to host (chain.h): which numbers a micro-batch has left behind
// which point.
#ifndef FT_CHAIN_PARTS_H
#define FT_CHAIN_PARTS_H

#include "base/status.h"

#include <stdint.h>

typedef struct ft_chain_part {
    int point; // where a micro-batch adds to it for the last time
    float *data;
    int64_t count;
} ft_chain_part;

// By point; of one point in the order in which they were added.
typedef struct ft_chain_parts {
    ft_chain_part *list;
    int count, capacity;
} ft_chain_parts;

struct ft_parameters;

// Those of the gradients, in place of all that was there.
ft_status ft_chain_parts_find(ft_chain_parts *parts, const struct ft_parameters *parameters);
ft_status ft_chain_parts_add(ft_chain_parts *parts, ft_chain_part part);
void ft_chain_parts_free(ft_chain_parts *parts);

#endif
