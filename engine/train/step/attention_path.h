// attention_path.h - what FTENGINE_ATTENTION=tcgen05 comes to for a model (kernels/cuda/attention/path.h): a device may have passed its check, and the model
// have no attention that tensor memory is made for.
#ifndef FT_ATTENTION_PATH_H
#define FT_ATTENTION_PATH_H

#include "engine/config/config.h"
#include "engine/model/spec/model_config.h"
#include "kernels/ops/device.h"

// The path of attention on a device for such a model, as ft_device_attention says it; a model that has nothing for tcgen05 has mma.sync where that is asked for.
const char *ft_attention_name(const ft_device *device, const ft_model_config *model, ft_precision precision);
// That tcgen05 is asked for and this model has nothing for it, as a warning.
void ft_attention_tell(const ft_device *device, const ft_model_config *model, ft_precision precision);

#endif
