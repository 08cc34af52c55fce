// What people are told of the Gaussian process's belief: over a plane it is the model's own answer in the objective's
// units, and it is right about functions that are known; the next place is the sampler's next trial; what was believed
// of a trial is what was believed when it began; parameters that do not go together are not put together.
#include "hpo/search/gp/drawing.h"
#include "hpo/search/gp/insight.h"
#include "hpo/search/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = FT_INSIGHT_CELLS };

// ---- studies --------------------------------------------------------------------------------------------------------

static uint64_t bits;
static double uniform(void) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return (double)(bits >> 11) * 0x1p-53;
}

typedef struct wave {
    double a, u, v, b;
} wave;
enum { WAVES = 5 };

static void draw(wave *w) {
    for (int i = 0; i < WAVES; i++)
        w[i] = (wave){uniform(), 5 * uniform(), 5 * uniform(), 6.28 * uniform()};
}

// Of x and y; z, from 1e-4 to 1, costs what its logarithm is off 1e-2.
static double at(const wave *w, double x, double y, double z) {
    double sum = 0.2 * fabs(log10(z) + 2);
    for (int i = 0; i < WAVES; i++)
        sum += w[i].a * cos(w[i].u * x + w[i].v * y + w[i].b);
    return sum;
}

static const char *const names[] = {"x", "y", "z"};
enum { X, Y, Z, PARAMS };

typedef struct search {
    wave w[WAVES];
    ft_trials trials;
    ft_sampler *sampler;
    ft_distribution space[PARAMS];
    double sign;
} search;

static void begin(search *s, ft_sampler_kind kind, uint64_t seed, double sign) {
    ft_sampler_options options = ft_sampler_defaults();
    bits = seed;
    s->sign = sign;
    draw(s->w);
    options.kind = kind, options.seed = seed;
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &s->space[X]), FT_OK);
    assert_int_equal(ft_distribution_float("y", -2, 2, false, 0.25, &s->space[Y]), FT_OK);
    assert_int_equal(ft_distribution_float("z", 1e-4, 1, true, 0, &s->space[Z]), FT_OK);
    assert_int_equal(ft_trials_init(&s->trials, 1, (bool[]){sign < 0}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, &s->trials, &s->sampler), FT_OK);
}

static void end(search *s) {
    ft_sampler_free(s->sampler);
    ft_trials_free(&s->trials);
}

// One more trial, which goes on.
static int64_t ask(search *s, double p[PARAMS]) {
    int64_t number;
    assert_int_equal(ft_trials_append(&s->trials, FT_RUNNING, &number), FT_OK);
    for (int k = 0; k < PARAMS; k++) {
        int name, distribution;
        assert_int_equal(ft_sampler_suggest(s->sampler, number, names[k], &s->space[k], &p[k]), FT_OK);
        assert_int_equal(ft_trials_name(&s->trials, names[k], &name), FT_OK);
        assert_int_equal(ft_trials_distribution(&s->trials, &s->space[k], &distribution), FT_OK);
        assert_int_equal(ft_trials_set_param(&s->trials, number, name, distribution, p[k]), FT_OK);
    }
    return number;
}

static void tell(search *s, int64_t number, const double p[PARAMS]) {
    const double value = s->sign * at(s->w, p[X], p[Y] / 4 + 0.5, p[Z]);
    assert_int_equal(ft_trials_finish(&s->trials, number, FT_COMPLETE, &value, 1), FT_OK);
}

static void run(search *s, int trials) {
    double p[PARAMS];
    for (int n = 0; n < trials; n++) {
        const int64_t number = ask(s, p);
        tell(s, number, p);
    }
}

static ft_gp_insight look(const ft_trials *trials, const ft_gp_options *options, ft_arena *arena) {
    ft_gp_insight in;
    ft_gp_silence silence;
    assert_int_equal(ft_gp_insight_of(trials, options, false, arena, &in, &silence), FT_OK);
    assert_int_equal(silence, FT_GP_SPEAKS);
    return in;
}

static int name_of(const ft_trials *trials, const char *name) {
    const int id = ft_trials_find_name(trials, name);
    assert_true(id >= 0);
    return id;
}

