// fidelity.h - what is seen of a trial before it is at its end (study.fidelity): evaluations of one training, or whole trainings on
// growing shares of the texts, of which the engine makes one run each (data.shares).
#ifndef FT_HPO_FIDELITY_H
#define FT_HPO_FIDELITY_H

#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

// Of a whole trial, in parts of the size of its smallest share: 9 of 9, 3, 1. That, and those of the smaller shares, are the steps of
// its reports. 0: trials are seen by their steps.
int64_t ft_fidelity_parts(const ft_config *study);
// "data 9, 3, 1", in the arena; "" for steps; NULL when out of memory.
const char *ft_fidelity_text(const ft_config *study, ft_arena *arena);
// Does what is set go together? FT_INVALID with what would.
ft_status ft_fidelity_check(const ft_config *study, const ft_space *space);
// A trial's configuration, which has an arena of its own, gets the shares of its study.
ft_status ft_fidelity_apply(const ft_config *study, ft_config *trial);
// The configuration of a trial becomes that of its last run alone.
void ft_fidelity_forget(const ft_config *study, ft_config *trial);

#endif
