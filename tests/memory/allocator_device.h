// allocator_device.h - for the allocator's tests: a device that keeps books, refuses on demand and watches that nothing
// is given back twice or not at all; short forms of the calls, each followed by a check of the invariants. Behind
// cmocka.h.
#ifndef FT_TEST_ALLOCATOR_DEVICE_H
#define FT_TEST_ALLOCATOR_DEVICE_H

#include "engine/memory/allocator/internal.h"
#include "kernels/ops/range_pieces.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

// What both devices - the allocator's and the model's - refuse: what does not fit, and calls chosen in advance.
typedef struct refusals {
    size_t capacity, held;
    uint32_t seed; // 0: refuse nothing but what does not fit
    uint32_t one_in;
    uint64_t calls;
} refusals;

static inline uint32_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

static inline bool refused(refusals *r, size_t bytes) {
    uint64_t call = r->calls++;
    if (bytes > r->capacity - r->held) return true;
    return r->seed != 0 && mixed(call + ((uint64_t)r->seed << 32)) % r->one_in == 0;
}

enum { WATCHED_RANGES = 32, WATCHED_PAGES = 4096 };

typedef struct watched {
    ft_device device;
    ft_device *inner;
    refusals refusals;
    ft_status refusal; // FT_NO_MEMORY but for one test
    bool no_ranges;    // the next reservation fails
    size_t page;       // when > 0, said to be the page
    struct {
        char *base;
        uint8_t pages[WATCHED_PAGES];  // is it there?
        uint8_t inside[WATCHED_PAGES]; // of a large piece, and not its first
    } ranges[WATCHED_RANGES];
    size_t buffers; // live
} watched;

static inline watched *watched_of(ft_device *device) { return (watched *)device; }

static inline ft_status w_alloc(ft_device *device, size_t bytes, void **data) {
    watched *w = watched_of(device);
    if (refused(&w->refusals, bytes)) return ft_fail(w->refusal, NULL, "refused by the test");
    w->refusals.held += bytes;
    w->buffers++;
    return w->inner->functions->buffer_alloc(w->inner, bytes, data);
}

static inline void w_free(ft_device *device, void *data, size_t bytes) {
    watched *w = watched_of(device);
    w->refusals.held -= bytes;
    w->buffers--;
    w->inner->functions->buffer_free(w->inner, data, bytes);
}

static size_t watched_page; // of the inner device

static inline ft_status w_reserve(ft_device *device, size_t bytes, void **base, size_t *page) {
    watched *w = watched_of(device);
    if (w->no_ranges) return ft_fail(w->refusal, NULL, "refused by the test");
    ft_status status = w->inner->functions->range_reserve(w->inner, bytes, base, page);
    watched_page = *page;
    if (w->page > 0) *page = w->page;
    int i = 0;
    while (i < WATCHED_RANGES && w->ranges[i].base != NULL)
        i++;
    assert_true(i < WATCHED_RANGES && bytes / watched_page <= WATCHED_PAGES);
    w->ranges[i].base = *base;
    memset(w->ranges[i].pages, 0, WATCHED_PAGES);
    memset(w->ranges[i].inside, 0, WATCHED_PAGES);
    return status;
}

// Every page changes from `from` to the opposite: nothing is committed or given back twice, and no piece in part.
static inline void turn_pages(watched *w, const char *base, size_t offset, size_t bytes, int from) {
    int i = 0;
    while (i < WATCHED_RANGES && w->ranges[i].base != base)
        i++;
    assert_true(i < WATCHED_RANGES && offset % watched_page == 0 && bytes % watched_page == 0 && bytes > 0);
    const size_t first = offset / watched_page, end = first + bytes / watched_page;
    uint8_t *const inside = w->ranges[i].inside;
    assert_false(inside[first] || (end < WATCHED_PAGES && inside[end]));
    const size_t piece = ft_range_piece(&w->device.target, watched_page) / watched_page;
    for (size_t p = first; p < end; p++) {
        assert_int_equal(w->ranges[i].pages[p], from);
        w->ranges[i].pages[p] = (uint8_t)!from;
        const size_t left = piece > 0 ? end - first - (p - first) / piece * piece : 0; // of the commit, from this piece on
        inside[p] = from == 0 && piece > 0 && (p - first) % piece != 0 && left > piece;
    }
}