static void near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fmax(1, fabs(expected)))) fail_msg("%.17g, not %.17g", value, expected);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Every cell of a plane against the model, asked by this test about places that it works out by itself, and taken back
// to the objective's units by two trials of the better half, whose values the model has as they are.
static void check_plane(search *s, int first, int second) {
    enum { MOST = 64 };
    const ft_gp_options options = ft_gp_defaults();
    const ft_trials *t = &s->trials;
    ft_arena arena = {0};
    ft_gp_insight in = look(t, &options, &arena);
    ft_gp_plane plane;
    assert_int_equal(ft_gp_insight_plane(&in, name_of(t, names[first]), name_of(t, names[second]), &arena, &plane),
                     FT_OK);
    double loss[MOST], sorted[MOST], y[MOST];
    int best = 0, other = -1;
    for (int i = 0; i < t->count; i++) {
        loss[i] = sorted[i] = s->sign * t->trial[i].values[0];
        if (loss[i] < loss[best]) best = i;
    }
    qsort(sorted, (size_t)t->count, sizeof *sorted, by_value);
    for (int i = 0; i < t->count; i++)
        if (loss[i] == sorted[t->count / 4]) other = i;
    assert_int_equal(ft_gp_warp_losses(options.warp, loss, (int)t->count, &arena, y), FT_OK);
    const double unit = (loss[other] - loss[best]) / (y[other] - y[best]);
    const double middle = 0.5 * (sorted[(t->count - 1) / 2] + sorted[t->count / 2]);
    near(in.middle, s->sign * middle);
    assert_int_equal(in.best, best);
    assert_int_equal(plane.trial, best);
    assert_true(!plane.mixed && plane.columns == CELLS && plane.rows == CELLS);

    ft_gp_drawing d = {.trials = t, .options = &options, .number = -1};
    assert_int_equal(ft_gp_prepare(&d, -1, -1), FT_OK);
    int worse = 0;
    for (int cell = 0; cell < CELLS * CELLS; cell++) {
        double point[PARAMS], mean, variance, u[PARAMS];
        for (int k = 0; k < PARAMS; k++) {
            const double value = ft_trial_find_param(&t->trial[best], name_of(t, names[k]))->value;
            u[k] = k == first ? (cell % CELLS + 0.5) / CELLS : k == second ? (cell / CELLS + 0.5) / CELLS : NAN;
            if (k == X && isnan(u[k])) u[k] = value;
            if (k == Z && isnan(u[k])) u[k] = (log10(value) + 4) / 4;
            // 17 values from -2 to 2, each with room around it
            if (k == Y)
                u[k] = (fmin(16, fmax(0, isnan(u[k]) ? round((value + 2) / 0.25) : nearbyint(u[k] * 17 - 0.5))) + 0.5) /
                       17;
            point[k] = u[k]; // axes are by name
        }
        ft_gp_ask(&d.acquisition.objective, point, &mean, &variance, NULL, NULL);
        const double value = loss[best] + unit * (mean - y[best]);
        const ft_gp_view *v = &plane.view[cell];
        assert_true(plane.known[cell]);
        assert_int_equal(v->worse, value > middle);
        if (v->worse)
            assert_true(isnan(v->mean));
        else
            near(v->mean, s->sign * value);
        near(v->deviation, unit * sqrt(variance));
        const double z = (d.acquisition.best - mean) / sqrt(variance);
        near(v->gain, unit * sqrt(variance) * (0.3989422804014327 * exp(-0.5 * z * z) + z * 0.5 * erfc(-z / sqrt(2))));
        assert_true(v->chance == 1);
        worse += v->worse;
    }
    assert_true(worse > 0 && worse < CELLS * CELLS);
    near(plane.x[0], first == X ? 0 : first == Y ? -2.125 : 1e-4);
    near(plane.y[CELLS], second == X ? 1 : second == Y ? 2.125 : 1);
    ft_arena_free(&d.arena);
    ft_arena_free(&arena);
}

static void test_numbers(void **state) {
    for (int k = 0; k < 2; k++) {
        search s;
        begin(&s, k == 0 ? FT_SAMPLER_QUASI_RANDOM : FT_SAMPLER_GP, 11, k == 0 ? 1 : -1);
        run(&s, 40);
        check_plane(&s, X, Y);
        check_plane(&s, Z, X);
        check_plane(&s, Y, Z);
        end(&s);
    }
}

