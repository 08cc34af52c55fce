#include "engine/memory/common.h"

#include "base/arena.h"
#include "kernels/ops/device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct ft_common_buffer {
    void *data;
    size_t bytes;
    ft_memory_category category;
} buffer;

static ft_status make_room(ft_common *c) {
    if (c->count < c->capacity) return FT_OK;
    const size_t capacity = c->capacity ? 2 * c->capacity : 16;
    buffer *grown = ft_realloc(c->list, capacity, sizeof *grown, "the memory meter");
    if (grown == NULL) return FT_NO_MEMORY;
    c->list = grown;
    c->capacity = capacity;
    return FT_OK;
}

ft_status ft_common_take(ft_common *c, ft_device *device, ft_memory_counters *counters, size_t bytes, ft_memory_category category, void **data) {
    FT_TRY(make_room(c));
    FT_TRY(c->ranks.group != NULL ? ft_group_share(c->ranks.group, bytes, data) : device->functions->buffer_alloc(device, bytes, data));
    c->list[c->count++] = (buffer){*data, bytes, category};
    if (c->ranks.rank > 0) return FT_OK;
    counters->common += ft_group_share_bytes(bytes);
    if (counters->common <= counters->peak_common) return FT_OK;
    counters->peak_common = counters->common;
    memset(counters->common_by_category, 0, sizeof counters->common_by_category);
    for (size_t i = 0; i < c->count; i++) counters->common_by_category[c->list[i].category] += c->list[i].bytes;
    return FT_OK;
}

bool ft_common_free(ft_common *c, ft_device *device, ft_memory_counters *counters, const void *data) {
    size_t i = c->count;
    while (i > 0 && c->list[i - 1].data != data) i--;
    if (i == 0) return false;
    const buffer b = c->list[i - 1];
    c->list[i - 1] = c->list[--c->count];
    if (c->ranks.rank == 0) counters->common -= ft_group_share_bytes(b.bytes);
    if (c->ranks.group != NULL) ft_group_unshare(c->ranks.group, b.data, b.bytes);
    else device->functions->buffer_free(device, b.data, b.bytes);
    return true;
}

ft_status ft_common_end(ft_common *c, ft_device *device, ft_memory_counters *counters, ft_status status) {
    if (c->count > 0)
        status = ft_fail(FT_FAILED, ft_memory_category_name(c->list[0].category), "%zu buffers of all ranks were never freed, the first of %zu bytes", c->count,
                         c->list[0].bytes);
    while (c->count > 0) (void)ft_common_free(c, device, counters, c->list[0].data);
    free(c->list);
    return status;
}

// In this file and not beside ft_memory_alloc, so that who watches that function's calls sees this one.
static ft_status alloc_zeros(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data) {
    ft_device *device = ft_memory_device(memory);
    FT_TRY(ft_memory_alloc(memory, bytes, category, site, data));
    return device->functions->fill(device, *data, 0, bytes);
}

ft_status ft_memory_alloc_common(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data) {
    return ft_memory_has_common(memory) ? ft_memory_share(memory, bytes, category, data) : alloc_zeros(memory, bytes, category, site, data);
}

ft_status ft_memory_alloc_sums(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data) {
    return ft_memory_has_common_sums(memory) ? ft_memory_share(memory, bytes, category, data) : alloc_zeros(memory, bytes, category, site, data);
}

// The driver would wait for ever for a rank that is gone; so nobody waits in it.
ft_status ft_memory_wait(ft_memory *memory, ft_event *event) {
    enum { QUERIES = 16, REST_NS = 20000 };
    ft_device *device = ft_memory_device(memory);
    const ft_memory_ranks ranks = ft_memory_ranks_of(memory);
    if (ranks.group == NULL || !ranks.apart || device->functions->event_query == NULL) return device->functions->event_sync(device, event);
    bool happened = false;
    for (int queries = 1; !happened; queries++) {
        FT_TRY(device->functions->event_query(device, event, &happened));
        FT_TRY(ft_group_look(ranks.group)); // an operation that failed is through, too
        if (!happened && queries % QUERIES == 0) nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    }
    return FT_OK;
}
