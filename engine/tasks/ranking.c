// ranking.c - how relevant a document is to a query, one score a pair: what rerankers (cross-encoders) learn.
//
// Each pair is learned for itself, by binary cross-entropy of its score against its relevance, as sentence-transformers' CrossEncoder does with one
// label. Pairs are judged by query. A listwise loss would make a query one unit of batches; orders, micro-batches and dropout count
// sequences, and stay what they are.
#include "engine/data/labels/targets.h"
#include "engine/metrics/queries.h"
#include "engine/tasks/rows.h"
#include "engine/tasks/tasks.h"

#include <math.h>
#include <stdlib.h>

static ft_status outputs(const ft_task_tables *t, ft_arena *arena, ft_labels *labels) {
    *labels = (ft_labels){.kind = FT_LABELS_NUMBERS, .separator = t->separator, .grouped = true};
    if (t->train->pair == NULL) {
        ft_fail(FT_INVALID, "data.text_pair", "a ranking is of pairs, a query and a document, and no column of second texts is named");
        ft_hint("data.text_column=query data.text_pair=document data.label_column=relevance");
        return FT_INVALID;
    }
    ft_status status = ft_targets_labels(t->train, t->validation, arena, labels);
    if (status == FT_INVALID) ft_error_where_default("%s", t->train_path);
    FT_TRY(status);
    if (labels->count == 1) return FT_OK;
    return ft_fail(FT_INVALID, t->train_path, "%d numbers a pair: a ranking has one, the relevance", labels->count);
}

static float loss(const float *logits, int outputs, int32_t label, const float *target) {
    const double x = logits[0], t = target[0];
    return (float)(log1p(exp(-fabs(x))) + fmax(x, 0) - x * t);
}

// ---- figures: the mean over queries ---------------------------------------------------------------------------------------

static const ft_metric metric_of[FT_QUERY_FIGURES] = {[FT_QUERY_MRR] = FT_METRIC_MRR,           [FT_QUERY_MRR_10] = FT_METRIC_MRR_10,
                                                      [FT_QUERY_MAP] = FT_METRIC_MAP,           [FT_QUERY_NDCG] = FT_METRIC_NDCG,
                                                      [FT_QUERY_NDCG_5] = FT_METRIC_NDCG_5,     [FT_QUERY_NDCG_10] = FT_METRIC_NDCG_10,
                                                      [FT_QUERY_RECALL_1] = FT_METRIC_RECALL_1, [FT_QUERY_RECALL_5] = FT_METRIC_RECALL_5,
                                                      [FT_QUERY_RECALL_10] = FT_METRIC_RECALL_10, [FT_QUERY_RECALL_100] = FT_METRIC_RECALL_100};

typedef struct query {
    float *score, *relevance;
    int32_t *order;
} query;

// Where nothing says which documents are of one query, each is of its own.
static int64_t documents(const ft_scores *s, int64_t at) { return s->first != NULL ? s->first[at + 1] - s->first[at] : 1; }

static ft_status take_query(const ft_scores *s, int64_t at, query *q, int64_t *n) {
    *n = documents(s, at);
    for (int64_t i = 0; i < *n; i++) {
        const int64_t row = s->first != NULL ? ft_scores_member(s, s->first[at] + i) : at;
        q->score[i] = *ft_scores_at_row(s, row);
        q->relevance[i] = s->targets[row * s->outputs];
        if (!isfinite(q->score[i])) return ft_fail(FT_DIVERGED, NULL, "the score of example %lld is not finite", (long long)row);
    }
    return FT_OK;
}

static ft_status judge(const ft_scores *s, query *q, ft_metrics *m) {
    double sum[FT_QUERY_FIGURES] = {0}, figure[FT_QUERY_FIGURES];
    int64_t relevant = 0, n;
    for (int64_t i = 0; i < s->n; i++) {
        FT_TRY(take_query(s, ft_scores_at(s, i), q, &n));
        relevant += ft_query_judge(q->score, q->relevance, n, q->order, figure);
        for (int k = 0; k < FT_QUERY_FIGURES; k++) sum[k] += figure[k];
    }
    for (int k = 0; k < FT_QUERY_FIGURES && relevant > 0; k++) m->value[metric_of[k]] = sum[k] / (double)s->n;
    return FT_OK;
}

static ft_status measure(const ft_scores *s, ft_metrics *m) {
    int64_t most = 1;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t n = documents(s, ft_scores_at(s, i));
        if (n > most) most = n;
    }
    float *numbers = ft_calloc(2 * (size_t)most, sizeof *numbers, "the scores of a query");
    int32_t *order = ft_calloc((size_t)most, sizeof *order, "the order of a query");
    query q = {.score = numbers, .relevance = numbers != NULL ? numbers + most : NULL, .order = order};
    const ft_status status = numbers != NULL && order != NULL ? judge(s, &q, m) : FT_NO_MEMORY;
    free(numbers);
    free(order);
    return status;
}

static void put_truth(const ft_answer *a, int32_t label, const float *target, json_t *line, bool *failed) {
    json_t *object = json_object();
    ft_json_put(object, a->names[0], ft_json_rounded((double)target[0], 9), failed);
    ft_json_put(line, "targets", object, failed);
}

#define BIT(metric) FT_METRIC_BIT(FT_METRIC_##metric)

static const char *const no_heads[] = {NULL};

const ft_task_spec ft_task_ranking = {
    .id = FT_TASK_RANKING,
    .labels = FT_LABELS_NUMBERS,
    .grouped = true,
    .outputs = outputs,
    .loss = loss,
    .scoring = {.kind = "ranking",
                .metrics = BIT(LOSS) | BIT(MRR) | BIT(MRR_10) | BIT(MAP) | BIT(NDCG) | BIT(NDCG_5) | BIT(NDCG_10) | BIT(RECALL_1) | BIT(RECALL_5) |
                           BIT(RECALL_10) | BIT(RECALL_100),
                .known = "loss, mrr, mrr_10, map, ndcg, ndcg_5, ndcg_10, recall_1, recall_5, recall_10, recall_100",
                .measure = measure},
    .pool = ft_pool_numbers,
    .shown = {FT_METRIC_LOSS, FT_METRIC_NDCG_10, FT_METRIC_MRR_10, FT_METRIC_MAP},
    .decided_heads = no_heads,
    .put_truth = put_truth};
