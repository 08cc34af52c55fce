#include "hpo/search/cmaes/cmaes.h"

#include "hpo/search/cmaes/evolution.h"
#include "hpo/search/cmaes/ranking.h"
#include "hpo/search/history/normal.h"
#include "hpo/search/history/random_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;
static const double LARGEST_SIGMA = 0.3, SMALLEST = 1e-8, WORST_CONDITION = 1e14;
// How far it looks around one point to begin from, and what is added to the spread of several.
#ifndef FIRST_DEVIATION
#define FIRST_DEVIATION 0.2
#define WARM_DEVIATION 0.1
#endif
enum { TRIES = 50, MOST_RESTARTS = 8 };

struct ft_cmaes {
    ft_arena arena; // of all below, but lists
    uint64_t seed;
    int beginning;
    ft_subspace subspace; // of its own
    int64_t *taken;       // [taken_count] trials that the state has learnt from, by number
    int64_t taken_count, room;
    int64_t *ended; // [settled_count], and behind them those that are listed anew: trials that ended and have all parameters, by number
    int64_t settled, settled_count, ended_room; // the first `settled` trials have all ended, and never change
    int restarts, since_better; // generations
    ft_standing best;           // of the run
    ft_evolution evolution;
    double *points;        // [lambda][n] of the generation that is told
    const double **sorted; // [lambda] of points
    ft_standing *standing; // [lambda]
};

