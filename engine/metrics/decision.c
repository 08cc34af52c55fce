#include "engine/metrics/decision.h"

#include "base/arena.h"
#include "engine/metrics/ranking.h"

#include <math.h>
#include <stdlib.h>

int ft_threshold_count(const ft_scoring *scoring, int outputs) { return scoring->thresholds != NULL ? scoring->thresholds(outputs) : 0; }

int ft_decide_class(const double *probability, int outputs, const double *threshold) {
    if (threshold != NULL && outputs == 2) return probability[1] >= threshold[0];
    int best = 0;
    for (int c = 1; c < outputs; c++)
        if (probability[c] > probability[best]) best = c;
    return best;
}

// ---- temperature --------------------------------------------------------------------------------------------------

double ft_softmax_cross_entropy(const ft_scores *s, double sharpness) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const float *x = s->logits + i * s->outputs;
        double most = sharpness * (double)x[ft_argmax(x, s->outputs)], all = 0;
        for (int c = 0; c < s->outputs; c++) all += exp(sharpness * (double)x[c] - most);
        sum += log(all) + most - sharpness * (double)x[s->labels[i]];
    }
    return sum / (double)s->n;
}

double ft_sigmoid_cross_entropy(const ft_scores *s, double sharpness) {
    double sum = 0;
    for (int64_t i = 0; i < s->n * s->outputs; i++) {
        double z = sharpness * (double)s->logits[i];
        sum += log1p(exp(-fabs(z))) + fmax(z, 0) - z * (double)s->targets[i];
    }
    return sum / (double)s->n;
}

double ft_fit_temperature(const ft_scores *s) {
    // Golden section over the logarithm of the sharpness: what is convex in it has one valley there.
    const double golden = 0.6180339887498949;
    double low = log(1.0 / 20), high = log(20.0), a = high - golden * (high - low), b = low + golden * (high - low);
    double at_a = s->scoring->cross_entropy(s, exp(a)), at_b = s->scoring->cross_entropy(s, exp(b));
    while (high - low > 1e-6) {
        if (at_a <= at_b) {
            high = b, b = a, at_b = at_a;
            a = high - golden * (high - low), at_a = s->scoring->cross_entropy(s, exp(a));
        } else {
            low = a, a = b, at_a = at_b;
            b = low + golden * (high - low), at_b = s->scoring->cross_entropy(s, exp(b));
        }
    }
    return exp(-(low + high) / 2);
}

// ---- thresholds ---------------------------------------------------------------------------------------------------

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// How good it is to take `said` of n for positive, `hit` of them rightly, of `positives` there are.
static double worth(ft_metric metric, double n, double positives, double said, double hit) {
    double negatives = n - positives, right = hit + (negatives - (said - hit)), f1 = ratio(2 * hit, said + positives);
    double rejected = negatives - (said - hit); // true negatives
    switch (metric) {
    case FT_METRIC_ACCURACY: return right / n;
    case FT_METRIC_BALANCED_ACCURACY: return 0.5 * (ratio(hit, positives) + ratio(rejected, negatives));
    case FT_METRIC_F1_MACRO: return 0.5 * (f1 + ratio(2 * rejected, n - said + negatives));
    case FT_METRIC_MATTHEWS: {
        double spread = said * positives * (n - said) * negatives;
        return spread > 0 ? (hit * rejected - (said - hit) * (positives - hit)) / sqrt(spread) : 0;
    }
    case FT_METRIC_COHEN_KAPPA: {
        double by_chance = n * n - said * positives - (n - said) * negatives;
        return by_chance > 0 ? 1 - (n - right) * n / by_chance : 0;
    }
    default: return f1;
    }
}

static int ascending(const void *a, const void *b) {
    const ft_ranked *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

static double best_threshold(ft_ranked *ranked, int64_t n, ft_metric metric) {
    qsort(ranked, (size_t)n, sizeof *ranked, ascending);
    double positives = 0, hit = 0, best = -INFINITY, threshold = 0.5;
    for (int64_t i = 0; i < n; i++) positives += ranked[i].weight;
    if (positives == 0) return threshold;
    for (int64_t first = n; first >= 0; first--) { // the entries from `first` on are taken for positive
        if (first < n) hit += ranked[first].weight;
        bool cut = first == 0 || first == n || ranked[first - 1].score < ranked[first].score;
        double below = first > 0 ? ranked[first - 1].score : 0, above = first < n ? ranked[first].score : 1;
        if (!cut || (first == n && below >= 1)) continue; // nothing lies above a probability of 1
        double value = worth(metric, (double)n, positives, (double)(n - first), hit);
        if (value <= best) continue;
        best = value;
        threshold = 0.5 * (below + above);
        if (threshold <= below && first > 0) threshold = above; // neighbours in double
    }
    return threshold;
}

ft_status ft_fit_thresholds(const ft_scores *s, ft_metric metric, double *threshold) {
    const ft_scoring *scoring = s->scoring;
    const int count = ft_threshold_count(scoring, s->outputs);
    ft_ranked *ranked = ft_calloc((size_t)s->n, sizeof *ranked, "ranked scores");
    double *p = ft_calloc((size_t)s->outputs, sizeof *p, "probabilities");
    ft_status status = ranked && p ? FT_OK : FT_NO_MEMORY;
    for (int k = 0; k < count && status == FT_OK; k++) {
        const int output = scoring->first_threshold + k;
        for (int64_t i = 0; i < s->n; i++) {
            scoring->probabilities(s->logits + i * s->outputs, s->outputs, p);
            ranked[i] = (ft_ranked){p[output], scoring->positive(s, i, output)};
        }
        threshold[k] = best_threshold(ranked, s->n, scoring->threshold_by_metric ? metric : FT_METRIC_F1_BINARY);
    }
    free(ranked);
    free(p);
    return status;
}
