// chips.h - what CUDA devices there are, and whether this program can use them.
#ifndef FT_CUDA_CHIPS_H
#define FT_CUDA_CHIPS_H

#include "kernels/cuda/driver.h"

#include <stdbool.h>

enum { FT_CUDA_MINIMUM_CAPABILITY = 80 }; // Ampere: asynchronous copies and bf16 tensor cores

typedef struct ft_cuda_chip {
    int ordinal, handle; // its number from 0, and the driver's name for it
    char name[96];       // "NVIDIA A100-SXM4-80GB"
    char pci[24];        // "0000:3b:00.0"
    int capability;      // 10 * major + minor
    int multiprocessors;
    bool virtual_memory; // has cuMem* ranges
    size_t total_bytes;
} ft_cuda_chip;

ft_status ft_cuda_chip_count(const ft_cuda_driver *driver, int *count);
// ordinal: in [0, count), else FT_NO_DEVICE.
ft_status ft_cuda_chip_read(const ft_cuda_driver *driver, int ordinal, ft_cuda_chip *chip);
// Bytes that nobody uses. Makes a context for the question, which takes some hundred MiB itself while it lasts, and of
// which the answer is not free: what a program would find.
ft_status ft_cuda_chip_free_bytes(const ft_cuda_driver *driver, const ft_cuda_chip *chip, size_t *bytes);
// FT_NO_DEVICE with what is missing, if the kernels cannot run on it.
ft_status ft_cuda_chip_check(const ft_cuda_chip *chip);

#endif
