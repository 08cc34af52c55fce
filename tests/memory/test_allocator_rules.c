// The rules of the caching allocator one by one, with numbers that a reader can follow; ranges with real memory.
// ctest: wrap=mmap
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fixtures/sanitized.h"
#include "tests/memory/allocator_device.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// ---- single rules, by hand --------------------------------------------------------------------------------------

static void test_sizes(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){0});
    ft_block *none = take(a, 0, 0), *odd = take(a, 513, 0), *most = take(a, MIB, 0), *more = take(a, MIB + 1, 0);
    at(none, 0, 0, 512);
    at(odd, 0, 512, 1024);
    at(most, 0, 1536, MIB);
    at(more, 1, 0, MIB + 512 + (MIB - 512)); // a rest of less than 1 MiB stays with its block
    ft_block *split = take(a, 3 * MIB, 0);
    at(split, 2, 0, 3 * MIB);
    at(take(a, MIB - 512, 0), 3, 0, MIB - 512); // the rest of segment 0 is 512 bytes too small; never a large segment
    ft_allocator_counters c = ft_allocator_read(a);
    assert_int_equal(c.reserved, (2 + 2 + 4 + 2) * MIB);
    assert_int_equal(c.allocated, 1536 + MIB + 2 * MIB + 3 * MIB + MIB - 512);
    assert_int_equal(c.inactive_split, c.reserved - c.allocated);
    assert_int_equal(c.largest_free, MIB + 512);
    give(a, split);
    c = ft_allocator_read(a);
    assert_int_equal(c.largest_free, 4 * MIB); // merged
    at(take(a, 4 * MIB, 0), 2, 0, 4 * MIB);
    ft_allocator_give(a, NULL);
    ft_allocator_close(a);
    ft_allocator_close(NULL);
    close_watched();
}

static void test_best_fit(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){0});
    static const size_t sizes[] = {8, 6, 10, 6};
    ft_block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = take(a, sizes[i] * MIB, 0);
    for (int i = 3; i >= 0; i--)
        give(a, blocks[i]);
    at(take(a, 5 * MIB, 0), 1, 0, 5 * MIB); // the smallest; of equals the first segment, not the one freed last
    at(take(a, 5 * MIB, 0), 3, 0, 5 * MIB);
    at(take(a, 5 * MIB, 0), 0, 0, 5 * MIB);
    at(take(a, 3 * MIB, 0), 0, 5 * MIB, 3 * MIB); // its rest is smaller than segment 2
    ft_allocator_close(a);
    close_watched();
}

static void test_max_split_size(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.max_split_size = 32 * MIB});
    give(a, take(a, 50 * MIB, 0));
    ft_block *small = take(a, 29 * MIB, 0); // 21 MiB would be wasted
    at(small, 1, 0, 29 * MIB);
    ft_block *whole = take(a, 30 * MIB, 0); // 20 MiB are allowed; not split
    at(whole, 0, 0, 50 * MIB);
    give(a, whole);
    at(take(a, 32 * MIB, 0), 0, 0, 32 * MIB); // not smaller than the limit: split
    ft_allocator_close(a);
    close_watched();
}

static void test_streams(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){0});
    ft_block *first = take(a, 4 * MIB, 1), *second = take(a, 4 * MIB, 2);
    give(a, first);
    at(take(a, 4 * MIB, 2), 2, 0, 4 * MIB); // stream 1 keeps what it freed
    at(take(a, 2 * MIB, 1), 0, 0, 2 * MIB);
    give(a, second);
    ft_allocator_join(a);
    sound(a);
    at(take(a, 4 * MIB, 3), 1, 0, 4 * MIB); // common now
    ft_block *rest = take(a, 2 * MIB, 2);
    at(rest, 0, 2 * MIB, 2 * MIB); // beside a block of stream 1
    give(a, rest);
    at(take(a, 2 * MIB, 1), 3, 0, 2 * MIB); // and its own again
    ft_allocator_close(a);
    close_watched();
}

