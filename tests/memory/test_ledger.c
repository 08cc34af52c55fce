// The ledger of reservations: what it promises one by one, and under fire - processes that enter, leave and are killed
// at any moment never have more than the capacity between them, and leave nothing behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "engine/memory/ledger.h"
#include "engine/memory/process.h"
#include "kernels/philox.h"

static char scratch[64];

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_ledger_XXXXXX", base);
    return mkdtemp(scratch) == NULL || setenv("FTENGINE_LEDGER_DIR", scratch, 1) != 0;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static const char *path_of(const char *device) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s.ledger", scratch, device);
    return path;
}
static long size_of(const char *device) {
    struct stat st;
    assert_int_equal(stat(path_of(device), &st), 0);
    return (long)st.st_size;
}

static void ok(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}
static ft_ledger *opened(const char *name, size_t capacity) {
    ft_ledger *ledger;
    ok(ft_ledger_open(&(ft_ledger_device){.name = name, .capacity = capacity}, &ledger));
    return ledger;
}
static bool entered(ft_ledger *ledger, size_t bytes, size_t min_free) {
    ft_ledger_state state;
    bool done;
    ok(ft_ledger_enter(ledger, bytes, min_free, &state, &done));
    return done;
}
static ft_ledger_state state_of(ft_ledger *ledger) {
    ft_ledger_state state;
    ok(ft_ledger_read(ledger, &state));
    return state;
}

// ---- one by one --------------------------------------------------------------------------------------------------

static void enters_as_it_fits(void **test) {
    ft_ledger *a = opened("fits", 100), *b = opened("fits", 100), *c = opened("fits", 100);
    assert_true(entered(a, 60, 0));
    ft_ledger_state s = state_of(b);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.reserved, 60);
    assert_int_equal(s.free, 40);
    assert_int_equal(s.reservations[0].pid, getpid());
    assert_int_equal(s.reservations[0].started, ft_process_started(getpid()));
    assert_true(s.reservations[0].since > 1700000000);
    assert_false(entered(b, 41, 0));
    assert_false(entered(b, 10, 41)); // 40 are free, 41 are asked for
    assert_true(entered(b, 40, 40));  // to the byte
    assert_false(entered(c, 1, 0));
    assert_true(entered(c, 0, 0));
    ft_ledger_leave(a);
    ft_ledger_leave(a); // twice is once
    s = state_of(a);
    assert_int_equal(s.reserved, 40);
    assert_int_equal(s.count, 2);
    assert_true(entered(a, 60, 0));
    ft_ledger_close(b);
    ft_ledger_close(a);
    assert_true(size_of("fits") > 0); // c is still in
    ft_ledger_close(c);
    assert_int_equal(size_of("fits"), 0);
    ft_ledger_close(NULL);
}

static void a_second_reservation_is_an_error(void **test) {
    ft_ledger *a = opened("twice", 100);
    ft_ledger_state s;
    bool done;
    assert_true(entered(a, 10, 0));
    assert_int_equal(ft_ledger_enter(a, 10, 0, &s, &done), FT_FAILED);
    assert_false(done);
    assert_int_equal(state_of(a).reserved, 10);
    ft_ledger_close(a);
}

// What is given back is others' at once; more is never taken by it.
static void a_reservation_becomes_less(void **test) {
    ft_ledger *a = opened("less", 100), *b = opened("less", 100);
    ft_reservation mine;
    ok(ft_ledger_shrink(a, 5)); // none is there
    assert_int_equal(state_of(b).count, 0);
    assert_true(entered(a, 80, 0));
    assert_false(entered(b, 30, 0));
    ok(ft_ledger_shrink(a, 90));
    assert_int_equal(state_of(b).reserved, 80);
    ok(ft_ledger_shrink(a, 70));
    assert_true(ft_ledger_mine(a, &mine) && mine.bytes == 70);
    const ft_ledger_state s = state_of(b);
    assert_true(s.count == 1 && s.reserved == 70 && s.free == 30 && s.reservations[0].pid == getpid());
    assert_true(entered(b, 30, 0));
    ok(ft_ledger_shrink(a, 0));
    assert_int_equal(state_of(b).reserved, 30);
    assert_int_equal(state_of(b).count, 2); // one of nothing is one
    ft_ledger_close(a);
    ft_ledger_close(b);
    assert_int_equal(size_of("less"), 0);
}

