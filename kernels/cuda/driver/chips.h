// chips.h - what CUDA devices there are, and whether this program can use them.
#ifndef FT_CUDA_CHIPS_H
#define FT_CUDA_CHIPS_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/gpu.h"

ft_status ft_cuda_chip_count(const ft_cuda_driver *driver, int *count);
// ordinal: in [0, count), else FT_NO_DEVICE.
ft_status ft_cuda_chip_read(const ft_cuda_driver *driver, int ordinal, ft_gpu *chip);
// Bytes that nobody uses. Makes a context for the question, which takes some hundred MiB itself while it lasts, and of
// which the answer is not free: what a program would find.
ft_status ft_cuda_chip_free_bytes(const ft_cuda_driver *driver, const ft_gpu *chip, size_t *bytes);
// FT_NO_DEVICE with what is missing, if the kernels cannot run on it.
ft_status ft_cuda_chip_check(const ft_gpu *chip);

#endif
