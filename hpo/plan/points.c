#include "hpo/plan/points.h"

#include "engine/plan/relevance.h"
#include "hpo/search/history/random_stream.h"
#include "hpo/search/sampler.h"
#include "hpo/space/fidelity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- which options ------------------------------------------------------------------------------------------------------

static bool counts(int option, bool with_texts) {
    const ft_relevance r = ft_option_relevance(option);
    return r == FT_RELEVANT || r == FT_RELEVANT_ZERO || (with_texts && r != FT_IRRELEVANT);
}

// Memory depends on it, or on what a condition of its line decides.
static void choose_options(ft_points *p, bool with_texts) {
    const ft_space *space = p->space;
    for (int i = 0; i < space->count; i++) p->of_option[space->rules[i].option] = counts(space->rules[i].option, with_texts);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < space->count; i++) {
            const ft_space_rule *rule = &space->rules[i];
            for (int k = 0; p->of_option[rule->option] && k < rule->test_count; k++) {
                more |= !p->of_option[rule->tests[k].option];
                p->of_option[rule->tests[k].option] = true;
            }
        }
    }
}

// ---- the values of an axis ----------------------------------------------------------------------------------------------

typedef struct values {
    ft_axis_value *list;
    char **like; // of each how the conditions judge it; two that are judged alike are one
    int count, capacity;
} values;

// 'y' or 'n' for each condition that looks at the option, and whether it is 0 where that counts.
static ft_status judged(ft_points *p, const ft_axis *axis, bool zero, double value, char **like) {
    const ft_space *space = p->space;
    const char *texts[FT_OPTION_LIMIT] = {NULL};
    const int option = axis->rule->option;
    size_t length = 0, most = 2;
    for (int i = 0; i < space->count; i++) most += (size_t)space->rules[i].test_count;
    *like = ft_arena_alloc(&p->arena, most);
    if (*like == NULL || (texts[option] = ft_space_value_text(axis->rule, value, &p->arena)) == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < space->count; i++)
        for (int k = 0; p->of_option[space->rules[i].option] && k < space->rules[i].test_count; k++) {
            ft_space_test *test = &space->rules[i].tests[k];
            const ft_space_rule one = {.tests = test, .test_count = 1};
            if (test->option == option) (*like)[length++] = ft_space_holds(&one, texts) ? 'y' : 'n';
        }
    if (zero) (*like)[length++] = value == 0 ? 'y' : 'n';
    return FT_OK;
}

static ft_status add_value(ft_points *p, const ft_axis *axis, bool zero, values *v, double value, double weight) {
    char *like = NULL;
    if (!axis->matters) FT_TRY(judged(p, axis, zero, value, &like));
    for (int i = 0; like != NULL && i < v->count; i++)
        if (strcmp(v->like[i], like) == 0) return v->list[i].weight += weight, FT_OK;
    if (v->count == v->capacity) {
        const int capacity = v->capacity > 0 ? 2 * v->capacity : 32;
        ft_axis_value *list = ft_arena_alloc(&p->arena, (size_t)capacity * sizeof *list);
        char **likes = ft_arena_alloc(&p->arena, (size_t)capacity * sizeof *likes);
        if (list == NULL || likes == NULL) return FT_NO_MEMORY;
        if (v->count > 0) memcpy(list, v->list, (size_t)v->count * sizeof *list);
        if (v->count > 0) memcpy(likes, v->like, (size_t)v->count * sizeof *likes);
        v->list = list, v->like = likes, v->capacity = capacity;
    }
    v->list[v->count] = (ft_axis_value){value, weight};
    v->like[v->count++] = like;
    return FT_OK;
}