// In the range of stream 0 lies what stream 1 freed, beside what stream 0 freed: growth of the latter would keep both
// from being given back.
static void test_growth_that_pins_least(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 40 * MIB, .expandable_segments = true});
    ft_block *lower = take(a, 10 * MIB, 0), *upper = take(a, 4 * MIB, 0);
    give(a, lower);
    ft_allocator_join(a);
    lower = take(a, 10 * MIB, 1);
    at(lower, 0, 0, 10 * MIB);
    take(a, 12 * MIB, 2);
    give(a, lower);
    give(a, upper);
    at(take(a, 28 * MIB, 0), 2, 0,
       28 * MIB); // with all 14 MiB that are free given back; 24 more would exceed the limit
    assert_int_equal(ft_allocator_read(a).reserved, 40 * MIB);
    ft_allocator_close(a);
    close_watched();
}

static void test_limit_releases_the_oldest(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 24 * MIB});
    ft_block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = take(a, 6 * MIB, 0);
    give(a, blocks[2]);
    give(a, blocks[0]);
    give(a, blocks[3]);
    ft_allocator_counters before = ft_allocator_read(a);
    ft_block *none;
    bool by_limit;
    assert_int_equal(ft_allocator_take(a, 20 * MIB, 0, &none, &by_limit), FT_NO_MEMORY); // 18 are free at most
    assert_true(by_limit && none == NULL);
    assert_int_equal(ft_allocator_take(a, SIZE_MAX, 0, &none, &by_limit), FT_NO_MEMORY);
    assert_true(by_limit && none == NULL);
    ft_allocator_counters after = ft_allocator_read(a);
    assert_memory_equal(&before, &after, sizeof before);
    take(a, 12 * MIB, 0); // needs two of the three: segments 2 and 0 have rested longest
    after = ft_allocator_read(a);
    assert_int_equal(after.released_for_retry, 2);
    assert_int_equal(after.reserved, 24 * MIB);
    at(take(a, 6 * MIB, 0), 3, 0, 6 * MIB);
    ft_allocator_close(a);
    close_watched();
}

static void test_collection(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 100 * MIB, .garbage_collection_threshold = 0.4});
    ft_block *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = take(a, 10 * MIB, 0);
    for (int i = 0; i < 3; i++)
        give(a, blocks[i]);
    take(a, 20 * MIB, 0); // 50 of 100 MiB: the oldest segment goes, 40 remain
    ft_allocator_counters c = ft_allocator_read(a);
    assert_int_equal(c.reserved, 40 * MIB);
    assert_int_equal(c.released_for_retry, 1);
    take(a, 60 * MIB, 0); // a threshold, not a limit
    assert_int_equal(ft_allocator_read(a).reserved, 80 * MIB);
    ft_allocator_close(a);
    close_watched();
}

static void test_refusing_device(void **state) {
    for (int ranges = 0; ranges < 2; ranges++) {
        open_watched(16 * MIB, false);
        ft_allocator *a = open_allocator((ft_allocator_options){.limit = 100 * MIB, .expandable_segments = ranges});
        ft_block *blocks[4], *none;
        bool by_limit = true;
        for (int i = 0; i < 4; i++)
            blocks[i] = take(a, 4 * MIB, i % 2);
        give(a, blocks[0]);
        ft_allocator_counters before = ft_allocator_read(a);
        assert_int_equal(ft_allocator_take(a, 9 * MIB, 2, &none, &by_limit), FT_NO_MEMORY);
        assert_true(!by_limit && none == NULL);
        ft_allocator_counters after = ft_allocator_read(a);
        assert_int_equal(after.allocated, before.allocated);
        assert_int_equal(after.reserved, before.reserved - 4 * MIB); // what was free went, in vain
        assert_int_equal(after.peak_reserved, before.peak_reserved);
        ft_error_clear();
        blocks[0] = take(a, 4 * MIB, 0);
        give(a, blocks[0]);
        give(a, blocks[1]);
        take(a, 8 * MIB, 2); // both must go; the first refusals leave no error behind
        assert_int_equal(ft_error_code(), FT_OK);
        assert_int_equal(ft_allocator_read(a).reserved, 16 * MIB);
        device.refusals.seed = device.refusals.one_in = 1;
        device.refusal = FT_FAILED; // a device that is lost is not out of memory
        before = ft_allocator_read(a);
        assert_int_equal(ft_allocator_take(a, 40 * MIB, 0, &none, &by_limit), FT_FAILED);
        assert_true(!by_limit && none == NULL);
        assert_string_equal(ft_error_message(), "refused by the test");
        after = ft_allocator_read(a);
        assert_memory_equal(&before, &after, sizeof before);
        sound(a);
        ft_allocator_close(a);
        close_watched();
    }
}

