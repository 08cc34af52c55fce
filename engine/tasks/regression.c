// regression.c - one number a text, or several.
#include "engine/data/labels/targets.h"
#include "engine/metrics/correlation.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    *labels = (ft_labels){.kind = FT_LABELS_NUMBERS, .separator = t->separator};
    ft_status status = ft_targets_labels(t->train, t->validation, arena, labels);
    if (status == FT_INVALID) ft_error_where_default("%s", t->train_path);
    return status;
}

static float loss(const float *logits, int outputs, int32_t label, const float *target) {
    double sum = 0;
    for (int k = 0; k < outputs; k++) {
        double x = logits[k], t = target[k];
        sum += (x - t) * (x - t);
    }
    return (float)(sum / outputs);
}

// ---- figures: of several targets the mean over them -----------------------------------------------------------------

typedef struct column {
    float *x, *y; // said and true
    uint32_t *x_rank, *y_rank, *scratch;
} column;

static void one_target(const column *c, int64_t n, double share, ft_metrics *m) {
    double squares = 0, absolute = 0, mean = 0, spread = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)c->y[i] / (double)n;
    bool constant = true;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)c->x[i] - (double)c->y[i], from_mean = (double)c->y[i] - mean;
        squares += d * d;
        absolute += fabs(d);
        spread += from_mean * from_mean;
        constant = constant && c->y[i] == c->y[0];
    }
    if (constant) spread = 0;
    ft_average_ranks(c->x, n, c->scratch, c->x_rank);
    ft_average_ranks(c->y, n, c->scratch, c->y_rank);
    const ft_series x = {.value = c->x}, y = {.value = c->y}, x_ranks = {.twice_rank = c->x_rank}, y_ranks = {.twice_rank = c->y_rank};
    m->value[FT_METRIC_PEARSON] += share * ft_pearson(x, y, n);
    m->value[FT_METRIC_SPEARMAN] += share * ft_pearson(x_ranks, y_ranks, n);
    m->value[FT_METRIC_MSE] += share * squares / (double)n;
    m->value[FT_METRIC_RMSE] += share * sqrt(squares / (double)n);
    m->value[FT_METRIC_MAE] += share * absolute / (double)n;
    // A constant target: 1 when it is met, 0 when not. One example has no R2.
    m->value[FT_METRIC_R2] += share * (n < 2 ? NAN : spread > 0 ? 1 - squares / spread : squares == 0);
}

static ft_status take_column(const ft_scores *s, int k, column *c) {
    for (int64_t i = 0; i < s->n; i++) {
        const float *logits = ft_scores_row(s, i);
        if (k == 0) FT_TRY(ft_scores_finite_row(s, i, &logits));
        c->x[i] = logits[k];
        c->y[i] = s->targets[ft_scores_at(s, i) * s->outputs + k];
    }
    return FT_OK;
}

// One target after the other, each with its two columns and their ranks (ft_correlation_host_bytes).
static ft_status measure(const ft_scores *s, ft_metrics *m) {
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        if ((s->scoring->metrics & FT_METRIC_BIT(k)) != 0) m->value[k] = 0;
    size_t n = (size_t)s->n;
    float *values = ft_calloc(2 * n, sizeof *values, "metrics");
    uint32_t *ranks = ft_calloc(3 * n, sizeof *ranks, "metrics");
    ft_status status = values && ranks ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        column c = {.x = values, .y = values + n, .x_rank = ranks, .y_rank = ranks + n, .scratch = ranks + 2 * n};
        for (int k = 0; k < s->outputs && status == FT_OK; k++) {
            status = take_column(s, k, &c);
            if (status == FT_OK) one_target(&c, s->n, 1.0 / s->outputs, m);
        }
    }
    free(values);
    free(ranks);
    return status;
}

static void put_truth(const ft_answer *a, int32_t label, const float *target, json_t *line, bool *failed) {
    json_t *object = json_object();
    for (int k = 0; k < a->outputs; k++) ft_json_put(object, a->names[k], ft_json_rounded((double)target[k], 9), failed);
    ft_json_put(line, "targets", object, failed);
}

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

static const char *const no_heads[] = {NULL};

const ft_task_spec ft_task_regression = {
    .id = FT_TASK_REGRESSION,
    .labels = FT_LABELS_NUMBERS,
    .outputs = outputs,
    .loss = loss,
    .scoring = {.kind = "regression",
                .metrics = BIT(LOSS) | BIT(PEARSON) | BIT(SPEARMAN) | BIT(MSE) | BIT(RMSE) | BIT(MAE) | BIT(R2),
                .known = "loss, pearson, spearman, mse, rmse, mae, r2",
                .measure = measure},
    .pool = ft_pool_numbers,
    .shown = {FT_METRIC_LOSS, FT_METRIC_PEARSON, FT_METRIC_SPEARMAN, FT_METRIC_MAE},
    .decided_heads = no_heads,
    .put_truth = put_truth};
