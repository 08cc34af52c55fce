// metrics.h - how good predictions are, as scikit-learn defines it (zero_division 0); correlations as SciPy does.
//
// Which metrics a task has is ft_metric_check's to say; a value that does not exist (one class only, a constant) is NaN
// where scikit-learn's is NaN or an error.
//
// Single label. A prediction is the largest probability, the lowest class on ties; with two classes and a threshold, class
//   1 when its probability reaches it. macro is the mean over the classes that occur as a label or as a prediction, weighted
//   counts each class as often as it is a label, binary takes class 1 as the positive one and exists for two classes only.
//   auroc and average_precision: of class 1, beyond two classes the mean over one class against the rest. brier: of class 1,
//   beyond two classes summed over all. ece: expected calibration error in 15 bins of equal width (Guo et al. 2017).
// Multi label. A label is predicted when its probability reaches 1/2 or its threshold. macro is the mean over all labels,
//   micro counts all decisions together, accuracy asks for all labels of an example at once.
// Regression. Several targets: the mean over them.
#ifndef FT_METRICS_H
#define FT_METRICS_H

#include "engine/config/config.h"
#include "kernels/status.h"

#include <stdint.h>

// What is judged: n examples of a task with so many outputs.
typedef struct ft_scores {
    ft_task task; // not AUTO
    int64_t n;
    int outputs;
    const float *logits;     // [n, outputs] row-major; of regression the predictions
    const int32_t *labels;   // single label: [n] in [0, outputs)
    const float *targets;    // else: [n, outputs], of multi label 0 and 1
    const float *losses;     // [n]; NULL: there are none
    const double *threshold; // multi label: [outputs]; single label with two classes: [1]; NULL: 1/2, the largest
} ft_scores;

typedef struct ft_metrics {
    ft_task task;
    int64_t examples;
    int classes;                     // outputs
    double value[FT_METRIC_COUNT];   // NaN: does not exist
    // Of tasks with labels; NULL for regression.
    double *precision, *recall, *f1; // [classes]
    int64_t *support;                // [classes] examples with this label
    int64_t *predicted;              // [classes] examples predicted as this class
    int64_t *hit;                    // [classes] both
    int64_t *confusion;              // single label: [classes * classes]: row = label, column = prediction; else NULL
} ft_metrics;

// FT_INVALID when `metric` does not exist for this task (f1_binary beyond two classes). For use before training.
ft_status ft_metric_check(ft_metric metric, ft_task task, int outputs);

// n and outputs >= 1. FT_DIVERGED when a logit is not finite; the losses are summed as they are.
ft_status ft_metrics_compute(const ft_scores *scores, ft_metrics *metrics);
void ft_metrics_free(ft_metrics *metrics); // {0} is fine

static inline double ft_metric_value(const ft_metrics *metrics, ft_metric metric) { return metrics->value[metric]; }

// Confidence intervals by bootstrap: `rounds` times n examples are drawn with replacement (splitmix64 of seed), and the
// interval is from the (1 - level) / 2 to the (1 + level) / 2 quantile of what they give (interpolated as numpy.quantile
// does). low, high [FT_METRIC_COUNT]; NaN where a metric does not exist. Rounds in which it does not exist are left out.
ft_status ft_metrics_bootstrap(const ft_scores *scores, int rounds, uint64_t seed, double level, double *low, double *high);

// The class of the largest logit, the lowest on ties.
int ft_argmax(const float *logits, int classes);
// probabilities [classes], computed in double from finite logits.
void ft_softmax(const float *logits, int classes, double *probabilities);
double ft_sigmoid(float logit);
// Probabilities of a task with labels: softmax or sigmoids.
void ft_probabilities(ft_task task, const float *logits, int outputs, double *probabilities);

#endif
