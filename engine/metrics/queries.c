#include "engine/metrics/queries.h"

#include <math.h>
#include <string.h>

// Does a document stand behind another? Of equal scores the later.
static int behind(const float *score, int32_t a, int32_t b) { return score[a] != score[b] ? score[a] < score[b] : a > b; }

// A heap of documents, the last on top.
static void sink(const float *score, int32_t *heap, int64_t at, int64_t count) {
    const int32_t moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && behind(score, heap[child + 1], heap[child])) child++;
        if (!behind(score, heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void ft_query_order(const float *score, int64_t n, int32_t *order) {
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t from = n / 2; from-- > 0;) sink(score, order, from, n);
    for (int64_t last = n - 1; last > 0; last--) {
        const int32_t moved = order[0];
        order[0] = order[last];
        order[last] = moved;
        sink(score, order, 0, last);
    }
}

static const int64_t gain_places[3] = {INT64_MAX, 5, 10}, recall_places[4] = {1, 5, 10, 100};

// Gains by place, discounted: of places [from, to) with `gain` each.
static void add_gains(double gain, int64_t from, int64_t to, double sum[3]) {
    for (int64_t place = from; place < to; place++)
        for (int k = 0; k < 3; k++)
            if (place < gain_places[k]) sum[k] += gain / log2((double)place + 2);
}

// Documents of one score, at places [from, to), of which `found` were relevant before.
static void take_equals(const float *relevance, const int32_t *order, int64_t from, int64_t to, int64_t *found, double gains[3], double *figure) {
    double gain = 0;
    int64_t relevant = 0;
    for (int64_t i = from; i < to; i++) {
        gain += relevance[order[i]];
        relevant += relevance[order[i]] > 0;
    }
    add_gains(gain / (double)(to - from), from, to, gains);
    if (relevant == 0) return;
    if (*found == 0) {
        figure[FT_QUERY_MRR] = 1 / (double)to;
        figure[FT_QUERY_MRR_10] = to <= 10 ? 1 / (double)to : 0;
    }
    *found += relevant;
    figure[FT_QUERY_MAP] += (double)relevant * (double)*found / (double)to;
    for (int k = 0; k < 4; k++)
        if (to <= recall_places[k]) figure[FT_QUERY_RECALL_1 + k] += (double)relevant;
}

int64_t ft_query_judge(const float *score, const float *relevance, int64_t n, int32_t *order, double *figure) {
    double gains[3] = {0}, best[3] = {0};
    int64_t found = 0;
    memset(figure, 0, FT_QUERY_FIGURES * sizeof *figure);
    ft_query_order(score, n, order);
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && score[order[to]] == score[order[from]];) to++;
        take_equals(relevance, order, from, to, &found, gains, figure);
    }
    if (found == 0) return 0;
    ft_query_order(relevance, n, order);
    for (int64_t i = 0; i < n; i++) add_gains(relevance[order[i]], i, i + 1, best);
    figure[FT_QUERY_MAP] /= (double)found;
    for (int k = 0; k < 3; k++) figure[FT_QUERY_NDCG + k] = gains[k] / best[k];
    for (int k = 0; k < 4; k++) figure[FT_QUERY_RECALL_1 + k] /= (double)found;
    return found;
}
