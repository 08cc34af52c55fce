// bench_tpe.c - what one suggestion of TPE costs as the history grows: bench_tpe [trials] [plain]
// 10 mixed parameters, 24 candidates, full history, a trivial objective, all in memory; the same history drives every
// setting, since fast and plain suggest the same. Prints microseconds a parameter, averaged over the 100 trials before
// each mark, and the total. "plain" times the version that keeps nothing (slow).
#include "hpo/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARAMETERS = 10 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ft_status failed(ft_status status) {
    fprintf(stderr, "error: %s: %s\n", ft_error_where(), ft_error_message());
    return status;
}

static ft_status make_space(ft_arena *arena, ft_distribution *d) {
    ft_choice choices[7];
    for (int i = 0; i < 7; i++)
        choices[i] = (ft_choice){.kind = FT_CHOICE_INT, .integer = i};
    FT_TRY(ft_distribution_float("p0", 1e-6, 1e-3, true, 0, &d[0]));
    FT_TRY(ft_distribution_float("p1", 0, 0.3, false, 0, &d[1]));
    FT_TRY(ft_distribution_float("p2", 1e-8, 1e-1, true, 0, &d[2]));
    FT_TRY(ft_distribution_float("p3", -5, 10, false, 0, &d[3]));
    FT_TRY(ft_distribution_float("p4", 0, 1, false, 0.05, &d[4]));
    FT_TRY(ft_distribution_int("p5", 128, 512, false, 32, &d[5]));
    FT_TRY(ft_distribution_int("p6", 1, 1000, true, 1, &d[6]));
    FT_TRY(ft_distribution_int("p7", 1, 64, false, 1, &d[7]));
    FT_TRY(ft_distribution_categorical("p8", arena, choices, 7, &d[8]));
    return ft_distribution_categorical("p9", arena, choices, 3, &d[9]);
}

static double objective(const ft_distribution *d, const double *x, bool flat) {
    double sum = 0;
    if (flat) { // nothing to learn: the history stays spread out
        for (int i = 0; i < PARAMETERS; i++)
            sum += sin(1e5 * x[i]);
        return sum;
    }
    for (int i = 0; i < PARAMETERS; i++) {
        double u = d[i].kind == FT_CATEGORICAL ? x[i] / d[i].choice_count
                   : d[i].log                  ? log(x[i] / d[i].low) / log(d[i].high / d[i].low)
                                               : (x[i] - d[i].low) / (d[i].high - d[i].low);
        sum += (u - 0.3) * (u - 0.3);
    }
    return sum;
}

static ft_status run(const char *label, const ft_sampler_options *options, bool flat, int trials_wanted) {
    ft_arena arena = {0};
    ft_distribution d[PARAMETERS];
    ft_trials trials;
    ft_sampler *sampler;
    FT_TRY(make_space(&arena, d));
    FT_TRY(ft_trials_init(&trials, 1, (bool[]){false}));
    FT_TRY(ft_sampler_new(options, &trials, &sampler));
    double total = 0, recent = 0, best = INFINITY;
    for (int n = 0; n < trials_wanted; n++) {
        int64_t number;
        double x[PARAMETERS];
        FT_TRY(ft_trials_append(&trials, FT_RUNNING, &number));
        for (int i = 0; i < PARAMETERS; i++) {
            char name[16];
            int name_id, distribution_id;
            snprintf(name, sizeof name, "p%d", i);
            double start = now();
            FT_TRY(ft_sampler_suggest(sampler, number, name, &d[i], &x[i]));
            recent += now() - start;
            FT_TRY(ft_trials_name(&trials, name, &name_id));
            FT_TRY(ft_trials_distribution(&trials, &d[i], &distribution_id));
            FT_TRY(ft_trials_set_param(&trials, number, name_id, distribution_id, x[i]));
        }
        double value = objective(d, x, flat);
        best = fmin(best, value);
        FT_TRY(ft_trials_finish(&trials, number, FT_COMPLETE, &value, 1));
        if ((n + 1) % 100 != 0) continue;
        if (n + 1 == 1000 || (n + 1) % 5000 == 0 || n + 1 == trials_wanted)
            printf("%-34s %6d trials: %8.1f us a parameter\n", label, n + 1, 1e6 * recent / 100 / PARAMETERS);
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
    bool plain = argc > 2 && strcmp(argv[2], "plain") == 0;
    if (trials < 100) {
        fprintf(stderr, "usage: bench_tpe [trials >= 100] [plain]\n");
        return FT_INVALID;
    }
    ft_sampler_options options = ft_sampler_defaults();
    options.plain = plain;
    if (run("joint, a bowl", &options, false, trials) != FT_OK) return failed(ft_error_code());
    if (run("joint, nothing to learn", &options, true, trials) != FT_OK) return failed(ft_error_code());
    options.multivariate = FT_OFF;
    if (run("one by one, a bowl", &options, false, trials) != FT_OK) return failed(ft_error_code());
    if (run("one by one, nothing to learn", &options, true, trials) != FT_OK) return failed(ft_error_code());
    return FT_OK;
}
