// weights.h - the tensors of a model directory, in whatever files people have them:
//
//     model.safetensors                     one file
//     model.safetensors.index.json          which tensor is in which of several safetensors files
//     pytorch_model.bin                     what torch.save wrote (torch_file.h)
//     pytorch_model.bin.index.json          the same in several files
//
// The first of these that is there is taken, in the order of transformers. Matrices that bitsandbytes quantised are one tensor each here,
// of their own shape, whose elements are made as they are read (bitsandbytes.h). All files are mapped, so opening costs no
// memory in the size of the weights. Everything wrong is FT_INVALID with the file.
#ifndef FT_WEIGHTS_H
#define FT_WEIGHTS_H

#include "engine/files/safetensors.h"

typedef struct ft_weights ft_weights;
struct ft_packed;
ft_status ft_weights_open(const char *directory, ft_weights **weights);
void ft_weights_close(ft_weights *weights); // NULL is fine
int ft_weights_count(const ft_weights *weights);
const ft_safetensor *ft_weights_at(const ft_weights *weights, int index); // by name
int ft_weights_find(const ft_weights *weights, const char *name);         // -1 if absent
// The file that a tensor is in, and the one that says which tensors there are (the index, if there is one).
const char *ft_weights_path(const ft_weights *weights, int index);
const char *ft_weights_list_path(const ft_weights *weights);
// Elements [first, first + count) of a tensor as fp32, as ft_safetensor_part_to_f32.
ft_status ft_weights_part_to_f32(const ft_weights *weights, int index, int64_t first, int64_t count, float *out);
// The parts of a matrix of 4 or 8 bits; NULL: the tensor is none.
const struct ft_packed *ft_weights_packed(const ft_weights *weights, int index);

// Does the directory hold weights in one of the files above? FT_NO_MEMORY: nobody knows.
ft_status ft_weights_exist(const char *directory, bool *exist);
// sha256 of the file that holds them; of several, of their names and hashes, a line each as sha256sum writes it, in the order of names.
ft_status ft_weights_digest(const char *directory, char hex[65]);
// Bytes of all files of weights there, which are mapped while they are read, an index's all at once; 0: there are none.
size_t ft_weights_bytes(const char *directory);

#endif
