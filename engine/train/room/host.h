// host.h - the memory of the process that a run is, all of it: what its device's allocator meters is one part where the device is the
// CPU, and no part beside a GPU. Values, and whether limits of the process hold them. Who fills them in is fit/host_plan.h.
//
// Three figures for the three ways in which a system counts. Pages that were written (a cgroup's limit, the machine's memory): `peak`,
// a bound of what the kernel charges for the process, its own bookkeeping included. Addresses (RLIMIT_AS) and private addresses that
// may be written (RLIMIT_DATA). Files that are mapped and only read - weights, program, libraries - are in `addresses` alone: their
// pages go when somebody needs them.
#ifndef FT_TRAIN_HOST_H
#define FT_TRAIN_HOST_H

#include "engine/config/config.h"
#include "kernels/devices/devices.h"

#include <jansson.h>

typedef enum ft_host_part {
    FT_PART_PROGRAM,     // what the process held before the run was opened
    FT_PART_TOKENIZER,   // with its vocabulary
    FT_PART_DATA,        // texts, labels, ids
    FT_PART_BOOKKEEPING, // plans of the run, places of its buffers, the events of its timeline
    FT_PART_DEVICE,      // what the allocator of a CPU device reserves
    FT_PART_PINNED,      // beside a device with memory of its own
    FT_PART_EVALUATION,  // what the largest evaluation keeps
    FT_PART_THREADS,     // stacks
    FT_PART_FILES,       // pages of files on their way to the disk, and what the kernel keeps of them: nobody can take those at once
    FT_PART_KERNEL,      // tables of pages and the like
    FT_PART_SLACK,       // what nobody follows: JSON of files that are written, pieces of the heap, how exactly a kernel counts
    FT_PART_COUNT
} ft_host_part;
const char *ft_host_part_name(ft_host_part part); // "tokenizer", as in JSON

typedef struct ft_host_memory {
    size_t part[FT_PART_COUNT];
    size_t loading;         // the most that was held and asked for until the run was planned: texts are read and become tokens
    size_t peak;            // the bound: all parts together, or loading if that is more; 0: nobody planned it
    size_t addresses, data; // as RLIMIT_AS and RLIMIT_DATA count; bounds too
    size_t mapped;          // files of weights: in addresses alone
    size_t mapped_weights;  // of these, frozen weights that every step reads there (memory.map_weights)
} ft_host_memory;

// The tightest limit of the process that a run which needs that much would break, if the need is known to be there: parts but the
// slack, of addresses but half of it.
typedef struct ft_host_verdict {
    bool fits;
    bool given;           // the limit is memory.host_limit
    ft_host_limit_kind kind; // else of this kind
    size_t need, limit;
} ft_host_verdict;

enum { FT_HOST_SLACK_BYTES = 2 << 20 };

// limits: NULL: only memory.host_limit counts (a plan for another machine).
ft_host_verdict ft_host_judge(const ft_config *config, const ft_host_memory *need, const ft_host_limits *limits);
// What the process will hold from the first step on that no file gives back: without the kernel's part, and the slack.
size_t ft_host_held(const ft_host_memory *host);
// Whoever opens a job begins this before (base/heap.h): what is asked for while files are read and runs planned is refused where the limits
// do not hold it, for then the run that follows could not be either. limits: as above. Ended when the run is judged.
void ft_host_watch(const ft_config *config, const ft_host_limits *limits);
// What the allocator of a CPU device could reserve beside the parts that are in `others`, whose own FT_PART_DEVICE is 0; SIZE_MAX: as
// much as it wants.
size_t ft_host_room(const ft_config *config, const ft_host_memory *others, const ft_host_limits *limits);
// "memory.host_limit", or what the limit is called where it is set.
const char *ft_host_limit_name(const ft_host_verdict *verdict);
// {"peak_bytes", "address_bytes", "data_bytes", "mapped_bytes", "mapped_weights_bytes", "loading_bytes", "parts": {...}}; NULL, and *failed, without memory.
json_t *ft_host_json(const ft_host_memory *host, bool *failed);
// FT_NO_MEMORY that says so.
ft_status ft_host_refuse(const ft_host_verdict *verdict);

#endif
