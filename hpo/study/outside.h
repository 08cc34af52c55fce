// outside.h - trials of a study that another program runs: it asks for one, trains whatever it likes, and tells how good it was.
// With the study's sampler and pruner, as [study] describes them.
//
// Such a trial is RUNNING and has no directory, by which `ftengine tune` leaves it alone, as it does those of Optuna's workers. Nobody
// claims it: a program that dies leaves it RUNNING until somebody tells that it failed.
#ifndef FT_HPO_OUTSIDE_H
#define FT_HPO_OUTSIDE_H

#include "hpo/study/study.h"

// The study, the configuration and the space stay the caller's, and open. With a space a study without trials learns from what
// study.learn_from names; without one nothing is asked for, and what was learnt is read alone.
ft_status ft_outside_open(ft_stored *study, const ft_config *config, const ft_space *space, ft_tuning *tuning);
void ft_outside_close(ft_tuning *tuning);
// A trial that waits in the queue (but for thawed ones), else a new one, with all its values in the file. values: as for ft_tuning_draw.
// FT_FAILED: every point of a grid was tried.
ft_status ft_outside_ask(ft_tuning *tuning, int64_t *number, ft_arena *arena, const char **values);
// One value at a step >= 0 of a trial that goes on; a step that has another value keeps it, with a warning. *prune: the pruner would end it here; the caller does, or not.
ft_status ft_outside_report(ft_tuning *tuning, int64_t number, int64_t step, double value, bool *prune);
// How it ended: COMPLETE with a value an objective, PRUNED with one or none, which is the last report then, FAIL with none. limits: what
// the program's own constraints came to, <= 0 where they are kept, as Optuna stores them; none of a trial that has none.
ft_status ft_outside_end(ft_tuning *tuning, int64_t number, ft_trial_state state, const double *values, int count, const double *limits,
                         int limit_count);

#endif
