// The caching allocator on a CUDA device's memory, over the fake driver: growing ranges and buffers under random
// requests, with every block's contents kept, every refusal clean, and nothing left in the driver in the end.
// ctest: tsan=run driver=fake
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/memory/allocator/allocator.h"
#include "tests/emulator/driver/fake_device.h"

enum { OUT_OF_MEMORY = 2, LIVE = 40, STEPS = 2000, STAMP = 64 };
#define MIB ((size_t)1 << 20)

static int load(void **state) {
    load_fake(FT_FAKE_DRIVER);
    return 0;
}

static uint64_t random_state;
static size_t below(size_t n) {
    random_state += 0x9E3779B97F4A7C15u;
    uint64_t x = (random_state ^ (random_state >> 31)) * 0xD6E8FEB86659FD93u;
    return (size_t)((x ^ (x >> 32)) % n);
}

static size_t random_bytes(void) {
    if (below(24) == 0) return 1 + below(50 * MIB); // from 34 MiB on a growth has a large piece
    switch (below(4)) {
    case 0: return 1 + below(4096);
    case 1: return 1 + below(MIB);
    default: return 1 + below(9 * MIB);
    }
}

static void sound(const ft_allocator *a) { good(ft_allocator_check(a)); }

// Both ends of a block carry its number.
typedef struct live {
    ft_block *block;
    size_t bytes;
    unsigned char number;
} live;

static size_t ends(const live *l) { return l->bytes < STAMP ? l->bytes : STAMP; }

static void stamp(live *l, unsigned char number) {
    char *at = ft_allocator_data(l->block);
    l->number = number;
    good(gpu->functions->fill(gpu, at, number, ends(l)));
    good(gpu->functions->fill(gpu, at + l->bytes - ends(l), number, ends(l)));
}

static void check_stamp(const live *l) {
    unsigned char begin[STAMP], end[STAMP];
    const char *at = ft_allocator_data(l->block);
    good(gpu->functions->download(gpu, begin, at, ends(l)));
    good(gpu->functions->download(gpu, end, at + l->bytes - ends(l), ends(l)));
    good(gpu->functions->sync(gpu));
    for (size_t i = 0; i < ends(l); i++)
        if (begin[i] != l->number || end[i] != l->number) fail_msg("a block of %zu bytes lost its contents", l->bytes);
}

// Returns how many requests were refused by the device.
static int play(ft_allocator_options options, uint64_t seed, int refuse_one_in) {
    fake_settings s = fake.defaults();
    s.memory = 96 * MIB;
    open_gpu(&s);
    ft_allocator *a;
    good(ft_allocator_create(gpu, &options, &a));
    live blocks[LIVE] = {0};
    int refused = 0;
    random_state = seed;
    for (int step = 0; step < STEPS; step++) {
        live *l = &blocks[below(LIVE)];
        if (l->block != NULL) {
            check_stamp(l);
            ft_allocator_give(a, l->block);
            l->block = NULL;
        } else {
            bool by_limit;
            ft_allocator_counters before = ft_allocator_read(a);
            if (refuse_one_in > 0 && below((size_t)refuse_one_in) == 0)
                fake.refuse(options.expandable_segments ? "cuMemCreate" : "cuMemAlloc_v2", 1 + below(4), 1,
                            OUT_OF_MEMORY);
            l->bytes = random_bytes();
            ft_status status = ft_allocator_take(a, l->bytes, (int)below(2), &l->block, &by_limit);
            fake.refuse(NULL, 1, 0, 0);
            if (status == FT_OK) {
                stamp(l, (unsigned char)(1 + below(255)));
            } else {
                assert_int_equal(status, FT_NO_MEMORY);
                assert_null(l->block);
                ft_allocator_counters after = ft_allocator_read(a);
                assert_int_equal(after.allocated, before.allocated);
                assert_int_equal(after.live_blocks, before.live_blocks);
                if (!by_limit) {
                    assert_non_null(strstr(ft_error_message(), "CUDA_ERROR_OUT_OF_MEMORY"));
                    refused++;
                }
            }
        }
        if (below(120) == 0) ft_allocator_trim(a);
        sound(a);
        // The driver holds what the allocator thinks that it has.
        assert_int_equal(fake.read().used, ft_allocator_read(a).reserved);
        assert_true(options.expandable_segments ? fake.read().buffers == 0 : fake.read().handles == 0);
    }
    for (int i = 0; i < LIVE; i += 2) { // the others are for close
        if (blocks[i].block == NULL) continue;
        check_stamp(&blocks[i]);
        ft_allocator_give(a, blocks[i].block);
    }
    ft_allocator_trim(a);
    sound(a);
    assert_int_equal(fake.read().used, ft_allocator_read(a).reserved);
    ft_allocator_close(a);
    good(gpu->functions->sync(gpu)); // giving back did not fail unheard
    close_gpu(0);
    return refused;
}

static void ranges_under_random_requests(void **state) {
    assert_int_equal(play((ft_allocator_options){.expandable_segments = true, .limit = 64 * MIB}, 1, 0), 0);
    assert_true(play((ft_allocator_options){.expandable_segments = true}, 2, 5) > 0);
}

static void buffers_under_random_requests(void **state) {
    assert_int_equal(play((ft_allocator_options){.limit = 64 * MIB}, 3, 0), 0);
    assert_true(play((ft_allocator_options){.max_split_size = 20 * MIB}, 4, 5) > 0);
}

