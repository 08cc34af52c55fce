// What a study learns from others: their trials in its terms, how far they are trusted (Kendall's tau, SciPy's
// numbers), the belief and its gradient, and samplers that use it: legal, new, the same for the same history; cold to
// the bit where teachers are of no use.
#include "hpo/search/adopt.h"
#include "hpo/search/gp/acquire.h"
#include "hpo/search/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static ft_distribution real(double low, double high, bool log) {
    ft_distribution d;
    assert_int_equal(ft_distribution_float("x", low, high, log, 0, &d), FT_OK);
    return d;
}

static ft_distribution whole(int64_t low, int64_t high) {
    ft_distribution d;
    assert_int_equal(ft_distribution_int("k", low, high, false, 1, &d), FT_OK);
    return d;
}

static ft_distribution choice(ft_arena *arena, const char *first, const char *second, const char *third) {
    const ft_choice choices[] = {{.kind = FT_CHOICE_TEXT, .text = first},
                                 {.kind = FT_CHOICE_TEXT, .text = second},
                                 {.kind = FT_CHOICE_TEXT, .text = third}};
    ft_distribution d;
    assert_int_equal(ft_distribution_categorical("c", arena, choices, 3, &d), FT_OK);
    return d;
}

static void put(ft_trials *t, int64_t number, const char *name, const ft_distribution *d, double value) {
    int name_id, distribution_id;
    assert_int_equal(ft_trials_name(t, name, &name_id), FT_OK);
    assert_int_equal(ft_trials_distribution(t, d, &distribution_id), FT_OK);
    assert_int_equal(ft_trials_set_param(t, number, name_id, distribution_id, value), FT_OK);
}

static int64_t add(ft_trials *t) {
    int64_t number;
    assert_int_equal(ft_trials_append(t, FT_RUNNING, &number), FT_OK);
    return number;
}

static void finish(ft_trials *t, int64_t number, ft_trial_state state, double value) {
    assert_int_equal(ft_trials_finish(t, number, state, &value, state == FT_FAIL ? 0 : 1), FT_OK);
}

// ---- lessons --------------------------------------------------------------------------------------------------------

static void test_lessons(void **state) {
    ft_arena arena = {0};
    ft_trials t;
    ft_lessons l = {0};
    const ft_distribution rate = real(1e-4, 1e-2, true), wider = real(1e-5, 1e-3, true), layers = whole(0, 4),
                          one = whole(7, 7), ours = choice(&arena, "a", "b", "c"),
                          theirs = choice(&arena, "c", "d", "a"), number = real(0, 1, false);
    assert_int_equal(ft_trials_init(&t, 1, (bool[]){true}), FT_OK);
    for (int i = 0; i < 5; i++) {
        const int64_t n = add(&t);
        put(&t, n, "rate", &wider, 1e-5);
        put(&t, n, "c", &theirs, i % 3);
        if (i != 2) put(&t, n, "layers", &layers, i);
        put(&t, n, "unknown", &number, 0.5);
        put(&t, n, "kind", &number, 0.5); // a choice here
        if (i == 3)
            finish(&t, n, FT_FAIL, 0);
        else
            finish(&t, n, i == 4 ? FT_PRUNED : FT_COMPLETE, i);
    }
    const int64_t broken = add(&t); // beyond its limit
    int limit;
    assert_int_equal(ft_trials_constraint_name(&t, "0", &limit), FT_OK);
    put(&t, broken, "rate", &wider, 1e-3);
    assert_int_equal(ft_trials_set_constraint(&t, broken, limit, 1), FT_OK);
    finish(&t, broken, FT_COMPLETE, 100);
    assert_int_equal(ft_lessons_axis(&l, &arena, "rate", &rate), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "c", &ours), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "layers", &layers), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "fixed", &one), FT_OK); // no axis
    assert_int_equal(ft_lessons_axis(&l, &arena, "kind", &ours), FT_OK);
    assert_int_equal(ft_lessons_add(&l, &arena, "other", &t), FT_OK);
    assert_int_equal(l.axes, 4);
    assert_int_equal(l.sources, 1);
    const ft_lesson_source *s = &l.source[0];
    assert_string_equal(s->study, "other");
    assert_int_equal(s->count, 4); // not the failed one, not the one beyond its limit
    assert_true(s->loss[0] == 0 && s->loss[1] == -1 && s->loss[2] == -2);
    assert_true(s->loss[3] == -1); // a pruned one is no better than the middle
    const double choices[] = {2, FT_LESSON_UNKNOWN, 0, FT_LESSON_UNKNOWN};
    for (int i = 0; i < 4; i++) {
        const double *row = s->value + 4 * i;
        assert_true(row[0] == 1e-5 && row[1] == choices[i] && isnan(row[3]));
        assert_true(i == 2 ? isnan(row[2]) : row[2] == (i == 3 ? 4 : i));
    }
    assert_true(fabs(ft_lessons_unit(&l.axis[0], 1e-5)) < 1e-12 && fabs(ft_lessons_unit(&l.axis[0], 1e-2) - 1) < 1e-12);
    assert_true(fabs(ft_lessons_unit(&l.axis[2], 1) - 0.3) < 1e-12);
    assert_int_equal(ft_lessons_axis(&l, &arena, "late", &number), FT_INVALID); // the source's numbers would be others'
    assert_int_equal(ft_lessons_axis(&l, &arena, "rate", &wider), FT_OK);
    ft_error_clear();
    ft_trials_free(&t);
    ft_arena_free(&arena);
}

