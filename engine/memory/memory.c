// memory.c - the meter in front of the allocator, and the scopes whose tensors have fixed places.
#include "engine/memory/memory.h"

#include "engine/memory/loop.h"

#include "base/arena.h"
#include "engine/memory/common.h"
#include "engine/memory/layout.h"
#include "engine/memory/meter.h"
#include "engine/memory/refusal.h"
#include "engine/memory/timeline.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTE = 0xA5, GUARD_MOST = 4096 };

typedef struct live_buffer {
    char *data;
    ft_block *block;
    size_t requested, allocated;
    int32_t site, request; // request: in the recording, -1: none
    int scope;             // inside of which it was asked for, -1: none
    bool fixed;            // by ft_memory_alloc_at
} live_buffer;

typedef struct pinned_buffer {
    char *data;
    size_t bytes;
    char site[FT_SITE_BYTES];
} pinned_buffer;

// A laid-out scope and how far its present run has come.
typedef struct scope_plan {
    bool present;
    ft_layout layout;
} scope_plan;

struct ft_memory {
    ft_device *device;
    ft_allocator *allocator;
    ft_memory_options options;
    size_t limit;
    pthread_mutex_t lock;
    ft_meter meter;
    ft_timeline *timeline;
    live_buffer *live; // of the allocator, oldest first
    size_t live_count, live_capacity;
    pinned_buffer *pinned; // of the host
    size_t pinned_count, pinned_capacity;
    ft_common common; // what all ranks see
    // scopes
    bool recording;
    size_t room; // not 0: layouts are only asked whether they fit into this (ft_memory_ask)
    bool recorded[FT_SCOPES];
    scope_plan plan[FT_SCOPES];
    ft_block *arena;
    char *arena_data;
    int scope;          // the open one, the inner of two; -1: none
    int32_t next_event; // of the open scope's recording
    bool loops;         // a round of a loop that was recorded already
    size_t base;        // where its places begin in the arena
    int outer;          // the scope around it, -1: none
    int32_t outer_event;
    bool damaged;       // a guard zone was overwritten or a scope went another way: the error is kept
    ft_error damage;
    bool refused;
    ft_memory_refusal refusal;
};

ft_status ft_memory_create_with(ft_device *device, const ft_memory_options *options, ft_memory **memory) {
    *memory = NULL;
    assert(options->guard_bytes <= GUARD_MOST);
    ft_memory *m = ft_calloc(1, sizeof *m, "the memory meter");
    if (m == NULL) return FT_NO_MEMORY;
    m->device = device;
    m->options = *options;
    m->scope = m->outer = -1;
    m->common.ranks.ranks = 1;
    m->limit = options->allocator.limit != 0 ? options->allocator.limit : device->total_bytes;
    m->options.allocator.limit = m->limit;
    ft_status status = ft_allocator_create(device, &m->options.allocator, &m->allocator);
    if (status != FT_OK) {
        free(m);
        return status;
    }
    pthread_mutex_init(&m->lock, NULL);
    *memory = m;
    return FT_OK;
}

ft_status ft_memory_create(ft_device *device, size_t limit, ft_memory **memory) {
    ft_memory_options options = {.allocator = {.limit = limit}};
    return ft_memory_create_with(device, &options, memory);
}

ft_status ft_memory_destroy(ft_memory *m) {
    if (m == NULL) return FT_OK;
    ft_status status = FT_OK;
    if (m->live_count > 0) {
        const live_buffer *first = &m->live[0];
        status = ft_fail(FT_FAILED, m->meter.sites[first->site].name, "%zu buffers were never freed, the first of %zu bytes",
                         m->live_count, first->requested);
    }
    if (m->pinned_count > 0)
        status = ft_fail(FT_FAILED, m->pinned[0].site, "%zu pinned buffers were never freed, the first of %zu bytes", m->pinned_count,
                         m->pinned[0].bytes);
    for (size_t i = 0; i < m->pinned_count; i++) m->device->functions->host_free(m->device, m->pinned[i].data);
    status = ft_common_end(&m->common, m->device, &m->meter.counters, status);
    if (m->damaged) {
        ft_error_restore(&m->damage);
        status = m->damage.code;
    }
    for (int s = 0; s < FT_SCOPES; s++) ft_layout_free(&m->plan[s].layout);
    ft_allocator_close(m->allocator);
    ft_timeline_free(m->timeline);
    ft_meter_free(&m->meter);
    pthread_mutex_destroy(&m->lock);
    free(m->live);
    free(m->pinned);
    free(m);
    return status;
}

