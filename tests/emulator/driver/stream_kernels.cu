// stream_kernels.cu - kernels for test_streams.c.
#include "kernels/cuda/simt.h"

extern "C" {
#include "tests/emulator/driver/stream_kernels.h"
}

namespace {

FT_KERNEL void accumulate(float *sum, const float *batch, int n) {
    int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) sum[i] = 2.0f * sum[i] + batch[i];
}

FT_KERNEL void overrun(float *data, int n) {
    if (threadIdx.x == 0) data[n] = 1.0f;
}

FT_KERNEL void stuck(float *data) {
    if (threadIdx.x < 3) __syncthreads();
    data[threadIdx.x] = 1.0f;
    __syncthreads();
}

} // namespace

extern "C" ft_status stream_accumulate(void *stream, float *sum, const float *batch, int n) {
    return ft_launch("accumulate", accumulate, dim3(unsigned(n + 63) / 64), dim3(64), 0, static_cast<cudaStream_t>(stream),
                     sum, batch, n);
}

extern "C" ft_status stream_overrun(void *stream, float *data, int n) {
    return ft_launch("overrun", overrun, dim3(1), dim3(32), 0, static_cast<cudaStream_t>(stream), data, n);
}

extern "C" ft_status stream_stuck(void *stream, float *data) {
    return ft_launch("stuck", stuck, dim3(1), dim3(32), 0, static_cast<cudaStream_t>(stream), data);
}