// Values and ranges that only a file from elsewhere has: what is learnt stays numbers.
static void test_odd_numbers(void **state) {
    const ft_distribution u = real(0, 1, false);
    const struct {
        ft_distribution d;
        double value, learnt; // NAN: left aside
    } cases[] = {{u, 0.5, 0.5}, {u, 1e300, 1}, {u, -7, 0}, {real(-1.7e308, 1.7e308, false), 0.5, NAN}, {real(0, 1e307, false), 0.5, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_arena arena = {0};
        ft_trials t;
        ft_lessons l = {0};
        assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
        const int64_t n = add(&t);
        put(&t, n, "x", &cases[i].d, cases[i].value);
        finish(&t, n, FT_COMPLETE, 1);
        assert_int_equal(ft_lessons_axis(&l, &arena, "x", &u), FT_OK);
        assert_int_equal(ft_lessons_add(&l, &arena, "other", &t), FT_OK);
        const double x = l.source[0].value[0], learnt = cases[i].learnt;
        if (isnan(learnt) ? !isnan(x) : x != learnt) fail_msg("case %zu: %g", i, x);
        assert_true(isfinite(l.axis[0].high - l.axis[0].low));
        ft_trials_free(&t);
        ft_arena_free(&arena);
    }
}

// ---- trust ----------------------------------------------------------------------------------------------------------

// A teacher that found small x to be good, or large ones.
static void teach(ft_lessons *l, ft_arena *arena, const char *name, double slope) {
    ft_trials t;
    const ft_distribution x = real(0, 1, false);
    assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
    for (int i = 0; i < 12; i++) {
        const int64_t n = add(&t);
        put(&t, n, "x", &x, i / 11.0);
        finish(&t, n, FT_COMPLETE, slope * i / 11.0);
    }
    assert_int_equal(ft_lessons_axis(l, arena, "x", &x), FT_OK);
    assert_int_equal(ft_lessons_add(l, arena, name, &t), FT_OK);
    ft_trials_free(&t);
}

// What a teacher has no trial of, or has nothing of that this study has: its opinion does not depend on it, and the trial
// that repeats its best one makes that one old, whatever it has there.
static void test_never_seen(void **state) {
    static const struct {
        double y, c;
    } cases[] = {{0, 0}, {0.5, 1}, {1, 2}, {NAN, NAN}, {0.7, FT_LESSON_UNKNOWN}};
    ft_arena arena = {0};
    ft_lessons l = {0};
    ft_gp_teachers teachers;
    ft_trials theirs, t;
    const ft_distribution u = real(0, 1, false), ours = choice(&arena, "a", "b", "c"),
                          others = choice(&arena, "d", "e", "f"), log = real(0.1, 1, true);
    assert_int_equal(ft_trials_init(&theirs, 1, (bool[]){false}), FT_OK);
    for (int i = 0; i < 12; i++) {
        const int64_t n = add(&theirs);
        put(&theirs, n, "x", &u, i / 11.0);
        put(&theirs, n, "c", &others, i % 3);
        put(&theirs, n, "scale", &log, 0.1 + i * 0.05); // not logarithmic here
        finish(&theirs, n, FT_COMPLETE, i / 11.0);
    }
    assert_int_equal(ft_lessons_axis(&l, &arena, "x", &u), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "y", &u), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "c", &ours), FT_OK);
    assert_int_equal(ft_lessons_axis(&l, &arena, "scale", &u), FT_OK);
    assert_int_equal(ft_lessons_add(&l, &arena, "other", &theirs), FT_OK);
    assert_true(ft_lessons_known(&l, 0, 0) && !ft_lessons_known(&l, 0, 1) && !ft_lessons_known(&l, 0, 2) &&
                !ft_lessons_known(&l, 0, 3));
    assert_true(ft_lessons_goes_with(&l.axis[0], &u) && !ft_lessons_goes_with(&l.axis[0], &ours) &&
                ft_lessons_goes_with(&l.axis[2], &ours) && !ft_lessons_goes_with(&l.axis[2], &others) &&
                !ft_lessons_goes_with(&l.axis[3], &log));
    assert_int_equal(ft_gp_teachers_init(&l, &teachers), FT_OK);
    const double expected = ft_gp_teachers_mean(&teachers, 0, (double[]){0.3, 0.2, 1, 0.4}, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double point[] = {0.3, cases[i].y, cases[i].c, cases[i].y};
        double gradient[4];
        if (ft_gp_teachers_mean(&teachers, 0, point, gradient) != expected || gradient[1] != 0 || gradient[3] != 0)
            fail_msg("case %zu", i);
        assert_true(gradient[0] > 0);
    }
    assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
    for (int64_t number = 1; number < 10; number += 2) {
        const double *row;
        while (t.count <= number)
            add(&t);
        assert_int_equal(ft_adopt(&teachers, &t, number, &row), FT_OK);
        assert_non_null(row);
        if (fabs(row[0] - (double)(number / 2) / 11) > 1e-12) fail_msg("trial %d: %g", (int)number, row[0]);
        put(&t, number, "x", &u, row[0]);
        put(&t, number, "y", &u, 0.1 * (double)number);
        put(&t, number, "c", &ours, (double)(number % 3));
        put(&t, number, "scale", &u, 0.05 * (double)number);
    }
    ft_trials_free(&t);
    ft_trials_free(&theirs);
    ft_gp_teachers_free(&teachers);
    ft_arena_free(&arena);
}

