// adapter_config.h - adapter_config.json of Hugging Face PEFT: how adapters that lie in a directory are made.
#ifndef FT_MODEL_ADAPTER_CONFIG_H
#define FT_MODEL_ADAPTER_CONFIG_H

#include "engine/model/spec/adapter.h"

#define FT_ADAPTER_CONFIG "adapter_config.json"
#define FT_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define FT_ADAPTER_PREFIX "base_model.model." // of the names of tensors

bool ft_adapter_lies_in(const char *directory);
// [adapter] of `options` becomes what the file says; strings lie in the arena of `options`. *base: the model it was trained on, as the file
// has it, "" when it does not say. FT_INVALID: another kind of adapter, or one with parts that are not known here, by name.
ft_status ft_adapter_config_load(const char *directory, ft_config *options, const char **base);
// FT_INVALID: the adapter in `directory` has other modules, ranks or scales than these options.
ft_status ft_adapter_config_agrees(const char *directory, const ft_config *options, const ft_model_config *model, int count,
                                   const char *const *modules);
// `modules`: the linear layers of the model. A path in `base` is absolute.
ft_status ft_adapter_config_save(const char *path, const ft_config *options, const ft_model_config *model, const char *base, int count,
                                 const char *const *modules);

#endif
