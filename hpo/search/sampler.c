#include "hpo/search/sampler.h"

#include "hpo/search/adopt.h"
#include "hpo/search/cmaes/cmaes.h"
#include "hpo/search/grid.h"
#include "hpo/search/history/random_stream.h"
#include "hpo/search/tpe/cache.h"
#include "hpo/search/tpe/tpe.h"

#include <math.h>
#include <stdlib.h>

struct ft_sampler {
    ft_sampler_options options;
    ft_trials *trials;
    ft_subspaces subspaces;
    ft_tpe_cache *cache;
    ft_cmaes *cmaes;
    ft_grid grid;
    bool *drawn; // [drawn_count] by trial: its joint sample is made
    ft_gp_teachers teachers; // of the options' lessons
    const double **adopted;  // [drawn_count] by trial: values of a teacher's trial that it repeats, or NULL
    int64_t drawn_count;
};

ft_sampler_options ft_sampler_defaults(void) {
    return (ft_sampler_options){.kind = FT_SAMPLER_TPE,
                                .startup_trials = 10,
                                .candidates = 24,
                                .multivariate = FT_SWITCH_AUTO,
                                .fine = FT_SWITCH_OFF,
                                .constant_liar = true,
                                .gp = ft_gp_defaults()};
}

static ft_status check_learning(const ft_sampler_options *o, const ft_trials *trials) {
    const bool learns = o->kind == FT_SAMPLER_TPE || o->kind == FT_SAMPLER_AUTO || o->kind == FT_SAMPLER_GP;
    if (learns && trials->objectives == 1) return FT_OK;
    if (learns) return ft_fail(FT_INVALID, "study.learn_from", "is for one objective, and there are %d", trials->objectives);
    ft_fail(FT_INVALID, "study.learn_from", "this sampler learns from no trials");
    ft_hint("study.sampler = auto, gp or tpe");
    return FT_INVALID;
}

ft_status ft_sampler_new(const ft_sampler_options *options, ft_trials *trials, ft_sampler **out) {
    *out = NULL;
    const ft_sampler_kind kind = options->kind;
    const bool may_be_cmaes = kind == FT_SAMPLER_CMAES || kind == FT_SAMPLER_AUTO;
    const bool may_be_tpe = kind == FT_SAMPLER_TPE || may_be_cmaes;
    if (options->candidates < 1 && may_be_tpe)
        return ft_fail(FT_INVALID, "study.candidates", "must be at least 1, got %d", options->candidates);
    if (options->group && options->multivariate == FT_SWITCH_OFF) {
        ft_status status = ft_fail(FT_INVALID, "study.group", "needs the multivariate sampler, which is off");
        ft_hint("leave out multivariate, or switch group off");
        return status;
    }
    if ((kind == FT_SAMPLER_GP || kind == FT_SAMPLER_CMAES) && trials->objectives > 1) {
        ft_status status = ft_fail(FT_INVALID, "study.sampler", "%s knows one objective, and there are %d",
                                   kind == FT_SAMPLER_GP ? "gp" : "cmaes", trials->objectives);
        ft_hint("study.sampler = tpe takes several");
        return status;
    }
    if (options->lessons != NULL) FT_TRY(check_learning(options, trials));
    ft_sampler *s = ft_calloc(1, sizeof *s, "a sampler");
    if (s == NULL) return FT_NO_MEMORY;
    s->options = *options;
    s->options.gp.seed = options->seed;
    s->options.gp.pending = options->constant_liar;
    s->trials = trials;
    ft_status status = FT_OK;
    if (options->kind == FT_SAMPLER_GRID) status = ft_grid_init(&s->grid, options->axes, options->axis_count);
    if (options->lessons != NULL) status = ft_gp_teachers_init(options->lessons, &s->teachers);
    if (options->lessons != NULL) s->options.gp.teachers = &s->teachers;
    if (status == FT_OK && may_be_tpe && !options->plain) status = ft_tpe_cache_new(&s->cache);
    if (status == FT_OK && may_be_cmaes) status = ft_cmaes_new(&s->cmaes);
    if (status != FT_OK) {
        ft_sampler_free(s);
        return status;
    }
    *out = s;
    return FT_OK;
}

void ft_sampler_free(ft_sampler *s) {
    if (s == NULL) return;
    ft_subspaces_free(&s->subspaces);
    ft_tpe_cache_free(s->cache);
    ft_cmaes_free(s->cmaes);
    ft_grid_free(&s->grid);
    ft_gp_teachers_free(&s->teachers);
    free(s->drawn);
    free(s->adopted);
    free(s);
}

static bool multivariate(const ft_sampler *s) {
    if (s->options.group || s->options.multivariate == FT_SWITCH_ON) return true;
    return s->options.multivariate == FT_SWITCH_AUTO && s->trials->objectives == 1;
}

