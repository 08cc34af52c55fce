// torch_file.h - the tensors of a pytorch_model.bin: what torch.save wrote from a dictionary of tensors, since
// PyTorch 1.6 a ZIP archive of a pickle (data.pkl) and one stored entry for every storage (data/0, data/1, ...), before
// that (2020) pickles and storages one behind the other. Both are read; nothing is executed (pickle.h), and weights are
// mapped, not loaded.
//
// A tensor is a view of its storage: type, place of the first element, shape and strides. Views that are not dense are
// given as they are (ft_safetensor.strides). Nothing is believed: a view must lie in its storage, a storage in the
// file. Everything wrong is FT_INVALID with the file and the byte. Entries of the dictionary that are no tensors are
// passed over.
#ifndef FT_TORCH_FILE_H
#define FT_TORCH_FILE_H

#include "engine/files/safetensors.h"

typedef struct ft_torch_file ft_torch_file;
ft_status ft_torch_open(const char *path, ft_torch_file **file);
void ft_torch_close(ft_torch_file *file); // NULL is fine
int ft_torch_count(const ft_torch_file *file);
// By name; names occur once. Two names may stand for the same data.
const ft_safetensor *ft_torch_at(const ft_torch_file *file, int index);
const ft_safetensor *ft_torch_find(const ft_torch_file *file, const char *name); // NULL if absent

#endif
