// A device that notes what it is asked to compute (engine/model/state/recorder.h): nothing happens before a note is computed, the order is that of the
// calls, what cannot be noted comes behind what was, and what was forgotten never happens. Wrong: a copy or a fill that runs at once between ops
// that were noted, arguments that are read when the caller's are gone, a download that sees numbers from before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/model/state/recorder.h"
#include "kernels/ops/backend.h"

#include <string.h>

enum { N = 8 };

typedef struct places {
    ft_device *cpu, *device;
    float *data; // N each of a, b, c
} places;

static places open_places(void) {
    places p;
    void *data;
    assert_int_equal(ft_cpu_open(1, NULL, &p.cpu), FT_OK);
    assert_int_equal(ft_recorder_open(p.cpu, &p.device), FT_OK);
    assert_int_equal(p.device->functions->buffer_alloc(p.device, 3 * N * sizeof(float), &data), FT_OK);
    p.data = data;
    for (int i = 0; i < 3 * N; i++) p.data[i] = (float)i;
    assert_ptr_equal(ft_device_under(p.device), p.cpu);
    assert_ptr_equal(ft_device_under(p.cpu), p.cpu);
    return p;
}

static void close_places(places *p) {
    p->device->functions->buffer_free(p->device, p->data, 3 * N * sizeof(float));
    ft_device_close(p->device);
    ft_device_close(p->cpu);
}

static ft_workspace scratch_of(size_t bytes) {
    static _Alignas(256) char room[1 << 20];
    assert_true(bytes <= sizeof room);
    return (ft_workspace){bytes > 0 ? room : NULL, bytes};
}

// b = a; a = 0; c += column sums of b: of numbers that a had.
static void queue(const places *p) {
    const ft_device_functions *f = p->device->functions;
    float *a = p->data, *b = a + N, *c = b + N;
    assert_int_equal(f->copy(p->device, b, a, N * sizeof *a), FT_OK);
    assert_int_equal(f->fill(p->device, a, 0, N * sizeof *a), FT_OK);
    ft_column_sum_args args = {.x = ft_matrix(b, 1, N, FT_F32), .out = ft_vector(c, N, FT_F32)};
    args.workspace = scratch_of(ft_column_sum_workspace(&p->device->target, &args));
    assert_int_equal(FT_RUN(p->device, column_sum, &args), FT_OK);
    memset(&args, 0xff, sizeof args); // which are copied
}

static void check_done(const places *p, bool done) {
    for (int i = 0; i < N; i++) {
        assert_true(p->data[i] == (done ? 0 : (float)i));
        assert_true(p->data[N + i] == (float)(done ? i : N + i));
        assert_true(p->data[2 * N + i] == (float)(2 * N + i + (done ? i : 0)));
    }
}

static void test_at_once(void **state) {
    places p = open_places();
    queue(&p);
    check_done(&p, true);
    assert_true(ft_recorder_done(p.device));
    close_places(&p);
}

static void test_noted(void **state) {
    places p = open_places();
    for (int time = 0; time < 3; time++) { // its room is used again
        for (int i = 0; i < 3 * N; i++) p.data[i] = (float)i;
        ft_recorder_begin(p.device);
        queue(&p);
        ft_recorder_end(p.device);
        check_done(&p, false);
        if (time == 1) {
            ft_recorder_forget(p.device);
            check_done(&p, false);
        }
        for (int left = time == 1 ? 0 : 3; left > 0; left--) {
            assert_false(ft_recorder_done(p.device));
            assert_null(ft_recorder_product(p.device));
            assert_int_equal(ft_recorder_run(p.device), FT_OK);
        }
        assert_true(ft_recorder_done(p.device));
        check_done(&p, time != 1);
    }
    close_places(&p);
}

// A copy to the host, a wait, memory that goes back.
static void test_behind_notes(void **state) {
    for (int way = 0; way < 3; way++) {
        places p = open_places();
        float got[N];
        void *other;
        assert_int_equal(p.device->functions->buffer_alloc(p.device, 256, &other), FT_OK);
        ft_recorder_begin(p.device);
        queue(&p);
        check_done(&p, false);
        if (way == 0) assert_int_equal(p.device->functions->download(p.device, got, p.data + N, sizeof got), FT_OK);
        if (way == 1) assert_int_equal(p.device->functions->sync(p.device), FT_OK);
        p.device->functions->buffer_free(p.device, other, 256);
        check_done(&p, true);
        for (int i = 0; way == 0 && i < N; i++) assert_true(got[i] == (float)i);
        ft_recorder_end(p.device);
        assert_true(ft_recorder_done(p.device));
        close_places(&p);
    }
}

// Only what may be met at is told of; it is computed here or elsewhere.
static void test_products(void **state) {
    places p = open_places();
    float *a = p.data, *b = a + N, *c = b + N;
    ft_gemm_args args = {.a = ft_matrix(a, 2, 2, FT_F32), .b = ft_matrix(b, 2, 2, FT_F32), .c = ft_matrix(c, 2, 2, FT_F32)};
    args.workspace = scratch_of(ft_gemm_workspace(&p.device->target, &args));
    ft_recorder_begin(p.device);
    assert_int_equal(FT_RUN(p.device, gemm, &args), FT_OK);
    assert_int_equal(ft_recorder_multiply(p.device, &args), FT_OK);
    ft_recorder_end(p.device);
    assert_null(ft_recorder_product(p.device));
    assert_int_equal(ft_recorder_run(p.device), FT_OK);
    assert_true(c[3] == a[2] * b[1] + a[3] * b[3]);
    const ft_gemm_args *product = ft_recorder_product(p.device);
    assert_non_null(product);
    assert_ptr_equal(product->c.data, c);
    c[3] = -1;
    ft_recorder_pass_over(p.device);
    assert_true(ft_recorder_done(p.device) && c[3] == -1);
    assert_int_equal(ft_recorder_multiply(p.device, &args), FT_OK); // nothing is noted now
    assert_true(c[3] == a[2] * b[1] + a[3] * b[3]);
    close_places(&p);
}

// An op that cannot be computed says so when its turn comes.
static void test_failure(void **state) {
    places p = open_places();
    const ft_column_sum_args wrong = {.x = ft_matrix(p.data, 1, N, FT_F32), .out = ft_vector(p.data + N, 3, FT_F32)};
    ft_recorder_begin(p.device);
    assert_int_equal(FT_RUN(p.device, column_sum, &wrong), FT_OK);
    ft_recorder_end(p.device);
    assert_int_equal(ft_recorder_run(p.device), FT_FAILED);
    assert_false(ft_recorder_done(p.device));
    assert_int_equal(p.device->functions->sync(p.device), FT_FAILED);
    ft_recorder_forget(p.device);
    assert_int_equal(p.device->functions->sync(p.device), FT_OK);
    close_places(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_once), cmocka_unit_test(test_noted), cmocka_unit_test(test_behind_notes),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
