// chain.h - the gradients of a step that several ranks compute (kernels/collectives): one buffer that all see, to which
// one micro-batch adds behind the other, as they would on one rank. So the bits are those of one rank, and nothing is
// sent.
//
// (distributed.reduction = chain; where each rank adds up by itself: gradient_sums.h.)
//
// Micro-batch k of a step is computed by rank k mod ranks. Where its backward pass comes to a point (gradients.h) it
// waits until the micro-batch before it has left all that it is about to add to; behind that point the next one
// follows. Ranks so follow each other through the layers at a distance of one, and forward passes wait for nobody. What
// several layers share (ALBERT, a tied table) is left with the last of them.
//
// Between hosts, each of which has such a buffer, a rank sends what its micro-batch leaves behind to the rank of the
// next one, layer by layer, which goes on with these sums; that of the step's last micro-batch sends to the first rank
// of every other host. All hosts have the same sums then, and each does with its copy what one host does.
//
//     ft_chain_clear(chain, p);                    every rank: its part of the gradients is 0
//     ft_chain_open_step(chain);                   and so is all else that micro-batches add to
//     ft_chain_begin(chain, k, last);              whose micro-batch it is, before its pass; is it the step's last one?
//     ...                                          ft_gradients_reach calls ft_chain_reach
//     ft_chain_end(chain, losses_before, rows);    also of one that computes nothing, because none of it has a loss
//     ft_chain_finish(chain, batches, losses);     every rank: the sums of all micro-batches are there
//     ft_chain_close_step(chain, batches);         the first rank of a host: and what belongs to the end of the step;
//     the
//                                                  others wait for it
#ifndef FT_CHAIN_H
#define FT_CHAIN_H

#include "engine/model/gradients/chain_parts.h"
#include "engine/model/state/parameters.h"

// What ranks say by points of the group of their host.
enum { FT_CHAIN_BATCH, FT_CHAIN_CLEARED, FT_CHAIN_CLOSED, FT_CHAIN_ARRIVED };

typedef struct ft_chain {
    ft_group *group; // all ranks; NULL: planned, and nobody waits
    ft_group *near;  // those of this host
    int rank, ranks;
    uint64_t steps; // that have begun
    uint64_t first; // micro-batches of the steps before this one
    uint64_t batch; // the present one, counted over all steps
    bool last;      // the present one is the last of its step
    // Of several hosts:
    ft_chain_parts parts;
    int received, sent; // of the present micro-batch, in their order
} ft_chain;

// For parameters whose memory has ranks (ft_memory_set_ranks). Once: its points never fall.
void ft_chain_open(ft_chain *chain, const ft_parameters *parameters);
void ft_chain_close(ft_chain *chain);
// Where gradients lie, now that they do; what else micro-batches add to is added to chain->parts. On one host: nothing.
ft_status ft_chain_hold(ft_chain *chain, const ft_parameters *parameters);
ft_status ft_chain_clear(ft_chain *chain, const ft_parameters *parameters);
bool ft_chain_is_mine(const ft_chain *chain, int64_t index); // of the step
void ft_chain_open_step(ft_chain *chain);
void ft_chain_begin(ft_chain *chain, int64_t index, bool last);
ft_status ft_chain_reach(ft_chain *chain, const ft_parameters *parameters, int point);
// losses: those of the step's micro-batches before this one, which has `rows` of them behind these.
ft_status ft_chain_end(ft_chain *chain, ft_tensor losses, int64_t rows);
// losses: of the whole step.
ft_status ft_chain_finish(ft_chain *chain, int64_t batches, ft_tensor losses);
ft_status ft_chain_close_step(ft_chain *chain, int64_t batches);

#endif
