#include "hpo/search/tpe/split.h"

#include "hpo/search/history/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t ft_split_below(int64_t n, int objectives) {
    int64_t tenth = (n + 9) / 10;
    return objectives == 1 && tenth > 25 ? 25 : tenth;
}

typedef struct ranked {
    double major, minor; // ascending: the smaller the better
    int64_t number;
} ranked;

// -1, 0, 1 in the order in which trials are taken.
static int compare(const ranked *a, const ranked *b) {
    if (a->major != b->major) return a->major < b->major ? -1 : 1;
    if (a->minor != b->minor) return a->minor < b->minor ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_rank(const void *a, const void *b) { return compare(a, b); }

// Marks the first k of the list in sorted order; returns how many. k is small beside the list (25 of thousands), so one
// pass that keeps the k best beats sorting all.
static int64_t take(ranked *list, int64_t count, int64_t k, uint8_t *sides) {
    if (k > count) k = count;
    if (k <= 0) return 0;
    qsort(list, (size_t)k, sizeof *list, by_rank);
    for (int64_t i = k; i < count; i++) {
        ranked r = list[i];
        if (compare(&r, &list[k - 1]) > 0) continue;
        int64_t at = k - 1;
        for (; at > 0 && compare(&r, &list[at - 1]) < 0; at--)
            list[at] = list[at - 1];
        list[at] = r;
    }
    for (int64_t i = 0; i < k; i++)
        sides[list[i].number] = FT_BELOW;
    return k;
}

static ranked pruned_rank(const ft_trial *trial, bool maximize) {
    if (trial->report_count == 0) return (ranked){1, 0, trial->number};
    const ft_trial_report *last = &trial->reports[trial->report_count - 1];
    double value = isnan(last->value) ? INFINITY : maximize ? -last->value : last->value;
    return (ranked){-(double)last->step, value, trial->number};
}

static ft_status take_pareto(const ft_trials *trials, const ranked *list, int64_t count, int64_t k, uint8_t *sides) {
    if (k > count) k = count;
    size_t objectives = (size_t)trials->objectives;
    double *losses = ft_calloc((size_t)count + 1, objectives * sizeof *losses, "objectives");
    bool *chosen = ft_calloc((size_t)count + 1, sizeof *chosen, "objectives");
    ft_status status = losses == NULL || chosen == NULL ? FT_NO_MEMORY : FT_OK;
    if (status == FT_OK) {
        for (int64_t i = 0; i < count; i++)
            for (size_t o = 0; o < objectives; o++) {
                double value = trials->trial[list[i].number].values[o];
                losses[(size_t)i * objectives + o] = trials->maximize[o] ? -value : value;
            }
        status = ft_pareto_best(losses, count, trials->objectives, k, chosen);
    }
    for (int64_t i = 0; status == FT_OK && i < count; i++)
        if (chosen[i]) sides[list[i].number] = FT_BELOW;
    free(losses);
    free(chosen);
    return status;
}

// Of so many finished trials above. The first k bits of a number times the golden ratio are 0 for one number in 2^k, as
// evenly as can be.
static int thin(const ft_trials *trials, int64_t above, int64_t most, uint8_t *sides) {
    int halvings = 0;
    while (above >> halvings > most)
        halvings++;
    for (int64_t i = 0; halvings > 0 && i < trials->count; i++)
        if ((uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) >> (64 - halvings) != 0 && sides[i] == FT_ABOVE &&
            trials->trial[i].state != FT_RUNNING)
            sides[i] = FT_NEITHER;
    return 1 << halvings;
}

ft_status ft_split(const ft_trials *trials, int64_t except, bool constant_liar, const bool *among, int64_t most,
                   uint8_t *sides, int *stands_for) {
    int64_t complete = 0, pruned = 0, infeasible = 0, total = trials->count;
    ranked *list = ft_calloc(3 * (size_t)total + 1, sizeof *list, "trials");
    if (list == NULL) return FT_NO_MEMORY;
    ranked *complete_list = list, *pruned_list = list + total, *infeasible_list = list + 2 * total;
    memset(sides, FT_NEITHER, (size_t)total);
    for (int64_t i = 0; i < total; i++) {
        const ft_trial *t = &trials->trial[i];
        if (i == except || (among != NULL && !among[i]) || t->state == FT_FAIL || t->state == FT_WAITING) continue;
        if (t->state == FT_RUNNING) {
            if (constant_liar) sides[i] = FT_ABOVE;
            continue;
        }
        sides[i] = FT_ABOVE;
        double violation = t->constraint_count > 0 ? ft_trial_violation(t) : 0;
        if (violation > 0)
            infeasible_list[infeasible++] = (ranked){violation, 0, i};
        else if (t->state == FT_COMPLETE)
            complete_list[complete++] = (ranked){trials->maximize[0] ? -t->values[0] : t->values[0], 0, i};
        else
            pruned_list[pruned++] = pruned_rank(t, trials->maximize[0]);
    }
    const int64_t finished = complete + pruned + infeasible, good = ft_split_below(finished, trials->objectives);
    int64_t below = good;
    ft_status status = FT_OK;
    if (trials->objectives == 1)
        take(complete_list, complete, below, sides);
    else
        status = take_pareto(trials, complete_list, complete, below, sides);
    below -= complete < below ? complete : below;
    below -= take(pruned_list, pruned, below, sides);
    take(infeasible_list, infeasible, below, sides);
    free(list);
    *stands_for = most > 0 ? thin(trials, finished - good, most, sides) : 1;
    return status;
}
