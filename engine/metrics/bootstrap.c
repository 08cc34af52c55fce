// bootstrap.c - confidence intervals of metrics: what they would be on other examples of the same kind.
#include "engine/metrics/metrics.h"

#include "base/arena.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The examples of one round, drawn with replacement: which rows they are, and no copies.
static void draw(int64_t n, uint64_t *state, int32_t *row) {
    for (int64_t i = 0; i < n; i++) {
        *state += 0x9E3779B97F4A7C15u;
        row[i] = (int32_t)(ft_splitmix64(*state) % (uint64_t)n);
    }
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, int count, double q) {
    double at = q * (count - 1);
    int below = (int)floor(at), above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static void interval(double *values, int rounds, double level, double *low, double *high) {
    int count = 0;
    for (int r = 0; r < rounds; r++)
        if (!isnan(values[r])) values[count++] = values[r];
    *low = *high = NAN;
    if (count == 0) return;
    qsort(values, (size_t)count, sizeof *values, ascending);
    *low = quantile(values, count, 0.5 * (1 - level));
    *high = quantile(values, count, 0.5 * (1 + level));
}

ft_status ft_metrics_bootstrap(const ft_scores *s, int rounds, uint64_t seed, double level, double *low, double *high) {
    uint64_t state = ft_splitmix64(seed);
    double *values = ft_calloc((size_t)FT_METRIC_COUNT * (size_t)rounds, sizeof *values, "bootstrap rounds");
    int32_t *rows = ft_calloc((size_t)s->n, sizeof *rows, "a bootstrap sample");
    ft_status status = values && rows ? FT_OK : FT_NO_MEMORY;
    ft_scores drawn = *s;
    drawn.drawn = rows;
    drawn.confusion = false;
    for (int r = 0; r < rounds && status == FT_OK; r++) {
        draw(s->n, &state, rows);
        ft_metrics m;
        status = ft_metrics_compute(&drawn, &m);
        for (int k = 0; status == FT_OK && k < FT_METRIC_COUNT; k++) values[k * rounds + r] = m.value[k];
        ft_metrics_free(&m);
    }
    for (int k = 0; status == FT_OK && k < FT_METRIC_COUNT; k++) interval(values + k * rounds, rounds, level, &low[k], &high[k]);
    free(values);
    free(rows);
    return status;
}