static ft_status tpe_leaning(ft_sampler *s, int64_t number, const ft_subspace *subspace, ft_lean *lean, double *values) {
    ft_tpe_options options = {.seed = s->options.seed,
                              .candidates = s->options.candidates,
                              .constant_liar = s->options.constant_liar,
                              .failed = s->options.failed,
                              .lean = lean != NULL ? ft_lean_at : NULL,
                              .lean_context = lean,
                              .announced = multivariate(s),
                              .branch_split = s->options.branch_split,
                              .given = s->options.branch_joint,
                              .fine = s->options.fine == FT_SWITCH_ON ||
                                      (s->options.fine == FT_SWITCH_AUTO && s->trials->objectives == 1)};
    if (s->cache == NULL) return ft_tpe_suggest(s->trials, &options, number, subspace, values);
    return ft_tpe_cache_suggest(s->cache, s->trials, &options, number, subspace, values);
}

static ft_status tpe(ft_sampler *s, int64_t number, const ft_subspace *subspace, double *values) {
    ft_arena arena = {0};
    ft_lean lean;
    if (s->options.lessons == NULL) return tpe_leaning(s, number, subspace, NULL, values);
    ft_status status = ft_lean_of(&s->teachers, s->trials, number, subspace, &arena, &lean);
    if (status == FT_OK) status = tpe_leaning(s, number, subspace, lean.strength > 0 ? &lean : NULL, values);
    ft_arena_free(&arena);
    return status;
}

// ---- Joint samples ----------------------------------------------------------------------------------------------

static ft_status evolve(ft_sampler *s, int64_t number, const ft_subspace *subspace, double *values) {
    const bool alone = s->options.kind == FT_SAMPLER_CMAES;
    const ft_cmaes_options options = {s->options.seed, alone ? s->options.startup_trials : FT_AUTO_GP_TRIALS};
    if (!s->options.plain) return ft_cmaes_suggest(s->cmaes, s->trials, &options, number, subspace, values);
    ft_cmaes *anew;
    FT_TRY(ft_cmaes_new(&anew));
    ft_status status = ft_cmaes_suggest(anew, s->trials, &options, number, subspace, values);
    ft_cmaes_free(anew);
    return status;
}

static ft_status draw_subspace(ft_sampler *s, int64_t number, const ft_subspace *subspace, bool evolves) {
    if (subspace->count == 0) return FT_OK;
    double *values = ft_calloc((size_t)subspace->count, sizeof *values, "a suggestion");
    if (values == NULL) return FT_NO_MEMORY;
    ft_status status = evolves ? evolve(s, number, subspace, values) : tpe(s, number, subspace, values);
    for (int i = 0; status == FT_OK && i < subspace->count; i++)
        status = ft_trials_set_relative(s->trials, number, subspace->name[i], subspace->distribution[i], values[i]);
    free(values);
    return status;
}

static int64_t ended(const ft_trials *trials) { return trials->finished + trials->failed; }

static ft_sampler_kind kind_of(const ft_sampler *s) {
    const ft_trials *t = s->trials;
    if (s->options.kind != FT_SAMPLER_AUTO) return s->options.kind;
    if (t->objectives > 1 || t->names.count > FT_AUTO_GP_PARAMETERS || t->finished > FT_AUTO_GP_TRIALS) return FT_SAMPLER_TPE;
    return ended(t) > FT_AUTO_GP_TRIALS ? FT_SAMPLER_TPE : FT_SAMPLER_GP;
}

// Of a Gaussian process and CMA-ES. A trial that failed has told something, and a start that only waits for others might never end.
// About half of a start with teachers is theirs, and of little use where they are wrong: it is half as long again.
static bool begun(const ft_sampler *s) {
    return ended(s->trials) >= s->options.startup_trials + (s->options.lessons != NULL ? s->options.startup_trials / 2 : 0);
}

// TPE waits for trials that are finished; failed ones are as good for it where they count.
static bool tpe_begun(const ft_sampler *s) {
    const int wanted = s->options.startup_trials;
    return s->trials->finished >= wanted || (s->options.failed && ended(s->trials) >= wanted);
}

static bool starting(const ft_sampler *s) {
    const ft_sampler_kind kind = kind_of(s);
    return kind == FT_SAMPLER_GP || kind == FT_SAMPLER_CMAES ? !begun(s) : !tpe_begun(s);
}

// The numbers that every trial has; choices that every trial has as TPE draws them beside numbers, which are dropped. All
// else is TPE's, one parameter or branch at a time.
static ft_status draw_numbers(ft_sampler *s, int64_t number) {
    ft_subspace all, numbers = {0};
    ft_status status = ft_subspaces_joint(&s->subspaces, s->trials, &all);
    if (status == FT_OK) status = ft_cmaes_subspace(s->trials, &all, &numbers);
    if (status == FT_OK && numbers.count < all.count) status = draw_subspace(s, number, &all, false);
    if (status == FT_OK) status = draw_subspace(s, number, &numbers, true);
    ft_subspace_free(&all);
    ft_subspace_free(&numbers);
    return status;
}

