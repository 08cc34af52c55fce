#include "kernels/cpu/limits.h"
#include "kernels/cpu/cgroup.h"
#include "kernels/cpu/pool.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// ---- processors ---------------------------------------------------------------------------------------------------

static void take_quota(double *cpus, double quota, double period) {
    if (quota > 0 && period > 0 && quota / period < *cpus) *cpus = quota / period;
}

static void quota_v2(void *cpus, const char *directory, const char *group) {
    double number[2];
    ft_cgroup_numbers(directory, "cpu.max", number);
    take_quota(cpus, number[0], number[1]);
}

static void quota_v1(void *cpus, const char *directory, const char *group) {
    double quota[2], period[2];
    ft_cgroup_numbers(directory, "cpu.cfs_quota_us", quota);
    ft_cgroup_numbers(directory, "cpu.cfs_period_us", period);
    take_quota(cpus, quota[0], period[0]);
}

int ft_usable_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    if (text) {
        long wanted = strtol(text, NULL, 10); // a list ("4,2") is for nested teams: the first counts
        if (wanted > 0) return wanted < FT_POOL_MAX_THREADS ? (int)wanted : FT_POOL_MAX_THREADS;
    }
    double cpus = -1;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
#endif
    if (cpus < 1) cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    ft_cgroup_walk(FT_CGROUP_V2, "", quota_v2, &cpus);
    ft_cgroup_walk(FT_CGROUP_V1_CPU, "cpu", quota_v1, &cpus);
    // A quota of 1.5 is worth two threads: one would leave half a core unused.
    int threads = (int)(cpus + 0.5);
    return threads < 1 ? 1 : threads > FT_POOL_MAX_THREADS ? FT_POOL_MAX_THREADS : threads;
}

// ---- memory -------------------------------------------------------------------------------------------------------

// No limit is one that the machine does not reach: v1 says 2^63 less a page where there is none.
static void add(ft_host_limits *l, ft_host_limit_kind kind, double bytes, double left, const char *group) {
    if (l->count == FT_HOST_LIMITS || bytes <= 0 || (l->count > 0 && kind != FT_LIMIT_MACHINE && bytes >= (double)l->list[0].bytes)) return;
    ft_host_limit *limit = &l->list[l->count++];
    *limit = (ft_host_limit){.kind = kind, .bytes = (size_t)bytes, .left = left > 1 ? (size_t)left : 1};
    snprintf(limit->group, sizeof limit->group, "%s", group);
}

// What of a group is used and stays: pages of files go first, whether somebody used them lately or not, before the group is
// refused anything. (What lies in a tmpfs is none of them in these figures.)
static double kept(const char *directory, const char *usage, const char *inactive, const char *active) {
    double used[2];
    ft_cgroup_numbers(directory, usage, used);
    const double files[] = {ft_cgroup_named(directory, "memory.stat", inactive), ft_cgroup_named(directory, "memory.stat", active)};
    for (int i = 0; i < 2; i++)
        if (files[i] > 0) used[0] -= files[i] < used[0] ? files[i] : used[0];
    return used[0];
}

static void add_v2(void *limits, const char *directory, const char *group) {
    double most[2], high[2];
    ft_cgroup_numbers(directory, "memory.max", most);
    ft_cgroup_numbers(directory, "memory.high", high);
    if (most[0] <= 0 && high[0] <= 0) return;
    const double used = kept(directory, "memory.current", "inactive_file", "active_file");
    if (used < 0) return;
    add(limits, FT_LIMIT_CGROUP_V2, most[0], most[0] - used, group);
    if (most[0] <= 0 || high[0] < most[0]) add(limits, FT_LIMIT_CGROUP_HIGH, high[0], high[0] - used, group);
}

static void add_v1(void *limits, const char *directory, const char *group) {
    double most[2];
    ft_cgroup_numbers(directory, "memory.limit_in_bytes", most);
    if (most[0] <= 0) return;
    const double used = kept(directory, "memory.usage_in_bytes", "total_inactive_file", "total_active_file");
    if (used >= 0) add(limits, FT_LIMIT_CGROUP_V1, most[0], most[0] - used, group);
}

// A limit of setrlimit(2) on what /proc/self/status counts under `word`.
static void add_resource(ft_host_limits *limits, ft_host_limit_kind kind, int resource, const char *word) {
    struct rlimit r;
    if (getrlimit(resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return;
    const double used = ft_cgroup_named("/proc/self", "status", word) * 1024;
    add(limits, kind, (double)r.rlim_cur, (double)r.rlim_cur - (used > 0 ? used : 0), "");
}

static int tighter(const void *a, const void *b) {
    const ft_host_limit *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

void ft_memory_limits(ft_host_limits *limits) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double available = ft_cgroup_named("/proc", "meminfo", "MemAvailable") * 1024;
    limits->count = 0;
    add(limits, FT_LIMIT_MACHINE, bytes, available < 0 ? bytes : available, "");
    ft_cgroup_walk(FT_CGROUP_V2, "", add_v2, limits);
    ft_cgroup_walk(FT_CGROUP_V1_MEMORY, "memory", add_v1, limits);
    add_resource(limits, FT_LIMIT_ADDRESSES, RLIMIT_AS, "VmSize");
    add_resource(limits, FT_LIMIT_DATA, RLIMIT_DATA, "VmData");
    qsort(limits->list, (size_t)limits->count, sizeof limits->list[0], tighter);
}

// Does what that process holds count under this limit too? One that is not seen is counted everywhere but under a limit of
// this process alone.
bool ft_limit_is_shared(const ft_host_limit *limit, long long pid) {
    char group[FT_CGROUP_PATH];
    const size_t length = strlen(limit->group);
    if (limit->kind == FT_LIMIT_ADDRESSES || limit->kind == FT_LIMIT_DATA) return false;
    if (limit->kind == FT_LIMIT_MACHINE || strcmp(limit->group, "/") == 0) return true;
    if (!ft_cgroup_of(pid, limit->kind == FT_LIMIT_CGROUP_V1 ? "memory" : "", group)) return true;
    return strncmp(group, limit->group, length) == 0 && (group[length] == '/' || group[length] == '\0');
}

size_t ft_usable_memory(void) {
    ft_host_limits limits;
    ft_memory_limits(&limits);
    size_t bytes = SIZE_MAX;
    for (int i = 0; i < limits.count; i++)
        if (limits.list[i].bytes < bytes) bytes = limits.list[i].bytes;
    return bytes;
}

size_t ft_available_memory(void) {
    ft_host_limits limits;
    if (ft_cgroup_named("/proc", "meminfo", "MemAvailable") < 0) return 0;
    ft_memory_limits(&limits);
    return limits.list[0].left;
}

size_t ft_available_addresses(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    const double used = ft_cgroup_named("/proc/self", "status", "VmSize") * 1024;
    return used > 0 && (double)r.rlim_cur > used ? (size_t)((double)r.rlim_cur - used) : 0;
}
