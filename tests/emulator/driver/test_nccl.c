// A group of ranks over NCCL (kernels/collectives/nccl) on the fake driver and a fake NCCL: ranks are processes, each
// with a GPU of its own. What is summed, gathered and handed on is right on every rank under every schedule of the
// streams; ranks that do not call the same thing, one that dies, is late, fails or gives up end the group on all of
// them, and nothing hangs.
// ctest: driver=fake tsan=leave
#include "kernels/collectives/nccl/nccl.h"
#include "kernels/collectives/shared_memory.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/driver/fake_nccl.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 3, CHANNELS = 2 };

// What a rank leaves for the test, in memory of both.
typedef struct outcome {
    int status;
    char message[400];
    uint32_t bits; // of what it had at the end
    fake_nccl_books books;
} outcome;

typedef struct member {
    int rank, ranks;
    ft_cuda_driver *driver;
    ft_device *device;
    ft_nccl *nccl;
    ft_group *control, *group;
    outcome *out;
} member;

typedef ft_status scenario(member *r);
typedef struct setting {
    fake_schedule schedule;
    fake_nccl_settings nccl[MOST];
} setting;

static ft_status join(member *r, int file) {
    FT_TRY(ft_cuda_driver_open(FT_FAKE_DRIVER, &r->driver));
    FT_TRY(ft_cuda_open(r->driver, 0, NULL, &r->device));
    FT_TRY(ft_nccl_open(CHANNELS, &r->nccl));
    FT_TRY(ft_shared_group_join(file, r->rank, r->ranks, &r->control));
    return ft_nccl_group_join(r->nccl, r->device, r->control, CHANNELS, &r->group);
}

// In a process of its own.
static void be_rank(member *r, int file, const setting *s, scenario *play) {
    fake_settings driver = fake_defaults();
    driver.schedule = s->schedule;
    driver.seed = (size_t)r->rank + 7;
    fake_reset(&driver);
    fake_nccl_set(&s->nccl[r->rank]);
    ft_status status = join(r, file);
    if (status == FT_OK) r->out->books = fake_nccl_read();
    if (status == FT_OK) status = play(r);
    snprintf(r->out->message, sizeof r->out->message, "%s", ft_error_message());
    r->out->status = (int)status;
    ft_group_close(r->group);
    ft_group_close(r->control);
    if (r->device != NULL) ft_device_close(r->device);
    ft_nccl_close(r->nccl);
    ft_cuda_driver_close(r->driver);
    const fake_books left = fake_read();
    const fake_nccl_books nccl = fake_nccl_read();
    r->out->books.misuses = nccl.misuses, r->out->books.communicators = nccl.communicators,
    r->out->books.aborted = nccl.aborted;
    if (status == FT_OK && left.contexts + left.streams + left.events + left.buffers + left.misuses > 0)
        r->out->status = 77;
}

// The outcomes of all ranks; killed: one of them is expected to be, -1: none.
static outcome *play(int ranks, const setting *s, int killed, scenario *scene) {
    static outcome *out;
    pid_t child[MOST];
    int file;
    if (out == NULL) out = mmap(NULL, MOST * sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(out, 0, MOST * sizeof *out);
    assert_int_equal(ft_shared_group_create(ranks, &file), FT_OK);
    fflush(NULL);
    for (int i = 0; i < ranks; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] > 0) continue;
        alarm(240); // a rank that hangs is killed, and the test fails
        member r = {.rank = i, .ranks = ranks, .out = &out[i]};
        be_rank(&r, file, s, scene);
        _exit(0);
    }
    close(file);
    for (int i = 0; i < ranks; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        if (i == killed)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return out;
}

static void all_fine(const outcome *out, int ranks) {
    for (int i = 0; i < ranks; i++) {
        if (out[i].status != FT_OK) fail_msg("rank %d: %d %s", i, out[i].status, out[i].message);
        assert_int_equal(out[i].books.misuses, 0);
        assert_int_equal(out[i].books.communicators, 0);
        assert_int_equal(out[i].books.aborted, 0);
    }
}

// ---- what is right

enum { COUNT = 6 * 8000 }; // more than a piece of the fake's; a multiple of 2 and 3