static ft_status draw_joint(ft_sampler *s, int64_t number) {
    const ft_sampler_kind kind = kind_of(s);
    if (s->options.lessons != NULL && starting(s)) return ft_adopt(&s->teachers, s->trials, number, &s->adopted[number]);
    if (kind == FT_SAMPLER_GRID) return ft_grid_draw(&s->grid, s->trials, number);
    if (kind == FT_SAMPLER_GP) return begun(s) ? ft_gp_draw(s->trials, &s->options.gp, number) : FT_OK;
    if ((kind != FT_SAMPLER_TPE && kind != FT_SAMPLER_CMAES) || starting(s)) return FT_OK;
    FT_TRY(ft_subspaces_update(&s->subspaces, s->trials));
    const bool is_long = s->options.kind == FT_SAMPLER_AUTO && s->options.long_cmaes && s->trials->objectives == 1 &&
                         ended(s->trials) > FT_AUTO_GP_TRIALS;
    if (kind == FT_SAMPLER_CMAES || (is_long && ft_subspaces_all_numbers(&s->subspaces, s->trials)))
        return draw_numbers(s, number);
    if (!multivariate(s)) return FT_OK;
    int parts = s->options.group ? s->subspaces.groups : 1;
    for (int i = 0; i < parts; i++) {
        ft_subspace subspace;
        ft_status status = s->options.group ? ft_subspaces_group(&s->subspaces, s->trials, i, &subspace)
                                            : ft_subspaces_joint(&s->subspaces, s->trials, &subspace);
        if (status == FT_OK) status = draw_subspace(s, number, &subspace, false);
        ft_subspace_free(&subspace);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status draw_joint_once(ft_sampler *s, int64_t number) {
    if (number >= s->drawn_count) {
        int64_t wanted = 2 * number + 64;
        bool *drawn = ft_realloc(s->drawn, (size_t)wanted, sizeof *drawn, "a sampler");
        if (drawn == NULL) return FT_NO_MEMORY;
        for (int64_t i = s->drawn_count; i < wanted; i++)
            drawn[i] = false;
        s->drawn = drawn;
        const double **adopted = ft_realloc(s->adopted, (size_t)wanted, sizeof *adopted, "a sampler");
        if (adopted == NULL) return FT_NO_MEMORY;
        for (int64_t i = s->drawn_count; i < wanted; i++)
            adopted[i] = NULL;
        s->adopted = adopted;
        s->drawn_count = wanted;
    }
    if (s->drawn[number]) return FT_OK;
    FT_TRY(draw_joint(s, number));
    s->drawn[number] = true;
    return FT_OK;
}

// ---- One parameter alone ----------------------------------------------------------------------------------------

double ft_value_of_uniform(const ft_distribution *d, double uniform) {
    if (d->kind == FT_CATEGORICAL) return floor(uniform * d->choice_count);
    double low = d->low - d->step / 2, high = d->high + d->step / 2;
    double x = d->log ? exp(log(low) + uniform * (log(high) - log(low))) : low + uniform * (high - low);
    if (d->kind == FT_INT && d->log)
        x = nearbyint(x);
    else if (d->step != 0)
        x = d->low + floor((x - d->low) / d->step + 0.5) * d->step;
    if (!(x > d->low)) return d->low;
    return x < d->high ? x : d->high;
}

static int prime(int index) {
    for (int candidate = 2;; candidate++) {
        bool divisible = false;
        for (int i = 2; i * i <= candidate && !divisible; i++)
            divisible = candidate % i == 0;
        if (!divisible && index-- == 0) return candidate;
    }
}

double ft_halton(uint64_t seed, const char *name, int dimension, int64_t index) {
    // Bases beyond the 48th prime would need hundreds of points to fill their range once; the digits of two parameters
    // with one base are permuted differently.
    enum { BASES = 48, LARGEST = 223 };
    int base = prime(dimension % BASES);
    double value = 0, unit = 1.0 / base;
    // Also the zeros behind the last digit are permuted: without them all bases start in step.
    for (int level = 0; unit > 0x1p-53; level++, unit /= base, index /= base) {
        ft_random_stream stream = ft_random_stream_of(seed, level, FT_DRAW_DIGITS, name);
        int digit[LARGEST];
        for (int i = 0; i < base; i++) {
            int j = (int)ft_random_below(&stream, (uint64_t)i + 1);
            digit[i] = digit[j];
            digit[j] = i;
        }
        value += digit[index % base] * unit;
    }
    return value < 1 ? value : 0x1.fffffffffffffp-1;
}

// With the rest of its branch, which waits as the joint sample does. *drawn = false: no finished trial was there yet.
static ft_status draw_branch(ft_sampler *s, int64_t number, int name, int distribution, double *value, bool *drawn) {
    ft_subspace subspace;
    ft_status status = ft_subspaces_branch(&s->subspaces, s->trials, number, name, distribution, &subspace);
    double *values = subspace.count > 0 ? ft_calloc((size_t)subspace.count, sizeof *values, "a suggestion") : NULL;
    *drawn = values != NULL;
    if (status == FT_OK && subspace.count > 0) status = *drawn ? tpe(s, number, &subspace, values) : FT_NO_MEMORY;
    for (int i = 0; status == FT_OK && i < subspace.count; i++) {
        if (subspace.name[i] == name) *value = values[i];
        const ft_trial *trial = &s->trials->trial[number];
        const bool evolved = s->options.kind == FT_SAMPLER_CMAES && ft_trial_find_relative(trial, subspace.name[i]) != NULL;
        if (ft_trial_find_param(trial, subspace.name[i]) == NULL && !evolved)
            status = ft_trials_set_relative(s->trials, number, subspace.name[i], subspace.distribution[i], values[i]);
    }
    ft_subspace_free(&subspace);
    free(values);
    return status;
}

static ft_status draw_alone(ft_sampler *s, int64_t number, int name, int distribution, double *value) {
    const char *text = s->trials->names.name[name];
    const ft_distribution *d = s->trials->distributions[distribution];
    const ft_sampler_kind kind = kind_of(s);
    const bool searches = kind == FT_SAMPLER_TPE || kind == FT_SAMPLER_CMAES;
    if (kind == FT_SAMPLER_GP && begun(s)) return ft_gp_draw_alone(s->trials, &s->options.gp, number, name, distribution, value);
    if (searches && tpe_begun(s)) {
        bool drawn = false;
        if (s->options.branch_joint && multivariate(s))
            FT_TRY(draw_branch(s, number, name, distribution, value, &drawn));
        if (drawn) return FT_OK;
        ft_subspace alone = {.count = 1, .name = &name, .distribution = &distribution};
        return tpe(s, number, &alone, value);
    }
    double uniform;
    if (kind == FT_SAMPLER_QUASI_RANDOM || kind == FT_SAMPLER_GP || kind == FT_SAMPLER_CMAES || (searches && s->options.quasi_startup)) {
        uniform = ft_halton(s->options.seed, text, name, number);
    } else {
        ft_random_stream stream = ft_random_stream_of(s->options.seed, number, FT_DRAW_UNIFORM, text);
        uniform = ft_random_double(&stream);
    }
    *value = ft_value_of_uniform(d, uniform);
    return FT_OK;
}

static ft_status check_running(const ft_sampler *s, int64_t number, const char *where) {
    if (number >= 0 && number < s->trials->count && s->trials->trial[number].state == FT_RUNNING) return FT_OK;
    return ft_fail(FT_FAILED, where, "trial %lld is not running", (long long)number);
}

ft_status ft_sampler_draw(ft_sampler *s, int64_t number) {
    FT_TRY(check_running(s, number, "study"));
    return draw_joint_once(s, number);
}

ft_status ft_sampler_suggest(ft_sampler *s, int64_t number, const char *name, const ft_distribution *distribution,
                             double *value) {
    FT_TRY(check_running(s, number, name));
    if (!isfinite(distribution->high - distribution->low))
        return ft_fail(FT_INVALID, name, "nothing can be drawn from %g to %g: no double is as wide", distribution->low, distribution->high);
    int name_id, distribution_id;
    FT_TRY(ft_trials_name(s->trials, name, &name_id));
    FT_TRY(ft_trials_distribution(s->trials, distribution, &distribution_id));
    const ft_trial_param *known = ft_trial_find_param(&s->trials->trial[number], name_id);
    if (known != NULL) {
        *value = known->value;
        return FT_OK;
    }
    if (ft_distribution_single(distribution)) {
        *value = ft_distribution_single_value(distribution);
        return FT_OK;
    }
    FT_TRY(draw_joint_once(s, number));
    known = ft_trial_find_relative(&s->trials->trial[number], name_id);
    if (known != NULL && ft_distribution_contains(distribution, known->value)) {
        *value = known->value;
        return FT_OK;
    }
    const double *row = s->adopted[number];
    if (row != NULL && ft_adopted_value(s->options.lessons, row, name, distribution, value)) return FT_OK;
    return draw_alone(s, number, name_id, distribution_id, value);
}

ft_status ft_sampler_left(ft_sampler *s, int64_t *left) {
    *left = (int64_t)1 << 62;
    if (s->options.kind != FT_SAMPLER_GRID) return FT_OK;
    return ft_grid_left(&s->grid, s->trials, left);
}
