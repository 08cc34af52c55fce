// Several GPUs, predicted: how gradients are cut into pieces, when their sums are through, what links are known. The
// expected figures are worked out by hand here, in round numbers.
#include "engine/model/state/shards.h"
#include "engine/plan/scaling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KI = 1024 }; // elements; 4 KiB

// A registry of groups, each of one parameter: where it begins, in Ki, and where it is complete.
typedef struct group {
    int begins, completes;
} group;

static ft_parameters registry(ft_parameter *list, int count, const group *groups, int end) {
    for (int i = 0; i < count; i++)
        list[i] = (ft_parameter){.offset = groups[i].begins * KI,
                                 .completes = groups[i].completes,
                                 .trainable = true,
                                 .starts_group = true,
                                 .store = FT_STORE_TRAINED};
    return (ft_parameters){.list = list, .count = count, .trainable = (int64_t)end * KI};
}

static void expect(const ft_parameters *p, size_t first, size_t bytes, int count, const int expected[][3]) {
    ft_bucket *buckets;
    int n;
    int64_t at = 0;
    assert_int_equal(ft_buckets_cut(p, first, bytes, &buckets, &n), FT_OK);
    assert_int_equal(n, count);
    for (int i = 0; i < n; i++) {
        assert_int_equal(buckets[i].first, (int64_t)expected[i][0] * KI);
        assert_int_equal(buckets[i].count, (int64_t)expected[i][1] * KI);
        assert_int_equal(buckets[i].completes, expected[i][2]);
        assert_int_equal(buckets[i].first, at); // nothing is left out
        at += buckets[i].count;
    }
    assert_int_equal(at, p->trainable);
    free(buckets);
}

static void gradients_are_cut(void **state) {
    ft_parameter list[8];
    // In order: the first bucket is closed from 4 Ki elements (16 KiB) on, others from 16 Ki (64 KiB).
    static const group plain[] = {{0, 0}, {2, 2}, {5, 3}, {15, 4}, {25, 5}, {30, 6}};
    ft_parameters p = registry(list, 6, plain, 90);
    expect(&p, 16 << 10, 64 << 10, 3, (const int[][3]){{0, 5, 2}, {5, 20, 4}, {25, 65, 6}});
    expect(&p, 1, 1, 6, (const int[][3]){{0, 2, 0}, {2, 3, 2}, {5, 10, 3}, {15, 10, 4}, {25, 5, 5}, {30, 60, 6}});
    expect(&p, SIZE_MAX, SIZE_MAX, 1, (const int[][3]){{0, 90, 6}});
    // Queries and keys of two layers are complete at the end alone: nobody waits for them.
    static const group late[] = {{0, 1}, {10, 9}, {20, 2}, {30, 9}, {40, 3}};
    p = registry(list, 5, late, 50);
    expect(&p, SIZE_MAX, SIZE_MAX, 5, (const int[][3]){{0, 10, 1}, {10, 10, 9}, {20, 10, 2}, {30, 10, 9}, {40, 10, 3}});
    // Their weights and biases, which are groups, together; what only follows late ones waits for no one behind it
    // either.
    static const group pairs[] = {{0, 1}, {10, 9}, {20, 9}, {30, 2}, {40, 9}, {50, 9}, {60, 8}};
    p = registry(list, 7, pairs, 70);
    expect(&p, SIZE_MAX, SIZE_MAX, 5, (const int[][3]){{0, 10, 1}, {10, 20, 9}, {30, 10, 2}, {40, 20, 9}, {60, 10, 8}});
    // What is frozen has no gradient, what joins a group goes with it, and a table stands at the end.
    p = registry(list, 5, plain, 60);
    list[0].trainable = false;
    list[1].offset = 0;
    list[2].starts_group = false, list[2].completes = 7;
    expect(&p, 1, 1, 3, (const int[][3]){{0, 15, 7}, {15, 10, 4}, {25, 35, 5}});
    list[1].trainable = list[2].trainable = list[3].trainable = list[4].trainable = false;
    p.trainable = 0;
    expect(&p, 1, 1, 0, NULL);
}

