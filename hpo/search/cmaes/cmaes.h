// cmaes.h - what a trial takes next, by CMA-ES: the first trials of the study say where it begins, those that ended
// after them are its generations, in the order of their numbers, whoever chose their values. It begins anew, with
// generations twice as large, where a run has nothing left to find (Auger and Hansen 2005, IPOP).
//
// A function of seed, number and history alone, whatever runs meanwhile. Trials that failed, were pruned or broke a
// limit are worse than all others, and the distribution turns away from them.
#ifndef FT_HPO_CMAES_H
#define FT_HPO_CMAES_H

#include "hpo/search/tpe/subspace.h"

typedef struct ft_cmaes_options {
    uint64_t seed;
    int beginning; // ended trials that the first run begins from
} ft_cmaes_options;

typedef struct ft_cmaes ft_cmaes; // the state after a history, kept; nothing depends on it but time
ft_status ft_cmaes_new(ft_cmaes **out);
void ft_cmaes_free(ft_cmaes *cmaes); // NULL is fine

// Numbers among the subspace's parameters, the others are left out: *out may be empty. Free it.
ft_status ft_cmaes_subspace(const ft_trials *trials, const ft_subspace *all, ft_subspace *out);
// values [subspace->count] for trial `number`. Of a study with one objective; the subspace has numbers alone, at least
// one.
ft_status ft_cmaes_suggest(ft_cmaes *cmaes, const ft_trials *trials, const ft_cmaes_options *options, int64_t number,
                           const ft_subspace *subspace, double *values);

#endif
