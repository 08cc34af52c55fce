#include "hpo/search/tpe/split.h"

#include "hpo/search/history/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t ft_split_below(int64_t n, int objectives) {
    int64_t tenth = (n + 9) / 10;
    return objectives == 1 && tenth > FT_SPLIT_MOST_BELOW ? FT_SPLIT_MOST_BELOW : tenth;
}

int64_t ft_split_good(int64_t finished, int64_t ended, int objectives) {
    const int64_t below = ft_split_below(ended, objectives);
    return below < finished ? below : finished;
}

typedef ft_split_rank ranked;

int ft_split_compare(const ranked *a, const ranked *b) {
    if (a->major != b->major) return a->major < b->major ? -1 : 1;
    if (a->minor != b->minor) return a->minor < b->minor ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_rank(const void *a, const void *b) { return ft_split_compare(a, b); }

// Marks the first k of the list in sorted order; returns how many. k is small beside the list (25 of thousands), so one
// pass that keeps the k best beats sorting all.
static int64_t take(ranked *list, int64_t count, int64_t k, uint8_t *sides) {
    if (k > count) k = count;
    if (k <= 0) return 0;
    qsort(list, (size_t)k, sizeof *list, by_rank);
    for (int64_t i = k; i < count; i++) {
        ranked r = list[i];
        if (ft_split_compare(&r, &list[k - 1]) > 0) continue;
        int64_t at = k - 1;
        for (; at > 0 && ft_split_compare(&r, &list[at - 1]) < 0; at--)
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

ft_split_class ft_split_class_of(const ft_trials *trials, const ft_trial *t, ranked *rank) {
    const double violation = t->constraint_count > 0 ? ft_trial_violation(t) : 0;
    if (violation > 0) {
        *rank = (ranked){violation, 0, t->number};
        return FT_SPLIT_INFEASIBLE;
    }
    if (t->state == FT_COMPLETE) {
        *rank = (ranked){trials->maximize[0] ? -t->values[0] : t->values[0], 0, t->number};
        return FT_SPLIT_COMPLETE;
    }
    *rank = pruned_rank(t, trials->maximize[0]);
    return FT_SPLIT_PRUNED;
}

int ft_split_halvings(int64_t above, int64_t most) {
    int halvings = 0;
    while (most > 0 && above >> halvings > most)
        halvings++;
    return halvings;
}

// The first k bits of a number times the golden ratio are 0 for one number in 2^k, as evenly as can be.
bool ft_split_keeps(int64_t number, int halvings) {
    return halvings == 0 || (uint64_t)number * UINT64_C(0x9E3779B97F4A7C15) >> (64 - halvings) == 0;
}

ft_status ft_split(const ft_trials *trials, int64_t except, bool constant_liar, bool failed, const bool *among, int64_t most,
                   uint8_t *sides, int *stands_for) {
    int64_t count[FT_SPLIT_CLASSES] = {0}, finished = 0, ended = 0, total = trials->count;
    ranked *list = ft_calloc(FT_SPLIT_CLASSES * (size_t)total + 1, sizeof *list, "trials"), rank;
    if (list == NULL) return FT_NO_MEMORY;
    memset(sides, FT_NEITHER, (size_t)total);
    for (int64_t i = 0; i < total; i++) {
        const ft_trial *t = &trials->trial[i];
        if (i == except || (among != NULL && !among[i]) || (t->state == FT_FAIL && !failed) || t->state == FT_WAITING) continue;
        if (t->state == FT_RUNNING) {
            if (constant_liar) sides[i] = FT_ABOVE;
            continue;
        }
        sides[i] = FT_ABOVE;
        ended++;
        if (t->state == FT_FAIL) continue;
        const ft_split_class class = ft_split_class_of(trials, t, &rank);
        list[class * total + count[class]++] = rank;
        finished++;
    }
    const int64_t good = ft_split_good(finished, ended, trials->objectives), complete = count[FT_SPLIT_COMPLETE];
    int64_t below = good;
    ft_status status = FT_OK;
    if (trials->objectives == 1)
        take(list, complete, below, sides);
    else
        status = take_pareto(trials, list, complete, below, sides);
    below -= complete < below ? complete : below;
    for (int c = FT_SPLIT_PRUNED; c < FT_SPLIT_CLASSES; c++)
        below -= take(list + c * total, count[c], below, sides);
    free(list);
    const int halvings = ft_split_halvings(ended - good, most);
    for (int64_t i = 0; i < total && halvings > 0; i++)
        if (sides[i] == FT_ABOVE && trials->trial[i].state != FT_RUNNING && !ft_split_keeps(i, halvings)) sides[i] = FT_NEITHER;
    *stands_for = 1 << halvings;
    return status;
}
