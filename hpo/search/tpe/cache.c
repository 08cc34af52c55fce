#include "hpo/search/tpe/cache.h"

#include "hpo/search/tpe/parzen_fast.h"
#include "hpo/search/tpe/split_fast.h"

#include <stdlib.h>
#include <string.h>

typedef struct member_list {
    ft_parzen parzen;
    ft_parzen_fast fast;
    int64_t *number; // [parzen.count] trials, ascending
    int capacity;
} member_list;

// One subspace, its two estimators and what they were made from.
typedef struct entry {
    struct entry *next;
    ft_subspace subspace;
    int64_t used;        // latest trial that asked
    ft_split_fast split; // of the trials that have these parameters, one objective
    member_list side[2]; // below, above
    uint8_t *sides;      // [count] the split they are for
    uint8_t *member;     // [count] 1 + index of the list a trial is in, 0 = in none (no such parameters)
    int64_t count, capacity;
    int64_t *unsettled; // RUNNING trials looked at: they may have got parameters since
    int64_t unsettled_count, unsettled_capacity;
    double *values; // [subspace.count] scratch
} entry;

struct ft_tpe_cache {
    entry *entries;
    ft_split_fast of_all; // one objective
    uint8_t *sides;       // [sides_capacity] several: the split of all trials, for
    uint64_t states;
    int64_t except, sides_capacity;
    int stands_for;
    bool split;
    bool *among;
    double *points, *density;
    size_t points_capacity, density_capacity;
};

enum { IDLE_TRIALS = 64 }; // a subspace nobody asked for in so many trials is forgotten

ft_status ft_tpe_cache_new(ft_tpe_cache **out) {
    *out = ft_calloc(1, sizeof **out, "TPE");
    return *out == NULL ? FT_NO_MEMORY : FT_OK;
}

static void free_entry(entry *e) {
    for (int s = 0; s < 2; s++) {
        ft_parzen_free(&e->side[s].parzen);
        ft_parzen_fast_free(&e->side[s].fast);
        free(e->side[s].number);
    }
    ft_subspace_free(&e->subspace);
    ft_split_fast_free(&e->split);
    free(e->sides);
    free(e->member);
    free(e->unsettled);
    free(e->values);
    free(e);
}

void ft_tpe_cache_free(ft_tpe_cache *c) {
    if (c == NULL) return;
    while (c->entries != NULL) {
        entry *e = c->entries;
        c->entries = e->next;
        free_entry(e);
    }
    ft_split_fast_free(&c->of_all);
    free(c->sides);
    free(c->among);
    free(c->points);
    free(c->density);
    free(c);
}

// ---- Entries ----------------------------------------------------------------------------------------------------

static ft_status new_entry(const ft_trials *trials, const ft_tpe_options *options, const ft_subspace *subspace,
                           entry **out) {
    entry *e = ft_calloc(1, sizeof *e, "TPE");
    if (e == NULL) return FT_NO_MEMORY;
    size_t count = (size_t)subspace->count;
    e->subspace.name = ft_calloc(count, sizeof *e->subspace.name, "TPE");
    e->subspace.distribution = ft_calloc(count, sizeof *e->subspace.distribution, "TPE");
    e->values = ft_calloc(count, sizeof *e->values, "TPE");
    const ft_distribution **d = ft_calloc(count, sizeof *d, "TPE");
    ft_status status = FT_NO_MEMORY;
    if (e->subspace.name == NULL || e->subspace.distribution == NULL || e->values == NULL || d == NULL) goto done;
    e->subspace.count = subspace->count;
    for (size_t i = 0; i < count; i++) {
        e->subspace.name[i] = subspace->name[i];
        e->subspace.distribution[i] = subspace->distribution[i];
        d[i] = trials->distributions[subspace->distribution[i]];
    }
    FT_TRY_GOTO(ft_parzen_init(&e->side[0].parzen, d, subspace->count, trials->objectives > 1), done);
    FT_TRY_GOTO(ft_parzen_init(&e->side[1].parzen, d, subspace->count, false), done);
    e->side[0].parzen.fine = e->side[1].parzen.fine = options->fine;
done:
    free(d);
    if (status != FT_OK)
        free_entry(e);
    else
        *out = e;
    return status;
}

