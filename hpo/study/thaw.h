// thaw.h - a trial that was pruned may go on: its checkpoint is kept (study.keep_pruned), and `ftengine study thaw`
// enqueues a trial that takes it over.
//
// The pruned trial stays as it is, for finished trials never change, in whatever program reads the study. The one that
// goes on has a number of its own, the same parameters, the user attribute `thaws` with the other's number, and a copy
// of its run directory; it tells its evaluations from the first step on, and no pruner judges it, for a person has.
#ifndef FT_HPO_STUDY_THAW_H
#define FT_HPO_STUDY_THAW_H

#include "hpo/study/study.h"

// *of: the trial that this one takes over, -1: none.
ft_status ft_thaw_of(ft_stored *study, int64_t number, int64_t *of);
// The same of a trial that this process begins: one that it asked for just now is none, and no server is asked.
ft_status ft_tuning_thaw_of(ft_tuning *tuning, int64_t number, int64_t *of);
// Bytes of what is kept of a trial to go on from, 0: nothing.
ft_status ft_thaw_bytes(const char *directory, uint64_t *bytes);
// A trial that waits, with the parameters of trial `of` of a study whose directory is given. One group. FT_INVALID,
// with what can be done: it was not pruned, or nothing is left to go on from, or it is waiting or thawed already.
ft_status ft_thaw_enqueue(ft_stored *study, const char *directory, int64_t of, int64_t *number);
// The directory of a trial that takes over another one, made whole or not at all; nothing for others, and when it is
// there. A checkpoint that is gone is said: the trial begins anew, with the same result.
ft_status ft_tuning_take_over(ft_tuning *tuning, int64_t number);
// kept [trials]: also the pruned ones whose checkpoints stay, within study.keep_pruned and as long as somebody waits
// for them; the worst go first, of equal ones the oldest, and that is said.
ft_status ft_tuning_keep_pruned(ft_tuning *tuning, bool *kept);

#endif
