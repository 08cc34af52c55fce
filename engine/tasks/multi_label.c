// multi_label.c - any number of classes a text: what transformers calls multi_label_classification.
#include "engine/data/labels/targets.h"
#include "engine/metrics/decision.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- outputs ------------------------------------------------------------------------------------------------------

static bool suits(const ft_table *train) { return train->label_lists; }

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    *labels = (ft_labels){.kind = FT_LABELS_CLASSES, .separator = t->separator};
    ft_status status = ft_targets_labels(t->train, t->validation, arena, labels);
    if (status == FT_INVALID) ft_error_where_default("%s", t->train_path);
    return status;
}

// ---- the loss -----------------------------------------------------------------------------------------------------

// The weight of the positive examples, as pos_weight is usually set.
static double balance(double examples, double own, int present) { return (examples - own) / own; }

static float loss(const float *logits, int outputs, int32_t label, const float *target) {
    double sum = 0;
    for (int k = 0; k < outputs; k++) {
        double x = logits[k], t = target[k];
        // log(1 + exp(-|x|)) + max(x, 0) - x t, which is the cross-entropy of sigmoid(x) without overflow
        sum += log1p(exp(-fabs(x))) + fmax(x, 0) - x * t;
    }
    return (float)(sum / outputs);
}

// ---- figures ------------------------------------------------------------------------------------------------------
// A label is predicted when its probability reaches 1/2 or its threshold. macro is over all labels, accuracy asks for all labels of an
// example at once, samples is the mean of every example's own figure, hamming_loss the share of single decisions that are wrong.

// Sums over examples: of those that are right as a whole, of labels that are wrong, and of each example's own figures, where what is
// divided by nothing is 0.
typedef struct by_example {
    int64_t whole, wrong;
    double precision, recall, f1;
} by_example;

static void count(const ft_scores *s, int64_t i, const double *p, ft_metrics *m, by_example *sums) {
    int support = 0, predicted = 0, hit = 0;
    for (int c = 0; c < s->outputs; c++) {
        const bool is = ft_scores_in_set(s, i, c), said = ft_decide_label(p, c, s->threshold);
        m->support[c] += is;
        m->predicted[c] += said;
        m->hit[c] += is && said;
        support += is;
        predicted += said;
        hit += is && said;
    }
    const int wrong = support + predicted - 2 * hit;
    sums->whole += wrong == 0;
    sums->wrong += wrong;
    if (predicted > 0) sums->precision += (double)hit / predicted;
    if (support > 0) sums->recall += (double)hit / support;
    if (support + predicted > 0) sums->f1 += 2.0 * hit / (support + predicted);
}

static ft_status measure(const ft_scores *s, ft_metrics *m) {
    FT_TRY(ft_metrics_allocate(m, false));
    double *p = ft_calloc((size_t)s->outputs, sizeof *p, "probabilities");
    ft_status status = p != NULL ? FT_OK : FT_NO_MEMORY;
    by_example sums = {0};
    for (int64_t i = 0; i < s->n && status == FT_OK; i++) {
        const float *logits;
        status = ft_scores_finite_row(s, i, &logits);
        if (status != FT_OK) break;
        ft_sigmoids(logits, s->outputs, p);
        count(s, i, p, m, &sums);
    }
    free(p);
    FT_TRY(status);
    ft_metrics_average(m, false);
    const double n = (double)s->n;
    m->value[FT_METRIC_ACCURACY] = (double)sums.whole / n;
    m->value[FT_METRIC_HAMMING_LOSS] = (double)sums.wrong / (n * s->outputs);
    m->value[FT_METRIC_PRECISION_SAMPLES] = sums.precision / n;
    m->value[FT_METRIC_RECALL_SAMPLES] = sums.recall / n;
    m->value[FT_METRIC_F1_SAMPLES] = sums.f1 / n;
    return ft_metrics_rank(s, 0, false, m);
}

static int thresholds(int outputs) { return outputs; }

// ---- predictions --------------------------------------------------------------------------------------------------

static json_t *decided(const ft_answer *a, bool *failed) {
    json_t *names = json_array();
    for (int k = 0; k < a->outputs; k++)
        if (ft_decide_label(a->probability, k, a->threshold)) ft_json_append(names, json_string(a->names[k]), failed);
    return names;
}

static const char *const decided_heads[] = {"labels", NULL};

// One cell with the names of all.
static ft_status write_decided(const ft_answer *a, ft_cell_writer *out) {
    size_t size = 1, used = 0;
    for (int k = 0; k < a->outputs; k++) size += strlen(a->names[k]) + strlen(a->separator);
    char *cell = ft_calloc(size, 1, "a cell of labels");
    if (cell == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < a->outputs; k++) {
        if (!ft_decide_label(a->probability, k, a->threshold)) continue;
        used += (size_t)snprintf(cell + used, size - used, "%s%s", used > 0 ? a->separator : "", a->names[k]);
    }
    ft_write_cell(out, cell, used);
    free(cell);
    return FT_OK;
}

static void put_truth(const ft_answer *a, int32_t label, const float *target, json_t *line, bool *failed) {
    json_t *names = json_array();
    for (int k = 0; k < a->outputs; k++)
        if (target[k] >= 0.5f) ft_json_append(names, json_string(a->names[k]), failed);
    ft_json_put(line, "labels", names, failed);
}

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

const ft_task_spec ft_task_multi_label = {
    .id = FT_TASK_MULTI_LABEL,
    .labels = FT_LABELS_CLASSES,
    .empty_labels = true,
    .suits = suits,
    .outputs = outputs,
    .named = true,
    .balance = balance,
    .loss = loss,
    .scoring = {.kind = "multi-label",
                .metrics = BIT(LOSS) | BIT(ACCURACY) | BIT(PRECISION_MACRO) | BIT(PRECISION_MICRO) | BIT(PRECISION_WEIGHTED) |
                           BIT(RECALL_MACRO) | BIT(RECALL_MICRO) | BIT(RECALL_WEIGHTED) | BIT(F1_MACRO) | BIT(F1_MICRO) |
                           BIT(F1_WEIGHTED) | BIT(PRECISION_SAMPLES) | BIT(RECALL_SAMPLES) | BIT(F1_SAMPLES) | BIT(HAMMING_LOSS) | BIT(AUROC) |
                           BIT(AVERAGE_PRECISION),
                .known = "loss, accuracy, precision, recall and f1 with _macro, _micro, _weighted or _samples, hamming_loss, auroc, average_precision",
                .measure = measure,
                .probabilities = ft_sigmoids,
                .independent = true,
                .positive = ft_scores_in_set,
                .cross_entropy = ft_sigmoid_cross_entropy,
                .thresholds = thresholds},
    .pool = ft_pool_sigmoids,
    .shown = {FT_METRIC_LOSS, FT_METRIC_F1_MICRO, FT_METRIC_F1_MACRO, FT_METRIC_AVERAGE_PRECISION},
    .decided_key = "labels",
    .decided_heads = decided_heads,
    .decided = decided,
    .write_decided = write_decided,
    .put_truth = put_truth};