static ft_status find_entry(ft_tpe_cache *c, const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                            const ft_subspace *subspace, entry **out) {
    entry *found = NULL;
    size_t bytes = (size_t)subspace->count * sizeof(int);
    for (entry **link = &c->entries; *link != NULL;) {
        entry *e = *link;
        if (e->subspace.count == subspace->count && memcmp(e->subspace.name, subspace->name, bytes) == 0 &&
            memcmp(e->subspace.distribution, subspace->distribution, bytes) == 0)
            found = e;
        if (e == found || e->used + IDLE_TRIALS < number) {
            *link = e->next;
            if (e != found) free_entry(e);
        } else {
            link = &e->next;
        }
    }
    if (found == NULL) FT_TRY(new_entry(trials, options, subspace, &found));
    found->next = c->entries; // in front, where a caller can drop it
    c->entries = found;
    found->used = number;
    *out = found;
    return FT_OK;
}

static ft_status grow_entry(entry *e, int64_t count) {
    if (count > e->capacity) {
        int64_t capacity = 2 * count;
        uint8_t *sides = ft_realloc(e->sides, (size_t)capacity, 1, "TPE");
        if (sides == NULL) return FT_NO_MEMORY;
        e->sides = sides;
        uint8_t *member = ft_realloc(e->member, (size_t)capacity, 1, "TPE");
        if (member == NULL) return FT_NO_MEMORY;
        e->member = member;
        e->capacity = capacity;
    }
    if (count > e->count) {
        memset(e->sides + e->count, FT_NEITHER, (size_t)(count - e->count));
        memset(e->member + e->count, 0, (size_t)(count - e->count));
        e->count = count;
    }
    return FT_OK;
}

// ---- Trials into and out of the estimators ----------------------------------------------------------------------

