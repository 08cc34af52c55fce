// Which trials are good and which are the others: a long history is thinned, and the split that is kept from trial to trial is the one made anew.
#include "hpo/search/history/random_stream.h"
#include "hpo/search/tpe/split_fast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

// What goes above of a long history: all that run, one in 2, 4, 8 ... of the finished ones, a part of a part; below stays below.
static void long_histories_are_thinned(void **state) {
    enum { TRIALS = 3000, RUN = 10 };
    static const int64_t most[] = {0, 4000, 2048, 200, 100};
    static const int stands_for[] = {1, 1, 2, 16, 32};
    static uint8_t all[TRIALS], sides[TRIALS], before[TRIALS];
    ft_trials trials;
    assert_int_equal(ft_trials_init(&trials, 1, (bool[]){false}), FT_OK);
    for (int i = 0; i < TRIALS; i++) {
        int64_t number;
        const double value = (i * 7919) % TRIALS;
        assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
        if (i < TRIALS - RUN) assert_int_equal(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1), FT_OK);
    }
    for (int k = 0; k < 5; k++) {
        int found, kept = 0, here = 0, below = 0, running = 0;
        assert_int_equal(ft_split(&trials, -1, true, false, NULL, most[k], k == 0 ? all : sides, &found), FT_OK);
        if (k == 0) memcpy(sides, all, sizeof sides);
        assert_int_equal(found, stands_for[k]);
        for (int i = 0; i < TRIALS; i++) {
            if (sides[i] != FT_NEITHER) assert_int_equal(sides[i], all[i]);
            if (k > 0 && sides[i] != FT_NEITHER) assert_int_equal(before[i], all[i]);
            below += sides[i] == FT_BELOW;
            running += i >= TRIALS - RUN && sides[i] == FT_ABOVE;
            kept += i < TRIALS - RUN && sides[i] == FT_ABOVE;
            if (i % 500 == 499 && i < TRIALS - RUN) { // evenly over the study
                const int part = (500 - 25) / stands_for[k];
                assert_in_range(kept - here, part * 3 / 4, 500 / stands_for[k] + 2);
                here = kept;
            }
        }
        assert_int_equal(below, 25);
        assert_int_equal(running, RUN);
        if (k > 1) assert_in_range(kept, most[k] * 4 / 10, most[k] + 2);
        memcpy(before, sides, sizeof before);
    }
    ft_trials_free(&trials);
}

// ---- the split that is kept -----------------------------------------------------------------------------------------

static int64_t below(ft_random_stream *s, int64_t n) { return (int64_t)ft_random_below(s, (uint64_t)n); }

// Some have a value of "x", some one that was announced. Values are few: many are equal.
static void begin(ft_trials *trials, ft_random_stream *s, int x, int distribution) {
    int64_t number;
    const ft_trial_state state = below(s, 8) == 0 ? FT_WAITING : FT_RUNNING;
    assert_int_equal(ft_trials_append(trials, state, &number), FT_OK);
    if (below(s, 3) > 0) assert_int_equal(ft_trials_set_param(trials, number, x, distribution, 0.5), FT_OK);
    else if (below(s, 2) > 0) assert_int_equal(ft_trials_set_relative(trials, number, x, distribution, 0.5), FT_OK);
}

static void go_on(ft_trials *trials, ft_random_stream *s, int64_t number, int limit) {
    const double value = below(s, 12) == 0 ? INFINITY : (double)below(s, 20);
    if (trials->trial[number].state == FT_WAITING) {
        assert_int_equal(ft_trials_start(trials, number), FT_OK);
        return;
    }
    if (below(s, 4) == 0) assert_int_equal(ft_trials_set_constraint(trials, number, limit, (double)below(s, 5) - 2), FT_OK);
    const int64_t fate = below(s, 8);
    if (fate == 1) assert_int_equal(ft_trials_report(trials, number, below(s, 3), below(s, 5) == 0 ? NAN : value), FT_OK);
    const ft_trial_state state = fate == 0 ? FT_FAIL : fate < 3 ? FT_PRUNED : FT_COMPLETE;
    assert_int_equal(ft_trials_finish(trials, number, state, &value, state == FT_COMPLETE), FT_OK);
}

static void kept_equals_made_anew(void **state) {
    enum { EVENTS = 1500 };
    static uint8_t sides[EVENTS];
    static bool among[EVENTS];
    for (int variant = 0; variant < 12; variant++) {
        const int64_t most = (int64_t[]){0, 15, 80}[variant % 3];
        const bool liar = variant % 2 == 0, some = variant % 4 >= 2, announced = variant % 8 >= 4, failed = variant / 3 % 2 == 0;
        ft_random_stream s = ft_random_stream_of(7, variant, FT_DRAW_UNIFORM, "split");
        ft_trials trials;
        ft_split_fast fast = {0};
        ft_distribution d;
        int x, distribution, limit, halved = 0;
        assert_int_equal(ft_trials_init(&trials, 1, (bool[]){variant % 5 == 1}), FT_OK);
        assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
        assert_int_equal(ft_trials_name(&trials, "x", &x), FT_OK);
        assert_int_equal(ft_trials_distribution(&trials, &d, &distribution), FT_OK);
        assert_int_equal(ft_trials_constraint_name(&trials, "memory", &limit), FT_OK);
        const ft_subspace subspace = {.count = 1, .name = &x, .distribution = &distribution};
        for (int event = 0; event < EVENTS; event++) {
            const int64_t asks = trials.count > 0 ? below(&s, trials.count) : 0;
            if (trials.count == 0 || below(&s, 2) == 0) begin(&trials, &s, x, distribution);
            else if (!ft_trial_finished(trials.trial[asks].state)) go_on(&trials, &s, asks, limit);
            if (below(&s, 3) > 0) continue; // several things happen between two questions
            int64_t except = trials.count - 1;
            while (except >= 0 && trials.trial[except].state != FT_RUNNING) // who asks runs
                except--;
            double value;
            int stands_for, stands_for_kept;
            for (int64_t i = 0; i < trials.count; i++)
                among[i] = ft_subspace_values(&subspace, &trials.trial[i], announced, &value);
            const ft_split_question q = {some ? &subspace : NULL, announced, liar, failed, most, except};
            assert_int_equal(ft_split(&trials, except, liar, failed, some ? among : NULL, most, sides, &stands_for), FT_OK);
            assert_int_equal(ft_split_fast_update(&fast, &trials, &q, &stands_for_kept), FT_OK);
            assert_int_equal(stands_for, stands_for_kept);
            for (int64_t i = 0; i < trials.count; i++)
                if (sides[i] != fast.sides[i]) fail_msg("variant %d, event %d, trial %d: %d, kept %d", variant, event, (int)i, sides[i], fast.sides[i]);
            if (stands_for > halved) halved = stands_for;
        }
        assert_true(most == 0 ? halved == 1 : halved > 1);
        ft_split_fast_free(&fast);
        ft_trials_free(&trials);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_histories_are_thinned),
        cmocka_unit_test(kept_equals_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
