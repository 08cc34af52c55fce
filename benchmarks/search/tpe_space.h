// tpe_space.h - the 10 mixed parameters and the trivial objective of bench_tpe and bench_study.
#ifndef FT_BENCH_TPE_SPACE_H
#define FT_BENCH_TPE_SPACE_H

#include "hpo/search/history/distribution.h"

#include <math.h>

enum { TPE_PARAMETERS = 10, TPE_NUMBERS = 8 };
static const char *const tpe_names[TPE_PARAMETERS] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"};

static inline ft_status tpe_space(ft_arena *arena, ft_distribution d[TPE_PARAMETERS]) {
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

// A bowl. `flat`: nothing to learn, so that the history stays spread out.
static inline double tpe_objective(const ft_distribution d[TPE_PARAMETERS], const double x[TPE_PARAMETERS], bool flat) {
    double sum = 0;
    for (int i = 0; i < TPE_PARAMETERS; i++) {
        double u = d[i].kind == FT_CATEGORICAL ? x[i] / d[i].choice_count
                   : d[i].log                  ? log(x[i] / d[i].low) / log(d[i].high / d[i].low)
                                               : (x[i] - d[i].low) / (d[i].high - d[i].low);
        sum += flat ? sin(1e5 * x[i]) : (u - 0.3) * (u - 0.3);
    }
    return sum;
}

#endif