static void sync_reserved(ft_memory *m) { ft_meter_reserved(&m->meter, ft_allocator_read(m->allocator).reserved); }

// Keeps the first error of a function that cannot return one.
static void keep_damage(ft_memory *m) {
    if (!m->damaged) ft_error_save(&m->damage);
    m->damaged = true;
}

// ---- guard zones --------------------------------------------------------------------------------------------------------

static ft_status set_guard(ft_memory *m, char *data, size_t bytes) {
    if (m->options.guard_bytes == 0) return FT_OK;
    return m->device->functions->fill(m->device, data + bytes, GUARD_BYTE, m->options.guard_bytes);
}

static void look_at_guard(ft_memory *m, const char *data, size_t bytes, int32_t site) {
    if (m->options.guard_bytes == 0) return;
    unsigned char zone[GUARD_MOST];
    if (m->device->functions->download(m->device, zone, data + bytes, m->options.guard_bytes) != FT_OK ||
        m->device->functions->sync(m->device) != FT_OK) {
        keep_damage(m);
        return;
    }
    for (size_t i = 0; i < m->options.guard_bytes; i++) {
        if (zone[i] == GUARD_BYTE) continue;
        ft_fail(FT_FAILED, m->meter.sites[site].name, "something wrote %zu bytes behind the end of a buffer of %zu bytes", i + 1, bytes);
        keep_damage(m);
        return;
    }
}

// ---- requests -----------------------------------------------------------------------------------------------------------

static ft_status refuse(ft_memory *m, size_t bytes, const char *site, bool by_limit) {
    m->refused = true;
    m->refusal = (ft_memory_refusal){.bytes = bytes, .reserved = m->meter.counters.reserved, .limit = m->limit, .by_limit = by_limit};
    snprintf(m->refusal.site, sizeof m->refusal.site, "%s", site);
    return ft_refusal_error(&m->meter, m->device->name, &m->refusal, m->arena != NULL ? ft_allocator_size(m->arena) : 0);
}

// A block of the allocator; a refusal is told with all that is known.
static ft_status take_block(ft_memory *m, size_t bytes, const char *site, ft_block **block) {
    bool by_limit = false;
    if (bytes > SIZE_MAX / 2) return refuse(m, bytes, site, true);
    ft_error_clear();
    ft_status status = ft_allocator_take(m->allocator, bytes + m->options.guard_bytes, 0, block, &by_limit);
    if (status != FT_OK) sync_reserved(m); // free segments may have been released
    return status == FT_NO_MEMORY ? refuse(m, bytes, site, by_limit) : status;
}

// Where ft_memory_alloc_at wants it; ANYWHERE: anywhere.
enum { ANYWHERE = -1 };
_Static_assert(FT_MEMORY_PLACE % FT_LAYOUT_ALIGN == 0, "places of requests are those of the layout");

