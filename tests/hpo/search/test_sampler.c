// Samplers from outside: the fast TPE suggests what the plain one does, a study repeats after a kill at any trial,
// every suggestion is legal, grids visit each point once, and search beats chance on a rare branch.
#include "hpo/search/grid.h"
#include "hpo/search/history/random_stream.h"
#include "hpo/search/sampler.h"
#include "hpo/search/tpe/parzen.h"
#include "hpo/search/tpe/subspace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 8 };

typedef struct world {
    ft_arena arena;
    ft_distribution d[PARAMETERS];
    ft_trials trials;
    ft_sampler *sampler;
    bool conditional;
} world;

static const char *const NAMES[PARAMETERS] = {"rate", "decay", "warmup", "length", "width", "kind", "flag", "fixed"};

static void start(world *w, const ft_sampler_options *options, int objectives, bool conditional) {
    *w = (world){.conditional = conditional};
    ft_choice choices[4];
    for (int i = 0; i < 4; i++)
        choices[i] = (ft_choice){.kind = FT_CHOICE_INT, .integer = i};
    assert_int_equal(ft_distribution_float("x", 1e-6, 1e-2, true, 0, &w->d[0]), FT_OK);
    assert_int_equal(ft_distribution_float("x", 0, 0.3, false, 0, &w->d[1]), FT_OK);
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0.1, &w->d[2]), FT_OK);
    assert_int_equal(ft_distribution_int("x", 128, 512, false, 32, &w->d[3]), FT_OK);
    assert_int_equal(ft_distribution_int("x", 1, 500, true, 1, &w->d[4]), FT_OK);
    assert_int_equal(ft_distribution_categorical("x", &w->arena, choices, 4, &w->d[5]), FT_OK);
    assert_int_equal(ft_distribution_categorical("x", &w->arena, choices, 2, &w->d[6]), FT_OK);
    assert_int_equal(ft_distribution_int("x", 3, 3, false, 1, &w->d[7]), FT_OK);
    assert_int_equal(ft_trials_init(&w->trials, objectives, (bool[]){false, true, false}), FT_OK);
    assert_int_equal(ft_sampler_new(options, &w->trials, &w->sampler), FT_OK);
}

static void stop(world *w) {
    ft_sampler_free(w->sampler);
    ft_trials_free(&w->trials);
    ft_arena_free(&w->arena);
}

static void store(ft_trials *trials, int64_t number, const char *name, const ft_distribution *d, double value) {
    int name_id, distribution_id;
    assert_int_equal(ft_trials_name(trials, name, &name_id), FT_OK);
    assert_int_equal(ft_trials_distribution(trials, d, &distribution_id), FT_OK);
    assert_int_equal(ft_trials_set_param(trials, number, name_id, distribution_id, value), FT_OK);
}

static double ask(world *w, int64_t number, int parameter) {
    double value = NAN;
    const ft_distribution *d = &w->d[parameter];
    ft_distribution narrow;
    if (w->conditional && parameter == 1 && number % 7 == 3) { // another range now and then
        assert_int_equal(ft_distribution_float("x", 0.1, 0.2, false, 0, &narrow), FT_OK);
        d = &narrow;
    }
    assert_int_equal(ft_sampler_suggest(w->sampler, number, NAMES[parameter], d, &value), FT_OK);
    assert_true(ft_distribution_contains(d, value));
    store(&w->trials, number, NAMES[parameter], d, value);
    return value;
}

// All a trial does, a function of its number and what the sampler says.
static void ask_all(world *w, int64_t number, double *x) {
    memset(x, 0, PARAMETERS * sizeof *x);
    x[5] = ask(w, number, 5);
    for (int i = 0; i < PARAMETERS; i++) {
        if (i == 5 || (w->conditional && (i == 0 || i == 3) && x[5] != 2)) continue;
        x[i] = ask(w, number, i);
    }
    assert_int_equal(ft_trials_forget_relative(&w->trials, number), FT_OK);
}

