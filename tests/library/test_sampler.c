// The sampler of libftengine: what is told and asked in the right order and in wrong ones, and values that are a function of the trials alone.
#include "library/ftengine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char floats[] = "{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0.0, \"high\": 1.0, \"step\": null, \"log\": false}}";
static const char choices[] = "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"a\", 1, null]}}";

static ftengine *engine(void) {
    ftengine *e;
    assert_int_equal(ftengine_new(&e), FTENGINE_OK);
    return e;
}

static void well(const ftengine *e, int code) {
    if (code != FTENGINE_OK) fail_msg("code %d: %s", code, ftengine_error(e));
}

static ftengine_sampler *sampler(ftengine *e, const char *kind) {
    const char *const words[] = {kind, "study.seed=7", "study.startup_trials=4"};
    const signed char maximize[] = {0};
    ftengine_sampler *s;
    well(e, ftengine_sampler_new(e, 1, maximize, 3, words, &s));
    return s;
}

typedef struct study {
    ftengine *engine;
    ftengine_sampler *sampler;
    int x, y, kind;
} study;

static study begin(const char *kind) {
    study s = {.engine = engine()};
    s.sampler = sampler(s.engine, kind);
    well(s.engine, ftengine_sampler_parameter(s.sampler, "x", floats, &s.x));
    well(s.engine, ftengine_sampler_parameter(s.sampler, "y", floats, &s.y));
    well(s.engine, ftengine_sampler_parameter(s.sampler, "kind", choices, &s.kind));
    return s;
}

static void end(study *s) {
    well(s->engine, ftengine_sampler_close(s->sampler));
    ftengine_free(s->engine);
}

static ftengine_trial running(int64_t number) { return (ftengine_trial){.size = sizeof(ftengine_trial), .number = number, .step = -1}; }

// A trial from begin to end; backwards: its values are asked for in another order. together: what was drawn so.
static void run_trial(study *s, int64_t number, bool backwards, double values[3], int *together) {
    const int *drawn, parameters[] = {s->x, s->y, s->kind};
    const double *known;
    ftengine_trial t = running(number);
    well(s->engine, ftengine_sampler_tell(s->sampler, &t));
    well(s->engine, ftengine_sampler_draw(s->sampler, number, together, &drawn, &known));
    double first[3] = {NAN, NAN, NAN};
    for (int i = 0; i < *together; i++)
        for (int k = 0; k < 3; k++)
            if (drawn[i] == parameters[k]) first[k] = known[i];
    for (int i = 0; i < 3; i++) {
        const int k = backwards ? 2 - i : i;
        well(s->engine, ftengine_sampler_suggest(s->sampler, number, parameters[k], &values[k]));
        assert_true(isnan(first[k]) || first[k] == values[k]);
    }
    assert_true(values[0] >= 0 && values[0] <= 1 && values[1] >= 0 && values[1] <= 1 && values[2] >= 0 && values[2] < 3 && values[2] == floor(values[2]));
    const double loss = pow(values[0] - 0.3, 2) + pow(values[1] - 0.6, 2) + (values[2] == 1 ? 0 : 0.5);
    t.state = number % 5 == 4 ? FTENGINE_TRIAL_FAILED : FTENGINE_TRIAL_COMPLETE;
    t.parameter_count = 3;
    t.parameters = parameters;
    t.parameter_values = values;
    t.value_count = t.state == FTENGINE_TRIAL_COMPLETE;
    t.values = &loss;
    well(s->engine, ftengine_sampler_tell(s->sampler, &t));
}

static void test_values(void **state) {
    static const char *const kinds[] = {"study.sampler=tpe", "study.sampler=gp", "study.sampler=auto", "study.sampler=cmaes", "study.sampler=random", "study.sampler=quasi_random"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        study a = begin(kinds[k]), b = begin(kinds[k]);
        int drawn = 0;
        for (int64_t i = 0; i < 24; i++) {
            double one[3], other[3];
            int together, again;
            run_trial(&a, i, false, one, &together);
            run_trial(&b, i, true, other, &again);
            assert_memory_equal(one, other, sizeof one);
            assert_int_equal(together, again);
            drawn += together;
        }
        assert_true((drawn > 0) == (k < 4));
        end(&a);
        end(&b);
    }
}

static void refused(study *s, int code, const char *message) {
    assert_int_equal(code, FTENGINE_INVALID);
    if (strstr(ftengine_error(s->engine), message) == NULL) fail_msg("%s, not %s", ftengine_error(s->engine), message);
}