static ft_status wrong(const char *what, int64_t at) {
    return ft_fail(FT_FAILED, what, "element %lld is wrong", (long long)at);
}

// Brings host numbers, has `op` done with them and gets them back; nothing waits for the host in between but what is
// said.
static ft_status with_device(member *r, float *numbers, ft_status (*op)(ft_group *group, ft_range all)) {
    const ft_device_functions *f = r->device->functions;
    const size_t bytes = COUNT * sizeof *numbers;
    void *data;
    FT_TRY(f->buffer_alloc(r->device, bytes, &data));
    ft_status status = f->upload(r->device, data, numbers, bytes);
    if (status == FT_OK) status = op(r->group, (ft_range){data, COUNT, FT_F32});
    if (status == FT_OK) status = ft_group_join(r->group);
    if (status == FT_OK) status = f->download(r->device, numbers, data, bytes);
    if (status == FT_OK) status = f->sync(r->device);
    if (status == FT_OK) status = ft_group_finish(r->group);
    f->buffer_free(r->device, data, bytes);
    return status;
}

// In three ranges, one of them empty, as one operation.
static ft_status sum_at_once(ft_group *group, ft_range all) {
    float *x = all.data;
    const ft_range part[] = {{x, 1000, FT_F32}, {x + 1000, 0, FT_F32}, {x + 1000, all.count - 1000, FT_F32}};
    return ft_group_all_reduce_all(group, part, 3);
}

static float value(int rank, int64_t i) { return (float)(rank + 1) + (float)(i % 1000); }
static float sum_of(int ranks, int64_t i) {
    float sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value(r, i); // whole numbers: any order has the same bits
    return sum;
}

static ft_status broadcast_from_last(ft_group *group, ft_range all) {
    return ft_group_broadcast(group, group->ranks - 1, all);
}

static ft_status everything(member *r) {
    const int64_t part = COUNT / r->ranks, first = part * r->rank;
    float *x = calloc(COUNT, sizeof *x);
    ft_status status = FT_OK;
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = value(r->rank, i);
    status = with_device(r, x, ft_group_all_reduce);
    for (int64_t i = 0; status == FT_OK && i < COUNT; i++)
        if (x[i] != sum_of(r->ranks, i)) status = wrong("all_reduce", i);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = value(r->rank, i);
    if (status == FT_OK) status = with_device(r, x, sum_at_once);
    for (int64_t i = 0; status == FT_OK && i < COUNT; i++)
        if (x[i] != sum_of(r->ranks, i)) status = wrong("several at once", i);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = value(r->rank, i);
    if (status == FT_OK) status = with_device(r, x, ft_group_reduce_scatter);
    for (int64_t i = first; status == FT_OK && i < first + part; i++)
        if (x[i] != sum_of(r->ranks, i)) status = wrong("reduce_scatter", i);
    if (status == FT_OK) status = with_device(r, x, ft_group_all_gather); // the other parts are poison
    for (int64_t i = 0; status == FT_OK && i < COUNT; i++)
        if (x[i] != sum_of(r->ranks, i)) status = wrong("all_gather", i);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = value(r->rank, i);
    if (status == FT_OK) status = with_device(r, x, broadcast_from_last);
    for (int64_t i = 0; status == FT_OK && i < COUNT; i++)
        if (x[i] != value(r->ranks - 1, i)) status = wrong("broadcast", i);
    if (status == FT_OK) status = ft_group_barrier(r->group);
    free(x);
    return status;
}

static void operations_are_right(void **state) {
    for (int schedule = 0; schedule < FAKE_SCHEDULES; schedule++) {
        const int ranks = schedule % 2 == 0 ? 2 : 3;
        const setting s = {.schedule = (fake_schedule)schedule, .nccl = {{.busy = 3}, {.late = 2}, {.busy = 1}}};
        const outcome *out = play(ranks, &s, -1, everything);
        all_fine(out, ranks);
        for (int i = 0; i < ranks; i++)
            assert_int_equal(out[i].books.bytes, CHANNELS * (12 << 20)); // what a plan counts (engine/plan/scaling.h)
    }
}

