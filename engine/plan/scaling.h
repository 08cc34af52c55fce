// scaling.h - several GPUs with a share of every batch each: what sums of gradients cost them, and what each would hold
// were the state dealt out. Predicted, not measured.
#ifndef FT_SCALING_H
#define FT_SCALING_H

#include "engine/model/gradients/buckets.h"
#include "engine/plan/links.h"
#include "engine/train/fit/run_rehearsal.h"

#include <jansson.h>

typedef struct ft_scaling_request {
    int devices, channels; // > 1; of NCCL (distributed.channels), each of which takes a multiprocessor while it sums
    ft_link link;
    ft_rates rates; // of one device
    int sm_count;
} ft_scaling_request;

// ft_scaling.state, bytes a rank: what is trained, its gradients and AdamW's state.

typedef struct ft_scaling {
    int devices, channels, buckets; // devices 0: nothing was asked
    ft_link link;
    size_t communication, gradients; // bytes; NCCL's, outside of the allocator (engine/train/room/joining.h)
    double alone;                    // seconds of a step of one rank without others, which updates all
    double reducing;                 // of all sums
    double exposed;                  // of that, behind the backward pass, and what words cost beside
    double slowed;                   // what the sums take from the computing beside them
    double dealt;                    // that others save a rank of its update (distributed.shard)
    double spread;                   // of new weights to all ranks then, behind the update
    double step;                     // alone + exposed + slowed - dealt + spread
    struct {
        int64_t rows;    // of the vocabulary
        int64_t in_step; // of these in a step's texts, on all ranks
        bool assumed;    // there are no texts to count them in
        bool by_row;     // they alone are summed (word_sums.h); else the table is
        double seconds;  // of gathering them and putting them back
    } words;                         // rows 0: the table is not trained, or something else adds to it
    size_t state[FT_SHARDS];         // as above; of gradients with the pieces that are there at once (gradient_parts.h)
    int shard;                       // distributed.shard of this plan
    bool whole_steps;                // a step is one micro-batch a rank at most: gradients can be dealt out
} ft_scaling;

const char *ft_shard_name(int shard); // "optimizer"

// A sum is begun when its bucket is complete and the one before is through.
typedef struct ft_reduction {
    double complete; // seconds
    double bytes;
} ft_reduction;
// What is complete at the same time is one sum. backward: seconds at which all gradients are complete. In the order given, which is that of completion. Sets
// reducing, exposed, slowed and step of *s from the rest; `busy`: what part of the chip a sum takes.
void ft_scaling_time(int count, const ft_reduction *reductions, double backward, double busy, ft_scaling *s);
// Of a rehearsed run, whose device counts by request->rates from then on.
ft_status ft_scaling_find(ft_rehearsal *rehearsal, const ft_scaling_request *request, ft_scaling *scaling);
json_t *ft_scaling_json(const ft_scaling *scaling); // NULL: no memory

#endif
