// cache.h - TPE that keeps its work from trial to trial: the split, and for each subspace both estimators, into
// which only the trials that changed sides are put. It answers exactly as ft_tpe_suggest, to the bit; what makes that
// true is in parzen.h (one by one equals all at once) and parzen_fast.h (the same summands).
#ifndef FT_HPO_TPE_CACHE_H
#define FT_HPO_TPE_CACHE_H

#include "hpo/search/tpe/tpe.h"

typedef struct ft_tpe_cache ft_tpe_cache;
ft_status ft_tpe_cache_new(ft_tpe_cache **out);
void ft_tpe_cache_free(ft_tpe_cache *cache); // NULL is fine

// As ft_tpe_suggest. One cache serves one study with one set of options.
ft_status ft_tpe_cache_suggest(ft_tpe_cache *cache, const ft_trials *trials, const ft_tpe_options *options,
                               int64_t number, const ft_subspace *subspace, double *values);

#endif
