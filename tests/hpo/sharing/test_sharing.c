// By how much trials slow each other down, against factors that were worked out by hand; and whether one more pays.
#include "hpo/sharing/sharing.h"

#include "kernels/devices/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 4 };

// A trial of a GPU has `device` and `link` of its step, one of a CPU uses `cores` and `memory` with the part `bound` of
// it.
#define GPU(device, link)                                                                                              \
    {                                                                                                                  \
        .turns = { device, link }                                                                                      \
    }
#define CPU(part)                                                                                                      \
    {                                                                                                                  \
        .use = {[FT_USE_CORES] = part}, .bound = { [FT_USE_CORES] = 1 }                                                \
    }
#define MEMORY(part, of)                                                                                               \
    {                                                                                                                  \
        .use = {[FT_USE_MEMORY] = part}, .bound = { [FT_USE_MEMORY] = of }                                             \
    }

static const struct {
    const char *what;
    int count;
    ft_demand demands[MOST];
    double slowdown[MOST];
} cases[] = {
    {"one alone", 1, {GPU(0.7, 0.1)}, {1}},
    {"two that always have the device", 2, {GPU(1, 0), GPU(1, 0)}, {2, 2}},
    // 1 + d1 d2: who comes meets the other one with probability d2, and waits as long as its own turn is.
    {"two that have it half of the time", 2, {GPU(0.5, 0), GPU(0.5, 0)}, {1.25, 1.25}},
    {"a small one beside a large one", 2, {GPU(1, 0), GPU(0.2, 0)}, {1.2, 1.2}},
    {"device and link are two queues", 2, {GPU(0.5, 0.5), GPU(0.5, 0.5)}, {1.5, 1.5}},
    {"one computes, one copies", 2, {GPU(1, 0), GPU(0, 1)}, {1, 1}},
    // Of any two: T = 1.25, in the queue 0.75 / 1.25 = 0.6 each. The third meets 1.2: 0.5 + 0.5 * 2.2.
    {"three that have it half of the time", 3, {GPU(0.5, 0), GPU(0.5, 0), GPU(0.5, 0)}, {1.6, 1.6, 1.6}},
    // 1 beside 0.5: T = 1.5 both; in the queue 1 and 1.0 / 1.5. 0.5 beside 0.5: 0.6 each.
    {"one large, two small",
     3,
     {GPU(1, 0), GPU(0.5, 0), GPU(0.5, 0)},
     {2.2, 0.5 + 0.5 * (2 + 2.0 / 3), 0.5 + 0.5 * (2 + 2.0 / 3)}},
    {"three that always have it", 3, {GPU(1, 0), GPU(1, 0), GPU(1, 0)}, {3, 3, 3}},
    // Copies beside computing: alone 1.2 of queues in a step of 1, nothing of its own.
    {"more than all of a step in queues", 2, {GPU(1, 0.2), GPU(1, 0)}, {2.2 / 1.2, 1 + 1 / 1.2}},
    {"cores for both", 2, {CPU(0.5), CPU(0.5)}, {1, 1}},
    {"half a core too few", 2, {CPU(0.5), CPU(0.75)}, {1.25, 1.25}},
    {"two threads each of two cores", 2, {CPU(1), CPU(1)}, {2, 2}},
    {"four of half the cores", 4, {CPU(0.5), CPU(0.5), CPU(0.5), CPU(0.5)}, {2, 2, 2, 2}},
    {"memory for both", 2, {MEMORY(0.6, 0.6), MEMORY(0.4, 0.4)}, {1, 1}},
    // 1.2 / (1 + 0.6 (x - 1)) = 1: x = 4/3.
    {"memory that both need for 0.6", 2, {MEMORY(0.6, 0.6), MEMORY(0.6, 0.6)}, {1.2, 1.2}},
    // 1 / x + 0.5 / (1 + 0.5 (x - 1)) = 1: x x - x - 1 = 0, the golden ratio.
    {"one that only moves, one for half its time",
     2,
     {MEMORY(1, 1), MEMORY(0.5, 0.5)},
     {1.618033988749895, 1.3090169943749475}},
    {"who needs none of it is not slowed down", 3, {MEMORY(1, 1), MEMORY(1, 1), MEMORY(0, 0)}, {2, 2, 1}},
    {"who moves and who computes", 2, {CPU(0.5), MEMORY(1, 1)}, {1, 1}},
};

