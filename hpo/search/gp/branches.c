#include "hpo/search/gp/branches.h"

#include "hpo/search/gp/conditions.h"

#include <math.h>
#include <string.h>

enum { MOST_COMBINED = 8 };
static const double HALF_WAY = 0.49; // no further: a number in steps is rounded to the side where it is

static int most_choices(const ft_trials *trials) {
    int most = 1;
    for (int i = 0; i < trials->distribution_count; i++)
        if (trials->distributions[i]->choice_count > most) most = trials->distributions[i]->choice_count;
    return most;
}

static ft_status new_branch(const ft_gp_axes *axes, int choices, ft_arena *arena, ft_gp_branch *out) {
    const size_t n = (size_t)axes->count + 1;
    *out = (ft_gp_branch){.has = ft_arena_alloc(arena, n * sizeof *out->has),
                          .distribution = ft_arena_alloc(arena, n * sizeof *out->distribution),
                          .allowed = ft_arena_alloc(arena, n * (size_t)choices * sizeof *out->allowed),
                          .low = ft_arena_alloc(arena, 2 * n * sizeof *out->low),
                          .best = INFINITY};
    if (out->has == NULL || out->distribution == NULL || out->allowed == NULL || out->low == NULL) return FT_NO_MEMORY;
    out->high = out->low + n;
    for (size_t a = 0; a < n; a++)
        out->low[a] = INFINITY, out->high[a] = -INFINITY;
    return FT_OK;
}

static void allow(const ft_gp_axes *axes, int choices, ft_gp_branch *b, int a, double unit) {
    if (axes->choice[a]) {
        b->allowed[(size_t)a * (size_t)choices + (size_t)unit] = true;
        return;
    }
    if (unit < b->low[a]) b->low[a] = unit;
    if (unit > b->high[a]) b->high[a] = unit;
}

// All values of its distribution.
static void allow_all(const ft_trials *trials, const ft_gp_axes *axes, int choices, ft_gp_branch *b, int a) {
    const ft_distribution *d = trials->distributions[b->distribution[a]];
    if (axes->choice[a])
        for (int k = 0; k < d->choice_count; k++)
            allow(axes, choices, b, a, k);
    else
        b->low[a] = ft_gp_unit(axes, a, d->low), b->high[a] = ft_gp_unit(axes, a, d->high);
}

static ft_status find(const ft_trials *trials, const ft_gp_axes *axes, const ft_trial *trial, ft_arena *arena,
                      ft_gp_branches *all, ft_gp_branch **found) {
    for (int k = 0; k < all->count; k++) {
        bool same = true;
        for (int a = 0; a < axes->count && same; a++)
            same = all->branch[k].has[a] == (ft_trial_find_param(trial, axes->axis[a].name) != NULL);
        *found = &all->branch[k];
        if (same) return FT_OK;
    }
    ft_gp_branch *grown = ft_arena_alloc(arena, (size_t)(all->count + 1) * sizeof *grown);
    if (grown == NULL) return FT_NO_MEMORY;
    if (all->count > 0) memcpy(grown, all->branch, (size_t)all->count * sizeof *grown);
    all->branch = grown;
    *found = &grown[all->count];
    FT_TRY(new_branch(axes, all->choices, arena, *found));
    for (int a = 0; a < axes->count; a++)
        (*found)->has[a] = ft_trial_find_param(trial, axes->axis[a].name) != NULL;
    all->count++;
    return FT_OK;
}

// Do two branches never have the same value of an axis?
static bool apart(const ft_gp_axes *axes, int choices, const ft_gp_branch *g, const ft_gp_branch *h, int a) {
    if (!g->has[a] || !h->has[a]) return false;
    if (!axes->choice[a]) return g->high[a] < h->low[a] || h->high[a] < g->low[a];
    for (size_t k = 0; k < (size_t)choices; k++)
        if (g->allowed[(size_t)a * (size_t)choices + k] && h->allowed[(size_t)a * (size_t)choices + k]) return false;
    return true;
}

// decides [branches][axes]: what a branch must keep to be told from another. by [axes]: conditions.h. Where these do not tell two branches
// apart, choices decide before numbers do.
static void find_deciders(const ft_gp_axes *axes, const ft_gp_branches *all, const int *by, bool *decides) {
    const size_t width = (size_t)axes->count;
    for (int g = 0; g < all->count; g++)
        for (int h = 0; h < g; h++) {
            const ft_gp_branch *x = &all->branch[g], *y = &all->branch[h];
            bool any = false;
            for (int p = 0; p < axes->count; p++) {
                if (x->has[p] == y->has[p] || by[p] < 0 || !apart(axes, all->choices, x, y, by[p])) continue;
                decides[(size_t)g * width + (size_t)by[p]] = decides[(size_t)h * width + (size_t)by[p]] = any = true;
            }
            for (int numbers = 0; numbers < 2 && !any; numbers++)
                for (int a = 0; a < axes->count; a++) {
                    if (axes->choice[a] == (numbers == 1) || !apart(axes, all->choices, x, y, a)) continue;
                    decides[(size_t)g * width + (size_t)a] = decides[(size_t)h * width + (size_t)a] = any = true;
                }
        }
}