static size_t three_left(void *context, const ft_reservation *reservations, int count) {
    return count == 0 ? *(size_t *)context : 3;
}

// Whoever holds the rest - another user's process, another program - is seen through the device.
static void the_device_has_a_say(void **test) {
    ft_ledger *a, *b;
    size_t first = 30;
    ft_ledger_device device = {.name = "say", .capacity = 100, .unused = three_left, .context = &first};
    ok(ft_ledger_open(&device, &a));
    ok(ft_ledger_open(&device, &b));
    assert_int_equal(state_of(a).free, 30);
    assert_false(entered(a, 31, 0));
    assert_true(entered(a, 30, 0));
    assert_int_equal(state_of(b).free, 3);
    assert_false(entered(b, 4, 0));
    assert_true(entered(b, 3, 0));
    ft_ledger_close(a);
    ft_ledger_close(b);
}

static void devices_are_apart(void **test) {
    ft_ledger *a = opened("one", 100), *b = opened("other", 100);
    assert_true(entered(a, 100, 0));
    assert_true(entered(b, 100, 0));
    ft_ledger_close(a);
    ft_ledger_close(b);
}

static void there_is_an_end_to_entries(void **test) {
    static ft_ledger *all[FT_LEDGER_ENTRIES + 1];
    for (int i = 0; i <= FT_LEDGER_ENTRIES; i++)
        all[i] = opened("many", 1 << 20);
    for (int i = 0; i < FT_LEDGER_ENTRIES; i++)
        assert_true(entered(all[i], 1, 0));
    assert_false(entered(all[FT_LEDGER_ENTRIES], 1, 0));
    assert_int_equal(state_of(all[0]).count, FT_LEDGER_ENTRIES);
    ft_ledger_close(all[7]); // a hole in the middle is used again
    assert_true(entered(all[FT_LEDGER_ENTRIES], 1, 0));
    for (int i = 0; i <= FT_LEDGER_ENTRIES; i++)
        if (i != 7) ft_ledger_close(all[i]);
    assert_int_equal(size_of("many"), 0);
}

// ---- the dead, and files that are not as they should be ----------------------------------------------------------

static pid_t start(void (*work)(void *), void *argument) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        work(argument);
        _exit(0);
    }
    return pid;
}
static void reap(pid_t pid) { assert_int_equal(waitpid(pid, NULL, 0), pid); }

static void enter_and_stay(void *argument) {
    int *pipe_ends = argument;
    ft_ledger *ledger;
    ft_ledger_state s;
    bool done = false;
    if (ft_ledger_open(&(ft_ledger_device){.name = "dead", .capacity = 100}, &ledger) == FT_OK)
        (void)ft_ledger_enter(ledger, 80, 0, &s, &done);
    if (write(pipe_ends[1], done ? "y" : "n", 1) == 1) pause();
}

