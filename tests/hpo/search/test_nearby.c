// What the places of trials let expect of them: means around a place in a table of cases, by hand; kernels of pairs
// that are brought up to date have the bits of those made at once; widths tell what decides from what does not.
#include "hpo/search/curves/nearby.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AXES = 2, MOST = 40 };

typedef struct world {
    double at[MOST * AXES], value[MOST], trust[MOST], width[AXES], kernel[MOST * MOST];
    bool choice[AXES];
    ft_nearby nearby;
} world;

static void open_world(world *w, int64_t count) {
    w->nearby = (ft_nearby){.axes = AXES,
                            .choice = w->choice,
                            .count = count,
                            .room = MOST,
                            .at = w->at,
                            .value = w->value,
                            .trust = w->trust,
                            .width = w->width,
                            .kernel = w->kernel};
}

// A parameter in parts of its range, a choice, value, trust.
typedef struct one {
    double x, choice, value, trust;
} one;

static const struct {
    const char *name;
    one trials[3];
    int count;
    double x, choice; // asked about
    int64_t without;
    double expected, mass;
} cases[] = {
    // Weight exp(-1/8) = 0.8824969025845955 half a width away, 0.1 of the mean, which is 0.5.
    {"nobody", {{0, 0, 0, 0}}, 0, 0.5, 0, -1, 0.5, 0},
    {"on the spot", {{0.3, 1, 0.9, 1}}, 1, 0.3, 1, -1, (0.05 + 0.9) / 1.1, 1},
    {"half a width away",
     {{0.3, 1, 0.9, 1}},
     1,
     0.4,
     1,
     -1,
     (0.05 + 0.9 * 0.8824969025845955) / 0.9824969025845955,
     0.8824969025845955},
    {"hardly known", {{0.3, 1, 0.9, 0.1}}, 1, 0.3, 1, -1, (0.05 + 0.09) / 0.2, 0.1},
    {"not known", {{0.3, 1, 0.9, 0}}, 1, 0.3, 1, -1, 0.5, 0},
    {"two of them",
     {{0.3, 1, 0.9, 1}, {0.5, 1, 0.1, 1}},
     2,
     0.4,
     1,
     -1,
     (0.05 + 0.8824969025845955) / (0.1 + 2 * 0.8824969025845955),
     2 * 0.8824969025845955},
    {"without the second", {{0.3, 1, 0.9, 1}, {0.5, 1, 0.1, 1}}, 2, 0.3, 1, 1, (0.05 + 0.9) / 1.1, 1},
    // A choice has the width 1: another one is exp(-1/2) = 0.6065306597126334.
    {"another choice",
     {{0.3, 1, 0.9, 1}},
     1,
     0.3,
     0,
     -1,
     (0.05 + 0.9 * 0.6065306597126334) / 0.7065306597126334,
     0.6065306597126334},
    {"choices have no distance",
     {{0.3, 7, 0.9, 1}},
     1,
     0.3,
     0,
     -1,
     (0.05 + 0.9 * 0.6065306597126334) / 0.7065306597126334,
     0.6065306597126334},
    {"it lacks the choice", {{0.3, NAN, 0.9, 1}}, 1, 0.3, 0, -1, (0.05 + 0.9) / 1.1, 1},
    {"asked without the number", {{0.3, 1, 0.9, 1}}, 1, NAN, 1, -1, (0.05 + 0.9) / 1.1, 1},
    {"far away", {{0, 1, 0.9, 1}}, 1, 1.2, 1, -1, 0.5, 0},
};

static void test_ask(void **state) {
    static world w;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        w = (world){.width = {0.2, 1}, .choice = {false, true}};
        for (int i = 0; i < cases[c].count; i++) {
            const one *t = &cases[c].trials[i];
            w.at[AXES * i] = t->x, w.at[AXES * i + 1] = t->choice;
            w.value[i] = t->value, w.trust[i] = t->trust;
        }
        open_world(&w, cases[c].count);
        w.nearby.mean = 0.5;
        double mass;
        const double at[AXES] = {cases[c].x, cases[c].choice},
                     got = ft_nearby_ask(&w.nearby, at, cases[c].without, &mass);
        if (!(fabs(got - cases[c].expected) < 1e-12 && fabs(mass - cases[c].mass) < 1e-12))
            fail_msg("%s: %.15g of %.15g, not %.15g of %.15g", cases[c].name, got, mass, cases[c].expected,
                     cases[c].mass);
    }
}

// Values that the first axis decides by a wave, the choice with `step`; the rest is places that tell nothing.
static void fill(world *w, double step) {
    for (int i = 0; i < MOST; i++) {
        w->at[AXES * i] = fmod(0.37 + 0.6180339887498949 * i, 1);
        w->at[AXES * i + 1] = i * 7 % 3;
        w->value[i] = sin(9 * w->at[AXES * i]) + step * (i * 7 % 3 == 1);
        w->trust[i] = i % 5 == 0 ? 0.3 : 1;
    }
}

static void test_pairs(void **state) {
    static world w, whole;
    w = (world){.width = {0.1, 1}, .choice = {false, true}};
    fill(&w, 0.5);
    open_world(&w, MOST / 2);
    ft_nearby_weigh(&w.nearby, 0);
    w.nearby.count = MOST;
    ft_nearby_weigh(&w.nearby, MOST / 2);
    whole = w;
    open_world(&whole, MOST);
    memset(whole.kernel, 0, sizeof whole.kernel);
    ft_nearby_weigh(&whole.nearby, 0);
    assert_memory_equal(w.kernel, whole.kernel, sizeof w.kernel);
    for (int64_t i = 0; i < MOST; i++) {
        double mass;
        const double asked = ft_nearby_ask(&w.nearby, w.at + AXES * i, i, &mass),
                     expected = ft_nearby_expect(&w.nearby, i);
        if (!(fabs(asked - expected) < 1e-12)) fail_msg("trial %lld: %g and %g", (long long)i, asked, expected);
    }
}

static const struct {
    const char *name;
    double step, trust;  // of all but every fifth trial
    double narrow, wide; // widths of the wave's axis, at most, and of the choice, at least
    bool choice_matters;
} fits[] = {
    {"the wave alone", 0, 1, 0.1, 1, false},
    {"the choice too", 3, 1, 0.1, 0, true},
};

static void test_fit(void **state) {
    static world w;
    for (size_t c = 0; c < sizeof fits / sizeof fits[0]; c++) {
        ft_arena arena = {0};
        w = (world){.width = {0.2, 0.2}, .choice = {false, true}};
        fill(&w, fits[c].step);
        open_world(&w, MOST);
        assert_int_equal(ft_nearby_fit(&w.nearby, &arena), FT_OK);
        if (w.width[0] > fits[c].narrow) fail_msg("%s: the wave has the width %g", fits[c].name, w.width[0]);
        if (fits[c].choice_matters ? w.width[1] >= 1 : w.width[1] < fits[c].wide)
            fail_msg("%s: the choice has the width %g", fits[c].name, w.width[1]);
        ft_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ask), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
