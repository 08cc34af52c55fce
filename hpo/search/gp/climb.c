#include "hpo/search/gp/climb.h"

#include "hpo/search/gp/minimise.h"
#include "hpo/search/history/random_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_VALUES = 16, ROUNDS = 3, CLIMB_STEPS = 30 };

typedef struct candidate {
    double *point; // [axes]
    double value;
    int branch;
} candidate;

typedef struct place {
    const ft_gp_climb *c;
    const ft_gp_branch *branch;
    double *point, *gradient; // [axes]
    int *free;                // [free_count] axes of continuous numbers that are not fixed
    int free_count;
    double *x, *low, *high; // [axes]
} place;

static double frac(double x) { return x - floor(x); }

static const ft_distribution *distribution(const ft_gp_climb *c, const ft_gp_branch *b, int a) {
    return c->trials->distributions[b->distribution[a]];
}

static bool allowed(const ft_gp_climb *c, const ft_gp_branch *b, int a, int choice) {
    return b->allowed[(size_t)a * (size_t)c->branches->choices + (size_t)choice];
}

// A place on the axis that a value of the distribution has.
static double snap(const ft_gp_climb *c, const ft_gp_branch *b, int a, double unit) {
    unit = fmin(fmax(unit, b->low[a]), b->high[a]);
    const ft_distribution *d = distribution(c, b, a);
    return d->step == 0 ? unit : ft_gp_unit(c->axes, a, ft_gp_value(c->axes, a, d, unit));
}

static double of_uniform(const ft_gp_climb *c, const ft_gp_branch *b, int a, double u) {
    if (!c->axes->choice[a]) return snap(c, b, a, b->low[a] + u * (b->high[a] - b->low[a]));
    int count = 0, wanted;
    const int choices = distribution(c, b, a)->choice_count;
    for (int k = 0; k < choices; k++)
        count += allowed(c, b, a, k);
    wanted = (int)(u * count);
    for (int k = 0; k < choices; k++)
        if (allowed(c, b, a, k) && wanted-- == 0) return k;
    return 0;
}

static bool fits(const ft_gp_climb *c, const ft_gp_branch *b) {
    for (int a = 0; a < c->axes->count; a++) {
        if (isnan(c->fixed[a])) continue;
        if (!b->has[a]) return false;
        if (c->axes->choice[a] ? !allowed(c, b, a, (int)c->fixed[a])
                               : c->fixed[a] < b->low[a] - 1e-9 || c->fixed[a] > b->high[a] + 1e-9)
            return false;
    }
    return true;
}

// ---- candidates -----------------------------------------------------------------------------------------------------

// The root of x^(n+1) = x + 1: its powers spread points evenly over n axes (Roberts 2018).
static double spread(int n) {
    double x = 2;
    for (int i = 0; i < 40; i++)
        x = pow(1 + x, 1.0 / (n + 1));
    return x;
}

static void quasi_point(const ft_gp_climb *c, const ft_gp_branch *b, const double *shift, double root, int index,
                        double *point) {
    double power = 1;
    for (int a = 0; a < c->axes->count; a++) {
        power /= root;
        point[a] = !b->has[a]            ? NAN
                   : !isnan(c->fixed[a]) ? c->fixed[a]
                                         : of_uniform(c, b, a, frac(shift[a] + (index + 1) * power));
    }
}

// A good trial with some of its values changed, more or less.
static void near_point(const ft_gp_climb *c, const ft_gp_branch *b, const double *elite, ft_random_stream *s, int index,
                       double *point) {
    static const double widths[] = {0.2, 0.05, 0.01, 0.002};
    const double width = widths[index % 4], share = index % 8 < 4 ? 1 : 0.3;
    for (int a = 0; a < c->axes->count; a++) {
        const double radius = sqrt(-2 * log(1 - ft_random_double(s))),
                     angle = 6.28318530717958648 * ft_random_double(s);
        const double pick = ft_random_double(s), other = ft_random_double(s);
        if (!b->has[a])
            point[a] = NAN;
        else if (!isnan(c->fixed[a]))
            point[a] = c->fixed[a];
        else if (isnan(elite[a]))
            point[a] = of_uniform(c, b, a, other);
        else if (c->axes->choice[a])
            point[a] = pick < 0.2 || !allowed(c, b, a, (int)elite[a]) ? of_uniform(c, b, a, other) : elite[a];
        else
            point[a] = snap(c, b, a, elite[a] + (pick < share ? width * radius * cos(angle) : 0));
    }
}

static int by_value(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->point > y->point) - (x->point < y->point); // in the order they were made
}

