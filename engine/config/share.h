// share.h - the configuration of one run of data.shares.
#ifndef FT_CONFIG_SHARE_H
#define FT_CONFIG_SHARE_H

#include "engine/config/config.h"

// Trained on one text in `one_in` with the whole schedule of the configuration: what is counted in optimizer steps (train.max_steps,
// train.warmup_steps, eval.steps) is as much less, rounded up. One that names a share is the run of that share. Strings are shared.
ft_config ft_config_of_share(const ft_config *config, int64_t one_in);
// Whether its run is one of several.
static inline bool ft_config_has_shares(const ft_config *config) { return config->data.shares.count > 0; }

#endif