static void test_mistakes(void **state) {
    study s = begin("study.sampler=tpe");
    double value;
    int number, count;
    const int *drawn, wrong[] = {99}, right[] = {s.x}, category[] = {s.kind};
    const double *values, two[] = {2}, half[] = {0.5}, nan[] = {NAN};
    ftengine_trial t = running(1);
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "numbers run from 0 without gaps: 0 is next, got 1");
    assert_int_equal(ftengine_sampler_suggest(s.sampler, 0, s.x, &value), FTENGINE_FAILED);
    assert_int_equal(ftengine_sampler_draw(s.sampler, 0, &count, &drawn, &values), FTENGINE_FAILED);
    assert_int_equal(count, 0);
    t = running(0);
    t.size = 8;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "its size is 8 bytes");
    t = running(0);
    t.state = 9;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "there is no state 9");
    t = running(0);
    t.parameter_count = 1;
    t.parameters = wrong;
    t.parameter_values = half;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "there is no parameter 99");
    t.parameters = right;
    t.parameter_values = two;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "2 of trial 0 is not among its values (x)");
    t.parameters = category;
    t.parameter_values = nan;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "is not among its values (kind)");
    t = running(0);
    t.constraint_count = 1;
    t.constraints = nan;
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "constraint 0 of trial 0 is NaN");
    refused(&s, ftengine_sampler_tell(s.sampler, NULL), "there is none (trial)");
    const struct {
        int parameters, values, constraints;
    } lists[] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}}; // without the lists
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        t = running(0);
        t.parameter_count = lists[i].parameters, t.value_count = lists[i].values, t.constraint_count = lists[i].constraints;
        refused(&s, ftengine_sampler_tell(s.sampler, &t), "of them");
    }
    t = running(0); // nothing of these was kept
    t.state = FTENGINE_TRIAL_WAITING;
    well(s.engine, ftengine_sampler_tell(s.sampler, &t));
    assert_int_equal(ftengine_sampler_suggest(s.sampler, 0, s.x, &value), FTENGINE_FAILED); // it waits
    t.state = FTENGINE_TRIAL_RUNNING;
    well(s.engine, ftengine_sampler_tell(s.sampler, &t));
    well(s.engine, ftengine_sampler_suggest(s.sampler, 0, s.x, &value));
    refused(&s, ftengine_sampler_suggest(s.sampler, 0, 99, &value), "there is no parameter 99");
    t.state = FTENGINE_TRIAL_COMPLETE;
    t.value_count = 2;
    t.values = two;
    assert_int_equal(ftengine_sampler_tell(s.sampler, &t), FTENGINE_FAILED); // one objective
    t.value_count = 1;
    well(s.engine, ftengine_sampler_tell(s.sampler, &t));
    refused(&s, ftengine_sampler_tell(s.sampler, &t), "trial 0 has ended");
    t = running(1);
    t.state = FTENGINE_TRIAL_PRUNED; // one that nobody told of before
    t.step = 3;
    t.reported = 0.5;
    well(s.engine, ftengine_sampler_tell(s.sampler, &t));
    refused(&s, ftengine_sampler_parameter(s.sampler, "z", "{}", &number), "");
    refused(&s, ftengine_sampler_parameter(s.sampler, "z", "no JSON", &number), "");
    refused(&s, ftengine_sampler_parameter(s.sampler, NULL, floats, &number), "a name and a distribution");
    refused(&s, ftengine_sampler_parameter(s.sampler, "z", NULL, &number), "a name and a distribution");
    for (int64_t wrong_number = -1; wrong_number > -(INT64_MAX / 2); wrong_number *= 1000) {
        assert_int_not_equal(ftengine_sampler_suggest(s.sampler, wrong_number, s.x, &value), FTENGINE_OK);
        assert_int_not_equal(ftengine_sampler_draw(s.sampler, -wrong_number + 1, &count, &drawn, &values), FTENGINE_OK);
        if (wrong_number < -INT64_MAX / 2000) break;
    }
    assert_int_equal(number, -1);
    well(s.engine, ftengine_sampler_parameter(s.sampler, "x", floats, &number));
    assert_int_equal(number, s.x);

    ftengine_sampler *none = (ftengine_sampler *)&s;
    const signed char up[FTENGINE_OBJECTIVES + 1] = {1};
    const char *grid[] = {"study.sampler=grid"}, *gp[] = {"study.sampler=gp"}, *unknown[] = {"study.smapler=tpe"}, *other[] = {"train.seeds=3"};
    refused(&s, ftengine_sampler_new(s.engine, 1, up, 1, grid, &none), "a grid needs all of its space beforehand");
    assert_null(none);
    refused(&s, ftengine_sampler_new(s.engine, 2, up, 1, gp, &none), "gp knows one objective");
    refused(&s, ftengine_sampler_new(s.engine, 0, up, 0, NULL, &none), "from 1 to 64, got 0");
    refused(&s, ftengine_sampler_new(s.engine, 1, NULL, 0, NULL, &none), "the list is NULL (maximize)");
    refused(&s, ftengine_sampler_new(s.engine, 1, up, 1, NULL, &none), "word 0 is NULL");
    refused(&s, ftengine_sampler_new(s.engine, FTENGINE_OBJECTIVES + 1, up, 0, NULL, &none), "from 1 to 64, got 65");
    refused(&s, ftengine_sampler_new(s.engine, 1, up, 1, unknown, &none), "study.smapler");
    refused(&s, ftengine_sampler_new(s.engine, 1, up, 1, other, &none), "a sampler takes no such setting");
    well(s.engine, ftengine_sampler_close(NULL));
    end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
