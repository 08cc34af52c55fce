// staging.h - a small window of host memory through which tensors travel between files and the device, piece by piece:
// loading or saving never needs memory in the size of a model or of its largest tensor.
#ifndef FT_STAGING_H
#define FT_STAGING_H

#include "engine/memory/memory.h"

enum { FT_STAGING_FLOATS = 1 << 16 }; // even: pieces begin at even elements

typedef struct ft_staging {
    ft_memory *memory;
    float *data;     // [FT_STAGING_FLOATS]
    uint16_t *tails; // [FT_STAGING_FLOATS]
} ft_staging;

ft_status ft_staging_open(ft_memory *memory, ft_staging *staging);
void ft_staging_close(ft_staging *staging); // {0} is fine

// Elements [first, ...) of a tensor on the device, or in pinned memory (offload.h), whose rows lie back to back, whatever its type: the host's side is fp32,
// rounded as weights are (half.h) or widened here.
typedef struct ft_staged {
    ft_tensor tensor;
    uint16_t *tail;  // with a tensor of bf16: its elements' second halves (kernels/split.h), so that it is as exact as fp32
    ft_tensor copy;  // in fp16, of a tensor of fp32: rounded along with it
    int64_t first;
    bool mapped;     // it lies in a file of the host and is only read (parameters.h)
    bool dealt;      // other ranks have parts of its exact form, the tail or the tensor that has a copy (shards.h): here are those of elements
    int64_t from, to; // [from, to), back to back from where `tail`, or the tensor, points. It is only written to, from files that have all
} ft_staged;

// What is left of numbers that were kept in that type, and the numbers themselves in fp32: for whoever has them from elsewhere.
void ft_staging_round(ft_dtype dtype, float *data, int64_t count);

// Fills `count` elements: `source` writes elements [first, first + count), counted from to.first, to `out`.
typedef ft_status (*ft_staging_source)(void *context, int64_t first, int64_t count, float *out);
ft_status ft_staging_upload(ft_staging *staging, ft_staged to, int64_t count, ft_staging_source source, void *context);
// Brings `count` elements to staging->data + at, where at + count <= FT_STAGING_FLOATS.
ft_status ft_staging_download(ft_staging *staging, ft_staged from, int64_t count, int64_t at);

#endif
