// host_plan.h - the memory of the process, planned: measured where it is there already when a run is planned (program, tokenizer,
// texts, ids), asked of those who take it where it is still to come.
#ifndef FT_HOST_PLAN_H
#define FT_HOST_PLAN_H

#include "engine/train/room/room.h"

// What a process is known to hold when it is planned, and what will come.
typedef struct ft_host_sources {
    ft_job_held held;
    size_t texts;      // that it will have given back before the device's memory is taken
    size_t device;     // what the allocator will reserve; 0: the parts beside it are asked for alone
    const ft_memory_counters *planned; // what else it was seen to take
    size_t features, trace;
    size_t evaluation, files;          // FT_PART_EVALUATION, FT_PART_FILES
    size_t mapped, mapped_weights;
    int threads, later_threads; // of the device; that are still to be started
    bool of_host;      // the device's memory is the host's
    bool lent;         // its trunk is another's (company.h), who has the program too
} ft_host_sources;
void ft_host_sum(const ft_host_sources *sources, ft_host_memory *out);
void ft_host_add_planning(ft_host_memory *others); // what planning leaves behind, where nothing was planned yet

enum { FT_FILES_MOST = 2 << 20 }; // pages of files that wait for the disk, at most

// Of a room whose steps are planned, be it a rehearsal's; `device`: what its allocator will reserve, `planned` what else it
// was seen to take; 0: the parts beside it are asked for alone. later_threads: that are still to be started.
void ft_host_plan(const ft_room *room, const ft_memory_counters *planned, size_t device, int later_threads, ft_host_memory *out);

#endif
