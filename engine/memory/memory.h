// memory.h - where every buffer of a run comes from: alloc(bytes, category, site), metered.
//
// Three counters, as users of such engines know them: requested (the bytes asked for), allocated (rounded up to the
// allocator's granularity), reserved (taken from the device, in use or cached). Each has a current value and a peak;
// allocated has one per category as well, and the categories at the moment of the peak.
// Three lifetimes use it: run (weights, state), step (activations) and op (scratch). Step and op tensors are asked for
// with the size of the run's LARGEST micro-batch, in the same order every step, so that from the second step on nothing
// is taken from the device.
// Host scratch of the CPU backend and staging buffers are buffers too. What is not: parsed files, names, the tokenised
// text (see data/), all of them independent of batch and model size.
// Not thread-safe: one run, one thread.
#ifndef FT_MEMORY_H
#define FT_MEMORY_H

#include "kernels/backend.h"

typedef enum ft_memory_category {
    FT_MEM_WEIGHTS = 0, FT_MEM_GRADIENTS, FT_MEM_OPTIMIZER, FT_MEM_ACTIVATIONS, FT_MEM_WORKSPACE, FT_MEM_DATA, FT_MEM_COMMUNICATION,
    FT_MEM_CATEGORIES
} ft_memory_category;

// Phases of a run whose peaks are told apart.
typedef enum ft_memory_phase {
    FT_PHASE_LOAD = 0, FT_PHASE_FORWARD, FT_PHASE_BACKWARD, FT_PHASE_OPTIMIZER, FT_PHASE_EVAL, FT_PHASE_SAVE, FT_PHASE_COUNT
} ft_memory_phase;

const char *ft_memory_category_name(ft_memory_category category); // "weights", ... as in run.json
const char *ft_memory_phase_name(ft_memory_phase phase);          // "load", ...

typedef struct ft_memory ft_memory;

typedef struct ft_memory_counters {
    size_t requested, allocated, reserved;
    size_t peak_requested, peak_allocated, peak_reserved;
    size_t at_peak[FT_MEM_CATEGORIES]; // allocated bytes by category when peak_allocated was reached
    size_t phase_peak[FT_PHASE_COUNT]; // largest allocated in each phase
    size_t live_buffers;
} ft_memory_counters;

// limit: the most that may be reserved, in bytes; 0 = the device's total.
ft_status ft_memory_create(ft_device *device, size_t limit, ft_memory **memory);
// Frees everything. A buffer still live is a leak: the first is named and FT_FAILED returned (everything is freed all the
// same). NULL is fine.
ft_status ft_memory_destroy(ft_memory *memory);

// Contents undefined, aligned to 256 bytes. `site` names the tensor ("layer 3 qkv") and is copied. bytes == 0 gives a
// unique non-NULL address. FT_NO_MEMORY: the error names size, site, limit, use by category and the largest holders;
// counters stay as they were.
ft_status ft_memory_alloc(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data);
void ft_memory_free(ft_memory *memory, void *data); // NULL is fine

void ft_memory_set_phase(ft_memory *memory, ft_memory_phase phase);
ft_memory_counters ft_memory_read(const ft_memory *memory);
ft_device *ft_memory_device(ft_memory *memory);

// "1.50GiB", "12.0MiB", "512B": for people. out holds at least 24 bytes; returns out.
const char *ft_bytes_text(size_t bytes, char *out);

#endif