static ft_status alloc_block(ft_memory *m, int64_t place, size_t bytes, int32_t site, void **data) {
    if (m->live_count == m->live_capacity) {
        size_t capacity = m->live_capacity ? 2 * m->live_capacity : 64;
        live_buffer *grown = ft_realloc(m->live, capacity, sizeof *grown, "the memory meter");
        if (grown == NULL) return FT_NO_MEMORY;
        m->live = grown;
        m->live_capacity = capacity;
    }
    live_buffer b = {.requested = bytes, .site = site, .request = -1, .scope = m->scope, .fixed = place != ANYWHERE};
    scope_plan *plan = m->recording && m->scope >= 0 && !m->recorded[m->scope] && !m->loops ? &m->plan[m->scope] : NULL;
    FT_TRY(take_block(m, bytes, m->meter.sites[site].name, &b.block));
    if (plan != NULL) {
        ft_status status = b.fixed ? ft_layout_enter_at(&plan->layout, (size_t)place, bytes, site, &b.request)
                                   : ft_layout_enter(&plan->layout, bytes, site, &b.request);
        if (status != FT_OK) {
            ft_allocator_give(m->allocator, b.block);
            return status;
        }
    }
    b.data = ft_allocator_data(b.block);
    b.allocated = ft_allocator_size(b.block);
    m->live[m->live_count++] = b;
    ft_meter_add(&m->meter, site, bytes, b.allocated);
    sync_reserved(m);
    *data = b.data;
    return set_guard(m, b.data, bytes);
}

// The place that the recording has for this request.
static ft_status alloc_place(ft_memory *m, int64_t place, size_t bytes, int32_t site, void **data) {
    const ft_layout *l = &m->plan[m->scope].layout;
    int32_t event = m->next_event < l->event_count ? l->events[m->next_event] : -1;
    const ft_layout_request *r = event >= 0 ? &l->requests[event] : NULL;
    const bool same_place = r != NULL && (r->fixed ? place == (int64_t)r->offset : place == ANYWHERE);
    if (!same_place || r->bytes != bytes || r->site != site)
        return ft_fail(FT_FAILED, m->meter.sites[site].name, "this step asks for %zu bytes where its plan has %s%s", bytes,
                       r != NULL ? "another request: " : "none", r != NULL ? m->meter.sites[r->site].name : "");
    m->next_event++;
    *data = m->arena_data + m->base + r->offset;
    ft_meter_add(&m->meter, site, bytes, r->size);
    return r->fixed ? FT_OK : set_guard(m, *data, bytes);
}

static ft_status alloc(ft_memory *m, int64_t place, size_t bytes, ft_memory_category category, const char *site_name, void **data) {
    *data = NULL;
    pthread_mutex_lock(&m->lock);
    int32_t site = ft_meter_find(&m->meter, category, site_name);
    bool planned = m->scope >= 0 && m->plan[m->scope].present;
    ft_status status = site < 0 ? FT_NO_MEMORY : planned ? alloc_place(m, place, bytes, site, data) : alloc_block(m, place, bytes, site, data);
    if (status == FT_OK && m->timeline != NULL) ft_timeline_note(m->timeline, &m->meter, false);
    pthread_mutex_unlock(&m->lock);
    return status;
}

ft_status ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data) {
    return alloc(m, ANYWHERE, bytes, category, site, data);
}

ft_status ft_memory_alloc_at(ft_memory *m, size_t offset, size_t bytes, ft_memory_category category, const char *site, void **data) {
    assert(m->scope >= 0 && m->base == 0 && (m->plan[m->scope].present || m->recording));
    assert(offset % FT_MEMORY_PLACE == 0 && bytes % FT_MEMORY_PLACE == 0 && bytes > 0);
    return alloc(m, (int64_t)offset, bytes, category, site, data);
}

static void free_place(ft_memory *m, const char *data) {
    assert(m->scope >= 0 && "a tensor of a step outlived it");
    const ft_layout *l = &m->plan[m->scope].layout;
    int32_t event = m->next_event < l->event_count ? l->events[m->next_event] : 0;
    const ft_layout_request *r = event < 0 ? &l->requests[~event] : NULL;
    if (r == NULL || m->arena_data + m->base + r->offset != data) {
        ft_fail(FT_FAILED, NULL, "this step frees its tensors in another order than its plan");
        keep_damage(m);
        return;
    }
    m->next_event++;
    look_at_guard(m, data, r->bytes, r->site);
    ft_meter_remove(&m->meter, r->site, r->bytes, r->size);
}

