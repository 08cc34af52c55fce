#include "hpo/search/curves/nearby.h"

#include <math.h>
#include <string.h>

static const double PRIOR = 0.1; // weight of the mean of all trials
static const double FAR = 30;    // squared distance, in widths, behind which nothing is left of a kernel
enum { LATEST = 120, TURNS = 2 };

static double apart(const ft_nearby *n, int axis, const double *a, const double *b) {
    const double by = n->choice[axis] ? a[axis] != b[axis] : a[axis] - b[axis];
    return isnan(a[axis]) || isnan(b[axis]) ? 0 : by * by;
}

static double of_distance(double squared) { return squared > FAR ? 0 : exp(-0.5 * squared); }

static double kernel(const ft_nearby *n, const double *a, const double *b) {
    double sum = 0;
    for (int p = 0; p < n->axes; p++)
        sum += apart(n, p, a, b) / (n->width[p] * n->width[p]);
    return of_distance(sum);
}

double ft_nearby_ask(const ft_nearby *n, const double *at, int64_t without, double *mass) {
    double sum = PRIOR * n->mean;
    *mass = 0;
    for (int64_t i = 0; i < n->count; i++) {
        if (i == without || n->trust[i] <= 0) continue;
        const double weight = n->trust[i] * kernel(n, n->at + i * n->axes, at);
        sum += weight * n->value[i];
        *mass += weight;
    }
    return sum / (*mass + PRIOR);
}

void ft_nearby_weigh(ft_nearby *n, int64_t first) {
    for (int64_t i = first; i < n->count; i++)
        for (int64_t k = 0; k <= i; k++) {
            const double weight = i == k ? 0 : kernel(n, n->at + i * n->axes, n->at + k * n->axes);
            n->kernel[i * n->room + k] = n->kernel[k * n->room + i] = weight;
        }
}

double ft_nearby_expect(const ft_nearby *n, int64_t trial) {
    const double *row = n->kernel + trial * n->room;
    double sum = PRIOR * n->mean, mass = 0;
    for (int64_t i = 0; i < n->count; i++) {
        const double weight = n->trust[i] * row[i];
        sum += weight * n->value[i];
        mass += weight;
    }
    return sum / (mass + PRIOR);
}

// ---- the widths -----------------------------------------------------------------------------------------------------

// Squared distances of the latest trials to all, by the widths of all axes but one: only that one's changes.
typedef struct distances {
    int64_t first;        // of the latest
    double *others, *own; // [latest][count]; of the one axis, in parts of the range
} distances;

static void fill(const ft_nearby *n, int axis, distances *d) {
    for (int64_t i = d->first; i < n->count; i++)
        for (int64_t k = 0; k < n->count; k++) {
            const double *a = n->at + i * n->axes, *b = n->at + k * n->axes;
            double sum = 0;
            for (int p = 0; p < n->axes; p++)
                if (p != axis) sum += apart(n, p, a, b) / (n->width[p] * n->width[p]);
            d->others[(i - d->first) * n->count + k] = sum;
            d->own[(i - d->first) * n->count + k] = apart(n, axis, a, b);
        }
}

static double error_of(const ft_nearby *n, const distances *d, double width) {
    const double scale = 1 / (width * width);
    double sum = 0, weights = 0;
    for (int64_t i = d->first; i < n->count; i++) {
        const double *others = d->others + (i - d->first) * n->count, *own = d->own + (i - d->first) * n->count;
        double expected = PRIOR * n->mean, mass = PRIOR;
        if (n->trust[i] <= 0) continue;
        for (int64_t k = 0; k < n->count; k++) {
            if (k == i || n->trust[k] <= 0) continue;
            const double weight = n->trust[k] * of_distance(others[k] + scale * own[k]);
            expected += weight * n->value[k];
            mass += weight;
        }
        const double error = n->value[i] - expected / mass;
        sum += n->trust[i] * error * error;
        weights += n->trust[i];
    }
    return weights > 0 ? sum / weights : 0;
}

// One axis after the other.
ft_status ft_nearby_fit(ft_nearby *n, ft_arena *arena) {
    static const double widths[] = {0.05, 0.1, 0.2, 0.4, 1, 100}; // the last: it does not matter
    distances d = {.first = n->count > LATEST ? n->count - LATEST : 0};
    const size_t pairs = (size_t)((n->count - d.first) * n->count) + 1;
    d.others = ft_arena_alloc(arena, pairs * sizeof *d.others);
    d.own = ft_arena_alloc(arena, pairs * sizeof *d.own);
    if (d.others == NULL || d.own == NULL) return FT_NO_MEMORY;
    for (int turn = 0; turn < TURNS; turn++)
        for (int p = 0; p < n->axes; p++) {
            double least = INFINITY;
            fill(n, p, &d);
            for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
                const double error = error_of(n, &d, widths[k]);
                if (error < least) least = error, n->width[p] = widths[k];
            }
        }
    return FT_OK;
}
