// The watch over the heap, and pages of files that go to the disk while these are written. What is caught: memory that is asked for in many
// small blocks and seen by nobody, a block that grows counted twice, a watch that outlives its stage, a file of which megabytes wait for
// the disk (a limit on the memory of a group of processes counts them).
// ctest: sanitize=leave
#include "base/arena.h"
#include "base/files.h"
#include "base/heap.h"
#include "base/pace.h"
#include "base/spill.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static size_t begin(size_t more) {
    ft_heap_watch_begin(SIZE_MAX, "a test");
    const size_t held = ft_heap_watch_most();
    if (more > 0) ft_heap_watch_begin(held + more, "memory.host_limit");
    return held;
}

// Within half a MiB: the C library takes some more than it is asked for.
static void assert_near(size_t got, size_t wanted) {
    if (got + MIB / 2 < wanted || got > wanted + MIB / 2) fail_msg("%zu instead of %zu", got, wanted);
}

static void what_was_asked_for_is_counted(void **state) {
    const size_t before = begin(0);
    char *a = ft_calloc(4, MIB, "a test"); // never touched
    assert_near(ft_heap_watch_most() - before, 4 * MIB);
    a = ft_realloc(a, 6, MIB, "a test"); // moves as it is
    assert_near(ft_heap_watch_most() - before, 6 * MIB);
    free(a);
    a = ft_calloc(2, MIB, "a test");
    assert_near(ft_heap_watch_most() - before, 6 * MIB); // the most that there was at once
    free(a);
    ft_heap_watch_end();
    assert_int_equal(ft_heap_watch_most(), 0);
}

static void small_blocks_are_counted(void **state) {
    enum { BLOCKS = 40000, BYTES = 112 };
    static void *block[BLOCKS];
    const size_t before = begin(0);
    for (int i = 0; i < BLOCKS; i++) block[i] = i % 2 ? ft_heap_malloc(BYTES) : ft_calloc(1, BYTES, "a test");
    assert_near(ft_heap_watch_most() - before, BLOCKS * (BYTES + 16));
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    ft_heap_watch_end();
    ft_heap_trim();
}

static void too_much_is_refused(void **state) {
    begin(8 * MIB);
    char *a = ft_calloc(5, MIB, "texts");
    assert_non_null(a);
    assert_null(ft_calloc(5, MIB, "tokens"));
    assert_int_equal(ft_error_code(), FT_NO_MEMORY);
    assert_string_equal(ft_error_where(), "memory.host_limit");
    assert_non_null(strstr(ft_error_message(), "5242880 bytes for tokens"));
    assert_null(ft_realloc(a, 12, MIB, "texts"));
    assert_false(ft_heap_expect(5 * MIB, "sorting"));
    assert_null(ft_heap_malloc(5 * MIB));
    ft_arena arena = {0};
    size_t got = 0;
    while (ft_arena_alloc(&arena, 1000) != NULL) got += 1000;
    assert_near(got, 3 * MIB);
    ft_arena_free(&arena);
    free(a);
    ft_heap_watch_end();
    a = ft_calloc(12, MIB, "nobody watches");
    assert_non_null(a);
    free(a);
    ft_error_clear();
}

// Where a large array lies follows from its size alone, however it came to that: else a plan that tokenises and a run that finds the
// tokens in the cache would hold different bytes.
static void arrays_lie_where_their_size_says(void **state) {
    enum { FEW = 1000 };
    int32_t *a = ft_spill_calloc(2 * (size_t)FT_SPILL_FROM, 1, "a test");
    assert_int_equal(ft_spill_host_bytes(a), 0);
    for (int i = 0; i < FEW; i++) a[i] = 3 * i;
    a = ft_spill_realloc(a, FT_SPILL_FROM / 2, 1, "a test");
    assert_true(ft_spill_host_bytes(a) >= FT_SPILL_FROM / 2);
    for (int i = 0; i < FEW; i++) assert_int_equal(a[i], 3 * i);
    ft_spill_free(a);
}

// ---- pages that wait for the disk -------------------------------------------------------------------------------------------

// Bytes of a file that are not on the disk yet; -1: this system does not say (cachestat, Linux 6.5).
static int64_t waiting(int file) {
    struct { uint64_t offset, length; } range = {0, 0};
    struct { uint64_t cached, dirty, writeback, evicted, recently; } found;
    if (syscall(451, file, &range, &found, 0) != 0) return -1;
    return (int64_t)(found.dirty + found.writeback) * sysconf(_SC_PAGESIZE);
}

static void few_pages_wait_for_the_disk(void **state) {
    enum { ALL = 24 };
    char name[] = "/var/tmp/test_heap_XXXXXX"; // on a disk
    char *data = malloc(ALL * MIB);
    memset(data, 7, ALL * MIB);
    assert_non_null(mkdtemp(name));
    ft_arena arena = {0};
    ft_atomic_file file;
    assert_int_equal(ft_atomic_open(&file, ft_path_join(&arena, name, "large")), FT_OK);
    assert_int_equal(fwrite(data, MIB, ALL, file.stream), ALL); // at once
    assert_int_equal(fflush(file.stream), 0);
    const int there = open(file.temporary, O_RDONLY);
    const int64_t left = waiting(there);
    close(there);
    assert_int_equal(ft_atomic_commit(&file), FT_OK);
    assert_int_equal(ft_remove_tree(name), FT_OK);
    ft_arena_free(&arena);
    free(data);
    if (left < 0) skip();
    if (left > 2 * FT_PACE_WINDOW + 65536) fail_msg("%lld bytes wait for the disk", (long long)left);
}

int main(void) {
    (void)mallopt(M_MMAP_THRESHOLD, FT_HEAP_LARGE); // as the program does
    (void)mallopt(M_ARENA_MAX, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_is_counted), cmocka_unit_test(small_blocks_are_counted),
        cmocka_unit_test(too_much_is_refused),           cmocka_unit_test(arrays_lie_where_their_size_says),
        cmocka_unit_test(few_pages_wait_for_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