// The share of random draws (distribution.h) that come to the k-th value.
static double weight_of(const ft_distribution *d, double size, double value) {
    if (d->kind != FT_INT || !d->log) return 1 / size;
    return log((value + d->step / 2) / (value - d->step / 2)) / log((d->high + d->step / 2) / (d->low - d->step / 2));
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Between two bounds of conditions all values are judged alike; a single value is never drawn.
static ft_status add_stretches(ft_points *p, const ft_axis *axis, bool zero, values *v) {
    const ft_distribution *d = &axis->rule->distribution;
    const ft_space *space = p->space;
    size_t most = 3, count = 0;
    for (int i = 0; i < space->count; i++)
        for (int k = 0; k < space->rules[i].test_count; k++) most += (size_t)space->rules[i].tests[k].count;
    double *bound = ft_arena_alloc(&p->arena, most * sizeof *bound);
    if (bound == NULL) return FT_NO_MEMORY;
    bound[count++] = d->low;
    bound[count++] = d->high;
    for (int i = 0; i < space->count; i++)
        for (int k = 0; k < space->rules[i].test_count; k++) {
            const ft_space_test *test = &space->rules[i].tests[k];
            for (int j = 0; test->option == axis->rule->option && j < test->count; j++) {
                const double at = strtod(test->values[j], NULL);
                if (at > d->low && at < d->high) bound[count++] = at;
            }
        }
    qsort(bound, count, sizeof *bound, by_value);
    for (size_t i = 0; i + 1 < count; i++) {
        const double a = bound[i], b = bound[i + 1], middle = d->log ? sqrt(a) * sqrt(b) : a / 2 + b / 2;
        if (!(a < b)) continue;
        const double part = d->log ? log(b / a) / log(d->high / d->low) : (b - a) / (d->high - d->low);
        FT_TRY(add_value(p, axis, zero, v, middle, part));
    }
    return v->count > 0 ? FT_OK : add_value(p, axis, zero, v, d->low, 1);
}

static ft_status fill_axis(ft_points *p, ft_axis *axis, bool with_texts) {
    const ft_distribution *d = &axis->rule->distribution;
    const int option = axis->rule->option;
    const ft_relevance r = ft_option_relevance(option);
    const bool zero = r == FT_RELEVANT_ZERO || (with_texts && r == FT_RELEVANT_ZERO_OF_TEXTS);
    const double size = ft_distribution_size(d);
    values v = {.count = 0};
    axis->matters = counts(option, with_texts) && !zero;
    axis->finite = size <= FT_MOST_POINTS;
    if (!axis->finite && axis->matters) return FT_OK;
    if (!axis->finite && !isinf(size)) return FT_OK; // far more values than anybody looks at one by one: drawn
    if (!axis->finite) FT_TRY(add_stretches(p, axis, zero, &v));
    for (int64_t k = 0; axis->finite && k < (int64_t)size; k++) {
        const double value = d->kind == FT_CATEGORICAL ? (double)k : k + 1 == (int64_t)size ? d->high : d->low + (double)k * d->step;
        FT_TRY(add_value(p, axis, zero, &v, value, weight_of(d, size, value)));
    }
    axis->finite = true;
    axis->values = v.list;
    axis->count = v.count;
    return FT_OK;
}

static ft_status make_axes(ft_points *p, bool with_texts) {
    const ft_space *space = p->space;
    p->axes = ft_arena_alloc(&p->arena, (size_t)(space->count + 1) * sizeof *p->axes);
    p->axis_of = ft_arena_alloc(&p->arena, (size_t)(space->count + 1) * sizeof *p->axis_of);
    if (p->axes == NULL || p->axis_of == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        p->axis_of[i] = -1;
        if (rule->fixed != NULL || !p->of_option[rule->option]) continue;
        p->axis_of[i] = p->axis_count;
        ft_axis *axis = &p->axes[p->axis_count++];
        axis->rule = rule;
        FT_TRY(fill_axis(p, axis, with_texts));
    }
    return FT_OK;
}

// ---- points -------------------------------------------------------------------------------------------------------------

static ft_status add_point(ft_points *p, const double *at, double weight) {
    const size_t n = (size_t)p->axis_count;
    if (p->count == p->capacity) {
        const int64_t capacity = p->capacity > 0 ? 2 * p->capacity : 256;
        double *value = ft_realloc(p->value, (size_t)capacity * (n + 1), sizeof *value, "points of a space");
        if (value == NULL) return FT_NO_MEMORY;
        p->value = value;
        double *weights = ft_realloc(p->weight, (size_t)capacity, sizeof *weights, "points of a space");
        if (weights == NULL) return FT_NO_MEMORY;
        p->weight = weights;
        p->capacity = capacity;
    }
    if (n > 0) memcpy(p->value + (size_t)p->count * n, at, n * sizeof *at);
    p->weight[p->count++] = weight;
    return FT_OK;
}

typedef enum walk_kind { WALK_ALL, WALK_CORNERS, WALK_DRAW_CORNER, WALK_DRAW } walk_kind;

typedef struct walk {
    ft_points *points;
    walk_kind kind;
    int64_t most;   // points; beyond them the walk ends
    bool ended;
    uint64_t seed;  // with the number, of a draw
    int64_t number;
    const char *texts[FT_OPTION_LIMIT];
    double *at;     // [axis_count]
    ft_arena arena; // of texts
} walk;

static ft_status step(walk *w, int rule_index, double weight);

// The rule gives the option this value, and the rest follows from there.
static ft_status take(walk *w, int rule_index, int axis, double value, double weight) {
    const ft_space_rule *rule = &w->points->space->rules[rule_index];
    if (w->ended) return FT_OK;
    w->texts[rule->option] = rule->fixed != NULL ? rule->fixed : ft_space_value_text(rule, value, &w->arena);
    if (w->texts[rule->option] == NULL) return FT_NO_MEMORY;
    if (axis >= 0) w->at[axis] = value;
    ft_status status = step(w, rule_index + 1, weight);
    if (axis >= 0) w->at[axis] = NAN;
    w->texts[rule->option] = NULL;
    return status;
}

// Both ends of numbers, all choices.
static ft_status take_ends(walk *w, int rule_index, int axis, double weight) {
    const ft_distribution *d = &w->points->axes[axis].rule->distribution;
    for (int k = 0; d->kind == FT_CATEGORICAL && k < d->choice_count; k++) FT_TRY(take(w, rule_index, axis, k, weight));
    if (d->kind == FT_CATEGORICAL) return FT_OK;
    FT_TRY(take(w, rule_index, axis, d->low, weight));
    return d->high > d->low ? take(w, rule_index, axis, d->high, weight) : FT_OK;
}

static ft_status take_drawn(walk *w, int rule_index, int axis, double weight) {
    const ft_space_rule *rule = w->points->axes[axis].rule;
    ft_random_stream stream = ft_random_stream_of(w->seed, w->number, FT_DRAW_UNIFORM, rule->name);
    double uniform = ft_random_double(&stream);
    if (w->kind == WALK_DRAW_CORNER && rule->distribution.kind != FT_CATEGORICAL) uniform = uniform < 0.5 ? 0 : 0x1.fffffffffffffp-1;
    return take(w, rule_index, axis, ft_value_of_uniform(&rule->distribution, uniform), weight);
}

// Option by option the first rule whose conditions hold, as a trial is decided (hpo/study/ask.c).
static ft_status step(walk *w, int rule_index, double weight) {
    ft_points *p = w->points;
    const ft_space *space = p->space;
    if (w->ended) return FT_OK;
    while (rule_index < space->count) {
        const ft_space_rule *rule = &space->rules[rule_index];
        if (p->of_option[rule->option] && w->texts[rule->option] == NULL && ft_space_holds(rule, w->texts)) break;
        rule_index++;
    }
    if (rule_index == space->count) {
        w->ended = p->count == w->most;
        return w->ended ? FT_OK : add_point(p, w->at, weight);
    }
    const int axis = p->axis_of[rule_index];
    if (axis < 0) return take(w, rule_index, axis, 0, weight);
    if (w->kind == WALK_CORNERS) return take_ends(w, rule_index, axis, weight);
    if (w->kind != WALK_ALL) return take_drawn(w, rule_index, axis, weight);
    const ft_axis *a = &p->axes[axis];
    for (int i = 0; i < a->count && !w->ended; i++) FT_TRY(take(w, rule_index, axis, a->values[i].value, weight * a->values[i].weight));
    return FT_OK;
}

static ft_status walk_from(ft_points *p, walk *w, double weight) {
    w->points = p;
    w->at = ft_arena_alloc(&w->arena, (size_t)(p->axis_count + 1) * sizeof *w->at);
    if (w->at == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < p->axis_count; i++) w->at[i] = NAN;
    ft_status status = step(w, 0, weight);
    ft_arena_free(&w->arena);
    return status;
}

static ft_status add_sample(ft_points *p, uint64_t seed) {
    walk corners = {.kind = WALK_CORNERS, .most = FT_MOST_CORNERS};
    FT_TRY(walk_from(p, &corners, 0));
    p->all_corners = !corners.ended;
    if (corners.ended) p->count = 0;
    for (int64_t i = 0; corners.ended && i < FT_MOST_CORNERS; i++) { // some of them
        walk corner = {.kind = WALK_DRAW_CORNER, .most = INT64_MAX, .seed = seed + 1, .number = i};
        FT_TRY(walk_from(p, &corner, 0));
    }
    p->corners = p->count;
    for (int64_t i = 0; i < FT_SAMPLED_POINTS; i++) {
        walk draw = {.kind = WALK_DRAW, .most = INT64_MAX, .seed = seed, .number = i};
        FT_TRY(walk_from(p, &draw, 1.0 / FT_SAMPLED_POINTS));
    }
    return FT_OK;
}

ft_status ft_points_make(const ft_space *space, bool with_texts, uint64_t seed, ft_points *p) {
    *p = (ft_points){.space = space, .exhaustive = true};
    choose_options(p, with_texts);
    FT_TRY(make_axes(p, with_texts));
    for (int i = 0; i < p->axis_count; i++) p->exhaustive &= p->axes[i].finite;
    if (p->exhaustive) {
        walk all = {.kind = WALK_ALL, .most = FT_MOST_POINTS};
        FT_TRY(walk_from(p, &all, 1));
        p->exhaustive = !all.ended;
    }
    if (p->exhaustive) return FT_OK;
    p->count = 0;
    return add_sample(p, seed);
}

void ft_points_free(ft_points *p) {
    free(p->value);
    free(p->weight);
    ft_arena_free(&p->arena);
    *p = (ft_points){.space = NULL};
}

ft_status ft_points_texts(const ft_points *p, int64_t index, ft_arena *arena, const char *texts[FT_OPTION_LIMIT]) {
    const double *at = p->value + (size_t)index * (size_t)p->axis_count;
    memset(texts, 0, FT_OPTION_LIMIT * sizeof *texts);
    for (int i = 0; i < p->space->count; i++) {
        const ft_space_rule *rule = &p->space->rules[i];
        const int axis = p->axis_of[i];
        if (!p->of_option[rule->option] || texts[rule->option] != NULL || !ft_space_holds(rule, texts)) continue;
        texts[rule->option] = axis < 0 ? rule->fixed : ft_space_value_text(rule, at[axis], arena);
        if (texts[rule->option] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

ft_status ft_points_config(const ft_points *p, const ft_config *config, int64_t index, ft_config *out) {
    const char *texts[FT_OPTION_LIMIT];
    *out = *config;
    out->arena = (ft_arena){0};
    FT_TRY(ft_points_texts(p, index, &out->arena, texts));
    for (int i = 0; i < ft_option_count(); i++)
        if (texts[i] != NULL) FT_TRY(ft_option_set(out, ft_option_at(i), texts[i], NULL, ft_option_name(i)));
    FT_TRY(ft_fidelity_apply(config, out));
    return ft_config_check(out);
}
