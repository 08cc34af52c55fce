// What a study that pauses its trials does next: a table of histories; the same choice, to the bit, from what is kept
// and from nothing; better high or low; trials of different lengths; where a new one begins.
#include "hpo/search/curves/pausing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVALUATIONS = 5, STEPS = 10, MOST = 64 }; // a whole trial has 50 steps

typedef struct world {
    ft_trials trials;
    ft_pausing_trial view[MOST];
    ft_pausing_widths widths;
    bool maximize;
    int x, kind; // names
} world;

static const ft_choice kinds[] = {{.kind = FT_CHOICE_TEXT, .text = "a"}, {.kind = FT_CHOICE_TEXT, .text = "b"}};
static const ft_distribution x_range = {.kind = FT_FLOAT, .low = 0, .high = 1},
                             kind_range = {.kind = FT_CATEGORICAL, .choices = kinds, .choice_count = 2};

static void open_world(world *w, bool maximize) {
    *w = (world){.maximize = maximize};
    assert_int_equal(ft_trials_init(&w->trials, 1, &maximize), FT_OK);
}

static double shown(const world *w, double better_when_high) {
    return w->maximize ? better_when_high : -better_when_high;
}

// A trial at x that will come to `top`, after so many evaluations, `length` times as far apart as usual.
static int64_t add(world *w, double x, double top, int evaluations, int length, ft_trial_state state) {
    int64_t number;
    int distribution;
    assert_int_equal(ft_trials_append(&w->trials, FT_RUNNING, &number), FT_OK);
    assert_true(number < MOST);
    assert_int_equal(ft_trials_name(&w->trials, "x", &w->x), FT_OK);
    assert_int_equal(ft_trials_distribution(&w->trials, &x_range, &distribution), FT_OK);
    assert_int_equal(ft_trials_set_param(&w->trials, number, w->x, distribution, x), FT_OK);
    assert_int_equal(ft_trials_name(&w->trials, "kind", &w->kind), FT_OK);
    assert_int_equal(ft_trials_distribution(&w->trials, &kind_range, &distribution), FT_OK);
    assert_int_equal(ft_trials_set_param(&w->trials, number, w->kind, distribution, (double)(number % 2)), FT_OK);
    for (int k = 1; k <= evaluations; k++)
        assert_int_equal(ft_trials_report(&w->trials, number, (int64_t)k * STEPS * length, shown(w, top - 0.3 / k)),
                         FT_OK);
    w->view[number] = (ft_pausing_trial){
        .waits = state == FT_RUNNING, .steps = (int64_t)EVALUATIONS * STEPS * length, .step_seconds = 1};
    const double value = shown(w, top - 0.3 / EVALUATIONS);
    if (state == FT_COMPLETE) assert_int_equal(ft_trials_finish(&w->trials, number, state, &value, 1), FT_OK);
    if (state == FT_FAIL || state == FT_PRUNED)
        assert_int_equal(ft_trials_finish(&w->trials, number, state, NULL, 0), FT_OK);
    return number;
}

// Ten whole trials, the best one with a top of about 0.84, and ten that stopped half way.
static void old_trials(world *w) {
    for (int i = 0; i < 20; i++) {
        const int64_t n = add(w, 0.5 + 0.01 * (i % 10), 0.8 + 0.01 * (i * 7 % 10 - 5), i % 2 == 0 ? EVALUATIONS : 3, 1,
                              i % 2 == 0 ? FT_COMPLETE : FT_RUNNING);
        w->view[n].waits = false; // it is being trained
    }
}

static void choose(ft_pausing *p, const world *w, bool may_begin, bool places, ft_arena *arena,
                   ft_pausing_choice *out) {
    const ft_pausing_options o = {.seed = 7, .may_begin = may_begin, .places = places};
    assert_int_equal(ft_pausing_choose(p, &w->trials, w->view, &w->widths, &o, arena, out), FT_OK);
}

typedef struct paused {
    double top;
    int evaluations, length;
    double seconds; // of a step
    bool first;
} paused;

// Trials A and B behind the old ones; 0 evaluations of a top of 0: there is none.
#define ABSENT                                                                                                         \
    { 0, 0, 1, 1, false }
#define SHOWN(top, evaluations, length, seconds)                                                                       \
    { top, evaluations, length, seconds, false }

static const struct {
    const char *name;
    bool old; // behind old_trials
    paused a, b;
    bool closed; // no new one may begin
    bool a_trains;
    char expected; // 'a', 'b', 'n': a new one, '-': nothing
} cases[] = {
    {"an empty study", false, ABSENT, ABSENT, false, false, 'n'},
    {"an empty study that may begin nothing", false, ABSENT, ABSENT, true, false, '-'},
    {"before any is complete the oldest goes on", false, SHOWN(0.7, 2, 1, 1), SHOWN(0.9, 2, 1, 1), false, false, 'a'},
    {"who trains does not wait", false, SHOWN(0.7, 2, 1, 1), SHOWN(0.9, 2, 1, 1), false, true, 'b'},
    {"begun, and nothing shown yet", true, SHOWN(0.9, 3, 1, 1), SHOWN(0.8, 0, 1, 1), false, false, 'b'},
    {"a person wants it", true, SHOWN(0.9, 3, 1, 1), {0.5, 3, 1, 1, true}, false, false, 'b'},
    {"far better than the best", true, SHOWN(0.95, 3, 1, 1), SHOWN(0.70, 3, 1, 1), false, false, 'a'},
    {"the other one", true, SHOWN(0.70, 3, 1, 1), SHOWN(0.95, 3, 1, 1), false, false, 'b'},
    {"both are hopeless", true, SHOWN(0.60, 4, 1, 1), SHOWN(0.62, 4, 1, 1), false, false, 'n'},
    {"hopeless, and nothing may begin", true, SHOWN(0.60, 4, 1, 1), SHOWN(0.62, 4, 1, 1), true, false, 'b'},
    {"nobody waits, and nothing may begin", true, ABSENT, ABSENT, true, false, '-'},
    {"a little better, and far dearer", true, SHOWN(0.93, 3, 1, 50), SHOWN(0.92, 3, 1, 1), false, false, 'b'},
    {"equal, one is four times as long", true, SHOWN(0.92, 3, 4, 1), SHOWN(0.92, 3, 1, 1), false, false, 'b'},
    {"it was half way, and the longer one has only begun", true, SHOWN(0.92, 3, 1, 1), SHOWN(0.95, 1, 4, 1), false,
     false, 'a'},
};