ft_status ft_cmaes_new(ft_cmaes **out) {
    *out = ft_calloc(1, sizeof **out, "a sampler");
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

static void forget(ft_cmaes *c) {
    ft_arena_free(&c->arena);
    ft_subspace_free(&c->subspace);
    free(c->taken);
    free(c->ended);
    *c = (ft_cmaes){0};
}

void ft_cmaes_free(ft_cmaes *c) {
    if (c == NULL) return;
    forget(c);
    free(c);
}

// ---- coordinates ----------------------------------------------------------------------------------------------------

// Ranges are half a step wider at both ends, so that all values of a grid have equal room.
static void range_of(const ft_distribution *d, double *low, double *width) {
    const double first = d->low - d->step / 2, last = d->high + d->step / 2;
    *low = d->log ? log(first) : first;
    *width = (d->log ? log(last) : last) - *low;
}

static double unit_of(const ft_distribution *d, double value) {
    double low, width;
    range_of(d, &low, &width);
    return fmin(fmax(((d->log ? log(value) : value) - low) / width, 0), 1);
}

static double value_of(const ft_distribution *d, double unit) {
    double low, width;
    range_of(d, &low, &width);
    double x = low + unit * width;
    if (d->log) x = exp(x);
    if (d->step != 0) {
        const double last = nearbyint((d->high - d->low) / d->step), k = nearbyint((x - d->low) / d->step);
        x = d->low + fmin(fmax(k, 0), last) * d->step;
    }
    return fmin(fmax(x, d->low), d->high);
}

// false: it has not all of them, as a trial that failed early.
static bool point_of(const ft_subspace *subspace, const ft_trials *trials, const ft_trial *trial, double *point) {
    if (!ft_subspace_values(subspace, trial, false, point)) return false;
    for (int i = 0; i < subspace->count; i++)
        point[i] = unit_of(trials->distributions[subspace->distribution[i]], point[i]);
    return true;
}

ft_status ft_cmaes_subspace(const ft_trials *trials, const ft_subspace *all, ft_subspace *out) {
    const size_t room = (size_t)all->count + 1;
    *out = (ft_subspace){.name = ft_calloc(room, sizeof *out->name, "parameters"),
                         .distribution = ft_calloc(room, sizeof *out->distribution, "parameters")};
    if (out->name == NULL || out->distribution == NULL) {
        ft_subspace_free(out);
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < all->count; i++) {
        if (trials->distributions[all->distribution[i]]->kind == FT_CATEGORICAL) continue;
        out->name[out->count] = all->name[i];
        out->distribution[out->count++] = all->distribution[i];
    }
    return FT_OK;
}

// ---- a run ----------------------------------------------------------------------------------------------------------

static ft_status make_run(ft_cmaes *c, int lambda) {
    const size_t n = (size_t)c->subspace.count, many = (size_t)lambda;
    c->points = ft_arena_alloc(&c->arena, many * n * sizeof *c->points);
    c->sorted = ft_arena_alloc(&c->arena, many * sizeof *c->sorted);
    c->standing = ft_arena_alloc(&c->arena, many * sizeof *c->standing);
    if (c->points == NULL || c->sorted == NULL || c->standing == NULL) return FT_NO_MEMORY;
    c->best = (ft_standing){.kind = 4};
    c->since_better = 0;
    return ft_evolution_init(c->subspace.count, lambda, &c->arena, &c->evolution);
}

// The mean of the best tenth of the first trials, and how far these lie from it: as far as they agree, the search need
// not begin everywhere (Nomura et al. 2021, warm-started CMA-ES).
static ft_status begin(ft_cmaes *c, const ft_trials *trials) {
    const size_t n = (size_t)c->subspace.count, count = (size_t)c->taken_count;
    ft_standing *standing = ft_arena_alloc(&c->arena, (count + 1) * sizeof *standing);
    double *room = ft_arena_alloc(&c->arena, (2 * n + n * n) * sizeof *room), *point = room + n, *spread = room + 2 * n;
    int some = 0;
    if (standing == NULL || room == NULL) return FT_NO_MEMORY;
    FT_TRY(make_run(c, ft_evolution_lambda((int)n)));
    for (size_t i = 0; i < count; i++) {
        const ft_trial *trial = &trials->trial[c->taken[i]];
        if (trial->state == FT_COMPLETE) standing[some++] = ft_standing_of(trials, trial);
    }
    qsort(standing, (size_t)some, sizeof *standing, ft_standing_compare);
    some = (some + 9) / 10;
    for (size_t i = 0; i < n; i++)
        room[i] = some > 0 ? 0 : 0.5;
    for (int k = 0; k < some; k++) {
        point_of(&c->subspace, trials, &trials->trial[standing[k].number], point);
        for (size_t i = 0; i < n; i++)
            room[i] += point[i] / some;
    }
    // One point says where, not how far.
    const double own = some > 1 ? WARM_DEVIATION : FIRST_DEVIATION;
    double trace = 0;
    for (size_t i = 0; i < n; i++)
        spread[i * n + i] = own * own;
    for (int k = 0; k < some; k++) {
        point_of(&c->subspace, trials, &trials->trial[standing[k].number], point);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                spread[i * n + j] += (point[i] - room[i]) * (point[j] - room[j]) / some;
    }
    for (size_t i = 0; i < n; i++)
        trace += spread[i * n + i] / (double)n;
    for (size_t i = 0; i < n * n; i++)
        spread[i] /= trace;
    ft_evolution_begin(&c->evolution, room, fmin(sqrt(trace), LARGEST_SIGMA), spread);
    return FT_OK;
}

static ft_status begin_anew(ft_cmaes *c, const ft_trials *trials) {
    const int n = c->subspace.count, lambda = c->evolution.lambda;
    double *mean = ft_arena_alloc(&c->arena, (size_t)n * sizeof *mean);
    if (mean == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        ft_random_stream stream =
            ft_random_stream_of(c->seed, c->restarts, FT_DRAW_RESTART, trials->names.name[c->subspace.name[i]]);
        mean[i] = ft_random_double(&stream);
    }
    c->restarts++;
    FT_TRY(make_run(c, c->restarts <= MOST_RESTARTS ? 2 * lambda : lambda));
    ft_evolution_begin(&c->evolution, mean, LARGEST_SIGMA, NULL);
    return FT_OK;
}

// Nothing is left to find: all of it is one point, the numbers end, or it has been no better for long.
static bool is_over(const ft_cmaes *c) {
    const ft_evolution *e = &c->evolution;
    double widest = 0;
    for (int i = 0; i < e->n; i++)
        widest = fmax(widest, ft_evolution_deviation(e, i));
    if (widest < SMALLEST || !isfinite(widest) || ft_evolution_condition(e) > WORST_CONDITION) return true;
    return c->since_better > 10 + (30 * e->n + e->lambda - 1) / e->lambda;
}

static ft_status tell(ft_cmaes *c, const ft_trials *trials, const int64_t *numbers) {
    ft_evolution *e = &c->evolution;
    const size_t n = (size_t)e->n;
    for (int p = 0; p < e->lambda; p++)
        c->standing[p] = ft_standing_of(trials, &trials->trial[numbers[p]]);
    qsort(c->standing, (size_t)e->lambda, sizeof *c->standing, ft_standing_compare);
    for (int p = 0; p < e->lambda; p++) {
        c->sorted[p] = c->points + (size_t)p * n;
        point_of(&c->subspace, trials, &trials->trial[c->standing[p].number], c->points + (size_t)p * n);
    }
    const ft_standing *first = &c->standing[0], *best = &c->best;
    const bool better = first->kind != best->kind ? first->kind < best->kind : first->major < best->major;
    c->since_better = better ? 0 : c->since_better + 1;
    if (better) c->best = *first;
    ft_evolution_tell(e, c->sorted);
    return is_over(c) ? begin_anew(c, trials) : FT_OK;
}

// ---- a history ------------------------------------------------------------------------------------------------------

static bool same_question(const ft_cmaes *c, const ft_cmaes_options *o, const ft_subspace *subspace) {
    const size_t bytes = (size_t)subspace->count * sizeof *subspace->name;
    return c->seed == o->seed && c->beginning == o->beginning && c->subspace.count == subspace->count &&
           memcmp(c->subspace.name, subspace->name, bytes) == 0 &&
           memcmp(c->subspace.distribution, subspace->distribution, bytes) == 0;
}

static ft_status ask_anew(ft_cmaes *c, const ft_cmaes_options *o, const ft_trials *trials,
                          const ft_subspace *subspace) {
    forget(c);
    c->seed = o->seed;
    c->beginning = o->beginning;
    return ft_cmaes_subspace(trials, subspace, &c->subspace);
}

// c->ended [*count].
static ft_status list_ended(ft_cmaes *c, const ft_trials *trials, int64_t *count) {
    if (trials->count > c->ended_room) {
        const int64_t room = 2 * trials->count;
        int64_t *ended = ft_realloc(c->ended, (size_t)room, sizeof *ended, "a sampler");
        if (ended == NULL) return FT_NO_MEMORY;
        c->ended = ended;
        c->ended_room = room;
    }
    double *point = ft_calloc((size_t)c->subspace.count, sizeof *point, "a suggestion");
    if (point == NULL) return FT_NO_MEMORY;
    *count = c->settled_count;
    for (int64_t i = c->settled; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (!ft_trial_finished(trial->state)) continue;
        if (ft_subspace_values(&c->subspace, trial, false, point)) c->ended[(*count)++] = i;
        if (c->settled == i) c->settled++, c->settled_count = *count;
    }
    free(point);
    return FT_OK;
}

static ft_status keep_taken(ft_cmaes *c, const int64_t *numbers, int64_t count) {
    if (c->taken_count + count > c->room) {
        const int64_t room = 2 * (c->taken_count + count);
        int64_t *taken = ft_realloc(c->taken, (size_t)room, sizeof *taken, "a sampler");
        if (taken == NULL) return FT_NO_MEMORY;
        c->taken = taken;
        c->room = room;
    }
    memcpy(c->taken + c->taken_count, numbers, (size_t)count * sizeof *numbers);
    c->taken_count += count;
    return FT_OK;
}

// One that ended with a smaller number than some that the state has learnt from.
static bool is_late(const ft_cmaes *c, int64_t settled_before, int64_t count) {
    if (count < c->taken_count) return true;
    for (int64_t k = settled_before; k < c->taken_count; k++)
        if (c->ended[k] != c->taken[k]) return true;
    return false;
}

static ft_status catch_up(ft_cmaes *c, const ft_cmaes_options *o, const ft_trials *trials, const ft_subspace *subspace) {
    int64_t count;
    if (!same_question(c, o, subspace)) FT_TRY(ask_anew(c, o, trials, subspace));
    const int64_t before = c->settled_count;
    FT_TRY(list_ended(c, trials, &count));
    if (is_late(c, before, count) || c->evolution.n == 0 || c->taken_count < c->beginning) {
        FT_TRY(ask_anew(c, o, trials, subspace));
        FT_TRY(list_ended(c, trials, &count));
        FT_TRY(keep_taken(c, c->ended, count < c->beginning ? count : c->beginning));
        FT_TRY(begin(c, trials));
    }
    while (count - c->taken_count >= c->evolution.lambda) {
        const int64_t *next = c->ended + c->taken_count;
        const int lambda = c->evolution.lambda;
        FT_TRY(tell(c, trials, next));
        FT_TRY(keep_taken(c, next, lambda));
    }
    return FT_OK;
}

// ---- a suggestion ---------------------------------------------------------------------------------------------------

static double normal(ft_random_stream *stream) {
    const double radius = sqrt(-2 * log(1 - ft_random_double(stream)));
    return radius * cos(2 * PI * ft_random_double(stream));
}

// How much a deviation along an axis of a grid has to grow so that each side of the mean's own value keeps a chance of
// 1 / (n lambda): else it would stay there for ever (Hamano et al. 2022, CMA-ES with margin).
static double stretch_of(const ft_evolution *e, int axis, const ft_distribution *d) {
    if (d->step == 0) return 1;
    double low, width;
    range_of(d, &low, &width);
    const double here = value_of(d, e->mean[axis]), lower = here - d->step / 2, upper = here + d->step / 2;
    const double cell = (d->log ? log(upper) - log(fmax(lower, d->low - d->step / 2)) : d->step) / width;
    const double chance = 1 - 1 / ((double)e->n * e->lambda), deviation = ft_evolution_deviation(e, axis);
    const double least = cell / 2 / ft_truncated_normal_quantile(chance, -40, 40);
    return deviation < least ? least / fmax(deviation, 1e-300) : 1;
}

static bool inside(const double *point, int n) {
    for (int i = 0; i < n; i++)
        if (!(point[i] >= 0 && point[i] <= 1)) return false;
    return true;
}

static ft_status draw(ft_cmaes *c, const ft_trials *trials, int64_t number, double *values) {
    const ft_evolution *e = &c->evolution;
    const int n = e->n;
    ft_arena arena = {0};
    ft_random_stream *stream = ft_arena_alloc(&arena, (size_t)n * sizeof *stream);
    double *z = ft_arena_alloc(&arena, 2 * (size_t)n * sizeof *z), *stretch = z + n;
    if (stream == NULL || z == NULL) {
        ft_arena_free(&arena);
        return FT_NO_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        stream[i] = ft_random_stream_of(c->seed, number, FT_DRAW_EVOLVE, trials->names.name[c->subspace.name[i]]);
        stretch[i] = stretch_of(e, i, trials->distributions[c->subspace.distribution[i]]);
    }
    for (int k = 0; k < TRIES; k++) {
        for (int i = 0; i < n; i++)
            z[i] = normal(&stream[i]);
        ft_evolution_point(e, z, values);
        for (int i = 0; i < n; i++)
            values[i] = e->mean[i] + stretch[i] * (values[i] - e->mean[i]);
        if (inside(values, n)) break;
    }
    for (int i = 0; i < n; i++)
        values[i] = value_of(trials->distributions[c->subspace.distribution[i]], fmin(fmax(values[i], 0), 1));
    ft_arena_free(&arena);
    return FT_OK;
}

ft_status ft_cmaes_suggest(ft_cmaes *c, const ft_trials *trials, const ft_cmaes_options *options, int64_t number,
                           const ft_subspace *subspace, double *values) {
    ft_status status = catch_up(c, options, trials, subspace);
    if (status == FT_OK) return draw(c, trials, number, values);
    forget(c); // half of a generation is none
    return status;
}