static ft_status make_candidates(const ft_gp_climb *c, ft_arena *arena, candidate *out, int *count) {
    const int axes = c->axes->count;
    int fitting = 0;
    for (int k = 0; k < c->branches->count; k++)
        fitting += fits(c, &c->branches->branch[k]);
    *count = 0;
    if (fitting == 0) return FT_OK;
    double *shift = ft_arena_alloc(arena, (size_t)(axes + 1) * sizeof *shift);
    double *points = ft_arena_alloc(arena, (size_t)c->candidates * (size_t)(axes + 1) * sizeof *points);
    if (shift == NULL || points == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < axes; a++) {
        ft_random_stream s =
            ft_random_stream_of(c->seed, c->number, FT_DRAW_ACQUIRE, c->trials->names.name[c->axes->axis[a].name]);
        shift[a] = ft_random_double(&s);
    }
    ft_random_stream near = ft_random_stream_of(c->seed, c->number, FT_DRAW_ACQUIRE, "");
    const double root = spread(axes);
    const int each = c->candidates / fitting;
    for (int k = 0; k < c->branches->count; k++) {
        const ft_gp_branch *b = &c->branches->branch[k];
        if (!fits(c, b)) continue;
        for (int i = 0; i < each; i++) {
            candidate *made = &out[(*count)++];
            *made = (candidate){.point = points, .branch = k};
            points += axes;
            if (c->elites > 0 && i % 2 == 1)
                near_point(c, b, c->elite + (size_t)(i / 2 % c->elites) * (size_t)axes, &near, i / 2 / c->elites,
                           made->point);
            else
                quasi_point(c, b, shift, root, i, made->point);
            made->value = ft_gp_acquire(c->acquisition, made->point, NULL);
            if (isnan(made->value)) made->value = -INFINITY;
        }
    }
    qsort(out, (size_t)*count, sizeof *out, by_value);
    return FT_OK;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

static double fall(void *context, const double *x, double *gradient) {
    place *p = context;
    for (int i = 0; i < p->free_count; i++)
        p->point[p->free[i]] = x[i];
    const double value = ft_gp_acquire(p->c->acquisition, p->point, p->gradient);
    for (int i = 0; i < p->free_count; i++)
        gradient[i] = -p->gradient[p->free[i]];
    return -value;
}

static ft_status slide(place *p, double *value) {
    const ft_minimise m = {.function = fall,
                           .context = p,
                           .low = p->low,
                           .high = p->high,
                           .n = p->free_count,
                           .steps = CLIMB_STEPS,
                           .tolerance = 1e-3};
    double least;
    if (p->free_count == 0) return FT_OK;
    for (int i = 0; i < p->free_count; i++)
        p->x[i] = fmin(fmax(p->point[p->free[i]], p->low[i]), p->high[i]);
    FT_TRY(ft_minimise_run(&m, p->x, &least));
    for (int i = 0; i < p->free_count; i++)
        p->point[p->free[i]] = p->x[i];
    if (isfinite(least)) *value = -least;
    return FT_OK;
}

static void consider(place *p, int a, double unit, double *best, double *value) {
    const double before = p->point[a];
    p->point[a] = unit;
    const double now = ft_gp_acquire(p->c->acquisition, p->point, NULL);
    if (now > *value + 1e-9) *value = now, *best = unit;
    p->point[a] = before;
}

// The best value of one axis that is no continuous number, the others as they are.
static bool hop(place *p, int a, double *value) {
    const ft_gp_climb *c = p->c;
    const ft_distribution *d = distribution(c, p->branch, a);
    const double here = p->point[a], count = ft_distribution_size(d);
    double best = here;
    if (c->axes->choice[a]) {
        for (int k = 0; k < d->choice_count; k++)
            if (allowed(c, p->branch, a, k) && k != here) consider(p, a, k, &best, value);
    } else {
        const double at = ft_gp_value(c->axes, a, d, here);
        for (double hops = 1; hops < count; hops = count <= FEW_VALUES ? hops + 1 : 2 * hops)
            for (int side = -1; side <= 1; side += 2) {
                const double unit = ft_gp_unit(c->axes, a, at + side * hops * d->step);
                if (unit >= p->branch->low[a] - 1e-12 && unit <= p->branch->high[a] + 1e-12)
                    consider(p, a, unit, &best, value);
            }
    }
    p->point[a] = best;
    return best != here;
}

static ft_status improve(place *p, double *value) {
    const ft_gp_climb *c = p->c;
    p->free_count = 0;
    for (int a = 0; a < c->axes->count; a++) {
        if (!p->branch->has[a] || !isnan(c->fixed[a]) || c->axes->choice[a] || distribution(c, p->branch, a)->step != 0)
            continue;
        p->low[p->free_count] = p->branch->low[a];
        p->high[p->free_count] = p->branch->high[a];
        p->free[p->free_count++] = a;
    }
    for (int round = 0; round < ROUNDS; round++) {
        bool moved = false;
        FT_TRY(slide(p, value));
        for (int a = 0; a < c->axes->count; a++)
            if (p->branch->has[a] && isnan(c->fixed[a]) &&
                (c->axes->choice[a] || distribution(c, p->branch, a)->step != 0))
                moved = hop(p, a, value) || moved;
        if (!moved) break;
    }
    return FT_OK;
}

// Has another trial these values, all that it has? (Where a branch has more, they were never asked for: the same would come of it.) One
// that has none of the parameters, since it failed before it asked for any, was nowhere.
static bool tried(const ft_gp_climb *c, const candidate *made) {
    const ft_gp_branch *b = &c->branches->branch[made->branch];
    for (int64_t i = 0; i < c->trials->count; i++) {
        if (i == c->number || c->trials->trial[i].state == FT_WAITING) continue;
        bool same = true, any = false;
        for (int a = 0; a < c->axes->count && same; a++) {
            const ft_trial_param *p = ft_trial_find_param(&c->trials->trial[i], c->axes->axis[a].name);
            if (p == NULL) continue;
            same = b->has[a] && p->value == ft_gp_value(c->axes, a, distribution(c, b, a), made->point[a]);
            any = true;
        }
        if (same && any) return true;
    }
    return false;
}

// Whether two candidates are different enough to be started from both.
static bool far(const ft_gp_climb *c, const candidate *x, const candidate *y) {
    if (x->branch != y->branch) return true;
    for (int a = 0; a < c->axes->count; a++)
        if (!isnan(x->point[a]) && fabs(x->point[a] - y->point[a]) > 0.1) return true;
    return false;
}

ft_status ft_gp_climb_run(const ft_gp_climb *c, ft_arena *arena, double *point, int *branch) {
    const size_t axes = (size_t)c->axes->count + 1;
    candidate *list = ft_arena_alloc(arena, (size_t)(c->candidates + 1) * sizeof *list);
    double *room = ft_arena_alloc(arena, (size_t)(4 + c->starts) * axes * sizeof *room);
    place p = {.c = c, .free = ft_arena_alloc(arena, axes * sizeof *p.free)};
    int count;
    *branch = -1;
    if (list == NULL || room == NULL || p.free == NULL) return FT_NO_MEMORY;
    FT_TRY(make_candidates(c, arena, list, &count));
    if (count == 0) return FT_OK;
    p.gradient = room, p.x = room + axes, p.low = room + 2 * axes, p.high = room + 3 * axes;
    const candidate *best = NULL;
    double *begun = room + 4 * axes; // where starts were
    candidate *start = ft_arena_alloc(arena, (size_t)(c->starts + 1) * sizeof *start);
    if (start == NULL) return FT_NO_MEMORY;
    for (int i = 0, starts = 0; i < count && starts < c->starts; i++) {
        candidate *made = &list[i];
        bool apart = true;
        for (int k = 0; k < starts && apart; k++)
            apart = far(c, made, &start[k]);
        if (!apart) continue;
        start[starts] = *made;
        start[starts].point = begun + (size_t)starts * axes;
        memcpy(start[starts++].point, made->point, (axes - 1) * sizeof *begun);
        p.branch = &c->branches->branch[made->branch];
        p.point = made->point;
        FT_TRY(improve(&p, &made->value));
        if ((best == NULL || made->value > best->value) && !tried(c, made)) best = made;
    }
    for (int i = 0; i < count && best == NULL; i++)
        if (!tried(c, &list[i])) best = &list[i];
    if (best == NULL) best = &list[0]; // all of the space was tried: once more
    memcpy(point, best->point, (axes - 1) * sizeof *point);
    *branch = best->branch;
    return FT_OK;
}

ft_status ft_gp_climb_list(const ft_gp_climb *c, ft_arena *arena, int most, double *points, int *count) {
    const size_t axes = (size_t)c->axes->count;
    candidate *list = ft_arena_alloc(arena, (size_t)(c->candidates + 1) * sizeof *list);
    int made;
    *count = 0;
    if (list == NULL) return FT_NO_MEMORY;
    FT_TRY(make_candidates(c, arena, list, &made));
    const int wanted = made < most ? made : most, first = made > most ? wanted / 2 : wanted, others = made - first;
    for (int i = 0; i < wanted; i++) {
        const int at = i < first ? i : first + (int)((int64_t)(i - first) * others / (wanted - first));
        memcpy(points + (size_t)(*count)++ * axes, list[at].point, axes * sizeof *points);
    }
    return FT_OK;
}
