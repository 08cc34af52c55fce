// recompute.h - what the backward pass keeps and what it computes again, as the options say. Why, and how the inside of a layer is had
// again: recompute.c.
#ifndef FT_RECOMPUTE_H
#define FT_RECOMPUTE_H

#include "engine/model/state/net.h"

// Between two steps; `auto` is what is fastest.
void ft_model_set_recomputation(ft_model *model, const ft_config *options);
ft_status ft_recompute_check(const ft_config *options); // FT_INVALID for what precision or offload do not allow
// Does a run with these options, on this device, keep the inputs of recomputed layers on the host (offload_inputs.h)? Not where the
// device's memory is the host's.
bool ft_offloads_inputs(const ft_config *options, const ft_device *device);
// train.gradient_checkpointing of a run on this device, `auto` resolved: 0 off, k every k layers.
int64_t ft_checkpoint_every(const ft_config *options, const ft_device *device);
int ft_model_checkpoints(const ft_model *model); // how many inputs of layers a micro-batch keeps to compute from them again

#endif
