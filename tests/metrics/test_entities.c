// Figures of entities against seqeval's (tests/vectors/make_entity_vectors.py), lenient and strict, in every scheme; and the tags of
// further tokens. Catches: an I- without a B- that is no entity, types that are cut at another "-", an entity that goes over the end of a
// text, strict entities that do not end as their scheme says, means over types that do not occur, texts that are drawn by word,
// and a figure that does not exist where nothing is found.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/metrics/entities.h"
#include "engine/metrics/metrics.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TAGS = 32, MOST_WORDS = 2048, MOST_TEXTS = 64 };

typedef struct one_case {
    char *line; // of the tags
    const char *names[MOST_TAGS];
    int tags;
    int64_t first[MOST_TEXTS + 1], texts;
    int32_t truth[MOST_WORDS], said[MOST_WORDS];
} one_case;

static int read_ids(char *text, int32_t *out) {
    int n = 0;
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) out[n++] = (int32_t)strtol(word, NULL, 10);
    return n;
}

static ft_scores scores_of(const one_case *c, float *logits) {
    memset(logits, 0, MOST_WORDS * MOST_TAGS * sizeof *logits);
    for (int64_t i = 0; i < c->first[c->texts]; i++) logits[i * c->tags + c->said[i]] = 3;
    return (ft_scores){.scoring = &ft_task_spec_of(FT_TASK_TOKEN_CLASSIFICATION)->scoring, .n = c->texts, .outputs = c->tags, .logits = logits,
                       .labels = c->truth, .first = c->first, .names = c->names};
}

static ft_metric named(const char *name) {
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        if (strcmp(ft_metric_name((ft_metric)k), name) == 0) return (ft_metric)k;
    fail_msg("no figure is called %s", name);
    return FT_METRIC_LOSS;
}

static void check(const one_case *c, char *wanted, int number) {
    float *logits = malloc(MOST_WORDS * MOST_TAGS * sizeof *logits);
    const ft_scores scores = scores_of(c, logits);
    ft_metrics m;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_OK);
    for (char *name = strtok(wanted, " \n"); name != NULL; name = strtok(NULL, " \n")) {
        const double want = strtod(strtok(NULL, " \n"), NULL), got = ft_metric_value(&m, named(name));
        if (!(fabs(got - want) <= 1e-12)) fail_msg("case %d, %s: %.17g, expected %.17g", number, name, got, want);
    }
    ft_metrics_free(&m);
    free(logits);
}

static void test_seqeval(void **state) {
    FILE *file = fopen(FT_TEST_VECTORS "/entities.txt", "r");
    assert_non_null(file);
    char *line = NULL;
    size_t room = 0;
    one_case *c = calloc(1, sizeof *c);
    int cases = 0;
    while (getline(&line, &room, file) > 0) {
        if (strncmp(line, "tags ", 5) == 0) {
            free(c->line);
            *c = (one_case){.line = strdup(line + 5)};
            for (char *name = strtok(c->line, " \n"); name != NULL; name = strtok(NULL, " \n")) c->names[c->tags++] = name;
        } else if (strncmp(line, "truth ", 6) == 0) {
            c->first[c->texts + 1] = c->first[c->texts] + read_ids(line + 6, c->truth + c->first[c->texts]);
        } else if (strncmp(line, "said ", 5) == 0) {
            read_ids(line + 5, c->said + c->first[c->texts]);
            c->texts++;
        } else if (strncmp(line, "want ", 5) == 0) {
            check(c, line + 5, ++cases);
        }
    }
    assert_int_equal(cases, 77);
    free(c->line);
    free(c);
    free(line);
    fclose(file);
}

// Rounds of a bootstrap draw texts: a text that is drawn twice counts twice, with all its words.
static void test_drawn(void **state) {
    one_case *c = calloc(1, sizeof *c);
    *c = (one_case){.names = {"O", "B-X", "I-X"}, .tags = 3, .texts = 2, .first = {0, 3, 4}, .truth = {1, 2, 0, 1}, .said = {1, 2, 0, 0}};
    float *logits = malloc(MOST_WORDS * MOST_TAGS * sizeof *logits), losses[4] = {1, 2, 3, 10};
    const int32_t drawn[2] = {1, 1};
    ft_scores scores = scores_of(c, logits);
    ft_metrics m;
    scores.losses = losses;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_OK);
    assert_true(ft_metric_value(&m, FT_METRIC_LOSS) == 4 && ft_metric_value(&m, FT_METRIC_RECALL_MICRO) == 0.5);
    assert_int_equal(m.classes, 1);
    assert_string_equal(m.names[0], "X");
    assert_int_equal(m.support[0], 2);
    ft_metrics_free(&m);
    scores.drawn = drawn;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_OK);
    assert_true(ft_metric_value(&m, FT_METRIC_LOSS) == 10 && ft_metric_value(&m, FT_METRIC_RECALL_MICRO) == 0);
    assert_int_equal(m.support[0], 2);
    ft_metrics_free(&m);
    logits[4] = NAN;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_OK); // that text was not drawn
    ft_metrics_free(&m);
    scores.drawn = NULL;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_DIVERGED);
    free(logits);
    free(c);
}

// Where neither side has an entity, figures of them are 0: a run can be judged by each of them.
static void test_none(void **state) {
    static const ft_metric zero[] = {FT_METRIC_F1_MACRO, FT_METRIC_F1_MICRO, FT_METRIC_F1_WEIGHTED, FT_METRIC_PRECISION_MACRO, FT_METRIC_RECALL_MACRO,
                                     FT_METRIC_F1_STRICT, FT_METRIC_F1_MACRO_STRICT};
    one_case *c = calloc(1, sizeof *c);
    *c = (one_case){.names = {"O", "B-X", "I-X"}, .tags = 3, .texts = 1, .first = {0, 2}};
    float *logits = malloc(MOST_WORDS * MOST_TAGS * sizeof *logits);
    const ft_scores scores = scores_of(c, logits);
    ft_metrics m;
    assert_int_equal(ft_metrics_compute(&scores, &m), FT_OK);
    for (size_t k = 0; k < sizeof zero / sizeof *zero; k++) assert_true(ft_metric_value(&m, zero[k]) == 0);
    assert_true(ft_metric_value(&m, FT_METRIC_ACCURACY) == 1);
    ft_metrics_free(&m);
    free(logits);
    free(c);
}

static void test_inside(void **state) {
    static const char *const names[] = {"O", "B-PER", "I-PER", "B-LOC", "S-PER", "I-ORG"};
    static const int32_t inside[] = {0, 2, 2, 3, 4, 5}; // no I-LOC: the same again
    ft_tag_set set;
    assert_int_equal(ft_tag_set_open(names, 6, &set), FT_OK);
    for (int32_t k = 0; k < 6; k++) assert_int_equal(ft_tag_inside(&set, k), inside[k]);
    ft_tag_set_close(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seqeval), cmocka_unit_test(test_drawn), cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