static void end(world *w, int64_t number, const double *x) {
    double values[3] = {fabs(log10(x[0] + 1e-7) + 4) + x[1] + x[2] + x[6], x[3] / 512 - x[2], x[4] * x[1]};
    ft_random_stream s = ft_random_stream_of(5, number, FT_DRAW_UNIFORM, "fate");
    double fate = ft_random_double(&s);
    int id;
    if (fate < 0.1) {
        assert_int_equal(ft_trials_finish(&w->trials, number, FT_FAIL, NULL, 0), FT_OK);
        return;
    }
    if (fate < 0.3) {
        assert_int_equal(ft_trials_constraint_name(&w->trials, "memory", &id), FT_OK);
        assert_int_equal(ft_trials_set_constraint(&w->trials, number, id, nearbyint(10 * (fate - 0.2))), FT_OK);
    }
    if (fate > 0.8 && w->trials.objectives == 1) {
        for (int step = 0; step < 3; step++)
            assert_int_equal(ft_trials_report(&w->trials, number, step, values[0] + step), FT_OK);
        assert_int_equal(ft_trials_finish(&w->trials, number, FT_PRUNED, values, 1), FT_OK);
        return;
    }
    assert_int_equal(ft_trials_finish(&w->trials, number, FT_COMPLETE, values, w->trials.objectives), FT_OK);
}

// `workers` trials run at a time; they end out of order.
static void run(world *w, int trials, int workers) {
    double x[8][PARAMETERS];
    int64_t running[8];
    for (int n = 0; n < trials; n++) {
        int slot = n % workers;
        if (n >= workers) end(w, running[(slot * 3 + n) % workers], x[(slot * 3 + n) % workers]);
        slot = n >= workers ? (slot * 3 + n) % workers : slot;
        assert_int_equal(ft_trials_append(&w->trials, FT_RUNNING, &running[slot]), FT_OK);
        ask_all(w, running[slot], x[slot]);
    }
}

static void same_trials(const ft_trials *a, const ft_trials *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const ft_trial *t = &a->trial[i], *u = &b->trial[i];
        assert_int_equal(t->param_count, u->param_count);
        for (int p = 0; p < t->param_count; p++) {
            const char *name = a->names.name[t->params[p].name];
            const ft_trial_param *other = ft_trial_find_param(u, ft_trials_find_name(b, name));
            assert_non_null(other);
            if (memcmp(&t->params[p].value, &other->value, sizeof(double)) != 0)
                fail_msg("trial %d, %s: %.17g and %.17g", (int)i, name, t->params[p].value, other->value);
        }
    }
}

static void fast_equals_plain(void **state) {
    for (int variant = 0; variant < 31; variant++) {
        ft_sampler_options options = ft_sampler_defaults();
        const bool evolves = variant >= 24 && variant < 28, is_long = variant >= 28; // beyond where others are thinned
        const int trials = is_long ? 2315 : 200;
        if (is_long) options.startup_trials = 2060;
        if (evolves) options.kind = FT_SAMPLER_CMAES;
        options.seed = (uint64_t)variant;
        options.multivariate = variant % 3 == 0 ? FT_SWITCH_OFF : FT_SWITCH_AUTO;
        options.group = variant % 3 == 2;
        options.constant_liar = variant % 4 != 1;
        options.branch_split = variant % 5 == 4;
        options.branch_joint = variant % 5 >= 3;
        options.fine = variant % 7 >= 3 || is_long ? FT_SWITCH_AUTO : FT_SWITCH_OFF;
        options.quasi_startup = variant % 2 != 0;
        options.failed = variant % 11 > 5;
        int objectives = variant < 18 || evolves || is_long ? 1 : 2 + variant % 2, workers = variant % 2 ? 5 : 1;
        world fast, plain;
        start(&fast, &options, objectives, variant % 4 >= 2);
        run(&fast, trials, workers);
        options.plain = true;
        start(&plain, &options, objectives, variant % 4 >= 2);
        run(&plain, trials, workers);
        same_trials(&fast.trials, &plain.trials, trials);
        stop(&fast);
        stop(&plain);
    }
}

