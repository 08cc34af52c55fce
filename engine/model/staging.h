// staging.h - a small window of host memory through which tensors travel between files and the device, piece by piece:
// loading or saving never needs memory in the size of a model or of its largest tensor.
#ifndef FT_STAGING_H
#define FT_STAGING_H

#include "engine/memory/memory.h"

enum { FT_STAGING_FLOATS = 1 << 16 }; // even: pieces begin at even elements

typedef struct ft_staging {
    ft_memory *memory;
    float *data; // [FT_STAGING_FLOATS]
} ft_staging;

ft_status ft_staging_open(ft_memory *memory, ft_staging *staging);
void ft_staging_close(ft_staging *staging); // {0} is fine

// Fills device[0 .. count): `source` writes elements [first, first + count) of the tensor to `out`.
typedef ft_status (*ft_staging_source)(void *context, int64_t first, int64_t count, float *out);
ft_status ft_staging_upload(ft_staging *staging, float *device, int64_t count, ft_staging_source source, void *context);
// Brings count <= FT_STAGING_FLOATS elements from the device to staging->data.
ft_status ft_staging_download(ft_staging *staging, const float *device, int64_t count);

#endif