// A trial of a teacher's is repeated once, whatever becomes of it here: steps, whole numbers, a narrower range, a value that it or this study's
// trial lacks.
static void test_repeated_once(void **state) {
    static const struct {
        const char *what;
        double step, low, high;
        bool theirs_lack, ours_lack; // y
        int different;
    } cases[] = {{"plain", 0, 0, 1, false, false, 5},    {"steps", 0.25, 0, 1, false, false, 5},  {"few steps", 0.5, 0, 1, false, false, 3},
                 {"narrow", 0, 0, 0.05, false, false, 2}, {"they lack y", 0, 0, 1, true, false, 5}, {"ours lack y", 0, 0, 1, false, true, 5}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        ft_arena arena = {0};
        ft_lessons l = {0};
        ft_gp_teachers teachers;
        ft_trials theirs, t;
        const ft_distribution u = real(0, 1, false);
        ft_distribution x;
        assert_int_equal(ft_distribution_float("x", cases[c].low, cases[c].high, false, cases[c].step, &x), FT_OK);
        assert_int_equal(ft_trials_init(&theirs, 1, (bool[]){false}), FT_OK);
        for (int i = 0; i < 12; i++) {
            const int64_t n = add(&theirs);
            put(&theirs, n, "x", &u, i / 11.0);
            if (!cases[c].theirs_lack || i % 2 == 1) put(&theirs, n, "y", &u, 0.3);
            finish(&theirs, n, FT_COMPLETE, i / 11.0);
        }
        assert_int_equal(ft_lessons_axis(&l, &arena, "x", &x), FT_OK);
        assert_int_equal(ft_lessons_axis(&l, &arena, "y", &u), FT_OK);
        assert_int_equal(ft_lessons_add(&l, &arena, "other", &theirs), FT_OK);
        assert_int_equal(ft_gp_teachers_init(&l, &teachers), FT_OK);
        assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
        double seen[5];
        int adopted = 0;
        for (int64_t number = 1; number < 10; number += 2) {
            const double *row;
            double value;
            while (t.count <= number)
                add(&t);
            assert_int_equal(ft_adopt(&teachers, &t, number, &row), FT_OK);
            if (row == NULL) continue;
            assert_true(ft_adopted_value(&l, row, "x", &x, &value));
            for (int i = 0; i < adopted; i++)
                if (seen[i] == value) fail_msg("%s: %g once more", cases[c].what, value);
            put(&t, number, "x", &x, seen[adopted++] = value);
            if (!cases[c].ours_lack) put(&t, number, "y", &u, isnan(row[1]) ? 0.8 : row[1]);
        }
        if (adopted < cases[c].different) fail_msg("%s: %d of %d", cases[c].what, adopted, cases[c].different);
        ft_trials_free(&t);
        ft_trials_free(&theirs);
        ft_gp_teachers_free(&teachers);
        ft_arena_free(&arena);
    }
}

