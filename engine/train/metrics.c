#include "engine/train/metrics.h"

#include "engine/train/ranking.h"
#include "kernels/arena.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATION_BINS = 15 };

// ---- which metrics a task has -------------------------------------------------------------------------------------

enum { SINGLE = 1, MULTI = 2, NUMBERS = 4, TWO_CLASSES = 8 };

static const int tasks_of[FT_METRIC_COUNT] = {
    [FT_METRIC_LOSS] = SINGLE | MULTI | NUMBERS,
    [FT_METRIC_ACCURACY] = SINGLE | MULTI,
    [FT_METRIC_BALANCED_ACCURACY] = SINGLE,
    [FT_METRIC_PRECISION_MACRO] = SINGLE | MULTI,
    [FT_METRIC_PRECISION_MICRO] = SINGLE | MULTI,
    [FT_METRIC_PRECISION_WEIGHTED] = SINGLE | MULTI,
    [FT_METRIC_PRECISION_BINARY] = TWO_CLASSES,
    [FT_METRIC_RECALL_MACRO] = SINGLE | MULTI,
    [FT_METRIC_RECALL_MICRO] = SINGLE | MULTI,
    [FT_METRIC_RECALL_WEIGHTED] = SINGLE | MULTI,
    [FT_METRIC_RECALL_BINARY] = TWO_CLASSES,
    [FT_METRIC_F1_MACRO] = SINGLE | MULTI,
    [FT_METRIC_F1_MICRO] = SINGLE | MULTI,
    [FT_METRIC_F1_WEIGHTED] = SINGLE | MULTI,
    [FT_METRIC_F1_BINARY] = TWO_CLASSES,
    [FT_METRIC_MATTHEWS] = SINGLE,
    [FT_METRIC_COHEN_KAPPA] = SINGLE,
    [FT_METRIC_AUROC] = SINGLE | MULTI,
    [FT_METRIC_AVERAGE_PRECISION] = SINGLE | MULTI,
    [FT_METRIC_LOG_LOSS] = SINGLE,
    [FT_METRIC_BRIER] = SINGLE,
    [FT_METRIC_ECE] = SINGLE,
    [FT_METRIC_PEARSON] = NUMBERS,
    [FT_METRIC_SPEARMAN] = NUMBERS,
    [FT_METRIC_MSE] = NUMBERS,
    [FT_METRIC_RMSE] = NUMBERS,
    [FT_METRIC_MAE] = NUMBERS,
    [FT_METRIC_R2] = NUMBERS,
};

static bool exists(ft_metric metric, ft_task task, int outputs) {
    int kinds = task == FT_TASK_REGRESSION    ? NUMBERS
                : task == FT_TASK_MULTI_LABEL ? MULTI
                                              : SINGLE | (outputs == 2 ? TWO_CLASSES : 0);
    return (tasks_of[metric] & kinds) != 0;
}