// The history as storage would hand it over: other ids in memory, the same trials, which end in another order; of those that run what
// they have asked for, no more.
static void reload(const world *from, world *to, int64_t trials, int params_of_last) {
    for (int64_t i = 0; i < trials; i++) {
        const ft_trial *t = &from->trials.trial[i];
        int64_t number;
        assert_int_equal(ft_trials_append(&to->trials, FT_RUNNING, &number), FT_OK);
        int params = i == trials - 1 && params_of_last >= 0 ? params_of_last : t->param_count;
        for (int p = 0; p < params; p++)
            store(&to->trials, number, from->trials.names.name[t->params[p].name],
                  from->trials.distributions[t->params[p].distribution], t->params[p].value);
    }
    for (int64_t i = params_of_last >= 0 ? trials - 2 : trials - 1; i >= 0; i--) { // the last one was running when the study was killed
        const ft_trial *t = &from->trials.trial[i];
        if (t->state == FT_RUNNING) continue;
        for (int r = 0; r < t->report_count; r++)
            assert_int_equal(ft_trials_report(&to->trials, i, t->reports[r].step, t->reports[r].value), FT_OK);
        for (int c = 0; c < t->constraint_count; c++) {
            int id;
            assert_int_equal(ft_trials_constraint_name(&to->trials, "memory", &id), FT_OK);
            assert_int_equal(ft_trials_set_constraint(&to->trials, i, id, t->constraints[c].value), FT_OK);
        }
        assert_int_equal(ft_trials_finish(&to->trials, i, t->state, t->values, t->value_count), FT_OK);
    }
}

