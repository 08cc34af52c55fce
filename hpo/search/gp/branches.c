#include "hpo/search/gp/branches.h"

#include <math.h>
#include <string.h>

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

// decides [branches][axes]. Choices decide before numbers do.
static void find_deciders(const ft_gp_axes *axes, const ft_gp_branches *all, bool *decides) {
    const size_t width = (size_t)axes->count;
    for (int g = 0; g < all->count; g++)
        for (int h = 0; h < g; h++)
            for (int numbers = 0, any = 0; numbers < 2 && any == 0; numbers++)
                for (int a = 0; a < axes->count; a++) {
                    if (axes->choice[a] == (numbers == 1) ||
                        !apart(axes, all->choices, &all->branch[g], &all->branch[h], a))
                        continue;
                    decides[(size_t)g * width + (size_t)a] = decides[(size_t)h * width + (size_t)a] = true;
                    any = 1;
                }
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

static ft_status loosen(const ft_trials *trials, const ft_gp_axes *axes, ft_arena *arena, ft_gp_branches *all) {
    const size_t width = (size_t)axes->count;
    const int known = all->count;
    bool *decides = ft_arena_alloc(arena, ((size_t)known + 1) * (width + 1));
    ft_gp_branch *grown = ft_arena_alloc(arena, ((size_t)known + width + 1) * sizeof *grown);
    if (decides == NULL || grown == NULL) return FT_NO_MEMORY;
    memcpy(grown, all->branch, (size_t)known * sizeof *grown);
    all->branch = grown;
    find_deciders(axes, all, decides);
    for (int a = 0; a < axes->count; a++) {
        bool any = false;
        for (int g = 0; g < known; g++)
            any = any || decides[(size_t)g * width + (size_t)a];
        if (any && axes->choice[a]) FT_TRY(add_unknown(trials, axes, a, arena, all, known));
    }
    for (int g = 0; g < known; g++)
        for (int a = 0; a < axes->count; a++)
            if (grown[g].has[a] && !decides[(size_t)g * width + (size_t)a])
                allow_all(trials, axes, all->choices, &grown[g], a);
    // the best first
    for (int g = 1; g < known; g++)
        for (int k = g; k > 0 && grown[k].best < grown[k - 1].best; k--) {
            const ft_gp_branch moved = grown[k];
            grown[k] = grown[k - 1];
            grown[k - 1] = moved;
        }
    const int unknown = all->count - known, kept = known < FT_GP_MOST_BRANCHES ? known : FT_GP_MOST_BRANCHES;
    memmove(grown + kept, grown + known, (size_t)unknown * sizeof *grown);
    all->count = kept + unknown;
    return FT_OK;
}

ft_status ft_gp_branches_of(const ft_trials *trials, const ft_gp_axes *axes, const double *loss, ft_arena *arena,
                            ft_gp_branches *out) {
    *out = (ft_gp_branches){.choices = most_choices(trials)};
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        ft_gp_branch *b;
        if (!ft_trial_finished(trial->state)) continue;
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
    return out->count > 0 ? loosen(trials, axes, arena, out) : FT_OK;
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
