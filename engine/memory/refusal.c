#include "engine/memory/refusal.h"

#include <stdio.h>

const char *ft_memory_category_name(ft_memory_category category) {
    static const char *const names[FT_MEM_CATEGORIES] = {"weights",   "gradients", "optimizer",    "activations",
                                                         "workspace", "data",      "communication", "adapters"};
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

// Appends to a list "a 1.0MiB, b 2.0KiB".
typedef struct text_list {
    char text[400];
    size_t length;
} text_list;

static void append(text_list *list, const char *name, size_t bytes) {
    char size[24];
    int n = snprintf(list->text + list->length, sizeof list->text - list->length, "%s%s %s", list->length ? ", " : "", name,
                     ft_bytes_text(bytes, size));
    if (n > 0 && (size_t)n < sizeof list->text - list->length) list->length += (size_t)n;
    else list->text[list->length] = '\0'; // no room: leave it out whole
}

static text_list largest_holders(const ft_meter *m) {
    const ft_meter_site *largest[3] = {NULL, NULL, NULL};
    for (int32_t i = 0; i < m->count; i++) {
        const ft_meter_site *s = m->sites[i].allocated > 0 ? &m->sites[i] : NULL;
        for (int k = 0; k < 3 && s != NULL; k++) {
            if (largest[k] != NULL && largest[k]->allocated >= s->allocated) continue;
            const ft_meter_site *next = largest[k];
            largest[k] = s;
            s = next;
        }
    }
    text_list list = {.length = 0};
    for (int k = 0; k < 3 && largest[k] != NULL; k++) append(&list, largest[k]->name, largest[k]->allocated);
    return list;
}

ft_status ft_refusal_error(const ft_meter *m, const char *device, const ft_memory_refusal *refusal, size_t arena_bytes) {
    char want[24], limit[24], reserved[24];
    text_list use = {.length = 0};
    for (int c = 0; c < FT_MEM_CATEGORIES; c++)
        if (m->counters.by_category[c] > 0) append(&use, ft_memory_category_name((ft_memory_category)c), m->counters.by_category[c]);
    if (arena_bytes > 0) append(&use, "step arena", arena_bytes);
    text_list holders = largest_holders(m);
    ft_fail(FT_NO_MEMORY, refusal->site, "out of memory on %s: %s (%zu bytes) more are needed, %s of %s are reserved%s%s%s", device,
            ft_bytes_text(refusal->bytes, want), refusal->bytes, ft_bytes_text(refusal->reserved, reserved),
            ft_bytes_text(refusal->limit, limit), use.length ? " (in use: " : "", use.text, use.length ? ")" : "");
    if (holders.length > 0) ft_hint("the largest holders are %s", holders.text);
    return FT_NO_MEMORY;
}