// Four run at a time and end out of order: a process that reads the history before a trial begins suggests what the one that was there
// all the while does.
static void others_suggest_the_same(void **state) {
    static const struct {
        const char *what;
        ft_sampler_kind kind;
        bool group, branches, quasi;
        int startup, trials, from, every, objectives;
    } cases[] = {
        {"tpe", FT_SAMPLER_TPE, .trials = 120, .every = 9, .objectives = 1},
        {"tpe by groups", FT_SAMPLER_TPE, .group = true, .trials = 120, .every = 9, .objectives = 1},
        {"tpe by branches", FT_SAMPLER_TPE, .branches = true, .quasi = true, .trials = 120, .every = 9, .objectives = 1},
        {"tpe, two objectives", FT_SAMPLER_TPE, .branches = true, .trials = 80, .every = 9, .objectives = 2},
        {"tpe where others begin to be thinned", FT_SAMPLER_TPE, .startup = 2060, .trials = 2320, .from = 2280, .every = 4, .objectives = 1},
        {"random", FT_SAMPLER_RANDOM, .trials = 40, .every = 5, .objectives = 1},
        {"quasi-random", FT_SAMPLER_QUASI_RANDOM, .trials = 40, .every = 5, .objectives = 1},
        {"cmaes", FT_SAMPLER_CMAES, .branches = true, .trials = 120, .every = 9, .objectives = 1},
        {"gp", FT_SAMPLER_GP, .trials = 60, .every = 3, .objectives = 1},
        {"auto", FT_SAMPLER_AUTO, .branches = true, .startup = 240, .trials = 262, .from = 235, .every = 9, .objectives = 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int conditional = 0; conditional < 2; conditional++) {
            enum { WORKERS = 4 };
            ft_sampler_options options = ft_sampler_defaults();
            double x[WORKERS][PARAMETERS], y[PARAMETERS];
            int64_t running[WORKERS], number;
            world w, other;
            options.kind = cases[k].kind;
            options.group = cases[k].group;
            options.branch_joint = options.branch_split = cases[k].branches;
            options.quasi_startup = cases[k].quasi;
            options.fine = FT_SWITCH_AUTO;
            options.failed = conditional;
            options.gp.candidates = 100, options.gp.starts = 2;
            if (cases[k].startup > 0) options.startup_trials = cases[k].startup;
            start(&w, &options, cases[k].objectives, conditional);
            for (int n = 0; n < cases[k].trials; n++) {
                const int slot = n < WORKERS ? n : n * 3 % 7 % WORKERS;
                const bool reads = n >= cases[k].from && n % cases[k].every == 0;
                if (n >= WORKERS) end(&w, running[slot], x[slot]);
                if (reads) {
                    start(&other, &options, cases[k].objectives, conditional);
                    reload(&w, &other, n, -1);
                    assert_int_equal(ft_trials_append(&other.trials, FT_RUNNING, &number), FT_OK);
                    ask_all(&other, number, y);
                    stop(&other);
                }
                assert_int_equal(ft_trials_append(&w.trials, FT_RUNNING, &running[slot]), FT_OK);
                ask_all(&w, running[slot], x[slot]);
                for (int p = 0; reads && p < PARAMETERS; p++)
                    if (memcmp(&x[slot][p], &y[p], sizeof *y) != 0)
                        fail_msg("%s%s, trial %d, %s: %.17g and %.17g", cases[k].what, conditional ? " with conditions" : "", n, NAMES[p],
                                 x[slot][p], y[p]);
            }
            stop(&w);
        }
}

static void resumes_to_the_bit(void **state) {
    for (int variant = 0; variant < 9; variant++) {
        const bool gp = variant == 6; // what goes together is drawn at once, so a trial is there whole or not at all
        ft_sampler_options options = ft_sampler_defaults();
        options.seed = 77;
        options.group = variant % 3 == 1;
        options.quasi_startup = variant % 2 == 1;
        if (variant == 4) options.kind = FT_SAMPLER_RANDOM;
        if (variant == 5) options.kind = FT_SAMPLER_QUASI_RANDOM;
        if (variant > 6) options.kind = FT_SAMPLER_CMAES;
        if (gp) options.kind = FT_SAMPLER_GP, options.gp.candidates = 100, options.gp.starts = 2;
        const int trials = gp ? 45 : 90;
        world whole;
        start(&whole, &options, 1, variant % 2 == 0);
        run(&whole, trials, 1);
        for (int64_t killed = 1; killed < trials - 10; killed += 13) {
            world resumed;
            double x[PARAMETERS];
            start(&resumed, &options, 1, variant % 2 == 0);
            reload(&whole, &resumed, killed, gp ? 0 : (int)(killed % 4));
            ask_all(&resumed, killed - 1, x); // the running one goes on
            end(&resumed, killed - 1, x);
            for (int64_t n = killed; n < trials - 1; n++) {
                int64_t number;
                assert_int_equal(ft_trials_append(&resumed.trials, FT_RUNNING, &number), FT_OK);
                ask_all(&resumed, number, x);
                end(&resumed, number, x);
            }
            same_trials(&whole.trials, &resumed.trials, trials - 1);
            stop(&resumed);
        }
        stop(&whole);
    }
}

static void seeds_differ(void **state) {
    ft_sampler_options options = ft_sampler_defaults();
    world a, b;
    int equal = 0;
    start(&a, &options, 1, false);
    options.seed = 1;
    start(&b, &options, 1, false);
    run(&a, 60, 1);
    run(&b, 60, 1);
    for (int i = 0; i < 60; i++)
        equal += a.trials.trial[i].params[1].value == b.trials.trial[i].params[1].value;
    assert_int_equal(equal, 0);
    stop(&a);
    stop(&b);
}

static void known_and_single_values(void **state) {
    ft_sampler_options options = ft_sampler_defaults();
    world w;
    int64_t number;
    double value;
    start(&w, &options, 1, false);
    assert_int_equal(ft_trials_append(&w.trials, FT_RUNNING, &number), FT_OK);
    store(&w.trials, number, "decay", &w.d[1], 7); // even out of range: someone fixed it
    assert_int_equal(ft_sampler_suggest(w.sampler, number, "decay", &w.d[1], &value), FT_OK);
    assert_true(value == 7);
    assert_int_equal(ft_sampler_suggest(w.sampler, number, "fixed", &w.d[7], &value), FT_OK);
    assert_true(value == 3);
    assert_int_equal(ft_sampler_suggest(w.sampler, 5, "fixed", &w.d[7], &value), FT_FAILED);
    ft_error_clear();
    stop(&w);
    options.candidates = 0;
    ft_sampler *sampler;
    assert_int_equal(ft_sampler_new(&options, &w.trials, &sampler), FT_INVALID);
    options = ft_sampler_defaults();
    options.group = true;
    options.multivariate = FT_SWITCH_OFF;
    assert_int_equal(ft_sampler_new(&options, &w.trials, &sampler), FT_INVALID);
    ft_error_clear();
}

// Two trials ask in turns, and others end in between: the cache sees it, and what was drawn jointly stays.
static void trials_in_turns(void **state) {
    for (int variant = 0; variant < 4; variant++) {
        ft_sampler_options options = ft_sampler_defaults();
        options.multivariate = variant % 2 ? FT_SWITCH_OFF : FT_SWITCH_ON;
        world w[2];
        for (int plain = 0; plain < 2; plain++) {
            options.plain = plain;
            start(&w[plain], &options, 1, variant >= 2);
            run(&w[plain], 40, 3);
            for (int round = 0; round < 20; round++) {
                int64_t a, b;
                double x[PARAMETERS] = {0}, y[PARAMETERS] = {0}, drawn[PARAMETERS];
                assert_int_equal(ft_trials_append(&w[plain].trials, FT_RUNNING, &a), FT_OK);
                assert_int_equal(ft_trials_append(&w[plain].trials, FT_RUNNING, &b), FT_OK);
                x[1] = ask(&w[plain], a, 1);
                const ft_trial *first = &w[plain].trials.trial[a];
                int joint = first->relative_count;
                for (int i = 0; i < joint; i++)
                    drawn[i] = first->relative[i].value;
                ask_all(&w[plain], b, y);
                x[2] = ask(&w[plain], a, 2);
                end(&w[plain], b, y);
                for (int i = 3; i < PARAMETERS; i++)
                    x[i] = ask(&w[plain], a, i);
                x[0] = ask(&w[plain], a, 0);
                first = &w[plain].trials.trial[a];
                assert_true(first->relative_count == joint && (joint > 0) == (variant == 0 || variant == 2));
                for (int i = 0; i < joint; i++)
                    assert_true(first->relative[i].value == drawn[i]);
                end(&w[plain], a, x);
            }
        }
        same_trials(&w[0].trials, &w[1].trials, w[0].trials.count);
        stop(&w[0]);
        stop(&w[1]);
    }
}

// Trials that end out of order: a group has the range of its lowest trial, and a name with two ranges is in no joint
// space.
static void groups_do_not_depend_on_order(void **state) {
    for (int order = 0; order < 2; order++) {
        ft_trials t;
        ft_distribution d[2];
        ft_subspaces found = {0};
        ft_subspace joint, group;
        int id;
        double value = 1;
        int64_t number;
        assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ft_distribution_float("x", 0, i + 1, false, 0, &d[i]), FT_OK);
            assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
            store(&t, number, "b", &d[i], 0.5);
            store(&t, number, "a", &d[0], 0.5);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ft_trials_finish(&t, i ^ order, FT_COMPLETE, &value, 1), FT_OK);
            assert_int_equal(ft_subspaces_update(&found, &t), FT_OK);
        }
        assert_int_equal(ft_trials_distribution(&t, &d[0], &id), FT_OK);
        assert_int_equal(ft_subspaces_joint(&found, &t, &joint), FT_OK);
        assert_int_equal(joint.count, 1);
        assert_string_equal(t.names.name[joint.name[0]], "a");
        assert_int_equal(found.groups, 1);
        assert_int_equal(ft_subspaces_group(&found, &t, 0, &group), FT_OK);
        assert_int_equal(group.count, 2);
        assert_string_equal(t.names.name[group.name[0]], "a"); // by name, not in the order of use
        assert_true(group.distribution[0] == id && group.distribution[1] == id);
        ft_subspace_free(&joint);
        ft_subspace_free(&group);
        ft_subspaces_free(&found);
        ft_trials_free(&t);
    }
}