static void test_weights(void **state) {
    // scipy.stats.kendalltau(x, loss).statistic, tau-a where nothing is tied; less sqrt(2 (2n + 5) / (9 n (n - 1)))
    static const struct {
        int n;
        double loss[8], up, down;
    } cases[] = {
        {3, {1, 2, 3}, 1, 1},                                     // too few to tell
        {8, {1, 2, 3, 4, 5, 6, 7, 8}, 1 - 0.2886751345948129, 0}, // tau 1
        {8, {2, 1, 4, 3, 6, 5, 8, 7}, 0.7142857142857143 - 0.2886751345948129, 0},
        {8, {8, 7, 6, 5, 4, 3, 2, 1}, 0, 1 - 0.2886751345948129},
        {8, {5, 1, 7, 3, 8, 2, 6, 4}, 0, 0}, // tau 0.0714
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        ft_arena arena = {0};
        ft_lessons l = {0};
        ft_gp_teachers teachers;
        ft_trials t;
        const ft_distribution x = real(0, 1, false);
        double weight[2];
        int judged;
        teach(&l, &arena, "up", 1);
        teach(&l, &arena, "down", -1);
        assert_int_equal(ft_gp_teachers_init(&l, &teachers), FT_OK);
        assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
        for (int i = 0; i < cases[c].n; i++) {
            const int64_t n = add(&t);
            put(&t, n, "x", &x, (i + 0.5) / cases[c].n);
            finish(&t, n, FT_COMPLETE, cases[c].loss[i]);
        }
        finish(&t, add(&t), FT_FAIL, 0); // tells nothing of losses
        assert_int_equal(ft_gp_teachers_weigh(&teachers, &t, weight, &judged), FT_OK);
        assert_int_equal(judged, cases[c].n);
        if (fabs(weight[0] - cases[c].up) > 1e-12 || fabs(weight[1] - cases[c].down) > 1e-12)
            fail_msg("case %zu: %.17g %.17g", c, weight[0], weight[1]);
        ft_trials_free(&t);
        ft_gp_teachers_free(&teachers);
        ft_arena_free(&arena);
    }
}

// ---- problems -------------------------------------------------------------------------------------------------------

typedef struct world {
    ft_trials trials;
    ft_sampler *sampler;
    ft_arena arena;
    ft_sampler_options options;
} world;

static void start(world *w, ft_sampler_kind kind, uint64_t seed, const ft_lessons *lessons) {
    *w = (world){.options = ft_sampler_defaults()};
    w->options.kind = kind;
    w->options.seed = seed;
    w->options.lessons = lessons;
    assert_int_equal(ft_trials_init(&w->trials, 1, (bool[]){false}), FT_OK);
    assert_int_equal(ft_sampler_new(&w->options, &w->trials, &w->sampler), FT_OK);
}

