// single_label.c - one class a text: what transformers calls single_label_classification.
#include "base/log.h"
#include "engine/metrics/decision.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATION_BINS = 15 };

// ---- outputs ------------------------------------------------------------------------------------------------------

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    const ft_table *train = t->train;
    if (train->label_lists) {
        ft_fail(FT_INVALID, t->train_path, "every text has a list of labels, which is not train.task = single_label");
        ft_hint("train.task = multi_label");
        return FT_INVALID;
    }
    // But not the test set, which decides about nothing.
    FT_TRY(ft_labels_from_tables(train, t->validation, t->validation_path, arena, labels));
    if (labels->count - labels->missing < 2)
        return ft_fail(FT_INVALID, t->train_path, "all training examples have the label \"%s\": there is nothing to learn",
                       train->label[0]);
    if (labels->missing > 0)
        ft_warn("%d of the %d classes have no training example (%s)", labels->missing, labels->count, t->train_path);
    if (labels->count > 20 && labels->count > train->rows / 2) {
        ft_fail(FT_INVALID, t->train_path, "%d different labels in %lld rows: column \"%s\" does not name classes", labels->count,
                (long long)train->rows, train->label_column);
        ft_hint("data.label_column names the column of the labels; train.task = regression takes numbers");
        return FT_INVALID;
    }
    return FT_OK;
}

// ---- the loss -----------------------------------------------------------------------------------------------------

// As scikit-learn's compute_class_weight: the classes that have examples count as one on average.
static double balance(double examples, double own, int present) { return examples / (present * own); }

static float loss(const float *logits, int classes, int32_t label, const float *target) {
    double largest = logits[0], sum = 0;
    for (int c = 1; c < classes; c++) largest = fmax(largest, logits[c]);
    for (int c = 0; c < classes; c++) sum += exp(logits[c] - largest);
    return (float)(log(sum) + largest - logits[label]);
}

// ---- figures ------------------------------------------------------------------------------------------------------
// A prediction is the largest probability, the lowest class on ties; with two classes and a threshold, class 1 when its probability
// reaches it. macro is over the classes that occur as a label or as a prediction, binary takes class 1 as the positive one. auroc and
// average_precision: of class 1, beyond two classes the mean over one class against the rest. brier: of class 1, beyond two classes
// summed over all. ece: expected calibration error in 15 bins of equal width (Guo et al. 2017).

static int decide(const ft_scores *s, const float *logits, const double *p) {
    if (s->threshold != NULL && s->outputs == 2) return p[1] >= s->threshold[0];
    return ft_argmax(logits, s->outputs);
}

static void count(int label, int prediction, ft_metrics *m) {
    if (m->confusion != NULL) m->confusion[(int64_t)label * m->classes + prediction]++;
    m->support[label]++;
    m->predicted[prediction]++;
    m->hit[label] += label == prediction;
}

static void from_counts(ft_metrics *m) {
    // Matthews for any number of classes: the correlation of label and prediction, from counts. The products of the two
    // margins, the squares of the labels' and of the predictions' margin.
    double n = (double)m->examples, correct = 0, crossed = 0, labels_squared = 0, predictions_squared = 0, recalls = 0,
           present = 0;
    for (int c = 0; c < m->classes; c++) {
        double support = (double)m->support[c], predicted = (double)m->predicted[c];
        correct += (double)m->hit[c];
        crossed += support * predicted;
        labels_squared += support * support;
        predictions_squared += predicted * predicted;
        if (support > 0) recalls += m->recall[c], present++;
    }
    m->value[FT_METRIC_ACCURACY] = correct / n;
    m->value[FT_METRIC_BALANCED_ACCURACY] = recalls / present;
    if (m->classes == 2) {
        m->value[FT_METRIC_PRECISION_BINARY] = m->precision[1];
        m->value[FT_METRIC_RECALL_BINARY] = m->recall[1];
        m->value[FT_METRIC_F1_BINARY] = m->f1[1];
    }
    double spread = (n * n - labels_squared) * (n * n - predictions_squared);
    m->value[FT_METRIC_MATTHEWS] = spread > 0 ? (correct * n - crossed) / sqrt(spread) : 0;
    double by_chance = n * n - crossed; // n times the disagreement that independent predictions would have
    m->value[FT_METRIC_COHEN_KAPPA] = by_chance > 0 ? 1 - (n - correct) * n / by_chance : NAN;
}

// What is added up over the examples, in their order.
typedef struct sums {
    double logarithms, squares, confidence[CALIBRATION_BINS], right[CALIBRATION_BINS];
} sums;

static void add(int label, int prediction, const double *p, int outputs, sums *all) {
    all->logarithms -= log(fmin(fmax(p[label], DBL_EPSILON), 1 - DBL_EPSILON));
    for (int c = 0; c < outputs; c++) {
        double d = p[c] - (c == label);
        all->squares += outputs == 2 && c == 0 ? 0 : d * d;
    }
    int bin = (int)(p[prediction] * CALIBRATION_BINS);
    if (bin > CALIBRATION_BINS - 1) bin = CALIBRATION_BINS - 1;
    all->confidence[bin] += p[prediction];
    all->right[bin] += prediction == label;
}