static inline ft_status w_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    watched *w = watched_of(device);
    if (refused(&w->refusals, bytes)) return ft_fail(w->refusal, NULL, "refused by the test");
    turn_pages(w, base, offset, bytes, 0);
    w->refusals.held += bytes;
    return w->inner->functions->range_commit(w->inner, base, offset, bytes);
}

static inline void w_decommit(ft_device *device, void *base, size_t offset, size_t bytes) {
    watched *w = watched_of(device);
    turn_pages(w, base, offset, bytes, 1);
    w->refusals.held -= bytes;
    w->inner->functions->range_decommit(w->inner, base, offset, bytes);
}

static inline void w_release(ft_device *device, void *base, size_t bytes) {
    watched *w = watched_of(device);
    int i = 0;
    while (i < WATCHED_RANGES && w->ranges[i].base != base)
        i++;
    assert_true(i < WATCHED_RANGES);
    for (int p = 0; p < WATCHED_PAGES; p++)
        assert_int_equal(w->ranges[i].pages[p], 0);
    w->ranges[i].base = NULL;
    w->inner->functions->range_release(w->inner, base, bytes);
}

static const ft_device_functions watched_functions = {
    .buffer_alloc = w_alloc,
    .buffer_free = w_free,
    .range_reserve = w_reserve,
    .range_commit = w_commit,
    .range_decommit = w_decommit,
    .range_release = w_release,
};
static const ft_device_functions no_ranges = {.buffer_alloc = w_alloc, .buffer_free = w_free};

static watched device;

static inline void open_watched(size_t capacity, bool real) {
    ft_target target = {.backend = FT_BACKEND_CPU, .threads = 1, .page_bytes = 4096};
    memset(&device, 0, sizeof device);
    if (real)
        assert_int_equal(ft_cpu_open(1, NULL, &device.inner), FT_OK);
    else
        assert_int_equal(ft_plan_open("cpu", target, (size_t)1 << 40, &device.inner), FT_OK);
    device.device = (ft_device){.name = "watched", .total_bytes = capacity, .functions = &watched_functions};
    device.refusals.capacity = capacity;
    device.refusal = FT_NO_MEMORY;
}

static inline void close_watched(void) {
    assert_int_equal(device.refusals.held, 0); // everything came back
    assert_int_equal(device.buffers, 0);
    for (int i = 0; i < WATCHED_RANGES; i++)
        assert_null(device.ranges[i].base);
    ft_device_close(device.inner);
}

static inline ft_allocator *open_allocator(ft_allocator_options options) {
    ft_allocator *a;
    assert_int_equal(ft_allocator_create(&device.device, &options, &a), FT_OK);
    return a;
}

static inline void sound(const ft_allocator *a) {
    if (ft_allocator_check(a) != FT_OK) fail_msg("%s: %s", ft_error_where(), ft_error_message());
}

static inline ft_block *take(ft_allocator *a, size_t bytes, int stream) {
    ft_block *block;
    assert_int_equal(ft_allocator_take(a, bytes, stream, &block, NULL), FT_OK);
    sound(a);
    return block;
}

static inline void give(ft_allocator *a, ft_block *block) {
    ft_allocator_give(a, block);
    sound(a);
}

static inline void at(const ft_block *block, uint64_t segment, size_t offset, size_t size) {
    assert_int_equal(block->segment->number, segment);
    assert_int_equal(block->offset, offset);
    assert_int_equal(block->size, size);
}

#endif