// A parameter in one trial of eight: with Optuna's split hardly one of the good trials has it; with a split of its own
// the branch learns. Judged by how close to the best value it gets in its last trials.
static void rare_branch_learns(void **state) {
    double error[2] = {0, 0};
    for (int branch = 0; branch < 2; branch++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            ft_sampler_options options = ft_sampler_defaults();
            options.seed = seed;
            options.branch_split = branch;
            options.group = true;
            ft_trials trials;
            ft_sampler *sampler;
            ft_distribution d;
            assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
            assert_int_equal(ft_trials_init(&trials, 1, (bool[]){false}), FT_OK);
            assert_int_equal(ft_sampler_new(&options, &trials, &sampler), FT_OK);
            for (int n = 0; n < 240; n++) {
                int64_t number;
                double x;
                bool rare = n % 8 == 0;
                const char *name = rare ? "rare" : "common";
                assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
                assert_int_equal(ft_sampler_suggest(sampler, number, name, &d, &x), FT_OK);
                store(&trials, number, name, &d, x);
                double value = fabs(x - 0.7) + (rare ? 10 : 0);
                assert_int_equal(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1), FT_OK);
                if (rare && n >= 120) error[branch] += fabs(x - 0.7);
            }
            ft_sampler_free(sampler);
            ft_trials_free(&trials);
        }
    print_message("mean distance: one split %.4f, a split of its own %.4f\n", error[0] / 90, error[1] / 90);
    assert_true(error[1] < 0.7 * error[0]);
}

