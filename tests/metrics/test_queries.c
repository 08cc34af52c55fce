// Figures of queries against scikit-learn's (vectors/ranking/queries.json), alone and as means; groups of rows; what a bootstrap draws.
// Catches: ties that the order of a file decides, a discount that begins at the wrong place, an ideal order of another length, queries without
// relevant documents that drop out of the mean, documents of another query, a query that is drawn in parts.
#include "base/json/json.h"
#include "engine/data/tables/groups.h"
#include "engine/metrics/queries.h"
#include "engine/tasks/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ft_metric metric_of[FT_QUERY_FIGURES] = {FT_METRIC_MRR,    FT_METRIC_MRR_10,   FT_METRIC_MAP,      FT_METRIC_NDCG,     FT_METRIC_NDCG_5,
                                                      FT_METRIC_NDCG_10, FT_METRIC_RECALL_1, FT_METRIC_RECALL_5, FT_METRIC_RECALL_10, FT_METRIC_RECALL_100};

static void close_to(const char *what, double value, double expected) {
    if (!(fabs(value - expected) <= 1e-12)) fail_msg("%s is %.17g, not %.17g", what, value, expected);
}

static float *floats(const json_t *array) {
    float *out = calloc(json_array_size(array) + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < json_array_size(array); i++) out[i] = (float)json_number_value(json_array_get(array, i));
    return out;
}

enum { MOST = 20000 };
// All cases, one behind the other, and their documents dealt out as in a file whose queries alternate.
static struct {
    float score[MOST], relevance[MOST], losses[MOST], mixed_score[MOST], mixed_relevance[MOST];
    int64_t first[200];
    int32_t member[MOST];
    double mean[FT_QUERY_FIGURES];
    int64_t queries, rows;
} all;

static void each_query(void **state) {
    json_t *root;
    assert_int_equal(ft_json_load(FT_TEST_VECTORS "/ranking/queries.json", &root), FT_OK);
    const json_t *cases = json_object_get(root, "cases");
    all.queries = (int64_t)json_array_size(cases);
    assert_int_equal(all.queries, 120);
    for (int64_t c = 0; c < all.queries; c++) {
        const json_t *item = json_array_get(cases, (size_t)c), *expect = json_object_get(item, "expect");
        const int64_t n = (int64_t)json_array_size(json_object_get(item, "score"));
        float *score = floats(json_object_get(item, "score")), *relevance = floats(json_object_get(item, "relevance"));
        int32_t *order = calloc((size_t)n, sizeof *order);
        double figure[FT_QUERY_FIGURES];
        ft_query_judge(score, relevance, n, order, figure);
        assert_int_equal(json_object_size(expect), FT_QUERY_FIGURES);
        for (int k = 0; k < FT_QUERY_FIGURES; k++) {
            const char *name = ft_metric_name(metric_of[k]);
            assert_non_null(json_object_get(expect, name));
            close_to(name, figure[k], json_number_value(json_object_get(expect, name)));
            all.mean[k] += figure[k] / (double)all.queries;
        }
        memcpy(all.score + all.rows, score, (size_t)n * sizeof *score);
        memcpy(all.relevance + all.rows, relevance, (size_t)n * sizeof *score);
        all.rows += n;
        all.first[c + 1] = all.rows;
        free(score), free(relevance), free(order);
    }
    json_decref(root);
}

static ft_scores scores_of(const float *score, const float *relevance, const int32_t *member) {
    return (ft_scores){.scoring = &ft_task_spec_of(FT_TASK_RANKING)->scoring, .n = all.queries, .outputs = 1, .logits = score, .targets = relevance,
                       .first = all.first, .member = member, .losses = all.losses};
}