static void from_sums(const sums *all, double n, ft_metrics *m) {
    double ece = 0;
    for (int b = 0; b < CALIBRATION_BINS; b++) ece += fabs(all->right[b] - all->confidence[b]);
    m->value[FT_METRIC_LOG_LOSS] = all->logarithms / n;
    m->value[FT_METRIC_BRIER] = all->squares / n;
    m->value[FT_METRIC_ECE] = ece / n;
}

static bool positive(const ft_scores *s, int64_t i, int c) { return s->labels[ft_scores_at(s, i)] == c; }

static ft_status check_labels(const ft_scores *s) {
    for (int64_t i = 0; i < s->n; i++) {
        const int32_t label = s->labels[ft_scores_at(s, i)];
        if (label < 0 || label >= s->outputs)
            return ft_fail(FT_FAILED, NULL, "label %d of example %lld is none of %d classes", label, (long long)i, s->outputs);
    }
    return FT_OK;
}

static ft_status look_at_all(const ft_scores *s, double *p, sums *all, ft_metrics *m) {
    for (int64_t i = 0; i < s->n; i++) {
        const float *logits;
        FT_TRY(ft_scores_finite_row(s, i, &logits));
        ft_softmax(logits, s->outputs, p);
        const int label = s->labels[ft_scores_at(s, i)], prediction = decide(s, logits, p);
        count(label, prediction, m);
        add(label, prediction, p, s->outputs, all);
    }
    return FT_OK;
}

// Of two classes the figures from ranks are of class 1 alone; more than two need an example of each.
static ft_status measure(const ft_scores *s, ft_metrics *m) {
    const int first = s->outputs == 2 ? 1 : 0;
    sums all = {0};
    FT_TRY(check_labels(s));
    FT_TRY(ft_metrics_allocate(m, s->confusion));
    double *p = ft_calloc((size_t)s->outputs, sizeof *p, "probabilities");
    ft_status status = p != NULL ? look_at_all(s, p, &all, m) : FT_NO_MEMORY;
    free(p);
    FT_TRY(status);
    ft_metrics_average(m, true);
    from_counts(m);
    from_sums(&all, (double)s->n, m);
    FT_TRY(ft_metrics_rank(s, first, first == 0, m));
    if (s->outputs == 1) m->value[FT_METRIC_AVERAGE_PRECISION] = NAN; // no class against the rest
    return FT_OK;
}

static int thresholds(int classes) { return classes == 2 ? 1 : 0; }

// ---- predictions --------------------------------------------------------------------------------------------------

static int best_of(const ft_answer *a) { return ft_decide_class(a->probability, a->outputs, a->threshold); }

static json_t *decided(const ft_answer *a, bool *failed) { return json_string(a->names[best_of(a)]); }

static const char *const decided_heads[] = {"label", "probability", NULL};

static ft_status write_decided(const ft_answer *a, ft_cell_writer *out) {
    const int best = best_of(a);
    ft_write_text(out, a->names[best]);
    ft_write_number(out, a->probability[best], 4);
    return FT_OK;
}

static void put_truth(const ft_answer *a, int32_t label, const float *target, json_t *line, bool *failed) {
    ft_json_put(line, "label", json_string(a->names[label]), failed);
}

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

const ft_task_spec ft_task_single_label = {
    .id = FT_TASK_SINGLE_LABEL,
    .labels = FT_LABELS_CLASS,
    .outputs = outputs,
    .named = true,
    .balance = balance,
    .loss = loss,
    .scoring = {.kind = "single-label",
                .metrics = BIT(LOSS) | BIT(ACCURACY) | BIT(BALANCED_ACCURACY) | BIT(PRECISION_MACRO) | BIT(PRECISION_MICRO) |
                           BIT(PRECISION_WEIGHTED) | BIT(RECALL_MACRO) | BIT(RECALL_MICRO) | BIT(RECALL_WEIGHTED) | BIT(F1_MACRO) |
                           BIT(F1_MICRO) | BIT(F1_WEIGHTED) | BIT(MATTHEWS) | BIT(COHEN_KAPPA) | BIT(AUROC) | BIT(AVERAGE_PRECISION) |
                           BIT(LOG_LOSS) | BIT(BRIER) | BIT(ECE),
                .of_two = BIT(PRECISION_BINARY) | BIT(RECALL_BINARY) | BIT(F1_BINARY),
                .known = "loss, accuracy, balanced_accuracy, f1_macro, matthews, auroc and others",
                .measure = measure,
                .probabilities = ft_softmax,
                .positive = positive,
                .cross_entropy = ft_softmax_cross_entropy,
                .thresholds = thresholds,
                .first_threshold = 1,
                .threshold_by_metric = true},
    .pool = ft_pool_softmax,
    .shown = {FT_METRIC_LOSS, FT_METRIC_ACCURACY, FT_METRIC_F1_MACRO, FT_METRIC_MATTHEWS},
    .decided_key = "label",
    .decided_heads = decided_heads,
    .decided = decided,
    .write_decided = write_decided,
    .put_truth = put_truth};
