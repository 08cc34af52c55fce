// counters.h - what is counted of memory, and the words for it: what a buffer is for, the phases of a run, a request that could not
// be met. Values only; memory.h says what the counters mean.
#ifndef FT_MEMORY_COUNTERS_H
#define FT_MEMORY_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ft_memory_category {
    FT_MEM_WEIGHTS = 0, FT_MEM_GRADIENTS, FT_MEM_OPTIMIZER, FT_MEM_ACTIVATIONS, FT_MEM_WORKSPACE, FT_MEM_DATA, FT_MEM_COMMUNICATION,
    FT_MEM_ADAPTERS, // the last: lists in older checkpoints end before it
    FT_MEM_CATEGORIES
} ft_memory_category;

// Phases of a run whose peaks are told apart.
typedef enum ft_memory_phase {
    FT_PHASE_LOAD = 0, FT_PHASE_FORWARD, FT_PHASE_BACKWARD, FT_PHASE_OPTIMIZER, FT_PHASE_EVAL, FT_PHASE_SAVE, FT_PHASE_COUNT
} ft_memory_phase;

const char *ft_memory_category_name(ft_memory_category category); // "weights", ... as in run.json
const char *ft_memory_phase_name(ft_memory_phase phase);          // "load", ...

typedef struct ft_memory_counters {
    size_t requested, allocated, reserved;
    size_t peak_requested, peak_allocated, peak_reserved;
    size_t by_category[FT_MEM_CATEGORIES];           // allocated now
    size_t requested_by_category[FT_MEM_CATEGORIES]; // requested now
    size_t at_peak[FT_MEM_CATEGORIES]; // allocated bytes by category when peak_allocated was reached
    size_t phase_peak[FT_PHASE_COUNT]; // largest allocated in each phase
    ft_memory_phase peak_phase;        // in which peak_allocated was reached
    size_t arena_bytes, arena_live_bytes; // of the steps' arena, and the largest sum of its live tensors; 0: none
    size_t live_buffers;
    size_t peak_extent[2]; // addresses that the allocator's ranges for small and large buffers reached; 0: there were no ranges
    size_t common, peak_common; // memory that the ranks of a run share, where it is counted: on its first rank (memory.h). No part of any of the above
    size_t common_by_category[FT_MEM_CATEGORIES]; // asked for, of peak_common
    size_t pinned, peak_pinned; // memory of the host that the device copies to and from: no part of any of the above
} ft_memory_counters;

// "1.50GiB", "12.0MiB", "512B": for people. out holds at least 24 bytes; returns out.
const char *ft_bytes_text(size_t bytes, char *out);

// The request that could not be met.
typedef struct ft_memory_refusal {
    char site[48];
    size_t bytes, reserved, limit;
    bool by_limit; // the limit said no, not the device
    bool planned;  // of all that a run needs, before any of it was asked for: bytes beside limit, and no site
} ft_memory_refusal;

#endif
