// regression.c - one number a text, or several.
#include "engine/data/targets.h"
#include "engine/metrics/ranking.h"
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
    double *x, *y, *x_rank, *y_rank;
    ft_ranked *scratch;
} column;

static void one_target(const column *c, int64_t n, double share, ft_metrics *m) {
    double squares = 0, absolute = 0, mean = 0, spread = 0;
    for (int64_t i = 0; i < n; i++) mean += c->y[i] / (double)n;
    bool constant = true;
    for (int64_t i = 0; i < n; i++) {
        double d = c->x[i] - c->y[i], from_mean = c->y[i] - mean;
        squares += d * d;
        absolute += fabs(d);
        spread += from_mean * from_mean;
        constant = constant && c->y[i] == c->y[0];
    }
    if (constant) spread = 0;
    ft_average_ranks(c->x, n, c->scratch, c->x_rank);
    ft_average_ranks(c->y, n, c->scratch, c->y_rank);
    m->value[FT_METRIC_PEARSON] += share * ft_pearson(c->x, c->y, n);
    m->value[FT_METRIC_SPEARMAN] += share * ft_pearson(c->x_rank, c->y_rank, n);
    m->value[FT_METRIC_MSE] += share * squares / (double)n;
    m->value[FT_METRIC_RMSE] += share * sqrt(squares / (double)n);
    m->value[FT_METRIC_MAE] += share * absolute / (double)n;
    // A constant target: 1 when it is met, 0 when not. One example has no R2.
    m->value[FT_METRIC_R2] += share * (n < 2 ? NAN : spread > 0 ? 1 - squares / spread : squares == 0);
}

static ft_status measure(const ft_scores *s, ft_metrics *m) {
    for (int k = 0; k < FT_METRIC_COUNT; k++)
        if ((s->scoring->metrics & FT_METRIC_BIT(k)) != 0) m->value[k] = 0;
    size_t n = (size_t)s->n;
    double *values = ft_calloc(4 * n, sizeof *values, "metrics");
    column c = {.x = values, .y = values + n, .x_rank = values + 2 * n, .y_rank = values + 3 * n};
    c.scratch = ft_calloc(n, sizeof *c.scratch, "metrics");
    ft_status status = values && c.scratch ? FT_OK : FT_NO_MEMORY;
    for (int k = 0; k < s->outputs && status == FT_OK; k++) {
        for (int64_t i = 0; i < s->n; i++) {
            c.x[i] = s->logits[i * s->outputs + k];
            c.y[i] = s->targets[i * s->outputs + k];
        }
        one_target(&c, s->n, 1.0 / s->outputs, m);
    }
    free(values);
    free(c.scratch);
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