static void test_factors(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double slowdown[MOST];
        assert_true(ft_sharing_slowdowns(cases[i].count, cases[i].demands, slowdown));
        for (int k = 0; k < cases[i].count; k++)
            if (!(fabs(slowdown[k] - cases[i].slowdown[k]) < 1e-9))
                fail_msg("%s: trial %d is slowed down %.12g times, by hand %.12g", cases[i].what, k, slowdown[k],
                         cases[i].slowdown[k]);
    }
}

// In whichever order they stand, no more is used than there is; and where there is one queue, nobody is helped by who
// comes. (Of two queues it may keep others in the one who would have been in the other.)
static void test_laws(void **state) {
    unsigned seed = 7;
    for (int round = 0; round < 300; round++) {
        ft_demand d[6];
        double all[6], fewer[6], reversed[6];
        for (int i = 0; i < 6; i++) {
            const double device = rand_r(&seed) % 101 / 100.0, moving = rand_r(&seed) % 101 / 100.0;
            d[i] = (ft_demand){.turns = {device, round % 2 * (1 - device) * (rand_r(&seed) % 101 / 100.0)}};
            d[i].use[FT_USE_MEMORY] = d[i].bound[FT_USE_MEMORY] = moving;
            d[i].use[FT_USE_CORES] = rand_r(&seed) % 101 / 100.0;
            d[i].bound[FT_USE_CORES] = 1;
        }
        assert_true(ft_sharing_slowdowns(6, d, all) && ft_sharing_slowdowns(5, d, fewer));
        double uses[FT_USES] = {0}, device = 0;
        for (int i = 0; i < 6; i++) {
            assert_true(all[i] >= 1 && (i == 5 || round % 2 == 1 || all[i] >= fewer[i] - 1e-9));
            for (int use = 0; use < FT_USES; use++)
                uses[use] += d[i].use[use] / all[i];
            device += d[i].turns[FT_TURN_DEVICE] / all[i];
        }
        for (int use = 0; use < FT_USES; use++)
            assert_true(uses[use] <= 1 + 1e-9);
        assert_true(device <= 1 + 1e-9);
        for (int i = 0; i < 3; i++) {
            const ft_demand one = d[i];
            d[i] = d[5 - i];
            d[5 - i] = one;
        }
        assert_true(ft_sharing_slowdowns(6, d, reversed));
        for (int i = 0; i < 6; i++)
            assert_true(fabs(reversed[5 - i] - all[i]) < 1e-9);
    }
}

static const struct {
    const char *what;
    int count;
    ft_demand demands[MOST];
    double adds;
    bool pays;
} further[] = {
    {"an empty device", 1, {GPU(1, 0)}, 1, true},
    {"a device that one fills", 2, {GPU(1, 0), GPU(1, 0)}, 0, false},
    {"half of the time", 2, {GPU(0.5, 0), GPU(0.5, 0)}, 0.6, true},           // 2 / 1.25
    {"a little gap", 2, {GPU(0.95, 0), GPU(0.95, 0)}, 2 / 1.9025 - 1, false}, // 0.051
    {"a larger gap", 2, {GPU(0.9, 0), GPU(0.9, 0)}, 2 / 1.81 - 1, true},      // 0.105
    {"a third one of halves", 3, {GPU(0.5, 0), GPU(0.5, 0), GPU(0.5, 0)}, 3 / 1.6 - 1.6, true},
    {"no core is free", 2, {CPU(1), CPU(0.5)}, 2 / 1.5 - 1, true}, // alone the small one would leave one idle
    {"no core is free for another like it", 2, {CPU(1), CPU(1)}, 0, false},
    {"a third one on two cores", 3, {CPU(0.5), CPU(0.5), CPU(0.5)}, 0, false},
    {"a core for each", 2, {CPU(0.5), CPU(0.5)}, 1, true},
    {"memory that one fills", 2, {MEMORY(1, 1), MEMORY(1, 1)}, 0, false},
};

static void test_whether_one_more_pays(void **state) {
    for (size_t i = 0; i < sizeof further / sizeof further[0]; i++) {
        double adds;
        const bool pays = ft_sharing_pays(further[i].count, further[i].demands, &adds);
        if (!(fabs(adds - further[i].adds) < 1e-9) || pays != further[i].pays)
            fail_msg("%s: adds %.12g (%s), by hand %.12g", further[i].what, adds, pays ? "pays" : "does not pay",
                     further[i].adds);
    }
}

