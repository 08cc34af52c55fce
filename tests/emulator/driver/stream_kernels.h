// stream_kernels.h - launches for test_streams.c, on a stream of the fake driver. stream_kernels.cu has them.
#ifndef FT_STREAM_KERNELS_H
#define FT_STREAM_KERNELS_H

#include "base/status.h"

ft_status stream_accumulate(void *stream, float *sum, const float *batch, int n); // sum = 2 sum + batch
ft_status stream_overrun(void *stream, float *data, int n);                       // writes data[n]
ft_status stream_stuck(void *stream, float *data);                                // a divergent barrier; 32 numbers

#endif
