// Collectives between processes in shared memory: every operation, type and number of ranks against a plain loop;
// shared buffers and points; ranks that call different things; one that fails, is killed, or leaves ends the others.
// And over MPI, where there is one: this program is then started again by mpirun, every rank as a host of its own.
#include "kernels/collectives/mpi/mpi_group.h"
#include "kernels/half.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fixtures/forked_ranks.h"

typedef bool rank_work(ft_group *group); // in a process of its own; false: wrong

typedef struct works {
    rank_work *work;
} works;

static bool then_leave(ft_group *group, void *context) {
    const bool right = ((const works *)context)->work(group);
    ft_group_close(group);
    return right;
}

static void run_ranks(int ranks, rank_work *work, int *codes, void (*meanwhile)(pid_t *pids, int file)) {
    run_forked_ranks(ranks, then_leave, &(works){work}, codes, meanwhile);
}

static void all_right(int ranks, rank_work *work) { forked_ranks_are_right(ranks, then_leave, &(works){work}); }

// ---- operations

// Element i of rank r: exact in every type, also the sums of four of them.
static double element(int rank, int64_t i) { return (double)((i * 7 + rank * 13) % 31 - 15); }

static void put(void *data, ft_dtype type, int64_t i, double x) {
    switch (type) {
    case FT_F32: ((float *)data)[i] = (float)x; break;
    case FT_F64: ((double *)data)[i] = x; break;
    case FT_I32: ((int32_t *)data)[i] = (int32_t)x; break;
    case FT_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    case FT_BF16: ((uint16_t *)data)[i] = ft_to_bf16((float)x); break;
    case FT_F16: ((uint16_t *)data)[i] = ft_to_fp16((float)x); break;
    case FT_U8: ((uint8_t *)data)[i] = (uint8_t)(int)x; break;
    }
}

static double get(const void *data, ft_dtype type, int64_t i) {
    switch (type) {
    case FT_F32: return (double)((const float *)data)[i];
    case FT_F64: return ((const double *)data)[i];
    case FT_I32: return ((const int32_t *)data)[i];
    case FT_I64: return (double)((const int64_t *)data)[i];
    case FT_BF16: return (double)ft_from_bf16(((const uint16_t *)data)[i]);
    case FT_F16: return (double)ft_from_fp16(((const uint16_t *)data)[i]);
    case FT_U8: return ((const uint8_t *)data)[i];
    }
    return 0;
}

typedef enum operation { REDUCE, SCATTER, GATHER, BROADCAST, OPERATIONS } operation;

static double sum_of(int ranks, int64_t i) {
    double sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += element(r, i);
    return sum;
}

// What element i of this rank is afterwards; NAN: anything.
static double wanted(const ft_group *g, operation op, int64_t count, ft_dtype type, int64_t i) {
    const int64_t part = count / g->ranks;
    char one[8];
    double x = 0;
    switch (op) {
    case REDUCE: return sum_of(g->ranks, i);
    case SCATTER: return i / part == g->rank ? sum_of(g->ranks, i) : __builtin_nan("");
    case GATHER: x = element((int)(i / part), i); break;
    case BROADCAST: x = element(g->ranks - 1, i); break;
    default: break;
    }
    put(one, type, 0, x); // bytes are not summed, and wrap
    return get(one, type, 0);
}

static ft_status call(ft_group *g, operation op, ft_range all) {
    switch (op) {
    case REDUCE: return ft_group_all_reduce(g, all);
    case SCATTER: return ft_group_reduce_scatter(g, all);
    case GATHER: return ft_group_all_gather(g, all);
    default: return ft_group_broadcast(g, g->ranks - 1, all);
    }
}

static bool try_one(ft_group *g, operation op, ft_dtype type, int64_t count) {
    enum { GUARD = 64 };
    const size_t size = ft_dtype_size(type), bytes = (size_t)count * size;
    char *block = malloc(bytes + 2 * GUARD);
    if (block == NULL) return false;
    memset(block, 0x5A, bytes + 2 * GUARD);
    for (int64_t i = 0; i < count; i++)
        put(block + GUARD, type, i, element(g->rank, i));
    bool right = call(g, op, (ft_range){block + GUARD, count, type}) == FT_OK;
    for (int64_t i = 0; right && i < count; i++) {
        const double want = wanted(g, op, count, type, i);
        right = want != want || get(block + GUARD, type, i) == want;
    }
    for (size_t i = 0; i < GUARD; i++)
        right = right && block[i] == 0x5A && block[GUARD + bytes + i] == 0x5A;
    free(block);
    return right;
}

