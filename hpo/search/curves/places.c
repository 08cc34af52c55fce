#include "hpo/search/curves/places.h"

#include <math.h>
#include <string.h>

static const double CURIOUS = 3;    // deviations that a place counts for of which nothing is known
static const double NEAR = 0.1;     // deviation of a point around a good trial, in parts of the range
static const double AS_IT_IS = 0.8; // chance that such a point has the good trial's choice
enum { START = 6, ANYWHERE = 24, AROUND = 16, BEST = 5 };

static double normal(ft_random_stream *s) {
    const double a = ft_random_double(s), b = ft_random_double(s);
    return sqrt(-2 * log(1 - a)) * cos(6.283185307179586 * b);
}

// The best trials, of equal ones the oldest first. Returns how many there are.
static int best_of(const ft_nearby *n, int64_t good[BEST]) {
    int count = 0;
    for (int64_t i = 0; i < n->count; i++) {
        int at = count < BEST ? count : BEST;
        for (; at > 0 && n->value[i] > n->value[good[at - 1]]; at--)
            if (at < BEST) good[at] = good[at - 1];
        if (at < BEST) good[at] = i, count += count < BEST;
    }
    return count;
}

// The ranges of the latest trials that have them.
static void ranges(const ft_trials *trials, const ft_gp_axes *axes, const ft_distribution **of,
                   ft_trial_param *params) {
    for (int64_t i = 0; i < trials->count; i++)
        for (int k = 0; trials->trial[i].state != FT_WAITING && k < trials->trial[i].param_count; k++) {
            const ft_trial_param *p = &trials->trial[i].params[k];
            const int a = axes->of_name[p->name];
            if (a < 0) continue;
            params[a] = *p;
            of[a] = trials->distributions[p->distribution];
        }
}

static double reflected(double u) {
    u = fabs(u);
    u = u > 1 ? 2 - u : u;
    return u < 0 || u >= 1 ? 0.5 : u;
}

// Around `center`, or anywhere where it is NULL.
static void draw(const ft_gp_axes *axes, const ft_distribution *const *of, const double *center, ft_random_stream *s,
                 ft_place *p) {
    for (int a = 0; a < axes->count; a++) {
        const bool around = center != NULL && !isnan(center[a]);
        double u = ft_random_double(s);
        if (axes->choice[a])
            u = around && ft_random_double(s) < AS_IT_IS ? center[a] : floor(u * of[a]->choice_count);
        else if (around)
            u = reflected(center[a] + NEAR * normal(s));
        p->params[a].value = ft_gp_value(axes, a, of[a], u);
        p->at[a] = ft_gp_unit(axes, a, p->params[a].value);
    }
}

static ft_status make(int axes, ft_arena *arena, ft_place *p) {
    *p = (ft_place){.at = ft_arena_alloc(arena, ((size_t)axes + 1) * sizeof *p->at),
                    .params = ft_arena_alloc(arena, ((size_t)axes + 1) * sizeof *p->params)};
    return p->at != NULL && p->params != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_places_propose(const ft_trials *trials, const ft_gp_axes *axes, const ft_nearby *n,
                            ft_random_stream *stream, ft_arena *arena, ft_place *out) {
    int64_t good[BEST];
    const int known = best_of(n, good), points = n->count < START ? 1 : ANYWHERE + AROUND;
    const ft_distribution **of = ft_arena_alloc(arena, ((size_t)axes->count + 1) * sizeof *of);
    ft_place p;
    double most = -INFINITY;
    if (of == NULL) return FT_NO_MEMORY;
    FT_TRY(make(axes->count, arena, out));
    FT_TRY(make(axes->count, arena, &p));
    ranges(trials, axes, of, p.params);
    out->expected = n->mean;
    for (int i = 0; i < points; i++) {
        double mass;
        draw(axes, of, i >= ANYWHERE && known > 0 ? n->at + good[i % known] * n->axes : NULL, stream, &p);
        p.expected = ft_nearby_ask(n, p.at, -1, &mass);
        const double promise = p.expected + CURIOUS * n->spread / sqrt(1 + mass);
        if (!(promise > most)) continue;
        most = promise;
        out->expected = p.expected;
        memcpy(out->at, p.at, (size_t)axes->count * sizeof *p.at);
        memcpy(out->params, p.params, (size_t)axes->count * sizeof *p.params);
    }
    return FT_OK;
}