// The function itself: how far off the expectations are, in deviations, and whether what is said to be worse is.
static void test_truth(void **state) {
    enum { FUNCTIONS = 8 };
    const ft_gp_options options = ft_gp_defaults();
    double places = 0, within = 0, worse = 0, right = 0, square = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        search s;
        ft_arena arena = {0};
        ft_gp_plane plane;
        begin(&s, FT_SAMPLER_QUASI_RANDOM, 100 + (uint64_t)f, f % 2 == 0 ? 1 : -1);
        run(&s, 80);
        ft_gp_insight in = look(&s.trials, &options, &arena);
        assert_int_equal(ft_gp_insight_plane(&in, name_of(&s.trials, "x"), name_of(&s.trials, "y"), &arena, &plane),
                         FT_OK);
        const double z = ft_trial_find_param(&s.trials.trial[plane.trial], name_of(&s.trials, "z"))->value;
        for (int cell = 0; cell < CELLS * CELLS; cell++) {
            const double y = -2 + 0.25 * fmin(16, fmax(0, nearbyint((cell / CELLS + 0.5) / CELLS * 17 - 0.5)));
            const double truth = s.sign * at(s.w, (cell % CELLS + 0.5) / CELLS, y / 4 + 0.5, z);
            const ft_gp_view *v = &plane.view[cell];
            if (v->worse)
                worse++, right += s.sign * (truth - in.middle) > -v->deviation;
            else
                places++, within += fabs(truth - v->mean) < 2 * v->deviation,
                    square += pow((truth - v->mean) / v->deviation, 2);
        }
        ft_arena_free(&arena);
        end(&s);
    }
    print_message("%.0f places: %.0f%% within two deviations, mean square %.2f; of %.0f worse ones %.0f%% are\n",
                  places, 100 * within / places, square / places, worse, 100 * right / worse);
    assert_true(places > 500 && within > 0.9 * places && square < 2 * places && square > 0.3 * places);
    assert_true(worse > 500 && right > 0.9 * worse);
}

// Of the negative function, maximized, all is the same with the other sign.
static void test_mirror(void **state) {
    const ft_gp_options options = ft_gp_defaults();
    ft_arena arena = {0};
    ft_gp_plane plane[2];
    ft_gp_place best[2];
    int64_t trial[2];
    search s[2];
    for (int k = 0; k < 2; k++) {
        begin(&s[k], FT_SAMPLER_GP, 5, k == 0 ? 1 : -1);
        run(&s[k], 30);
        ft_gp_insight in = look(&s[k].trials, &options, &arena);
        assert_int_equal(
            ft_gp_insight_plane(&in, name_of(&s[k].trials, "x"), name_of(&s[k].trials, "z"), &arena, &plane[k]), FT_OK);
        assert_int_equal(ft_gp_insight_best(&in, &arena, &best[k], &trial[k]), FT_OK);
    }
    assert_true(plane[0].trial == plane[1].trial && trial[0] == trial[1] && best[0].view.mean == -best[1].view.mean);
    for (int i = 0; i < CELLS * CELLS; i++) {
        const ft_gp_view *a = &plane[0].view[i], *b = &plane[1].view[i];
        assert_true(a->worse == b->worse && a->deviation == b->deviation && a->gain == b->gain &&
                    (a->worse || a->mean == -b->mean));
    }
    ft_arena_free(&arena);
    end(&s[0]);
    end(&s[1]);
}

// ---- places ---------------------------------------------------------------------------------------------------------

static ft_gp_options of_seed(uint64_t seed) {
    ft_gp_options options = ft_gp_defaults();
    options.seed = seed;
    return options;
}

// Where the process would look next is where the sampler's next trial is; what is said of that one afterwards is what
// was said before.
static void test_next_and_before(void **state) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const ft_gp_options options = of_seed(seed);
        ft_arena arena = {0};
        ft_gp_place next;
        ft_gp_view before;
        ft_gp_silence silence;
        double p[PARAMS], other[PARAMS];
        bool then[64];
        search s;
        begin(&s, FT_SAMPLER_GP, seed, seed % 2 == 0 ? 1 : -1);
        run(&s, 18);
        // Two that run at the time.
        int64_t running = ask(&s, p);
        (void)ask(&s, other);
        ft_gp_insight in = look(&s.trials, &options, &arena);
        assert_int_equal(ft_gp_insight_next(&in, &arena, &next), FT_OK);
        double chosen[PARAMS];
        const int64_t number = ask(&s, chosen);
        assert_int_equal(next.count, PARAMS);
        for (int k = 0; k < PARAMS; k++)
            assert_true(next.params[k].value == chosen[k]);
        assert_true(next.view.gain > 0);
        tell(&s, running, p);
        tell(&s, running + 1, other);
        tell(&s, number, chosen);
        run(&s, 6);
        for (int64_t i = 0; i < number; i++)
            then[i] = i < running;
        assert_int_equal(ft_gp_insight_before(&s.trials, &options, number, then, false, &before, &silence), FT_OK);
        assert_true(silence == FT_GP_SPEAKS && !before.worse && !next.view.worse);
        near(before.mean, next.view.mean); // a value is rounded once on its way to a trial
        near(before.deviation, next.view.deviation);
        near(before.gain, next.view.gain);
        then[running] = then[running + 1] = true; // another history
        assert_int_equal(ft_gp_insight_before(&s.trials, &options, number, then, false, &before, &silence), FT_OK);
        assert_true(silence == FT_GP_SPEAKS &&
                    fabs(before.deviation - next.view.deviation) > 1e-3 * next.view.deviation);
        assert_int_equal(ft_gp_insight_before(&s.trials, &options, 5, then, false, &before, &silence), FT_OK);
        assert_int_equal(silence, FT_GP_FEW);
        ft_arena_free(&arena);
        end(&s);
    }
}

