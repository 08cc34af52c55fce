// The caching allocator on random requests: every decision against a plain model of its rules; the same requests get
// the same places again, whatever came before and whatever the addresses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/memory/allocator_model.h"

// ---- random requests --------------------------------------------------------------------------------------------

static uint64_t random_state;
static size_t below(size_t n) {
    random_state += 0x9E3779B97F4A7C15u;
    return mixed(random_state) % n;
}

static bool large; // requests of more than a piece are as frequent as others
static size_t random_bytes(void) {
    if (large && below(3) == 0) return below(100 * MIB);
    static const size_t corners[] = {0,       1,       512,         513,      MIB - 511,     MIB,
                                     MIB + 1, 2 * MIB, 2 * MIB + 1, 20 * MIB, 3 * MIB - 512, 41 * MIB};
    switch (below(8)) {
    case 0: return corners[below(sizeof corners / sizeof *corners)];
    case 1:
    case 2:
    case 3: return below(4096);
    case 4:
    case 5: return below(MIB);
    case 6: return below(8 * MIB);
    default: return below(44 * MIB);
    }
}

// ---- against the model ------------------------------------------------------------------------------------------

typedef struct setting {
    const char *name;
    ft_allocator_options options;
    int streams;
    size_t capacity;
    uint32_t one_in; // a device call in so many is refused; 0: none
    bool pieces;     // of ranges: pages do not all go back one by one
} setting;

enum { LIVE = 60, STEPS = 5000 };

static void compare(const ft_allocator *a, const model *m, const setting *s, int step) {
    ft_allocator_counters got = ft_allocator_read(a), want = m_read(m);
    sound(a);
    if (memcmp(&got, &want, sizeof got) == 0) return;
    fail_msg("%s, step %d: allocated %zu/%zu reserved %zu/%zu peaks %zu/%zu %zu/%zu inactive %zu/%zu largest %zu/%zu "
             "segments %zu/%zu live %zu/%zu calls %ju/%ju %ju/%ju %ju/%ju (allocator/model)",
             s->name, step, got.allocated, want.allocated, got.reserved, want.reserved, got.peak_allocated,
             want.peak_allocated, got.peak_reserved, want.peak_reserved, got.inactive_split, want.inactive_split,
             got.largest_free, want.largest_free, got.segments, want.segments, got.live_blocks, want.live_blocks,
             (uintmax_t)got.device_allocations, (uintmax_t)want.device_allocations, (uintmax_t)got.device_frees,
             (uintmax_t)want.device_frees, (uintmax_t)got.released_for_retry, (uintmax_t)want.released_for_retry);
}

static uint64_t saw_limit, saw_device, saw_retry, saw_success_after_refusal;