static void stop(world *w) {
    ft_sampler_free(w->sampler);
    ft_trials_free(&w->trials);
    ft_arena_free(&w->arena);
}

// As after a kill.
static void restart(world *w) {
    ft_sampler_free(w->sampler);
    assert_int_equal(ft_sampler_new(&w->options, &w->trials, &w->sampler), FT_OK);
}

static double ask(world *w, int64_t number, const char *name, const ft_distribution *d) {
    double value;
    assert_int_equal(ft_sampler_suggest(w->sampler, number, name, d, &value), FT_OK);
    assert_true(ft_distribution_contains(d, value));
    put(&w->trials, number, name, d, value);
    return value;
}

// A bowl with a branch: the optimum lies at (at, at) of branch b, and so do the others' nearly.
static double bowl(world *w, int64_t n, double at, double sign) {
    const ft_distribution u = real(0, 1, false), rate = real(1e-6, 1e-2, true), layers = whole(1, 12),
                          kind = choice(&w->arena, "a", "b", "c");
    const double x = ask(w, n, "x", &u), y = (log10(ask(w, n, "rate", &rate)) + 6) / 4;
    const int k = (int)ask(w, n, "c", &kind);
    double value = (x - at) * (x - at) + 2 * (y - at) * (y - at) + (k == 1 ? 0 : 0.3);
    if (k == 1) value += 0.01 * fabs(ask(w, n, "layers", &layers) - 6);
    return sign * value;
}

static double run(world *w, int trials, double at, double sign, bool kills) {
    double best = INFINITY;
    for (int i = 0; i < trials; i++) {
        if (kills) restart(w);
        const int64_t n = add(&w->trials);
        const double value = bowl(w, n, at, sign);
        finish(&w->trials, n, i % 7 == 6 ? FT_PRUNED : FT_COMPLETE, value);
        best = fmin(best, value);
    }
    return best;
}

static void lessons_of(ft_lessons *l, ft_arena *arena, double at, double sign) {
    for (int k = 0; k < 2; k++) {
        world w;
        char name[8];
        start(&w, FT_SAMPLER_GP, 100 + (uint64_t)k, NULL);
        run(&w, 25, at + 0.05 * k, sign, false);
        snprintf(name, sizeof name, "s%d", k);
        for (int i = 0; i < w.trials.names.count; i++)
            for (int64_t n = 0; n < w.trials.count; n++) {
                const ft_trial_param *p = ft_trial_find_param(&w.trials.trial[n], i);
                if (p == NULL) continue;
                assert_int_equal(
                    ft_lessons_axis(l, arena, w.trials.names.name[i], w.trials.distributions[p->distribution]), FT_OK);
                break;
            }
        assert_int_equal(ft_lessons_add(l, arena, name, &w.trials), FT_OK);
        stop(&w);
    }
}

static const ft_sampler_kind kinds[] = {FT_SAMPLER_GP, FT_SAMPLER_TPE, FT_SAMPLER_AUTO};

static bool same_trial(const ft_trial *t, const ft_trial *u) {
    if (t->param_count != u->param_count) return false;
    for (int p = 0; p < t->param_count; p++) {
        const ft_trial_param *other = ft_trial_find_param(u, t->params[p].name);
        if (other == NULL || other->value != t->params[p].value) return false;
    }
    return true;
}

static void test_same_after_a_kill(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    lessons_of(&l, &arena, 0.4, 1);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        world a, b;
        start(&a, kinds[k], 3, &l);
        start(&b, kinds[k], 3, &l);
        run(&a, 18, 0.45, 1, false);
        run(&b, 18, 0.45, 1, true);
        for (int64_t i = 0; i < a.trials.count; i++) {
            if (!same_trial(&a.trials.trial[i], &b.trials.trial[i]))
                fail_msg("sampler %zu: trial %lld differs", k, (long long)i);
            for (int64_t j = 0; j < i && i < 10; j++) // no suggestion is lost on what was tried
                if (same_trial(&a.trials.trial[i], &a.trials.trial[j]))
                    fail_msg("sampler %zu: trial %lld is trial %lld", k, (long long)i, (long long)j);
        }
        stop(&a), stop(&b);
    }
    ft_arena_free(&arena);
}

