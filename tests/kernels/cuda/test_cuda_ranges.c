// Ranges of a CUDA device in pieces (kernels/ops/range_pieces.h), on the fake driver: what has which handle, what goes
// back and what does not, refusals at every call.
// ctest: driver=fake
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "kernels/ops/range_pieces.h"
#include "tests/emulator/driver/fake_device.h"

#define PAGE ((size_t)2 << 20)
enum { OUT_OF_MEMORY = 2, UNKNOWN_ERROR = 4242, PIECE = 16 }; // PIECE: pages of one

static int load(void **state) {
    load_fake(FT_FAKE_DRIVER);
    return 0;
}

static void open_with(size_t memory) {
    fake_settings s = fake.defaults();
    s.memory = memory;
    open_gpu(&s);
}

static void held(size_t handles, size_t pages) {
    good(gpu->functions->sync(gpu));
    assert_int_equal(fake.read().handles, handles);
    assert_int_equal(fake.read().mappings, handles);
    assert_int_equal(fake.read().used, pages * PAGE);
}

static void check_page(const char *base, size_t page, int byte) {
    char *host = malloc(PAGE);
    assert_non_null(host);
    good(gpu->functions->download(gpu, host, base + page * PAGE, PAGE));
    good(gpu->functions->sync(gpu));
    for (size_t i = 0; i < PAGE; i++)
        if (host[i] != (char)byte) fail_msg("byte %zu of page %zu is %d, not %d", i, page, host[i], byte);
    free(host);
}

// Pages of a commit -> handles: large ones leave a page at least, which has its own.
static void commits_are_made_of_pieces(void **state) {
    static const struct {
        size_t pages, handles;
    } cases[] = {
        {1, 1}, {2, 2}, {PIECE, PIECE}, {PIECE + 1, 2}, {PIECE + 2, 3}, {2 * PIECE, 1 + PIECE}, {2 * PIECE + 1, 3},
        {35, 5}};
    assert_int_equal(FT_RANGE_PIECE, PIECE * PAGE);
    open_with(64 * PAGE);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 64 * PAGE, &base, &page));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        good(f->range_commit(gpu, base, 3 * PAGE, cases[i].pages * PAGE)); // pieces count from the commit's start
        good(f->fill(gpu, (char *)base + 3 * PAGE, 1, cases[i].pages * PAGE));
        held(cases[i].handles, cases[i].pages);
        f->range_decommit(gpu, base, 3 * PAGE, cases[i].pages * PAGE);
        held(0, 0);
    }
    f->range_release(gpu, base, 64 * PAGE);
    close_gpu(0);
}

// Whole pieces go back from anywhere, of several commits at once; of half a piece nothing does, and sync says so.
static void whole_pieces_go_back(void **state) {
    static const struct {
        size_t first, pages;
    } halves[] = {{0, 1}, {15, 1}, {1, 15}, {8, 24}, {16, 8}, {31, 4}, {0, 40}, {34, 5}};
    open_with(80 * PAGE);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 80 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, 35 * PAGE));         // pieces at 0 and 16, pages 32 to 34
    good(f->range_commit(gpu, base, 35 * PAGE, 18 * PAGE)); // a piece at 35, pages 51 and 52
    for (size_t i = 0; i < 53; i++)
        good(f->fill(gpu, (char *)base + i * PAGE, (int)i, PAGE));
    held(2 + 3 + 1 + 2, 53);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        f->range_decommit(gpu, base, halves[i].first * PAGE, halves[i].pages * PAGE);
        failed(f->sync(gpu), FT_FAILED, "of a range are no whole pieces");
        held(8, 53);
    }
    f->range_decommit(gpu, base, 16 * PAGE, 17 * PAGE); // a piece and a page
    held(6, 36);
    f->range_decommit(gpu, base, 34 * PAGE, 17 * PAGE); // across the commits
    held(4, 19);
    for (size_t i = 0; i < 16; i++)
        check_page(base, i, (int)i);
    check_page(base, 33, 33);
    check_page(base, 51, 51);
    check_page(base, 52, 52);
    good(f->range_commit(gpu, base, 16 * PAGE, 17 * PAGE));
    held(6, 36);
    f->range_decommit(gpu, base, 0, 34 * PAGE);
    f->range_decommit(gpu, base, 51 * PAGE, 2 * PAGE);
    held(0, 0);
    f->range_release(gpu, base, 80 * PAGE);
    close_gpu(0);
}

