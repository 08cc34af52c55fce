#include "hpo/search/gp/insight.h"

#include "hpo/search/gp/drawing.h"
#include "hpo/search/gp/improvement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ft_gp_silence_text(ft_gp_silence silence) {
    switch (silence) {
    case FT_GP_OBJECTIVES: return "there are several objectives";
    case FT_GP_PARAMETERS: return "there are more than 20 parameters";
    case FT_GP_MANY: return "there are more than 250 trials";
    case FT_GP_FEW: return "there are fewer than 10 trials with a value";
    case FT_GP_ONE_POINT: return "no parameter has two values";
    case FT_GP_BROKEN: return "no trial is complete and within all limits";
    case FT_GP_ALIKE: return "the better half of the trials has one value";
    case FT_GP_NOTHING: return "no model fits the trials";
    case FT_GP_SPEAKS: break;
    }
    return "";
}

// ---- the models -----------------------------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The loss above which the process sees ranks alone.
static ft_status middle_of(const ft_gp_targets *targets, ft_arena *arena, double *out) {
    double *loss = ft_arena_alloc(arena, (size_t)(targets->count + 1) * sizeof *loss);
    int n = 0;
    if (loss == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < targets->count; i++)
        if (!isnan(targets->loss[i])) loss[n++] = targets->loss[i];
    qsort(loss, (size_t)n, sizeof *loss, ascending);
    *out = n > 0 ? 0.5 * loss[(n - 1) / 2] + 0.5 * loss[n / 2] : NAN; // the sum of both may be too large
    return FT_OK;
}

static double of_loss(const ft_gp_insight *in, double loss) { return in->drawing->trials->maximize[0] ? -loss : loss; }

static bool best_is(const ft_gp_targets *t, int i, int best) {
    return t->keeps[i] && (best < 0 || t->loss[i] < t->loss[best]);
}

static ft_status learn(ft_gp_insight *in, ft_arena *arena, ft_gp_silence *silence) {
    ft_gp_drawing *d = in->drawing;
    double middle;
    int best = -1;
    FT_TRY(ft_gp_prepare(d, -1, -1));
    if (d->targets.losses < FT_INSIGHT_FEWEST) return (void)(*silence = FT_GP_FEW), FT_OK;
    *silence = d->axes.count == 0          ? FT_GP_ONE_POINT
               : !d->acquisition.improves ? FT_GP_BROKEN
               : !(d->unit > 0)           ? FT_GP_ALIKE
                                          : FT_GP_SPEAKS;
    if (*silence != FT_GP_SPEAKS) return FT_OK;
    FT_TRY(middle_of(&d->targets, arena, &middle));
    FT_TRY(ft_gp_all_branches(d, in->branches));
    for (int i = 0; i < d->targets.count; i++)
        if (best_is(&d->targets, i, best)) best = i;
    in->best = d->targets.number[best];
    in->middle = of_loss(in, middle);
    return FT_OK;
}

// Of the history alone.
static ft_gp_silence silent(const ft_trials *trials, bool always) {
    int64_t ended = 0;
    for (int64_t i = 0; i < trials->count; i++)
        ended += ft_trial_finished(trials->trial[i].state);
    if (trials->objectives > 1) return FT_GP_OBJECTIVES;
    if (!always && trials->names.count > FT_INSIGHT_PARAMETERS) return FT_GP_PARAMETERS;
    if (!always && ended > FT_INSIGHT_MOST) return FT_GP_MANY;
    return ended < FT_INSIGHT_FEWEST ? FT_GP_FEW : FT_GP_SPEAKS;
}

static ft_status insight_of(const ft_trials *trials, const ft_gp_options *options, int64_t number, bool always,
                            ft_arena *arena, ft_gp_insight *out, ft_gp_silence *silence) {
    *out = (ft_gp_insight){.drawing = ft_arena_alloc(arena, sizeof *out->drawing),
                           .branches = ft_arena_alloc(arena, sizeof *out->branches),
                           .best = -1,
                           .middle = NAN};
    *silence = silent(trials, always);
    if (out->drawing == NULL || out->branches == NULL) return FT_NO_MEMORY;
    if (*silence != FT_GP_SPEAKS) return FT_OK;
    *out->drawing = (ft_gp_drawing){.trials = trials, .options = options, .number = number};
    ft_status status = learn(out, arena, silence);
    ft_arena_join(arena, &out->drawing->arena);
    out->drawing->arena = (ft_arena){0};
    if (status != FT_FAILED) return status;
    ft_error_clear(); // these trials are no model's
    *silence = FT_GP_NOTHING;
    return FT_OK;
}

