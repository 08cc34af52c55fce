// TPE against Optuna 5 on random histories (vectors/tpe.txt, made by make_tpe_vectors.py): joint space and groups,
// split, weights, sigmas and rows of both estimators, log densities and the candidate taken - plain and from the
// cache's parts.
#include "hpo/search/tpe/parzen_fast.h"
#include "hpo/search/tpe/split.h"
#include "hpo/search/tpe/tpe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512 };

typedef struct study {
    char name[64];
    ft_trials trials;
    ft_arena arena;
    ft_tpe_options options;
    bool multivariate;
    int distribution[64], distributions; // ids
    int names;
    ft_subspace asked;
    ft_parzen below, above;
    double good[MOST], other[MOST];
    int points;
    double worst;
} study;

static int cases, split_trials, points_checked;
static double worst_density, worst_acquisition, worst_kernel;

static void close_to(const study *s, const char *what, double value, double expected, double *worst) {
    if (isinf(expected)) {
        if (value != expected) fail_msg("%s: %s is %.17g, not %.17g", s->name, what, value, expected);
        return;
    }
    double error = fabs(value - expected) / fmax(1, fabs(expected));
    if (!(error <= 1e-9)) fail_msg("%s: %s is %.17g, not %.17g", s->name, what, value, expected);
    *worst = fmax(*worst, error);
}

// The next word, NULL at the end of the line.
static char *word(char **rest) {
    char *w;
    while ((w = strsep(rest, " \n")) != NULL && *w == '\0')
        continue;
    return w;
}

// The next number before a "|" or the end of the line.
static bool number(char **rest, double *value) {
    char *w = word(rest);
    if (w == NULL || *w == '|') return false;
    char *end;
    *value = strtod(w, &end);
    assert_true(*end == '\0');
    return true;
}

static double need(char **rest) {
    double value;
    assert_true(number(rest, &value));
    return value;
}

static void start_case(study *s, char *rest) {
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", word(&rest));
    s->options = (ft_tpe_options){.candidates = 24};
    s->options.constant_liar = need(&rest) != 0;
    s->multivariate = s->options.announced = need(&rest) != 0;
    bool maximize[8];
    int objectives = 0;
    double value;
    while (number(&rest, &value))
        maximize[objectives++] = value != 0;
    assert_int_equal(ft_trials_init(&s->trials, objectives, maximize), FT_OK);
}

static void add_distribution(study *s, char *rest) {
    const char *kind = word(&rest);
    ft_distribution d;
    if (strcmp(kind, "categorical") == 0) {
        int count = (int)need(&rest);
        ft_choice choices[16];
        for (int i = 0; i < count; i++)
            choices[i] = (ft_choice){.kind = FT_CHOICE_INT, .integer = i};
        assert_int_equal(ft_distribution_categorical("x", &s->arena, choices, count, &d), FT_OK);
    } else {
        double low = need(&rest), high = need(&rest);
        bool log = need(&rest) != 0;
        double step = need(&rest);
        if (strcmp(kind, "int") == 0)
            assert_int_equal(ft_distribution_int("x", (int64_t)low, (int64_t)high, log, (int64_t)step, &d), FT_OK);
        else
            assert_int_equal(ft_distribution_float("x", low, high, log, step, &d), FT_OK);
        assert_true(d.low == low && d.high == high);
    }
    assert_int_equal(ft_trials_distribution(&s->trials, &d, &s->distribution[s->distributions++]), FT_OK);
}