// One branch of two has a pair of parameters whose good values lie on a line through a third one that all trials have.
// Each alone finds the middle of the line only.
static void branches_are_drawn_together(void **state) {
    double error[2] = {0, 0};
    for (int joint = 0; joint < 2; joint++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            ft_sampler_options options = ft_sampler_defaults();
            options.seed = seed;
            options.branch_split = true;
            options.branch_joint = joint;
            ft_trials trials;
            ft_sampler *sampler;
            ft_distribution d;
            assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
            assert_int_equal(ft_trials_init(&trials, 1, (bool[]){false}), FT_OK);
            assert_int_equal(ft_sampler_new(&options, &trials, &sampler), FT_OK);
            for (int n = 0; n < 200; n++) {
                static const char *const names[] = {"all", "own.a", "own.b"};
                int64_t number;
                double x[3] = {0};
                assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
                for (int i = 0; i < (n % 2 == 0 ? 3 : 1); i++) {
                    assert_int_equal(ft_sampler_suggest(sampler, number, names[i], &d, &x[i]), FT_OK);
                    store(&trials, number, names[i], &d, x[i]);
                }
                double off = fabs(x[1] - x[0]) + fabs(x[2] - 1 + x[1]), value = n % 2 == 0 ? off : 0.5;
                assert_int_equal(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1), FT_OK);
                if (n % 2 == 0 && n >= 100) error[joint] += off;
            }
            ft_sampler_free(sampler);
            ft_trials_free(&trials);
        }
    print_message("mean distance: alone %.4f, together %.4f\n", error[0] / 300, error[1] / 300);
    assert_true(error[1] < 0.8 * error[0]);
}

// Twenty-five good trials are all that there will be, and Optuna keeps their kernels a 27th of the range wide.
static void fine_kernels_come_nearer(void **state) {
    double best[2] = {0, 0};
    for (int fine = 0; fine < 2; fine++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            ft_sampler_options options = ft_sampler_defaults();
            options.seed = seed;
            options.fine = fine ? FT_SWITCH_AUTO : FT_SWITCH_OFF;
            ft_trials trials;
            ft_sampler *sampler;
            ft_distribution d;
            double least = INFINITY;
            assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
            assert_int_equal(ft_trials_init(&trials, 1, (bool[]){false}), FT_OK);
            assert_int_equal(ft_sampler_new(&options, &trials, &sampler), FT_OK);
            for (int n = 0; n < 300; n++) {
                int64_t number;
                double value = 0;
                assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
                for (int i = 0; i < 4; i++) {
                    char name[16];
                    double x;
                    snprintf(name, sizeof name, "x%d", i);
                    assert_int_equal(ft_sampler_suggest(sampler, number, name, &d, &x), FT_OK);
                    store(&trials, number, name, &d, x);
                    value += fabs(x - 0.3);
                }
                assert_int_equal(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1), FT_OK);
                if (value < least) least = value;
            }
            best[fine] += least / 4;
            ft_sampler_free(sampler);
            ft_trials_free(&trials);
        }
    print_message("mean best: Optuna's kernels %.4f, finer ones %.4f\n", best[0], best[1]);
    assert_true(best[1] < 0.7 * best[0]);
    assert_int_equal(ft_parzen_fine_parts(10), 9);
    assert_int_equal(ft_parzen_fine_parts(1000), 306);
    assert_int_equal(ft_parzen_fine_parts(1 << 20), 1000);
}

// exp(log(low)) is below 3e-6 and above 1e-4; both ends are the range's own.
static void grid_keeps_the_ends(void **state) {
    for (int i = 0; i < 2; i++) {
        ft_distribution d = {.kind = FT_FLOAT, .low = i == 0 ? 3e-6 : 1e-4, .high = 1e-2, .log = true};
        ft_grid_axis axis = {"rate", &d, 5};
        assert_true(ft_grid_value(&axis, 5, 0) == d.low);
        assert_true(ft_grid_value(&axis, 5, 4) == d.high);
    }
}

