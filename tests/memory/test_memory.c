// The meter: what is counted, what is reused, what a refused request leaves behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/json.h"
#include "engine/memory/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ft_device *device;
static int open_device(void **state) { return ft_cpu_open(1, NULL, &device) != FT_OK; }
static int close_device(void **state) { return ft_device_close(device), 0; }

static void *take(ft_memory *m, size_t bytes, ft_memory_category category, const char *site) {
    void *p;
    assert_int_equal(ft_memory_alloc(m, bytes, category, site, &p), FT_OK);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    memset(p, 0xAB, bytes);
    return p;
}

static void test_counts(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    void *a = take(m, 1000, FT_MEM_WEIGHTS, "a");
    ft_memory_set_phase(m, FT_PHASE_FORWARD);
    void *b = take(m, 513, FT_MEM_ACTIVATIONS, "b");
    ft_memory_counters c = ft_memory_read(m);
    assert_int_equal(c.requested, 1513);
    assert_int_equal(c.allocated, 1024 + 1024);
    assert_int_equal(c.reserved, FT_ALLOCATOR_SMALL_SEGMENT);
    assert_int_equal(c.at_peak[FT_MEM_WEIGHTS], 1024);
    assert_int_equal(c.at_peak[FT_MEM_ACTIVATIONS], 1024);
    assert_int_equal(c.phase_peak[FT_PHASE_LOAD], 1024);
    assert_int_equal(c.phase_peak[FT_PHASE_FORWARD], 2048);
    ft_memory_free(m, b);
    c = ft_memory_read(m);
    assert_int_equal(c.requested, 1000);
    assert_int_equal(c.allocated, 1024);
    assert_int_equal(c.reserved, FT_ALLOCATOR_SMALL_SEGMENT); // kept for the next step
    assert_int_equal(c.peak_allocated, 2048);
    assert_ptr_equal(take(m, 600, FT_MEM_WORKSPACE, "c"), b); // the same rounded size: the same block
    assert_int_equal(ft_memory_read(m).reserved, FT_ALLOCATOR_SMALL_SEGMENT);
    ft_memory_free(m, b);
    void *none = take(m, 0, FT_MEM_DATA, "nothing");
    assert_true(none != a);
    ft_memory_free(m, none);
    ft_memory_free(m, NULL);
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_read(m).live_buffers, 0);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

enum { MIB = 1 << 20 };

static void test_limit(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 8 * MIB, &m), FT_OK);
    void *a = take(m, 2 * MIB, FT_MEM_WEIGHTS, "the weights"), *b = take(m, 4 * MIB, FT_MEM_ACTIVATIONS, "big one");
    ft_memory_counters before = ft_memory_read(m);
    void *p = a;
    assert_int_equal(ft_memory_alloc(m, 2 * MIB + 1, FT_MEM_DATA, "the straw", &p), FT_NO_MEMORY);
    assert_null(p);
    ft_memory_counters after = ft_memory_read(m);
    assert_memory_equal(&before, &after, sizeof before);
    assert_string_equal(ft_error_where(), "the straw");
    assert_non_null(strstr(ft_error_message(), "2097153 bytes"));
    assert_non_null(strstr(ft_error_message(), "6.0MiB of 8.0MiB are reserved"));
    assert_non_null(strstr(ft_error_message(), "weights 2.0MiB"));
    assert_non_null(strstr(ft_error_hint(0), "big one 4.0MiB, the weights 2.0MiB"));
    ft_memory_refusal refusal;
    assert_true(ft_memory_refused(m, &refusal));
    assert_true(refusal.by_limit);
    assert_int_equal(refusal.limit, 8 * MIB);
    assert_int_equal(refusal.reserved, 6 * MIB);
    assert_string_equal(refusal.site, "the straw");
    // Cached segments make room before anything is refused.
    ft_memory_free(m, b);
    void *c = take(m, 6 * MIB, FT_MEM_DATA, "c");
    assert_int_equal(ft_memory_read(m).reserved, 8 * MIB);
    ft_memory_free(m, c);
    ft_memory_trim(m);
    assert_int_equal(ft_memory_read(m).reserved, 2 * MIB);
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

