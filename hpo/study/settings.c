// settings.c - sampler and pruner, as [study] describes them.
#include "hpo/search/sampler.h"
#include "hpo/space/fidelity.h"
#include "hpo/study/pausing.h"
#include "hpo/study/study.h"

#include <math.h>
#include <string.h>

// ---- sampler --------------------------------------------------------------------------------------------------------

// Every stored name is an axis. A name with two ranges has no one grid.
static ft_status grid_axes(ft_tuning *t, ft_sampler_options *options) {
    t->axes = ft_arena_alloc(&t->arena, (size_t)(t->space.count + 1) * sizeof *t->axes);
    if (t->axes == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->space.count; i++) {
        const ft_space_rule *rule = &t->space.rules[i], *first;
        if (rule->name == NULL) continue;
        first = ft_space_find(&t->space, rule->name);
        if (first != rule && !ft_distribution_equal(&first->distribution, &rule->distribution)) {
            ft_status status = ft_fail(FT_INVALID, rule->where, "a grid cannot give %s two ranges", rule->name);
            ft_hint("write both as choice(...), or search with another study.sampler");
            return status;
        }
        if (first == rule)
            t->axes[options->axis_count++] =
                (ft_grid_axis){rule->name, &rule->distribution, (int)t->options->grid_points};
    }
    options->axes = t->axes;
    return FT_OK;
}

ft_sampler_options ft_study_sampler_options(const ft_study_options *o) {
    ft_sampler_options options = ft_sampler_defaults();
    const char *kind = ft_study_sampler_name(o, NULL, 1), *multivariate = o->multivariate;
    options.kind = strcmp(kind, "random") == 0         ? FT_SAMPLER_RANDOM
                   : strcmp(kind, "grid") == 0         ? FT_SAMPLER_GRID
                   : strcmp(kind, "quasi_random") == 0 ? FT_SAMPLER_QUASI_RANDOM
                   : strcmp(kind, "gp") == 0           ? FT_SAMPLER_GP
                   : strcmp(kind, "cmaes") == 0        ? FT_SAMPLER_CMAES
                   : strcmp(kind, "auto") == 0         ? FT_SAMPLER_AUTO
                                                       : FT_SAMPLER_TPE;
    if (strcmp(multivariate, "auto") != 0)
        options.multivariate = strcmp(multivariate, "on") == 0 ? FT_SWITCH_ON : FT_SWITCH_OFF;
    options.seed = (uint64_t)o->seed;
    options.startup_trials = (int)o->startup_trials;
    options.quasi_startup = o->quasi_startup;
    options.candidates = (int)o->candidates;
    options.group = o->group;
    options.constant_liar = o->constant_liar;
    options.failed = o->count_failed;
    options.branch_split = o->branch_split;
    options.branch_joint = o->branch_joint;
    options.fine = strcmp(o->bandwidth, "auto") == 0   ? FT_SWITCH_AUTO
                   : strcmp(o->bandwidth, "fine") == 0 ? FT_SWITCH_ON
                                                             : FT_SWITCH_OFF;
    return options;
}

ft_status ft_tuning_sampler(ft_tuning *t, ft_trials *trials, ft_sampler **out) {
    static const ft_lessons none; // not read yet: whether the sampler could use any is all that is asked
    ft_sampler_options options = ft_study_sampler_options(t->options);
    if (strcmp(ft_study_sampler_name(t->options, &t->space, trials->objectives), "cmaes") == 0) options.kind = FT_SAMPLER_CMAES;
    // Freeze-thaw finds the places by itself; what it cannot know yet, the first trial's, is random.
    // (`study ask` pauses nothing, and has no place of its own.)
    if (t->place.name != NULL && ft_tuning_pauses(t) && options.kind == FT_SAMPLER_AUTO) options.kind = FT_SAMPLER_RANDOM;
    options.lessons = t->lessons != NULL ? t->lessons : t->options->learn_from[0] != '\0' ? &none : NULL;
    if (options.kind == FT_SAMPLER_GRID) FT_TRY(grid_axes(t, &options));
    return ft_sampler_new(&options, trials, out);
}

// ---- pruner ---------------------------------------------------------------------------------------------------------

static bool is(const ft_tuning *t, const char *pruner) { return strcmp(t->options->pruner, pruner) == 0; }

bool ft_tuning_pruner_waits(const ft_tuning *t) {
    if (t->resource > 0 || ft_fidelity_parts(t->config) > 0) return false;
    return (is(t, "halving") && t->options->pruner_min_resource == FT_AUTO) ||
           (is(t, "hyperband") && t->options->pruner_max_resource == FT_AUTO);
}