static void means(void **state) {
    // Document j of every query that has one, in turns.
    int64_t row = 0, losses = 0;
    for (int64_t j = 0; row < all.rows; j++)
        for (int64_t q = 0; q < all.queries; q++) {
            if (all.first[q] + j >= all.first[q + 1]) continue;
            all.mixed_score[row] = all.score[all.first[q] + j];
            all.mixed_relevance[row] = all.relevance[all.first[q] + j];
            all.member[all.first[q] + j] = (int32_t)row;
            losses += row;
            all.losses[row] = (float)row;
            row++;
        }
    const ft_scores s[] = {scores_of(all.score, all.relevance, NULL), scores_of(all.mixed_score, all.mixed_relevance, all.member)};
    for (int i = 0; i < 2; i++) {
        ft_metrics m;
        assert_int_equal(ft_metrics_compute(&s[i], &m), FT_OK);
        assert_int_equal(m.examples, all.queries);
        for (int k = 0; k < FT_QUERY_FIGURES; k++) close_to(ft_metric_name(metric_of[k]), m.value[metric_of[k]], all.mean[k]);
        close_to("loss", m.value[FT_METRIC_LOSS] * (double)all.rows / (double)losses, 1); // of documents, not of queries
        ft_metrics_free(&m);
    }
    // Without a relevant document anywhere there is nothing to say; a score that is no number is an error.
    static float none[MOST];
    ft_metrics m;
    ft_scores without = scores_of(all.score, none, NULL);
    assert_int_equal(ft_metrics_compute(&without, &m), FT_OK);
    assert_true(isnan(m.value[FT_METRIC_NDCG_10]) && isnan(m.value[FT_METRIC_MAP]) && !isnan(m.value[FT_METRIC_LOSS]));
    ft_metrics_free(&m);
    all.mixed_score[7] = NAN;
    assert_int_equal(ft_metrics_compute(&s[1], &m), FT_DIVERGED);
    ft_error_clear();
}

// Two queries, one all right and one all wrong: a round has either, whole, so that its mean is 0, 1/2 or 1 of theirs.
static void bootstrap_draws_queries(void **state) {
    static const float score[] = {3, 2, 1, 3, 2, 1}, relevance[] = {1, 0, 0, 0, 0, 1};
    static const int64_t first[] = {0, 3, 6};
    const ft_scores s = {.scoring = &ft_task_spec_of(FT_TASK_RANKING)->scoring, .n = 2, .outputs = 1, .logits = score, .targets = relevance, .first = first};
    double low[FT_METRIC_COUNT], high[FT_METRIC_COUNT];
    assert_int_equal(ft_metrics_bootstrap(&s, 500, 3, 0.95, low, high), FT_OK);
    close_to("low", low[FT_METRIC_MRR], 1.0 / 3);
    close_to("high", high[FT_METRIC_MRR], 1);
    assert_true(isnan(low[FT_METRIC_PEARSON]));
}

static void groups(void **state) {
    static const struct {
        const char *name[8];
        int64_t rows, count;
        int32_t member[8];
        int64_t first[9];
    } cases[] = {{{"a"}, 1, 1, {0}, {0, 1}},
                 {{"b", "a", "b", "a"}, 4, 2, {0, 2, 1, 3}, {0, 2, 4}},
                 {{"x", "", "X", "x ", ""}, 5, 4, {0, 1, 4, 2, 3}, {0, 1, 3, 4, 5}},
                 {{"q", "q", "q"}, 3, 1, {0, 1, 2}, {0, 3}},
                 {{"c", "b", "a", "b", "c", "c"}, 6, 3, {0, 4, 5, 1, 3, 2}, {0, 3, 5, 6}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_groups g;
        assert_int_equal(ft_groups_of(cases[i].name, cases[i].rows, &g), FT_OK);
        assert_int_equal(g.count, cases[i].count);
        assert_memory_equal(g.first, cases[i].first, (size_t)(g.count + 1) * sizeof *g.first);
        assert_memory_equal(g.member, cases[i].member, (size_t)cases[i].rows * sizeof *g.member);
        ft_groups_free(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_query), cmocka_unit_test(means), cmocka_unit_test(bootstrap_draws_queries),
                                       cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
