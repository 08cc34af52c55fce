// gradient_sums.h - the gradients of a step that several ranks compute, each by itself (kernels/collectives): every
// rank adds up those of its micro-batches, and then they are summed over all ranks, in pieces (buckets.h).
//
// Micro-batch k of a step is computed by rank k mod ranks. While the backward pass of a rank's last one goes on, pieces
// that it has left are on their way already; the others follow behind it. The pieces, their bounds and their order are
// the same on every rank and in every step, whatever a rank computes, and so is what goes at once (ft_buckets_at_once); so the same ranks give the same bits again,
// wherever the sums of the group have the same bits again.
//
// Where each has a device of its own, or ranks are on several hosts, a piece is a sum of the group, and every rank gets
// all of it. Ranks that share memory (distributed.reduction = ring) say which pieces they have left. Of each piece every rank sums one part, in the
// order of ranks, into the first one's slot (gradients.h), as soon as all have left it; nobody waits before the end of
// the step, and nothing is copied. Then the update of all reads that slot.
//
//     ft_gradient_sums_begin(r);             of a step
//     ft_gradient_sums_go(r);                before the rank's last micro-batch
//     ...                                ft_gradients_reach calls ft_gradient_sums_reach
//     ft_gradient_sums_leave(r, p);          behind the rank's micro-batches: what the end of the step adds nothing to
//     ft_gradient_sums_finish(r, p);         behind that end: the sums of all are on their way (ft_group_join)
#ifndef FT_GRADIENT_SUMS_H
#define FT_GRADIENT_SUMS_H

#include "engine/model/gradients/buckets.h"

// What ranks that share memory say by a point of their group, beside those of chain.h.
enum { FT_SUMS_LEFT = 4 };

typedef struct ft_gradient_sums {
    ft_group *group; // NULL: there is none, and nothing is summed
    int rank, ranks;
    ft_bucket *pieces; // in the order in which they are sent
    ft_range *parts;   // [count] scratch
    int count, sent;   // of them, in this step
    bool going;
    ft_group *near;    // of several hosts: the ranks of this one, which read the sums that its first rank has; else NULL
    // Of ranks that all share memory:
    bool in_slots;
    int summed;     // pieces whose part of this rank is summed, in this step
    uint64_t steps; // that have begun; the group's points never fall, so it outlives ft_gradient_sums_close
} ft_gradient_sums;

// For parameters whose gradients are held, and whose memory has ranks that have joined (ft_memory_set_ranks) and
// outlives the sums. `sums` is {0}, or was closed.
ft_status ft_gradient_sums_open(ft_gradient_sums *sums, const ft_parameters *parameters);
void ft_gradient_sums_close(ft_gradient_sums *sums);                        // {0} is fine
bool ft_gradient_sums_is_mine(const ft_gradient_sums *sums, int64_t index); // micro-batch of the step
void ft_gradient_sums_begin(ft_gradient_sums *sums);
void ft_gradient_sums_go(ft_gradient_sums *sums);
ft_status ft_gradient_sums_reach(ft_gradient_sums *sums, ft_parameters *parameters, int point);
ft_status ft_gradient_sums_leave(ft_gradient_sums *sums, ft_parameters *parameters);
ft_status ft_gradient_sums_finish(ft_gradient_sums *sums, ft_parameters *parameters);

#endif