static void add_trial(study *s, char *rest) {
    ft_trials *t = &s->trials;
    char state = *word(&rest);
    int64_t n;
    double value, values[8];
    int value_count = 0, next_constraint = 0;
    assert_int_equal(ft_trials_append(t, state == 'W' ? FT_WAITING : FT_RUNNING, &n), FT_OK);
    while (number(&rest, &value))
        values[value_count++] = value;
    while (number(&rest, &value)) {
        int d = s->distribution[(int)need(&rest)];
        assert_int_equal(ft_trials_set_param(t, n, (int)value, d, need(&rest)), FT_OK);
    }
    while (number(&rest, &value))
        assert_int_equal(ft_trials_report(t, n, (int64_t)value, need(&rest)), FT_OK);
    while (number(&rest, &value)) {
        char name[16];
        int id;
        snprintf(name, sizeof name, "%d", next_constraint++);
        assert_int_equal(ft_trials_constraint_name(t, name, &id), FT_OK);
        assert_int_equal(ft_trials_set_constraint(t, n, id, value), FT_OK);
    }
    while (number(&rest, &value)) {
        int d = s->distribution[(int)need(&rest)];
        assert_int_equal(ft_trials_set_relative(t, n, (int)value, d, need(&rest)), FT_OK);
    }
    if (state == 'C') assert_int_equal(ft_trials_finish(t, n, FT_COMPLETE, values, value_count), FT_OK);
    if (state == 'P') assert_int_equal(ft_trials_finish(t, n, FT_PRUNED, NULL, 0), FT_OK);
    if (state == 'F') assert_int_equal(ft_trials_finish(t, n, FT_FAIL, NULL, 0), FT_OK);
}

static bool same_names(const ft_subspace *subspace, const int *names, int count) {
    if (subspace->count != count) return false;
    for (int i = 0; i < count; i++)
        if (subspace->name[i] != names[i]) return false;
    return true;
}

static void check_space(study *s, char *rest, bool group) {
    if (!s->multivariate) return;
    int names[64], count = 0;
    double value;
    while (number(&rest, &value))
        names[count++] = (int)value;
    ft_subspaces found = {0};
    assert_int_equal(ft_subspaces_update(&found, &s->trials), FT_OK);
    bool same = false;
    for (int g = 0; g < (group ? found.groups : 1); g++) {
        ft_subspace subspace;
        if (group)
            assert_int_equal(ft_subspaces_group(&found, &s->trials, g, &subspace), FT_OK);
        else
            assert_int_equal(ft_subspaces_joint(&found, &s->trials, &subspace), FT_OK);
        same = same || same_names(&subspace, names, count);
        ft_subspace_free(&subspace);
    }
    if (!same) fail_msg("%s: another %s", s->name, group ? "group" : "joint space");
    ft_subspaces_free(&found);
}

static void ask(study *s, char *rest) {
    double value;
    s->asked.name = calloc(64, sizeof *s->asked.name);
    s->asked.distribution = calloc(64, sizeof *s->asked.distribution);
    assert_true(s->asked.name != NULL && s->asked.distribution != NULL);
    while (number(&rest, &value)) {
        s->asked.name[s->asked.count] = (int)value;
        s->asked.distribution[s->asked.count++] = s->distribution[(int)need(&rest)];
    }
    if (s->asked.count > 0)
        assert_int_equal(
            ft_tpe_estimators(&s->trials, &s->options, s->trials.count - 1, &s->asked, &s->below, &s->above), FT_OK);
}

static void check_split(study *s, char *rest) {
    const char *expected = word(&rest);
    uint8_t sides[MOST];
    int stands_for;
    assert_int_equal(strlen(expected), s->trials.count);
    assert_int_equal(
        ft_split(&s->trials, s->trials.count - 1, s->options.constant_liar, false, NULL, 0, sides, &stands_for), FT_OK);
    for (int64_t i = 0; i < s->trials.count; i++) {
        // Trials that count nowhere are "neither" here; Optuna never sees them.
        if (sides[i] != expected[i] - '0') fail_msg("%s: trial %d is on side %d", s->name, (int)i, sides[i]);
        split_trials++;
    }
}

static void check_weights(study *s, const ft_parzen *p, char *rest) {
    assert_int_equal(p->count, (int)need(&rest));
    for (int k = 0; k <= p->count; k++)
        close_to(s, "a weight", p->weight[k], need(&rest), &worst_kernel);
}

