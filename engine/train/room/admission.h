// admission.h - which device a run is computed on, and its entry there: the planned bytes are reserved in the device's
// ledger (engine/memory/ledger.h) before anything is taken, so that what has started cannot be starved later.
//
// A device is judged by what is free on it now: of its capacity what nobody reserved, and no more than the device
// itself can still give. Of those that suffice, an accelerator goes before the CPU, and among equals the one with most
// free.
#ifndef FT_ADMISSION_H
#define FT_ADMISSION_H

#include "engine/config/config.h"
#include "engine/memory/ledger.h"
#include "kernels/ops/device.h"

enum { FT_CANDIDATES = 32 };

typedef struct ft_candidate {
    char name[24];   // "cpu", "cuda:0"
    char ledger[48]; // of its ledger file: unique to the device whatever number it has in this process
    bool accelerator;
    bool trains; // else it is only shown, never chosen
    size_t capacity;   // what a run may have at most
    size_t (*unused)(void *device, const ft_reservation *reservations, int count); // as in ft_ledger_device
    ft_device *device; // open, for `unused`; NULL: the CPU, or nothing to ask
} ft_candidate;

// The CPU: capacity is what this process may use (the tightest of the machine's memory, the limits of its cgroups, RLIMIT_AS and
// RLIMIT_DATA; the last two are its own), or FTENGINE_LEDGER_CAPACITY (a size as memory.limit takes it, for
// tests and to leave other programs their share) when that is less. FT_INVALID when that is no size.
ft_status ft_candidate_cpu(ft_candidate *candidate);
// An open device, which stays open as long as the candidate is used. One with memory of its own has a ledger of its
// own.
ft_status ft_candidate_of(ft_device *device, ft_candidate *candidate);
// A CUDA device that is not open: its ledger can be read; what its driver says is free is the caller's to ask.
ft_status ft_candidate_cuda(int ordinal, const char *uuid, size_t total_bytes, ft_candidate *candidate);
ft_status ft_candidate_read(const ft_candidate *candidate, ft_ledger_state *state); // its ledger, opened for this once

typedef struct ft_admission_request {
    size_t bytes;    // to reserve
    size_t driver;   // of them what the device's driver may take, beside the allocator
    bool host;       // memory of the host for a run on another device: messages say so
    bool pinned;     // of host: by memory.offload, what is pinned there is a part of it
    size_t min_free; // device.min_free_memory: a device with less free is none
    bool wait;       // device.wait
    double timeout;  // seconds; 0: none
    double interval; // seconds between two looks
} ft_admission_request;
ft_admission_request ft_admission_request_of(const ft_config *config, size_t bytes);

// How long a trial that is alone of its study tries to enter, without device.wait.
#define FT_LEAVING_SECONDS 3.0

// Sleeps so long, or until a signal asks to stop: FT_INTERRUPTED or FT_TERMINATED.
ft_status ft_admission_pause(double seconds);
// Index of the best device with `bytes` and `min_free` free, or -1. free[i] is what candidate i has.
int ft_admission_choose(int count, const ft_candidate *candidates, const size_t *free,
                        const ft_admission_request *request);

// Enters the best device that has room, waiting for one if asked to: a waiting run looks at accelerators alone as long
// as there is one that could ever hold it. *reservation is the caller's to close; it is NULL, after a warning, where no
// ledger can be kept at all (a read-only system). Errors: FT_NO_MEMORY when no device could ever hold it, FT_NO_DEVICE
// when none can now or none could in time, the status of a signal that came while waiting (stop.h).
ft_status ft_admission_enter(int count, const ft_candidate *candidates, const ft_admission_request *request,
                             ft_ledger **reservation, int *chosen);

#endif