// How many trials of the list have a lower number.
static int position(const member_list *list, int64_t number) {
    int low = 0, high = list->parzen.count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (list->number[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_out(entry *e, int64_t number) {
    if (e->member[number] != 0) {
        member_list *list = &e->side[e->member[number] - 1];
        int at = position(list, number);
        ft_parzen_remove(&list->parzen, at);
        memmove(list->number + at, list->number + at + 1, (size_t)(list->parzen.count - at) * sizeof *list->number);
        e->member[number] = 0;
    }
    e->sides[number] = FT_NEITHER;
}

static ft_status put_in(entry *e, const ft_trial *trial, bool announced, uint8_t side) {
    if (trial->state == FT_RUNNING) {
        if (e->unsettled_count == e->unsettled_capacity) {
            int64_t capacity = 2 * e->unsettled_capacity + 8;
            int64_t *unsettled = ft_realloc(e->unsettled, (size_t)capacity, sizeof *unsettled, "TPE");
            if (unsettled == NULL) return FT_NO_MEMORY;
            e->unsettled = unsettled;
            e->unsettled_capacity = capacity;
        }
        e->unsettled[e->unsettled_count++] = trial->number;
    }
    e->sides[trial->number] = side;
    if (!ft_subspace_values(&e->subspace, trial, announced, e->values)) return FT_OK;
    member_list *list = &e->side[side == FT_BELOW ? 0 : 1];
    if (list->parzen.count == list->capacity) {
        int capacity = 2 * list->capacity + 32;
        int64_t *number = ft_realloc(list->number, (size_t)capacity, sizeof *number, "TPE");
        if (number == NULL) return FT_NO_MEMORY;
        list->number = number;
        list->capacity = capacity;
    }
    int at = position(list, trial->number);
    FT_TRY(ft_parzen_insert(&list->parzen, at, e->values));
    memmove(list->number + at + 1, list->number + at, (size_t)(list->parzen.count - 1 - at) * sizeof *list->number);
    list->number[at] = trial->number;
    e->member[trial->number] = side == FT_BELOW ? 1 : 2;
    return FT_OK;
}

// Parameters that are drawn alone have as many trials on each side, and so the same weights, as each other.
static void refresh(entry *e, int side) {
    ft_parzen *parzen = &e->side[side].parzen;
    const entry *other = e->next;
    while (other != NULL && other->side[side].parzen.weighted != parzen->count)
        other = other->next;
    ft_parzen_refresh_like(parzen, other != NULL ? &other->side[side].parzen : parzen);
}

static ft_status update(entry *e, const ft_trials *trials, const ft_tpe_options *options, const uint8_t *sides,
                        int stands_for) {
    FT_TRY(grow_entry(e, trials->count));
    for (int64_t i = 0; i < e->unsettled_count; i++)
        take_out(e, e->unsettled[i]);
    e->unsettled_count = 0;
    for (int64_t i = 0; i < trials->count; i++) {
        if (i + 8 <= trials->count && memcmp(sides + i, e->sides + i, 8) == 0) {
            i += 7;
            continue;
        }
        if (sides[i] == e->sides[i]) continue;
        take_out(e, i);
        if (sides[i] != FT_NEITHER) FT_TRY(put_in(e, &trials->trial[i], options->announced, sides[i]));
    }
    ft_tpe_set_width(options, &e->side[0].parzen, e->side[0].parzen.count,
                     (int64_t)e->side[1].parzen.count * stands_for);
    refresh(e, 0);
    refresh(e, 1);
    return FT_OK;
}

// ---- Suggestions ------------------------------------------------------------------------------------------------

static ft_status split_one(ft_tpe_cache *c, const ft_trials *trials, const ft_tpe_options *options, int64_t number, entry *e,
                           const uint8_t **sides) {
    const bool of_all = !options->branch_split;
    const ft_split_question question = {of_all ? NULL : &e->subspace, options->announced, options->constant_liar,
                                        options->failed, ft_tpe_most_others(options), number};
    ft_split_fast *fast = of_all ? &c->of_all : &e->split;
    FT_TRY(ft_split_fast_update(fast, trials, &question, &c->stands_for));
    *sides = fast->sides;
    return FT_OK;
}

static ft_status split_several(ft_tpe_cache *c, const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                               entry *e, const uint8_t **sides) {
    if (trials->count > c->sides_capacity) {
        int64_t capacity = 2 * trials->count;
        uint8_t *grown = ft_realloc(c->sides, (size_t)capacity, 1, "TPE");
        if (grown == NULL) return FT_NO_MEMORY;
        c->sides = grown;
        bool *among = ft_realloc(c->among, (size_t)capacity, sizeof *among, "TPE");
        if (among == NULL) return FT_NO_MEMORY;
        c->among = among;
        c->sides_capacity = capacity;
        c->split = false;
    }
    *sides = c->sides;
    bool all = true; // have these parameters: the split is every such subspace's
    for (int64_t i = 0; i < trials->count && options->branch_split; i++) {
        c->among[i] = ft_subspace_values(&e->subspace, &trials->trial[i], options->announced, e->values);
        all = all && (c->among[i] || i == number || trials->trial[i].state == FT_WAITING);
    }
    if (!all) {
        c->split = false;
        return ft_tpe_split(trials, options, number, c->among, c->sides, &c->stands_for);
    }
    if (c->split && c->states == trials->states && c->except == number) return FT_OK;
    c->split = false;
    FT_TRY(ft_tpe_split(trials, options, number, NULL, c->sides, &c->stands_for));
    c->split = true;
    c->states = trials->states;
    c->except = number;
    return FT_OK;
}

static ft_status scratch(double **array, size_t *capacity, size_t wanted) {
    if (wanted <= *capacity) return FT_OK;
    double *grown = ft_realloc(*array, wanted, sizeof *grown, "candidates");
    if (grown == NULL) return FT_NO_MEMORY;
    *array = grown;
    *capacity = wanted;
    return FT_OK;
}

ft_status ft_tpe_cache_suggest(ft_tpe_cache *c, const ft_trials *trials, const ft_tpe_options *options, int64_t number,
                               const ft_subspace *subspace, double *values) {
    size_t candidates = (size_t)options->candidates, width = (size_t)subspace->count;
    const uint8_t *sides;
    entry *e;
    FT_TRY(find_entry(c, trials, options, number, subspace, &e));
    FT_TRY((trials->objectives == 1 ? split_one : split_several)(c, trials, options, number, e, &sides));
    ft_status status = update(e, trials, options, sides, c->stands_for);
    if (status != FT_OK) { // half updated: start again at the next call
        c->entries = e->next;
        free_entry(e);
        return status;
    }
    FT_TRY(scratch(&c->points, &c->points_capacity, candidates * width));
    FT_TRY(scratch(&c->density, &c->density_capacity, 2 * candidates));
    member_list *below = &e->side[0], *above = &e->side[1];
    FT_TRY(ft_tpe_draw(trials, options, number, subspace, &below->parzen, c->points));
    FT_TRY(ft_parzen_fast_log_density(&below->fast, &below->parzen, c->points, options->candidates, c->density));
    FT_TRY(ft_parzen_fast_log_density(&above->fast, &above->parzen, c->points, options->candidates,
                                      c->density + candidates));
    ft_tpe_lean(options, c->points, width, c->density);
    int best = ft_tpe_choose(c->density, c->density + candidates, options->candidates);
    memcpy(values, c->points + (size_t)best * width, width * sizeof *values);
    return FT_OK;
}
