// update.h - one optimizer update: gradient norm, clipping, AdamW, with their scratch.
#ifndef FT_UPDATE_H
#define FT_UPDATE_H

#include "engine/config/config.h"
#include "engine/model/state/parameters.h"

// Of the loss scale of fp16, PyTorch's GradScaler as transformers' Trainer uses it: what it is at first, after how many
// steps without overflow it doubles, and below what training has failed, which is ours: from 2^16 down it takes 30 overflows
// in a row, and no gradient needs less.
#define FT_FIRST_LOSS_SCALE 65536.0f
#define FT_LEAST_LOSS_SCALE 0x1p-14f
enum { FT_LOSS_SCALE_GROWTH_INTERVAL = 2000 };

// Is there a loss scale that changes by itself?
bool ft_update_scales_loss(const ft_config *config);
// What *update is before the first step.
ft_update_state ft_update_first(const ft_config *config);
// Queues the loss scale as it is now for the next step; behind the upload of *step.
ft_status ft_update_scale_step(ft_device *device, const ft_config *config, const ft_update_state *update, ft_step_state *step);
// losses: [examples] fp32, device. A step whose losses or gradients are not finite changes nothing but `update`.
ft_status ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                        ft_update_state *update);

#endif
