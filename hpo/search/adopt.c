#include "hpo/search/adopt.h"

#include <math.h>
#include <string.h>

// ---- the first trials -----------------------------------------------------------------------------------------------

static const double NEAR = 0.03; // of this study's range: nothing new would be learnt there

typedef struct adopting {
    ft_gp_teachers *teachers;
    double *point;  // [axes] of a teacher's trial as it would be here
    double *weight; // [sources]
    double *taken;  // [trials][axes] where trials of this study lie
    int taken_count;
    const ft_distribution **ours; // [axes] of this study's latest trial that has the parameter; NULL: none has
} adopting;

static void find_ours(adopting *a, const ft_trials *trials) {
    for (int k = 0; k < a->teachers->lessons->axes; k++)
        a->ours[k] = NULL;
    for (int64_t i = 0; i < trials->count; i++)
        for (int p = 0; p < trials->trial[i].param_count; p++) {
            const ft_trial_param *param = &trials->trial[i].params[p];
            const int k = ft_lessons_find(a->teachers->lessons, trials->names.name[param->name]);
            if (k >= 0) a->ours[k] = trials->distributions[param->distribution];
        }
}

// The nearest value that the distribution has: steps, and the edge for what lies beyond.
static double nearest(const ft_distribution *d, double x) {
    if (d->kind == FT_CATEGORICAL) return x;
    if (d->step != 0) x = d->low + nearbyint((x - d->low) / d->step) * d->step;
    return fmin(fmax(x, d->low), d->high);
}

static double place(const adopting *a, int k, double value) {
    const ft_distribution *d = a->ours[k];
    const bool goes = d != NULL && !isnan(value) && a->teachers->lessons->axis[k].choice == (d->kind == FT_CATEGORICAL);
    return ft_lessons_unit(&a->teachers->lessons->axis[k], goes ? nearest(d, value) : value);
}

static double range_of(const adopting *a, int k) {
    const ft_lesson_axis *axis = &a->teachers->lessons->axis[k];
    return a->ours[k] != NULL ? ft_lessons_unit(axis, a->ours[k]->high) - ft_lessons_unit(axis, a->ours[k]->low) : 1;
}

// A teacher's trial and one of this study, by what both have: other values of the teacher's may become anything here, and what its trial
// lacks, or ours by its conditions, makes no difference.
static bool near(const adopting *a, const double *taken) {
    const ft_lessons *l = a->teachers->lessons;
    int both = 0;
    for (int k = 0; k < l->axes; k++) {
        const double x = a->point[k], y = taken[k];
        if (isnan(x) || isnan(y) || (l->axis[k].choice && x == FT_LESSON_UNKNOWN)) continue;
        if (l->axis[k].choice ? x != y : fabs(x - y) > NEAR * range_of(a, k)) return false;
        both++;
    }
    return both > 0;
}

static bool is_new(const adopting *a) {
    for (int i = 0; i < a->taken_count; i++)
        if (near(a, a->taken + (size_t)i * (size_t)a->teachers->lessons->axes)) return false;
    return true;
}

// Of the trials of the teachers with weight (`only`: of one of them) the one of which most is expected.
static void best_row(adopting *a, int only, const double **row) {
    const ft_lessons *l = a->teachers->lessons;
    const size_t axes = (size_t)l->axes;
    double best = INFINITY;
    for (int s = 0; s < l->sources; s++) {
        if (only >= 0 ? s != only : !(a->weight[s] > 0)) continue;
        for (int i = 0; i < l->source[s].count; i++) {
            const double *values = l->source[s].value + (size_t)i * axes;
            double expected = 0;
            for (int k = 0; k < l->axes; k++)
                a->point[k] = place(a, k, values[k]);
            for (int t = 0; t < l->sources; t++)
                if (only >= 0 ? t == only : a->weight[t] > 0)
                    expected += (only >= 0 ? 1 : a->weight[t]) * ft_gp_teachers_mean(a->teachers, t, a->point, NULL);
            if (expected < best && is_new(a)) best = expected, *row = values;
        }
    }
}