static void test_options(void **state) {
    open_watched(64 * MIB, false);
    ft_allocator *a;
    static const struct {
        ft_allocator_options options;
        const char *where;
    } bad[] = {
        {{.max_split_size = MIB}, "max_split_size"},
        {{.max_split_size = 64 * MIB, .expandable_segments = true}, "max_split_size"},
        {{.garbage_collection_threshold = -0.1}, "garbage_collection_threshold"},
        {{.garbage_collection_threshold = 1}, "garbage_collection_threshold"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ft_allocator_create(&device.device, &bad[i].options, &a), FT_INVALID);
        assert_null(a);
        assert_string_equal(ft_error_where(), bad[i].where);
    }
    device.device.functions = &no_ranges;
    assert_int_equal(ft_allocator_create(&device.device, &(ft_allocator_options){.expandable_segments = true}, &a),
                     FT_INVALID);
    assert_string_equal(ft_error_where(), "expandable_segments");
    a = open_allocator((ft_allocator_options){0}); // the device's total is the limit
    ft_block *none;
    bool by_limit;
    assert_int_equal(ft_allocator_take(a, 64 * MIB + 1, 0, &none, &by_limit), FT_NO_MEMORY);
    assert_true(by_limit);
    take(a, 64 * MIB, 0);
    ft_allocator_close(a);
    close_watched();
}

static void test_refused_ranges(void **state) {
    open_watched(64 * MIB, false);
    const ft_allocator_options options = {.expandable_segments = true};
    ft_allocator *a;
    device.no_ranges = true;
    assert_int_equal(ft_allocator_create(&device.device, &options, &a), FT_NO_MEMORY);
    assert_null(a);
    device.no_ranges = false;
    device.page = 1000;
    assert_int_equal(ft_allocator_create(&device.device, &options, &a), FT_INVALID);
    assert_null(a);
    assert_string_equal(ft_error_where(), "expandable_segments");
    device.page = 0;
    a = open_allocator(options);
    device.no_ranges = true;
    ft_block *none;
    bool by_limit = true;
    assert_int_equal(ft_allocator_take(a, 100, 0, &none, &by_limit), FT_NO_MEMORY);
    assert_true(!by_limit && none == NULL);
    sound(a);
    device.no_ranges = false;
    at(take(a, 100, 0), 0, 0, 512);
    ft_allocator_close(a);
    close_watched();
}

// ---- ranges with memory behind them -----------------------------------------------------------------------------

static size_t resident(const char *begin, size_t bytes) {
    static unsigned char pages[64 << 10];
    assert_true(bytes / 4096 <= sizeof pages);
    assert_int_equal(mincore((void *)begin, bytes, pages), 0);
    size_t count = 0;
    for (size_t i = 0; i < bytes / 4096; i++)
        count += pages[i] & 1;
    return count * 4096;
}

static void fill(const ft_block *block, int byte) { memset(ft_allocator_data(block), byte, ft_allocator_size(block)); }
static void holds(const ft_block *block, int byte) {
    const unsigned char *data = ft_allocator_data(block);
    for (size_t i = 0; i < ft_allocator_size(block); i++)
        if (data[i] != byte) fail_msg("byte %zu of %zu is %d, not %d", i, ft_allocator_size(block), data[i], byte);
}

