// run_end.h - the end of a run, as a longer run would see it.
//
// A run writes a line and evaluates at its last step in any case. Where its schedule has neither at that step, a run of more
// steps has neither: so the checkpoint of such an end also has what the run was before, and the best model so far is kept
// beside it (checkpoints/best-STEP, files of the same inodes) when the evaluation at the end replaces it. A run that goes on
// begins there. So does one that ended for train.deadline.
#ifndef FT_RUN_END_H
#define FT_RUN_END_H

#include "engine/train/trainer.h"

// Does its schedule evaluate at this step, be it the last one or not?
bool ft_run_evaluates_at(const ft_trainer *t, int64_t step);
// The line and the evaluation that come now are those of an end alone.
void ft_run_end_note(ft_trainer *t);
// The best model of the state so far is about to be replaced.
ft_status ft_run_end_keep_best(ft_trainer *t);
bool ft_run_end_has_best(const ft_trainer *t, int64_t step); // kept
// Of a run that begins anew here: what an earlier one kept is none of its own.
ft_status ft_run_end_forget(const ft_trainer *t);
// Once the checkpoint counts on it: the best model is that of the state again, if it was replaced at an end that does not count.
ft_status ft_run_end_put_back(ft_trainer *t);

// state.json's members of it. Reading, *state, which was read, becomes what the run goes on from; can be called again.
void ft_run_end_put(const ft_trainer *t, json_t *root, bool *failed);
ft_status ft_run_end_read(ft_trainer *t, const json_t *root, const char *path, ft_train_state *state);

#endif