static void the_dead_are_removed(void **test) {
    int ends[2];
    char answer;
    ft_ledger *a = opened("dead", 100);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = start(enter_and_stay, ends);
    assert_int_equal(read(ends[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_int_equal(state_of(a).reservations[0].pid, pid);
    assert_false(entered(a, 21, 0));
    kill(pid, SIGSTOP); // stopped is not dead
    assert_false(entered(a, 21, 0));
    kill(pid, SIGKILL);
    reap(pid);
    assert_true(entered(a, 100, 0));
    assert_int_equal(state_of(a).count, 1);
    ft_ledger_close(a);
    assert_int_equal(size_of("dead"), 0);
    close(ends[0]);
    close(ends[1]);
}

static void put(const char *device, const char *text) {
    FILE *f = fopen(path_of(device), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

// Its pid lives - it is this process - and yet nobody holds its lock: the pid was used again.
static void a_reused_pid_is_not_mistaken(void **test) {
    char text[256];
    ft_ledger *a = opened("reused", 100);
    assert_true(entered(a, 100, 0));
    FILE *f = fopen(path_of("reused"), "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    ft_ledger_close(a);
    put("reused", text);
    a = opened("reused", 100);
    assert_int_equal(state_of(a).count, 0);
    assert_int_equal(size_of("reused"), 0);
    ft_ledger_close(a);
}

static void rubbish_is_nobodys(void **test) {
    put("rubbish", "half a rec");
    ft_ledger *a = opened("rubbish", 100), *b = opened("rubbish", 100);
    assert_true(entered(a, 60, 0));
    assert_int_equal(state_of(b).reserved, 60);
    // But a living owner's record that cannot be read is not taken for nothing.
    int fd = open(path_of("rubbish"), O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 60), 1);
    close(fd);
    ft_ledger_state s;
    assert_int_equal(ft_ledger_read(b, &s), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "damaged"));
    ft_ledger_close(a);
    assert_int_equal(state_of(b).count, 0); // and goes with it
    ft_ledger_close(b);
}

static void a_removed_file_is_made_anew(void **test) {
    ft_ledger *a = opened("removed", 100), *b;
    assert_int_equal(unlink(path_of("removed")), 0);
    b = opened("removed", 100);
    assert_true(entered(b, 60, 0));
    assert_false(entered(a, 60, 0)); // a looks at the file that is there now
    ft_ledger_close(b);
    assert_true(entered(a, 60, 0));
    ft_ledger_close(a);
}

static void a_place_that_cannot_be(void **test) {
    ft_ledger *a;
    char path[160];
    snprintf(path, sizeof path, "%s/file", scratch);
    assert_int_equal(ft_atomic_write(path, "", 0), FT_OK);
    setenv("FTENGINE_LEDGER_DIR", path, 1);
    assert_int_equal(ft_ledger_open(&(ft_ledger_device){.name = "cpu", .capacity = 1}, &a), FT_INVALID);
    assert_null(a);
    assert_non_null(strstr(ft_error_message(), path));
    setenv("FTENGINE_LEDGER_DIR", scratch, 1);
    assert_int_equal(symlink(path, path_of("link")), 0);
    assert_int_equal(ft_ledger_open(&(ft_ledger_device){.name = "link", .capacity = 1}, &a), FT_INVALID);
}

static void a_process_is_known_by_its_start(void **test) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(ft_process_started(getpid()) > 0);
    assert_int_equal(ft_process_started(getpid()), ft_process_started(getpid()));
    assert_true(ft_process_resident(getpid()) > 100000);
    pid_t pid = start(enter_and_stay, ends);
    assert_true(ft_process_started(pid) >= ft_process_started(getpid()));
    kill(pid, SIGKILL);
    reap(pid);
    assert_int_equal(ft_process_started(pid), 0);
    assert_int_equal(ft_process_resident(pid), 0);
    close(ends[0]);
    close(ends[1]);
}

// ---- under fire --------------------------------------------------------------------------------------------------

enum { WORKERS = 8, CAPACITY = 100, LARGEST = 60, DOOMED = 0x80 };

// A device, and the host's memory: half of the runs are on the device and pin some of the host's, the others are on the host.
enum { ON_DEVICE, ON_HOST, LEDGERS };
static const char *const fire[LEDGERS] = {"fire", "fire-host"};

// A witness beside each ledger, in memory that all processes share: eight bits a worker, in one word, so that a look
// sees all at one moment. Seven are what the worker has in, from just after it entered to just before it leaves; they
// never say more than is true, so a sum above the capacity is a broken promise. The eighth is set by who is about to
// kill the worker: from then on it counts nothing, for between its death and the next look others may have what it had.
typedef struct witness {
    _Atomic uint64_t held[LEDGERS];
    _Atomic int64_t entered, refused, broken, failed;
    char failure[256];
} witness;
static witness *shared;

static void count_as(int which, int seat, uint64_t bytes) {
    uint64_t old = shared->held[which], mask = (uint64_t)0xFF << 8 * seat;
    do
        if ((old >> 8 * seat & DOOMED) != 0) return;
    while (!atomic_compare_exchange_weak(&shared->held[which], &old, (old & ~mask) | bytes << 8 * seat));
}

static void watch(int which) {
    uint64_t held = shared->held[which], sum = 0;
    for (int i = 0; i < WORKERS; i++)
        sum += held >> 8 * i & 0x7F;
    if (sum > CAPACITY) shared->broken++;
}

static bool come(int which, int seat, uint64_t bytes, ft_ledger **ledger) {
    ft_ledger_state s = {.count = 0};
    bool done = false;
    ft_status status = ft_ledger_open(&(ft_ledger_device){.name = fire[which], .capacity = CAPACITY}, ledger);
    if (status == FT_OK) status = ft_ledger_enter(*ledger, (size_t)bytes, 0, &s, &done);
    if (status != FT_OK || s.reserved > CAPACITY || s.count > WORKERS) {
        snprintf(shared->failure, sizeof shared->failure, "%s: %s; %zu reserved by %d", fire[which], ft_error_message(), s.reserved, s.count);
        shared->failed++;
    }
    if (!done) {
        shared->refused++;
        return false;
    }
    count_as(which, seat, bytes);
    shared->entered++;
    watch(which);
    return true;
}

static void come_and_go(void *argument) {
    const int seat = *(const int *)argument;
    uint64_t random = (uint64_t)getpid() * 0x9E3779B97F4A7C15u ^ (uint64_t)time(NULL);
    for (;;) {
        ft_ledger *in[LEDGERS] = {NULL};
        random = ft_splitmix64(random);
        const bool on_host = (random >> 40) % 2;
        if ((on_host || come(ON_DEVICE, seat, 1 + random % LARGEST, &in[ON_DEVICE])) &&
            come(ON_HOST, seat, 1 + (random >> 8) % LARGEST, &in[ON_HOST]))
            usleep((useconds_t)(random >> 20) % 2000);
        for (int which = LEDGERS; which-- > 0;) {
            count_as(which, seat, 0);
            ft_ledger_close(in[which]);
        }
    }
}

static void doom(pid_t worker, int seat, int64_t *killed_inside) {
    bool inside = false;
    for (int which = 0; which < LEDGERS; which++) {
        uint64_t before = atomic_fetch_or(&shared->held[which], (uint64_t)DOOMED << 8 * seat);
        atomic_fetch_and(&shared->held[which], ~((uint64_t)0x7F << 8 * seat));
        inside = inside || (before >> 8 * seat & 0x7F) > 0;
    }
    *killed_inside += inside;
    kill(worker, SIGKILL);
    reap(worker);
    for (int which = 0; which < LEDGERS; which++) atomic_fetch_and(&shared->held[which], ~((uint64_t)0xFF << 8 * seat));
}

// FT_LEDGER_FIRE_SECONDS: for so long, instead of two.
static void under_fire(void **test) {
    const char *text = getenv("FT_LEDGER_FIRE_SECONDS");
    const double seconds = text != NULL ? atof(text) : 2;
    pid_t workers[WORKERS];
    int64_t killed = 0, killed_inside = 0;
    uint64_t random = 42;
    struct timespec now, begun;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (int i = 0; i < WORKERS; i++)
        workers[i] = start(come_and_go, &i);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        random = ft_splitmix64(random);
        usleep((useconds_t)(random >> 20) % 8000);
        int i = (int)(random % WORKERS);
        doom(workers[i], i, &killed_inside);
        killed++;
        workers[i] = start(come_and_go, &i);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - begun.tv_nsec) < seconds);
    for (int i = 0; i < WORKERS; i++)
        doom(workers[i], i, &killed_inside);
    print_message("%d killed, %d of them with a reservation; %d entered, %d refused\n", (int)killed, (int)killed_inside,
                  (int)shared->entered, (int)shared->refused);
    if (shared->failed > 0) fail_msg("%d failed: %s", (int)shared->failed, shared->failure);
    assert_int_equal(shared->broken, 0);
    assert_true(killed_inside > 0 && shared->entered > killed && shared->refused > 0); // it was a fire
    // Nothing is left behind: everything can be had again, and the file is empty afterwards.
    for (int which = 0; which < LEDGERS; which++) {
        ft_ledger *ledger = opened(fire[which], CAPACITY);
        assert_int_equal(state_of(ledger).count, 0);
        assert_true(entered(ledger, CAPACITY, CAPACITY));
        ft_ledger_close(ledger);
        assert_int_equal(size_of(fire[which]), 0);
    }
    munmap(shared, sizeof *shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enters_as_it_fits),
        cmocka_unit_test(a_second_reservation_is_an_error),
        cmocka_unit_test(a_reservation_becomes_less),
        cmocka_unit_test(the_device_has_a_say),
        cmocka_unit_test(devices_are_apart),
        cmocka_unit_test(there_is_an_end_to_entries),
        cmocka_unit_test(the_dead_are_removed),
        cmocka_unit_test(a_reused_pid_is_not_mistaken),
        cmocka_unit_test(rubbish_is_nobodys),
        cmocka_unit_test(a_removed_file_is_made_anew),
        cmocka_unit_test(a_place_that_cannot_be),
        cmocka_unit_test(a_process_is_known_by_its_start),
        cmocka_unit_test(under_fire),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