ft_status ft_gp_insight_of(const ft_trials *trials, const ft_gp_options *options, bool always, ft_arena *arena,
                           ft_gp_insight *out, ft_gp_silence *silence) {
    return insight_of(trials, options, -1, always, arena, out, silence);
}

ft_gp_view ft_gp_insight_at(const ft_gp_insight *in, const double *point) {
    ft_gp_drawing *d = in->drawing;
    ft_gp_acquisition *q = &d->acquisition;
    double mean, variance, slope;
    ft_gp_believe(q, point, &mean, &variance, NULL, NULL);
    const double deviation = sqrt(variance), value = of_loss(in, d->zero + d->unit * mean);
    const bool worse = d->trials->maximize[0] ? value < in->middle : value > in->middle;
    return (ft_gp_view){.mean = worse ? NAN : value,
                        .worse = worse,
                        .deviation = d->unit * deviation,
                        .gain = d->unit * deviation * exp(ft_log_improvement((q->best - mean) / deviation, &slope)),
                        .chance = exp(ft_gp_chance(q, point))};
}

// ---- places ---------------------------------------------------------------------------------------------------------

static ft_status place_of(const ft_gp_insight *in, const double *point, const int *distribution, ft_arena *arena,
                          ft_gp_place *out) {
    const ft_gp_drawing *d = in->drawing;
    *out = (ft_gp_place){.params = ft_arena_alloc(arena, (size_t)(d->axes.count + 1) * sizeof *out->params),
                         .view = ft_gp_insight_at(in, point)};
    if (out->params == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < d->axes.count; a++)
        if (!isnan(point[a]))
            out->params[out->count++] =
                (ft_trial_param){d->axes.axis[a].name, distribution[a],
                                 ft_gp_value(&d->axes, a, d->trials->distributions[distribution[a]], point[a])};
    return FT_OK;
}

// point [axes]. *branch = -1: there is none.
static ft_status climb(const ft_gp_insight *in, ft_arena *arena, double **point, int *branch) {
    const ft_gp_drawing *d = in->drawing;
    const size_t axes = (size_t)d->axes.count + 1;
    double *fixed = ft_arena_alloc(arena, 2 * axes * sizeof *fixed);
    if (fixed == NULL) return FT_NO_MEMORY;
    *point = fixed + axes;
    for (size_t a = 0; a < axes; a++)
        fixed[a] = NAN;
    const ft_gp_climb c = ft_gp_climb_of(in->drawing, in->branches, fixed, d->trials->count);
    return ft_gp_climb_run(&c, arena, *point, branch);
}

ft_status ft_gp_insight_next(const ft_gp_insight *in, ft_arena *arena, ft_gp_place *out) {
    double *point;
    int branch;
    FT_TRY(climb(in, arena, &point, &branch));
    if (branch < 0) return (void)(*out = (ft_gp_place){.count = 0}), FT_OK;
    return place_of(in, point, in->branches->branch[branch].distribution, arena, out);
}

static double mean_at(const ft_gp_insight *in, const double *point) {
    double mean, variance;
    ft_gp_believe(&in->drawing->acquisition, point, &mean, &variance, NULL, NULL);
    return mean;
}

// Where some trial was, when no other place is expected to be better.
static ft_status place_of_trial(const ft_gp_insight *in, int target, ft_arena *arena, ft_gp_place *out) {
    const ft_gp_drawing *d = in->drawing;
    const ft_trial *trial = &d->trials->trial[d->targets.number[target]];
    int *distribution = ft_arena_alloc(arena, (size_t)(d->axes.count + 1) * sizeof *distribution);
    if (distribution == NULL) return FT_NO_MEMORY;
    for (int p = 0; p < trial->param_count; p++)
        if (d->axes.of_name[trial->params[p].name] >= 0)
            distribution[d->axes.of_name[trial->params[p].name]] = trial->params[p].distribution;
    return place_of(in, d->points + (size_t)target * (size_t)d->axes.count, distribution, arena, out);
}

ft_status ft_gp_insight_best(const ft_gp_insight *in, ft_arena *arena, ft_gp_place *out, int64_t *trial) {
    ft_gp_drawing *d = in->drawing;
    ft_gp_acquisition *q = &d->acquisition;
    const double caution = q->caution;
    double *point, least = INFINITY;
    int branch, best = -1;
    q->exploits = true, q->caution = 1;
    ft_status status = climb(in, arena, &point, &branch);
    q->exploits = false, q->caution = caution;
    FT_TRY(status);
    for (int i = 0; i < d->targets.count; i++) {
        const double mean = d->targets.keeps[i] ? mean_at(in, d->points + (size_t)i * (size_t)d->axes.count) : INFINITY;
        if (mean < least) least = mean, best = i;
    }
    *trial = d->targets.number[best];
    const bool elsewhere = branch >= 0 && mean_at(in, point) < least && ft_gp_chance(q, point) >= log(0.5);
    if (!elsewhere) return place_of_trial(in, best, arena, out);
    *trial = -1;
    return place_of(in, point, in->branches->branch[branch].distribution, arena, out);
}