static void grid_visits_all(void **state) {
    world w;
    ft_sampler_options options = ft_sampler_defaults();
    start(&w, &options, 1, false);
    ft_grid_axis axes[4] = {{"length", &w.d[3], 0}, {"kind", &w.d[5], 0}, {"warmup", &w.d[2], 0}, {"rate", &w.d[0], 3}};
    options.kind = FT_SAMPLER_GRID;
    options.axes = axes;
    options.axis_count = 4;
    ft_sampler *grid;
    int64_t left, number, points = 13 * 4 * 11 * 3;
    assert_int_equal(ft_sampler_new(&options, &w.trials, &grid), FT_OK);
    // A trial of someone else takes a point, one off the grid takes none, one without a rate takes three.
    double others[3][4] = {{160, 1, 0.3, 1e-4}, {161, 1, 0.3, 1e-4}, {192, 0, 0.1, NAN}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ft_trials_append(&w.trials, FT_RUNNING, &number), FT_OK);
        for (int a = 0; a < 4; a++)
            if (!isnan(others[i][a])) store(&w.trials, number, axes[a].name, axes[a].distribution, others[i][a]);
    }
    assert_int_equal(ft_sampler_left(grid, &left), FT_OK);
    assert_int_equal(left, points - 4);
    int64_t expected = left;
    double last[4] = {0};
    for (int64_t n = 0; n < expected; n++) {
        double x[4];
        assert_int_equal(ft_trials_append(&w.trials, FT_RUNNING, &number), FT_OK);
        for (int a = 0; a < 4; a++) {
            assert_int_equal(ft_sampler_suggest(grid, number, axes[a].name, axes[a].distribution, &x[a]), FT_OK);
            assert_true(ft_distribution_contains(axes[a].distribution, x[a]));
            store(&w.trials, number, axes[a].name, axes[a].distribution, x[a]);
        }
        int order = 0; // strictly ascending: no point comes twice
        for (int a = 0; a < 4 && order == 0; a++)
            order = (x[a] > last[a]) - (x[a] < last[a]);
        assert_true(n == 0 || order > 0);
        memcpy(last, x, sizeof last);
    }
    assert_int_equal(ft_sampler_left(grid, &left), FT_OK);
    assert_int_equal(left, 0);
    double value;
    assert_int_equal(ft_trials_append(&w.trials, FT_RUNNING, &number), FT_OK);
    assert_int_equal(ft_sampler_suggest(grid, number, "length", &w.d[3], &value), FT_FAILED);
    ft_error_clear();
    ft_sampler_free(grid);
    axes[3].points = 0; // a continuous axis needs a number
    assert_int_equal(ft_sampler_new(&options, &w.trials, &grid), FT_INVALID);
    axes[3].points = 100000;
    assert_int_equal(ft_sampler_new(&options, &w.trials, &grid), FT_INVALID);
    ft_error_clear();
    stop(&w);
}

// Every value of a discrete range gets its share, the ends too; any 2^k (3^k) successive Halton points fall one into
// each of 2^k (3^k) equal parts.
static void uniform_and_halton(void **state) {
    world w;
    ft_sampler_options options = ft_sampler_defaults();
    start(&w, &options, 1, false);
    int counts[13] = {0};
    for (int i = 0; i < 13000; i++)
        counts[(int)(ft_value_of_uniform(&w.d[3], i / 13000.0) - 128) / 32]++;
    for (int i = 0; i < 13; i++)
        assert_in_range(counts[i], 999, 1001);
    assert_true(ft_value_of_uniform(&w.d[5], 0x1.fffffffffffffp-1) == 3);
    for (int dimension = 0; dimension < 2; dimension++) {
        int parts = dimension == 0 ? 64 : 81;
        for (int begin = 0; begin < 3 * parts; begin += parts) {
            bool hit[81] = {false};
            for (int i = begin; i < begin + parts; i++) {
                double u = ft_halton(3, "x", dimension, i);
                assert_true(u >= 0 && u < 1);
                assert_false(hit[(int)(u * parts)]);
                hit[(int)(u * parts)] = true;
            }
        }
    }
    assert_true(ft_halton(3, "x", 0, 5) != ft_halton(3, "y", 0, 5) &&
                ft_halton(4, "x", 0, 5) != ft_halton(3, "x", 0, 5));
    stop(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(resumes_to_the_bit),
        cmocka_unit_test(others_suggest_the_same),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(known_and_single_values),
        cmocka_unit_test(trials_in_turns),
        cmocka_unit_test(groups_do_not_depend_on_order),
        cmocka_unit_test(rare_branch_learns),
        cmocka_unit_test(branches_are_drawn_together),
        cmocka_unit_test(fine_kernels_come_nearer),
        cmocka_unit_test(grid_visits_all),
        cmocka_unit_test(grid_keeps_the_ends),
        cmocka_unit_test(uniform_and_halton),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
