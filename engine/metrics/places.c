#include "engine/metrics/places.h"

#include "base/arena.h"
#include "base/spill.h"
#include "engine/metrics/queries.h"

#include <stdlib.h>

static int64_t most_documents(const ft_groups *g) {
    int64_t most = 1;
    for (int64_t q = 0; q < g->count; q++)
        if (g->first[q + 1] - g->first[q] > most) most = g->first[q + 1] - g->first[q];
    return most;
}

static void rank_query(const ft_groups *g, int64_t q, ft_logits *logits, float *score, int32_t *order, ft_places *p) {
    const int32_t *member = g->member + g->first[q];
    const int64_t n = g->first[q + 1] - g->first[q];
    for (int64_t i = 0; i < n; i++) score[i] = *ft_logits_row(logits, member[i]);
    ft_query_order(score, n, order);
    for (int64_t i = 0; i < n; i++) {
        p->query[member[i]] = (int32_t)q;
        p->rank[member[order[i]]] = (int32_t)i + 1;
    }
}

ft_status ft_places_find(const ft_dataset *data, ft_logits *logits, ft_places *p) {
    const ft_groups *g = &data->groups;
    *p = (ft_places){.rank = NULL};
    if (g->count == 0) return FT_OK;
    const size_t n = (size_t)data->examples, most = (size_t)most_documents(g);
    p->query = ft_spill_calloc(n, sizeof *p->query, "queries");
    p->rank = ft_spill_calloc(n, sizeof *p->rank, "places");
    float *score = ft_calloc(most, sizeof *score, "the scores of a query");
    int32_t *order = ft_calloc(most, sizeof *order, "the order of a query");
    const bool room = p->query && p->rank && score && order;
    for (int64_t q = 0; room && q < g->count; q++) rank_query(g, q, logits, score, order, p);
    free(score);
    free(order);
    return room ? ft_logits_status(logits) : FT_NO_MEMORY;
}

void ft_places_free(ft_places *p) {
    ft_spill_free(p->query);
    ft_spill_free(p->rank);
    *p = (ft_places){.rank = NULL};
}