// Several at a time: none begins what another one tries already.
static void test_together(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    lessons_of(&l, &arena, 0.4, 1);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        world w;
        start(&w, kinds[k], 3, &l);
        for (int i = 0; i < 8; i++)
            (void)bowl(&w, add(&w.trials), 0.45, 1);
        for (int64_t i = 0; i < 8; i++)
            for (int64_t j = 0; j < i; j++)
                if (same_trial(&w.trials.trial[i], &w.trials.trial[j]))
                    fail_msg("sampler %zu: trial %lld is trial %lld", k, (long long)i, (long long)j);
        stop(&w);
    }
    ft_arena_free(&arena);
}

// The others' optimum is a little beside this one's: 10 warm trials against 10 cold ones.
static void test_warm_is_better(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    int won[3] = {0}, seeds = 4;
    lessons_of(&l, &arena, 0.4, 1);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int seed = 0; seed < seeds; seed++) {
            world warm, cold;
            start(&warm, kinds[k], (uint64_t)seed, &l);
            start(&cold, kinds[k], (uint64_t)seed, NULL);
            won[k] += run(&warm, 10, 0.45, 1, false) < run(&cold, 10, 0.45, 1, false);
            stop(&warm), stop(&cold);
        }
    for (int k = 0; k < 3; k++)
        if (won[k] < seeds - 1) fail_msg("sampler %d: better in %d of %d", k, won[k], seeds);
    ft_arena_free(&arena);
}

// Teachers that have the opposite to say: once that is seen, every suggestion is that of a study that has none.
static void test_useless_teachers(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    lessons_of(&l, &arena, 0.4, -1);
    for (size_t k = 0; k < 2; k++) {
        world warm, cold;
        start(&warm, kinds[k], 5, &l);
        run(&warm, 16, 0.45, 1, false);
        start(&cold, kinds[k], 5, NULL);
        for (int64_t i = 0; i < 16; i++) { // the same history
            const ft_trial *t = &warm.trials.trial[i];
            const int64_t n = add(&cold.trials);
            for (int p = 0; p < t->param_count; p++)
                put(&cold.trials, n, warm.trials.names.name[t->params[p].name],
                    warm.trials.distributions[t->params[p].distribution], t->params[p].value);
            finish(&cold.trials, n, t->state, t->values[0]);
        }
        for (int i = 0; i < 4; i++) {
            const double a = bowl(&warm, add(&warm.trials), 0.45, 1), b = bowl(&cold, add(&cold.trials), 0.45, 1);
            assert_true(a == b);
            finish(&warm.trials, 16 + i, FT_COMPLETE, a);
            finish(&cold.trials, 16 + i, FT_COMPLETE, b);
        }
        stop(&warm), stop(&cold);
    }
    ft_arena_free(&arena);
}

// A Gaussian process whose teachers are wrong begins after 15 trials, not 10: those that it took from them taught it little.
static void test_longer_start(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    world w;
    const ft_distribution u = real(0, 1, false);
    lessons_of(&l, &arena, 0.4, -1);
    start(&w, FT_SAMPLER_GP, 5, &l);
    for (int n = 0; n < 18; n++) {
        run(&w, 1, 0.45, 1, false);
        int name;
        assert_int_equal(ft_trials_name(&w.trials, "x", &name), FT_OK);
        const bool quasi = ft_trial_find_param(&w.trials.trial[n], name)->value == ft_value_of_uniform(&u, ft_halton(5, "x", name, n));
        if (n >= 10 && quasi != (n < 15)) fail_msg("trial %d is %squasi-random", n, quasi ? "" : "not ");
    }
    stop(&w);
    ft_arena_free(&arena);
}

// ---- belief ---------------------------------------------------------------------------------------------------------

