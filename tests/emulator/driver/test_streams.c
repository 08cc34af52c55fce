// Streams and events of the fake driver. A pipeline as in training - one stream copies the next batch from pinned
// memory, one computes - is right under every schedule; without any one of its waits it is caught.
// ctest: driver=fake
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/driver/fake_device.h"
#include "tests/emulator/driver/stream_kernels.h"
#include "tests/emulator/simt/control.h"

#include <stdlib.h>

enum { N = 100, STEPS = 7, SLOTS = 2, SEEDS = 6 };

static int set_up(void **state) {
    load_fake(FT_FAKE_DRIVER);
    simt_set_queue(fake_launch);
    return 0;
}

static void open_scheduled(fake_schedule schedule, uint64_t seed) {
    fake_settings s = fake.defaults();
    s.schedule = schedule;
    s.seed = seed;
    open_gpu(&s);
    good(ft_cuda_enter(ft_cuda_of(gpu)));
}

// What may be left out of the pipeline.
typedef enum omission {
    NOTHING,
    BATCH_IS_THERE, // the computing stream waits for the copy
    SLOT_IS_READ,   // the copying stream waits until the last batch in this slot of the device was used
    PINNED_IS_FREE, // the host waits before it writes the next batch into pinned memory
} omission;

static float element(int step, int i) { return (float)((step * 37 + i * 11) % 64); }