static void test_range_memory(void **state) {
    open_watched(256 * MIB, true);
    ft_allocator *a = open_allocator((ft_allocator_options){.expandable_segments = true});
    ft_block *low = take(a, 3 * MIB, 0), *middle = take(a, 20 * MIB + 512, 0), *high = take(a, 5 * MIB, 0);
    at(low, 0, 0, 3 * MIB);
    at(middle, 0, 3 * MIB, 20 * MIB + 512); // the rest of the page before is used
    at(high, 0, 23 * MIB + 512, 5 * MIB);
    assert_int_equal(ft_allocator_read(a).reserved, 30 * MIB);
    assert_int_equal((uintptr_t)low->segment->base % (2 * MIB), 0);
    fill(low, 1);
    fill(middle, 2);
    fill(high, 3);
    const char *base = low->segment->base;
    assert_int_equal(resident(base + 4 * MIB, 18 * MIB), 18 * MIB);
    give(a, middle);
    ft_allocator_trim(a); // the whole pages of [3, 23.0005) MiB, and that at the end which is but half used stays
    sound(a);
    assert_int_equal(ft_allocator_read(a).reserved, 12 * MIB);
    assert_int_equal(resident(base + 4 * MIB, 18 * MIB), 0);
    holds(low, 1);
    holds(high, 3);
    ft_block *back = take(a, 2 * MIB, 0); // needs one page: from the free end of the page before the hole on
    at(back, 0, 3 * MIB, 2 * MIB);
    fill(back, 4);
    ft_block *all = take(a, 18 * MIB + 512, 0); // the whole hole, with what is free on both sides
    at(all, 0, 5 * MIB, 18 * MIB + 512);
    fill(all, 5);
    holds(low, 1);
    holds(high, 3);
    holds(back, 4);
    ft_block *small = take(a, 100, 0); // the other class has a range of its own
    at(small, 1, 0, 512);
    give(a, low);
    give(a, all);
    give(a, back);
    give(a, high);
    give(a, small);
    ft_allocator_trim(a);
    assert_int_equal(ft_allocator_read(a).reserved, 0);
    assert_int_equal(ft_allocator_read(a).segments, 0);
    at(take(a, MIB, 5), 0, 0, MIB);
    ft_allocator_close(a); // with a live block
    close_watched();
}

static void test_cpu_ranges_refuse(void **state) {
    ft_device *cpu;
    assert_int_equal(ft_cpu_open(1, NULL, &cpu), FT_OK);
    void *base;
    size_t page;
    assert_int_equal(cpu->functions->range_reserve(cpu, SIZE_MAX, &base, &page), FT_NO_MEMORY);
    assert_int_equal(cpu->functions->range_reserve(cpu, (size_t)1 << 60, &base, &page), FT_NO_MEMORY);
    assert_null(base);
    assert_int_equal(cpu->functions->range_reserve(cpu, 4 * MIB, &base, &page), FT_OK);
    size_t more = (cpu->total_bytes / page + 1) * page;
    assert_int_equal(cpu->functions->range_commit(cpu, base, 0, more), FT_NO_MEMORY);
    assert_int_equal(cpu->functions->range_commit(cpu, base, page, page), FT_OK);
    memset((char *)base + page, 7, page);
    cpu->functions->range_decommit(cpu, base, page, page);
    assert_int_equal(cpu->functions->range_commit(cpu, base, page, page), FT_OK);
    assert_int_equal(((char *)base)[page], 0); // not what was there
    cpu->functions->range_decommit(cpu, base, page, page);
    cpu->functions->range_release(cpu, base, 4 * MIB);
    assert_int_equal(cpu->functions->range_commit(cpu, base, 0, page), FT_NO_MEMORY); // no longer there
    ft_device_close(cpu);
}

// Addresses run out before the limit does when live blocks stand in the way: another range follows.
static void test_second_range(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 64 * MIB, .expandable_segments = true});
    ft_block *low = take(a, 30 * MIB, 0), *pin = take(a, 4 * MIB, 0), *high = take(a, 30 * MIB, 0);
    give(a, low);
    give(a, high);
    ft_block *wide = take(a, 40 * MIB, 0);
    at(wide, 1, 0, 40 * MIB);
    assert_int_equal(ft_allocator_read(a).reserved, 64 * MIB);
    assert_int_equal(ft_allocator_read(a).released_for_retry, 2);
    give(a, wide);
    give(a, pin);
    ft_allocator_close(a);
    close_watched();
}