static void play(const setting *s, uint32_t seed) {
    static model m;
    open_watched(s->capacity, false);
    large = s->pieces;
    if (s->pieces) device.device.target.backend = FT_BACKEND_CUDA;
    ft_allocator *a = open_allocator(s->options);
    memset(&m, 0, sizeof m);
    m.options = s->options;
    if (m.options.limit == 0) m.options.limit = s->capacity;
    m.page = s->options.expandable_segments ? watched_page : 0;
    m.piece = s->pieces ? FT_RANGE_PIECE : 0;
    m.device.capacity = s->capacity;
    m.device.one_in = device.refusals.one_in = s->one_in;
    m.device.seed = device.refusals.seed = s->one_in > 0 ? seed : 0;
    random_state = seed;
    ft_block *live[LIVE] = {NULL};
    for (int step = 0; step < STEPS; step++) {
        int id = (int)below(LIVE);
        if (live[id] != NULL) {
            ft_allocator_give(a, live[id]);
            live[id] = NULL;
            m_give(&m, id);
        } else {
            size_t bytes = random_bytes();
            int stream = (int)below((size_t)s->streams) * 7;
            bool by_limit, want_by_limit;
            m_place place = {0};
            uint64_t calls = device.refusals.calls;
            ft_allocator_counters before = ft_allocator_read(a);
            ft_status got = ft_allocator_take(a, bytes, stream, &live[id], &by_limit);
            ft_status want = m_take(&m, bytes, stream, id, &place, &want_by_limit);
            assert_int_equal(got, want);
            assert_int_equal(by_limit, want_by_limit);
            ft_allocator_counters after = ft_allocator_read(a);
            if (got != FT_OK) {
                assert_null(live[id]);
                saw_limit += by_limit;
                saw_device += !by_limit;
                if (by_limit) assert_memory_equal(&before, &after, sizeof before); // nothing is released in vain
                assert_int_equal(after.allocated, before.allocated);
                assert_int_equal(after.live_blocks, before.live_blocks);
                assert_int_equal(after.peak_allocated, before.peak_allocated);
                assert_int_equal(after.peak_reserved, before.peak_reserved);
                assert_int_equal(after.device_allocations, before.device_allocations);
                assert_int_equal(after.reserved == before.reserved,
                                 after.released_for_retry == before.released_for_retry);
            } else {
                if (live[id]->segment->number != place.segment || live[id]->offset != place.offset ||
                    live[id]->size != place.size)
                    fail_msg("%s, step %d, %zu bytes: %zu bytes at %zu of segment %ju, not %zu at %zu of %ju", s->name,
                             step, bytes, live[id]->size, live[id]->offset, (uintmax_t)live[id]->segment->number,
                             place.size, place.offset, (uintmax_t)place.segment);
                assert_ptr_equal(ft_allocator_data(live[id]), live[id]->segment->base + place.offset);
                assert_int_equal(ft_allocator_size(live[id]), place.size);
                saw_retry += after.released_for_retry > before.released_for_retry;
                saw_success_after_refusal += device.refusals.calls - calls > 1;
            }
        }
        if (below(150) == 0) {
            ft_allocator_trim(a);
            m_trim(&m);
        }
        if (below(100) == 0) {
            ft_allocator_join(a);
            m_join(&m);
        }
        compare(a, &m, s, step);
        assert_int_equal(device.refusals.held, ft_allocator_read(a).reserved);
        assert_int_equal(device.refusals.calls, m.device.calls);
    }
    for (int id = 0; id < LIVE; id++) { // half of them; the rest is for close
        if (live[id] == NULL || id % 2 == 0) continue;
        ft_allocator_give(a, live[id]);
        m_give(&m, id);
        compare(a, &m, s, STEPS + id);
    }
    ft_allocator_trim(a);
    m_trim(&m);
    compare(a, &m, s, 2 * STEPS);
    ft_allocator_close(a);
    m_close(&m);
    close_watched();
}

