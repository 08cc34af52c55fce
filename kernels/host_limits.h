// host_limits.h - the limits of this process's memory, one row for each that somebody has set: values only. They are read by
// ft_host_limits_read (devices.h).
//
// A limit of a cgroup and the machine's own size are about pages that are touched, whoever of the group touches them; those of
// setrlimit(2) are about this process alone, and about addresses: RLIMIT_AS about all of them, RLIMIT_DATA about those that it
// may write to and nobody else sees. `ulimit -v`, grid engines and PBS set the first, `ulimit -d` the second.
#ifndef FT_HOST_LIMITS_H
#define FT_HOST_LIMITS_H

#include <stddef.h>

typedef enum ft_host_limit_kind {
    FT_LIMIT_MACHINE, FT_LIMIT_CGROUP_V1, FT_LIMIT_CGROUP_V2, FT_LIMIT_CGROUP_HIGH, FT_LIMIT_ADDRESSES, FT_LIMIT_DATA, FT_LIMIT_KINDS
} ft_host_limit_kind;

enum { FT_HOST_LIMITS = 16, FT_HOST_GROUP = 256 };

typedef struct ft_host_limit {
    ft_host_limit_kind kind;
    size_t bytes;              // the limit
    size_t left;               // of it, what this process could still take now
    char group[FT_HOST_GROUP]; // of a cgroup, as /proc/PID/cgroup has it; else ""
} ft_host_limit;

// The tightest first: the least `left`.
typedef struct ft_host_limits {
    int count; // at least 1: the machine
    ft_host_limit list[FT_HOST_LIMITS];
} ft_host_limits;

#endif
