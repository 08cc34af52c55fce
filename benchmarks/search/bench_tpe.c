// bench_tpe.c - what one suggestion costs as the history grows: bench_tpe [trials] [fine|plain|gp|cmaes|numbers]
// 10 mixed parameters, 24 candidates, full history, a trivial objective, all in memory; the same history drives every
// setting, since fast and plain suggest the same. Prints microseconds a parameter, averaged over the 100 trials before
// each mark, and the total. Optuna's mathematics, which keep all trials; "fine" is what `ftengine tune` has by
// itself (study.bandwidth, branch_split, branch_joint), which thins a long history, and "plain" times the version that keeps nothing (slow),
// "gp" the Gaussian process, of which nobody wants more than some hundred trials, "cmaes" CMA-ES over eight numbers, with
// choices by TPE, "numbers" CMA-ES over these eight alone.
#include "benchmarks/search/tpe_space.h"
#include "hpo/search/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ft_status failed(ft_status status) {
    fprintf(stderr, "error: %s: %s\n", ft_error_where(), ft_error_message());
    return status;
}

static int parameters = TPE_PARAMETERS;

static ft_status run(const char *label, const ft_sampler_options *options, bool flat, int trials_wanted) {
    ft_arena arena = {0};
    ft_distribution d[TPE_PARAMETERS];
    ft_trials trials;
    ft_sampler *sampler;
    FT_TRY(tpe_space(&arena, d));
    FT_TRY(ft_trials_init(&trials, 1, (bool[]){false}));
    FT_TRY(ft_sampler_new(options, &trials, &sampler));
    double total = 0, recent = 0, best = INFINITY;
    for (int n = 0; n < trials_wanted; n++) {
        int64_t number;
        double x[TPE_PARAMETERS] = {0};
        FT_TRY(ft_trials_append(&trials, FT_RUNNING, &number));
        for (int i = 0; i < parameters; i++) {
            const char *name = tpe_names[i];
            int name_id, distribution_id;
            double start = now();
            FT_TRY(ft_sampler_suggest(sampler, number, name, &d[i], &x[i]));
            recent += now() - start;
            FT_TRY(ft_trials_name(&trials, name, &name_id));
            FT_TRY(ft_trials_distribution(&trials, &d[i], &distribution_id));
            FT_TRY(ft_trials_set_param(&trials, number, name_id, distribution_id, x[i]));
        }
        double value = tpe_objective(d, x, flat);
        best = fmin(best, value);
        FT_TRY(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1));
        if ((n + 1) % 100 != 0) continue;
        if (n + 1 == 1000 || (n + 1) % 5000 == 0 || n + 1 == trials_wanted)
            printf("%-34s %6d trials: %8.1f us a parameter\n", label, n + 1, 1e6 * recent / 100 / parameters);
        total += recent;
        recent = 0;
    }
    printf("%-34s total %.2f s for %d trials, best %.6g\n", label, total, trials_wanted, best);
    ft_sampler_free(sampler);
    ft_trials_free(&trials);
    ft_arena_free(&arena);
    return FT_OK;
}

int main(int argc, char **argv) {
    int trials = argc > 1 ? atoi(argv[1]) : 5000;
    bool plain = argc > 2 && strcmp(argv[2], "plain") == 0, gp = argc > 2 && strcmp(argv[2], "gp") == 0;
    const bool fine = argc > 2 && strcmp(argv[2], "fine") == 0;
    const bool numbers = argc > 2 && strcmp(argv[2], "numbers") == 0;
    const bool cmaes = numbers || (argc > 2 && strcmp(argv[2], "cmaes") == 0);
    if (trials < 100) {
        fprintf(stderr, "usage: bench_tpe [trials >= 100] [fine|plain|gp|cmaes|numbers]\n");
        return FT_INVALID;
    }
    ft_sampler_options options = ft_sampler_defaults();
    options.plain = plain;
    if (fine) options.fine = FT_SWITCH_ON, options.branch_split = options.branch_joint = true;
    if (gp) options.kind = FT_SAMPLER_GP;
    if (cmaes) options.kind = FT_SAMPLER_CMAES;
    if (numbers) parameters = TPE_NUMBERS; // the choices are the last ones
    if (run("joint, a bowl", &options, false, trials) != FT_OK) return failed(ft_error_code());
    if (run("joint, nothing to learn", &options, true, trials) != FT_OK) return failed(ft_error_code());
    if (gp || cmaes) return FT_OK; // always joint
    options.multivariate = FT_SWITCH_OFF;
    if (run("one by one, a bowl", &options, false, trials) != FT_OK) return failed(ft_error_code());
    if (run("one by one, nothing to learn", &options, true, trials) != FT_OK) return failed(ft_error_code());
    return FT_OK;
}
