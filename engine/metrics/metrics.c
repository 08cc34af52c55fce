#include "engine/metrics/metrics.h"

#include "base/arena.h"
#include "engine/metrics/correlation.h"
#include "engine/metrics/ranking.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- which metrics there are --------------------------------------------------------------------------------------

ft_status ft_metric_check(ft_metric metric, const ft_scoring *scoring, int outputs) {
    const uint64_t bit = FT_METRIC_BIT(metric);
    if ((scoring->metrics & bit) != 0 || (outputs == 2 && (scoring->of_two & bit) != 0)) return FT_OK;
    const char *name = ft_metric_name(metric);
    if ((scoring->of_two & bit) != 0) {
        ft_status status = ft_fail(FT_INVALID, "eval.metric", "%s is for two classes, this task has %d", name, outputs);
        ft_hint("%.*s_macro or %.*s_micro work for any number of classes", (int)strcspn(name, "_"), name, (int)strcspn(name, "_"),
                name);
        return status;
    }
    ft_status status = ft_fail(FT_INVALID, "eval.metric", "%s does not exist for %s tasks", name, scoring->kind);
    ft_hint("%s", scoring->known);
    return status;
}

// ---- probabilities ------------------------------------------------------------------------------------------------

int ft_argmax(const float *logits, int classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[best]) best = c;
    return best;
}

void ft_softmax(const float *logits, int classes, double *probabilities) {
    double largest = logits[ft_argmax(logits, classes)], sum = 0;
    for (int c = 0; c < classes; c++)
        sum += probabilities[c] = exp(logits[c] - largest);
    for (int c = 0; c < classes; c++)
        probabilities[c] /= sum;
}

double ft_sigmoid(float logit) {
    double e = exp(-fabs((double)logit));
    return logit >= 0 ? 1 / (1 + e) : e / (1 + e);
}

void ft_sigmoids(const float *logits, int outputs, double *probabilities) {
    for (int c = 0; c < outputs; c++) probabilities[c] = ft_sigmoid(logits[c]);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

ft_status ft_scores_finite_row(const ft_scores *s, int64_t example, const float **logits) {
    *logits = ft_scores_row(s, example);
    for (int c = 0; c < s->outputs; c++)
        if (!isfinite((*logits)[c]))
            return ft_fail(FT_DIVERGED, NULL, "the logits of example %lld are not finite", (long long)example);
    return FT_OK;
}

bool ft_scores_in_set(const ft_scores *s, int64_t example, int output) {
    const int64_t row = ft_scores_at(s, example);
    if (s->sets == NULL) return s->targets[row * s->outputs + output] > 0.5f;
    int64_t first = s->sets->first[row], last = s->sets->first[row + 1];
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (s->sets->label[middle] < output) first = middle + 1;
        else last = middle;
    }
    return first < s->sets->first[row + 1] && s->sets->label[first] == output;
}

ft_status ft_scores_each(const ft_scores *s, int first, int count, double *probability,
                         void (*take)(void *context, int64_t example, const double *those), void *context) {
    const ft_scoring *scoring = s->scoring;
    for (int64_t i = 0; i < s->n; i++) {
        const float *logits = ft_scores_row(s, i);
        if (scoring->independent) scoring->probabilities(logits + first, count, probability);
        else scoring->probabilities(logits, s->outputs, probability);
        take(context, i, scoring->independent ? probability : probability + first);
    }
    return ft_scores_status(s);
}

// ---- counting -----------------------------------------------------------------------------------------------------

ft_status ft_metrics_allocate(ft_metrics *m, bool confusion) {
    const size_t count = (size_t)m->classes;
    if (confusion) {
        if (count > SIZE_MAX / count / sizeof(int64_t)) return ft_fail_memory(SIZE_MAX, "a confusion matrix");
        m->confusion = ft_calloc(count * count, sizeof *m->confusion, "a confusion matrix");
        if (m->confusion == NULL) return FT_NO_MEMORY;
    }
    m->support = ft_calloc(count, sizeof *m->support, "metrics");
    m->predicted = ft_calloc(count, sizeof *m->predicted, "metrics");
    m->hit = ft_calloc(count, sizeof *m->hit, "metrics");
    m->precision = ft_calloc(count, sizeof *m->precision, "metrics");
    m->recall = ft_calloc(count, sizeof *m->recall, "metrics");
    m->f1 = ft_calloc(count, sizeof *m->f1, "metrics");
    return m->support && m->predicted && m->hit && m->precision && m->recall && m->f1 ? FT_OK : FT_NO_MEMORY;
}

// ---- from counts --------------------------------------------------------------------------------------------------

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