static size_t addresses_in_use(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

// RLIMIT_AS: ranges as large as the limit of the allocator cannot be had, and its requests can. What is caught: a range of all
// that may be taken, which is refused; a refusal that is no FT_NO_MEMORY; a first range that leaves none for a second.
static void test_scarce_addresses(void **state) {
    FT_PLAIN_ONLY(); // sanitizers need addresses themselves
    ft_device *cpu;
    ft_allocator *a;
    ft_block *small, *large[4], *none;
    struct rlimit before, scarce;
    assert_int_equal(ft_cpu_open(1, NULL, &cpu), FT_OK);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    scarce = before;
    scarce.rlim_cur = addresses_in_use() + 160 * MIB;
    assert_int_equal(setrlimit(RLIMIT_AS, &scarce), 0);
    const ft_allocator_options options = {.limit = 1024 * MIB, .expandable_segments = true};
    assert_int_equal(ft_allocator_create(cpu, &options, &a), FT_OK);
    assert_int_equal(ft_allocator_take(a, 1000, 0, &small, NULL), FT_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ft_allocator_take(a, 20 * MIB, 0, &large[i], NULL), FT_OK);
        memset(ft_allocator_data(large[i]), i + 1, 20 * MIB);
    }
    bool by_limit;
    assert_int_equal(ft_allocator_take(a, 100 * MIB, 0, &none, &by_limit), FT_NO_MEMORY);
    assert_false(by_limit);
    assert_int_equal(ft_allocator_read(a).reserved, 82 * MIB);
    assert_int_equal(ft_allocator_check(a), FT_OK);
    assert_int_equal(((char *)ft_allocator_data(large[3]))[20 * MIB - 1], 4);
    ft_allocator_close(a);
    // With a plan there is one range of each kind, and both are as large as the plan's.
    const size_t extent[FT_ALLOCATOR_CLASSES] = {2 * MIB, 100 * MIB};
    assert_int_equal(ft_allocator_create(cpu, &options, &a), FT_OK);
    ft_allocator_expect(a, extent);
    const size_t used = addresses_in_use();
    assert_int_equal(ft_allocator_take(a, 1000, 0, &small, NULL), FT_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(ft_allocator_take(a, 20 * MIB, 0, &large[i], NULL), FT_OK);
    assert_int_equal(ft_allocator_take(a, 20 * MIB, 0, &none, NULL), FT_OK);
    assert_int_equal(ft_allocator_read(a).segments, 2);
    assert_int_equal(ft_allocator_extent(a)[0], 2 * MIB);
    assert_int_equal(ft_allocator_extent(a)[1], 100 * MIB);
    assert_true(addresses_in_use() < used + 103 * MIB);
    ft_allocator_close(a);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    ft_device_close(cpu);
}

static size_t most_addresses; // a mapping without a file that is larger is refused; 0: none is
static int refusal;           // with that
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (most_addresses == 0 || file >= 0 || bytes <= most_addresses)
        return __real_mmap(at, bytes, protection, flags, file, offset);
    errno = refusal;
    return MAP_FAILED;
}

