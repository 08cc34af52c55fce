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

// The number behind a word at the start of a line ("MemAvailable: 123 kB", "inactive_file 123"); -1: no such line.
static double named_number(const char *directory, const char *name, const char *word) {
    char path[1300], line[256];
    size_t length = strlen(word);
    double number = -1;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    while (number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, word, length) == 0 && (line[length] == ' ' || line[length] == ':')) number = strtod(line + length + 1, NULL);
    fclose(file);
    return number;
}

// What a group may still take: file pages that nobody used lately go first, as they do for the whole machine.
static double left_of(const char *directory, double limit, const char *usage, const char *inactive) {
    double used = first_number(directory, usage), given_back = named_number(directory, "memory.stat", inactive);
    if (limit <= 0 || used < 0) return -1;
    if (given_back > 0) used -= given_back < used ? given_back : used;
    return used < limit ? limit - used : 1;
}
static double left_v2(const char *directory) {
    return left_of(directory, memory_v2(directory), "memory.current", "inactive_file");
}
static double left_v1(const char *directory) {
    return left_of(directory, memory_v1(directory), "memory.usage_in_bytes", "total_inactive_file");
}

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

size_t ft_available_memory(void) {
    double bytes = named_number("/proc", "meminfo", "MemAvailable") * 1024;
    if (bytes < 0) return 0;
    double lefts[] = {lowest_limit("/sys/fs/cgroup", "", left_v2), lowest_limit("/sys/fs/cgroup/memory", "memory", left_v1)};
    for (int i = 0; i < 2; i++)
        if (lefts[i] > 0 && lefts[i] < bytes) bytes = lefts[i];
    return (size_t)bytes;
}
