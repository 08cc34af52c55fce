// cgroup.h - control groups as the kernel shows them: which one a process is in, and what stands in its files and its parents'.
#ifndef FT_CPU_CGROUP_H
#define FT_CPU_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

enum { FT_CGROUP_PATH = 1024 };

// Both hierarchies, and where each is mounted. The controller of v2 is "": there is one hierarchy for all.
#define FT_CGROUP_V2 "/sys/fs/cgroup"
#define FT_CGROUP_V1_CPU "/sys/fs/cgroup/cpu"
#define FT_CGROUP_V1_MEMORY "/sys/fs/cgroup/memory"

// Up to two numbers of a file; "max" (no limit) and absent ones are -1.
void ft_cgroup_numbers(const char *directory, const char *name, double number[2]);
// The number behind a word at the start of a line ("MemAvailable: 123 kB", "inactive_file 123"); -1: no such line.
double ft_cgroup_named(const char *directory, const char *name, const char *word);

// The group of a process (0: this one) under one controller, "/user.slice/job"; false where nobody says.
bool ft_cgroup_of(long long pid, const char *controller, char out[FT_CGROUP_PATH]);
// Calls `visit` for this process's group and then for its parents, of which each can only tighten. directory: its files.
void ft_cgroup_walk(const char *mount, const char *controller, void (*visit)(void *context, const char *directory, const char *group),
                    void *context);

#endif
