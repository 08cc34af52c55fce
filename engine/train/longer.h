// longer.h - a run that goes on to more steps than it had: where every step that it has made is one of the longer run too.
// That is so unless the learning rate of a step depends on how many there will be.
#ifndef FT_LONGER_H
#define FT_LONGER_H

#include "engine/train/trainer.h"

// How many of the first `step` updates have the same learning rate in a run of `planned` steps as in one of `total`.
int64_t ft_longer_same_rates(const ft_config *config, int64_t planned, int64_t total, int64_t step);
// FT_INVALID: not all of them have, with what it comes to; `dir` is the run's.
ft_status ft_longer_check_rates(const ft_config *config, int64_t planned, int64_t total, int64_t step, const char *dir, const char *path);
// Is it decided here whether this member of a checkpoint's identity may differ?
bool ft_longer_looks_at(const char *key);
// Of a checkpoint's state.json: FT_INVALID where the run that this is to be has other steps than the one that was saved. All else of their
// identities is the same.
ft_status ft_longer_check(const ft_trainer *t, const json_t *root, const char *path);
// Of a run without a checkpoint: FT_INVALID where it came to its end and should have more steps, which now could only be all of them.
ft_status ft_longer_check_gone(const ft_trainer *t);

#endif
