// host_plan.h - the memory of the process, planned: measured where it is there already when a run is planned (program, tokenizer,
// texts, ids), asked of those who take it where it is still to come.
#ifndef FT_HOST_PLAN_H
#define FT_HOST_PLAN_H

#include "engine/train/room/room.h"

// Of a room whose steps are planned, be it a rehearsal's; `device`: what its allocator will reserve, `planned` what else it
// was seen to take; 0: the parts beside it are asked for alone. later_threads: that are still to be started.
void ft_host_plan(const ft_room *room, const ft_memory_counters *planned, size_t device, int later_threads, ft_host_memory *out);

#endif
