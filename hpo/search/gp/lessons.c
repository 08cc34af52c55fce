#include "hpo/search/gp/lessons.h"

#include "hpo/search/gp/choose.h"
#include "hpo/search/gp/targets.h"

#include <math.h>
#include <string.h>

int ft_lessons_find(const ft_lessons *l, const char *name) {
    for (int a = 0; a < l->axes; a++)
        if (strcmp(l->axis[a].name, name) == 0) return a;
    return -1;
}

static void widen(ft_lesson_axis *axis, const ft_distribution *d) {
    double low = d->low - d->step / 2, high = d->high + d->step / 2;
    if (axis->choice || d->kind == FT_CATEGORICAL || (axis->log && !(low > 0))) return;
    if (axis->log) low = log(low), high = log(high);
    axis->low = fmin(axis->low, low);
    axis->high = fmax(axis->high, high);
}

// Whether a range with theirs in it still has a width that is a number.
static bool stays_finite(ft_lesson_axis axis, const ft_distribution *theirs) {
    widen(&axis, theirs);
    return axis.choice || isfinite(axis.high - axis.low);
}

ft_status ft_lessons_axis(ft_lessons *l, ft_arena *arena, const char *name, const ft_distribution *d) {
    if (ft_distribution_single(d)) return FT_OK;
    int a = ft_lessons_find(l, name);
    if (a < 0 && l->sources > 0) return ft_fail(FT_INVALID, name, "an axis comes before the first source");
    if (a < 0) {
        ft_distribution *of = ft_arena_alloc(arena, sizeof *of);
        ft_lesson_axis *grown = ft_arena_alloc(arena, (size_t)(l->axes + 1) * sizeof *grown);
        if (of == NULL || grown == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_distribution_copy(arena, d, of));
        if (l->axes > 0) memcpy(grown, l->axis, (size_t)l->axes * sizeof *grown);
        l->axis = grown;
        a = l->axes++;
        grown[a] = (ft_lesson_axis){.name = ft_arena_strdup(arena, name),
                                    .choice = d->kind == FT_CATEGORICAL,
                                    .log = d->log,
                                    .low = INFINITY,
                                    .high = -INFINITY,
                                    .of = of};
        if (grown[a].name == NULL) return FT_NO_MEMORY;
    }
    widen(&l->axis[a], d);
    return FT_OK;
}

double ft_lessons_unit(const ft_lesson_axis *axis, double value) {
    if (isnan(value) || axis->choice) return value;
    return ((axis->log ? log(value) : value) - axis->low) / (axis->high - axis->low);
}

// ---- another study's trials -----------------------------------------------------------------------------------------

static bool on_one_scale(const ft_lesson_axis *axis, const ft_distribution *theirs) {
    return axis->choice == (theirs->kind == FT_CATEGORICAL) && axis->log == theirs->log && stays_finite(*axis, theirs);
}

bool ft_lessons_goes_with(const ft_lesson_axis *axis, const ft_distribution *theirs) {
    if (!on_one_scale(axis, theirs)) return false;
    for (int i = 0; axis->choice && i < theirs->choice_count; i++)
        if (ft_distribution_find_choice(axis->of, &theirs->choices[i]) >= 0) return true;
    return !axis->choice;
}

bool ft_lessons_known(const ft_lessons *l, int source, int axis) {
    const ft_lesson_source *s = &l->source[source];
    for (int i = 0; i < s->count; i++) {
        const double value = s->value[(size_t)i * (size_t)l->axes + (size_t)axis];
        if (!isnan(value) && !(l->axis[axis].choice && value == FT_LESSON_UNKNOWN)) return true;
    }
    return false;
}

static double translate(const ft_lesson_axis *axis, const ft_distribution *d, double value) {
    if (axis->choice) {
        const int index = ft_distribution_find_choice(axis->of, &d->choices[(int)value]);
        return index >= 0 ? index : FT_LESSON_UNKNOWN;
    }
    return fmin(fmax(value, d->low), d->high); // Optuna takes values from beyond a range where somebody enqueues them
}

static void take(ft_lessons *l, const ft_trials *trials, const ft_trial *trial, double *row) {
    for (int a = 0; a < l->axes; a++)
        row[a] = NAN;
    for (int p = 0; p < trial->param_count; p++) {
        const ft_distribution *d = trials->distributions[trial->params[p].distribution];
        const int a = ft_lessons_find(l, trials->names.name[trial->params[p].name]);
        if (a < 0 || !on_one_scale(&l->axis[a], d)) continue;
        widen(&l->axis[a], d);
        row[a] = translate(&l->axis[a], d, trial->params[p].value);
    }
}

typedef struct gathering {
    ft_gp_targets targets;
    double *loss; // [kept]
    int *at;      // [kept] which target
    ft_gp_ranked *scratch;
    bool *mark;
    int *chosen;
} gathering;

static ft_status gather(const ft_trials *trials, ft_arena *arena, gathering *g, int *kept) {
    FT_TRY(ft_gp_targets_of(trials, arena, &g->targets));
    const size_t n = (size_t)g->targets.count + 1;
    g->loss = ft_arena_alloc(arena, n * sizeof *g->loss);
    g->at = ft_arena_alloc(arena, n * sizeof *g->at);
    g->scratch = ft_arena_alloc(arena, n * sizeof *g->scratch);
    g->mark = ft_arena_alloc(arena, n * sizeof *g->mark);
    g->chosen = ft_arena_alloc(arena, n * sizeof *g->chosen);
    if (g->loss == NULL || g->at == NULL || g->scratch == NULL || g->mark == NULL || g->chosen == NULL)
        return FT_NO_MEMORY;
    *kept = 0;
    for (int i = 0; i < g->targets.count; i++) {
        const ft_trial *trial = &trials->trial[g->targets.number[i]];
        if (!g->targets.good[i] || ft_trial_violation(trial) > 0) continue;
        g->at[*kept] = i;
        g->loss[(*kept)++] = g->targets.loss[i];
    }
    return FT_OK;
}

static ft_status add_from(ft_lessons *l, ft_arena *arena, ft_arena *scratch, const char *study,
                          const ft_trials *trials) {
    gathering g;
    int kept;
    FT_TRY(gather(trials, scratch, &g, &kept));
    const int count = ft_gp_choose(g.loss, kept, FT_LESSON_TRIALS, g.scratch, g.mark, g.chosen);
    ft_lesson_source *grown = ft_arena_alloc(arena, (size_t)(l->sources + 1) * sizeof *grown);
    double *value = ft_arena_alloc(arena, ((size_t)count * (size_t)l->axes + 1) * sizeof *value);
    double *loss = ft_arena_alloc(arena, (size_t)(count + 1) * sizeof *loss);
    char *name = ft_arena_strdup(arena, study);
    if (grown == NULL || value == NULL || loss == NULL || name == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        loss[i] = g.loss[g.chosen[i]];
        take(l, trials, &trials->trial[g.targets.number[g.at[g.chosen[i]]]], value + (size_t)i * (size_t)l->axes);
    }
    if (l->sources > 0) memcpy(grown, l->source, (size_t)l->sources * sizeof *grown);
    l->source = grown;
    grown[l->sources++] = (ft_lesson_source){.study = name, .count = count, .value = value, .loss = loss};
    return FT_OK;
}

ft_status ft_lessons_add(ft_lessons *l, ft_arena *arena, const char *study, const ft_trials *trials) {
    ft_arena scratch = {0};
    ft_status status = add_from(l, arena, &scratch, study, trials);
    ft_arena_free(&scratch);
    return status;
}
