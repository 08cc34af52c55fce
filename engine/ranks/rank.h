// rank.h - which of several processes this is, as whoever started them says it: torchrun, Open MPI, MPICH (and what
// else has its Hydra), Slurm. All say it in variables of the environment; here they become one value, or one error.
#ifndef FT_RANK_H
#define FT_RANK_H

#include "base/status.h"

#include <stdbool.h>

typedef enum ft_launcher {
    FT_LAUNCHER_NONE,     // an ordinary process: size is 1
    FT_LAUNCHER_TORCHRUN, // or RANK, WORLD_SIZE, MASTER_PORT set by hand
    FT_LAUNCHER_OPEN_MPI,
    FT_LAUNCHER_MPICH,
    FT_LAUNCHER_SLURM,
} ft_launcher;

enum { FT_RANKS_MOST = 65536, FT_RANK_JOB = 320 };

typedef struct ft_rank {
    ft_launcher launcher;
    int rank, size;             // 0 <= rank < size
    int local_rank, local_size; // the same among those on this host
    char address[256];          // of rank 0's host; "": the launcher does not say
    int port;                   // on it; 0: likewise. torchrun's agent listens there itself
    int attempt;                // how often the launcher has started all ranks again
    char job[FT_RANK_JOB];      // no other job of this launcher on this host has it; ranks of one job have the same
    int proxy;                  // MPICH: the job is told by who holds the other end of this descriptor; else -1
} ft_rank;

// A variable of the environment; NULL: it is not set. One that is empty counts as not set.
typedef const char *(*ft_environment)(void *owner, const char *name);

// The innermost launcher counts: torchrun's ranks may be started by Slurm, Open MPI's by either. Of an ordinary
// process, and where a launcher started only one, size is 1, and of the rest only `attempt` says something. FT_INVALID, with the variable as WHERE: half of what a
// launcher sets is there, a number is none or out of its bounds, or two launchers contradict each other.
ft_status ft_rank_find(ft_environment get, void *owner, ft_rank *rank);
ft_status ft_rank_find_here(ft_rank *rank); // in the environment of this process

const char *ft_launcher_name(ft_launcher launcher); // "torchrun"; "none"
static inline bool ft_rank_on_one_host(const ft_rank *rank) { return rank->local_size == rank->size; }

#endif
