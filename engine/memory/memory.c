// memory.c - the allocator behind memory.h: blocks of the device, kept for reuse by exact rounded size.
//
// Every request of a step has the size of the largest micro-batch, so that the second step finds each block of the first
// by its exact size: decisions depend on the sequence of requests alone, and nothing fragments. When the limit or the
// device refuses, cached blocks are given back and the request is tried once more.
#include "engine/memory/memory.h"

#include "kernels/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRANULE = 512, SITE_BYTES = 48 };

typedef struct block {
    void *data;
    size_t size, requested; // requested: of the live request
    ft_memory_category category;
    bool live;
    char site[SITE_BYTES];
} block;

struct ft_memory {
    ft_device *device;
    size_t limit;
    block *blocks; // live and cached, oldest first
    size_t count, capacity;
    size_t by_category[FT_MEM_CATEGORIES];
    ft_memory_phase phase;
    ft_memory_counters counters;
};

const char *ft_memory_category_name(ft_memory_category category) {
    static const char *const names[FT_MEM_CATEGORIES] = {"weights",   "gradients", "optimizer",    "activations",
                                                         "workspace", "data",      "communication"};
    return names[category];
}

const char *ft_memory_phase_name(ft_memory_phase phase) {
    static const char *const names[FT_PHASE_COUNT] = {"load", "forward", "backward", "optimizer", "eval", "save"};
    return names[phase];
}

const char *ft_bytes_text(size_t bytes, char *out) {
    if (bytes >= (size_t)1 << 30) snprintf(out, 24, "%.2fGiB", (double)bytes / (1 << 30));
    else if (bytes >= (size_t)1 << 20) snprintf(out, 24, "%.1fMiB", (double)bytes / (1 << 20));
    else if (bytes >= (size_t)1 << 10) snprintf(out, 24, "%.1fKiB", (double)bytes / (1 << 10));
    else snprintf(out, 24, "%zuB", bytes);
    return out;
}

ft_status ft_memory_create(ft_device *device, size_t limit, ft_memory **memory) {
    *memory = ft_calloc(1, sizeof **memory, "the memory meter");
    if (*memory == NULL) return FT_NO_MEMORY;
    (*memory)->device = device;
    (*memory)->limit = limit != 0 ? limit : device->total_bytes;
    return FT_OK;
}

static void release_cached(ft_memory *m) {
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        block *b = &m->blocks[i];
        if (b->live) {
            m->blocks[kept++] = *b;
            continue;
        }
        m->device->functions->buffer_free(m->device, b->data, b->size);
        m->counters.reserved -= b->size;
    }
    m->count = kept;
}

ft_status ft_memory_destroy(ft_memory *memory) {
    if (memory == NULL) return FT_OK;
    ft_status status = FT_OK;
    size_t leaks = 0;
    const block *first = NULL;
    for (size_t i = 0; i < memory->count; i++)
        if (memory->blocks[i].live && leaks++ == 0) first = &memory->blocks[i];
    if (leaks > 0)
        status = ft_fail(FT_FAILED, first->site, "%zu buffers were never freed, the first of %zu bytes", leaks, first->requested);
    for (size_t i = 0; i < memory->count; i++)
        memory->device->functions->buffer_free(memory->device, memory->blocks[i].data, memory->blocks[i].size);
    free(memory->blocks);
    free(memory);
    return status;
}

