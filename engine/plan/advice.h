// advice.h - what would have fitted: after an out-of-memory error, the least slow change of the configuration that the
// planner finds to fit.
#ifndef FT_ADVICE_H
#define FT_ADVICE_H

#include "engine/config/config.h"
#include "engine/memory/memory.h"

// Adds a hint to the present error: options that fit into what the device gave before it refused (search.h says in which
// order they are tried). When nothing fits, the hint says what the smallest setting needs.
void ft_advise(const ft_config *config, const ft_memory_refusal *refusal);
// What advice leaves of a result: "gives the same bits" on the CPU, on a GPU "gives the same result to rounding".
const char *ft_advice_promise(const ft_config *config);

#endif