// Lengths around those of the pieces in which they travel.
static bool all_operations(ft_group *g) {
    static const ft_dtype types[] = {FT_F32, FT_F64, FT_I32, FT_I64, FT_BF16, FT_F16, FT_U8};
    static const int64_t lengths[] = {0, 1, 1000, 70001};
    bool right = true;
    for (int op = 0; op < OPERATIONS; op++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t n = 0; right && n < sizeof lengths / sizeof *lengths; n++) {
                const bool sums = op == REDUCE || op == SCATTER, parts = op == SCATTER || op == GATHER;
                if (types[t] == FT_U8 && sums) continue;
                right = try_one(g, (operation)op, types[t], parts ? lengths[n] * g->ranks : lengths[n]);
            }
    return right && ft_group_barrier(g) == FT_OK && ft_group_join(g) == FT_OK && ft_group_finish(g) == FT_OK;
}

static void operations_are_those_of_a_loop(void **unused) {
    for (int ranks = 1; ranks <= 4; ranks++)
        all_right(ranks, all_operations);
}

// 1 + 2^-24 + 2^-24 is 1 from left to right, and more from right to left.
static bool in_order(ft_group *g) {
    float x[3] = {g->rank == 0 ? 1.0f : 0x1p-24f, g->rank == 2 ? 1.0f : 0x1p-24f, 1};
    if (ft_group_all_reduce(g, (ft_range){x, 3, FT_F32}) != FT_OK) return false;
    return g->ordered && x[0] == 1.0f && x[1] == 1.0f + 0x1p-23f && x[2] == 3.0f;
}

static void sums_are_in_the_order_of_ranks(void **unused) { all_right(3, in_order); }

// ---- shared buffers and points

// A chain: every rank in turn adds to what the one before it left, round after round.
static bool chain(ft_group *g) {
    enum { ROUNDS = 300, NUMBERS = 5000 };
    void *data, *other;
    if (!ft_group_shares(g) || ft_group_share(g, NUMBERS * sizeof(int), &data) != FT_OK ||
        ft_group_share(g, 1, &other) != FT_OK)
        return false;
    int *sum = data;
    for (int i = 0; i < NUMBERS; i++)
        if (sum[i] != 0) return false;
    if (ft_group_barrier(g) != FT_OK) return false; // nobody writes before all have looked
    for (uint64_t k = (uint64_t)g->rank; k < ROUNDS * (uint64_t)g->ranks; k += (uint64_t)g->ranks) {
        if (k > 0 && ft_group_await(g, (int)((k - 1) % (uint64_t)g->ranks), 0, k) != FT_OK) return false;
        if (k > 0 && !ft_group_has_raised(g, (int)((k - 1) % (uint64_t)g->ranks), 0, k)) return false;
        for (int i = 0; i < NUMBERS; i++)
            if (sum[i]++ != (int)k) return false;
        if (ft_group_has_raised(g, g->rank, 0, k + 1)) return false;
        ft_group_raise(g, 0, k + 1);
        if (!ft_group_has_raised(g, g->rank, 0, k + 1)) return false;
    }
    ft_group_unshare(g, other, 1);
    return ft_group_barrier(g) == FT_OK && sum[NUMBERS - 1] == ROUNDS * g->ranks;
}

static void ranks_go_on_with_each_others_sums(void **unused) {
    for (int ranks = 1; ranks <= 4; ranks++)
        all_right(ranks, chain);
}

// ---- failures

static bool call_differs(ft_group *g) {
    float x[8] = {0};
    return ft_group_all_reduce(g, (ft_range){x, g->rank == 1 ? 4 : 8, FT_F32}) == FT_FAILED;
}
static bool shares_differ(ft_group *g) {
    void *data;
    return ft_group_share(g, g->rank == 1 ? 4 : 8, &data) == FT_FAILED;
}

static void different_calls_are_refused(void **unused) {
    all_right(2, call_differs);
    all_right(3, shares_differ);
}