// No place of a plane and no other is expected to be better than the best one, not even the one that is looked at next.
static void test_best(void **state) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const ft_gp_options options = of_seed(seed);
        ft_arena arena = {0};
        ft_gp_place best, next;
        ft_gp_plane plane;
        int64_t trial;
        search s;
        begin(&s, FT_SAMPLER_GP, seed, seed % 2 == 0 ? 1 : -1);
        run(&s, 12 + 8 * (int)seed);
        ft_gp_insight in = look(&s.trials, &options, &arena);
        assert_int_equal(ft_gp_insight_best(&in, &arena, &best, &trial), FT_OK);
        assert_true(!best.view.worse && best.count == PARAMS);
        for (int k = 0; k < PARAMS && trial >= 0; k++)
            assert_true(best.params[k].value ==
                        ft_trial_find_param(&s.trials.trial[trial], best.params[k].name)->value);
        assert_int_equal(ft_gp_insight_next(&in, &arena, &next), FT_OK);
        assert_true(next.view.worse || s.sign * best.view.mean < s.sign * next.view.mean);
        for (int i = 0; i < 2000; i++) {
            const ft_gp_view v =
                ft_gp_insight_at(&in, (double[]){uniform(), (floor(17 * uniform()) + 0.5) / 17, uniform()});
            assert_true(v.worse || s.sign * best.view.mean <= s.sign * v.mean + 1e-9);
        }
        for (int pair = 0; pair < PARAMS; pair++) {
            const int a = name_of(&s.trials, names[pair]), b = name_of(&s.trials, names[(pair + 1) % PARAMS]);
            assert_int_equal(ft_gp_insight_plane(&in, a, b, &arena, &plane), FT_OK);
            for (int i = 0; i < CELLS * CELLS; i++)
                assert_true(plane.view[i].worse || s.sign * best.view.mean <= s.sign * plane.view[i].mean + 1e-9);
        }
        ft_arena_free(&arena);
        end(&s);
    }
}

// Five values, all of them tried, two of which are good: the best is where a trial was.
static void test_best_is_a_trial(void **state) {
    const ft_gp_options options = ft_gp_defaults();
    ft_arena arena = {0};
    ft_trials t;
    ft_distribution five;
    ft_gp_place best;
    int64_t trial, number;
    int name, distribution;
    assert_int_equal(ft_trials_init(&t, 1, (bool[]){true}), FT_OK);
    assert_int_equal(ft_distribution_int("n", 1, 5, false, 1, &five), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &five, &distribution), FT_OK);
    assert_int_equal(ft_trials_name(&t, "n", &name), FT_OK);
    for (int i = 0; i < 15; i++) {
        const double value = (double[]){3, 1, 2, 5, 4}[i % 5] + 0.01 * (i / 5);
        assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
        assert_int_equal(ft_trials_set_param(&t, number, name, distribution, i % 5 + 1), FT_OK);
        assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, &value, 1), FT_OK);
    }
    ft_gp_insight in = look(&t, &options, &arena);
    assert_int_equal(ft_gp_insight_best(&in, &arena, &best, &trial), FT_OK);
    assert_true(trial % 5 == 3 && best.count == 1 && best.params[0].value == 4);
    assert_true(best.view.mean > 4.9 && best.view.mean < 5.1);
    ft_arena_free(&arena);
    ft_trials_free(&t);
}

// ---- conditions -----------------------------------------------------------------------------------------------------

