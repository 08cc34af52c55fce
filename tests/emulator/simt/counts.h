// counts.h - what a launch asks of memory, access by access, as the hardware would: bank conflicts of shared memory and
// sectors of 32 bytes of the device's. Plain C: tests include it.
//
// Only kernels that were compiled for it are counted (ft_add_emulated(... COUNT ...)): the compiler then calls us at every
// load and store, and nobody else pays. Lanes of a warp that come to a line for the k-th time between two meetings of the
// warp count as one instruction. That is what the source says: nvcc may keep a value in a register and load less, never
// more, as nothing is spilled (tests/kernels/cuda/test_sass.sh).
//
// Shared memory: 32 banks of 4 bytes. A warp's access is served in phases of 32, 16 or 8 lanes (4, 8 or 16 bytes each), and
// a phase takes as many cycles as the fullest bank has different words. Cycles beyond one a phase are conflicts.
// Device memory: different sectors that one access touches, beside those that its different bytes would fill.
#ifndef FT_SIMT_COUNTS_H
#define FT_SIMT_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIMT_LOAD, SIMT_STORE, SIMT_LDMATRIX, SIMT_COPY, SIMT_KINDS }; // copy: what cp.async writes to shared memory

typedef struct simt_counts {
    const char *name; // of the launch
    uint64_t phases[SIMT_KINDS], conflicts[SIMT_KINDS]; // of shared memory
    struct {
        uint64_t sectors, ideal; // access by access
        uint64_t bytes;          // of the different sectors that the whole launch touched: what memory must move
    } read, written;
} simt_counts;

// Where the device's memory is, aligned to 32 bytes: other accesses but those of shared memory are not counted.
void simt_count_memory(const void *base, size_t bytes);
// Counts of the launches since the last call with `most` = 0, oldest first; how many there are.
enum { SIMT_MOST_COUNTS = 64 };
int simt_take_counts(simt_counts *counts, int most);
// Where in the program accesses of the last launch lost most: written to stderr, for addr2line.
void simt_show_worst(void);

#ifdef __cplusplus
}

namespace simt {
// A lane's access, by an instruction that is named by its address in the program.
void count_access(int kind, const void *place, const void *at, unsigned bytes);
void count_launch(const char *name);
void count_block(); // has ended
} // namespace simt
#endif
#endif
