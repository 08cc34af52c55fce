// thaw.h - a trial that has ended may go on: one that was pruned to its end, and any to more steps than it had, where its
// learning rate does not end with them (engine/train/lengthen.h). Its checkpoint is kept (study.keep_pruned), and `ftengine study
// thaw` enqueues a trial that takes it over.
//
// The ended trial stays as it is, for finished trials never change, in whatever program reads the study. The one that
// goes on has a number of its own, the same parameters, the user attribute `thaws` with the other's number, a copy of its run directory and, in its config.ini and
// the attribute `thaw_epochs` or `thaw_steps`, the steps that it is to have; it tells its evaluations from the first step on, and no pruner judges it, for a person has.
#ifndef FT_HPO_STUDY_THAW_H
#define FT_HPO_STUDY_THAW_H

#include "hpo/study/study.h"

// To what end: neither, that of its configuration.
typedef struct ft_thaw_wish {
    double epochs; // 0: not given
    int64_t steps; // 0: not given
} ft_thaw_wish;

// *of: the trial that this one takes over, -1: none.
ft_status ft_thaw_of(ft_stored *study, int64_t number, int64_t *of);
// The same of a trial that this process begins: one that it asked for just now is none, and no server is asked.
ft_status ft_tuning_thaw_of(ft_tuning *tuning, int64_t number, int64_t *of);
// Bytes of what is kept of a trial to go on from, 0: nothing.
ft_status ft_thaw_bytes(const char *directory, uint64_t *bytes);
// A trial that waits, with the parameters of trial `of` of a study whose directory is given. One group. FT_INVALID,
// with what can be done: it has not ended, or came to the end that is wanted, or its learning rate is that of its steps, or nothing is
// left to go on from, or it is waiting or thawed already.
ft_status ft_thaw_enqueue(ft_stored *study, const char *directory, int64_t of, const ft_thaw_wish *wish, int64_t *number);
// The steps that a trial which takes over another one is to have, in its configuration; nothing for others.
ft_status ft_tuning_thaw_configure(ft_tuning *tuning, int64_t number, ft_config *config);
// The directory of a trial that takes over another one, made whole or not at all; nothing for others, and when it is
// there. A checkpoint that is gone is said: the trial begins anew, with the same result.
ft_status ft_tuning_take_over(ft_tuning *tuning, int64_t number);
// kept [trials]: also those, pruned or complete, whose checkpoints stay, within study.keep_pruned and as long as somebody waits
// for them; the worst go first, of equal ones the oldest, and that is said.
ft_status ft_tuning_keep_pruned(ft_tuning *tuning, bool *kept);

#endif
