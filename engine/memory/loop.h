// loop.h - a loop in a scope of memory.h: every round asks for the same and leaves nothing, but how many there are depends on the texts. One round
// is recorded, and all have its places. At least one runs.
//
//     int32_t begin = ft_memory_loop_begin(memory);
//     for (...) { if (it is not the first) ft_memory_loop_again(memory, begin); ... }
//     ft_memory_loop_end(memory);              // not needed after a failure
#ifndef FT_MEMORY_LOOP_H
#define FT_MEMORY_LOOP_H

#include "engine/memory/memory.h"

int32_t ft_memory_loop_begin(const ft_memory *memory);
void ft_memory_loop_again(ft_memory *memory, int32_t begin);
void ft_memory_loop_end(ft_memory *memory);

#endif
