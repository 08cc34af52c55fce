// Every pruner's verdict over simulated studies against Optuna's (vectors/pruners.txt), and what the makers refuse.
#include "hpo/pruner/pruner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the vectors ----------------------------------------------------------------------------------------------------

static ft_pruner *make(const char *text) {
    ft_pruner *pruner = NULL;
    double x, y;
    long long a, b, c, d;
    char rest[80];
    if (strcmp(text, "wilcoxon") == 0)
        assert_int_equal(ft_pruner_wilcoxon(&pruner), FT_OK);
    else if (strcmp(text, "none") == 0)
        assert_int_equal(ft_pruner_none(&pruner), FT_OK);
    else if (sscanf(text, "median %lld %lld %lld %lld", &a, &b, &c, &d) == 4)
        assert_int_equal(ft_pruner_median(a, b, c, d, &pruner), FT_OK);
    else if (sscanf(text, "percentile %lf %lld %lld %lld %lld", &x, &a, &b, &c, &d) == 5)
        assert_int_equal(ft_pruner_percentile(&(ft_pruner_percentile_options){x, a, b, c, d}, &pruner), FT_OK);
    else if (sscanf(text, "halving %lld %lld %lld %lld", &a, &b, &c, &d) == 4)
        assert_int_equal(ft_pruner_halving(&(ft_pruner_halving_options){a, b, c, d}, &pruner), FT_OK);
    else if (sscanf(text, "hyperband %lld %lld %lld %lld", &a, &b, &c, &d) == 4)
        assert_int_equal(ft_pruner_hyperband(&(ft_pruner_hyperband_options){a, b, c, d}, "pruning", &pruner), FT_OK);
    else if (sscanf(text, "patient %lld %lf %79[^\n]", &a, &x, rest) == 3)
        assert_int_equal(ft_pruner_patient(strcmp(rest, "none") == 0 ? NULL : make(rest), a, x, &pruner), FT_OK);
    else if (sscanf(text, "threshold %lf %lf %lld %lld", &x, &y, &a, &b) == 4)
        assert_int_equal(ft_pruner_threshold(x, y, a, b, &pruner), FT_OK);
    assert_non_null(pruner);
    return pruner;
}

static void report(ft_trials *trials, ft_pruner *pruner, const char *line, int *verdicts, int *pruned) {
    long long number, step;
    int prune, rungs;
    char value[40];
    ft_verdict verdict;
    assert_int_equal(sscanf(line, "r %lld %lld %39s %d %d", &number, &step, value, &prune, &rungs), 5);
    assert_int_equal(ft_trials_report(trials, number, step, strtod(value, NULL)), FT_OK);
    assert_int_equal(ft_pruner_decide(pruner, trials, number, &verdict), FT_OK);
    if (verdict.prune != prune || verdict.rungs != rungs)
        fail_msg("%s: here %d %d", line, verdict.prune, verdict.rungs);
    for (int i = 0; i < rungs; i++)
        assert_int_equal(ft_trials_add_rung(trials, number, verdict.rung_value), FT_OK);
    ++*verdicts;
    *pruned += prune;
}

static void equals_optuna(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/pruners.txt", "r");
    assert_non_null(vectors);
    ft_trials trials = {0};
    ft_pruner *pruner = NULL;
    char line[200], word[40];
    int studies = 0, verdicts = 0, pruned = 0;
    while (fgets(line, sizeof line, vectors) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        int64_t at;
        long long number;
        if (strncmp(line, "study ", 6) == 0) {
            ft_trials_free(&trials);
            ft_pruner_free(pruner);
            assert_int_equal(ft_trials_init(&trials, 1, &(bool){line[6] == '1'}), FT_OK);
            pruner = make(line + 8);
            studies++;
        } else if (strcmp(line, "n") == 0) {
            assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &at), FT_OK);
        } else if (line[0] == 'r') {
            report(&trials, pruner, line, &verdicts, &pruned);
        } else {
            double value = 1;
            assert_true(sscanf(line, "f %lld %39s %lf", &number, word, &value) >= 2);
            ft_trial_state end = word[0] == 'C' ? FT_COMPLETE : word[0] == 'P' ? FT_PRUNED : FT_FAIL;
            assert_int_equal(ft_trials_finish(&trials, number, end, &value, end == FT_COMPLETE), FT_OK);
        }
    }
    fclose(vectors);
    ft_trials_free(&trials);
    ft_pruner_free(pruner);
    assert_int_equal(studies, 56);
    assert_true(verdicts > 3000 && pruned > 300);
}

// ---- by hand --------------------------------------------------------------------------------------------------------