// kind a has x, kind b has y, kind c fails; all have z.
static void tree(ft_trials *t, int trials) {
    ft_distribution unit, kinds;
    const ft_choice choices[] = {{.kind = FT_CHOICE_TEXT, .text = "a"},
                                 {.kind = FT_CHOICE_TEXT, .text = "b"},
                                 {.kind = FT_CHOICE_TEXT, .text = "c"}};
    int name[4], distribution[2];
    bits = 9;
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &unit), FT_OK);
    kinds = (ft_distribution){.kind = FT_CATEGORICAL, .choices = (ft_choice *)choices, .choice_count = 3};
    assert_int_equal(ft_trials_init(t, 1, (bool[]){false}), FT_OK);
    const char *const all[] = {"kind", "x", "y", "z"};
    for (int k = 0; k < 4; k++)
        assert_int_equal(ft_trials_name(t, all[k], &name[k]), FT_OK);
    assert_int_equal(ft_trials_distribution(t, &unit, &distribution[0]), FT_OK);
    assert_int_equal(ft_trials_distribution(t, &kinds, &distribution[1]), FT_OK);
    for (int i = 0; i < trials; i++) {
        const int kind = i % 3;
        const double u = uniform(), z = uniform(),
                     value = (kind == 0 ? pow(u - 0.3, 2) : 0.2 + pow(u - 0.8, 2)) + 0.1 * pow(z - 0.5, 2);
        int64_t number;
        assert_int_equal(ft_trials_append(t, FT_RUNNING, &number), FT_OK);
        assert_int_equal(ft_trials_set_param(t, number, name[0], distribution[1], kind), FT_OK);
        if (kind != 2) assert_int_equal(ft_trials_set_param(t, number, name[1 + kind], distribution[0], u), FT_OK);
        assert_int_equal(ft_trials_set_param(t, number, name[3], distribution[0], z), FT_OK);
        assert_int_equal(ft_trials_finish(t, number, kind == 2 ? FT_FAIL : FT_COMPLETE, &value, kind != 2), FT_OK);
    }
}

static void test_conditions(void **state) {
    const ft_gp_options options = ft_gp_defaults();
    ft_arena arena = {0};
    ft_trials t;
    ft_gp_plane plane;
    tree(&t, 60);
    ft_gp_insight in = look(&t, &options, &arena);
    const int kind = name_of(&t, "kind"), x = name_of(&t, "x"), y = name_of(&t, "y"), z = name_of(&t, "z");
    // The best trial is of kind a; those of b are as the best of b. What always fails has no trial to be like.
    assert_int_equal(ft_gp_insight_plane(&in, kind, z, &arena, &plane), FT_OK);
    assert_true(plane.columns == 3 && plane.rows == CELLS && plane.mixed && plane.trial == in.best);
    assert_true(plane.x[0] == -0.5 && plane.x[3] == 2.5);
    int64_t best_b = -1;
    for (int64_t i = 1; i < t.count; i += 3)
        if (best_b < 0 || t.trial[i].values[0] < t.trial[best_b].values[0]) best_b = i;
    ft_gp_drawing *d = in.drawing;
    for (int row = 0; row < CELLS; row++) {
        double point[4] = {1, NAN, NAN, (row + 0.5) / CELLS}; // kind, x, y, z
        assert_true(plane.known[3 * row] && plane.known[3 * row + 1] && !plane.known[3 * row + 2]);
        assert_int_equal(d->axes.count, 4);
        point[2] = ft_trial_find_param(&t.trial[best_b], y)->value;
        const ft_gp_view b = ft_gp_insight_at(&in, point);
        assert_true(b.deviation == plane.view[3 * row + 1].deviation && b.worse == plane.view[3 * row + 1].worse);
        point[0] = 0, point[1] = ft_trial_find_param(&t.trial[in.best], x)->value, point[2] = NAN;
        const ft_gp_view a = ft_gp_insight_at(&in, point);
        assert_true(a.deviation == plane.view[3 * row].deviation && a.chance == plane.view[3 * row].chance);
    }
    // x is there with kind a alone, and never with y.
    assert_int_equal(ft_gp_insight_plane(&in, x, kind, &arena, &plane), FT_OK);
    for (int cell = 0; cell < 3 * CELLS; cell++)
        assert_int_equal(plane.known[cell], cell < CELLS);
    assert_false(plane.mixed);
    assert_int_equal(ft_gp_insight_plane(&in, x, y, &arena, &plane), FT_OK);
    assert_int_equal(plane.trial, -1);
    // Chances: what fails is known to.
    double point[4] = {2, NAN, NAN, 0.5};
    assert_true(ft_gp_insight_at(&in, point).chance < 0.5);
    point[0] = 0, point[1] = 0.3;
    assert_true(ft_gp_insight_at(&in, point).chance > 0.8);
    ft_arena_free(&arena);
    ft_trials_free(&t);
}

