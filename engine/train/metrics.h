// metrics.h - how good predictions are: loss, accuracy, F1, Matthews, as scikit-learn defines them (zero_division 0).
//
// A prediction is the largest logit, the lowest class on ties. Everything but the loss follows from the confusion
// matrix. f1_macro is the mean over the classes that occur as a label or as a prediction (scikit-learn's default); a
// class without either does not pull it down. f1_binary takes class 1 as the positive one and exists for two classes
// only.
#ifndef FT_METRICS_H
#define FT_METRICS_H

#include "engine/config/config.h"
#include "kernels/status.h"

#include <stdint.h>

typedef struct ft_metrics {
    int64_t examples;
    int classes;
    double loss; // mean over the examples; NaN when no losses were given
    double accuracy, f1_macro, f1_micro;
    double f1_binary;                // NaN unless there are two classes
    double matthews;                 // 0 when labels or predictions are of one class only
    double *precision, *recall, *f1; // [classes]
    int64_t *support;                // [classes] examples with this label
    int64_t *predicted;              // [classes] examples predicted as this class
    int64_t *confusion;              // [classes * classes]: row = label, column = prediction
} ft_metrics;

// FT_INVALID when `metric` does not exist for this number of classes (f1_binary beyond two). For use before training.
ft_status ft_metric_check(ft_metric metric, int classes);

// logits [n, classes] row-major, labels [n] in [0, classes), losses [n] or NULL. n and classes >= 1.
// FT_DIVERGED when a logit is not finite; the losses are summed as they are.
ft_status ft_metrics_compute(const float *logits, int64_t n, int classes, const int32_t *labels, const float *losses,
                             ft_metrics *metrics);
void ft_metrics_free(ft_metrics *metrics); // {0} is fine

double ft_metric_value(const ft_metrics *metrics, ft_metric metric);

// The class of the largest logit, the lowest on ties.
int ft_argmax(const float *logits, int classes);
// probabilities [classes], computed in double from finite logits.
void ft_softmax(const float *logits, int classes, double *probabilities);

#endif
