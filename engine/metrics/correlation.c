#include "engine/metrics/correlation.h"

#include <math.h>
#include <stdlib.h>

static double at(ft_series s, int64_t i) { return s.value != NULL ? (double)s.value[i] : 0.5 * (double)s.twice_rank[i]; }

// A heap of indices, by value: in place.
static void sink(const float *values, uint32_t *heap, int64_t at, int64_t count) {
    const uint32_t moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && values[heap[child + 1]] > values[heap[child]]) child++;
        if (values[heap[child]] <= values[moved]) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void sort_indices(const float *values, uint32_t *index, int64_t n) {
    for (int64_t from = n / 2; from-- > 0;) sink(values, index, from, n);
    for (int64_t last = n - 1; last > 0; last--) {
        const uint32_t largest = index[0];
        index[0] = index[last];
        index[last] = largest;
        sink(values, index, 0, last);
    }
}

void ft_average_ranks(const float *values, int64_t n, uint32_t *scratch, uint32_t *twice_rank) {
    for (int64_t i = 0; i < n; i++) scratch[i] = (uint32_t)i;
    sort_indices(values, scratch, n);
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && values[scratch[end]] == values[scratch[first]];) end++;
        for (int64_t i = first; i < end; i++) twice_rank[scratch[i]] = (uint32_t)(first + 1 + end); // the mean of first + 1 .. end
    }
}

double ft_pearson(ft_series x, ft_series y, int64_t n) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    bool constant_x = true, constant_y = true; // a mean is rounded, so the sums of squares cannot tell
    for (int64_t i = 0; i < n; i++) {
        mean_x += at(x, i);
        mean_y += at(y, i);
        constant_x = constant_x && at(x, i) == at(x, 0);
        constant_y = constant_y && at(y, i) == at(y, 0);
    }
    if (n < 2 || constant_x || constant_y) return NAN;
    mean_x /= (double)n;
    mean_y /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        double dx = at(x, i) - mean_x, dy = at(y, i) - mean_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    double r = xy / (sqrt(xx) * sqrt(yy));
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

size_t ft_correlation_host_bytes(int64_t n) { return (size_t)n * (2 * sizeof(float) + 3 * sizeof(uint32_t)); }