// ---- silence --------------------------------------------------------------------------------------------------------

static void hush(int objectives, int trials, int parameters, bool alike, bool broken, bool always,
                 ft_gp_silence expected) {
    const ft_gp_options options = ft_gp_defaults();
    ft_arena arena = {0};
    ft_trials t;
    ft_distribution unit;
    ft_gp_insight in;
    ft_gp_silence silence;
    int distribution, limit;
    bits = 3;
    assert_int_equal(ft_trials_init(&t, objectives, (bool[]){false, true}), FT_OK);
    assert_int_equal(ft_distribution_float("p", 0, 1, false, 0, &unit), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &unit, &distribution), FT_OK);
    assert_int_equal(ft_trials_constraint_name(&t, "limit", &limit), FT_OK);
    for (int i = 0; i < trials; i++) {
        int64_t number;
        double sum = 0;
        assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
        for (int k = 0; k < parameters; k++) {
            char text[8];
            int name;
            const double u = uniform();
            snprintf(text, sizeof text, "p%02d", k);
            assert_int_equal(ft_trials_name(&t, text, &name), FT_OK);
            assert_int_equal(ft_trials_set_param(&t, number, name, distribution, u), FT_OK);
            sum += (u - 0.5) * (u - 0.5);
        }
        if (broken) assert_int_equal(ft_trials_set_constraint(&t, number, limit, 1), FT_OK);
        assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, (double[]){alike ? 1 : sum, sum}, objectives),
                         FT_OK);
    }
    assert_int_equal(ft_gp_insight_of(&t, &options, always, &arena, &in, &silence), FT_OK);
    if (silence != expected)
        fail_msg("%d trials of %d parameters: '%s', not '%s'", trials, parameters, ft_gp_silence_text(silence),
                 ft_gp_silence_text(expected));
    assert_true((ft_gp_silence_text(silence)[0] == '\0') == (silence == FT_GP_SPEAKS));
    ft_arena_free(&arena);
    ft_trials_free(&t);
}

static void test_silence(void **state) {
    hush(1, 0, 1, false, false, false, FT_GP_FEW);
    hush(1, 9, 1, false, false, false, FT_GP_FEW);
    hush(1, 10, 1, false, false, false, FT_GP_SPEAKS);
    hush(2, 30, 1, false, false, true, FT_GP_OBJECTIVES);
    hush(1, 12, 20, false, false, false, FT_GP_SPEAKS);
    hush(1, 12, 21, false, false, false, FT_GP_PARAMETERS);
    hush(1, 12, 21, false, false, true, FT_GP_SPEAKS);
    hush(1, 250, 1, false, false, false, FT_GP_SPEAKS);
    hush(1, 251, 1, false, false, false, FT_GP_MANY);
    hush(1, 251, 1, false, false, true, FT_GP_SPEAKS);
    hush(1, 12, 1, true, false, false, FT_GP_ALIKE);
    hush(1, 12, 1, false, true, false, FT_GP_BROKEN);
    hush(1, 12, 0, false, false, false, FT_GP_ONE_POINT);
    // The numbers that the texts name; and those of the sampler.
    assert_int_equal(FT_INSIGHT_MOST, FT_AUTO_GP_TRIALS);
    assert_int_equal(FT_INSIGHT_PARAMETERS, FT_AUTO_GP_PARAMETERS);
    assert_int_equal(FT_INSIGHT_FEWEST, ft_sampler_defaults().startup_trials);
    assert_non_null(strstr(ft_gp_silence_text(FT_GP_MANY), "250"));
    assert_non_null(strstr(ft_gp_silence_text(FT_GP_PARAMETERS), "20 "));
    assert_non_null(strstr(ft_gp_silence_text(FT_GP_FEW), "10 "));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),    cmocka_unit_test(test_truth),
                                       cmocka_unit_test(test_mirror),     cmocka_unit_test(test_next_and_before),
                                       cmocka_unit_test(test_best),       cmocka_unit_test(test_best_is_a_trial),
                                       cmocka_unit_test(test_conditions), cmocka_unit_test(test_silence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
