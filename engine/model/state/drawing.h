// drawing.h - random first values of a parameter: a function of (seed, name of the parameter, element), so that any stretch
// of it can be drawn alone and again.
#ifndef FT_DRAWING_H
#define FT_DRAWING_H

#include "engine/model/state/parameters.h"

typedef struct ft_drawing {
    const ft_parameter *parameter;
    uint64_t key;
    double range;                  // standard deviation of matrices; norms are 1, biases 0
    double cut;                    // no number is further from 0 than so many of them; 0: any may be
    int64_t zero_first, zero_last; // elements that are 0: the padding row of a table
    bool waves;                    // sines and cosines of the row's number in place of random ones
} ft_drawing;

// zero_row: -1, or a row of zeros.
ft_drawing ft_drawing_of(const ft_parameter *parameter, double range, uint64_t seed, int64_t zero_row);
// Elements [first, first + count) to `out`, for ft_staging_upload: context is a const ft_drawing *.
ft_status ft_draw_part(void *context, int64_t first, int64_t count, float *out);

#endif
