// importance.h - which parameters decided whether a trial became one of the best (PED-ANOVA, as Optuna 5 computes it by
// default).
#ifndef FT_HPO_IMPORTANCE_H
#define FT_HPO_IMPORTANCE_H

#include "hpo/search/history/trials.h"

// importance[name id] for every name of `trials`, [names.count]: at least 0, summing to 1 over the parameters of
// COMPLETE trials; -1 for names that no COMPLETE trial has. Equal shares when nothing can be said. objective: that which is
// looked at alone (0 is the first), or FT_ALL_OBJECTIVES: of several, the best trials are the first Pareto fronts, as in TPE.
#define FT_ALL_OBJECTIVES (-1)
ft_status ft_importance(const ft_trials *trials, int objective, double *importance);

#endif
