#include "engine/metrics/answers.h"
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
        const float *x = ft_scores_row(s, i);
        double most = sharpness * (double)x[ft_argmax(x, s->outputs)], all = 0;
        for (int c = 0; c < s->outputs; c++) all += exp(sharpness * (double)x[c] - most);
        sum += log(all) + most - sharpness * (double)x[s->labels[ft_scores_at(s, i)]];
    }
    return sum / (double)s->n;
}

double ft_sigmoid_cross_entropy(const ft_scores *s, double sharpness) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const float *x = ft_scores_row(s, i);
        for (int c = 0; c < s->outputs; c++) {
            double z = sharpness * (double)x[c];
            sum += log1p(exp(-fabs(z))) + fmax(z, 0) - z * (double)s->scoring->positive(s, i, c);
        }
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

// Scores of one output, the positive ones marked: what a cut at each of them is worth, the highest first.
static double best_of_marked(uint64_t *marked, int64_t n, ft_metric metric) {
    ft_sort_marked(marked, n);
    double positives = 0, hit = 0, best = -INFINITY, threshold = 0.5;
    for (int64_t i = 0; i < n; i++) positives += ft_is_marked(marked[i]);
    if (positives == 0) return threshold;
    for (int64_t first = n; first >= 0; first--) { // the entries from `first` on are taken for positive
        if (first < n) hit += ft_is_marked(marked[first]);
        double below = first > 0 ? ft_marked_score(marked[first - 1]) : 0, above = first < n ? ft_marked_score(marked[first]) : 1;
        bool cut = first == 0 || first == n || below < above;
        if (!cut || (first == n && below >= 1)) continue; // nothing lies above a probability of 1
        double value = worth(metric, (double)n, positives, (double)(n - first), hit);
        if (value <= best) continue;
        best = value;
        threshold = 0.5 * (below + above);
        if (threshold <= below && first > 0) threshold = above; // neighbours in double
    }
    return threshold;
}

typedef struct marking {
    const ft_scores *scores;
    int output;
    uint64_t *marked;
} marking;

static void mark(void *context, int64_t example, const double *p) {
    marking *m = context;
    m->marked[example] = ft_mark_score(*p, m->scores->scoring->positive(m->scores, example, m->output));
}

// By any metric, of one output: 8 bytes an example.
static ft_status best_threshold(const ft_scores *s, int output, ft_metric metric, double *room, double *threshold) {
    marking m = {.scores = s, .output = output, .marked = ft_calloc((size_t)s->n, sizeof *m.marked, "ranked scores")};
    if (m.marked == NULL) return FT_NO_MEMORY;
    ft_status status = ft_scores_each(s, output, 1, room, mark, &m);
    if (status == FT_OK) *threshold = best_of_marked(m.marked, s->n, metric);
    free(m.marked);
    return status;
}

// By F1, which is greatest right below a positive score: every negative one that is taken too makes it smaller.
static void best_f1(void *context, int output, const ft_ranking *r) {
    double *threshold = (double *)context + output, best = -INFINITY;
    int64_t above = r->between[r->positives]; // negatives
    *threshold = 0.5;
    for (int64_t last = r->positives, first; last > 0; last = first) {
        for (first = last - 1; first > 0 && r->score[first - 1] == r->score[first];) first--;
        above += r->equal[first];
        const int64_t hit = r->positives - first, said = hit + above;
        const double value = worth(FT_METRIC_F1_BINARY, (double)r->n, (double)r->positives, (double)said, (double)hit);
        above += r->between[first];
        if (value <= best) continue;
        best = value;
        const double here = ft_marked_score(r->score[first]),
                     below = r->between[first] > 0 ? r->nearest[first] : first > 0 ? ft_marked_score(r->score[first - 1]) : 0;
        *threshold = 0.5 * (below + here);
        if (*threshold <= below && said < r->n) *threshold = here; // neighbours in double
    }
}

static void count_positives(const ft_scores *s, int64_t *count) {
    for (int64_t i = 0; i < s->n; i++)
        for (int c = 0; c < s->outputs; c++) count[c] += s->scoring->positive(s, i, c);
}

ft_status ft_fit_thresholds(const ft_scores *s, ft_metric metric, double *threshold) {
    const ft_scoring *scoring = s->scoring;
    const int count = ft_threshold_count(scoring, s->outputs);
    if (count == 0) return FT_OK;
    double best;
    if (s->answers != NULL) return ft_answers_best_threshold(s, metric == FT_METRIC_EXACT_MATCH || metric == FT_METRIC_BEST_EXACT, &best, threshold);
    double *p = ft_calloc((size_t)s->outputs, sizeof *p, "probabilities");
    int64_t *positives = ft_calloc((size_t)s->outputs, sizeof *positives, "ranked scores");
    ft_status status = p && positives ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && !scoring->threshold_by_metric && scoring->first_threshold == 0) {
        count_positives(s, positives);
        status = ft_rank_outputs(s, 0, positives, FT_RANKED_AT_ONCE, best_f1, threshold);
    } else {
        for (int k = 0; k < count && status == FT_OK; k++)
            status = best_threshold(s, scoring->first_threshold + k, scoring->threshold_by_metric ? metric : FT_METRIC_F1_BINARY, p,
                                    &threshold[k]);
    }
    free(p);
    free(positives);
    return status;
}