static void test_model(void **state) {
    static const setting settings[] = {
        {"plain", {0}, 1, 8192 * MIB, 0, false},
        {"limit", {.limit = 190 * MIB}, 1, 8192 * MIB, 0, false},
        {"odd limit", {.limit = 150 * MIB + 12345}, 2, 8192 * MIB, 0, false},
        {"small device", {0}, 1, 170 * MIB, 0, false},
        {"device below the limit", {.limit = 400 * MIB}, 2, 170 * MIB, 0, false},
        {"split", {.max_split_size = 6 * MIB}, 1, 600 * MIB, 0, false},
        {"split, limit", {.limit = 180 * MIB, .max_split_size = 20 * MIB}, 1, 8192 * MIB, 0, false},
        {"collect", {.limit = 300 * MIB, .garbage_collection_threshold = 0.5}, 2, 8192 * MIB, 0, false},
        {"collect, split", {.max_split_size = 4 * MIB, .garbage_collection_threshold = 0.7}, 1, 250 * MIB, 0, false},
        {"refusing", {.limit = 300 * MIB}, 1, 8192 * MIB, 3, false},
        {"refusing much", {.limit = 300 * MIB, .garbage_collection_threshold = 0.8}, 3, 8192 * MIB, 2, false},
        {"ranges", {.expandable_segments = true}, 1, 4096 * MIB, 0, false},
        {"ranges, limit", {.limit = 190 * MIB, .expandable_segments = true}, 1, 8192 * MIB, 0, false},
        {"ranges, odd limit", {.limit = 150 * MIB + 54321, .expandable_segments = true}, 3, 8192 * MIB, 0, false},
        {"ranges, small device", {.limit = 300 * MIB, .expandable_segments = true}, 2, 170 * MIB, 0, false},
        {"ranges, collect",
         {.limit = 250 * MIB, .expandable_segments = true, .garbage_collection_threshold = 0.5},
         1,
         8192 * MIB,
         0,
         false},
        {"ranges, refusing", {.limit = 250 * MIB, .expandable_segments = true}, 2, 8192 * MIB, 3, false},
        {"pieces", {.expandable_segments = true}, 1, 4096 * MIB, 0, true},
        {"pieces, odd limit", {.limit = 350 * MIB + 54321, .expandable_segments = true}, 3, 8192 * MIB, 0, true},
        {"pieces, small device", {.limit = 900 * MIB, .expandable_segments = true}, 2, 470 * MIB, 0, true},
        {"pieces, collect",
         {.limit = 450 * MIB, .expandable_segments = true, .garbage_collection_threshold = 0.5},
         1,
         8192 * MIB,
         0,
         true},
        {"pieces, refusing", {.limit = 450 * MIB, .expandable_segments = true}, 2, 8192 * MIB, 3, true},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (uint32_t seed = 1; seed <= (settings[i].pieces ? 2u : 6u); seed++)
            play(&settings[i], seed + 100 * (uint32_t)i);
    // Sequences that never reach these cases would prove little.
    assert_true(saw_limit > 100 && saw_device > 100 && saw_retry > 100 && saw_success_after_refusal > 100);
}

// ---- the same again ---------------------------------------------------------------------------------------------

enum { TRACE = 3000 };

// Requests of two streams, all given back at the end; the places they got.
static void trace(ft_allocator *a, uint32_t seed, m_place *places) {
    ft_block *live[LIVE] = {NULL};
    memset(places, 0, TRACE * sizeof *places);
    random_state = seed;
    for (int step = 0; step < TRACE; step++) {
        size_t id = below(LIVE), bytes = random_bytes();
        int stream = (int)below(2);
        if (below(200) == 0) ft_allocator_join(a);
        if (live[id] != NULL) {
            ft_allocator_give(a, live[id]);
            live[id] = NULL;
            continue;
        }
        if (ft_allocator_take(a, bytes, stream, &live[id], NULL) != FT_OK) continue;
        places[step] = (m_place){live[id]->segment->number, live[id]->offset, live[id]->size};
    }
    for (int id = 0; id < LIVE; id++)
        ft_allocator_give(a, live[id]);
    sound(a);
}

static void test_same_again(void **state) {
    static m_place first[TRACE], again[TRACE];
    for (int ranges = 0; ranges < 3; ranges++) { // 2: in pieces
        ft_allocator_options options = {
            .limit = 400 * MIB, .expandable_segments = ranges > 0, .garbage_collection_threshold = 0.9};
        large = ranges == 2;
        const ft_backend_kind backend = large ? FT_BACKEND_CUDA : FT_BACKEND_CPU;
        open_watched(1024 * MIB, false);
        device.device.target.backend = backend;
        ft_allocator *a = open_allocator(options);
        trace(a, 5, first);
        ft_allocator_trim(a);
        ft_allocator_counters c = ft_allocator_read(a);
        assert_int_equal(c.reserved + c.segments + c.largest_free, 0);
        trace(a, 5, again);
        assert_memory_equal(first, again, sizeof first);
        trace(a, 6, again); // other requests, and the past is forgotten all the same
        assert_memory_not_equal(first, again, sizeof first);
        ft_allocator_trim(a);
        trace(a, 5, again);
        assert_memory_equal(first, again, sizeof first);
        ft_allocator_close(a);
        close_watched();
        open_watched(1024 * MIB, true); // other addresses, the same decisions
        device.device.target.backend = backend;
        a = open_allocator(options);
        trace(a, 5, again);
        assert_memory_equal(first, again, sizeof first);
        ft_allocator_close(a);
        close_watched();
    }
}

// With one stream, joining changes nothing that a request can see.
static void test_join_of_one_stream(void **state) {
    large = false;
    for (int ranges = 0; ranges < 2; ranges++) {
        open_watched(4096 * MIB, false);
        ft_allocator_options options = {.limit = 300 * MIB, .expandable_segments = ranges};
        ft_allocator *a = open_allocator(options), *b = open_allocator(options);
        ft_block *in_a[LIVE] = {NULL}, *in_b[LIVE] = {NULL};
        random_state = 77;
        for (int step = 0; step < 3000; step++) {
            size_t id = below(LIVE), bytes = random_bytes();
            if (below(5) == 0) ft_allocator_join(b);
            if (in_a[id] != NULL) {
                ft_allocator_give(a, in_a[id]);
                ft_allocator_give(b, in_b[id]);
                in_a[id] = in_b[id] = NULL;
                continue;
            }
            assert_int_equal(ft_allocator_take(a, bytes, 3, &in_a[id], NULL),
                             ft_allocator_take(b, bytes, 3, &in_b[id], NULL));
            if (in_a[id] != NULL) at(in_b[id], in_a[id]->segment->number, in_a[id]->offset, in_a[id]->size);
            sound(b);
        }
        ft_allocator_close(a);
        ft_allocator_close(b);
        close_watched();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_join_of_one_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
