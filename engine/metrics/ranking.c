#include "engine/metrics/ranking.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- sorting ------------------------------------------------------------------------------------------------------

// A heap: in place, and as fast for every order that the scores come in.
static void sink(uint64_t *heap, int64_t at, int64_t count) {
    const uint64_t value = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= value) break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

void ft_sort_marked(uint64_t *marked, int64_t count) {
    for (int64_t at = count / 2; at-- > 0;) sink(marked, at, count);
    for (int64_t last = count - 1; last > 0; last--) {
        const uint64_t largest = marked[0];
        marked[0] = marked[last];
        marked[last] = largest;
        sink(marked, 0, last);
    }
}

// ---- two passes ---------------------------------------------------------------------------------------------------

typedef struct table {
    const ft_scores *scores;
    int first, count; // outputs
    int64_t *start;   // [count + 1] where those of an output begin
    int64_t *filled;  // [count]
    uint64_t *score; // marked
    double *nearest;
    uint32_t *between, *equal; // `between` has one more for every output
} table;

static void gather(void *context, int64_t example, const double *p) {
    table *t = context;
    const ft_scores *s = t->scores;
    if (!s->scoring->independent) { // one class: no need to ask for all
        const int k = s->labels[ft_scores_at(s, example)] - t->first;
        if (k >= 0 && k < t->count) t->score[t->start[k] + t->filled[k]++] = ft_mark_score(p[k], true);
        return;
    }
    for (int k = 0; k < t->count; k++)
        if (s->scoring->positive(s, example, t->first + k)) t->score[t->start[k] + t->filled[k]++] = ft_mark_score(p[k], true);
}

static void place(table *t, int k, double p) {
    const uint64_t *score = t->score + t->start[k], at = ft_mark_score(p, true);
    int64_t low = 0, high = t->start[k + 1] - t->start[k];
    const int64_t all = high;
    while (low < high) { // the first that is not below it
        const int64_t middle = low + (high - low) / 2;
        if (score[middle] < at) low = middle + 1;
        else high = middle;
    }
    if (low < all && score[low] == at) {
        t->equal[t->start[k] + low]++;
        return;
    }
    t->between[t->start[k] + k + low]++;
    double *nearest = t->nearest + t->start[k];
    if (low < all && p > nearest[low]) nearest[low] = p;
}

static void count_negatives(void *context, int64_t example, const double *p) {
    table *t = context;
    const ft_scores *s = t->scores;
    const bool one = !s->scoring->independent;
    const int label = one ? s->labels[ft_scores_at(s, example)] - t->first : -1;
    for (int k = 0; k < t->count; k++)
        if (one ? k != label : !s->scoring->positive(s, example, t->first + k)) place(t, k, p[k]);
}

// How many outputs from `first` on take their turn together.
static int turn(const ft_scores *s, int first, const int64_t *positives, int64_t at_once) {
    int64_t bytes = 0;
    int k = first;
    do bytes += 24 * positives[k++];
    while (k < s->outputs && bytes + 24 * positives[k] <= at_once);
    return k - first;
}

static ft_status make_room(table *t, const int64_t *positives) {
    int64_t all = 0;
    for (int k = 0; k < t->count; k++) {
        t->start[k] = all;
        t->filled[k] = 0;
        all += positives[t->first + k];
    }
    t->start[t->count] = all;
    t->score = ft_calloc((size_t)all, sizeof *t->score, "ranked scores");
    t->nearest = ft_calloc((size_t)all, sizeof *t->nearest, "ranked scores");
    t->between = ft_calloc((size_t)(all + t->count), sizeof *t->between, "ranked scores");
    t->equal = ft_calloc((size_t)all, sizeof *t->equal, "ranked scores");
    if (t->score == NULL || t->nearest == NULL || t->between == NULL || t->equal == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < all; i++) t->nearest[i] = -1;
    return FT_OK;
}

static void free_room(table *t) {
    free(t->score), free(t->nearest), free(t->between), free(t->equal);
    t->score = NULL;
    t->nearest = NULL;
    t->between = t->equal = NULL;
}

static ft_status rank_turn(table *t, const int64_t *positives, double *p) {
    FT_TRY(make_room(t, positives));
    FT_TRY(ft_scores_each(t->scores, t->first, t->count, p, gather, t));
    for (int k = 0; k < t->count; k++) ft_sort_marked(t->score + t->start[k], t->start[k + 1] - t->start[k]);
    return ft_scores_each(t->scores, t->first, t->count, p, count_negatives, t);
}

ft_status ft_rank_outputs(const ft_scores *s, int first, const int64_t *positives, int64_t at_once,
                          void (*take)(void *context, int output, const ft_ranking *ranking), void *context) {
    table t = {.scores = s};
    double *p = ft_calloc((size_t)s->outputs, sizeof *p, "probabilities");
    t.start = ft_calloc((size_t)s->outputs + 1, sizeof *t.start, "ranked scores");
    t.filled = ft_calloc((size_t)s->outputs, sizeof *t.filled, "ranked scores");
    ft_status status = p && t.start && t.filled ? FT_OK : FT_NO_MEMORY;
    for (t.first = first; t.first < s->outputs && status == FT_OK; t.first += t.count) {
        t.count = turn(s, t.first, positives, at_once);
        status = rank_turn(&t, positives, p);
        for (int k = 0; k < t.count && status == FT_OK; k++) {
            const int64_t at = t.start[k];
            take(context, t.first + k,
                 &(ft_ranking){.n = s->n,
                               .positives = t.start[k + 1] - at,
                               .score = t.score + at,
                               .between = t.between + at + k,
                               .equal = t.equal + at,
                               .nearest = t.nearest + at});
        }
        free_room(&t);
    }
    free(p);
    free(t.start);
    free(t.filled);
    return status;
}

size_t ft_rank_host_bytes(int64_t n, int outputs, int64_t positives) {
    const int64_t alone = 24 * (n < positives ? n : positives), all = 24 * positives;
    const int64_t turns = all < FT_RANKED_AT_ONCE ? all : FT_RANKED_AT_ONCE > alone ? FT_RANKED_AT_ONCE : alone;
    return (size_t)turns + (size_t)outputs * (2 * sizeof(int64_t) + sizeof(double) + sizeof(uint32_t));
}

// ---- figures ------------------------------------------------------------------------------------------------------

double ft_auroc(const ft_ranking *r) {
    const int64_t negatives = r->n - r->positives;
    if (r->positives == 0 || negatives == 0) return NAN;
    // Twice the number of pairs in which the positive one is higher; equal ones count as half a pair. Whole numbers: exact.
    uint64_t below = 0, pairs = 0;
    for (int64_t first = 0, end; first < r->positives; first = end) {
        for (end = first + 1; end < r->positives && r->score[end] == r->score[first];) end++;
        below += r->between[first];
        pairs += (uint64_t)(end - first) * (2 * below + r->equal[first]);
        below += r->equal[first];
    }
    return 0.5 * (double)pairs / ((double)r->positives * (double)negatives);
}

double ft_average_precision(const ft_ranking *r) {
    const double positives = (double)r->positives;
    int64_t above = r->between[r->positives]; // negatives
    double sum = 0;
    for (int64_t last = r->positives, first; last > 0; last = first) { // from the highest score down
        for (first = last - 1; first > 0 && r->score[first - 1] == r->score[first];) first--;
        above += r->equal[first];
        const double found = (double)(r->positives - first);
        sum += (double)(last - first) / positives * (found / (found + (double)above));
        above += r->between[first];
    }
    return sum;
}
