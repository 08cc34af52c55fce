// update.h - one optimizer update: gradient norm, clipping, AdamW, with their scratch.
#ifndef FT_UPDATE_H
#define FT_UPDATE_H

#include "engine/config/config.h"
#include "engine/model/parameters.h"

// losses: [examples] fp32, device. A step whose losses or gradients are not finite changes nothing but `update`.
ft_status ft_update_run(const ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                        ft_update_state *update);

#endif
