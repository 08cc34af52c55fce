#include "engine/data/tables/groups.h"

#include "base/spill.h"

#include <stdlib.h>
#include <string.h>

typedef struct named {
    const char *name;
    int32_t row;
} named;

static int by_name(const void *a, const void *b) {
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

// first_of[i]: the first row of the name that row i has.
static void find_first(const named *sorted, int64_t rows, int32_t *first_of) {
    int32_t first = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (i == 0 || strcmp(sorted[i].name, sorted[i - 1].name) != 0) first = sorted[i].row;
        first_of[sorted[i].row] = first;
    }
}

// By counting: number[i] is that of the group whose first row is i.
static void deal(const int32_t *first_of, int64_t rows, int32_t *number, ft_groups *g) {
    for (int64_t i = 0; i < rows; i++) {
        if (first_of[i] == i) number[i] = (int32_t)g->count++;
        g->first[number[first_of[i]] + 1]++;
    }
    for (int64_t k = 0; k < g->count; k++) g->first[k + 1] += g->first[k];
    for (int64_t i = rows; i-- > 0;) g->member[--g->first[number[first_of[i]] + 1]] = (int32_t)i;
    memmove(g->first, g->first + 1, (size_t)g->count * sizeof *g->first); // where the rows of each begin by now
    g->first[g->count] = rows;
}

ft_status ft_groups_of(const char *const *name, int64_t rows, ft_groups *g) {
    const size_t n = (size_t)rows;
    *g = (ft_groups){.count = 0};
    named *sorted = ft_spill_calloc(n + 1, sizeof *sorted, "the groups of rows");
    int32_t *first_of = ft_spill_calloc(n + 1, sizeof *first_of, "the groups of rows"), *number = ft_spill_calloc(n + 1, sizeof *number, "the groups of rows");
    g->first = ft_spill_calloc(n + 1, sizeof *g->first, "the groups of rows");
    g->member = ft_spill_calloc(n + 1, sizeof *g->member, "the groups of rows");
    const bool room = sorted && first_of && number && g->first && g->member;
    for (int64_t i = 0; room && i < rows; i++) sorted[i] = (named){name[i], (int32_t)i};
    if (room) {
        qsort(sorted, n, sizeof *sorted, by_name);
        find_first(sorted, rows, first_of);
        deal(first_of, rows, number, g);
    }
    ft_spill_free(sorted);
    ft_spill_free(first_of);
    ft_spill_free(number);
    if (!room) return FT_NO_MEMORY;
    int64_t *first = ft_spill_realloc(g->first, (size_t)g->count + 1, sizeof *first, "the groups of rows");
    if (first == NULL) return FT_NO_MEMORY;
    g->first = first;
    ft_spill_settle(g->first);
    ft_spill_settle(g->member);
    return FT_OK;
}

void ft_groups_free(ft_groups *g) {
    ft_spill_free(g->first);
    ft_spill_free(g->member);
    *g = (ft_groups){.count = 0};
}
