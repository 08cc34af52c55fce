#include "hpo/search/cmaes/ranking.h"

#include <math.h>

ft_standing ft_standing_of(const ft_trials *trials, const ft_trial *trial) {
    const double violation = ft_trial_violation(trial), sign = trials->maximize[0] ? -1 : 1;
    if (trial->state == FT_FAIL) return (ft_standing){.kind = 3, .number = trial->number};
    if (violation > 0) return (ft_standing){.kind = 1, .major = violation, .number = trial->number};
    if (trial->state == FT_COMPLETE) return (ft_standing){.major = sign * trial->values[0], .number = trial->number};
    if (trial->report_count == 0) return (ft_standing){.kind = 2, .major = 1, .number = trial->number};
    const ft_trial_report *last = &trial->reports[trial->report_count - 1];
    return (ft_standing){.kind = 2,
                         .major = -(double)last->step,
                         .minor = isnan(last->value) ? INFINITY : sign * last->value,
                         .number = trial->number};
}

int ft_standing_compare(const void *a, const void *b) {
    const ft_standing *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->major != y->major) return x->major < y->major ? -1 : 1;
    if (x->minor != y->minor) return x->minor < y->minor ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}
