// stages.h - the memory of a run at its milestones, in the words that users of such scripts know.
#ifndef FT_STAGES_H
#define FT_STAGES_H

#include "engine/train/room/room.h"

// "Run Start: Allocated: 0.12GiB (0.4%), Reserved: 0.50GiB, Free: 31.38GiB, Total: 31.50GiB". Total is what the run may
// have (memory.limit), free what of it is not reserved. Also a mark in the timeline.
void ft_stage_log(const ft_room *room, const char *stage);
// "Run Start"; "Trial Start" of the first run of a trial of a study, as "Trial Success" of its last: once each, however many runs a
// trial has.
void ft_stage_begin(const ft_room *room);
// The last lines: "Training End" with the change since "Training Start" (`before`; all zero: there was none), then Success or OOM Error.
void ft_stage_end(const ft_room *room, const ft_memory_counters *before, ft_status outcome);

#endif
