// mapped_files.h - which frozen weights are read where their file lies (memory.map_weights), instead of being copied.
//
// A file of weights is mapped in any case. What the file has as it is read - its type that of the parameter, dense, in
// the order of memory - needs no copy: products, and the layers that travel to a device (state/window.h), read the
// mapping. All processes that do have the pages once, and the system may take them back, for it can read them again. On
// the CPU these are matrices of linear layers, the word table and a language model's head; parts of one product (Q, K
// and V) that a file has apart are products of their own, with the same bits (kernels/ops/gemm.h). For a device with
// memory of its own they are the layers of memory.offload = trunk, all of them or none.
#ifndef FT_MAPPED_FILES_H
#define FT_MAPPED_FILES_H

#include "engine/model/model.h"

enum { FT_MAP_FROM_BYTES = 256 << 20 }; // memory.map_weights = auto

// Could files of so many bytes be of use with this option? Else nobody need open them.
bool ft_model_may_map(ft_map_weights wanted, size_t bytes);
// Before the parameters are allocated: decides for each (ft_parameter.mapped), and how products read them. Nothing
// where config->files is NULL.
ft_status ft_model_map_weights(ft_model *model, const ft_model_config *config, const ft_config *options);

#endif
