// halving.c - asynchronous successive halving. Rung r is reached at min_resource * factor^(rate + r) steps. Whoever
// reaches it leaves its value there (in the database: completed_rung_r), is held against all values left there so far,
// and goes on only as one of the best 1/factor, or as the best while there are fewer than factor. One report can pass
// several rungs.
#include "hpo/pruner/internal.h"

#include <math.h>

typedef struct halving_pruner {
    ft_pruner base;
    ft_halving halving; // min_resource 0: not known yet
} halving_pruner;

// min_resource * factor^power, or INT64_MAX when it is more: no step is that large.
static int64_t rung_step(const ft_halving *h, int64_t power) {
    int64_t step = h->min_resource;
    for (int64_t i = 0; i < power; i++)
        if (__builtin_mul_overflow(step, h->reduction_factor, &step)) return INT64_MAX;
    return step;
}

// Is `value` among the best 1/factor of rung `rung`, itself included?
static bool promoted(const ft_halving *h, const ft_trials *trials, const ft_trial *trial, int64_t rung, double value,
                     ft_rival_filter *rivals, const void *context) {
    int64_t count = 1, better = 0;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *other = &trials->trial[i];
        if (other->rung_count <= rung || other == trial || (rivals != NULL && !rivals(context, other))) continue;
        count++;
        better += trials->maximize[0] ? other->rungs[rung] > value : other->rungs[rung] < value;
    }
    if (count <= h->bootstrap_count) return false;
    int64_t places = count / h->reduction_factor;
    return better < (places > 1 ? places : 1);
}

void ft_halving_decide(const ft_halving *h, const ft_trials *trials, const ft_trial *trial, ft_rival_filter *rivals,
                       const void *context, ft_verdict *verdict) {
    const ft_trial_report *last = ft_last_report(trial);
    for (int64_t rung = trial->rung_count;; rung++) {
        if (last->step < rung_step(h, h->rate + rung)) return;
        if (isnan(last->value)) {
            verdict->prune = true;
            return;
        }
        verdict->rungs++;
        verdict->rung_value = last->value;
        if (!promoted(h, trials, trial, rung, last->value, rivals, context)) {
            verdict->prune = true;
            return;
        }
    }
}

ft_status ft_halving_check(const char *pruner, const ft_halving *h, bool automatic) {
    if (h->min_resource < 0 || (h->min_resource == 0 && !automatic))
        return ft_fail(FT_INVALID, pruner, "the least resource must be at least 1 step, got %lld",
                       (long long)h->min_resource);
    if (h->reduction_factor < 2)
        return ft_fail(FT_INVALID, pruner, "the reduction factor must be at least 2, got %lld",
                       (long long)h->reduction_factor);
    if (h->rate < 0)
        return ft_fail(FT_INVALID, pruner, "the least early-stopping rate must be at least 0, got %lld",
                       (long long)h->rate);
    if (h->bootstrap_count < 0)
        return ft_fail(FT_INVALID, pruner, "the bootstrap count must be at least 0, got %lld",
                       (long long)h->bootstrap_count);
    if (h->bootstrap_count > 0 && automatic)
        return ft_fail(FT_INVALID, pruner, "a bootstrap count and an automatic resource do not go together");
    return FT_OK;
}

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    ft_halving *h = &((halving_pruner *)pruner)->halving;
    if (h->min_resource == 0) { // rungs must stay where they are, so it is fixed the first time that it is known
        int64_t longest = ft_longest_complete(trials);
        if (longest < 0) return FT_OK;
        h->min_resource = longest / 100 > 1 ? longest / 100 : 1;
    }
    ft_halving_decide(h, trials, trial, NULL, NULL, verdict);
    return FT_OK;
}

ft_status ft_pruner_halving(const ft_pruner_halving_options *options, ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "successive halving", .decide = decide};
    *out = NULL;
    ft_halving halving = {options->min_resource, options->reduction_factor, options->min_early_stopping_rate,
                          options->bootstrap_count};
    FT_TRY(ft_halving_check(kind.name, &halving, options->min_resource == 0));
    halving_pruner *pruner = ft_calloc(1, sizeof *pruner, "a pruner");
    if (pruner == NULL) return FT_NO_MEMORY;
    *pruner = (halving_pruner){.base.kind = &kind, .halving = halving};
    *out = &pruner->base;
    return FT_OK;
}