// ---- a plane --------------------------------------------------------------------------------------------------------

static int cells_along(const ft_gp_insight *in, int a) {
    const ft_gp_drawing *d = in->drawing;
    int most = 1;
    if (!d->axes.choice[a]) return FT_INSIGHT_CELLS;
    for (int k = 0; k < in->branches->count; k++) {
        const ft_gp_branch *b = &in->branches->branch[k];
        if (b->has[a] && d->trials->distributions[b->distribution[a]]->choice_count > most)
            most = d->trials->distributions[b->distribution[a]]->choice_count;
    }
    return most;
}

static ft_status edges(const ft_gp_insight *in, int a, int cells, ft_arena *arena, double **out) {
    const ft_gp_axes *axes = &in->drawing->axes;
    double *edge = *out = ft_arena_alloc(arena, (size_t)(cells + 1) * sizeof *edge);
    for (int i = 0; edge != NULL && i <= cells; i++)
        edge[i] = axes->choice[a] ? i - 0.5 : ft_gp_axis_value(&axes->axis[a], (double)i / cells);
    return edge != NULL ? FT_OK : FT_NO_MEMORY;
}

// The middle of cell i, or the value of the distribution that is nearest to it; false: the branch has none there.
static bool cell_unit(const ft_gp_insight *in, const ft_gp_branch *b, int a, int i, double *unit) {
    const ft_gp_drawing *d = in->drawing;
    const double allow = 1e-9;
    if (!b->has[a]) return false;
    const ft_distribution *dist = d->trials->distributions[b->distribution[a]];
    if (d->axes.choice[a]) {
        *unit = i;
        return i < dist->choice_count && b->allowed[(size_t)a * (size_t)in->branches->choices + (size_t)i];
    }
    const double middle = (i + 0.5) / FT_INSIGHT_CELLS, value = ft_gp_axis_value(&d->axes.axis[a], middle);
    if (value < dist->low - dist->step / 2 || value > dist->high + dist->step / 2) return false;
    *unit = dist->step == 0 ? middle : ft_gp_unit(&d->axes, a, ft_gp_value(&d->axes, a, dist, middle));
    return *unit >= b->low[a] - allow && *unit <= b->high[a] + allow;
}

// bases [branches]: the best target that has a branch's parameters, -1.
static void find_bases(const ft_gp_insight *in, int *bases) {
    const ft_gp_drawing *d = in->drawing;
    for (int k = 0; k < in->branches->count; k++) {
        bases[k] = -1;
        for (int i = 0; i < d->targets.count; i++) {
            bool same = best_is(&d->targets, i, bases[k]);
            for (int a = 0; a < d->axes.count && same; a++)
                same =
                    in->branches->branch[k].has[a] == !isnan(d->points[(size_t)i * (size_t)d->axes.count + (size_t)a]);
            if (same) bases[k] = i;
        }
    }
}

static void fill(const ft_gp_insight *in, int x, int y, const int *bases, double *point, ft_gp_plane *plane) {
    const ft_gp_drawing *d = in->drawing;
    const size_t axes = (size_t)d->axes.count;
    int first = -1;
    for (int cell = 0; cell < plane->rows * plane->columns; cell++) {
        int from = -1;
        double here_x = NAN, here_y = NAN, unit_x, unit_y;
        for (int k = 0; k < in->branches->count; k++) {
            const ft_gp_branch *b = &in->branches->branch[k];
            if (bases[k] < 0 || (from >= 0 && d->targets.loss[bases[k]] >= d->targets.loss[from]) ||
                !cell_unit(in, b, x, cell % plane->columns, &unit_x) ||
                !cell_unit(in, b, y, cell / plane->columns, &unit_y))
                continue;
            from = bases[k], here_x = unit_x, here_y = unit_y;
        }
        plane->known[cell] = from >= 0;
        if (from < 0) continue;
        memcpy(point, d->points + (size_t)from * axes, axes * sizeof *point);
        point[x] = here_x, point[y] = here_y;
        plane->view[cell] = ft_gp_insight_at(in, point);
        if (first >= 0 && from != first) plane->mixed = true;
        if (first < 0 || d->targets.loss[from] < d->targets.loss[first]) first = from;
    }
    plane->trial = first >= 0 ? d->targets.number[first] : -1;
}