// Of a group the end of the step adds to the first part alone: the other waits for nobody, and nobody for it.
static void groups_are_parted(void **state) {
    static const group plain[] = {{0, 1}, {2, 9}, {3, 9}, {4, 2}, {6, 3}};
    ft_parameter list[8];
    ft_parameters p = registry(list, 5, plain, 9);
    ft_bucket *buckets;
    int n;
    p.table = -1;
    for (int i = 0; i < 5; i++)
        list[i].last = list[i].completes < 9 ? list[i].completes : 2;
    list[2].starts_group = list[3].starts_group = false;
    expect(&p, SIZE_MAX, SIZE_MAX, 4, (const int[][3]){{0, 2, 1}, {2, 2, 9}, {4, 2, 2}, {6, 3, 3}});
    assert_int_equal(ft_buckets_cut(&p, SIZE_MAX, SIZE_MAX, &buckets, &n), FT_OK);
    for (int i = 0; i < n; i++)
        assert_true(buckets[i].joins == (i == 2) && buckets[i].late == (i == 1));
    free(buckets);
}

// A word table that texts alone add to stands by itself at the end, however small; what else is complete then goes with it.
static void words_stand_alone(void **state) {
    static const group plain[] = {{0, 0}, {2, 7}, {5, 7}};
    ft_parameter list[8];
    ft_parameters p = registry(list, 3, plain, 9);
    ft_bucket *buckets;
    int n;
    p.table = 2;
    for (int i = 0; i < 3; i++)
        list[i].arrives = list[i].last = list[i].completes;
    list[2].cols = KI, list[2].rows = list[2].trained = 4;
    expect(&p, SIZE_MAX, SIZE_MAX, 2, (const int[][3]){{0, 5, 7}, {5, 4, 7}});
    assert_int_equal(ft_buckets_of_step(&p, 1, 1, &buckets, &n), FT_OK);
    assert_true(n == 3 && !buckets[0].words && !buckets[1].words && buckets[2].words);
    assert_int_equal(ft_buckets_at_once(buckets, n, 0), 1);
    assert_int_equal(ft_buckets_at_once(buckets, n, 1), 2);
    assert_int_equal(ft_buckets_at_once(buckets, n, 2), 1);
    free(buckets);
    list[2].arrives = 0; // tied to a head
    expect(&p, SIZE_MAX, SIZE_MAX, 1, (const int[][3]){{0, 9, 7}});
}

static void parts_are_padded(void **state) {
    static const struct {
        int64_t count;
        int ranks;
        int64_t part;
    } cases[] = {{1, 1, 32768},     {32768, 1, 32768}, {32769, 1, 65536},    {32769, 2, 32768},
                 {65537, 2, 65536}, {1, 4, 32768},     {1000000, 4, 262144}, {1048576, 8, 131072}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(ft_bucket_part(&(ft_bucket){.count = cases[i].count}, cases[i].ranks), cases[i].part);
}

// What ranks have of a store is all of it, each element once, in parts that begin at whole lines and for which all have
// the same room.
static void parts_are_all(void **state) {
    const int64_t counts[] = {1, 63, 64, 65, 128, 1000, 4096, 99999};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int ranks = 1; ranks <= 9; ranks++) {
            int64_t end = 0;
            for (int r = 0; r < ranks; r++) {
                const ft_shard part = ft_shard_of(counts[i], r, ranks);
                assert_true(part.first == end && (part.count == 0 || part.first % 64 == 0) && part.count <= part.room);
                assert_int_equal(part.room, ft_shard_of(counts[i], 0, ranks).room);
                end = part.first + part.count;
            }
            assert_int_equal(end, counts[i]);
            assert_true(ft_shard_of(counts[i], 0, ranks).room * ranks < counts[i] + 64 * ranks);
        }
}

