// meter.h - what memory is used for: bytes by category, by site and by phase, now and at the peak. Counts only; the
// memory itself is the allocator's. Internal to engine/memory.
//
// Who was alive at the peak is known without copying anything when a peak is reached: a site that changes for the first
// time after the peak keeps the value it had.
#ifndef FT_METER_H
#define FT_METER_H

#include "base/status.h"
#include "engine/memory/counters.h"

#include <stdint.h>

enum { FT_SITE_BYTES = 48 };

typedef struct ft_meter_site {
    char name[FT_SITE_BYTES];
    ft_memory_category category;
    size_t requested, allocated; // live
    size_t at_peak;              // allocated at the peak number saved_for
    uint64_t saved_for;
} ft_meter_site;

typedef struct ft_meter {
    ft_meter_site *sites;
    int32_t count, capacity;
    int32_t *slots;       // hash of name and category -> index, -1: empty
    int32_t slot_count;   // a power of two
    uint64_t peak_number; // how many times peak_allocated has grown
    ft_memory_phase phase, peak_phase;
    ft_memory_counters counters;
} ft_meter; // {0} is a fresh one

// The index of a site; made on first use. -1 with the error set when the host has no memory.
int32_t ft_meter_find(ft_meter *meter, ft_memory_category category, const char *name);
void ft_meter_add(ft_meter *meter, int32_t site, size_t requested, size_t allocated);
void ft_meter_remove(ft_meter *meter, int32_t site, size_t requested, size_t allocated);
void ft_meter_reserved(ft_meter *meter, size_t reserved);
void ft_meter_phase(ft_meter *meter, ft_memory_phase phase);
size_t ft_meter_at_peak(const ft_meter *meter, int32_t site);
void ft_meter_free(ft_meter *meter);

#endif