static void free_at(ft_memory *m, size_t i) {
    live_buffer b = m->live[i];
    m->live_count--;
    memmove(&m->live[i], &m->live[i + 1], (m->live_count - i) * sizeof *m->live);
    if (b.request >= 0 && b.scope == m->scope && ft_layout_leave(&m->plan[b.scope].layout, b.request) != FT_OK) keep_damage(m);
    look_at_guard(m, b.data, b.requested, b.site);
    ft_meter_remove(&m->meter, b.site, b.requested, b.allocated);
    ft_allocator_give(m->allocator, b.block);
}

static void free_block(ft_memory *m, const char *data) {
    size_t i = m->live_count;
    while (i > 0 && m->live[i - 1].data != data) i--; // newest first: most live shortly
    assert(i > 0 && "ft_memory_free of something that is not a live buffer");
    free_at(m, i - 1);
}

ft_memory_counters ft_memory_read(ft_memory *m) {
    pthread_mutex_lock(&m->lock);
    ft_memory_counters c = m->meter.counters;
    for (int i = 0; i < FT_ALLOCATOR_CLASSES; i++) c.peak_extent[i] = ft_allocator_extent(m->allocator)[i];
    pthread_mutex_unlock(&m->lock);
    return c;
}

void ft_memory_expect(ft_memory *m, const ft_memory_counters *planned) {
    pthread_mutex_lock(&m->lock);
    ft_allocator_expect(m->allocator, planned->peak_extent);
    pthread_mutex_unlock(&m->lock);
}

static bool in_arena(const ft_memory *m, const char *data) {
    return m->arena != NULL && data >= m->arena_data && data < m->arena_data + ft_allocator_size(m->arena);
}

void ft_memory_free(ft_memory *m, void *data) {
    if (data == NULL) return;
    pthread_mutex_lock(&m->lock);
    if (in_arena(m, data)) free_place(m, data);
    else if (!ft_common_free(&m->common, m->device, &m->meter.counters, data)) free_block(m, data);
    if (m->timeline != NULL) ft_timeline_note(m->timeline, &m->meter, false);
    pthread_mutex_unlock(&m->lock);
}

// ---- pinned memory of the host ------------------------------------------------------------------------------------------

static ft_status take_pinned(ft_memory *m, size_t bytes, const char *site, void **data) {
    ft_memory_counters *c = &m->meter.counters;
    if (m->pinned_count == m->pinned_capacity) {
        const size_t capacity = m->pinned_capacity ? 2 * m->pinned_capacity : 16;
        pinned_buffer *grown = ft_realloc(m->pinned, capacity, sizeof *grown, "the memory meter");
        if (grown == NULL) return FT_NO_MEMORY;
        m->pinned = grown;
        m->pinned_capacity = capacity;
    }
    FT_TRY(m->device->functions->host_alloc(m->device, bytes, data));
    pinned_buffer *b = &m->pinned[m->pinned_count++];
    *b = (pinned_buffer){.data = *data, .bytes = bytes};
    snprintf(b->site, sizeof b->site, "%s", site);
    c->pinned += bytes;
    if (c->pinned > c->peak_pinned) c->peak_pinned = c->pinned;
    return FT_OK;
}

ft_status ft_memory_alloc_pinned(ft_memory *m, size_t bytes, const char *site, void **data) {
    *data = NULL;
    pthread_mutex_lock(&m->lock);
    ft_status status = take_pinned(m, bytes, site, data);
    pthread_mutex_unlock(&m->lock);
    return status;
}

void ft_memory_free_pinned(ft_memory *m, void *data) {
    if (data == NULL) return;
    pthread_mutex_lock(&m->lock);
    size_t i = m->pinned_count;
    while (i > 0 && m->pinned[i - 1].data != data) i--;
    assert(i > 0 && "ft_memory_free_pinned of something that is not pinned");
    m->meter.counters.pinned -= m->pinned[i - 1].bytes;
    m->pinned[i - 1] = m->pinned[--m->pinned_count];
    m->device->functions->host_free(m->device, data);
    pthread_mutex_unlock(&m->lock);
}