// Nobody says that addresses are scarce, and they are: no RLIMIT_AS, but a process that has none left, or valgrind,
// which says EINVAL. What is caught: a run that fails for a range of the whole budget where what it takes can be had.
static void test_refused_addresses(void **state) {
    static const int errors[] = {ENOMEM, EINVAL, EAGAIN};
    const ft_allocator_options options = {.limit = 1024 * MIB, .expandable_segments = true};
    const size_t extent[FT_ALLOCATOR_CLASSES] = {2 * MIB, 40 * MIB};
    ft_device *cpu;
    ft_allocator *a;
    ft_block *blocks[4], *none;
    assert_int_equal(ft_cpu_open(1, NULL, &cpu), FT_OK);
    for (int r = 0; r < 3; r++) {
        for (int planned = 0; planned < 2; planned++) {
            refusal = errors[r];
            most_addresses = 64 * MIB;
            assert_int_equal(ft_allocator_create(cpu, &options, &a), FT_OK);
            if (planned) ft_allocator_expect(a, extent);
            for (int i = 0; i < 4; i++) {
                assert_int_equal(ft_allocator_take(a, 20 * MIB, 0, &blocks[i], NULL), FT_OK);
                memset(ft_allocator_data(blocks[i]), i + 1, 20 * MIB);
            }
            assert_int_equal(ft_allocator_read(a).segments, planned ? 2 : 4); // each as the plan's, or as the request
            assert_int_equal(ft_allocator_read(a).reserved, 80 * MIB);
            bool by_limit = true;
            assert_int_equal(ft_allocator_take(a, 100 * MIB, 0, &none, &by_limit), FT_NO_MEMORY);
            assert_false(by_limit);
            assert_non_null(strstr(ft_error_message(), "range of addresses"));
            assert_int_equal(ft_allocator_check(a), FT_OK);
            for (int i = 0; i < 4; i++)
                holds(blocks[i], i + 1);
            most_addresses = 0;
            ft_allocator_close(a);
        }
    }
    ft_device_close(cpu);
}

// On a device whose pages come in pieces, one that has a byte in use stays, and counts; all else is as it was.
static void test_pieces(void **state) {
    open_watched(1024 * MIB, false);
    device.device.target.backend = FT_BACKEND_CUDA;
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 72 * MIB, .expandable_segments = true});
    ft_block *first = take(a, 70 * MIB, 0), *second; // pieces at 0 and 32 MiB, three pages behind them
    give(a, first);
    first = take(a, 3 * MIB, 0);
    ft_allocator_trim(a);
    sound(a);
    assert_int_equal(ft_allocator_read(a).reserved, 32 * MIB);
    second = take(a, 40 * MIB, 0); // 29 MiB are there, 12 come
    at(second, 0, 3 * MIB, 40 * MIB);
    assert_int_equal(ft_allocator_read(a).reserved, 44 * MIB);
    give(a, second);
    second = take(a, 69 * MIB, 0); // 28 more MiB: the limit, to the byte
    at(second, 0, 3 * MIB, 69 * MIB);
    assert_int_equal(ft_allocator_read(a).reserved, 72 * MIB);
    give(a, second);
    ft_allocator_trim(a);
    assert_int_equal(ft_allocator_read(a).reserved, 32 * MIB);
    give(a, first);
    ft_allocator_trim(a); // nothing is left, and no past
    assert_int_equal(ft_allocator_read(a).reserved + ft_allocator_read(a).segments, 0);
    // As much as is needed goes back: the highest piece, of two; the block that shares the last page keeps that alone.
    first = take(a, 65 * MIB, 0);
    second = take(a, MIB + 1, 0); // one page more
    at(second, 0, 65 * MIB, MIB + 512);
    give(a, first);
    take(a, 4 * MIB, 1); // another range: 68 + 4 are the limit
    assert_int_equal(ft_allocator_read(a).released_for_retry, 0);
    take(a, 2 * MIB, 1);
    assert_int_equal(ft_allocator_read(a).released_for_retry, 1);
    assert_int_equal(ft_allocator_read(a).reserved, (68 - 32 + 4 + 2) * MIB);
    ft_allocator_close(a);
    close_watched();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_max_split_size),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_growth_that_pins_least),
        cmocka_unit_test(test_limit_releases_the_oldest),
        cmocka_unit_test(test_collection),
        cmocka_unit_test(test_refusing_device),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_refused_ranges),
        cmocka_unit_test(test_range_memory),
        cmocka_unit_test(test_cpu_ranges_refuse),
        cmocka_unit_test(test_second_range),
        cmocka_unit_test(test_scarce_addresses),
        cmocka_unit_test(test_refused_addresses),
        cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