static bool near(double a, double b) { return fabs(a - b) < 1e-9; }

// Four ranks, 1 GB/s: 600 MB are 2 * 3 / 4 * 0.6 = 0.9 s, and each sum begins with 15 + 6 * 2 = 27 us.
static void sums_are_hidden(void **state) {
    const double begin = 27e-6;
    ft_scaling s = {.devices = 4, .link = {.bytes = 1e9}, .alone = 5};
    // All through before the backward pass is.
    const ft_reduction early[] = {{1, 200e6}, {2, 200e6}};
    ft_scaling_time(2, early, 4, 0.1, &s);
    assert_true(near(s.reducing, 0.6 + 2 * begin) && near(s.exposed, 0) && near(s.slowed, 0.06 + 0.2 * begin) &&
                near(s.step, 5 + s.slowed));
    // The last one begins with the end.
    const ft_reduction last[] = {{1, 200e6}, {4, 200e6}};
    ft_scaling_time(2, last, 4, 0, &s);
    assert_true(near(s.exposed, 0.3 + begin) && near(s.step, 5.3 + begin) && s.slowed == 0);
    // They wait for each other: 2 to 2.9, then 3.8, then 4.7.
    const ft_reduction busy[] = {{2, 600e6}, {2.1, 600e6}, {2.2, 600e6}};
    ft_scaling_time(3, busy, 4, 0, &s);
    assert_true(near(s.exposed, 0.7 + 3 * begin) && near(s.reducing, 2.7 + 3 * begin));
    // Two ranks send half as much between them.
    s.devices = 2;
    ft_scaling_time(1, last, 1, 0, &s);
    assert_true(near(s.exposed, 0.2 + 19e-6));
    ft_scaling_time(0, NULL, 1, 0.5, &s);
    assert_true(s.exposed == 0 && s.slowed == 0 && s.step == 5);
    // Rows of words are gathered and put back, which nothing hides; what others update is off the step, new weights are on it.
    s.words.seconds = 0.01, s.dealt = 0.5, s.spread = 0.2;
    ft_scaling_time(1, early, 4, 0.5, &s);
    assert_true(near(s.exposed, 0.01) && near(s.slowed, 0.1 + 0.5 * 19e-6) && near(s.step, 5 + s.exposed + s.slowed - 0.3));
}

static void links_are_known(void **state) {
    ft_link link;
    ft_rates rates;
    const ft_card *card;
    assert_int_equal(ft_link_find("nvlink4", &link), FT_OK);
    assert_true(link.bytes == 370e9);
    assert_int_equal(ft_link_find("12.5GB", &link), FT_OK);
    assert_true(link.bytes == 12.5e9);
    assert_int_equal(ft_link_find("nvlink", &link), FT_INVALID);
    assert_int_equal(ft_link_find("0GB", &link), FT_INVALID);
    for (int i = 0, known = 0; i < ft_card_count(); i++) {
        known += ft_link_of_card(ft_card_at(i), &link, &rates) == FT_OK;
        if (i + 1 == ft_card_count()) assert_int_equal(known, 12); // every row of the table names a card
    }
    assert_int_equal(ft_card_find("H200", &card), FT_OK);
    assert_int_equal(ft_link_of_card(card, &link, &rates), FT_OK);
    assert_string_equal(link.name, "nvlink4");
    assert_true(near(rates.flops / 1e12, 0.82 * 989) && near(rates.bytes / 1e9, 0.9 * 4800));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_cut), cmocka_unit_test(words_stand_alone), cmocka_unit_test(groups_are_parted),
                                       cmocka_unit_test(parts_are_padded),
                                       cmocka_unit_test(parts_are_all), cmocka_unit_test(sums_are_hidden),
                                       cmocka_unit_test(links_are_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
