// ranks.h - the other processes that train the same run, where it is computed on several devices: what they tell each
// other beside gradients.
//
// A rank is a process with a room of its own; the run directory is rank 0's. All do the same work in the same order and
// decide alike, because all have the same losses, norms and figures. What one alone can know - a signal, a path - is
// said here, where all wait for all.
#ifndef FT_TRAIN_RANKS_H
#define FT_TRAIN_RANKS_H

#include "base/arena.h"
#include "engine/memory/counters.h"
#include "kernels/collectives/collectives.h"

enum { FT_RANKS_DEVICE = 128, FT_RANKS_PLACE = 48 };

// Of a rank, as it last said.
typedef struct ft_rank_facts {
    char device[FT_RANKS_DEVICE];
    char place[FT_RANKS_PLACE]; // of its memory (ft_device.place)
    int64_t threads;
    ft_memory_counters memory;
    size_t takes;         // of the host, for the ledger; of the device, where each has its own
    size_t communication; // of the device, by NCCL; 0: it is not there
} ft_rank_facts;

typedef struct ft_ranks {
    ft_group *group;
    int rank, ranks;
    int attempt;                // how often a launcher has started them all again
    struct ft_ranks_page *page; // that all see; of several hosts this rank's own
    uint64_t agreements;
} ft_ranks;

// Takes the group over, also by a failure. A collective.
ft_status ft_ranks_open(ft_group *group, ft_ranks **ranks);
void ft_ranks_close(ft_ranks *ranks); // NULL is fine
// The present context's, whose runs are of these ranks. NULL: a process alone.
void ft_ranks_enter(ft_ranks *ranks);
ft_ranks *ft_ranks_present(void);

// All wait for all. A signal that any of them has got meanwhile is then what ft_stop_signal() says on each (stop.h).
ft_status ft_ranks_agree(ft_ranks *ranks);
// Every rank has the same text for `what` ("version"), or FT_INVALID says who has another.
ft_status ft_ranks_same(ft_ranks *ranks, const char *what, const char *text);
// Rank 0's path, in the arena of the others.
ft_status ft_ranks_path(ft_ranks *ranks, ft_arena *arena, const char **path);
// Of every value the least that any rank has. At most FT_RANKS_VALUES.
enum { FT_RANKS_VALUES = 4 };
ft_status ft_ranks_least(ft_ranks *ranks, int count, size_t *values);
// This rank has failed, with the present error: the group ends, and the others are told whose it is. False, and
// nothing: it is what all of them come to alike - a stop, a loss that is no number - or no failure.
bool ft_ranks_fail(ft_ranks *ranks, ft_status status);
void ft_ranks_note(ft_ranks *ranks, const ft_rank_facts *facts);
// All wait for all, and then see what the others have noted.
ft_status ft_ranks_tell(ft_ranks *ranks);
const ft_rank_facts *ft_ranks_facts(const ft_ranks *ranks, int rank);

#endif
