// What goes wrong is seen: a breach of each invariant of the caching allocator is planted and must be found; a host
// without memory for the allocator's own structs leaves it whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fixtures/sanitized.h"
#include "tests/memory/allocator_device.h"

#include <stdlib.h>

// ---- breaches are found -----------------------------------------------------------------------------------------

static void breach(const ft_allocator *a, const char *where, int line) {
    ft_error_clear();
    if (ft_allocator_check(a) != FT_FAILED || strcmp(ft_error_where(), where) != 0)
        fail_msg("line %d: expected a breach of '%s', got '%s': %s", line, where, ft_error_where(), ft_error_message());
}
// Changes one thing, expects that the check names the rule, and changes it back.
#define PLANT(rule, lvalue, value)                                                                                     \
    do {                                                                                                               \
        __typeof__(lvalue) kept_ = (lvalue);                                                                           \
        (lvalue) = (value);                                                                                            \
        breach(a, "allocator " rule, __LINE__);                                                                        \
        (lvalue) = kept_;                                                                                              \
        sound(a);                                                                                                      \
    } while (0)

static void test_planted_breaches(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 100 * MIB});
    ft_block *one = take(a, 5 * MIB, 0), *two = take(a, 4 * MIB, 0), *three = take(a, 2 * MIB, 1),
             *small = take(a, 700, 0);
    give(a, two); // [one 5 MiB, rest 1 MiB free] [4 MiB free] [three 2 MiB free, of stream 1] [small, the rest free]
    give(a, three);
    ft_block *rest = one->next;
    ft_segment *first = one->segment;

    PLANT("invariant 1", one->requested, 5 * MIB + 1);
    PLANT("invariant 1", rest->size, MIB - 8);
    PLANT("invariant 1", rest->size, 0);
    PLANT("invariant 1", first->base, first->base + 64);
    PLANT("invariant 2", rest->offset, rest->offset + 512);
    PLANT("invariant 2", rest->size, MIB - 512);
    PLANT("invariant 2", rest->state, FT_BLOCK_HOLE);
    PLANT("invariant 2", one->next, NULL);
    PLANT("invariant 3", one->state, FT_BLOCK_FREE);
    PLANT("invariant 4", a->counters.allocated, a->counters.allocated + 512);
    PLANT("invariant 4", a->counters.reserved, a->counters.reserved - 2 * MIB);
    PLANT("invariant 4", a->counters.peak_allocated, 0);
    PLANT("invariant 4", a->counters.peak_reserved, 101 * MIB);
    PLANT("invariant 4", a->options.limit, 10 * MIB);
    PLANT("invariant 5", one->requested, 100);
    PLANT("invariant 5", small->segment->class, FT_CLASS_LARGE);
    PLANT("invariant 5", first->next->class, FT_CLASS_SMALL); // of another size
    PLANT("invariant 7", one->requested, 4 * MIB);
    PLANT("invariant 9", a->oldest->used, UINT64_MAX);
    PLANT("invariant 10", rest->pool, three->pool);
    ft_block **tree = &a->pools[rest->pool].free[FT_CLASS_LARGE], *root = *tree, *left = root->left,
             *right = root->right;
    root->left = right;
    root->right = left;
    breach(a, "allocator invariant 6", __LINE__);
    root->left = left;
    root->right = right;
    ft_tree_remove(tree, rest);
    breach(a, "allocator invariant 6", __LINE__);
    ft_tree_insert(tree, rest);
    sound(a);

    PLANT("books", rest->previous, NULL);
    PLANT("books", rest->segment, two->segment);
    PLANT("books", first->number, 7);
    PLANT("books", first->next->previous, NULL);
    PLANT("books", first->free, 0);
    PLANT("books", first->live, 2);
    PLANT("books", first->committed, 4 * MIB);
    PLANT("books", a->releasable, 4 * MIB);
    PLANT("books", a->oldest, a->newest);
    PLANT("books", a->counters.inactive_split, 0);
    PLANT("books", a->counters.segments, 3);
    PLANT("books", a->counters.live_blocks, 3);
    PLANT("books", root->priority, 0);
    ft_allocator_close(a);
    close_watched();
}

