// fake_nccl.h - how a test sets up the NCCL of fake_nccl.c. Ranks are processes; each sets up its own.
//
// A program that knows nothing of fakes is set up by the environment: FAKE_NCCL="rank=1,die_at=20", with these names;
// rank: of that one alone. What it did is added to the file that FAKE_REPORT names.
#ifndef FT_FAKE_NCCL_H
#define FT_FAKE_NCCL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_nccl_settings {
    bool drawn; // sums are in an order that is drawn for every call, the same on all ranks; else in the order of ranks
    uint64_t seed;    // of it; the same on all ranks
    uint64_t late;    // milliseconds that this rank comes late to every operation
    uint64_t die_at;  // this rank is killed when its nth operation runs (1: the first); 0: never
    uint64_t fail_at; // its nth operation gives an asynchronous error; 0: none does
    uint64_t busy;    // calls answer `in progress` first, so many times
} fake_nccl_settings;

typedef struct fake_nccl_books {
    uint64_t communicators; // alive
    uint64_t operations;    // that ran
    uint64_t misuses;       // calls that the documentation forbids, or that other ranks do not make
    uint64_t aborted;
    uint64_t summed; // bytes that this rank gave to sums
    uint64_t bytes; // of the device that are taken for channels
} fake_nccl_books;

void fake_nccl_set(const fake_nccl_settings *settings);
fake_nccl_books fake_nccl_read(void);

#endif
