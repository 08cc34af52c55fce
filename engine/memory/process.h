// process.h - what the kernel says about a process: when it began, and what it holds of the machine's memory.
#ifndef FT_PROCESS_H
#define FT_PROCESS_H

#include <stddef.h>
#include <stdint.h>

// Clock ticks from boot to its start; with the pid this names a process, which the pid alone does not, for it is used
// again. 0: there is no such process here (it ended, or lives in another pid namespace), or no /proc.
uint64_t ft_process_started(int64_t pid);
// Clock ticks that it has computed; 0 as above.
uint64_t ft_process_computed(int64_t pid);
// Bytes of memory that it has pages of; 0 as above.
size_t ft_process_resident(int64_t pid);
// Of these, those that only a swap could take from it: what it wrote, not what it maps of files (code, weights), whose pages
// the kernel takes back when it needs them. 0 as above.
size_t ft_process_held(int64_t pid);
// Addresses of this process, as RLIMIT_AS and RLIMIT_DATA count them; 0: nobody says.
typedef struct ft_process_addresses {
    size_t all, data;
} ft_process_addresses;
ft_process_addresses ft_process_addresses_now(void);

#endif
