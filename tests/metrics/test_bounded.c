// Figures of logits that are not in memory, by passes over the examples: those of the arrays that were sorted whole, to the bit, for
// every task, in a file as in an array, drawn with replacement or not, and however outputs take turns.
#include "engine/metrics/correlation.h"
#include "engine/metrics/decision.h"
#include "engine/metrics/ranking.h"
#include "engine/tasks/tasks.h"
#include "kernels/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

// ---- the plain way: everything in memory, sorted whole --------------------------------------------------------------

typedef struct ranked {
    double score, weight;
} ranked;

static int ascending(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

static double plain_auroc(const ranked *r, int64_t n) {
    double positives = 0, sum = 0;
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && r[end].score == r[first].score;) end++;
        for (int64_t i = first; i < end; i++) positives += r[i].weight, sum += r[i].weight * (0.5 * (double)(first + 1 + end));
    }
    const double negatives = (double)n - positives;
    return positives == 0 || negatives == 0 ? NAN : (sum - 0.5 * positives * (positives + 1)) / (positives * negatives);
}

static double plain_precision(const ranked *r, int64_t n) {
    double positives = 0, found = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) positives += r[i].weight;
    if (positives == 0) return 0;
    for (int64_t last = n, first; last > 0; last = first) {
        double here = 0;
        for (first = last - 1; first > 0 && r[first - 1].score == r[first].score;) first--;
        for (int64_t i = first; i < last; i++) here += r[i].weight;
        found += here;
        sum += here / positives * (found / (double)(n - first));
    }
    return sum;
}

// The highest threshold of the greatest F1, looking at every cut.
static double plain_threshold(const ranked *r, int64_t n) {
    double positives = 0, hit = 0, best = -INFINITY, threshold = 0.5;
    for (int64_t i = 0; i < n; i++) positives += r[i].weight;
    if (positives == 0) return threshold;
    for (int64_t first = n; first >= 0; first--) {
        if (first < n) hit += r[first].weight;
        const double below = first > 0 ? r[first - 1].score : 0, above = first < n ? r[first].score : 1;
        if (!(first == 0 || first == n || below < above) || (first == n && below >= 1)) continue;
        const double whole = (double)(n - first) + positives, value = whole > 0 ? 2 * hit / whole : 0;
        if (value <= best) continue;
        best = value;
        threshold = 0.5 * (below + above);
        if (threshold <= below && first > 0) threshold = above;
    }
    return threshold;
}

// ---- cases ----------------------------------------------------------------------------------------------------------

enum { N = 1300, WIDE = 1000, MOST = N * WIDE };
static float *logits, *targets;
static int32_t labels[N], drawn[N];
static float losses[N];
static ft_label_sets sets;

// coarse: logits of few values, so that scores are equal; wide: scores of 0 and 1, and sigmoids that saturate.
static void make(int outputs, int coarse, uint64_t seed) {
    uint64_t state = seed;
    int64_t used = 0;
    for (int i = 0; i < N; i++) {
        state += 0x9E3779B97F4A7C15u;
        labels[i] = (int32_t)(ft_splitmix64(state) % (uint64_t)outputs);
        drawn[i] = (int32_t)(ft_splitmix64(state ^ 1) % N);
        losses[i] = (float)(i % 7) / 3;
        sets.first[i] = used;
        for (int c = 0; c < outputs; c++) {
            state += 0x9E3779B97F4A7C15u;
            const double u = (double)(ft_splitmix64(state) >> 11) * 0x1p-53;
            const bool is = ft_splitmix64(state ^ 5) % (uint64_t)(c + 2) == 0 && c % 11 != 7; // some have none
            float x = (float)(6 * u - 3 + (is || labels[i] == c));
            if (coarse == 1) x = roundf(2 * x) / 2;
            if (coarse == 2) x *= 30;
            logits[i * outputs + c] = x;
            targets[i * outputs + c] = is;
            if (is) sets.label[used++] = c;
        }
    }
    sets.first[N] = used;
}

static ft_scores scores_of(ft_task task, int outputs) {
    ft_scores s = {.scoring = &ft_task_spec_of(task)->scoring, .n = N, .outputs = outputs, .logits = logits, .losses = losses};
    if (task == FT_TASK_SINGLE_LABEL) s.labels = labels;
    else s.targets = targets;
    return s;
}

