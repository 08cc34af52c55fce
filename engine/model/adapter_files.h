// adapter_files.h - the numbers that are trained beside a frozen model, in and out of adapter_model.safetensors as PEFT has it.
#ifndef FT_ADAPTER_FILES_H
#define FT_ADAPTER_FILES_H

#include "engine/model/model.h"

// Fills all that is trained; the model was created with the options of the adapter's configuration, and its other weights are there or
// will come. FT_INVALID: a tensor that is missing, is of another shape, or has no place in this model, by name.
ft_status ft_model_load_adapter(ft_model *model, const char *directory);
// How many outputs the classifier in the file has, of a model of this family. FT_INVALID: there is none.
ft_status ft_adapter_outputs(const char *directory, const ft_model_config *config, int64_t *outputs);
// Writes <directory>/adapter_model.safetensors in fp32. The directory exists.
ft_status ft_model_save_adapter(ft_model *model, const char *directory);
// W += s B A for every adapter, of a model in fp32 on the CPU that is not trained: from here on it computes, and ft_model_save_weights writes,
// the merged model. Once.
ft_status ft_model_merge_adapters(ft_model *model, const ft_model_config *config, const ft_config *options);

#endif
