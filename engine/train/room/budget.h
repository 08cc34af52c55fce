// budget.h - what memory a run may take: of its device for the allocator, of the device beside it, and of the host's memory. It is
// found here alone; the forecast, autofit, the reservation and `ftengine plan` read it.
#ifndef FT_BUDGET_H
#define FT_BUDGET_H

#include "engine/memory/memory.h"
#include "engine/train/room/admission.h"
#include "engine/train/room/host.h"

typedef struct ft_budget {
    size_t most;   // reserved bytes that a run may be planned for: memory.limit; no more than the device's ledger could ever give
                   // beside `graphs`; and of a study, where nobody is there to lower the limit, beside what the process holds
    size_t now;    // of them those that are free now, for a run that may not wait for more and is alone in deciding; else all
    size_t graphs; // of the device beside the allocator: left to its driver (device_graphs.h)
    size_t communication; // likewise: what NCCL takes (joining.h)
    size_t host;   // of the host's memory, available; 0: unknown
    size_t pinned; // of that what may be pinned beside what is reserved there (by nobody, for a plan); 0: unknown
} ft_budget;

// Of a run on an open device, whose allocator may reserve `limit` bytes; `process`: what the process will hold beside it, which is taken
// from the same memory on the CPU. `pinned` only where memory.offload = auto asks for it. Errors: as ft_candidate_of.
ft_status ft_budget_find(const ft_config *config, ft_device *device, size_t limit, size_t process, ft_budget *budget);

// A device that a run is planned for.
typedef struct ft_budget_device {
    ft_target target;
    size_t bytes;       // of all its memory
    size_t outside;     // of them the driver's own
    bool is_here;       // else it is one that this machine may not have, and no limit is beyond it
    bool whole;         // the run is planned for all that memory.limit names, though the device here has less
} ft_budget_device;
// As a run finds it there, alone: graphs leave so much of the device free, whatever memory.limit is. now is most; host and pinned: 0.
ft_budget ft_budget_of_plan(const ft_config *config, const ft_budget_device *device);
// ft_budget.pinned as it is now. planned: for a run that leaves no ledger behind.
size_t ft_budget_pinned(bool planned);

// What a run of these planned peaks takes of `where`: with what it needs of the device beside its allocator, which is the driver's
// share, and on the CPU what the process holds by now: program, libraries, texts and tokens.
// host: of the whole process, as planned (host.h).
size_t ft_budget_takes(const ft_budget *budget, const ft_candidate *where, const ft_memory_counters *planned, const ft_host_memory *host);
// What it takes of the host's memory while it is computed elsewhere: with what the process holds already, as of a run on the CPU.
// (Where the system does not count pinned pages as held by the process they are missing twice in what is free, never not at all.)
size_t ft_budget_takes_of_host(const ft_memory_counters *planned, const ft_host_memory *host);

#endif