// A few requests, with the nth call that could run out of memory refused, for every n: first with nothing cached (the
// request fails, counters as before), then the same requests again are met.
static void out_of_memory_at_every_call(void **state) {
    static const size_t bytes[] = {3 * MIB, 100, 9 * MIB, 5 * MIB};
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve"};
    enum { REQUESTS = sizeof bytes / sizeof *bytes };
    int failures[4] = {0};
    for (int c = 0; c < 4; c++)
        for (uint64_t nth = 1;; nth++) {
            open_gpu(NULL);
            ft_allocator *a;
            ft_block *block;
            good(ft_allocator_create(gpu, &(ft_allocator_options){.expandable_segments = true}, &a));
            fake.refuse(calls[c], nth, 1, OUT_OF_MEMORY);
            int refused = 0;
            for (int i = 0; i < REQUESTS; i++) {
                ft_allocator_counters before = ft_allocator_read(a), after;
                fake_books held = fake.read();
                ft_status status = ft_allocator_take(a, bytes[i], 0, &block, NULL);
                sound(a);
                if (status == FT_OK) continue;
                failed(status, FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
                after = ft_allocator_read(a);
                fake_books now = fake.read();
                assert_memory_equal(&before, &after, sizeof before);
                assert_memory_equal(&held, &now, sizeof held);
                good(ft_allocator_take(a, bytes[i], 0, &block, NULL));
                refused++;
            }
            fake.refuse(NULL, 1, 0, 0);
            assert_int_equal(fake.read().used, ft_allocator_read(a).reserved);
            ft_allocator_close(a);
            good(gpu->functions->sync(gpu));
            close_gpu(0);
            failures[c] += refused;
            if (refused == 0) break;
        }
    assert_int_equal(failures[0], failures[1]); // each page is made, then mapped
    assert_true(failures[0] >= 9);              // 17 MiB and a small segment
    assert_int_equal(failures[2], REQUESTS);    // one growth a request
    assert_int_equal(failures[3], 2);           // one range a class
}

static void devices_without_ranges_are_refused(void **state) {
    fake_settings s = fake.defaults();
    s.virtual_memory = 0;
    open_gpu(&s);
    ft_allocator *a;
    failed(ft_allocator_create(gpu, &(ft_allocator_options){.expandable_segments = true}, &a), FT_INVALID,
           "the device cuda:0 has no virtual ranges");
    close_gpu(0);
}

// ---- a model ----------------------------------------------------------------------------------------------------

// Calls of a driver that gives everything: its memory is never touched.
static struct {
    uint64_t create, map, access, unmap, release;
    size_t bytes;
} calls;

static int count_create(ft_cu_handle *handle, size_t bytes, const ft_cu_memory *kind, unsigned long long flags) {
    *handle = ++calls.create;
    calls.bytes += bytes;
    return 0;
}
static int count_map(ft_cu_address to, size_t bytes, size_t offset, ft_cu_handle handle, unsigned long long flags) {
    calls.map++;
    return 0;
}
static int count_access(ft_cu_address base, size_t bytes, const ft_cu_access *access, size_t count) {
    calls.access++;
    return 0;
}
static int count_unmap(ft_cu_address from, size_t bytes) {
    calls.unmap++;
    calls.bytes -= bytes;
    return 0;
}
static int count_release(ft_cu_handle handle) {
    calls.release++;
    return 0;
}

// What `ftengine plan configs/bert_large.ini --gpu H200` asks for: weights and two moments, the state of a step, its
// arena. A page a handle these were 6,496 handles, and 12,997 calls to have them.
static void bert_large_takes_few_calls(void **state) {
    static const size_t numbers = (size_t)335143938 * 4, arena = (size_t)9598664704;
    fake_settings s = fake.defaults();
    s.memory = (size_t)24 << 30;
    open_gpu(&s);
    ft_cuda_driver counting = *driver;
    counting.mem_create = count_create;
    counting.mem_map = count_map;
    counting.mem_set_access = count_access;
    counting.mem_unmap = count_unmap;
    counting.mem_release = count_release;
    ft_device *counted;
    good(ft_cuda_open(&counting, 0, NULL, &counted));
    ft_allocator *a;
    good(ft_allocator_create(counted, &(ft_allocator_options){.expandable_segments = true}, &a));
    ft_block *blocks[5];
    for (int i = 0; i < 3; i++)
        good(ft_allocator_take(a, numbers, 0, &blocks[i], NULL));
    good(ft_allocator_take(a, 4096, 0, &blocks[3], NULL));
    good(ft_allocator_take(a, arena, 0, &blocks[4], NULL));
    good(ft_allocator_check(a));
    assert_int_equal(ft_allocator_read(a).reserved, calls.bytes);
    assert_int_equal(calls.bytes, 6496 * (2 * MIB));
    assert_int_equal(calls.access, 5);
    assert_int_equal(calls.map, calls.create);
    assert_int_equal(calls.create,
                     (39 + 16) + 2 * (39 + 15) + 1 + (286 + 1)); // large ones, pages: 451 handles, 907 calls
    ft_allocator_give(a, blocks[4]); // the end of a step: all of the arena goes, but the page that it shares
    ft_allocator_trim(a);
    good(ft_allocator_check(a));
    assert_int_equal(ft_allocator_read(a).reserved, calls.bytes);
    assert_int_equal(calls.bytes, (1918 + 1) * (2 * MIB));
    ft_allocator_close(a);
    assert_int_equal(calls.bytes, 0);
    assert_int_equal(calls.unmap, calls.create);
    assert_int_equal(calls.release, calls.create);
    good(counted->functions->sync(counted));
    ft_device_close(counted);
    close_gpu(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_under_random_requests),
        cmocka_unit_test(buffers_under_random_requests),
        cmocka_unit_test(out_of_memory_at_every_call),
        cmocka_unit_test(devices_without_ranges_are_refused),
        cmocka_unit_test(bert_large_takes_few_calls),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
