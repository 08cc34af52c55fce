// layout.h - places for the tensors of a step in one arena, from their recorded lifetimes.
//
// Every step asks for the same tensors in the same order (its sizes are those of the run's largest micro-batch), so a
// recording of one step, made on the plan back end, tells all: who is alive together may not overlap. Placement is
// greedy in several orders (as requested, by size, by size times lifetime, by lifetime), each request taking the lowest
// place that is free during its life; an order is tried again with what stuck out served earlier, and the shortest arena
// wins. The lower bound is the largest sum of live bytes; most steps reach it.
//
// A request may come with its place: what several scopes share must lie where all of them find it (gradients, whose parts come
// one by one while activations go). The others are then placed around it.
#ifndef FT_LAYOUT_H
#define FT_LAYOUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FT_LAYOUT_ALIGN = 512 };

typedef struct ft_layout_request {
    size_t bytes;      // as asked for
    size_t size;       // rounded up to FT_LAYOUT_ALIGN, at least one
    size_t offset;     // place in the arena
    int32_t begin, end; // events at which it comes and goes: [begin, end)
    int32_t site;      // the meter's
    bool fixed;        // `offset` was asked for
} ft_layout_request;

typedef struct ft_layout {
    ft_layout_request *requests; // in the order of asking
    int32_t count, capacity;
    int32_t *events; // >= 0: request events[i] comes; < 0: request ~events[i] goes
    int32_t event_count, event_capacity;
    size_t bytes;      // of the arena, after ft_layout_place
    size_t live_bytes; // largest sum of sizes alive at once, after ft_layout_place
} ft_layout;           // {0} is an empty recording

// Recording. *index is what ft_layout_leave takes. FT_NO_MEMORY only.
ft_status ft_layout_enter(ft_layout *layout, size_t bytes, int32_t site, int32_t *index);
// The same at a place of its own, without padding. offset and bytes: multiples of FT_LAYOUT_ALIGN. Those of one layout must not
// overlap while both live.
ft_status ft_layout_enter_at(ft_layout *layout, size_t offset, size_t bytes, int32_t site, int32_t *index);
ft_status ft_layout_leave(ft_layout *layout, int32_t index);
// Requests that never left live to the end. `padding` bytes are left free behind every tensor (guard zones of tests). An
// arena of at most `enough` bytes is not improved: another scope needs that many anyway. What has been searched long for lately
// is remembered by the context (base/context.h): a run plans its steps and then lays them out, and a study's next trial often
// has the same steps.
ft_status ft_layout_place(ft_layout *layout, size_t padding, size_t enough);
ft_status ft_layout_copy(const ft_layout *layout, ft_layout *out);
void ft_layout_free(ft_layout *layout); // {0} is fine

#endif
