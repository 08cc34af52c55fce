// processes.h - who uses the memory of a CUDA device, by NVIDIA's management library (libnvidia-ml.so.1, which comes with the
// driver). Only for telling people: nothing is decided by it.
#ifndef FT_CUDA_PROCESSES_H
#define FT_CUDA_PROCESSES_H

#include "base/status.h"
#include "kernels/gpu.h"

// pci: as in ft_gpu. FT_NO_DEVICE with the reason where nobody can say. To be given to ft_cuda_processes_free in any case.
ft_status ft_cuda_processes_read(const char *pci, ft_gpu_processes *processes);
void ft_cuda_processes_free(ft_gpu_processes *processes);

#endif
