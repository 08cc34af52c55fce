// timeline.c - the trace as Chrome's trace events, which ui.perfetto.dev opens: a counter for each category and for what
// is reserved, a slice for each phase, an instant for each mark. Every device that the run has had is a process of the trace.
#include "engine/memory/timeline.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_timeline_new(ft_timeline **timeline) {
    ft_timeline *t = ft_calloc(1, sizeof *t, "the memory timeline");
    if (t == NULL) return FT_NO_MEMORY;
    t->events = ft_calloc(FT_TIMELINE_FIRST + FT_TIMELINE_LAST, sizeof *t->events, "the memory timeline");
    if (t->events == NULL) {
        free(t);
        return FT_NO_MEMORY;
    }
    t->started = ft_now();
    *timeline = t;
    return FT_OK;
}

void ft_timeline_free(ft_timeline *t) {
    while (t != NULL) {
        ft_timeline *before = t->before;
        free(t->events);
        free(t);
        t = before;
    }
}

static ft_timeline_event *event_at(const ft_timeline *t, int64_t number) {
    if (number < FT_TIMELINE_FIRST) return &t->events[number];
    return &t->events[FT_TIMELINE_FIRST + (number - FT_TIMELINE_FIRST) % FT_TIMELINE_LAST];
}

// The first number of those at the end that are still there.
static int64_t last_part(const ft_timeline *t) {
    int64_t from = t->count - FT_TIMELINE_LAST;
    return from > FT_TIMELINE_FIRST ? from : FT_TIMELINE_FIRST;
}

void ft_timeline_note(ft_timeline *t, const ft_meter *meter, bool phase_begins) {
    ft_timeline_event *e = event_at(t, t->count++);
    e->seconds = ft_now() - t->started;
    memcpy(e->by_category, meter->counters.by_category, sizeof e->by_category);
    e->reserved = meter->counters.reserved;
    e->phase = meter->phase;
    e->phase_begins = phase_begins;
}

void ft_timeline_mark(ft_timeline *t, const char *name) {
    if (t->mark_count == FT_TIMELINE_MARKS) return;
    t->marks[t->mark_count].seconds = ft_now() - t->started;
    snprintf(t->marks[t->mark_count++].name, sizeof t->marks[0].name, "%s", name);
}

void ft_timeline_continue(ft_timeline *t, ft_timeline *before, const char *device) {
    const double later = t->started - before->started;
    for (int64_t i = 0; i < t->count; i++) // what was noted since the new device was opened
        if (i < FT_TIMELINE_FIRST || i >= last_part(t)) event_at(t, i)->seconds += later;
    for (int32_t i = 0; i < t->mark_count; i++) t->marks[i].seconds += later;
    t->started = before->started;
    t->before = before;
    snprintf(before->device, sizeof before->device, "%s", device);
}

static void write_counter(FILE *out, int pid, double seconds, const char *name, size_t bytes) {
    fprintf(out, ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":%.1f,\"name\":\"%s\",\"args\":{\"bytes\":%zu}}", pid, seconds * 1e6, name, bytes);
}

static void write_slice(FILE *out, int pid, const ft_timeline_event *from, double to) {
    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":1,\"ts\":%.1f,\"dur\":%.1f,\"name\":\"%s\"}", pid, from->seconds * 1e6,
            (to - from->seconds) * 1e6, ft_memory_phase_name(from->phase));
}

// Events [from, to), without a gap between them.
static void write_part(const ft_timeline *t, int pid, int64_t from, int64_t to, FILE *out) {
    const ft_timeline_event *last = NULL, *phase = NULL;
    for (int64_t i = from; i < to; i++) {
        const ft_timeline_event *e = event_at(t, i);
        for (int c = 0; c < FT_MEM_CATEGORIES; c++)
            if (last == NULL || e->by_category[c] != last->by_category[c])
                write_counter(out, pid, e->seconds, ft_memory_category_name((ft_memory_category)c), e->by_category[c]);
        if (last == NULL || e->reserved != last->reserved) write_counter(out, pid, e->seconds, "reserved", e->reserved);
        if (phase != NULL && e->phase_begins) write_slice(out, pid, phase, e->seconds);
        if (phase == NULL || e->phase_begins) phase = e;
        last = e;
    }
    if (phase != NULL) write_slice(out, pid, phase, last->seconds);
}

// The first device is process 1. Names are the program's own: nothing in them needs escaping.
static int write_process(const ft_timeline *t, const char *device, FILE *out) {
    const int pid = t->before != NULL ? write_process(t->before, t->before->device, out) + 1 : 1;
    fprintf(out, "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"ftengine memory on %s\"}}", pid > 1 ? ",\n" : "",
            pid, device);
    write_part(t, pid, 0, t->count < FT_TIMELINE_FIRST ? t->count : FT_TIMELINE_FIRST, out);
    write_part(t, pid, last_part(t), t->count, out);
    for (int32_t i = 0; i < t->mark_count; i++)
        fprintf(out, ",\n{\"ph\":\"i\",\"s\":\"p\",\"pid\":%d,\"tid\":1,\"ts\":%.1f,\"name\":\"%s\"}", pid, t->marks[i].seconds * 1e6,
                t->marks[i].name);
    return pid;
}

static int64_t left_out(const ft_timeline *t) {
    int64_t here = t->count > FT_TIMELINE_FIRST ? last_part(t) - FT_TIMELINE_FIRST : 0;
    return here + (t->before != NULL ? left_out(t->before) : 0);
}

ft_status ft_timeline_write(const ft_timeline *t, const char *device, const char *path) {
    ft_atomic_file file = {0};
    FT_TRY(ft_atomic_open(&file, path));
    fprintf(file.stream,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"format_version\":\"1\",\"events_left_out\":\"%" PRId64 "\"},\"traceEvents\":[\n",
            left_out(t));
    (void)write_process(t, device, file.stream);
    fprintf(file.stream, "\n]}\n");
    return ft_atomic_commit(&file);
}