static ft_status adopt(adopting *a, const ft_trials *trials, int64_t number, ft_arena *arena, const double **row) {
    const ft_lessons *l = a->teachers->lessons;
    const size_t axes = (size_t)l->axes;
    int judged;
    a->point = ft_arena_alloc(arena, (axes + 1) * sizeof *a->point);
    a->weight = ft_arena_alloc(arena, (size_t)(l->sources + 1) * sizeof *a->weight);
    a->taken = ft_arena_alloc(arena, ((size_t)trials->count * axes + 1) * sizeof *a->taken);
    a->ours = ft_arena_alloc(arena, (axes + 1) * sizeof *a->ours);
    if (a->point == NULL || a->weight == NULL || a->taken == NULL || a->ours == NULL) return FT_NO_MEMORY;
    find_ours(a, trials);
    for (int64_t i = 0; i < trials->count; i++)
        if (i != number && trials->trial[i].state != FT_WAITING)
            ft_gp_teachers_point(a->teachers, trials, &trials->trial[i], true,
                                 a->taken + (size_t)a->taken_count++ * axes);
    FT_TRY(ft_gp_teachers_weigh(a->teachers, trials, a->weight, &judged));
    if (judged >= FT_TEACHERS_UNJUDGED)
        best_row(a, -1, row);
    else if (number % 2 == 1)
        best_row(a, (int)(number / 2 % l->sources), row);
    return FT_OK;
}

ft_status ft_adopt(ft_gp_teachers *teachers, const ft_trials *trials, int64_t number, const double **row) {
    adopting a = {.teachers = teachers};
    ft_arena arena = {0};
    *row = NULL;
    ft_status status = teachers->lessons->sources > 0 ? adopt(&a, trials, number, &arena, row) : FT_OK;
    ft_arena_free(&arena);
    return status;
}

bool ft_adopted_value(const ft_lessons *lessons, const double *row, const char *name, const ft_distribution *d,
                      double *value) {
    const int a = ft_lessons_find(lessons, name);
    if (a < 0 || isnan(row[a]) || lessons->axis[a].choice != (d->kind == FT_CATEGORICAL)) return false;
    *value = nearest(d, row[a]);
    return ft_distribution_contains(d, *value);
}

// ---- TPE ------------------------------------------------------------------------------------------------------------

static const double LEANING = 10; // trials that a trusted teacher is worth

ft_status ft_lean_of(ft_gp_teachers *teachers, const ft_trials *trials, int64_t number, const ft_subspace *subspace,
                     ft_arena *arena, ft_lean *lean) {
    const int sources = teachers->lessons->sources;
    double largest = 0, sum = 0;
    int judged;
    *lean = (ft_lean){.teachers = teachers,
                      .trials = trials,
                      .subspace = subspace,
                      .number = number,
                      .weight = ft_arena_alloc(arena, (size_t)(sources + 1) * sizeof *lean->weight),
                      .point = ft_arena_alloc(arena, (size_t)(teachers->lessons->axes + 1) * sizeof *lean->point)};
    if (lean->weight == NULL || lean->point == NULL) return FT_NO_MEMORY;
    if (trials->finished == 0 || trials->finished > FT_LEAN_TRIALS || number % 2 == 0) return FT_OK;
    FT_TRY(ft_gp_teachers_weigh(teachers, trials, lean->weight, &judged));
    for (int s = 0; s < sources; s++)
        largest = fmax(largest, lean->weight[s]), sum += lean->weight[s];
    if (judged < FT_TEACHERS_UNJUDGED || !(sum > 0)) return FT_OK;
    for (int s = 0; s < sources; s++)
        lean->weight[s] /= sum;
    lean->strength = largest * LEANING / (double)trials->finished;
    return FT_OK;
}

double ft_lean_at(void *context, const double *values) {
    ft_lean *lean = context;
    const ft_lessons *l = lean->teachers->lessons;
    double mean = 0;
    if (lean->strength == 0) return 0;
    ft_gp_teachers_point(lean->teachers, lean->trials, &lean->trials->trial[lean->number], true, lean->point);
    for (int i = 0; i < lean->subspace->count; i++) {
        const int a = ft_lessons_find(l, lean->trials->names.name[lean->subspace->name[i]]);
        if (a >= 0) lean->point[a] = ft_lessons_unit(&l->axis[a], values[i]);
    }
    for (int s = 0; s < l->sources; s++)
        if (lean->weight[s] > 0) mean += lean->weight[s] * ft_gp_teachers_mean(lean->teachers, s, lean->point, NULL);
    return -lean->strength * mean;
}
