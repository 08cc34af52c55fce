// metrics.h - how good predictions are, as scikit-learn defines it (zero_division 0); correlations as SciPy does.
//
// What is judged, and by which figures, is a task's to say (ft_scoring, engine/tasks); here is what they share. A value that does
// not exist (one class only, a constant) is NaN where scikit-learn's is NaN or an error.
#ifndef FT_METRICS_H
#define FT_METRICS_H

#include "base/status.h"
#include "engine/config/config.h"
#include "engine/data/labels/labels.h"
#include "engine/metrics/logits.h"

#include <stdint.h>

struct ft_scoring;

// What is judged: n examples of a task with so many outputs. Rows are looked at one after the other, in passes, and nothing is kept of
// the size n x outputs, so that logits may lie in a file.
typedef struct ft_scores {
    const struct ft_scoring *scoring;
    int64_t n;
    int outputs;
    const float *logits;       // [rows, outputs] row-major; of numbers the predictions. NULL: in `kept`
    ft_logits *kept;           // its window moves as it is read
    const int32_t *labels;     // one class a row: [rows] in [0, outputs)
    const int64_t *first;      // [n + 1] where examples are sequences of rows: the first of each; NULL: an example is a row
    const int32_t *member;     // where rows of examples are no sequence: [rows] which row each of `first` is; NULL: it is one
    const char *const *names;  // [outputs], for tasks whose figures depend on them; else may be NULL
    const float *targets;      // else: [rows, outputs], of several classes 0 and 1
    const ft_label_sets *sets; // of several classes in place of targets
    const float *losses;       // [rows]; NULL: there are none
    const struct ft_answer_verdict *answers; // [rows] of questions, in place of logits and labels (answers.h)
    const double *threshold;   // [ft_threshold_count] (decision.h); NULL: 1/2, the largest
    const int32_t *drawn;      // [n] which row each example is; NULL: they are the rows
    bool confusion;            // is the matrix of one class an example wanted?
} ft_scores;

typedef struct ft_metrics {
    int64_t examples;
    int classes;                     // outputs, or what there is in their place (names)
    double value[FT_METRIC_COUNT];   // NaN: does not exist
    const char **names;              // [classes] where those are not the outputs, in one block; else NULL
    // Where outputs are classes; else NULL.
    double *precision, *recall, *f1; // [classes]
    int64_t *support;                // [classes] examples with this label
    int64_t *predicted;              // [classes] examples predicted as this class
    int64_t *hit;                    // [classes] both
    int64_t *confusion;              // [classes * classes]: row = label, column = prediction; NULL: not wanted, or not one class an example
} ft_metrics;

// A bit a metric, for the sets below.
#define FT_METRIC_BIT(metric) (UINT64_C(1) << (metric))
_Static_assert(FT_METRIC_COUNT <= 64, "a set of metrics is 64 bits");

// How the outputs of a task are judged and decided about.
typedef struct ft_scoring {
    const char *kind;         // "single-label", for messages
    uint64_t metrics, of_two; // those that it has, and those that it has with two outputs alone
    const char *known;        // metrics that it has, in words
    // The figures, but the loss. m has NaN everywhere, and nothing is allocated. FT_FAILED for a label that is none, FT_DIVERGED for a
    // logit that is not finite.
    ft_status (*measure)(const ft_scores *scores, ft_metrics *m);
    // From here on: where outputs are classes; else NULL.
    void (*probabilities)(const float *logits, int outputs, double *probabilities);
    bool independent; // any number of outputs may be an example's, and a probability depends on its own logit alone; else it is one
    bool (*positive)(const ft_scores *scores, int64_t example, int output); // is it a label of the example?
    double (*cross_entropy)(const ft_scores *scores, double sharpness);     // the mean, of `sharpness` times the logits
    int (*thresholds)(int outputs); // how many: one each, of the outputs from first_threshold on
    int first_threshold;
    bool threshold_by_metric; // a threshold is best by the run's metric, as far as that can be; else by its output's F1
} ft_scoring;