static void nothing_reported_is_kept(void **state) {
    ft_trials trials;
    int64_t number;
    ft_verdict verdict = {.prune = true, .rungs = 3};
    assert_int_equal(ft_trials_init(&trials, 1, &(bool){false}), FT_OK);
    assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
    static const char *const all[] = {
        "none", "median 0 0 1 1", "halving 1 2 0 0", "hyperband 1 9 3 0", "patient 0 0 none", "threshold 5 6 0 1",
        "wilcoxon"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ft_pruner *pruner = make(all[i]);
        verdict = (ft_verdict){.prune = true, .rungs = 3};
        assert_int_equal(ft_pruner_decide(pruner, &trials, number, &verdict), FT_OK);
        assert_false(verdict.prune);
        assert_int_equal(verdict.rungs, 0);
        ft_pruner_free(pruner);
    }
    ft_trials_free(&trials);
}

static void several_objectives_are_refused(void **state) {
    ft_trials trials;
    int64_t number;
    ft_verdict verdict;
    assert_int_equal(ft_trials_init(&trials, 2, (bool[]){false, true}), FT_OK);
    assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
    ft_pruner *pruner = make("median 0 0 1 1");
    assert_int_equal(ft_pruner_decide(pruner, &trials, number, &verdict), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "2 objectives"));
    assert_int_equal(ft_pruner_decide(pruner, &trials, 1, &verdict), FT_FAILED);
    ft_pruner_free(pruner);
    ft_trials_free(&trials);
}

static void refused(ft_status status, ft_pruner *pruner, const char *text) {
    assert_int_equal(status, FT_INVALID);
    assert_null(pruner);
    if (strstr(ft_error_message(), text) == NULL) fail_msg("'%s' is not in '%s'", text, ft_error_message());
}

static void options_out_of_bounds(void **state) {
    ft_pruner *p = NULL;
    refused(ft_pruner_percentile(&(ft_pruner_percentile_options){101, 5, 0, 1, 1}, &p), p, "0 to 100, got 101");
    refused(ft_pruner_percentile(&(ft_pruner_percentile_options){NAN, 5, 0, 1, 1}, &p), p, "0 to 100, got nan");
    refused(ft_pruner_median(-1, 0, 1, 1, &p), p, "start-up trials must be at least 0, got -1");
    refused(ft_pruner_median(5, -1, 1, 1, &p), p, "warm-up steps must be at least 0, got -1");
    refused(ft_pruner_median(5, 0, 0, 1, &p), p, "interval must be at least 1 step, got 0");
    refused(ft_pruner_median(5, 0, 1, 0, &p), p, "number of trials must be at least 1, got 0");
    refused(ft_pruner_halving(&(ft_pruner_halving_options){-1, 4, 0, 0}, &p), p, "resource must be at least 1 step");
    refused(ft_pruner_halving(&(ft_pruner_halving_options){1, 1, 0, 0}, &p), p, "factor must be at least 2, got 1");
    refused(ft_pruner_halving(&(ft_pruner_halving_options){1, 2, -1, 0}, &p), p, "rate must be at least 0");
    refused(ft_pruner_halving(&(ft_pruner_halving_options){1, 2, 0, -1}, &p), p, "bootstrap count must be at least 0");
    refused(ft_pruner_halving(&(ft_pruner_halving_options){0, 2, 0, 1}, &p), p, "do not go together");
    refused(ft_pruner_hyperband(&(ft_pruner_hyperband_options){0, 9, 3, 0}, "s", &p), p, "at least 1 step, got 0");
    refused(ft_pruner_hyperband(&(ft_pruner_hyperband_options){10, 9, 3, 0}, "s", &p), p,
            "at least the least one, 10, got 9");
    refused(ft_pruner_hyperband(&(ft_pruner_hyperband_options){1, 0, 3, 1}, "s", &p), p, "do not go together");
    refused(ft_pruner_patient(make("none"), -1, 0, &p), p, "patience must be at least 0, got -1");
    refused(ft_pruner_patient(make("none"), 1, NAN, &p), p, "least improvement must be at least 0, got nan");
    refused(ft_pruner_threshold(2, 1, 0, 1, &p), p, "lower must not exceed upper, got 2 and 1");
    refused(ft_pruner_threshold(NAN, 1, 0, 1, &p), p, "lower must not exceed upper");
}

// Rungs far beyond int64 are only far away.
static void large_rungs(void **state) {
    ft_trials trials;
    int64_t number;
    ft_verdict verdict;
    assert_int_equal(ft_trials_init(&trials, 1, &(bool){false}), FT_OK);
    assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
    assert_int_equal(ft_trials_report(&trials, number, INT64_MAX - 1, 1), FT_OK);
    ft_pruner *pruner = make("halving 4000000000000000000 4 0 0");
    assert_int_equal(ft_pruner_decide(pruner, &trials, number, &verdict), FT_OK);
    assert_false(verdict.prune);
    assert_int_equal(verdict.rungs, 1);
    ft_pruner_free(pruner);
    ft_trials_free(&trials);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_optuna),
        cmocka_unit_test(nothing_reported_is_kept),
        cmocka_unit_test(several_objectives_are_refused),
        cmocka_unit_test(options_out_of_bounds),
        cmocka_unit_test(large_rungs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