// Each of those that take turns doubles the work; cores have no such end.
static void test_many(void **state) {
    ft_demand gpu[FT_SHARING_TURNS + 1], cpu[FT_SHARING_MOST];
    double slowdown[FT_SHARING_MOST], adds = 0;
    for (int i = 0; i <= FT_SHARING_TURNS; i++)
        gpu[i] = (ft_demand)GPU(0.01, 0);
    for (int i = 0; i < FT_SHARING_MOST; i++)
        cpu[i] = (ft_demand)CPU(1.0 / FT_SHARING_MOST);
    assert_true(ft_sharing_slowdowns(FT_SHARING_TURNS, gpu, slowdown) && slowdown[0] < 1.01);
    assert_false(ft_sharing_slowdowns(FT_SHARING_TURNS + 1, gpu, slowdown));
    assert_false(ft_sharing_pays(FT_SHARING_TURNS + 1, gpu, &adds));
    assert_true(isnan(adds));
    assert_true(ft_sharing_pays(FT_SHARING_MOST, cpu, &adds)); // all of 256 have a core
    assert_true(fabs(adds - 1) < 1e-9);
}

// ---- from the price of a step

static void test_of_a_price(void **state) {
    // 10 ms: kernels for 6, in which arithmetic is busy for 5 and memory for 3, 4 to start them, and 1 of copies
    // beside.
    ft_step_price gpu = {
        .seconds = 0.010,
        .work = {.occupied = 0.006, .computing = 0.005, .moving = 0.003, .starting = 0.004, .travelling = 0.001}};
    ft_demand d = ft_demand_of(&gpu, 8, false);
    assert_true(fabs(d.turns[FT_TURN_DEVICE] - 0.6) < 1e-12 && fabs(d.turns[FT_TURN_LINK] - 0.1) < 1e-12);
    assert_true(fabs(d.use[FT_USE_CORES] - 0.05) < 1e-12 && fabs(d.bound[FT_USE_CORES] - 0.4) < 1e-12);
    assert_true(d.use[FT_USE_ARITHMETIC] == 0 && d.use[FT_USE_MEMORY] == 0);
    assert_true(fabs(d.share - 0.6) < 1e-12);
    d = ft_demand_of(&gpu, 8, true); // under MPS
    assert_true(d.turns[FT_TURN_DEVICE] == 0 && fabs(d.use[FT_USE_ARITHMETIC] - 0.5) < 1e-12 &&
                fabs(d.bound[FT_USE_MEMORY] - 0.3) < 1e-12);
    assert_true(fabs(d.share - 0.5) < 1e-12);
    d = ft_demand_of(&gpu, 1, false); // its core is no part of the GPU
    assert_true(fabs(d.use[FT_USE_CORES] - 0.4) < 1e-12 && fabs(d.share - 0.6) < 1e-12);
    gpu.work.occupied = 0.001;
    d = ft_demand_of(&gpu, 1, false);
    assert_true(fabs(d.share - 0.1) < 1e-12);
    // A thread of two cores moves half of what both would.
    ft_step_price cpu = {.seconds = 0.010,
                         .work = {.occupied = 0.009, .computing = 0.007, .moving = 0.004, .starting = 0.001},
                         .threads = 1};
    d = ft_demand_of(&cpu, 2, false);
    assert_true(d.use[FT_USE_CORES] == 0.5 && d.bound[FT_USE_CORES] == 1 && d.turns[FT_TURN_DEVICE] == 0);
    assert_true(fabs(d.use[FT_USE_MEMORY] - 0.2) < 1e-12 && fabs(d.bound[FT_USE_MEMORY] - 0.4) < 1e-12);
    assert_true(d.share == 0.5);
    cpu.threads = 8; // its 80e9 bytes a second are a quarter of what 64 cores are thought to move
    d = ft_demand_of(&cpu, 64, false);
    assert_true(fabs(d.use[FT_USE_MEMORY] - 0.1) < 1e-12 && d.use[FT_USE_CORES] == 0.125);
    cpu.threads = 4; // more than there are
    d = ft_demand_of(&cpu, 2, false);
    assert_true(d.use[FT_USE_CORES] == 2 && d.share == 1);
}

static void test_mps_is_seen_by_its_pipe(void **state) {
    char directory[] = "/tmp/ftengine-mps-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    assert_int_equal(setenv("CUDA_MPS_PIPE_DIRECTORY", directory, 1), 0);
    assert_false(ft_sharing_has_mps());
    snprintf(path, sizeof path, "%s/control", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(ft_sharing_has_mps());
    assert_int_equal(unlink(path) | rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_whether_one_more_pays),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_of_a_price),
        cmocka_unit_test(test_mps_is_seen_by_its_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