static void test_planted_breaches_of_ranges(void **state) {
    open_watched(1024 * MIB, false);
    ft_allocator *a = open_allocator((ft_allocator_options){.limit = 100 * MIB, .expandable_segments = true});
    ft_block *one = take(a, 5 * MIB, 0), *two = take(a, 3 * MIB, 0), *three = take(a, 2 * MIB, 0);
    give(a, two);
    ft_allocator_trim(a); // [one 5 MiB] [1 MiB] [hole 2 MiB] [three 2 MiB] [hole]
    ft_block *hole = one->next->next, *last = three->next;
    ft_segment *segment = one->segment;
    assert_true(hole->state == FT_BLOCK_HOLE && last->state == FT_BLOCK_HOLE);
    PLANT("books", segment->holes, NULL);
    PLANT("books", segment->committed, 10 * MIB);
    PLANT("books", one->next->state, FT_BLOCK_LOOSE);
    PLANT("books", hole->next->state, FT_BLOCK_LOOSE);
    PLANT("books", segment->holes, three);
    PLANT("invariant 2", segment->page, 4 * MIB);
    PLANT("invariant 7", one->requested, 5 * MIB - 512);
    assert_int_equal(ft_blocks_spare(a, 1), FT_OK);
    ft_block *half = ft_block_cut(a, last, 2 * MIB);
    half->right = segment->holes;
    segment->holes = half;
    breach(a, "allocator invariant 3", __LINE__);
    segment->holes = half->right;
    ft_block_join_next(a, last);
    sound(a);
    ft_allocator_close(a);
    close_watched();
}

// ---- a host without memory --------------------------------------------------------------------------------------

// Sanitizers bring their own heap: there this test runs without failures and still checks the rest.
static int calls_until_failure; // 0: none
static bool failed_once;
#if !FT_SANITIZED
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
static bool fails_now(void) {
    if (calls_until_failure == 0 || --calls_until_failure > 0) return false;
    return failed_once = true;
}
void *calloc(size_t count, size_t size) { return fails_now() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails_now() ? NULL : __libc_realloc(old, size); }
#endif

// Opens an allocator and makes requests of every kind while the n-th heap allocation fails. true: it was reached.
static bool with_failure(int n, bool ranges) {
    ft_allocator_options options = {.limit = 64 * MIB, .expandable_segments = ranges};
    ft_allocator *a;
    ft_block *live[200] = {NULL};
    failed_once = false;
    calls_until_failure = n;
    ft_status status = ft_allocator_create(&device.device, &options, &a);
    if (status != FT_OK) {
        calls_until_failure = 0;
        assert_true(failed_once && a == NULL);
        assert_int_equal(status, FT_NO_MEMORY);
        return true;
    }
    for (int i = 0; i < 200; i++) {
        static const size_t sizes[] = {700, MIB / 2, 3 * MIB, 700};
        bool by_limit, before = failed_once;
        ft_allocator_counters was = ft_allocator_read(a);
        status = ft_allocator_take(a, sizes[i % 4], i % 7 == 0, &live[i], &by_limit);
        if (status != FT_OK && !by_limit) {
            assert_int_equal(status, FT_NO_MEMORY);
            assert_true(failed_once && !before);
            assert_non_null(strstr(ft_error_message(), "out of host memory"));
            ft_allocator_counters now = ft_allocator_read(a);
            assert_int_equal(now.allocated, was.allocated);
            assert_int_equal(now.live_blocks, was.live_blocks);
        }
        sound(a);
        if (i % 3 == 2) {
            ft_allocator_give(a, live[i - 1]);
            live[i - 1] = NULL;
        }
        if (i % 50 == 49) ft_allocator_trim(a);
        sound(a);
    }
    calls_until_failure = 0;
    ft_allocator_close(a);
    return failed_once;
}

static void test_host_without_memory(void **state) {
    open_watched(1024 * MIB, false);
    for (int ranges = 0; ranges < 2; ranges++) {
        int n = 1;
        while (with_failure(n, ranges))
            n++;
#if !FT_SANITIZED
        assert_true(n > 8); // options, streams, chunks of blocks, segments
#endif
        assert_int_equal(device.refusals.held, 0);
    }
    close_watched();
}

// However few structs are at hand: every step first gets what it needs.
static void test_few_structs(void **state) {
    open_watched(1024 * MIB, false);
    for (int ranges = 0; ranges < 2; ranges++) {
        for (size_t spare = 0; spare < 5; spare++) {
            for (int step = 0; step < 4; step++) {
                ft_allocator *a =
                    open_allocator((ft_allocator_options){.limit = 20 * MIB, .expandable_segments = ranges});
                static const size_t sizes[] = {5 * MIB, 700, 5 * MIB - 4096, 14 * MIB};
                ft_block *block = NULL;
                for (int i = 0; i < 4; i++) {
                    assert_int_equal(ft_blocks_spare(a, spare), FT_OK);
                    while (i == step && a->spare_count > spare)
                        ft_block_new(a, NULL, 0, 0);
                    block = take(a, sizes[i], 0);
                    if (i != 1) give(a, block); // the last needs the pages of the first: released
                }
                ft_allocator_close(a);
            }
        }
    }
    close_watched();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted_breaches),
        cmocka_unit_test(test_planted_breaches_of_ranges),
        cmocka_unit_test(test_host_without_memory),
        cmocka_unit_test(test_few_structs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