// Nobody waited: what is downloaded is older than the sum, or poison, under one schedule at least.
static ft_status without_join(member *r) {
    const ft_device_functions *f = r->device->functions;
    float x[64];
    void *data;
    for (int i = 0; i < 64; i++)
        x[i] = value(r->rank, i);
    FT_TRY(f->buffer_alloc(r->device, sizeof x, &data));
    FT_TRY(f->upload(r->device, data, x, sizeof x));
    FT_TRY(ft_group_all_reduce(r->group, (ft_range){data, 64, FT_F32}));
    FT_TRY(f->download(r->device, x, data, sizeof x));
    FT_TRY(f->sync(r->device));
    FT_TRY(ft_group_finish(r->group));
    r->out->bits = x[5] == sum_of(r->ranks, 5);
    f->buffer_free(r->device, data, sizeof x);
    return FT_OK;
}

static void a_missing_join_is_seen(void **state) {
    bool seen = false;
    for (int schedule = 0; schedule < FAKE_SCHEDULES && !seen; schedule++) {
        const setting s = {.schedule = (fake_schedule)schedule};
        const outcome *out = play(2, &s, -1, without_join);
        all_fine(out, 2);
        seen = !out[0].bits || !out[1].bits;
    }
    assert_true(seen);
}

// 1, 2^-24 and -1 come to another number in every order; of each call all ranks have the same.
static ft_status sum_of_unequal(member *r) {
    static const float numbers[] = {1.0f, 5.9604645e-8f, -1.0f};
    const ft_device_functions *f = r->device->functions;
    float x = numbers[r->rank], back = 0;
    void *data;
    FT_TRY(f->buffer_alloc(r->device, sizeof x, &data));
    for (int i = 0; i < 16; i++) {
        FT_TRY(f->upload(r->device, data, &x, sizeof x));
        FT_TRY(ft_group_all_reduce(r->group, (ft_range){data, 1, FT_F32}));
        FT_TRY(ft_group_join(r->group));
        FT_TRY(f->download(r->device, &back, data, sizeof x));
        FT_TRY(f->sync(r->device));
        r->out->bits = r->out->bits << 2 | (back == 0 ? 0 : back < 5e-8f ? 1 : 2);
    }
    f->buffer_free(r->device, data, sizeof x);
    return FT_OK;
}

static void sums_may_be_in_any_order(void **state) {
    setting s = {.schedule = FAKE_EAGER};
    const outcome *out = play(3, &s, -1, sum_of_unequal);
    all_fine(out, 3);
    const uint32_t fixed = out[0].bits;
    for (int i = 1; i < 3; i++)
        assert_int_equal(out[i].bits, fixed);
    for (int i = 1; i < 16; i++)
        assert_int_equal(fixed >> 2 * i & 3, fixed & 3);
    for (int i = 0; i < 3; i++)
        s.nccl[i] = (fake_nccl_settings){.drawn = true, .seed = 3};
    out = play(3, &s, -1, sum_of_unequal);
    all_fine(out, 3);
    assert_true(out[0].bits != fixed && out[1].bits == out[0].bits && out[2].bits == out[0].bits);
}

// ---- what goes wrong

static ft_status sums_for_ever(member *r) {
    const ft_device_functions *f = r->device->functions;
    void *data;
    FT_TRY(f->buffer_alloc(r->device, 4096, &data));
    FT_TRY(f->fill(r->device, data, 0, 4096));
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < 100000; i++) {
        status = ft_group_all_reduce(r->group, (ft_range){data, 1024, FT_F32});
        if (status == FT_OK) status = ft_group_finish(r->group);
    }
    ft_error error;
    ft_error_save(&error);
    f->buffer_free(r->device, data, 4096);
    ft_error_restore(&error);
    return status;
}

static void ended(const outcome *out, int ranks, int but) {
    for (int i = 0; i < ranks; i++) {
        if (i == but) continue;
        assert_int_equal(out[i].status, FT_FAILED);
        assert_true(out[i].message[0] != '\0');
        assert_int_equal(out[i].books.communicators, 0);
    }
}

static void a_death_ends_all(void **state) {
    for (int dies = 0; dies < 3; dies++) {
        setting s = {.schedule = dies == 1 ? FAKE_LAZY : FAKE_RANDOM};
        s.nccl[dies].die_at = (uint64_t)dies + 1;
        ended(play(3, &s, dies, sums_for_ever), 3, dies);
    }
}