static ft_status halving(const ft_tuning *t, ft_pruner **out) {
    const ft_study_options *o = t->options;
    ft_pruner_halving_options options = {FT_PRUNER_HALVING_DEFAULTS};
    const bool parts = ft_fidelity_parts(t->config) > 0;
    options.min_resource = o->pruner_min_resource != FT_AUTO ? o->pruner_min_resource : parts ? 1 : t->resource;
    if (parts) options.reduction_factor = 3;
    if (o->pruner_reduction_factor != FT_AUTO) options.reduction_factor = o->pruner_reduction_factor;
    options.min_early_stopping_rate = o->pruner_min_early_stopping_rate;
    options.bootstrap_count = o->pruner_bootstrap_count;
    return ft_pruner_halving(&options, out);
}

static ft_status hyperband(const ft_tuning *t, const char *study_name, ft_pruner **out) {
    const ft_study_options *o = t->options;
    ft_pruner_hyperband_options options = {FT_PRUNER_HYPERBAND_DEFAULTS};
    if (o->pruner_min_resource != FT_AUTO) options.min_resource = o->pruner_min_resource;
    options.max_resource = o->pruner_max_resource != FT_AUTO ? o->pruner_max_resource
                           : ft_fidelity_parts(t->config) > 0   ? ft_fidelity_parts(t->config)
                                                                : t->resource;
    if (o->pruner_reduction_factor != FT_AUTO) options.reduction_factor = o->pruner_reduction_factor;
    options.bootstrap_count = o->pruner_bootstrap_count;
    return ft_pruner_hyperband(&options, study_name, out);
}

static ft_status threshold(const ft_tuning *t, ft_pruner **out) {
    const ft_study_options *o = t->options;
    double lower = o->pruner_lower, upper = o->pruner_upper;
    if (isnan(lower) && isnan(upper))
        return ft_fail(FT_INVALID, "study.pruner", "threshold needs study.pruner_lower or study.pruner_upper");
    return ft_pruner_threshold(isnan(lower) ? -INFINITY : lower, isnan(upper) ? INFINITY : upper,
                               o->pruner_warmup_steps, o->pruner_interval_steps, out);
}

static ft_status wilcoxon(const ft_tuning *t, ft_pruner **out) {
    const ft_config *c = t->config;
    if ((c->data.folds > 0 && c->data.fold == 0) || c->train.seeds.count > 1) return ft_pruner_wilcoxon(out);
    ft_fail(FT_INVALID, "study.pruner", "wilcoxon compares trials run by run, and each trial is one run");
    ft_hint("data.folds = 5, or train.seeds = 1, 2, 3, 4, 5");
    return FT_INVALID;
}

bool ft_tuning_reports_runs(const ft_tuning *t) { return is(t, "wilcoxon"); }

static ft_status inner(const ft_tuning *t, const char *study_name, ft_pruner **out) {
    const ft_study_options *o = t->options;
    if (is(t, "halving")) return halving(t, out);
    if (is(t, "hyperband")) return hyperband(t, study_name, out);
    if (is(t, "threshold")) return threshold(t, out);
    if (is(t, "wilcoxon")) return wilcoxon(t, out);
    ft_pruner_percentile_options options = {FT_PRUNER_PERCENTILE_DEFAULTS};
    if (is(t, "percentile")) options.percentile = o->pruner_percentile;
    options.startup_trials = o->pruner_startup_trials;
    options.warmup_steps = o->pruner_warmup_steps;
    options.interval_steps = o->pruner_interval_steps;
    options.min_trials = o->pruner_min_trials;
    return ft_pruner_percentile(&options, out); // the median is the 50th
}

ft_status ft_tuning_pruner(const ft_tuning *t, const char *study_name, ft_pruner **out) {
    const ft_study_options *o = t->options;
    *out = NULL;
    bool none = is(t, "none");
    if (none && o->pruner_patience == 0) return FT_OK;
    if (t->objectives.count > 1 || !t->objectives.list[0].reported) {
        ft_status status =
            ft_fail(FT_INVALID, "study.pruner", "trials are pruned by one objective that every evaluation tells; %s%s",
                    t->objectives.count > 1 ? "there are several" : t->objectives.list[0].name,
                    t->objectives.count > 1 ? "" : " is none");
        ft_hint("study.pruner = none, or study.objective = eval.METRIC alone");
        return status;
    }
    ft_pruner *pruner = NULL;
    if (ft_tuning_pauses(t)) { // who goes on is no pruner's verdict
        FT_TRY(ft_tuning_check_pausing(t));
        if (o->pruner_patience == 0) return FT_OK;
    } else if (!none) {
        FT_TRY(inner(t, study_name, &pruner));
    }
    if (o->pruner_patience > 0)
        return ft_pruner_patient(pruner, o->pruner_patience, o->pruner_min_delta, out);
    *out = pruner;
    return FT_OK;
}
