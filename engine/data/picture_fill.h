// picture_fill.h - pictures as rows of a batch: bytes to the numbers that the model reads, patch by patch. Internal to
// picture_input.c.
#ifndef FT_PICTURE_FILL_H
#define FT_PICTURE_FILL_H

#include "engine/data/batch.h"

// ft_input_kind.fill. With a feed the pictures are those of the epoch, mixed in fp32 behind the normalisation; what was
// erased is 0.
void ft_picture_fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row);

#endif