bool ft_memory_is_pinned(ft_memory *m, const void *data) {
    bool found = false;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->pinned_count && !found; i++)
        found = (const char *)data >= m->pinned[i].data && (const char *)data < m->pinned[i].data + m->pinned[i].bytes;
    pthread_mutex_unlock(&m->lock);
    return found;
}

// ---- what all ranks of a run see --------------------------------------------------------------------------------------

void ft_memory_set_ranks(ft_memory *m, ft_memory_ranks ranks) { m->common.ranks = ranks.run_ranks > 1 ? ranks : (ft_memory_ranks){.ranks = 1, .run_ranks = 1}; }
ft_memory_ranks ft_memory_ranks_of(const ft_memory *m) { return m->common.ranks; }

ft_status ft_memory_share(ft_memory *m, size_t bytes, ft_memory_category category, void **data) {
    *data = NULL;
    pthread_mutex_lock(&m->lock);
    const ft_status status = ft_common_take(&m->common, m->device, &m->meter.counters, bytes, category, data);
    pthread_mutex_unlock(&m->lock);
    return status;
}

// ---- scopes -------------------------------------------------------------------------------------------------------------

void ft_memory_record(ft_memory *m) { m->recording = true; }

void ft_memory_ask(ft_memory *m, size_t room) { m->room = room; }

static bool opens_inside_pass(int scope) { return scope > FT_SCOPE_PASS; }

static void forget_layouts(ft_memory *m) {
    for (int s = 0; s < FT_SCOPES; s++) {
        ft_layout_free(&m->plan[s].layout);
        m->plan[s].present = false;
    }
}

void ft_memory_drop_layout(ft_memory *m) {
    assert(m->scope < 0);
    pthread_mutex_lock(&m->lock);
    ft_allocator_give(m->allocator, m->arena);
    m->arena = NULL;
    m->arena_data = NULL;
    forget_layouts(m);
    pthread_mutex_unlock(&m->lock);
}

// Takes over the layouts; the most bytes that one of them takes, and has alive.
static ft_status copy_layouts(ft_memory *m, const ft_memory *recorded, size_t *most, size_t *most_alive) {
    size_t bytes = 0, live = 0;
    for (int s = 0; s < FT_SCOPES; s++) {
        if (!recorded->recorded[s]) continue;
        ft_layout *l = &m->plan[s].layout;
        FT_TRY(ft_layout_copy(&recorded->plan[s].layout, l));
        for (int32_t i = 0; i < l->count; i++) { // its sites are the other meter's
            const ft_meter_site *site = &recorded->meter.sites[l->requests[i].site];
            l->requests[i].site = ft_meter_find(&m->meter, site->category, site->name);
            if (l->requests[i].site < 0) return FT_NO_MEMORY;
        }
        const ft_layout *below = opens_inside_pass(s) && recorded->recorded[FT_SCOPE_PASS] ? &m->plan[FT_SCOPE_PASS].layout : NULL;
        const size_t below_bytes = below != NULL ? below->bytes : 0, below_live = below != NULL ? below->live_bytes : 0;
        size_t enough = bytes > below_bytes ? bytes - below_bytes : 0;
        if (m->room > bytes) {
            FT_TRY(ft_layout_place(l, m->options.guard_bytes, SIZE_MAX)); // for what is alive at once: no arena is smaller
            enough = below_live + l->live_bytes > m->room ? SIZE_MAX : m->room - below_bytes;
        }
        FT_TRY(ft_layout_place(l, m->options.guard_bytes, enough));
        if (below_bytes + l->bytes > bytes) bytes = below_bytes + l->bytes;
        if (below_live + l->live_bytes > live) live = below_live + l->live_bytes;
    }
    *most = bytes;
    *most_alive = live;
    return FT_OK;
}

