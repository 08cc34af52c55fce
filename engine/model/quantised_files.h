// quantised_files.h - a model whose linear layers stand in 4 or 8 bits in its file, as transformers saves one that bitsandbytes quantised
// (engine/files/bitsandbytes.h). The head, a pooler that a classifier brings and all that is no linear layer keep their numbers.
#ifndef FT_QUANTISED_FILES_H
#define FT_QUANTISED_FILES_H

#include "engine/model/model.h"

// Writes <directory>/model.safetensors, of a model in fp32 on the CPU that keeps all weights as numbers. The directory exists.
// FT_INVALID: a weight is not finite.
ft_status ft_model_save_quantised(const ft_model *model, ft_quantisation format, const char *directory);
// What config.json says of such a file, from here on (ft_model_config_save).
ft_status ft_model_set_quantised(const ft_model *model, ft_quantisation format, ft_model_config *config);

#endif