void ft_metrics_average(ft_metrics *m, bool occurring) {
    double classes = 0, hits = 0, support = 0, predicted = 0, macro[3] = {0}, weighted[3] = {0};
    for (int c = 0; c < m->classes; c++) {
        double h = (double)m->hit[c], s = (double)m->support[c], p = (double)m->predicted[c];
        const double value[3] = {m->precision[c] = ratio(h, p), m->recall[c] = ratio(h, s), m->f1[c] = ratio(2 * h, s + p)};
        hits += h, support += s, predicted += p;
        if (occurring && s + p == 0) continue;
        classes++;
        for (int k = 0; k < 3; k++) macro[k] += value[k], weighted[k] += value[k] * s;
    }
    const double micro[3] = {ratio(hits, predicted), ratio(hits, support), ratio(2 * hits, support + predicted)};
    static const ft_metric of_macro[3] = {FT_METRIC_PRECISION_MACRO, FT_METRIC_RECALL_MACRO, FT_METRIC_F1_MACRO};
    static const ft_metric of_micro[3] = {FT_METRIC_PRECISION_MICRO, FT_METRIC_RECALL_MICRO, FT_METRIC_F1_MICRO};
    static const ft_metric of_weighted[3] = {FT_METRIC_PRECISION_WEIGHTED, FT_METRIC_RECALL_WEIGHTED, FT_METRIC_F1_WEIGHTED};
    for (int k = 0; k < 3; k++) {
        m->value[of_macro[k]] = ratio(macro[k], classes); // of no entity anywhere 0
        m->value[of_micro[k]] = micro[k];
        m->value[of_weighted[k]] = ratio(weighted[k], support);
    }
}

// ---- from ranks ---------------------------------------------------------------------------------------------------

typedef struct rank_sums {
    double auroc, precision;
    bool each;
} rank_sums;

static void add_ranks(void *context, int output, const ft_ranking *r) {
    rank_sums *sums = context;
    sums->auroc += ft_auroc(r);
    sums->precision += sums->each && r->positives == 0 ? NAN : ft_average_precision(r);
}

ft_status ft_metrics_rank(const ft_scores *s, int first, bool each, ft_metrics *m) {
    rank_sums sums = {.each = each};
    FT_TRY(ft_rank_outputs(s, first, m->support, FT_RANKED_AT_ONCE, add_ranks, &sums));
    m->value[FT_METRIC_AUROC] = sums.auroc / (s->outputs - first);
    m->value[FT_METRIC_AVERAGE_PRECISION] = sums.precision / (s->outputs - first);
    return FT_OK;
}

// ---- all of them --------------------------------------------------------------------------------------------------

ft_status ft_metrics_compute(const ft_scores *s, ft_metrics *m) {
    *m = (ft_metrics){.examples = s->n, .classes = s->outputs};
    for (int k = 0; k < FT_METRIC_COUNT; k++) m->value[k] = NAN;
    if (s->n < 1 || s->outputs < 1)
        return ft_fail(FT_INVALID, NULL, "no metrics of %lld examples with %d outputs", (long long)s->n, s->outputs);
    ft_status status = s->scoring->measure(s, m);
    if (status == FT_OK) status = ft_scores_status(s);
    if (status != FT_OK) {
        ft_metrics_free(m);
        return status;
    }
    double sum = s->losses != NULL ? 0 : NAN;
    int64_t rows = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = ft_scores_at(s, i), first = s->first != NULL ? s->first[at] : at, last = s->first != NULL ? s->first[at + 1] : at + 1;
        for (int64_t row = first; s->losses != NULL && row < last; row++) sum += s->losses[ft_scores_member(s, row)];
        rows += last - first;
    }
    m->value[FT_METRIC_LOSS] = sum / (double)rows;
    return FT_OK;
}

size_t ft_metrics_host_bytes(const ft_scoring *scoring, int64_t n, int outputs, int64_t labels, bool confusion) {
    const size_t classes = (size_t)outputs;
    if (scoring->probabilities == NULL) return ft_correlation_host_bytes(n); // numbers: one output after the other
    size_t bytes = classes * (6 * sizeof(int64_t) + sizeof(double)); // ft_metrics and a row of probabilities
    if (confusion) bytes += classes * classes * sizeof(int64_t);
    return bytes + ft_rank_host_bytes(n, outputs, labels);
}

void ft_metrics_free(ft_metrics *m) {
    free(m->confusion);
    free(m->names);
    free(m->support);
    free(m->predicted);
    free(m->hit);
    free(m->precision);
    free(m->recall);
    free(m->f1);
    memset(m, 0, sizeof *m);
}
