// timeline.h - what the meter saw, moment by moment, for a picture. Internal to engine/memory.
#ifndef FT_TIMELINE_H
#define FT_TIMELINE_H

#include "engine/memory/meter.h"

// The first and the last events are kept; what lies between is counted and left out.
enum { FT_TIMELINE_FIRST = 4096, FT_TIMELINE_LAST = 4096, FT_TIMELINE_MARKS = 64 };

typedef struct ft_timeline_event {
    double seconds; // since the trace began
    size_t by_category[FT_MEM_CATEGORIES];
    size_t reserved;
    ft_memory_phase phase;
    bool phase_begins;
} ft_timeline_event;

typedef struct ft_timeline {
    double started;
    ft_timeline_event *events; // [FIRST] in order, then a ring of [LAST]
    int64_t count;             // events noted
    struct {
        double seconds;
        char name[32];
    } marks[FT_TIMELINE_MARKS];
    int32_t mark_count;
    struct ft_timeline *before; // of the device that the run had before; owned
    char device[16];            // of `before` and those before it: whose memory this was
} ft_timeline;

ft_status ft_timeline_new(ft_timeline **timeline);
void ft_timeline_free(ft_timeline *timeline); // NULL is fine
void ft_timeline_note(ft_timeline *timeline, const ft_meter *meter, bool phase_begins);
void ft_timeline_mark(ft_timeline *timeline, const char *name);
// The run left `device` for that of `timeline`: `before` becomes its first part, on one clock.
void ft_timeline_continue(ft_timeline *timeline, ft_timeline *before, const char *device);
ft_status ft_timeline_write(const ft_timeline *timeline, const char *device, const char *path);

#endif
