#include "kernels/cpu/limits.h"
#include "kernels/cpu/pool.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Reads up to two numbers of a file; "max" (no limit) and absent ones stay -1.
static void read_numbers(const char *path, double number[2]) {
    number[0] = number[1] = -1;
    FILE *file = fopen(path, "re");
    if (!file) return;
    char line[128];
    if (fgets(line, sizeof line, file)) {
        char *end = line;
        for (int i = 0; i < 2; i++) {
            end += strspn(end, " ");
            char *start = end;
            double value = strtod(start, &end);
            if (end != start)
                number[i] = value;
            else
                end += strcspn(start, " ");
        }
    }
    fclose(file);
}

// The cgroup of this process under one controller ("" is the unified v2 hierarchy), e.g. "/user.slice/job".
static void cgroup_path(const char *controller, char *out, size_t size) {
    snprintf(out, size, "/");
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return;
    char line[1024];
    while (fgets(line, sizeof line, file)) { // id:controller,controller:path
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        bool found = false;
        if (!*controller) found = !names[1];
        for (char *save = NULL, *name = strtok_r(names + 1, ",", &save); name && !found;
             name = strtok_r(NULL, ",", &save))
            found = strcmp(name, controller) == 0;
        if (found) snprintf(out, size, "%s", path);
    }
    fclose(file);
}

// The lowest value of `limit` over this process's cgroup and its parents (each can only tighten); -1 when none.
static double lowest_limit(const char *mount, const char *controller, double (*limit)(const char *directory)) {
    char group[1024], directory[1200];
    cgroup_path(controller, group, sizeof group);
    double lowest = -1;
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
        double value = limit(directory);
        if (value > 0 && (lowest < 0 || value < lowest)) lowest = value;
        char *slash = strrchr(group, '/');
        if (!slash || strcmp(group, "/") == 0) return lowest;
        if (slash == group)
            slash[1] = 0; // "/job" -> "/"
        else
            *slash = 0;
    }
}

static double first_number(const char *directory, const char *name) {
    char path[1300];
    double number[2];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    read_numbers(path, number);
    return number[0];
}

static double cpus_v2(const char *directory) {
    char path[1300];
    double number[2];
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    read_numbers(path, number);
    return number[0] > 0 && number[1] > 0 ? number[0] / number[1] : -1;
}
static double cpus_v1(const char *directory) {
    double quota = first_number(directory, "cpu.cfs_quota_us"), period = first_number(directory, "cpu.cfs_period_us");
    return quota > 0 && period > 0 ? quota / period : -1;
}
static double memory_v2(const char *directory) { return first_number(directory, "memory.max"); }
static double memory_v1(const char *directory) { return first_number(directory, "memory.limit_in_bytes"); }

int ft_usable_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    if (text) {
        long wanted = strtol(text, NULL, 10); // a list ("4,2") is for nested teams: the first counts
        if (wanted > 0) return wanted < FT_POOL_MAX_THREADS ? (int)wanted : FT_POOL_MAX_THREADS;
    }
    double cpus = -1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
    if (cpus < 1) cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double quotas[] = {lowest_limit("/sys/fs/cgroup", "", cpus_v2), lowest_limit("/sys/fs/cgroup/cpu", "cpu", cpus_v1)};
    for (int i = 0; i < 2; i++)
        if (quotas[i] > 0 && quotas[i] < cpus) cpus = quotas[i];
    // A quota of 1.5 is worth two threads: one would leave half a core unused.
    int threads = (int)(cpus + 0.5);
    return threads < 1 ? 1 : threads > FT_POOL_MAX_THREADS ? FT_POOL_MAX_THREADS : threads;
}

size_t ft_usable_memory(void) {
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double limits[] = {lowest_limit("/sys/fs/cgroup", "", memory_v2),
                       lowest_limit("/sys/fs/cgroup/memory", "memory", memory_v1)};
    for (int i = 0; i < 2; i++)
        if (limits[i] > 0 && limits[i] < bytes) bytes = limits[i];
    return (size_t)bytes;
}
