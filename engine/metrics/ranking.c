#include "engine/metrics/ranking.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const ft_ranked *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

// One past the last entry with the score of entry `first`.
static int64_t end_of_tie(const ft_ranked *ranked, int64_t first, int64_t n) {
    int64_t end = first + 1;
    while (end < n && ranked[end].score == ranked[first].score) end++;
    return end;
}

double ft_auroc(ft_ranked *ranked, int64_t n) {
    qsort(ranked, (size_t)n, sizeof *ranked, ascending);
    double positives = 0, rank_sum = 0;
    for (int64_t first = 0, end; first < n; first = end) {
        end = end_of_tie(ranked, first, n);
        double rank = 0.5 * (double)(first + 1 + end); // mean of first + 1 .. end
        for (int64_t i = first; i < end; i++) {
            positives += ranked[i].weight;
            rank_sum += ranked[i].weight * rank;
        }
    }
    double negatives = (double)n - positives;
    if (positives == 0 || negatives == 0) return NAN;
    return (rank_sum - 0.5 * positives * (positives + 1)) / (positives * negatives);
}

double ft_average_precision(ft_ranked *ranked, int64_t n) {
    qsort(ranked, (size_t)n, sizeof *ranked, ascending);
    double positives = 0, found = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) positives += ranked[i].weight;
    if (positives == 0) return 0;
    for (int64_t last = n; last > 0;) { // from the highest score down
        int64_t first = last - 1;
        while (first > 0 && ranked[first - 1].score == ranked[first].score) first--;
        double here = 0;
        for (int64_t i = first; i < last; i++) here += ranked[i].weight;
        found += here;
        sum += here / positives * (found / (double)(n - first));
        last = first;
    }
    return sum;
}

void ft_average_ranks(const double *values, int64_t n, ft_ranked *scratch, double *ranks) {
    for (int64_t i = 0; i < n; i++) scratch[i] = (ft_ranked){values[i], (double)i};
    qsort(scratch, (size_t)n, sizeof *scratch, ascending);
    for (int64_t first = 0, end; first < n; first = end) {
        end = end_of_tie(scratch, first, n);
        for (int64_t i = first; i < end; i++) ranks[(int64_t)scratch[i].weight] = 0.5 * (double)(first + 1 + end);
    }
}

double ft_pearson(const double *x, const double *y, int64_t n) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    bool constant_x = true, constant_y = true; // a mean is rounded, so the sums of squares cannot tell
    for (int64_t i = 0; i < n; i++) {
        mean_x += x[i];
        mean_y += y[i];
        constant_x = constant_x && x[i] == x[0];
        constant_y = constant_y && y[i] == y[0];
    }
    if (n < 2 || constant_x || constant_y) return NAN;
    mean_x /= (double)n;
    mean_y /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    double r = xy / (sqrt(xx) * sqrt(yy));
    return r > 1 ? 1 : r < -1 ? -1 : r;
}
