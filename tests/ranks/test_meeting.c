// Ranks of one host meet, agree and are handed things; each is a thread here, with errors of its own, which the sockets
// do not know.
#include "engine/ranks/link.h"
#include "engine/ranks/meeting.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, LONG = 300 };

typedef struct part {
    ft_rank me;
    double seconds;
    int (*play)(struct part *p, ft_meeting *m); // what it does when it has met; a status
    const char *value;                          // what it brings
    int status;
    ft_error error;
    char text[64];
} part;

static void *run_part(void *context) {
    part *p = context;
    ft_meeting *m;
    ft_error_clear();
    p->status = ft_meeting_open(&p->me, p->seconds, &m);
    if (p->status == FT_OK && p->play != NULL) p->status = p->play(p, m);
    ft_error_save(&p->error);
    ft_meeting_close(m);
    return NULL;
}

static ft_rank rank_of(int rank, int size, const char *name) {
    ft_rank k = {.launcher = FT_LAUNCHER_TORCHRUN,
                 .rank = rank,
                 .size = size,
                 .local_rank = rank,
                 .local_size = size,
                 .proxy = -1};
    snprintf(k.job, sizeof k.job, "test %ld %s", (long)getpid(), name);
    return k;
}

static void prepare(part *parts, int count, const char *name, int (*play)(part *p, ft_meeting *m)) {
    for (int r = 0; r < count; r++)
        parts[r] = (part){.me = rank_of(r, count, name), .seconds = LONG, .play = play, .value = "same"};
}

static void play(part *parts, int count) {
    pthread_t threads[RANKS + 1];
    for (int r = 0; r < count; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_part, &parts[r]), 0);
    for (int r = 0; r < count; r++)
        pthread_join(threads[r], NULL);
}

// Rank 0 hands out a file in memory, in which each leaves its mark; all agree on a fact, and then look.
static int share(part *p, ft_meeting *m) {
    const char mark = (char)('a' + p->me.rank);
    int file = p->me.rank == 0 ? (int)syscall(SYS_memfd_create, "test", 1U) : -1;
    snprintf(p->text, sizeof p->text, "%s",
             p->me.rank == 0 ? "runs/caf\xe9-001" : ""); // the name of a directory may be any bytes
    FT_TRY(ft_meeting_spread(m, p->text, sizeof p->text));
    FT_TRY(ft_meeting_hand_out(m, &file));
    if (pwrite(file, &mark, 1, p->me.rank) != 1) return ft_fail(FT_FAILED, NULL, "cannot write");
    FT_TRY(ft_meeting_agree(m, 2, (ft_fact[]){{"version", "1"}, {"configuration", p->value}}));
    char marks[RANKS + 1] = "";
    if (pread(file, marks, RANKS, 0) != RANKS || strcmp(marks, "abcd") != 0)
        return ft_fail(FT_FAILED, NULL, "not the same file");
    close(file);
    return ft_meeting_all(m, FT_OK);
}

static void ranks_meet(void **state) {
    part parts[RANKS];
    prepare(parts, RANKS, "meet", share);
    play(parts, RANKS);
    for (int r = 0; r < RANKS; r++) {
        if (parts[r].status != FT_OK) fail_msg("rank %d: %s", r, parts[r].error.message);
        assert_string_equal(parts[r].text, "runs/caf\xe9-001");
    }
}

static void a_difference_is_named(void **state) {
    part parts[RANKS];
    char expected[200];
    prepare(parts, RANKS, "differ", share);
    parts[2].value = "other";
    play(parts, RANKS);
    snprintf(expected, sizeof expected, "rank 2 (process %ld) has another configuration than rank 0: other, not same",
             (long)getpid());
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(parts[r].status, FT_INVALID);
        assert_string_equal(parts[r].error.message, expected);
        assert_string_equal(parts[r].error.where, "ranks");
    }
}

static int fail_with_hint(part *p, ft_meeting *m) {
    ft_status status = FT_OK;
    if (strcmp(p->value, "bad") == 0) {
        status = ft_fail(FT_NO_MEMORY, "data.train", "too \"large\"");
        ft_hint("take less");
    }
    return ft_meeting_all(m, status);
}

static void a_failure_is_everybodys(void **state) {
    for (int bad = 0; bad < RANKS; bad++) {
        part parts[RANKS];
        char expected[200];
        prepare(parts, RANKS, "fail", fail_with_hint);
        parts[bad].value = "bad";
        play(parts, RANKS);
        snprintf(expected, sizeof expected, "rank %d (process %ld): too \"large\"", bad, (long)getpid());
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(parts[r].status, FT_NO_MEMORY);
            assert_string_equal(parts[r].error.message, expected);
            assert_string_equal(parts[r].error.where, "data.train");
            assert_int_equal(parts[r].error.hints, 1);
            assert_string_equal(parts[r].error.hint[0], "take less");
        }
    }
}