ft_status ft_gp_insight_plane(const ft_gp_insight *in, int x_name, int y_name, ft_arena *arena, ft_gp_plane *out) {
    const ft_gp_drawing *d = in->drawing;
    const int x = d->axes.of_name[x_name], y = d->axes.of_name[y_name];
    *out = (ft_gp_plane){.trial = -1};
    if (x < 0 || y < 0) return FT_OK;
    out->columns = cells_along(in, x), out->rows = cells_along(in, y);
    const size_t cells = (size_t)out->columns * (size_t)out->rows;
    int *bases = ft_arena_alloc(arena, (size_t)(in->branches->count + 1) * sizeof *bases);
    double *point = ft_arena_alloc(arena, (size_t)(d->axes.count + 1) * sizeof *point);
    out->view = ft_arena_alloc(arena, cells * sizeof *out->view);
    out->known = ft_arena_alloc(arena, cells * sizeof *out->known);
    if (bases == NULL || point == NULL || out->view == NULL || out->known == NULL) return FT_NO_MEMORY;
    FT_TRY(edges(in, x, out->columns, arena, &out->x));
    FT_TRY(edges(in, y, out->rows, arena, &out->y));
    find_bases(in, bases);
    fill(in, x, y, bases, point, out);
    return FT_OK;
}

// ---- before a trial -------------------------------------------------------------------------------------------------

static ft_status copy_names(const ft_trials *from, ft_trials *to) {
    int id;
    for (int i = 0; i < from->names.count; i++)
        FT_TRY(ft_trials_name(to, from->names.name[i], &id));
    for (int i = 0; i < from->constraint_names.count; i++)
        FT_TRY(ft_trials_constraint_name(to, from->constraint_names.name[i], &id));
    for (int i = 0; i < from->distribution_count; i++)
        FT_TRY(ft_trials_distribution(to, from->distributions[i], &id));
    return FT_OK;
}

static ft_status copy_trial(const ft_trial *from, bool ended, ft_trials *to) {
    int64_t number;
    FT_TRY(ft_trials_append(to, from->state == FT_WAITING ? FT_WAITING : FT_RUNNING, &number));
    for (int p = 0; p < from->param_count; p++)
        FT_TRY(
            ft_trials_set_param(to, number, from->params[p].name, from->params[p].distribution, from->params[p].value));
    if (!ended) return FT_OK;
    for (int k = 0; k < from->constraint_count; k++)
        FT_TRY(ft_trials_set_constraint(to, number, from->constraints[k].name, from->constraints[k].value));
    for (int r = 0; r < from->report_count; r++)
        FT_TRY(ft_trials_report(to, number, from->reports[r].step, from->reports[r].value));
    return ft_trials_finish(to, number, from->state, from->values, from->value_count);
}

static ft_status copy_before(const ft_trials *from, int64_t number, const bool *then, ft_trials *to) {
    int64_t own;
    FT_TRY(copy_names(from, to));
    for (int64_t i = 0; i < number; i++)
        FT_TRY(copy_trial(&from->trial[i], then[i] && ft_trial_finished(from->trial[i].state), to));
    return ft_trials_append(to, FT_RUNNING, &own);
}

static ft_status view_before(const ft_trials *past, const ft_trial *trial, const ft_gp_options *options, bool always,
                             ft_arena *arena, ft_gp_view *out, ft_gp_silence *silence) {
    ft_gp_insight in;
    FT_TRY(insight_of(past, options, trial->number, always, arena, &in, silence));
    if (*silence != FT_GP_SPEAKS) return FT_OK;
    double *point = ft_arena_alloc(arena, (size_t)(in.drawing->axes.count + 1) * sizeof *point);
    if (point == NULL) return FT_NO_MEMORY;
    ft_gp_point(&in.drawing->axes, trial, false, point);
    *out = ft_gp_insight_at(&in, point);
    return FT_OK;
}

ft_status ft_gp_insight_before(const ft_trials *trials, const ft_gp_options *options, int64_t number, const bool *then,
                               bool always, ft_gp_view *out, ft_gp_silence *silence) {
    ft_arena arena = {0};
    ft_trials past = {.objectives = 0};
    *silence = trials->objectives > 1 ? FT_GP_OBJECTIVES : FT_GP_SPEAKS;
    if (*silence != FT_GP_SPEAKS) return FT_OK;
    ft_status status = ft_trials_init(&past, trials->objectives, trials->maximize);
    if (status == FT_OK) status = copy_before(trials, number, then, &past);
    if (status == FT_OK) status = view_before(&past, &trials->trial[number], options, always, &arena, out, silence);
    ft_trials_free(&past);
    ft_arena_free(&arena);
    return status;
}
