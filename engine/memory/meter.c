#include "engine/memory/meter.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(ft_memory_category category, const char *name) { // FNV-1a
    uint32_t h = 2166136261u ^ (uint32_t)category;
    for (int i = 0; name[i] != '\0' && i < FT_SITE_BYTES - 1; i++) h = (h ^ (unsigned char)name[i]) * 16777619u;
    return h;
}

static int32_t *slot_of(const ft_meter *m, ft_memory_category category, const char *name) {
    uint32_t mask = (uint32_t)m->slot_count - 1, at = hash_of(category, name) & mask;
    for (;; at = (at + 1) & mask) {
        int32_t index = m->slots[at];
        if (index < 0) return &m->slots[at];
        const ft_meter_site *s = &m->sites[index];
        if (s->category == category && strncmp(s->name, name, FT_SITE_BYTES - 1) == 0) return &m->slots[at];
    }
}

static ft_status grow(ft_meter *m) {
    int32_t capacity = m->capacity ? 2 * m->capacity : 64;
    ft_meter_site *sites = ft_realloc(m->sites, (size_t)capacity, sizeof *sites, "the memory meter");
    if (sites == NULL) return FT_NO_MEMORY;
    m->sites = sites;
    int32_t *slots = ft_calloc((size_t)capacity * 2, sizeof *slots, "the memory meter");
    if (slots == NULL) return FT_NO_MEMORY;
    free(m->slots);
    m->slots = slots;
    m->capacity = capacity;
    m->slot_count = 2 * capacity;
    for (int32_t i = 0; i < m->slot_count; i++) slots[i] = -1;
    for (int32_t i = 0; i < m->count; i++) *slot_of(m, sites[i].category, sites[i].name) = i;
    return FT_OK;
}

int32_t ft_meter_find(ft_meter *m, ft_memory_category category, const char *name) {
    if (m->count == m->capacity && grow(m) != FT_OK) return -1;
    int32_t *slot = slot_of(m, category, name);
    if (*slot >= 0) return *slot;
    ft_meter_site *s = &m->sites[m->count];
    *s = (ft_meter_site){.category = category};
    snprintf(s->name, sizeof s->name, "%s", name);
    return *slot = m->count++;
}

static void keep_peak(const ft_meter *m, ft_meter_site *s) {
    if (s->saved_for == m->peak_number) return;
    s->at_peak = s->allocated;
    s->saved_for = m->peak_number;
}

void ft_meter_add(ft_meter *m, int32_t site, size_t requested, size_t allocated) {
    ft_meter_site *s = &m->sites[site];
    ft_memory_counters *c = &m->counters;
    keep_peak(m, s);
    s->requested += requested;
    s->allocated += allocated;
    c->live_buffers++;
    c->requested += requested;
    c->allocated += allocated;
    c->requested_by_category[s->category] += requested;
    c->by_category[s->category] += allocated;
    if (c->requested > c->peak_requested) c->peak_requested = c->requested;
    if (c->allocated > c->phase_peak[m->phase]) c->phase_peak[m->phase] = c->allocated;
    // Of phases that reach the same height the first of the list is said, whichever came first: a plan has an order of its own.
    const bool level = c->allocated == c->peak_allocated && m->phase < c->peak_phase;
    if (c->allocated <= c->peak_allocated && !level) return;
    c->peak_allocated = c->allocated;
    c->peak_phase = m->phase;
    memcpy(c->at_peak, c->by_category, sizeof c->at_peak);
    m->peak_number++;
}

void ft_meter_remove(ft_meter *m, int32_t site, size_t requested, size_t allocated) {
    ft_meter_site *s = &m->sites[site];
    ft_memory_counters *c = &m->counters;
    keep_peak(m, s);
    s->requested -= requested;
    s->allocated -= allocated;
    c->live_buffers--;
    c->requested -= requested;
    c->allocated -= allocated;
    c->requested_by_category[s->category] -= requested;
    c->by_category[s->category] -= allocated;
}

void ft_meter_reserved(ft_meter *m, size_t reserved) {
    m->counters.reserved = reserved;
    if (reserved > m->counters.peak_reserved) m->counters.peak_reserved = reserved;
}

void ft_meter_phase(ft_meter *m, ft_memory_phase phase) {
    m->phase = phase;
    if (m->counters.allocated > m->counters.phase_peak[phase]) m->counters.phase_peak[phase] = m->counters.allocated;
}

size_t ft_meter_at_peak(const ft_meter *m, int32_t site) {
    const ft_meter_site *s = &m->sites[site];
    return s->saved_for == m->peak_number ? s->at_peak : s->allocated;
}

void ft_meter_free(ft_meter *m) {
    free(m->sites);
    free(m->slots);
    *m = (ft_meter){0};
}