// A number that decides may go on to half way to the next branch, and to the end of its range where there is none: a trial beyond
// tells where the border is.
static void widen(const ft_trials *trials, const ft_gp_axes *axes, const ft_gp_branches *all, int known, int g, int a, double *low, double *high) {
    const ft_gp_branch *b = &all->branch[g];
    const ft_distribution *d = trials->distributions[b->distribution[a]];
    double below = -INFINITY, above = INFINITY;
    for (int h = 0; h < known; h++) {
        const ft_gp_branch *o = &all->branch[h];
        if (h == g || !o->has[a]) continue;
        if (o->high[a] < b->low[a]) below = fmax(below, o->high[a]);
        if (o->low[a] > b->high[a]) above = fmin(above, o->low[a]);
    }
    *low = isinf(below) ? ft_gp_unit(axes, a, d->low) : b->low[a] - HALF_WAY * (b->low[a] - below);
    *high = isinf(above) ? ft_gp_unit(axes, a, d->high) : b->high[a] + HALF_WAY * (above - b->high[a]);
}

// Of a deciding list the choices that no branch has: what comes with them is not known.
static ft_status add_unknown(const ft_trials *trials, const ft_gp_axes *axes, int a, ft_arena *arena,
                             ft_gp_branches *all, int known) {
    const size_t choices = (size_t)all->choices, row = (size_t)a * choices;
    ft_gp_branch *b = &all->branch[all->count];
    const ft_gp_branch *first = NULL;
    bool any = false;
    FT_TRY(new_branch(axes, all->choices, arena, b));
    for (int k = 0; k < known && first == NULL; k++)
        if (all->branch[k].has[a]) first = &all->branch[k];
    for (int x = 0; x < axes->count; x++) {
        b->has[x] = true;
        for (int k = 0; k < known; k++)
            b->has[x] = b->has[x] && all->branch[k].has[x];
        b->distribution[x] = first->distribution[x];
    }
    if (!b->has[a]) return FT_OK;
    for (size_t c = 0; c < (size_t)trials->distributions[b->distribution[a]]->choice_count; c++) {
        bool seen = false;
        for (int k = 0; k < known; k++)
            seen = seen || (all->branch[k].has[a] && all->branch[k].allowed[row + c]);
        b->allowed[row + c] = !seen;
        any = any || !seen;
    }
    for (int x = 0; x < axes->count; x++)
        if (x != a && b->has[x]) allow_all(trials, axes, all->choices, b, x);
    all->count += any;
    return FT_OK;
}

static bool same_parameters(const ft_gp_axes *axes, const ft_gp_branch *x, const ft_gp_branch *y) {
    return memcmp(x->has, y->has, (size_t)axes->count * sizeof *x->has) == 0;
}

static void take_axis(const ft_gp_branches *all, ft_gp_branch *to, const ft_gp_branch *from, int a) {
    const size_t choices = (size_t)all->choices;
    to->distribution[a] = from->distribution[a];
    memcpy(to->allowed + (size_t)a * choices, from->allowed + (size_t)a * choices, choices * sizeof *to->allowed);
    to->low[a] = from->low[a], to->high[a] = from->high[a];
}

// Branch g with what decides along an axis, and what hangs on that, from branch h: nobody tried the two together yet.
// Into b, all of which is written. Is it new?
static bool combine(const ft_gp_axes *axes, const int *by, int g, int h, int a, const ft_gp_branches *all, ft_gp_branch *b) {
    const ft_gp_branch *x = &all->branch[g], *y = &all->branch[h];
    for (int p = 0; p < axes->count; p++) {
        b->has[p] = by[p] == a ? y->has[p] : x->has[p];
        take_axis(all, b, p == a || !x->has[p] ? y : x, p);
    }
    for (int round = 0; round < axes->count; round++) // a chain of conditions is no longer
        for (int p = 0; p < axes->count; p++)
            b->has[p] = b->has[p] && (by[p] < 0 || b->has[by[p]]);
    for (int k = 0; k < all->count; k++)
        if (same_parameters(axes, b, &all->branch[k])) return false;
    return true;
}

static ft_status add_combined(const ft_gp_axes *axes, const int *by, const bool *decides, int known, ft_arena *arena, ft_gp_branches *all) {
    const size_t width = (size_t)axes->count;
    const int most = all->count + MOST_COMBINED;
    ft_gp_branch spare;
    FT_TRY(new_branch(axes, all->choices, arena, &spare));
    for (int g = 0; g < known; g++)
        for (int h = 0; h < known; h++)
            for (int a = 0; a < axes->count && all->count < most; a++) {
                if (h == g || !decides[(size_t)g * width + (size_t)a] || !decides[(size_t)h * width + (size_t)a] ||
                    !apart(axes, all->choices, &all->branch[g], &all->branch[h], a) || !combine(axes, by, g, h, a, all, &spare))
                    continue;
                all->branch[all->count++] = spare;
                FT_TRY(new_branch(axes, all->choices, arena, &spare));
            }
    return FT_OK;
}

