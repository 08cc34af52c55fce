#include "hpo/search/gp/conditions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ranked {
    double value;
    int trial;
} ranked;

static int by_value(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

// What it costs that `axis`, of whose `count` trials `sorted` has the values, decides about another; INFINITY: it does
// not. bits [choices]: scratch.
static double cost(const ranked *sorted, int count, const bool *has, bool choice, int choices, unsigned char *bits) {
    int changes = 0, seen = 0;
    if (choice) {
        memset(bits, 0, (size_t)choices);
        for (int i = 0; i < count; i++)
            bits[(int)sorted[i].value] |= has[sorted[i].trial] ? 1 : 2;
        for (int k = 0; k < choices; k++) {
            if (bits[k] == 3) return INFINITY;
            seen += bits[k] != 0;
        }
        return seen * log(2);
    }
    for (int i = 1; i < count; i++) {
        if (has[sorted[i].trial] == has[sorted[i - 1].trial]) continue;
        if (sorted[i].value == sorted[i - 1].value) return INFINITY;
        changes++;
    }
    return changes * log(count);
}

ft_status ft_gp_conditions_of(const double *points, int count, const bool *choice, int axes, int choices,
                              ft_arena *arena, int *by) {
    const size_t width = (size_t)axes, n = (size_t)count;
    ranked *sorted = ft_arena_alloc(arena, (n * width + 1) * sizeof *sorted);
    bool *has = ft_arena_alloc(arena, (n * width + 1) * sizeof *has);
    int *with = ft_arena_alloc(arena, (width + 1) * sizeof *with); // trials of each axis
    unsigned char *bits = ft_arena_alloc(arena, (size_t)choices + 1);
    if (sorted == NULL || has == NULL || with == NULL || bits == NULL) return FT_NO_MEMORY;
    for (size_t a = 0; a < width; a++) {
        for (int i = 0; i < count; i++) {
            const double value = points[(size_t)i * width + a];
            has[a * n + (size_t)i] = !isnan(value);
            if (!isnan(value)) sorted[a * n + (size_t)with[a]++] = (ranked){value, i};
        }
        qsort(sorted + a * n, (size_t)with[a], sizeof *sorted, by_value);
    }
    for (size_t p = 0; p < width; p++) {
        double least = INFINITY;
        by[p] = -1;
        for (size_t a = 0; a < width && with[p] < count; a++) {
            int both = 0;
            for (size_t i = 0; i < n; i++)
                both += has[a * n + i] && has[p * n + i];
            // All that have p have the axis, and not the other way round: else it comes with p.
            if (a == p || both < with[p] || with[a] == both) continue;
            const double now = cost(sorted + a * n, with[a], has + p * n, choice[a], choices, bits);
            if (now < least || (now == least && now < INFINITY && choice[a] && !choice[by[p]]))
                least = now, by[p] = (int)a;
        }
    }
    return FT_OK;
}
