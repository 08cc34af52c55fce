// kept.h - frozen weights of few bits (parameters.h, kernels/ops/quantised.h) made of numbers and read as numbers, in pieces: neither
// ever needs memory in the size of a matrix.
#ifndef FT_KEPT_H
#define FT_KEPT_H

#include "engine/files/bitsandbytes.h"
#include "engine/model/state/parameters.h"

// Is the parameter one of these? Of all others staging.h does the work.
bool ft_kept_quantised(const ft_parameters *p, int index);
// `source` gives elements in the order of memory (ft_parameter_place). FT_INVALID: a number is not finite, or a row of int8 is
// longer than the window.
ft_status ft_kept_upload(ft_staging *staging, const ft_parameters *p, int index, ft_staging_source source, void *context);
// Do the bytes of a file's matrix stand for it as they are? It has the parameter's form, and blocks of scales stay whole where the file has
// its rows in another order (ft_parameter_source). The shape is the parameter's.
bool ft_kept_takes(const ft_parameters *p, int index, const ft_packed *packed);
// Takes them. FT_INVALID: a scale is not finite.
ft_status ft_kept_upload_packed(ft_staging *staging, const ft_parameters *p, int index, const ft_packed *packed);
// Brings `count` elements from `first` on to staging->data + at, as products of fp32 read them; at + count <= FT_STAGING_FLOATS.
ft_status ft_kept_download(ft_staging *staging, const ft_parameters *p, int index, int64_t first, int64_t count, int64_t at);

#endif