static const ft_pausing_choice *of_case(size_t c, bool maximize, bool places, world *w, ft_pausing *p, ft_arena *arena,
                                        ft_pausing_choice *out, int64_t ab[2]) {
    open_world(w, maximize);
    if (cases[c].old) old_trials(w);
    for (int i = 0; i < 2; i++) {
        const paused *t = i == 0 ? &cases[c].a : &cases[c].b;
        ab[i] = -9;
        if (t->top == 0) continue;
        ab[i] = add(w, 0.55, t->top, t->evaluations, t->length, FT_RUNNING);
        w->view[ab[i]].step_seconds = t->seconds;
        w->view[ab[i]].first = t->first;
    }
    if (cases[c].a_trains) w->view[ab[0]].waits = false;
    choose(p, w, !cases[c].closed, places, arena, out);
    return out;
}

static void test_choice(void **state) {
    static world w;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int way = 0; way < 4; way++) {
            ft_arena arena = {0};
            ft_pausing p = {0};
            ft_pausing_choice choice;
            int64_t ab[2];
            of_case(c, way % 2 == 0, way / 2 == 0, &w, &p, &arena, &choice, ab);
            const int64_t expected = cases[c].expected == 'a'   ? ab[0]
                                     : cases[c].expected == 'b' ? ab[1]
                                     : cases[c].expected == 'n' ? FT_FREEZE_THAW_NEW
                                                                : FT_FREEZE_THAW_NONE;
            if (choice.trial != expected)
                fail_msg("%s%s%s: trial %lld, not %lld", cases[c].name, way % 2 == 0 ? "" : ", low",
                         way / 2 == 0 ? "" : ", by a sampler", (long long)choice.trial, (long long)expected);
            ft_pausing_free(&p);
            ft_arena_free(&arena);
            ft_trials_free(&w.trials);
        }
}

// A trial of twice the steps that has shown as much of its way is believed as much.
static void test_lengths(void **state) {
    static world w;
    ft_arena arena = {0};
    ft_pausing p = {0};
    ft_pausing_choice choice;
    open_world(&w, true);
    old_trials(&w);
    const int64_t a = add(&w, 0.5, 0.82, 3, 1, FT_RUNNING), b = add(&w, 0.5, 0.82, 3, 2, FT_RUNNING),
                  c = add(&w, 0.5, 0.82, 3, 2, FT_RUNNING);
    w.view[c].steps = 0; // not known: as the first one's, so that it has come to the end
    choose(&p, &w, true, false, &arena, &choice);
    assert_true(fabs(choice.expected[a] - choice.expected[b]) < 1e-3 && choice.chance[a] > 0.02);
    assert_true(fabs(choice.expected[c] - choice.expected[a]) > 1e-3);
    assert_true(choice.chance[0] == 0 && choice.expected[0] == w.trials.trial[0].values[0]);
    ft_pausing_free(&p);
    ft_arena_free(&arena);
    ft_trials_free(&w.trials);
}

// The better the nearer to 0.6, and beyond it trials fail: after each trial what is kept and a new look say the same.
static void test_places(void **state) {
    static world w;
    ft_pausing kept = {0};
    int near = 0, failed = 0;
    open_world(&w, true);
    for (int i = 0; i < 40; i++) {
        ft_arena arena = {0};
        ft_pausing fresh = {0};
        ft_pausing_choice a, b;
        choose(&kept, &w, true, true, &arena, &a);
        choose(&fresh, &w, true, true, &arena, &b);
        assert_int_equal(a.trial, FT_FREEZE_THAW_NEW);
        assert_int_equal(a.place_count, b.place_count);
        double x = (i * 0.37 + 0.1) - floor(i * 0.37 + 0.1);
        for (int k = 0; k < a.place_count; k++) {
            assert_memory_equal(&a.place[k].value, &b.place[k].value, sizeof(double));
            if (a.place[k].name == w.x) x = a.place[k].value;
        }
        assert_int_equal(a.widths.fitted, b.widths.fitted);
        assert_true(i < 8 ? a.widths.fitted == 0 : a.widths.fitted >= 8 && a.widths.fitted > i - 8);
        if (i >= 8) {
            if (w.widths.width == NULL) w.widths.width = calloc(8, sizeof *w.widths.width);
            w.widths.fitted = a.widths.fitted, w.widths.count = a.widths.count;
            memcpy(w.widths.width, a.widths.width, (size_t)a.widths.count * sizeof *a.widths.width);
        }
        add(&w, x, 0.3 + x, EVALUATIONS, 1, x > 0.6 ? FT_FAIL : FT_COMPLETE);
        if (i >= 20) near += x > 0.4 && x <= 0.6, failed += x > 0.6;
        ft_pausing_free(&fresh);
        ft_arena_free(&arena);
    }
    if (near < 8 || failed > 8) fail_msg("of the last 20 trials %d were near the best place, %d failed", near, failed);
    free(w.widths.width);
    ft_pausing_free(&kept);
    ft_trials_free(&w.trials);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