static void test_belief(void **state) {
    ft_arena arena = {0};
    ft_lessons l = {0};
    ft_gp_teachers teachers;
    ft_gp_axes axes;
    ft_gp_belief b;
    bool trusted;
    world w;
    enum { N = 12 };
    double y[N], residual[N], rest[N], sum = 0, square = 0, across = 0;
    const double *points[N];
    lessons_of(&l, &arena, 0.4, 1);
    assert_int_equal(ft_gp_teachers_init(&l, &teachers), FT_OK);
    start(&w, FT_SAMPLER_QUASI_RANDOM, 1, NULL);
    run(&w, N, 0.45, 1, false);
    assert_int_equal(ft_gp_axes_of(&w.trials, -1, -1, &arena, &axes), FT_OK);
    assert_int_equal(ft_gp_belief_of(&teachers, &w.trials, &axes, &arena, &b, &trusted), FT_OK);
    assert_true(trusted);
    for (int i = 0; i < N; i++) {
        double *point = ft_arena_alloc(&arena, (size_t)axes.count * sizeof *point);
        ft_gp_point(&axes, &w.trials.trial[i], false, point);
        points[i] = point;
        y[i] = w.trials.trial[i].values[0];
    }
    assert_true(ft_gp_belief_regress(&b, points, y, N, residual));
    for (int i = 0; i < N; i++) { // what is believed of a residual is the value; residuals are those of least squares
        double mean = residual[i], variance = 1, taught = 0, none = 0;
        rest[i] = residual[i] * b.scale;
        ft_gp_belief_add(&b, axes.count, points[i], &mean, &variance, NULL, NULL);
        assert_true(fabs(mean - y[i]) < 1e-12 && fabs(variance - b.scale * b.scale) < 1e-15);
        ft_gp_belief_add(&b, axes.count, points[i], &taught, &none, NULL, NULL);
        sum += rest[i], square += residual[i] * residual[i], across += rest[i] * taught;
    }
    assert_true(fabs(sum) < 1e-11 && fabs(across) < 1e-11 && fabs(square - N) < 1e-9);
    // The gradient against differences.
    for (int i = 0; i < N; i++) {
        double point[8], gradient[8] = {0}, none[8] = {0}, mean = 0, variance = 0;
        memcpy(point, points[i], (size_t)axes.count * sizeof *point);
        ft_gp_belief_add(&b, axes.count, point, &mean, &variance, gradient, none);
        for (int a = 0; a < axes.count; a++) {
            if (axes.choice[a] || isnan(point[a])) continue;
            const double h = 1e-5, before = point[a];
            double up = 0, down = 0;
            point[a] = before + h;
            ft_gp_belief_add(&b, axes.count, point, &up, &variance, NULL, NULL);
            point[a] = before - h;
            ft_gp_belief_add(&b, axes.count, point, &down, &variance, NULL, NULL);
            point[a] = before;
            if (fabs((up - down) / (2 * h) - gradient[a]) > 1e-6)
                fail_msg("trial %d, axis %d: %g, not %g", i, a, gradient[a], (up - down) / (2 * h));
        }
    }
    stop(&w);
    ft_gp_teachers_free(&teachers);
    ft_arena_free(&arena);
}

static void test_refused(void **state) {
    ft_lessons none = {0};
    static const struct {
        ft_sampler_kind kind;
        int objectives;
        const char *message;
    } cases[] = {{FT_SAMPLER_RANDOM, 1, "this sampler learns from no trials"},
                 {FT_SAMPLER_QUASI_RANDOM, 1, "this sampler learns from no trials"},
                 {FT_SAMPLER_GRID, 1, "this sampler learns from no trials"},
                 {FT_SAMPLER_TPE, 2, "is for one objective, and there are 2"}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        ft_sampler_options options = ft_sampler_defaults();
        ft_sampler *sampler;
        ft_trials t;
        options.kind = cases[c].kind;
        options.lessons = &none;
        assert_int_equal(ft_trials_init(&t, cases[c].objectives, (bool[]){false, false}), FT_OK);
        assert_int_equal(ft_sampler_new(&options, &t, &sampler), FT_INVALID);
        assert_non_null(strstr(ft_error_message(), cases[c].message));
        ft_error_clear();
        ft_trials_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lessons),          cmocka_unit_test(test_never_seen),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_repeated_once),    cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_belief),           cmocka_unit_test(test_same_after_a_kill),
        cmocka_unit_test(test_together),         cmocka_unit_test(test_warm_is_better),
        cmocka_unit_test(test_useless_teachers), cmocka_unit_test(test_longer_start),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
