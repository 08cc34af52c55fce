// links.h - what carries sums between GPUs of one host, and how fast; and how fast well-known chips compute, for the
// time that hides it.
//
// All of it is assumed until a machine with several GPUs has measured it (benchmarks/gpu_check.sh): data sheets, and
// what others have published.
#ifndef FT_PLAN_LINKS_H
#define FT_PLAN_LINKS_H

#include "engine/plan/cards.h"
#include "kernels/devices/cost.h"

// bytes: a second, one way, that NCCL's ring reaches with large sums, its "bus bandwidth": an all-reduce of B bytes
// among N takes 2 (N - 1) / N x B / bytes.
typedef struct ft_link {
    const char *name;
    double bytes;
    const char *source;
} ft_link;

// "nvlink4", or "100GB": so many bytes a second. FT_INVALID with the names.
ft_status ft_link_find(const char *word, ft_link *link);
// What such a card usually has; and what it computes and moves, every kernel at its bound. FT_INVALID: nothing is known
// of it.
ft_status ft_link_of_card(const ft_card *card, ft_link *link, ft_rates *rates);

#endif
