#include "engine/train/room/stages.h"

#include "base/log.h"
#include "engine/train/room/observer.h"

#include <stdio.h>

static double gib(size_t bytes) { return (double)bytes / (1 << 30); }

static void log_line(const ft_room *room, const char *stage, const char *behind) {
    ft_memory_counters c = ft_memory_read(room->memory);
    size_t total = ft_memory_limit(room->memory);
    ft_memory_mark(room->memory, stage);
    const ft_run_observer *observer = ft_run_observer_of();
    ft_info("%s%s: Allocated: %.2fGiB (%.1f%%), Reserved: %.2fGiB, Free: %.2fGiB, Total: %.2fGiB%s",
            observer != NULL ? observer->name : "", stage, gib(c.allocated),
            100.0 * (double)c.allocated / (double)total, gib(c.reserved), gib(total - c.reserved), gib(total), behind);
}

void ft_stage_log(const ft_room *room, const char *stage) { log_line(room, stage, ""); }

void ft_stage_begin(const ft_room *room) { log_line(room, ft_run_is_first() ? "Trial Start" : "Run Start", ""); }

void ft_stage_end(const ft_room *room, const ft_memory_counters *before, ft_status outcome) {
    ft_memory_counters c = ft_memory_read(room->memory);
    char change[64];
    snprintf(change, sizeof change, ", Change: %+.2fGiB allocated, %+.2fGiB reserved", gib(c.allocated) - gib(before->allocated),
             gib(c.reserved) - gib(before->reserved));
    if (before->reserved > 0) log_line(room, "Training End", change);
    if (outcome == FT_OK) log_line(room, ft_run_is_last() ? "Trial Success" : "Success", "");
    else if (outcome == FT_NO_MEMORY) log_line(room, "OOM Error", "");
}
