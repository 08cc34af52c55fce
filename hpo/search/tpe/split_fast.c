#include "hpo/search/tpe/split_fast.h"

#include <stdlib.h>
#include <string.h>

void ft_split_fast_free(ft_split_fast *f) {
    free(f->sides);
    free(f->counts);
    free(f->open);
    free(f->values);
    *f = (ft_split_fast){0};
}

static ft_status grow(ft_split_fast *f, const ft_trials *trials, const ft_subspace *among) {
    if (f->values == NULL && among != NULL) {
        f->values = ft_calloc((size_t)among->count + 1, sizeof *f->values, "TPE");
        if (f->values == NULL) return FT_NO_MEMORY;
    }
    if (trials->count <= f->capacity) return FT_OK;
    const size_t capacity = 2 * (size_t)trials->count;
    uint8_t *sides = ft_realloc(f->sides, capacity, 1, "TPE");
    if (sides == NULL) return FT_NO_MEMORY;
    f->sides = sides;
    bool *counts = ft_realloc(f->counts, capacity, sizeof *counts, "TPE");
    if (counts == NULL) return FT_NO_MEMORY;
    f->counts = counts;
    int64_t *open = ft_realloc(f->open, capacity, sizeof *open, "TPE");
    if (open == NULL) return FT_NO_MEMORY;
    f->open = open;
    f->capacity = (int64_t)capacity;
    return FT_OK;
}

static bool is_among(const ft_split_fast *f, const ft_trial *trial, const ft_split_question *q) {
    return q->among == NULL || ft_subspace_values(q->among, trial, q->announced, f->values);
}

static uint8_t side_above(const ft_split_fast *f, int64_t number) {
    return ft_split_keeps(number, f->halvings) ? FT_ABOVE : FT_NEITHER;
}

static void keep_best(ft_split_fast *f, ft_split_class class, const ft_split_rank *rank) {
    ft_split_rank *best = f->best[class];
    int at = f->found[class] < FT_SPLIT_MOST_BELOW ? (int)f->found[class] : FT_SPLIT_MOST_BELOW;
    f->found[class]++;
    for (; at > 0 && ft_split_compare(rank, &best[at - 1]) < 0; at--)
        if (at < FT_SPLIT_MOST_BELOW) best[at] = best[at - 1];
    if (at < FT_SPLIT_MOST_BELOW) best[at] = *rank;
}

// A trial that has ended.
static void take_in(ft_split_fast *f, const ft_trials *trials, const ft_trial *trial, const ft_split_question *q) {
    ft_split_rank rank;
    f->sides[trial->number] = FT_NEITHER;
    f->counts[trial->number] = (trial->state != FT_FAIL || q->failed) && is_among(f, trial, q);
    if (!f->counts[trial->number]) return;
    f->sides[trial->number] = side_above(f, trial->number);
    if (trial->state == FT_FAIL) {
        f->failed++;
        return;
    }
    const ft_split_class class = ft_split_class_of(trials, trial, &rank);
    keep_best(f, class, &rank);
}

static void thin(ft_split_fast *f, int halvings) {
    if (halvings == f->halvings) return;
    f->halvings = halvings;
    for (int64_t i = 0; i < f->count; i++)
        if (f->counts[i]) f->sides[i] = side_above(f, i);
}

ft_status ft_split_fast_update(ft_split_fast *f, const ft_trials *trials, const ft_split_question *q, int *stands_for) {
    FT_TRY(grow(f, trials, q->among));
    for (; f->count < trials->count; f->count++) {
        f->counts[f->count] = false;
        f->open[f->open_count++] = f->count;
    }
    int64_t left = 0, finished = 0;
    for (int64_t k = 0; k < f->open_count; k++) {
        const ft_trial *trial = &trials->trial[f->open[k]];
        if (ft_trial_finished(trial->state)) {
            take_in(f, trials, trial, q);
            continue;
        }
        const bool lies = trial->state == FT_RUNNING && q->constant_liar && trial->number != q->except;
        f->sides[trial->number] = lies && is_among(f, trial, q) ? FT_ABOVE : FT_NEITHER;
        f->open[left++] = trial->number;
    }
    f->open_count = left;
    for (int k = 0; k < f->below_count; k++)
        f->sides[f->below[k]] = side_above(f, f->below[k]);
    for (int c = 0; c < FT_SPLIT_CLASSES; c++)
        finished += f->found[c];
    const int64_t ended = finished + f->failed, good = ft_split_good(finished, ended, 1);
    thin(f, ft_split_halvings(ended - good, q->most));
    f->below_count = 0;
    for (int c = 0; c < FT_SPLIT_CLASSES; c++)
        for (int64_t k = 0; k < f->found[c] && f->below_count < good; k++)
            f->below[f->below_count++] = f->best[c][k].number;
    for (int k = 0; k < f->below_count; k++)
        f->sides[f->below[k]] = FT_BELOW;
    *stands_for = 1 << f->halvings;
    return FT_OK;
}