// Who was alive at the peak, also when everything has changed since.
static void test_holders_at_peak(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    ft_memory_use uses[2];
    assert_int_equal(ft_memory_holders_at_peak(m, uses, 2), 0);
    void *w = take(m, 4096, FT_MEM_WEIGHTS, "w");
    ft_memory_set_phase(m, FT_PHASE_BACKWARD);
    void *x = take(m, 1024, FT_MEM_ACTIVATIONS, "x"), *y = take(m, 2048, FT_MEM_ACTIVATIONS, "y");
    ft_memory_free(m, x);
    ft_memory_free(m, y);
    ft_memory_set_phase(m, FT_PHASE_SAVE);
    void *z = take(m, 3072, FT_MEM_DATA, "z"); // level with the peak: not a new one
    x = take(m, 512, FT_MEM_WORKSPACE, "x"); // another category is another site; this is a new peak
    assert_int_equal(ft_memory_holders_at_peak(m, uses, 2), 2);
    assert_string_equal(uses[0].site, "w");
    assert_string_equal(uses[1].site, "z");
    ft_memory_counters c = ft_memory_read(m);
    assert_int_equal(c.peak_allocated, 4096 + 3072 + 512);
    assert_int_equal(c.peak_phase, FT_PHASE_SAVE);
    ft_memory_free(m, x);
    ft_memory_free(m, z);
    y = take(m, 1024, FT_MEM_ACTIVATIONS, "y");
    ft_memory_free(m, y);
    ft_memory_use all[8];
    assert_int_equal(ft_memory_holders_at_peak(m, all, 8), 3);
    size_t sum = 0;
    for (int i = 0; i < 3; i++) sum += all[i].bytes;
    assert_int_equal(sum, c.peak_allocated);
    assert_int_equal(all[2].category, FT_MEM_WORKSPACE);
    ft_memory_free(m, w);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

// ---- scopes -------------------------------------------------------------------------------------------------------------

// A step: a, b live together, then c takes b's place.
static ft_status step(ft_memory *m, size_t second, void *places[3]) {
    FT_TRY(ft_memory_alloc(m, 5000, FT_MEM_ACTIVATIONS, "a", &places[0]));
    FT_TRY(ft_memory_alloc(m, second, FT_MEM_WORKSPACE, "b", &places[1]));
    ft_memory_free(m, places[1]);
    FT_TRY(ft_memory_alloc(m, 3000, FT_MEM_ACTIVATIONS, "c", &places[2]));
    ft_memory_free(m, places[0]);
    ft_memory_free(m, places[2]);
    return FT_OK;
}

static ft_status run_step(ft_memory *m, size_t second, void *places[3]) {
    FT_TRY(ft_memory_scope_begin(m, FT_SCOPE_TRAIN));
    return ft_memory_scope_end(m, step(m, second, places));
}

static ft_memory *with_plan(size_t guard) {
    ft_device *plan;
    ft_memory *recorded, *m;
    void *places[3];
    assert_int_equal(ft_plan_open("plan", device->target, 1 << 30, &plan), FT_OK);
    assert_int_equal(ft_memory_create(plan, 0, &recorded), FT_OK);
    ft_memory_record(recorded);
    assert_int_equal(run_step(recorded, 4000, places), FT_OK);
    assert_int_equal(ft_memory_create_with(device, &(ft_memory_options){.guard_bytes = guard}, &m), FT_OK);
    assert_int_equal(ft_memory_adopt(m, recorded), FT_OK);
    assert_int_equal(ft_memory_destroy(recorded), FT_OK);
    ft_device_close(plan);
    return m;
}

static void test_steps_have_fixed_places(void **state) {
    ft_memory *m = with_plan(0);
    void *first[3], *again[3];
    ft_memory_counters c = ft_memory_read(m);
    assert_int_equal(c.arena_bytes, 5120 + 4096);
    assert_int_equal(c.arena_live_bytes, 5120 + 4096);
    assert_int_equal(c.allocated, 0); // nothing lives in it yet
    assert_true(c.reserved >= c.arena_bytes);
    assert_int_equal(run_step(m, 4000, first), FT_OK);
    void *between;
    assert_int_equal(ft_memory_alloc(m, 100, FT_MEM_DATA, "between", &between), FT_OK);
    assert_int_equal(run_step(m, 4000, again), FT_OK);
    assert_memory_equal(first, again, sizeof first);
    assert_ptr_equal(first[1], first[2]);
    c = ft_memory_read(m);
    assert_int_equal(c.peak_allocated, 5120 + 4096 + 512);
    assert_int_equal(c.peak_requested, 5000 + 4000 + 100);
    assert_int_equal(c.live_buffers, 1);
    ft_memory_free(m, between);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

// Two scopes that share bytes: the first leaves something there part by part, the second finds it.
static ft_status leave_parts(ft_memory *m, size_t second, char *parts[2]) {
    void *a, *data;
    FT_TRY(ft_memory_alloc(m, 2048, FT_MEM_ACTIVATIONS, "a", &a));
    FT_TRY(ft_memory_alloc_at(m, 0, 1024, FT_MEM_GRADIENTS, "parts", &data));
    parts[0] = data;
    ft_memory_free(m, a);
    FT_TRY(ft_memory_alloc_at(m, second, 1536, FT_MEM_GRADIENTS, "parts", &data));
    parts[1] = data;
    return FT_OK;
}

static ft_status find_whole(ft_memory *m, char **whole) {
    void *data, *scratch;
    FT_TRY(ft_memory_alloc_at(m, 0, 2560, FT_MEM_GRADIENTS, "parts", &data));
    *whole = data;
    FT_TRY(ft_memory_alloc(m, 100, FT_MEM_WORKSPACE, "scratch", &scratch));
    if (ft_memory_device(m) == device) memset(scratch, 9, 100);
    ft_memory_free(m, scratch);
    return FT_OK;
}

static ft_status run_both(ft_memory *m, size_t second, char *parts[2], char **whole) {
    FT_TRY(ft_memory_scope_begin(m, FT_SCOPE_TRAIN));
    ft_status status = leave_parts(m, second, parts);
    if (status == FT_OK && ft_memory_device(m) == device) {
        memset(parts[0], 1, 1024);
        memset(parts[1], 2, 1536);
    }
    FT_TRY(ft_memory_scope_end(m, status));
    assert_int_equal(ft_memory_read(m).allocated, 0); // they went with the scope
    assert_int_equal(ft_memory_read(m).live_buffers, 0);
    FT_TRY(ft_memory_scope_begin(m, FT_SCOPE_UPDATE));
    return ft_memory_scope_end(m, find_whole(m, whole));
}

static void test_scopes_share_places(void **state) {
    for (size_t guard = 0; guard <= 64; guard += 64) {
        ft_device *plan;
        ft_memory *recorded, *m;
        char *parts[2], *whole;
        assert_int_equal(ft_plan_open("plan", device->target, 1 << 30, &plan), FT_OK);
        assert_int_equal(ft_memory_create(plan, 0, &recorded), FT_OK);
        ft_memory_record(recorded);
        assert_int_equal(run_both(recorded, 1024, parts, &whole), FT_OK);
        assert_int_equal(ft_memory_create_with(device, &(ft_memory_options){.guard_bytes = guard}, &m), FT_OK);
        assert_int_equal(ft_memory_adopt(m, recorded), FT_OK);
        assert_int_equal(ft_memory_destroy(recorded), FT_OK);
        ft_device_close(plan);
        // "a" stands where the second part comes, when it has gone.
        if (guard == 0) assert_int_equal(ft_memory_read(m).arena_bytes, 1024 + 2048);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(run_both(m, 1024, parts, &whole), FT_OK);
            assert_ptr_equal(parts[0], whole);
            assert_ptr_equal(parts[1], whole + 1024);
            for (int i = 0; i < 2560; i++) assert_int_equal(whole[i], i < 1024 ? 1 : 2);
        }
        assert_int_equal(ft_memory_read(m).peak_requested, 1024 + 2048);
        assert_int_equal(run_both(m, 512, parts, &whole), FT_FAILED); // another place than recorded
        assert_int_equal(ft_memory_read(m).allocated, 0);
        assert_int_equal(run_both(m, 1024, parts, &whole), FT_OK);
        assert_int_equal(ft_memory_destroy(m), FT_OK);
    }
}

static void test_a_step_that_differs_is_caught(void **state) {
    ft_memory *m = with_plan(0);
    void *places[3];
    assert_int_equal(run_step(m, 4001, places), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "4001 bytes where its plan has another request"));
    assert_int_equal(ft_memory_read(m).live_buffers, 0); // what the failed step held is out of the books
    assert_int_equal(ft_memory_read(m).allocated, 0);
    assert_int_equal(run_step(m, 4000, places), FT_OK); // and the next one runs
    assert_int_equal(ft_memory_scope_begin(m, FT_SCOPE_TRAIN), FT_OK);
    assert_int_equal(ft_memory_scope_begin(m, FT_SCOPE_UPDATE), FT_FAILED);
    assert_int_equal(ft_memory_scope_end(m, FT_OK), FT_FAILED); // made none of its requests
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_a_scope_without_plan_must_end_empty(void **state) {
    ft_memory *m;
    void *p;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    assert_int_equal(ft_memory_scope_begin(m, FT_SCOPE_PREDICT), FT_OK);
    assert_int_equal(ft_memory_alloc(m, 10, FT_MEM_DATA, "stays", &p), FT_OK);
    assert_int_equal(ft_memory_scope_end(m, FT_OK), FT_FAILED);
    assert_string_equal(ft_error_where(), "stays");
    assert_int_equal(ft_memory_scope_begin(m, FT_SCOPE_PREDICT), FT_OK);
    assert_int_equal(ft_memory_alloc(m, 10, FT_MEM_DATA, "stays", &p), FT_OK);
    ft_fail(FT_INVALID, "x", "the reason");
    assert_int_equal(ft_memory_scope_end(m, FT_INVALID), FT_INVALID); // a failure passes, with its message
    assert_string_equal(ft_error_message(), "the reason");
    assert_int_equal(ft_memory_read(m).live_buffers, 0);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_guards_find_overruns(void **state) {
    for (int in_scope = 0; in_scope < 2; in_scope++) {
        ft_memory *m = with_plan(64);
        char *p;
        void *data;
        assert_int_equal(ft_memory_alloc(m, 100, FT_MEM_DATA, "whole", &data), FT_OK);
        memset(data, 1, 100);
        ft_memory_free(m, data);
        assert_int_equal(ft_memory_scope_begin(m, FT_SCOPE_TRAIN), FT_OK);
        assert_int_equal(ft_memory_alloc(m, 5000, FT_MEM_ACTIVATIONS, "a", &data), FT_OK);
        p = data;
        p[5000] = in_scope ? 1 : p[5000];
        ft_memory_free(m, data); // in another order than planned, besides
        assert_int_equal(ft_memory_scope_end(m, FT_OK), FT_FAILED);
        assert_int_equal(ft_memory_destroy(m), FT_FAILED);
        if (in_scope) continue;
        m = with_plan(64);
        assert_int_equal(ft_memory_alloc(m, 100, FT_MEM_DATA, "overrun", &data), FT_OK);
        ((char *)data)[100 + 63] = 1;
        ft_memory_free(m, data);
        assert_int_equal(ft_memory_destroy(m), FT_FAILED);
        assert_string_equal(ft_error_where(), "overrun");
        assert_non_null(strstr(ft_error_message(), "64 bytes behind the end of a buffer of 100 bytes"));
    }
}

// ---- the timeline -------------------------------------------------------------------------------------------------------

static void test_timeline(void **state) {
    ft_memory *m;
    char path[] = "/tmp/ft_timeline_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    assert_int_equal(ft_memory_trace_write(m, "/nowhere/at/all"), FT_OK); // no trace: nothing is written
    assert_int_equal(ft_memory_trace(m), FT_OK);
    ft_memory_mark(m, "Run Start");
    ft_memory_set_phase(m, FT_PHASE_FORWARD);
    for (int i = 0; i < 5000; i++) ft_memory_free(m, take(m, 512, FT_MEM_ACTIVATIONS, "a")); // more than is kept
    ft_memory_set_phase(m, FT_PHASE_BACKWARD);
    assert_int_equal(ft_memory_trace_write(m, path), FT_OK);
    json_t *root;
    assert_int_equal(ft_json_load(path, &root), FT_OK);
    const json_t *events = json_object_get(root, "traceEvents");
    int counters = 0, phases = 0, marks = 0;
    double last = -1;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        const char *kind = json_string_value(json_object_get(e, "ph"));
        if (*kind == 'C') {
            assert_true(json_number_value(json_object_get(e, "ts")) >= last);
            last = json_number_value(json_object_get(e, "ts"));
        }
        counters += *kind == 'C';
        phases += *kind == 'X';
        marks += *kind == 'i' && strcmp(json_string_value(json_object_get(e, "name")), "Run Start") == 0;
    }
    assert_true(counters > 8000 && counters < 8300);
    assert_int_equal(phases, 3); // forward at the beginning and at the end, then backward
    assert_int_equal(marks, 1);
    assert_true(atoll(json_string_value(json_object_get(json_object_get(root, "otherData"), "events_left_out"))) == 10002 - 8192);
    json_decref(root);
    assert_int_equal(ft_memory_trace_write(m, "/nowhere/at/all"), FT_FAILED);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
    remove(path);
}

// A run that goes on on another device: one file, a process a device, one clock.
static void test_timeline_of_two_devices(void **state) {
    ft_memory *first, *second;
    char path[] = "/tmp/ft_timeline_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(ft_memory_create(device, 0, &first), FT_OK);
    assert_int_equal(ft_memory_create(device, 0, &second), FT_OK);
    ft_memory_trace_continue(second, first); // neither has a trace: nothing
    assert_int_equal(ft_memory_trace(first), FT_OK);
    void *a = take(first, 4096, FT_MEM_WEIGHTS, "a");
    assert_int_equal(ft_memory_trace(second), FT_OK);
    ft_memory_mark(second, "Opened"); // while the first still holds its buffers
    ft_memory_free(first, a);
    ft_memory_trace_continue(second, first);
    assert_int_equal(ft_memory_trace_write(first, "/nowhere/at/all"), FT_OK); // it has none any more
    assert_int_equal(ft_memory_destroy(first), FT_OK);
    ft_memory_free(second, take(second, 8192, FT_MEM_WEIGHTS, "b"));
    assert_int_equal(ft_memory_trace_write(second, path), FT_OK);
    json_t *root;
    assert_int_equal(ft_json_load(path, &root), FT_OK);
    const json_t *events = json_object_get(root, "traceEvents");
    int processes = 0;
    double last = -1, most[3] = {0}, now[3] = {-1, -1, -1}, opened = -1, second_begins = -1;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        const char *kind = json_string_value(json_object_get(e, "ph")), *name = json_string_value(json_object_get(e, "name"));
        const int64_t pid = json_integer_value(json_object_get(e, "pid"));
        const double ts = json_number_value(json_object_get(e, "ts"));
        assert_true(pid == 1 || pid == 2);
        processes += *kind == 'M';
        if (*kind == 'i') opened = pid == 2 ? ts : -1;
        if (*kind != 'C') continue;
        assert_true(ts >= last);
        last = ts;
        if (pid == 2 && second_begins < 0) second_begins = ts;
        const double bytes = json_number_value(json_object_get(json_object_get(e, "args"), "bytes"));
        if (strcmp(name, "weights") == 0 && bytes > most[pid]) most[pid] = bytes;
        if (strcmp(name, "reserved") == 0) now[pid] = bytes;
    }
    assert_int_equal(processes, 2);
    assert_true(most[1] == 4096 && most[2] == 8192);
    assert_true(now[1] == 0); // all of it was given back
    assert_true(opened >= 0 && opened <= second_begins);
    json_decref(root);
    assert_int_equal(ft_memory_destroy(second), FT_OK);
    remove(path);
}