static ft_status loosen(const ft_trials *trials, const ft_gp_axes *axes, const int *by, ft_arena *arena, ft_gp_branches *all) {
    const size_t width = (size_t)axes->count;
    const int known = all->count;
    bool *decides = ft_arena_alloc(arena, ((size_t)known + 1) * (width + 1));
    double *low = ft_arena_alloc(arena, 2 * ((size_t)known + 1) * (width + 1) * sizeof *low), *high = low + ((size_t)known + 1) * (width + 1);
    ft_gp_branch *grown = ft_arena_alloc(arena, ((size_t)known + width + MOST_COMBINED + 1) * sizeof *grown);
    if (decides == NULL || grown == NULL || low == NULL) return FT_NO_MEMORY;
    memcpy(grown, all->branch, (size_t)known * sizeof *grown);
    all->branch = grown;
    // the best first
    for (int g = 1; g < known; g++)
        for (int k = g; k > 0 && grown[k].best < grown[k - 1].best; k--) {
            const ft_gp_branch moved = grown[k];
            grown[k] = grown[k - 1];
            grown[k - 1] = moved;
        }
    find_deciders(axes, all, by, decides);
    for (int a = 0; a < axes->count; a++) {
        bool any = false;
        for (int g = 0; g < known; g++)
            any = any || decides[(size_t)g * width + (size_t)a];
        if (any && axes->choice[a]) FT_TRY(add_unknown(trials, axes, a, arena, all, known));
    }
    for (int g = 0; g < known; g++)
        for (int a = 0; a < axes->count; a++)
            if (grown[g].has[a] && decides[(size_t)g * width + (size_t)a] && !axes->choice[a])
                widen(trials, axes, all, known, g, a, &low[(size_t)g * width + (size_t)a], &high[(size_t)g * width + (size_t)a]);
    for (int g = 0; g < known; g++)
        for (int a = 0; a < axes->count; a++) {
            if (!grown[g].has[a]) continue;
            if (!decides[(size_t)g * width + (size_t)a])
                allow_all(trials, axes, all->choices, &grown[g], a);
            else if (!axes->choice[a])
                grown[g].low[a] = low[(size_t)g * width + (size_t)a], grown[g].high[a] = high[(size_t)g * width + (size_t)a];
        }
    const int unknown = all->count - known, kept = known < FT_GP_MOST_BRANCHES ? known : FT_GP_MOST_BRANCHES;
    memmove(grown + kept, grown + known, (size_t)unknown * sizeof *grown);
    all->count = kept + unknown;
    return add_combined(axes, by, decides, kept, arena, all);
}

ft_status ft_gp_branches_of(const ft_trials *trials, const ft_gp_axes *axes, const double *loss, ft_arena *arena,
                            ft_gp_branches *out) {
    const size_t width = (size_t)axes->count;
    double *points = ft_arena_alloc(arena, ((size_t)trials->count * width + 1) * sizeof *points);
    int *by = ft_arena_alloc(arena, (width + 1) * sizeof *by), finished = 0;
    *out = (ft_gp_branches){.choices = most_choices(trials)};
    if (points == NULL || by == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        ft_gp_branch *b;
        if (!ft_trial_finished(trial->state)) continue;
        ft_gp_point(axes, trial, false, points + (size_t)finished++ * width);
        FT_TRY(find(trials, axes, trial, arena, out, &b));
        for (int p = 0; p < trial->param_count; p++) {
            const int a = axes->of_name[trial->params[p].name];
            if (a < 0) continue;
            b->distribution[a] = trial->params[p].distribution;
            allow(axes, out->choices, b, a, ft_gp_unit(axes, a, trial->params[p].value));
        }
        b->trials++;
        if (loss[i] < b->best) b->best = loss[i];
    }
    if (out->count == 0) return FT_OK;
    FT_TRY(ft_gp_conditions_of(points, finished, axes->choice, axes->count, out->choices, arena, by));
    return loosen(trials, axes, by, arena, out);
}

ft_status ft_gp_branch_alone(const ft_trials *trials, const ft_gp_axes *axes, int64_t number, int name,
                             int distribution, ft_arena *arena, ft_gp_branches *out) {
    const ft_trial *trial = &trials->trial[number];
    *out = (ft_gp_branches){
        .branch = ft_arena_alloc(arena, sizeof *out->branch), .count = 1, .choices = most_choices(trials)};
    if (out->branch == NULL) return FT_NO_MEMORY;
    FT_TRY(new_branch(axes, out->choices, arena, out->branch));
    for (int p = 0; p <= trial->param_count; p++) {
        const bool asked = p == trial->param_count;
        const int a = axes->of_name[asked ? name : trial->params[p].name];
        if (a < 0) continue;
        out->branch->has[a] = true;
        out->branch->distribution[a] = asked ? distribution : trial->params[p].distribution;
        allow_all(trials, axes, out->choices, out->branch, a);
    }
    return FT_OK;
}