// The error of a request that cannot be met: what, where, and who holds the memory.
static ft_status out_of_memory(const ft_memory *m, size_t bytes, const char *site) {
    char want[24], limit[24], used[24], text[24], use[256] = "";
    size_t at = 0;
    for (int c = 0; c < FT_MEM_CATEGORIES; c++) {
        if (m->by_category[c] == 0) continue;
        int n = snprintf(use + at, sizeof use - at, "%s%s %s", at ? ", " : "", ft_memory_category_name((ft_memory_category)c),
                         ft_bytes_text(m->by_category[c], text));
        at += n > 0 && (size_t)n < sizeof use - at ? (size_t)n : 0;
    }
    ft_fail(FT_NO_MEMORY, site, "out of memory on %s: %s (%zu bytes) more are needed, %s of %s are in use%s%s%s", m->device->name,
            ft_bytes_text(bytes, want), bytes, ft_bytes_text(m->counters.allocated, used), ft_bytes_text(m->limit, limit),
            at ? " (" : "", use, at ? ")" : "");
    const block *largest[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < m->count; i++) {
        const block *b = &m->blocks[i];
        if (!b->live) continue;
        for (int k = 0; k < 3; k++) {
            if (largest[k] != NULL && largest[k]->size >= b->size) continue;
            const block *next = largest[k];
            largest[k] = b;
            b = next;
            if (b == NULL) break;
        }
    }
    if (largest[0] != NULL) {
        char holders[400];
        size_t length = 0;
        for (int k = 0; k < 3 && largest[k] != NULL; k++) {
            int n = snprintf(holders + length, sizeof holders - length, "%s%s %s", k ? ", " : "", largest[k]->site,
                             ft_bytes_text(largest[k]->size, text));
            length += n > 0 && (size_t)n < sizeof holders - length ? (size_t)n : 0;
        }
        ft_hint("the largest holders are %s", holders);
    }
    return FT_NO_MEMORY;
}

ft_status ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data) {
    *data = NULL;
    if (bytes > SIZE_MAX / 2) return out_of_memory(m, bytes, site);
    size_t size = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    if (size == 0) size = GRANULE;
    block *found = NULL;
    for (size_t i = m->count; i-- > 0;) { // newest first: the block freed last is the warmest
        if (!m->blocks[i].live && m->blocks[i].size == size) {
            found = &m->blocks[i];
            break;
        }
    }
    if (found == NULL) {
        if (m->count == m->capacity) {
            size_t capacity = m->capacity ? 2 * m->capacity : 64;
            block *grown = ft_realloc(m->blocks, capacity, sizeof *grown, "the memory meter");
            if (grown == NULL) return FT_NO_MEMORY;
            m->blocks = grown;
            m->capacity = capacity;
        }
        if (m->counters.reserved + size > m->limit) release_cached(m);
        if (m->counters.reserved + size > m->limit) return out_of_memory(m, bytes, site);
        void *fresh = NULL;
        ft_status status = m->device->functions->buffer_alloc(m->device, size, &fresh);
        if (status == FT_NO_MEMORY) {
            release_cached(m);
            status = m->device->functions->buffer_alloc(m->device, size, &fresh);
        }
        if (status == FT_NO_MEMORY) return out_of_memory(m, bytes, site);
        FT_TRY(status);
        found = &m->blocks[m->count++];
        *found = (block){.data = fresh, .size = size};
        m->counters.reserved += size;
        if (m->counters.reserved > m->counters.peak_reserved) m->counters.peak_reserved = m->counters.reserved;
    }
    found->live = true;
    found->requested = bytes;
    found->category = category;
    snprintf(found->site, sizeof found->site, "%s", site);
    ft_memory_counters *c = &m->counters;
    c->live_buffers++;
    c->requested += bytes;
    c->allocated += size;
    m->by_category[category] += size;
    if (c->requested > c->peak_requested) c->peak_requested = c->requested;
    if (c->allocated > c->phase_peak[m->phase]) c->phase_peak[m->phase] = c->allocated;
    if (c->allocated > c->peak_allocated) {
        c->peak_allocated = c->allocated;
        memcpy(c->at_peak, m->by_category, sizeof c->at_peak);
    }
    *data = found->data;
    return FT_OK;
}

void ft_memory_free(ft_memory *m, void *data) {
    if (data == NULL) return;
    for (size_t i = m->count; i-- > 0;) {
        block *b = &m->blocks[i];
        if (b->data != data || !b->live) continue;
        b->live = false;
        m->counters.live_buffers--;
        m->counters.requested -= b->requested;
        m->counters.allocated -= b->size;
        m->by_category[b->category] -= b->size;
        return;
    }
    assert(!"ft_memory_free of something that is not a live buffer");
}

void ft_memory_set_phase(ft_memory *m, ft_memory_phase phase) {
    m->phase = phase;
    if (m->counters.allocated > m->counters.phase_peak[phase]) m->counters.phase_peak[phase] = m->counters.allocated;
}

ft_memory_counters ft_memory_read(const ft_memory *m) { return m->counters; }
ft_device *ft_memory_device(ft_memory *m) { return m->device; }