ft_status ft_memory_adopt(ft_memory *m, const ft_memory *recorded) {
    assert(m->arena == NULL && m->scope < 0);
    size_t bytes = 0, live = 0;
    ft_status status = copy_layouts(m, recorded, &bytes, &live);
    if (status != FT_OK) forget_layouts(m);
    if (status != FT_OK || bytes == 0) return status;
    pthread_mutex_lock(&m->lock);
    status = take_block(m, bytes, "step arena", &m->arena);
    if (status == FT_OK) {
        m->arena_data = ft_allocator_data(m->arena);
        m->meter.counters.arena_bytes = bytes;
        m->meter.counters.arena_live_bytes = live;
        for (int s = 0; s < FT_SCOPES; s++) m->plan[s].present = recorded->recorded[s];
    } else {
        m->arena = NULL;
        forget_layouts(m);
    }
    sync_reserved(m);
    pthread_mutex_unlock(&m->lock);
    return status;
}

ft_status ft_memory_scope_begin(ft_memory *m, ft_scope scope) {
    if (m->outer >= 0 || (m->scope >= 0 && (m->scope != FT_SCOPE_PASS || !opens_inside_pass((int)scope))))
        return ft_fail(FT_FAILED, NULL, "a step begins inside another");
    m->outer = m->scope;
    m->outer_event = m->next_event;
    m->base = m->scope >= 0 && m->plan[m->scope].present ? m->plan[m->scope].layout.bytes : 0;
    m->scope = (int)scope;
    m->next_event = 0;
    m->loops = false;
    return FT_OK;
}

int32_t ft_memory_loop_begin(const ft_memory *m) { return m->next_event; }
void ft_memory_loop_again(ft_memory *m, int32_t begin) {
    m->next_event = begin;
    m->loops = true;
}
void ft_memory_loop_end(ft_memory *m) { m->loops = false; }

// What has a place of its own goes with its scope.
static void free_fixed(ft_memory *m) {
    pthread_mutex_lock(&m->lock);
    for (size_t i = m->live_count; i-- > 0;) {
        if (m->live[i].scope != m->scope || !m->live[i].fixed) continue;
        m->live[i].request = -1; // its recording says that it stays
        free_at(m, i);
    }
    const ft_layout *l = &m->plan[m->scope].layout;
    for (int32_t i = 0; m->plan[m->scope].present && i < l->count; i++)
        if (l->requests[i].fixed) ft_meter_remove(&m->meter, l->requests[i].site, l->requests[i].bytes, l->requests[i].size);
    if (m->timeline != NULL) ft_timeline_note(m->timeline, &m->meter, false);
    pthread_mutex_unlock(&m->lock);
}

// Frees what the failed scope still holds.
static void abandon(ft_memory *m) {
    for (size_t i = m->live_count; i-- > 0;) {
        if (m->live[i].scope != m->scope) continue;
        m->live[i].request = -1; // nothing of a failed recording is kept
        free_at(m, i);
    }
    const scope_plan *p = &m->plan[m->scope];
    for (int32_t e = 0; p->present && e < m->next_event; e++) {
        const ft_layout_request *r = p->layout.events[e] >= 0 ? &p->layout.requests[p->layout.events[e]] : NULL;
        if (r != NULL && r->end >= m->next_event) ft_meter_remove(&m->meter, r->site, r->bytes, r->size);
    }
    if (m->recording && !m->recorded[m->scope]) ft_layout_free(&m->plan[m->scope].layout);
}

ft_status ft_memory_scope_end(ft_memory *m, ft_status outcome) {
    const scope_plan *p = &m->plan[m->scope];
    if (outcome == FT_OK && m->damaged) {
        ft_error_restore(&m->damage);
        outcome = m->damage.code;
    }
    if (outcome == FT_OK && p->present && m->next_event != p->layout.event_count)
        outcome = ft_fail(FT_FAILED, NULL, "this step made %d of the %d requests and releases of its plan", (int)m->next_event,
                          (int)p->layout.event_count);
    if (outcome == FT_OK) free_fixed(m);
    for (size_t i = 0; outcome == FT_OK && i < m->live_count; i++)
        if (m->live[i].scope == m->scope)
            outcome = ft_fail(FT_FAILED, m->meter.sites[m->live[i].site].name, "a tensor outlives its step");
    if (outcome != FT_OK) {
        ft_error error; // looking at guard zones may set another
        ft_error_save(&error);
        abandon(m);
        ft_error_restore(&error);
    } else if (m->recording) {
        m->recorded[m->scope] = true;
    }
    m->scope = m->outer;
    m->next_event = m->outer_event;
    m->base = 0;
    m->outer = -1;
    return outcome;
}