static int leave_or_wait(part *p, ft_meeting *m) {
    return strcmp(p->value, "leaves") == 0 ? FT_OK : (int)ft_meeting_agree(m, 1, (ft_fact[]){{"version", "1"}});
}

// Whoever is left learns it at once, from the end of a connection.
static void an_end_is_noticed(void **state) {
    for (int leaves = 0; leaves < 2; leaves++) {
        part parts[2];
        char expected[200];
        prepare(parts, 2, "leave", leave_or_wait);
        parts[leaves].value = "leaves";
        play(parts, 2);
        snprintf(expected, sizeof expected, "rank %d", leaves);
        assert_int_equal(parts[!leaves].status, FT_FAILED);
        assert_memory_equal(parts[!leaves].error.message, expected, strlen(expected));
        assert_non_null(strstr(parts[!leaves].error.message, "ended while ranks compared what they are about to do"));
    }
}

static int say_a_word(part *p, ft_meeting *m) {
    if (p->me.rank == 0 && strcmp(p->value, "leaves") == 0) return FT_OK;
    return ft_meeting_word(m, LONG) ? FT_OK : FT_FAILED;
}

static void a_last_word_is_heard(void **state) {
    for (int leaves = 0; leaves < 2; leaves++) {
        part parts[2];
        prepare(parts, 2, "word", say_a_word);
        if (leaves) parts[0].value = "leaves";
        play(parts, 2);
        assert_int_equal(parts[0].status, FT_OK);
        assert_int_equal(parts[1].status, leaves ? FT_FAILED : FT_OK);
    }
}

static void who_does_not_come_is_named(void **state) {
    part parts[2];
    for (int there = 0; there < 2; there++) {
        prepare(parts, 2, "absent", NULL);
        parts[there].seconds = 0.05;
        play(&parts[there], 1);
        assert_int_equal(parts[there].status, FT_FAILED);
        assert_non_null(strstr(parts[there].error.message, there == 0
                                                               ? "1 of 2 ranks did not come within 0 seconds: rank 1"
                                                               : "rank 1 waited 0 seconds for rank 0"));
    }
}

// Two that are the same rank; one that counts others; one that is no rank at all.
static void strangers_are_refused(void **state) {
    part parts[3];
    prepare(parts, 3, "twice", NULL);
    parts[2].me.rank = 1;
    play(parts, 3);
    assert_int_equal(parts[0].status, FT_FAILED);
    assert_non_null(strstr(parts[0].error.message, "both are rank 1"));
    assert_true(parts[1].status != FT_OK && parts[2].status != FT_OK);

    for (int i = 0; i < 2; i++) {
        static const char *const greetings[] = {"h1 3 77", "hello"}, *const refused[] = {
                                                                         "rank 1 counts 3 ranks, rank 0 counts 2",
                                                                         "calls itself 'ello'"};
        ft_link_name name;
        pthread_t thread;
        int socket = -1;
        prepare(parts, 2, "stranger", NULL);
        assert_int_equal(pthread_create(&thread, NULL, run_part, &parts[0]), 0);
        assert_int_equal(ft_link_name_of(&parts[0].me, &name), FT_OK);
        while (socket < 0) {
            assert_int_equal(ft_link_connect(&name, &socket), FT_OK);
            usleep(1000);
        }
        assert_int_equal(ft_link_send(socket, greetings[i], strlen(greetings[i]), -1), FT_OK);
        pthread_join(thread, NULL);
        close(socket);
        assert_int_equal(parts[0].status, FT_FAILED);
        assert_non_null(strstr(parts[0].error.message, refused[i]));
    }
}

static void several_hosts_are_refused(void **state) {
    part p = {.me = rank_of(0, 4, "hosts"), .seconds = LONG};
    p.me.local_size = 2;
    play(&p, 1);
    assert_int_equal(p.status, FT_INVALID);
    assert_non_null(strstr(p.error.message, "torchrun has started 4 ranks, 2 of them on this host"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet),
        cmocka_unit_test(a_difference_is_named),
        cmocka_unit_test(a_failure_is_everybodys),
        cmocka_unit_test(an_end_is_noticed),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(several_hosts_are_refused),
        cmocka_unit_test(a_last_word_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
