// limits.h - what of this machine the process may use: the container's share, not the host's size.
#ifndef FT_CPU_LIMITS_H
#define FT_CPU_LIMITS_H

#include "kernels/host_limits.h"

#include <stdbool.h>
#include <stddef.h>

int ft_usable_threads(void);      // OMP_NUM_THREADS if set, else affinity and cgroup quota; at least 1
size_t ft_usable_memory(void);    // physical memory or the lowest limit
size_t ft_available_memory(void); // of that, what a program could still take without pushing others out; 0: unknown
size_t ft_available_addresses(void); // what RLIMIT_AS has left of addresses; SIZE_MAX: there is no such limit
void ft_memory_limits(ft_host_limits *limits);
bool ft_limit_is_shared(const ft_host_limit *limit, long long pid);
#endif