// Are all sums right, and did nobody complain?
static bool pipeline(fake_schedule schedule, uint64_t seed, omission left_out) {
    open_scheduled(schedule, seed);
    ft_cuda *cuda = ft_cuda_of(gpu);
    const ft_cuda_driver *d = driver;
    ft_cu_stream copies, computes = cuda->stream;
    ft_cu_event copied[SLOTS], used[SLOTS];
    ft_cu_address batch[SLOTS], sum;
    float *pinned[SLOTS], got[N], want[N];
    size_t bytes = N * sizeof(float);
    assert_int_equal(d->stream_create(&copies, FT_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(d->mem_alloc(&sum, bytes), 0);
    for (int i = 0; i < SLOTS; i++) {
        assert_int_equal(d->event_create(&copied[i], FT_CU_EVENT_DISABLE_TIMING), 0);
        assert_int_equal(d->event_create(&used[i], FT_CU_EVENT_DISABLE_TIMING), 0);
        assert_int_equal(d->mem_alloc(&batch[i], bytes), 0);
        void *data;
        assert_int_equal(d->host_alloc(&data, bytes, 0), 0);
        pinned[i] = data;
    }
    assert_int_equal(d->set_bytes(sum, 0, bytes, computes), 0);
    memset(want, 0, sizeof want);
    for (int step = 0; step < STEPS; step++) {
        int slot = step % SLOTS;
        if (left_out != PINNED_IS_FREE) assert_int_equal(d->event_synchronize(copied[slot]), 0);
        for (int i = 0; i < N; i++) {
            pinned[slot][i] = element(step, i);
            want[i] = 2.0f * want[i] + element(step, i);
        }
        if (left_out != SLOT_IS_READ) assert_int_equal(d->stream_wait_event(copies, used[slot], 0), 0);
        assert_int_equal(d->copy_to_device(batch[slot], pinned[slot], bytes, copies), 0);
        assert_int_equal(d->event_record(copied[slot], copies), 0);
        if (left_out != BATCH_IS_THERE) assert_int_equal(d->stream_wait_event(computes, copied[slot], 0), 0);
        good(stream_accumulate(computes, (float *)(uintptr_t)sum, (const float *)(uintptr_t)batch[slot], N));
        assert_int_equal(d->event_record(used[slot], computes), 0);
    }
    assert_int_equal(d->copy_to_host(got, sum, bytes, computes), 0);
    assert_int_equal(d->stream_synchronize(computes), 0);
    assert_int_equal(d->stream_synchronize(copies), 0);
    bool right = memcmp(got, want, sizeof want) == 0 && fake.read().misuses == 0;
    uint64_t misuses = fake.read().misuses;
    assert_int_equal(fake.read().rewritten, misuses);
    assert_int_equal(d->mem_free(sum), 0);
    for (int i = 0; i < SLOTS; i++) {
        assert_int_equal(d->mem_free(batch[i]), 0);
        assert_int_equal(d->host_free(pinned[i]), 0);
        assert_int_equal(d->event_destroy(copied[i]), 0);
        assert_int_equal(d->event_destroy(used[i]), 0);
    }
    assert_int_equal(d->stream_destroy(copies), 0);
    close_gpu(misuses);
    return right;
}

static void test_a_right_pipeline(void **state) {
    for (int schedule = 0; schedule < FAKE_SCHEDULES; schedule++)
        for (uint64_t seed = 0; seed < (schedule == FAKE_RANDOM ? 50 : 1); seed++)
            if (!pipeline((fake_schedule)schedule, seed, NOTHING)) fail_msg("schedule %d, seed %d", schedule, (int)seed);
}

static void caught(omission left_out) {
    int schedules = 0;
    for (int schedule = 0; schedule < FAKE_SCHEDULES; schedule++) {
        bool right = true;
        for (uint64_t seed = 0; right && seed < (schedule == FAKE_RANDOM ? SEEDS : 1); seed++)
            right = pipeline((fake_schedule)schedule, seed, left_out);
        schedules += !right;
    }
    assert_true(schedules >= 2); // the random one, and one that is made for it
}

static void test_missing_event_before_reading(void **state) { caught(BATCH_IS_THERE); }
static void test_missing_event_before_writing(void **state) { caught(SLOT_IS_READ); }
static void test_reused_pinned_buffer(void **state) { caught(PINNED_IS_FREE); }

// An upload whose source changes is seen as such, whatever comes out in the end.
static void test_rewritten_source(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    void *data;
    float values[4] = {1, 2, 3, 4};
    good(gpu->functions->buffer_alloc(gpu, sizeof values, &data));
    good(gpu->functions->upload(gpu, data, values, sizeof values));
    values[2] = 5;
    good(gpu->functions->sync(gpu));
    assert_int_equal(fake.read().rewritten, 1);
    gpu->functions->buffer_free(gpu, data, sizeof values);
    close_gpu(1);
}

static void test_waiting_call_inside_a_step(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    ft_cuda *cuda = ft_cuda_of(gpu);
    float *pinned, pageable[N] = {0};
    void *data, *host;
    ft_cu_event event;
    size_t bytes = N * sizeof(float);
    good(gpu->functions->buffer_alloc(gpu, bytes, &data));
    assert_int_equal(driver->host_alloc(&host, bytes, 0), 0);
    assert_int_equal(driver->event_create(&event, 0), 0);
    pinned = host;
    memset(pinned, 0, bytes);
    uint64_t waits = fake.read().waits;
    fake.forbid_waits(true);
    good(gpu->functions->upload(gpu, data, pinned, bytes));
    good(stream_accumulate(cuda->stream, data, data, N));
    good(gpu->functions->download(gpu, pinned, data, bytes));
    assert_int_equal(driver->event_record(event, cuda->stream), 0);
    assert_int_equal(fake.read().waits, waits);
    assert_int_equal(fake.read().misuses, 0);
    const char *words = "not permitted when stream is capturing";
    failed(gpu->functions->sync(gpu), FT_FAILED, words);
    failed(gpu->functions->upload(gpu, data, pageable, bytes), FT_FAILED, words);
    failed(gpu->functions->download(gpu, pageable, data, bytes), FT_FAILED, words);
    void *more;
    failed(gpu->functions->buffer_alloc(gpu, bytes, &more), FT_FAILED, words);
    assert_int_not_equal(driver->event_synchronize(event), 0);
    assert_int_equal(fake.read().forbidden, 5);
    assert_int_equal(fake.read().waits, waits + 2); // the rest may, and need not
    fake.forbid_waits(false);
    good(gpu->functions->sync(gpu));
    gpu->functions->buffer_free(gpu, data, bytes);
    assert_int_equal(driver->host_free(host), 0);
    assert_int_equal(driver->event_destroy(event), 0);
    close_gpu(5);
}

// A destroyed event still holds up what was queued to wait for it; one that was never recorded holds up nobody.
static void test_events(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    ft_cuda *cuda = ft_cuda_of(gpu);
    ft_cu_stream other;
    ft_cu_event event;
    float got[N], ones[N];
    size_t bytes = N * sizeof(float);
    void *data, *host;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    good(gpu->functions->buffer_alloc(gpu, bytes, &data));
    assert_int_equal(driver->host_alloc(&host, bytes, 0), 0);
    assert_int_equal(driver->stream_create(&other, FT_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(driver->event_create(&event, 0), 0);
    assert_int_equal(driver->stream_wait_event(cuda->stream, event, 0), 0);
    good(gpu->functions->sync(gpu));
    assert_int_equal(driver->copy_to_device(ft_cuda_address(data), ones, bytes, other), 0);
    assert_int_equal(driver->event_record(event, other), 0);
    assert_int_equal(driver->set_bytes(ft_cuda_address(data), 0, bytes, other), 0); // behind the event: not waited for
    assert_int_equal(driver->stream_wait_event(cuda->stream, event, 0), 0);
    assert_int_equal(driver->event_destroy(event), 0);
    assert_int_not_equal(driver->event_record(event, other), 0);
    good(gpu->functions->download(gpu, got, data, bytes));
    assert_int_not_equal(driver->stream_destroy(other), 0); // with something queued
    good(gpu->functions->sync(gpu));
    assert_memory_equal(got, ones, bytes);
    assert_int_equal(driver->copy_to_host(host, ft_cuda_address(data), bytes, other), 0);
    assert_int_not_equal(driver->host_free(host), 0); // with something queued
    assert_int_equal(driver->stream_synchronize(other), 0);
    assert_int_equal(driver->host_free(host), 0);
    assert_int_equal(driver->stream_destroy(other), 0);
    gpu->functions->buffer_free(gpu, data, bytes);
    close_gpu(3);
}

// What nobody wrote is NaN, in buffers and in ranges.
static void test_fresh_memory_is_poison(void **state) {
    open_scheduled(FAKE_EAGER, 0);
    float got[N];
    void *data;
    size_t page;
    good(gpu->functions->buffer_alloc(gpu, sizeof got, &data));
    good(gpu->functions->download(gpu, got, data, sizeof got));
    good(gpu->functions->sync(gpu));
    for (int i = 0; i < N; i++)
        assert_true(got[i] != got[i]);
    gpu->functions->buffer_free(gpu, data, sizeof got);
    good(gpu->functions->range_reserve(gpu, 1, &data, &page));
    good(gpu->functions->range_commit(gpu, data, 0, page));
    good(gpu->functions->download(gpu, got, data, sizeof got));
    good(gpu->functions->sync(gpu));
    for (int i = 0; i < N; i++)
        assert_true(got[i] != got[i]);
    gpu->functions->range_decommit(gpu, data, 0, page);
    gpu->functions->range_release(gpu, data, page);
    close_gpu(0);
}

#ifndef __SANITIZE_ADDRESS__ // which ends the process at once
static void test_overrun_of_a_buffer(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    void *data;
    good(gpu->functions->buffer_alloc(gpu, N * sizeof(float), &data));
    good(stream_overrun(ft_cuda_of(gpu)->stream, data, N));
    good(gpu->functions->sync(gpu));
    gpu->functions->buffer_free(gpu, data, N * sizeof(float));
    assert_int_equal(fake.read().overruns, 1);
    close_gpu(1);
}
#endif

// A fault inside a kernel comes out at the next synchronisation, and the device does not recover.
static void test_a_fault_in_a_queue(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    void *data;
    good(gpu->functions->buffer_alloc(gpu, 32 * sizeof(float), &data));
    simt_expect_fault(true);
    good(stream_stuck(ft_cuda_of(gpu)->stream, data));
    failed(gpu->functions->sync(gpu), FT_FAILED, "CUDA_ERROR_LAUNCH_FAILED");
    assert_non_null(strstr(simt_fault(), "stuck: block (0,0,0) thread"));
    failed(gpu->functions->sync(gpu), FT_FAILED, "CUDA_ERROR_LAUNCH_FAILED");
    failed(stream_accumulate(ft_cuda_of(gpu)->stream, data, data, 32), FT_FAILED, "the stream refused the launch");
    simt_expect_fault(false);
    simt_fault_clear();
    close_gpu(0);
    ft_error_clear();
}

static void test_launch_on_no_stream(void **state) {
    open_scheduled(FAKE_LAZY, 0);
    float numbers[4] = {0};
    simt_expect_fault(true);
    failed(stream_accumulate(NULL, numbers, numbers, 4), FT_FAILED, "the stream refused the launch with error 400");
    simt_expect_fault(false);
    simt_fault_clear();
    close_gpu(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_pipeline),
        cmocka_unit_test(test_missing_event_before_reading),
        cmocka_unit_test(test_missing_event_before_writing),
        cmocka_unit_test(test_reused_pinned_buffer),
        cmocka_unit_test(test_rewritten_source),
        cmocka_unit_test(test_waiting_call_inside_a_step),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_fresh_memory_is_poison),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_overrun_of_a_buffer),
#endif
        cmocka_unit_test(test_a_fault_in_a_queue),
        cmocka_unit_test(test_launch_on_no_stream),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