static void test_leak_is_named(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    take(m, 77, FT_MEM_DATA, "forgotten");
    assert_int_equal(ft_memory_destroy(m), FT_FAILED);
    assert_string_equal(ft_error_where(), "forgotten");
    assert_int_equal(ft_memory_destroy(NULL), FT_OK);
}

static void test_absurd_size(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    void *a = take(m, 4096, FT_MEM_DATA, "old"), *p;
    assert_int_equal(ft_memory_alloc(m, SIZE_MAX, FT_MEM_DATA, "absurd", &p), FT_NO_MEMORY);
    assert_int_equal(ft_memory_alloc(m, SIZE_MAX / 2, FT_MEM_DATA, "absurd", &p), FT_NO_MEMORY);
    assert_int_equal(((unsigned char *)a)[4095], 0xAB); // old buffers still work
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_texts(void **state) {
    char out[24];
    assert_string_equal(ft_bytes_text(512, out), "512B");
    assert_string_equal(ft_bytes_text(1536, out), "1.5KiB");
    assert_string_equal(ft_bytes_text((size_t)3 << 29, out), "1.50GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_holders_at_peak),
                                       cmocka_unit_test(test_steps_have_fixed_places),
                                       cmocka_unit_test(test_scopes_share_places),
                                       cmocka_unit_test(test_a_step_that_differs_is_caught),
                                       cmocka_unit_test(test_a_scope_without_plan_must_end_empty),
                                       cmocka_unit_test(test_guards_find_overruns),
                                       cmocka_unit_test(test_timeline), cmocka_unit_test(test_timeline_of_two_devices),
                                       cmocka_unit_test(test_leak_is_named),
                                       cmocka_unit_test(test_absurd_size),
                                       cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
