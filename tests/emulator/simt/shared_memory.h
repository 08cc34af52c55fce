// shared_memory.h - the shared memory of a block: NaN before it is written, red zones around every array.
#ifndef FT_SIMT_SHARED_MEMORY_H
#define FT_SIMT_SHARED_MEMORY_H

#include <cstddef>

namespace simt {

constexpr size_t STATIC_SHARED = 48 << 10; // what the hardware gives to arrays of fixed size
constexpr size_t EVERY_SHARED = 99 << 10;  // and altogether, on the smallest of our targets
constexpr size_t MOST_SHARED = 227 << 10;  // and on sm_90, for kernels that take tensor maps and run nowhere else

unsigned char *shared_begin(size_t dynamic_bytes); // of the next block
bool is_shared(const void *at);
const char *shared_check(); // nullptr, or what was overwritten around the arrays of the block that has ended

// scheduler.cpp: blocks that share addresses from here on are no race.
void order_all_blocks();

} // namespace simt
#endif
