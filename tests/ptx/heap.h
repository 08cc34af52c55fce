// heap.h - blocks of malloc, where the machine stands in LD_PRELOAD: what a test without a driver gives to kernels.
#ifndef FT_PTX_HEAP_H
#define FT_PTX_HEAP_H

#include <cstdint>

namespace ptx {

bool heap_is_watched();
// The block that holds the byte at an address, as it was asked for. False: there is none.
bool heap_block(uint64_t address, uint64_t *begin, uint64_t *end);
// What is asked for in between is the machine's own: no block.
struct own_heap {
    own_heap();
    ~own_heap();
};

} // namespace ptx
#endif