static bool first_error_counts(ft_group *g) {
    if (g->rank == 1) {
        ft_fail(FT_INVALID, "here", "what went wrong");
        ft_error error;
        ft_error_save(&error);
        ft_group_abort(g, &error);
    }
    const bool ended = ft_group_await(g, 2, 3, 1) != FT_OK &&
                       strstr(ft_error_message(), "what went wrong") != NULL; // which never comes
    return ended && ft_group_check(g) != FT_OK && ft_group_barrier(g) != FT_OK &&
           (g->rank == 1) == (strstr(ft_error_message(), "rank 1") == NULL);
}

static void a_failure_ends_all(void **unused) { all_right(3, first_error_counts); }

static bool wait_for_ever(ft_group *g) {
    const bool ended = ft_group_await(g, g->rank, 3, 1) == FT_FAILED;
    return ended && strstr(ft_error_message(), "rank 1") != NULL;
}

static void kill_one(pid_t *pids, int file) {
    struct flock lock = {.l_type = F_UNLCK};
    while (lock.l_type == F_UNLCK) { // until it has joined: its lock is there
        lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
        assert_int_equal(fcntl(file, F_GETLK, &lock), 0);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000000},
              NULL); // most likely all wait by then; it is right at any moment
    kill(pids[1], SIGKILL);
}

static void a_killed_rank_ends_the_others(void **unused) {
    int codes[4];
    run_ranks(4, wait_for_ever, codes, kill_one);
    assert_int_equal(codes[1], 128 + SIGKILL);
    for (int r = 0; r < 4; r++)
        if (r != 1) assert_int_equal(codes[r], 0);
}

static bool leave_early(ft_group *g) {
    return g->rank == 1 || (ft_group_await(g, 1, 0, 1) == FT_FAILED && strstr(ft_error_message(), "left") != NULL);
}

static void who_leaves_is_not_waited_for(void **unused) { all_right(2, leave_early); }

static void abort_from_outside(pid_t *pids, int file) {
    ft_shared_watch *watch;
    ft_error error = {.code = FT_FAILED, .message = "seen from outside"}, told;
    int rank;
    assert_int_equal(ft_shared_watch_open(file, &watch), FT_OK);
    assert_false(ft_shared_watch_failure(watch, &rank, &told));
    ft_shared_watch_abort(watch, 1, &error);
    assert_true(ft_shared_watch_failure(watch, &rank, &told));
    assert_int_equal(rank, 1);
    assert_string_equal(told.message, error.message);
    ft_shared_watch_close(watch);
}

static bool told_from_outside(ft_group *g) {
    return ft_group_await(g, g->rank, 3, 1) == FT_FAILED && strstr(ft_error_message(), "seen from outside") != NULL;
}

static void who_watches_can_end_it(void **unused) {
    int codes[2];
    run_ranks(2, told_from_outside, codes, abort_from_outside);
    for (int r = 0; r < 2; r++)
        assert_true(codes[r] == 0 || codes[r] == 2); // 2: before it had joined
}

static void what_is_no_group_is_refused(void **unused) {
    ft_group *group;
    int file;
    assert_int_equal(ft_shared_group_create(0, &file), FT_INVALID);
    assert_int_equal(ft_shared_group_create(FT_GROUP_RANKS + 1, &file), FT_INVALID);
    assert_int_equal(ft_shared_group_join(dup(STDIN_FILENO), 0, 1, &group), FT_INVALID);
    assert_int_equal(ft_shared_group_create(2, &file), FT_OK);
    assert_int_equal(ft_shared_group_join(dup(file), 0, 3, &group), FT_INVALID); // of another size
    close(file);
}

// ---- over MPI