static void an_error_ends_all(void **state) {
    setting s = {.schedule = FAKE_LAZY, .nccl = {{0}, {.fail_at = 3}}};
    const outcome *out = play(2, &s, -1, sums_for_ever);
    ended(out, 2, -1);
    assert_non_null(strstr(out[1].message, "remote process exited"));
    assert_int_equal(out[1].books.aborted, 1);
}

static ft_status gives_up(member *r) {
    if (r->rank > 0) return sums_for_ever(r);
    ft_error error;
    (void)ft_fail(FT_DIVERGED, "train", "loss is no number");
    ft_error_save(&error);
    ft_group_abort(r->group, &error);
    return ft_group_check(r->group);
}

static void giving_up_ends_all(void **state) {
    setting s = {.schedule = FAKE_LAZY};
    const outcome *out = play(3, &s, -1, gives_up);
    for (int i = 0; i < 3; i++) {
        assert_true(out[i].status != FT_OK);
        if (strstr(out[i].message, i == 0 ? "loss is no number" : "rank 0") == NULL) fail_msg("rank %d: %s", i, out[i].message);
    }
}

static ft_status different_counts(member *r) {
    void *data;
    FT_TRY(r->device->functions->buffer_alloc(r->device, 4096, &data));
    ft_status status = ft_group_all_reduce(r->group, (ft_range){data, 512 + r->rank, FT_F32});
    if (status == FT_OK) status = ft_group_finish(r->group);
    ft_error error;
    ft_error_save(&error);
    r->device->functions->buffer_free(r->device, data, 4096);
    ft_error_restore(&error);
    return status;
}

// One rank asks for two sums at once, the other for one behind the other.
static ft_status different_groups(member *r) {
    void *data;
    FT_TRY(r->device->functions->buffer_alloc(r->device, 4096, &data));
    const ft_range part[] = {{data, 512, FT_F32}, {(float *)data + 512, 512, FT_F32}};
    ft_status status = ft_group_all_reduce_all(r->group, part, r->rank == 0 ? 2 : 1);
    if (status == FT_OK && r->rank > 0) status = ft_group_all_reduce(r->group, part[1]);
    if (status == FT_OK) status = ft_group_finish(r->group);
    ft_error error;
    ft_error_save(&error);
    r->device->functions->buffer_free(r->device, data, 4096);
    ft_error_restore(&error);
    return status;
}

static void differences_end_all(void **state) {
    setting s = {.schedule = FAKE_EAGER};
    scenario *const scenes[] = {different_counts, different_groups};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const outcome *out = play(2, &s, -1, scenes[i]);
        ended(out, 2, -1);
        assert_true(out[0].books.misuses + out[1].books.misuses > 0);
    }
}

static void a_library_that_lacks_is_named(void **state) {
    ft_nccl *nccl;
    assert_int_equal(setenv("FTENGINE_NCCL", "/nowhere/libnccl.so.2", 1), 0);
    assert_int_equal(ft_nccl_open(2, &nccl), FT_NO_DEVICE);
    assert_non_null(strstr(ft_error_message(), "not there"));
    assert_int_equal(setenv("FTENGINE_NCCL", FT_FAKE_DRIVER, 1), 0);
    assert_int_equal(ft_nccl_open(2, &nccl), FT_NO_DEVICE);
    assert_non_null(strstr(ft_error_message(), "no function ncclGetErrorString"));
    assert_int_equal(setenv("FTENGINE_NCCL", FT_FAKE_NCCL, 1), 0);
    assert_int_equal(ft_nccl_open(0, &nccl), FT_INVALID);
    assert_int_equal(ft_nccl_open(2, &nccl), FT_OK);
    assert_int_equal(nccl->version, 23203);
    ft_nccl_close(nccl);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_lacks_is_named),
        cmocka_unit_test(operations_are_right),
        cmocka_unit_test(a_missing_join_is_seen),
        cmocka_unit_test(sums_may_be_in_any_order),
        cmocka_unit_test(a_death_ends_all),
        cmocka_unit_test(an_error_ends_all),
        cmocka_unit_test(giving_up_ends_all),
        cmocka_unit_test(differences_end_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
