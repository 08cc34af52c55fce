// bootstrap.c - confidence intervals of metrics: what they would be on other examples of the same kind.
#include "engine/metrics/metrics.h"

#include "base/arena.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The examples of one round, drawn with replacement.
typedef struct sample {
    float *logits, *targets, *losses;
    int32_t *labels;
} sample;

static ft_status make_room(const ft_scores *s, sample *room) {
    size_t n = (size_t)s->n, all = n * (size_t)s->outputs;
    *room = (sample){.logits = ft_calloc(all, sizeof(float), "a bootstrap sample")};
    if (room->logits == NULL) return FT_NO_MEMORY;
    if (s->targets != NULL && (room->targets = ft_calloc(all, sizeof(float), "a bootstrap sample")) == NULL) return FT_NO_MEMORY;
    if (s->losses != NULL && (room->losses = ft_calloc(n, sizeof(float), "a bootstrap sample")) == NULL) return FT_NO_MEMORY;
    if (s->labels != NULL && (room->labels = ft_calloc(n, sizeof(int32_t), "a bootstrap sample")) == NULL) return FT_NO_MEMORY;
    return FT_OK;
}

static void draw(const ft_scores *s, uint64_t *state, sample *room) {
    size_t row = (size_t)s->outputs * sizeof(float);
    for (int64_t i = 0; i < s->n; i++) {
        *state += 0x9E3779B97F4A7C15u;
        int64_t from = (int64_t)(ft_splitmix64(*state) % (uint64_t)s->n);
        memcpy(room->logits + i * s->outputs, s->logits + from * s->outputs, row);
        if (s->targets != NULL) memcpy(room->targets + i * s->outputs, s->targets + from * s->outputs, row);
        if (s->losses != NULL) room->losses[i] = s->losses[from];
        if (s->labels != NULL) room->labels[i] = s->labels[from];
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
    sample room = {0};
    uint64_t state = ft_splitmix64(seed);
    double *values = ft_calloc((size_t)FT_METRIC_COUNT * (size_t)rounds, sizeof *values, "bootstrap rounds");
    ft_status status = values != NULL ? make_room(s, &room) : FT_NO_MEMORY;
    for (int r = 0; r < rounds && status == FT_OK; r++) {
        draw(s, &state, &room);
        ft_scores drawn = *s;
        drawn.logits = room.logits, drawn.targets = room.targets, drawn.losses = room.losses, drawn.labels = room.labels;
        ft_metrics m;
        status = ft_metrics_compute(&drawn, &m);
        for (int k = 0; status == FT_OK && k < FT_METRIC_COUNT; k++) values[k * rounds + r] = m.value[k];
        ft_metrics_free(&m);
    }
    for (int k = 0; status == FT_OK && k < FT_METRIC_COUNT; k++) interval(values + k * rounds, rounds, level, &low[k], &high[k]);
    free(values);
    free(room.logits);
    free(room.targets);
    free(room.losses);
    free(room.labels);
    return status;
}
