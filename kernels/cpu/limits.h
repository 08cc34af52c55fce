// limits.h - what of this machine the process may use: the container's share, not the host's size.
#ifndef FT_CPU_LIMITS_H
#define FT_CPU_LIMITS_H

#include <stddef.h>

int ft_usable_threads(void);   // OMP_NUM_THREADS if set, else affinity and cgroup quota; at least 1
size_t ft_usable_memory(void); // physical memory or the cgroup's limit, whichever is lower
size_t ft_available_memory(void); // of that, what a program could still take without pushing others out; 0: unknown
#endif