ft_status ft_metric_check(ft_metric metric, ft_task task, int outputs) {
    if (exists(metric, task, outputs)) return FT_OK;
    const char *name = ft_metric_name(metric);
    if (task == FT_TASK_SINGLE_LABEL && tasks_of[metric] == TWO_CLASSES) {
        ft_status status = ft_fail(FT_INVALID, "eval.metric", "%s is for two classes, this task has %d", name, outputs);
        ft_hint("%.*s_macro or %.*s_micro work for any number of classes", (int)strcspn(name, "_"), name, (int)strcspn(name, "_"),
                name);
        return status;
    }
    static const char *const kinds[] = {"", "single-label", "multi-label", "regression"};
    ft_status status = ft_fail(FT_INVALID, "eval.metric", "%s does not exist for %s tasks", name, kinds[task]);
    ft_hint("%s", task == FT_TASK_REGRESSION ? "loss, pearson, spearman, mse, rmse, mae, r2"
                  : task == FT_TASK_MULTI_LABEL
                      ? "loss, accuracy, precision, recall and f1 with _macro, _micro or _weighted, auroc, average_precision"
                      : "loss, accuracy, balanced_accuracy, f1_macro, matthews, auroc and others");
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

void ft_probabilities(ft_task task, const float *logits, int outputs, double *probabilities) {
    if (task == FT_TASK_SINGLE_LABEL) {
        ft_softmax(logits, outputs, probabilities);
        return;
    }
    for (int c = 0; c < outputs; c++) probabilities[c] = ft_sigmoid(logits[c]);
}

// ---- counting -----------------------------------------------------------------------------------------------------

static ft_status allocate(ft_metrics *m, size_t count) {
    if (m->task == FT_TASK_SINGLE_LABEL) {
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

static ft_status check_scores(const ft_scores *s) {
    for (int64_t i = 0; i < s->n; i++) {
        for (int c = 0; c < s->outputs; c++)
            if (!isfinite(s->logits[i * s->outputs + c]))
                return ft_fail(FT_DIVERGED, NULL, "the logits of example %lld are not finite", (long long)i);
        if (s->task == FT_TASK_SINGLE_LABEL && (s->labels[i] < 0 || s->labels[i] >= s->outputs))
            return ft_fail(FT_FAILED, NULL, "label %d of example %lld is none of %d classes", s->labels[i], (long long)i,
                           s->outputs);
    }
    return FT_OK;
}

static int decide(const ft_scores *s, const double *p, int64_t i) {
    if (s->threshold != NULL && s->outputs == 2) return p[1] >= s->threshold[0];
    return ft_argmax(s->logits + i * s->outputs, s->outputs);
}

static void count_single(const ft_scores *s, const double *probability, ft_metrics *m) {
    for (int64_t i = 0; i < s->n; i++) {
        int label = s->labels[i], prediction = decide(s, probability + i * s->outputs, i);
        m->confusion[(int64_t)label * s->outputs + prediction]++;
        m->support[label]++;
        m->predicted[prediction]++;
        m->hit[label] += label == prediction;
    }
}

// How many examples have all their labels right.
static int64_t count_multi(const ft_scores *s, const double *probability, ft_metrics *m) {
    int64_t whole = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool right = true;
        for (int c = 0; c < s->outputs; c++) {
            bool is = s->targets[i * s->outputs + c] > 0.5f;
            bool said = probability[i * s->outputs + c] >= (s->threshold != NULL ? s->threshold[c] : 0.5);
            m->support[c] += is;
            m->predicted[c] += said;
            m->hit[c] += is && said;
            right = right && is == said;
        }
        whole += right;
    }
    return whole;
}

// ---- from counts --------------------------------------------------------------------------------------------------

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

static void average(ft_metrics *m) {
    double occurring = 0, hits = 0, support = 0, predicted = 0, macro[3] = {0}, weighted[3] = {0};
    for (int c = 0; c < m->classes; c++) {
        double h = (double)m->hit[c], s = (double)m->support[c], p = (double)m->predicted[c];
        const double value[3] = {m->precision[c] = ratio(h, p), m->recall[c] = ratio(h, s), m->f1[c] = ratio(2 * h, s + p)};
        hits += h, support += s, predicted += p;
        if (m->task == FT_TASK_SINGLE_LABEL && s + p == 0) continue;
        occurring++;
        for (int k = 0; k < 3; k++) macro[k] += value[k], weighted[k] += value[k] * s;
    }
    const double micro[3] = {ratio(hits, predicted), ratio(hits, support), ratio(2 * hits, support + predicted)};
    static const ft_metric of_macro[3] = {FT_METRIC_PRECISION_MACRO, FT_METRIC_RECALL_MACRO, FT_METRIC_F1_MACRO};
    static const ft_metric of_micro[3] = {FT_METRIC_PRECISION_MICRO, FT_METRIC_RECALL_MICRO, FT_METRIC_F1_MICRO};
    static const ft_metric of_weighted[3] = {FT_METRIC_PRECISION_WEIGHTED, FT_METRIC_RECALL_WEIGHTED, FT_METRIC_F1_WEIGHTED};
    for (int k = 0; k < 3; k++) {
        m->value[of_macro[k]] = macro[k] / occurring;
        m->value[of_micro[k]] = micro[k];
        m->value[of_weighted[k]] = ratio(weighted[k], support);
    }
}

static void from_confusion(ft_metrics *m) {
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

// ---- from probabilities -------------------------------------------------------------------------------------------

static void from_probabilities(const ft_scores *s, const double *p, ft_metrics *m) {
    double log_sum = 0, square_sum = 0, ece = 0;
    double confidence[CALIBRATION_BINS] = {0}, right[CALIBRATION_BINS] = {0};
    for (int64_t i = 0; i < s->n; i++, p += s->outputs) {
        int label = s->labels[i], prediction = decide(s, p, i);
        log_sum -= log(fmin(fmax(p[label], DBL_EPSILON), 1 - DBL_EPSILON));
        for (int c = 0; c < s->outputs; c++) {
            double d = p[c] - (c == label);
            square_sum += s->outputs == 2 && c == 0 ? 0 : d * d;
        }
        int bin = (int)(p[prediction] * CALIBRATION_BINS);
        if (bin > CALIBRATION_BINS - 1) bin = CALIBRATION_BINS - 1;
        confidence[bin] += p[prediction];
        right[bin] += prediction == label;
    }
    for (int b = 0; b < CALIBRATION_BINS; b++) ece += fabs(right[b] - confidence[b]);
    m->value[FT_METRIC_LOG_LOSS] = log_sum / (double)s->n;
    m->value[FT_METRIC_BRIER] = square_sum / (double)s->n;
    m->value[FT_METRIC_ECE] = ece / (double)s->n;
}

static bool is_positive(const ft_scores *s, int64_t i, int c) {
    return s->task == FT_TASK_SINGLE_LABEL ? s->labels[i] == c : s->targets[i * s->outputs + c] > 0.5f;
}

// The mean over the classes; of two classes, class 1 alone. More than two need an example of each.
static ft_status from_ranks(const ft_scores *s, const double *p, ft_metrics *m) {
    bool single = s->task == FT_TASK_SINGLE_LABEL;
    int first = single && s->outputs == 2 ? 1 : 0;
    ft_ranked *ranked = ft_calloc((size_t)s->n, sizeof *ranked, "ranked scores");
    if (ranked == NULL) return FT_NO_MEMORY;
    double auroc = 0, precision = 0;
    for (int c = first; c < s->outputs; c++) {
        for (int64_t i = 0; i < s->n; i++) ranked[i] = (ft_ranked){p[i * s->outputs + c], is_positive(s, i, c)};
        auroc += ft_auroc(ranked, s->n);
        precision += single && first == 0 && (m->support[c] == 0 || s->outputs == 1) ? NAN : ft_average_precision(ranked, s->n);
    }
    free(ranked);
    m->value[FT_METRIC_AUROC] = auroc / (s->outputs - first);
    m->value[FT_METRIC_AVERAGE_PRECISION] = precision / (s->outputs - first);
    return FT_OK;
}

static ft_status with_labels(const ft_scores *s, ft_metrics *m) {
    double *p = ft_calloc((size_t)s->n * (size_t)s->outputs, sizeof *p, "probabilities");
    if (p == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < s->n; i++) ft_probabilities(s->task, s->logits + i * s->outputs, s->outputs, p + i * s->outputs);
    if (s->task == FT_TASK_SINGLE_LABEL) {
        count_single(s, p, m);
        average(m);
        from_confusion(m);
        from_probabilities(s, p, m);
    } else {
        int64_t whole = count_multi(s, p, m);
        average(m);
        m->value[FT_METRIC_ACCURACY] = (double)whole / (double)s->n;
    }
    ft_status status = from_ranks(s, p, m);
    free(p);
    return status;
}

// ---- regression ---------------------------------------------------------------------------------------------------

typedef struct column {
    double *x, *y, *x_rank, *y_rank;
    ft_ranked *scratch;
} column;

static void one_target(const column *c, int64_t n, double share, ft_metrics *m) {
    double squares = 0, absolute = 0, mean = 0, spread = 0;
    for (int64_t i = 0; i < n; i++) mean += c->y[i] / (double)n;
    bool constant = true;
    for (int64_t i = 0; i < n; i++) {
        double d = c->x[i] - c->y[i], from_mean = c->y[i] - mean;
        squares += d * d;
        absolute += fabs(d);
        spread += from_mean * from_mean;
        constant = constant && c->y[i] == c->y[0];
    }
    if (constant) spread = 0;
    ft_average_ranks(c->x, n, c->scratch, c->x_rank);
    ft_average_ranks(c->y, n, c->scratch, c->y_rank);
    m->value[FT_METRIC_PEARSON] += share * ft_pearson(c->x, c->y, n);
    m->value[FT_METRIC_SPEARMAN] += share * ft_pearson(c->x_rank, c->y_rank, n);
    m->value[FT_METRIC_MSE] += share * squares / (double)n;
    m->value[FT_METRIC_RMSE] += share * sqrt(squares / (double)n);
    m->value[FT_METRIC_MAE] += share * absolute / (double)n;
    // A constant target: 1 when it is met, 0 when not. One example has no R2.
    m->value[FT_METRIC_R2] += share * (n < 2 ? NAN : spread > 0 ? 1 - squares / spread : squares == 0);
}

static ft_status with_numbers(const ft_scores *s, ft_metrics *m) {
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        if (exists((ft_metric)k, s->task, s->outputs)) m->value[k] = 0;
    size_t n = (size_t)s->n;
    double *values = ft_calloc(4 * n, sizeof *values, "metrics");
    column c = {.x = values, .y = values + n, .x_rank = values + 2 * n, .y_rank = values + 3 * n};
    c.scratch = ft_calloc(n, sizeof *c.scratch, "metrics");
    ft_status status = values && c.scratch ? FT_OK : FT_NO_MEMORY;
    for (int k = 0; k < s->outputs && status == FT_OK; k++) {
        for (int64_t i = 0; i < s->n; i++) {
            c.x[i] = s->logits[i * s->outputs + k];
            c.y[i] = s->targets[i * s->outputs + k];
        }
        one_target(&c, s->n, 1.0 / s->outputs, m);
    }
    free(values);
    free(c.scratch);
    return status;
}

// ---- all of them --------------------------------------------------------------------------------------------------

ft_status ft_metrics_compute(const ft_scores *s, ft_metrics *m) {
    *m = (ft_metrics){.task = s->task, .examples = s->n, .classes = s->outputs};
    for (int k = 0; k < FT_METRIC_COUNT; k++) m->value[k] = NAN;
    if (s->n < 1 || s->outputs < 1)
        return ft_fail(FT_INVALID, NULL, "no metrics of %lld examples with %d outputs", (long long)s->n, s->outputs);
    ft_status status = check_scores(s);
    if (status == FT_OK && s->task != FT_TASK_REGRESSION) status = allocate(m, (size_t)s->outputs);
    if (status == FT_OK) status = s->task == FT_TASK_REGRESSION ? with_numbers(s, m) : with_labels(s, m);
    if (status != FT_OK) {
        ft_metrics_free(m);
        return status;
    }
    double sum = s->losses != NULL ? 0 : NAN;
    for (int64_t i = 0; s->losses != NULL && i < s->n; i++) sum += s->losses[i];
    m->value[FT_METRIC_LOSS] = sum / (double)s->n;
    return FT_OK;
}

void ft_metrics_free(ft_metrics *m) {
    free(m->confusion);
    free(m->support);
    free(m->predicted);
    free(m->hit);
    free(m->precision);
    free(m->recall);
    free(m->f1);
    memset(m, 0, sizeof *m);
}
