// safetensors.h - reading and writing the safetensors format: u64 little-endian header length, a JSON header
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {..}}, then the data.
//
// Reading trusts nothing: the header must fit the file and be at most 100 MB, offsets must lie in the file, be ordered,
// not overlap, leave no holes and match dtype x shape, names must be unique. Everything wrong is FT_INVALID with
// file and tensor name. The data are memory-mapped.
#ifndef FT_SAFETENSORS_H
#define FT_SAFETENSORS_H

#include "base/status.h"
#include "kernels/dtype.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// The dtype of tensors whose type we know by name and size only (U16, F8_E4M3, C64, ...).
#define FT_SAFETENSOR_OTHER ((ft_dtype)0xFF)

typedef struct ft_safetensor {
    const char *name;
    ft_dtype dtype; // F32 BF16 F16 F64 I32 I64 U8/BOOL/I8; others are listed as FT_SAFETENSOR_OTHER
    int rank;
    int64_t shape[8];
    const void *data; // mapped; aligned only as the file has it: use memcpy
    size_t bytes;
    const char *dtype_name; // as in the file; in writing only that of one byte counts: I8, BOOL (NULL: U8)
    // Elements from one index of a dimension to the next. NULL: dense, as everywhere in safetensors; tensors of
    // torch_file.h may be views. `bytes` counts the elements of the shape all the same.
    const int64_t *strides;
} ft_safetensor;

typedef struct ft_safetensors ft_safetensors;
ft_status ft_safetensors_open(const char *path, ft_safetensors **file);
void ft_safetensors_close(ft_safetensors *file); // NULL is fine
int ft_safetensors_count(const ft_safetensors *file);
const ft_safetensor *ft_safetensors_at(const ft_safetensors *file, int index);          // in file order
const ft_safetensor *ft_safetensors_find(const ft_safetensors *file, const char *name); // NULL if absent
const char *ft_safetensors_metadata(const ft_safetensors *file, const char *key);       // NULL if absent
const char *ft_safetensors_path(const ft_safetensors *file);
// Copies a tensor into fp32 (F32, BF16, F16 and F64 are converted). count must equal its elements.
ft_status ft_safetensor_to_f32(const ft_safetensors *file, const ft_safetensor *tensor, float *out, int64_t count);
// The same for elements [first, first + count), which must lie in the tensor.
ft_status ft_safetensor_part_to_f32(const ft_safetensors *file, const ft_safetensor *tensor, int64_t first, int64_t count,
                                    float *out);

// The same for a tensor of any file; `path` is for errors.
ft_status ft_tensor_part_to_f32(const char *path, const ft_safetensor *tensor, int64_t first, int64_t count, float *out);

// Writing: a list of tensors to an open stream. Data begin aligned to 8 bytes; order is kept. metadata: NULL or
// key, value, key, value, ..., NULL. A failed write shows in the stream's error flag and in the status.
// The data of tensor `index` come from `fetch`, in order, in pieces of at most `piece` bytes (0: whole tensors): it gives
// bytes [offset, offset + bytes), which must hold until the next call.
typedef ft_status (*ft_safetensor_source)(void *context, int index, size_t offset, size_t bytes, const void **data);
ft_status ft_safetensors_write_from(FILE *out, const char *path_for_errors, int count, const ft_safetensor *tensors,
                                    const char *const *metadata, size_t piece, ft_safetensor_source fetch,
                                    void *context);
// The same with the tensors' own data pointers.
ft_status ft_safetensors_write(FILE *out, const char *path_for_errors, int count, const ft_safetensor *tensors,
                               const char *const *metadata);

#endif