// FT_INVALID when `metric` does not exist for these outputs (f1_binary beyond two classes). For use before training.
ft_status ft_metric_check(ft_metric metric, const ft_scoring *scoring, int outputs);

// n and outputs >= 1. FT_DIVERGED when a logit is not finite; the losses are summed as they are.
ft_status ft_metrics_compute(const ft_scores *scores, ft_metrics *metrics);
void ft_metrics_free(ft_metrics *metrics); // {0} is fine

// Bytes of memory that ft_metrics_compute takes, beside the scores: at most, of so many labels of all examples together.
size_t ft_metrics_host_bytes(const ft_scoring *scoring, int64_t n, int outputs, int64_t labels, bool confusion);

static inline double ft_metric_value(const ft_metrics *metrics, ft_metric metric) { return metrics->value[metric]; }

// Confidence intervals by bootstrap (4 bytes an example beside ft_metrics_compute's): `rounds` times n examples are drawn with replacement (splitmix64 of seed), and the
// interval is from the (1 - level) / 2 to the (1 + level) / 2 quantile of what they give (interpolated as numpy.quantile
// does). low, high [FT_METRIC_COUNT]; NaN where a metric does not exist. Rounds in which it does not exist are left out.
ft_status ft_metrics_bootstrap(const ft_scores *scores, int rounds, uint64_t seed, double level, double *low, double *high);

// The class of the largest logit, the lowest on ties.
int ft_argmax(const float *logits, int classes);
// probabilities [classes], computed in double from finite logits.
void ft_softmax(const float *logits, int classes, double *probabilities);
double ft_sigmoid(float logit);
void ft_sigmoids(const float *logits, int outputs, double *probabilities); // of each

// ---- for ft_scoring.measure -------------------------------------------------------------------------------------------

static inline int64_t ft_scores_at(const ft_scores *s, int64_t example) { return s->drawn != NULL ? s->drawn[example] : example; }
// [outputs], until the next call; see ft_logits_row.
static inline const float *ft_scores_row(const ft_scores *s, int64_t example) {
    const int64_t row = ft_scores_at(s, example);
    return s->logits != NULL ? s->logits + row * s->outputs : ft_logits_row(s->kept, row);
}
// The same of a row, and which row entry `at` of those of examples is.
static inline const float *ft_scores_at_row(const ft_scores *s, int64_t row) {
    return s->logits != NULL ? s->logits + row * s->outputs : ft_logits_row(s->kept, row);
}
static inline int64_t ft_scores_member(const ft_scores *s, int64_t at) { return s->member != NULL ? s->member[at] : at; }
static inline ft_status ft_scores_status(const ft_scores *s) { return s->logits != NULL ? FT_OK : ft_logits_status(s->kept); }
// The same; FT_DIVERGED when one of them is not finite.
ft_status ft_scores_finite_row(const ft_scores *scores, int64_t example, const float **logits);
// Is it a label of the example? Of targets or sets.
bool ft_scores_in_set(const ft_scores *scores, int64_t example, int output);
// A pass over the probabilities of outputs [first, first + count) in the order of examples; probability [outputs] is room for a row.
ft_status ft_scores_each(const ft_scores *scores, int first, int count, double *probability,
                         void (*take)(void *context, int64_t example, const double *those), void *context);

// Arrays of m->classes, zeros; confusion: its matrix too.
ft_status ft_metrics_allocate(ft_metrics *m, bool confusion);
// Precision, recall and F1 of every class and their means, from support, predicted and hit. macro is the mean over all classes, or
// over those that occur as a label or as a prediction; weighted counts each class as often as it is a label; micro counts all
// decisions together.
void ft_metrics_average(ft_metrics *m, bool occurring);
// auroc and average_precision: the mean over the outputs from `first` on, each against the rest. each: average_precision needs an
// example of each. m->support is counted.
ft_status ft_metrics_rank(const ft_scores *scores, int first, bool each, ft_metrics *m);

#endif