static void check_kernels(study *s, const ft_parzen *p, int dimension, char *rest) {
    const ft_parzen_dimension *d = &p->dimension[dimension];
    int rows = d->distribution->kind == FT_CATEGORICAL ? d->distribution->choice_count : 1;
    for (int k = 0; k <= p->count; k++)
        for (int c = 0; c < rows; c++) {
            double value =
                d->distribution->kind == FT_CATEGORICAL ? exp(ft_parzen_choice(d, k, p->count, c)) : d->sigma[k];
            close_to(s, "a kernel", value, need(&rest), &worst_kernel);
        }
    double more;
    assert_false(number(&rest, &more));
}

static void check_point(study *s, char *rest) {
    double x[64], scratch[MOST];
    for (int i = 0; i < s->asked.count; i++)
        x[i] = need(&rest);
    double l = need(&rest), g = need(&rest);
    double *good = &s->good[s->points], *other = &s->other[s->points];
    *good = ft_parzen_log_density(&s->below, x, scratch);
    *other = ft_parzen_log_density(&s->above, x, scratch);
    close_to(s, "log l", *good, l, &worst_density);
    close_to(s, "log g", *other, g, &worst_density);
    close_to(s, "the acquisition", *good - *other, l - g, &worst_acquisition);
    double fast;
    ft_parzen_fast f = {0};
    assert_int_equal(ft_parzen_fast_log_density(&f, &s->above, x, 1, &fast), FT_OK);
    assert_memory_equal(&fast, other, sizeof fast);
    ft_parzen_fast_free(&f);
    s->points++;
    points_checked++;
}

static void end_case(study *s) {
    ft_parzen_free(&s->below);
    ft_parzen_free(&s->above);
    ft_subspace_free(&s->asked);
    ft_trials_free(&s->trials);
    ft_arena_free(&s->arena);
    cases++;
}

static void equals_optuna(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/tpe.txt", "r");
    assert_non_null(vectors);
    char *line = NULL;
    size_t room = 0;
    study *s = malloc(sizeof *s);
    assert_non_null(s);
    const ft_parzen *estimator = NULL;
    int dimension = 0;
    while (getline(&line, &room, vectors) > 0) {
        char *rest = line;
        const char *what = word(&rest);
        if (strcmp(what, "case") == 0) start_case(s, rest);
        if (strcmp(what, "distribution") == 0) add_distribution(s, rest);
        if (strcmp(what, "name") == 0) {
            int id;
            assert_int_equal(ft_trials_name(&s->trials, word(&rest), &id), FT_OK);
            assert_int_equal(id, s->names++);
        }
        if (strcmp(what, "trial") == 0) add_trial(s, rest);
        if (strcmp(what, "joint") == 0) check_space(s, rest, false);
        if (strcmp(what, "group") == 0) check_space(s, rest, true);
        if (strcmp(what, "ask") == 0) ask(s, rest);
        if (strcmp(what, "split") == 0) check_split(s, rest);
        if (strcmp(what, "below") == 0 || strcmp(what, "above") == 0) {
            estimator = *what == 'b' ? &s->below : &s->above;
            dimension = 0;
            check_weights(s, estimator, rest);
        }
        if (strcmp(what, "kernels") == 0) check_kernels(s, estimator, dimension++, rest);
        if (strcmp(what, "point") == 0) check_point(s, rest);
        if (strcmp(what, "best") == 0) assert_int_equal(ft_tpe_choose(s->good, s->other, s->points), (int)need(&rest));
        if (strcmp(what, "end") == 0) end_case(s);
    }
    free(s);
    free(line);
    fclose(vectors);
    assert_true(cases >= 60 && split_trials > 3000 && points_checked > 1200);
    print_message("%d cases, %d trials split, %d points; largest relative errors: kernels %.1e, log densities %.1e, "
                  "acquisition %.1e\n",
                  cases, split_trials, points_checked, worst_kernel, worst_density, worst_acquisition);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_optuna)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