// What the metrics are where everything is an array.
static void plain_ranks(const ft_scores *s, double *auroc, double *precision, double *threshold) {
    const int outputs = s->outputs, first = s->labels != NULL && outputs == 2;
    ranked *r = calloc(N, sizeof *r);
    double *p = calloc((size_t)N * (size_t)outputs, sizeof *p);
    assert_true(r && p);
    for (int64_t i = 0; i < N; i++) s->scoring->probabilities(logits + i * outputs, outputs, p + i * outputs);
    *auroc = *precision = 0;
    for (int c = first; c < outputs; c++) {
        double positives = 0;
        for (int64_t i = 0; i < N; i++) {
            const int64_t row = s->drawn != NULL ? s->drawn[i] : i;
            r[i] = (ranked){p[row * outputs + c], s->labels != NULL ? s->labels[row] == c : targets[row * outputs + c] > 0};
            positives += r[i].weight;
        }
        qsort(r, N, sizeof *r, ascending);
        *auroc += plain_auroc(r, N);
        *precision += s->labels != NULL && first == 0 && positives == 0 ? NAN : plain_precision(r, N);
        threshold[c] = plain_threshold(r, N);
    }
    *auroc /= outputs - first;
    *precision /= outputs - first;
    free(r), free(p);
}

static void same(const char *what, double got, double want) {
    if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want))) fail_msg("%s is %.17g, not %.17g", what, got, want);
}

static void same_metrics(const ft_scores *s, const ft_metrics *want) {
    ft_metrics m;
    OK(ft_metrics_compute(s, &m));
    for (int k = 0; k < FT_METRIC_COUNT; k++) same(ft_metric_name((ft_metric)k), m.value[k], want->value[k]);
    for (int c = 0; m.support != NULL && c < s->outputs; c++) {
        assert_int_equal(m.support[c], want->support[c]);
        assert_int_equal(m.predicted[c], want->predicted[c]);
        assert_int_equal(m.hit[c], want->hit[c]);
    }
    assert_null(m.confusion);
    ft_metrics_free(&m);
}

static void check(ft_task task, int outputs, int coarse, bool draws) {
    make(outputs, coarse, (uint64_t)outputs * 31 + (uint64_t)coarse);
    ft_scores s = scores_of(task, outputs);
    s.drawn = draws ? drawn : NULL;
    ft_metrics m;
    OK(ft_metrics_compute(&s, &m));
    double *threshold = calloc((size_t)outputs, sizeof *threshold), *fitted = calloc((size_t)outputs, sizeof *fitted), auroc, precision;
    assert_true(threshold && fitted);
    if (s.scoring->probabilities != NULL && (s.labels == NULL || outputs > 1)) { // no class against the rest
        plain_ranks(&s, &auroc, &precision, threshold);
        same("auroc", m.value[FT_METRIC_AUROC], auroc);
        same("average_precision", m.value[FT_METRIC_AVERAGE_PRECISION], precision);
    }
    if (task == FT_TASK_MULTI_LABEL || outputs == 2) {
        const int first = s.scoring->first_threshold, count = ft_threshold_count(s.scoring, outputs);
        OK(ft_fit_thresholds(&s, FT_METRIC_F1_BINARY, fitted));
        for (int k = 0; k < count; k++) same("a threshold", fitted[k], threshold[first + k]);
    }
    // The same from a file, and with labels as sets.
    ft_logits kept;
    OK(ft_logits_open(N, outputs, NULL, &kept));
    OK(ft_logits_append(&kept, logits, N / 3));
    OK(ft_logits_append(&kept, logits + N / 3 * outputs, N - N / 3));
    assert_int_equal(kept.all == NULL, (size_t)N * (size_t)outputs * sizeof(float) > 4 << 20);
    assert_true(ft_logits_host_bytes(N, outputs) <= 4 << 20);
    ft_scores other = s;
    other.logits = kept.all;
    other.kept = &kept;
    if (task == FT_TASK_MULTI_LABEL) other.targets = NULL, other.sets = &sets;
    same_metrics(&other, &m);
    if (ft_threshold_count(s.scoring, outputs) > 0) {
        OK(ft_fit_thresholds(&other, FT_METRIC_F1_BINARY, threshold));
        for (int k = 0; k < ft_threshold_count(s.scoring, outputs); k++) same("a threshold", threshold[k], fitted[k]);
    }
    // And divided, as calibration does it.
    if (s.scoring->cross_entropy != NULL && outputs < 10) same("temperature", ft_fit_temperature(&other), ft_fit_temperature(&s));
    for (int64_t i = 0; i < (int64_t)N * outputs; i++) logits[i] = (float)((double)logits[i] / 1.7);
    ft_logits_divide(&kept, 1.7);
    ft_metrics_free(&m);
    OK(ft_metrics_compute(&s, &m));
    same_metrics(&other, &m);
    ft_metrics_free(&m);
    ft_logits_close(&kept);
    free(threshold), free(fitted);
}