// What the next rank gets is what this one had: in several messages, which are on their way while others are queued.
static bool from_hand_to_hand(ft_group *g) {
    enum { COUNT = 300000, PARTS = 3 };
    float *out = malloc(COUNT * sizeof *out), *in = calloc(COUNT, sizeof *in);
    const int next = (g->rank + 1) % g->ranks, before = (g->rank + g->ranks - 1) % g->ranks;
    bool right = out != NULL && in != NULL && !ft_group_shares(g) && g->hosts == g->ranks;
    for (int64_t i = 0; right && i < COUNT; i++)
        out[i] = (float)(g->rank * 1000000 + i);
    for (int p = 0; right && p < PARTS; p++)
        right = ft_group_send(g, next, (ft_range){out + p * (COUNT / PARTS), COUNT / PARTS, FT_F32}) == FT_OK;
    for (int p = 0; right && p < PARTS; p++)
        right = ft_group_receive(g, before, (ft_range){in + p * (COUNT / PARTS), COUNT / PARTS, FT_F32}) == FT_OK;
    right = right && ft_group_finish(g) == FT_OK;
    for (int64_t i = 0; right && i < COUNT; i++)
        right = in[i] == (float)(before * 1000000 + i);
    free(out);
    free(in);
    return right && ft_group_send(g, g->rank, (ft_range){&right, 1, FT_U8}) == FT_FAILED;
}

static bool completed(ft_group *g) {
    enum { PART = 1001 };
    char all[3 * PART] = {0};
    memset(all + g->rank * PART, 'a' + g->rank, PART);
    bool right = g->ranks == 3 && ft_group_complete(g, (ft_range){all, sizeof all, FT_U8}) == FT_OK;
    for (int i = 0; right && i < 3 * PART; i++)
        right = all[i] == 'a' + i / PART;
    return right;
}

static bool told_over_mpi(ft_group *g) {
    ft_error error = {.code = FT_NO_MEMORY, .message = "rank 1 has had enough"};
    if (g->rank == 1) ft_group_abort(g, &error);
    float x = 0;
    const bool ended = g->rank == 1 || ft_group_receive(g, 1, (ft_range){&x, 1, FT_F32}) == FT_NO_MEMORY;
    return ended && ft_group_check(g) == FT_NO_MEMORY && strcmp(ft_error_message(), error.message) == 0;
}

// One of them; what mpirun passes on is not 0 where one is not.
static int as_rank(void) {
    ft_mpi *mpi;
    ft_group *near, *group;
    int file;
    if (ft_mpi_open(&mpi) != FT_OK) return fprintf(stderr, "%s\n", ft_error_message()), 2;
    bool right = ft_mpi_agree(mpi, "colour", "blue") == FT_OK;
    right = right && ft_mpi_agree(mpi, "colour", ft_mpi_rank(mpi) == 2 ? "red" : "blue") == FT_INVALID &&
            strstr(ft_error_message(), "rank 2 on ") != NULL && strstr(ft_error_message(), ": red, not blue") != NULL;
    if (!right || ft_shared_group_create(1, &file) != FT_OK || ft_shared_group_join(file, 0, 1, &near) != FT_OK ||
        ft_mpi_group_open(mpi, near, &group) != FT_OK)
        return 2;
    right = all_operations(group) && in_order(group) && from_hand_to_hand(group) && completed(group) &&
            told_over_mpi(group);
    ft_mpi_word(mpi, 60); // nobody ends while another is still to be told
    ft_group_close(group);
    ft_mpi_close(mpi, true);
    return right ? 0 : 1;
}

static void over_mpi(void **state) {
    char self[PATH_MAX], module[PATH_MAX + 32], command[3 * PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(module, sizeof module, "%s", self);
    snprintf(strrchr(module, '/'), 32, "/../libftengine_mpi.so");
    if (access(module, R_OK) != 0 || system("command -v mpirun.openmpi >/dev/null") != 0) skip();
    // The library of MPI leaves what it has taken.
    snprintf(command, sizeof command,
             "FTENGINE_MPI_MODULE='%s' ASAN_OPTIONS=detect_leaks=0 timeout 300 mpirun.openmpi --allow-run-as-root "
             "--oversubscribe --bind-to none -n 3 '%s' rank",
             module, self);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    if (argc > 1) return as_rank();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_those_of_a_loop),
        cmocka_unit_test(sums_are_in_the_order_of_ranks),
        cmocka_unit_test(ranks_go_on_with_each_others_sums),
        cmocka_unit_test(different_calls_are_refused),
        cmocka_unit_test(a_failure_ends_all),
        cmocka_unit_test(a_killed_rank_ends_the_others),
        cmocka_unit_test(who_leaves_is_not_waited_for),
        cmocka_unit_test(who_watches_can_end_it),
        cmocka_unit_test(what_is_no_group_is_refused),
        cmocka_unit_test(over_mpi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