// ---- the rest -----------------------------------------------------------------------------------------------------------

void ft_memory_trim(ft_memory *m) {
    pthread_mutex_lock(&m->lock);
    ft_allocator_trim(m->allocator);
    sync_reserved(m);
    pthread_mutex_unlock(&m->lock);
}

void ft_memory_set_phase(ft_memory *m, ft_memory_phase phase) {
    pthread_mutex_lock(&m->lock);
    ft_meter_phase(&m->meter, phase);
    if (m->timeline != NULL) ft_timeline_note(m->timeline, &m->meter, true);
    pthread_mutex_unlock(&m->lock);
}

ft_device *ft_memory_device(ft_memory *m) { return m->device; }
size_t ft_memory_limit(const ft_memory *m) { return m->limit; }

int ft_memory_holders_at_peak(ft_memory *m, ft_memory_use *uses, int most) {
    int count = 0;
    pthread_mutex_lock(&m->lock);
    for (int32_t i = 0; i < m->meter.count && most > 0; i++) {
        size_t bytes = ft_meter_at_peak(&m->meter, i);
        if (bytes == 0 || (count == most && uses[count - 1].bytes >= bytes)) continue;
        int at = count < most ? count++ : most - 1;
        for (; at > 0 && uses[at - 1].bytes < bytes; at--) uses[at] = uses[at - 1];
        uses[at] = (ft_memory_use){.category = m->meter.sites[i].category, .bytes = bytes};
        memcpy(uses[at].site, m->meter.sites[i].name, sizeof uses[at].site);
    }
    pthread_mutex_unlock(&m->lock);
    return count;
}

bool ft_memory_refused(ft_memory *m, ft_memory_refusal *refusal) {
    pthread_mutex_lock(&m->lock);
    bool refused = m->refused;
    if (refused) *refusal = m->refusal;
    pthread_mutex_unlock(&m->lock);
    return refused;
}

void ft_memory_forget_refusal(ft_memory *m) {
    pthread_mutex_lock(&m->lock);
    m->refused = false;
    pthread_mutex_unlock(&m->lock);
}

size_t ft_memory_trace_bytes(void) { return sizeof(ft_timeline) + (FT_TIMELINE_FIRST + FT_TIMELINE_LAST) * sizeof(ft_timeline_event); }

ft_status ft_memory_trace(ft_memory *m) { return m->timeline == NULL ? ft_timeline_new(&m->timeline) : FT_OK; }

void ft_memory_mark(ft_memory *m, const char *name) {
    if (m->timeline == NULL) return;
    pthread_mutex_lock(&m->lock);
    ft_timeline_mark(m->timeline, name);
    pthread_mutex_unlock(&m->lock);
}

ft_status ft_memory_trace_write(ft_memory *m, const char *path) {
    if (m->timeline == NULL) return FT_OK;
    pthread_mutex_lock(&m->lock);
    ft_status status = ft_timeline_write(m->timeline, m->device->name, path);
    pthread_mutex_unlock(&m->lock);
    return status;
}

void ft_memory_trace_continue(ft_memory *m, ft_memory *before) {
    if (m->timeline == NULL || before->timeline == NULL) return;
    ft_memory_trim(before);
    ft_timeline_note(before->timeline, &before->meter, false); // that all of it was given back
    ft_timeline_continue(m->timeline, before->timeline, before->device->name);
    before->timeline = NULL;
}