// Catches: a rank or a tie counted at the wrong side, an output of another turn's scores, a window that is not moved, a row that is not
// the drawn one, sets that are not targets, a sum in another order, a division that is done twice.
static void as_in_memory(void **state) {
    static const int outputs[] = {1, 2, 3, 17, WIDE};
    for (ft_task task = FT_TASK_AUTO + 1; task < FT_TASK_TOKEN_CLASSIFICATION; task++) // that of words is test_entities.c's
        for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
            for (int coarse = 0; coarse < 3; coarse++)
                for (int draws = 0; draws < 2; draws++)
                    if (outputs[o] < WIDE || (coarse == 1 && draws == 0)) check(task, outputs[o], coarse, draws);
}

static void add(void *context, int output, const ft_ranking *r) { ((double *)context)[output] = ft_auroc(r) + 2 * ft_average_precision(r); }

// However little may be held at once: of one output all the same.
static void turns(void **state) {
    enum { OUTPUTS = 17 };
    make(OUTPUTS, 1, 3);
    const ft_scores s = scores_of(FT_TASK_MULTI_LABEL, OUTPUTS);
    int64_t positives[OUTPUTS] = {0};
    double want[OUTPUTS], got[OUTPUTS];
    for (int i = 0; i < N; i++)
        for (int c = 0; c < OUTPUTS; c++) positives[c] += targets[i * OUTPUTS + c] > 0;
    OK(ft_rank_outputs(&s, 0, positives, FT_RANKED_AT_ONCE, add, want));
    for (int64_t at_once = 0; at_once < 60000; at_once = 2 * at_once + 1000) {
        memset(got, 0, sizeof got);
        OK(ft_rank_outputs(&s, 0, positives, at_once, add, got));
        for (int c = 0; c < OUTPUTS; c++) same("an output", got[c], want[c]);
    }
}

// More logits than examples, and a file that lost its end: errors, not figures.
static void refusals(void **state) {
    ft_logits kept;
    make(WIDE, 0, 1);
    OK(ft_logits_open(N, WIDE, NULL, &kept));
    OK(ft_logits_append(&kept, logits, N - 1));
    assert_int_equal(ft_logits_append(&kept, logits, 2), FT_FAILED);
    ft_scores s = scores_of(FT_TASK_SINGLE_LABEL, WIDE);
    s.logits = NULL;
    s.kept = &kept;
    ft_metrics m;
    assert_int_equal(ft_metrics_compute(&s, &m), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "ends early"));
    ft_logits_rewind(&kept);
    OK(ft_logits_append(&kept, logits, N));
    OK(ft_metrics_compute(&s, &m));
    ft_metrics_free(&m);
    ft_logits_close(&kept);
    ft_logits_close(&kept);
    assert_int_equal(ft_logits_open(N, WIDE, "/nowhere/at/all", &kept), FT_FAILED);
    ft_logits_close(&kept);
}

static int set_up(void **state) {
    logits = calloc(MOST, sizeof *logits), targets = calloc(MOST, sizeof *targets);
    sets = (ft_label_sets){calloc(N + 1, sizeof *sets.first), calloc(MOST, sizeof *sets.label)};
    return logits && targets && sets.first && sets.label ? 0 : -1;
}

static int tear_down(void **state) {
    free(logits), free(targets), free(sets.first), free(sets.label);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_memory), cmocka_unit_test(turns), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
