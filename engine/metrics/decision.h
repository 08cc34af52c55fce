// decision.h - from scores to what is said: a temperature for the probabilities, thresholds for the labels; both found on
// validation data and saved with the model.
#ifndef FT_DECISION_H
#define FT_DECISION_H

#include "engine/metrics/metrics.h"

// How many thresholds a task has; 0 where its outputs are no classes.
int ft_threshold_count(const ft_scoring *scoring, int outputs);

// The temperature T > 0 that makes the mean cross-entropy of logits / T least (Guo et al. 2017), within 1/20 .. 20. It is
// convex in 1 / T. Tasks with labels.
double ft_fit_temperature(const ft_scores *scores);

// threshold [ft_threshold_count]: where a label's F1 is greatest; of two classes where `metric` is, if it is accuracy,
// balanced_accuracy, f1_macro, matthews or cohen_kappa, else the F1 of class 1. Halfway between two scores; 1/2 for a label
// without positive examples; of equally good ones the highest.
ft_status ft_fit_thresholds(const ft_scores *scores, ft_metric metric, double *threshold);

// The class that probabilities stand for; threshold as in ft_scores.
int ft_decide_class(const double *probability, int outputs, const double *threshold);
static inline bool ft_decide_label(const double *probability, int label, const double *threshold) {
    return probability[label] >= (threshold != NULL ? threshold[label] : 0.5);
}

// For ft_scoring.cross_entropy: of one class an example (labels), of every output for itself (targets, summed over the outputs).
double ft_softmax_cross_entropy(const ft_scores *scores, double sharpness);
double ft_sigmoid_cross_entropy(const ft_scores *scores, double sharpness);

#endif
