#include "benchmarks/search/nearby_trials.h"

#include "hpo/search/sampler.h"

#include <math.h>
#include <string.h>

static const double PRIOR = 0.1; // weight of the mean of all trials
static const double CURIOUS = 3; // deviations that a place counts for of which nothing is known
static const double NEAR = 0.1;  // deviation of a point around a good trial, in parts of the range
enum { ANYWHERE = 24, AROUND = 16, GOOD = 5, START = 6, LATEST = 120 };

void nearby_place(const nearby_trials *n, const double *values, double *at) {
    for (int p = 0; p < n->parameters; p++) {
        const ft_distribution *d = n->distribution[p];
        at[p] = d->kind == FT_CATEGORICAL ? values[p]
                : d->high <= d->low       ? 0
                : d->log                  ? log(values[p] / d->low) / log(d->high / d->low)
                                          : (values[p] - d->low) / (d->high - d->low);
    }
}

static double kernel(const nearby_trials *n, const double *width, const double *a, const double *b) {
    double apart = 0;
    for (int p = 0; p < n->parameters; p++) {
        const double by = n->distribution[p]->kind == FT_CATEGORICAL ? a[p] != b[p] : a[p] - b[p];
        apart += by * by / (width[p] * width[p]);
    }
    return apart > 30 ? 0 : exp(-0.5 * apart);
}

static double ask(const nearby_trials *n, const double *width, const double *at, int64_t without, double *mass) {
    double sum = PRIOR * n->mean;
    *mass = 0;
    for (int64_t i = 0; i < n->count; i++) {
        if (i == without || n->trust[i] <= 0) continue;
        const double weight = n->trust[i] * kernel(n, width, n->at + i * n->parameters, at);
        sum += weight * n->value[i];
        *mass += weight;
    }
    return sum / (*mass + PRIOR);
}

void nearby_weigh(nearby_trials *n, int64_t first) {
    for (int64_t i = first; i < n->count; i++)
        for (int64_t k = 0; k <= i; k++) {
            const double weight = kernel(n, n->width, n->at + i * n->parameters, n->at + k * n->parameters);
            n->kernel[i * n->room + k] = n->kernel[k * n->room + i] = i == k ? 0 : weight;
        }
}

double nearby_expect(const nearby_trials *n, int64_t trial) {
    const double *row = n->kernel + trial * n->room;
    double sum = PRIOR * n->mean, mass = 0;
    for (int64_t i = 0; i < n->count; i++) {
        const double weight = n->trust[i] * row[i];
        sum += weight * n->value[i];
        mass += weight;
    }
    return sum / (mass + PRIOR);
}

double nearby_ask(const nearby_trials *n, const double *at, int64_t without, double *mass) {
    return ask(n, n->width, at, without, mass);
}

static double error_of(const nearby_trials *n, const double *width) {
    double sum = 0, weights = 0, mass;
    for (int64_t i = n->count > LATEST ? n->count - LATEST : 0; i < n->count; i++) {
        const double error = n->value[i] - ask(n, width, n->at + i * n->parameters, i, &mass);
        sum += n->trust[i] * error * error;
        weights += n->trust[i];
    }
    return weights > 0 ? sum / weights : 0;
}

// One parameter's width after the other, twice.
void nearby_fit(nearby_trials *n) {
    static const double widths[] = {0.05, 0.1, 0.2, 0.4, 1, 100}; // the last: it does not matter
    n->fitted = n->count;
    for (int turn = 0; turn < 2; turn++)
        for (int p = 0; p < n->parameters; p++) {
            double least = INFINITY, chosen = n->width[p];
            for (int k = 0; k < 6; k++) {
                n->width[p] = widths[k];
                const double error = error_of(n, n->width);
                if (error < least) least = error, chosen = widths[k];
            }
            n->width[p] = chosen;
        }
    nearby_weigh(n, 0);
}

static double normal(ft_random_stream *s) {
    const double a = ft_random_double(s), b = ft_random_double(s);
    return sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b);
}

static int64_t best_of(const nearby_trials *n, const int64_t *taken, int count) {
    int64_t best = -1;
    for (int64_t i = 0; i < n->count; i++) {
        bool free = true;
        for (int k = 0; k < count; k++)
            free = free && taken[k] != i;
        if (free && (best < 0 || n->value[i] > n->value[best])) best = i;
    }
    return best;
}

// at [parameters] around `center`, or anywhere where it is NULL; values to go with it.
static void draw(const nearby_trials *n, const double *center, ft_random_stream *s, double *values, double *at) {
    for (int p = 0; p < n->parameters; p++) {
        const ft_distribution *d = n->distribution[p];
        double u = ft_random_double(s);
        if (center != NULL && d->kind == FT_CATEGORICAL && ft_random_double(s) < 0.8) {
            values[p] = center[p];
            continue;
        }
        if (center != NULL && d->kind != FT_CATEGORICAL) {
            u = fabs(center[p] + NEAR * normal(s));
            u = u > 1 ? 2 - u : u;
            u = u < 0 || u >= 1 ? 0.5 : u;
        }
        values[p] = ft_value_of_uniform(d, u);
    }
    nearby_place(n, values, at);
}

double nearby_propose(const nearby_trials *n, ft_random_stream *s, double *room, double *values, double *at) {
    int64_t good[GOOD];
    int known = 0;
    double most = -INFINITY, expected = n->mean, *v = room, *a = room + n->parameters;
    const size_t bytes = (size_t)n->parameters * sizeof *v;
    for (; known < GOOD && known < n->count; known++)
        good[known] = best_of(n, good, known);
    for (int i = 0; i < (n->count < START ? 1 : ANYWHERE + AROUND); i++) {
        double mass = 0;
        const bool around = i >= ANYWHERE && known > 0;
        draw(n, around ? n->at + good[i % known] * n->parameters : NULL, s, v, a);
        const double mean = nearby_ask(n, a, -1, &mass), promise = mean + CURIOUS * n->spread / sqrt(1 + mass);
        if (!(promise > most)) continue;
        most = promise;
        expected = mean;
        memcpy(values, v, bytes);
        memcpy(at, a, bytes);
    }
    return expected;
}