// Each call of a commit of two pieces and two pages is refused in turn: memory and contents are as before, and the
// commit can be made again.
static void refused_commits_change_nothing(void **state) {
    static const struct {
        const char *call;
        uint64_t made;
    } calls[] = {{"cuMemCreate", 4}, {"cuMemMap", 4}, {"cuMemSetAccess", 1}};
    open_with(64 * PAGE);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 64 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, 2 * PAGE));
    good(f->fill(gpu, base, 3, 2 * PAGE));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (uint64_t nth = 1; nth <= calls[c].made + 1; nth++) {
            fake_books before = fake.read(), after;
            fake.refuse(calls[c].call, nth, 1, OUT_OF_MEMORY);
            const ft_status status = f->range_commit(gpu, base, 2 * PAGE, 34 * PAGE);
            fake.refuse(NULL, 1, 0, 0);
            if (nth > calls[c].made) {
                good(status);
                held(6, 36);
                f->range_decommit(gpu, base, 2 * PAGE, 34 * PAGE);
                held(2, 2);
                continue;
            }
            failed(status, FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
            assert_string_equal(ft_error_where(), calls[c].call);
            after = fake.read();
            assert_memory_equal(&before, &after, sizeof before);
        }
    failed(f->range_commit(gpu, base, 2 * PAGE, 63 * PAGE), FT_FAILED, "are no pages of a range");
    failed(f->range_commit(gpu, base, PAGE, 34 * PAGE), FT_FAILED, "page 1 of a range is committed twice");
    check_page(base, 0, 3);
    check_page(base, 1, 3);
    // A piece that the driver does not unmap is still there; those beside it went, and it goes when it is asked for
    // again.
    good(f->range_commit(gpu, base, 2 * PAGE, 34 * PAGE));
    fake.refuse("cuMemUnmap", 2, 1, UNKNOWN_ERROR);
    f->range_decommit(gpu, base, 2 * PAGE, 34 * PAGE);
    failed(f->sync(gpu), FT_FAILED, "CUDA error 4242");
    held(3, 18);
    f->range_decommit(gpu, base, 18 * PAGE, 16 * PAGE);
    f->range_decommit(gpu, base, 0, 2 * PAGE);
    held(0, 0);
    f->range_release(gpu, base, 64 * PAGE);
    close_gpu(0);
}

// Where there are large pieces: on CUDA, with pages that they are made of.
static void pieces_are_made_of_pages(void **state) {
    static const struct {
        size_t page, piece;
    } cases[] = {{64 << 10, FT_RANGE_PIECE},
                 {PAGE, FT_RANGE_PIECE},
                 {16 << 20, FT_RANGE_PIECE},
                 {32 << 20, 0},
                 {64 << 20, 0},
                 {3 << 20, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ft_range_piece(&(ft_target){.backend = FT_BACKEND_CUDA}, cases[i].page), cases[i].piece);
        assert_int_equal(ft_range_piece(&(ft_target){.backend = FT_BACKEND_CPU}, cases[i].page), 0);
    }
    assert_int_equal(ft_range_in_pieces(0, PAGE, 99 * PAGE), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_are_made_of_pieces),
        cmocka_unit_test(whole_pieces_go_back),
        cmocka_unit_test(refused_commits_change_nothing),
        cmocka_unit_test(pieces_are_made_of_pages),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
