#include "engine/train/repeat/join.h"

#include "base/arena.h"
#include "base/heap.h"
#include "base/spill.h"

#include <stdlib.h>

ft_status ft_join_places_open(int runs, ft_join_places *p) {
    *p = (ft_join_places){.runs = runs};
    p->number = ft_calloc((size_t)runs + 1, sizeof *p->number, "queries");
    p->known = ft_calloc((size_t)runs + 1, sizeof *p->known, "queries");
    return p->number != NULL && p->known != NULL ? FT_OK : FT_NO_MEMORY;
}

// Numbers of a run's queries up to `query`.
static ft_status know(ft_join_places *p, int list, int64_t query) {
    const int32_t before = p->known[list];
    if (query < before) return FT_OK;
    const int32_t room = (int32_t)(2 * query + 64);
    FT_SPILL_GROW(p->number[list], room, "queries");
    for (int32_t i = before; i < room; i++) p->number[list][i] = -1;
    p->known[list] = room;
    return FT_OK;
}

ft_status ft_join_places_add(ft_join_places *p, int run, bool test, int64_t query, double score) {
    const int list = test ? p->runs : run;
    FT_TRY(know(p, list, query));
    if (p->number[list][query] < 0) p->number[list][query] = p->queries[test]++;
    if (p->count == p->capacity) {
        FT_SPILL_GROW(p->place, 2 * p->capacity + 1024, "places");
        p->capacity = 2 * p->capacity + 1024;
    }
    p->place[p->count] = (ft_join_place){.score = score, .example = p->count, .query = p->number[list][query], .test = test};
    p->count++;
    return FT_OK;
}

static int by_score(const void *a, const void *b) {
    const ft_join_place *x = a, *y = b;
    if (x->test != y->test) return x->test - y->test;
    if (x->query != y->query) return x->query < y->query ? -1 : 1;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->example > y->example) - (x->example < y->example);
}

static int by_example(const void *a, const void *b) {
    const ft_join_place *x = a, *y = b;
    return (x->example > y->example) - (x->example < y->example);
}

void ft_join_places_rank(ft_join_places *p) {
    if (p->count == 0) return;
    qsort(p->place, (size_t)p->count, sizeof *p->place, by_score);
    for (int64_t i = 0; i < p->count; i++) {
        ft_join_place *at = &p->place[i];
        at->rank = i > 0 && at[-1].test == at->test && at[-1].query == at->query ? at[-1].rank + 1 : 1;
    }
    qsort(p->place, (size_t)p->count, sizeof *p->place, by_example);
}

void ft_join_places_free(ft_join_places *p) {
    for (int i = 0; p->number != NULL && i <= p->runs; i++) ft_spill_free(p->number[i]);
    free(p->number);
    free(p->known);
    ft_spill_free(p->place);
    *p = (ft_join_places){.place = NULL};
}
