// processes.h - who uses the memory of a CUDA device, by NVIDIA's management library (libnvidia-ml.so.1, which comes with the
// driver). Only for telling people: nothing is decided by it.
#ifndef FT_CUDA_PROCESSES_H
#define FT_CUDA_PROCESSES_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_gpu_process {
    int64_t pid;    // as the driver numbers it: in a container, the host's number
    char name[32];  // "python3"; "" where the number is not one of this system's or the process has gone
    bool has_bytes; // the driver said how much; under WSL and in some containers it does not
    uint64_t bytes;
} ft_gpu_process;

typedef struct ft_gpu_processes {
    ft_gpu_process *list; // most bytes first
    int count;
} ft_gpu_processes;

// pci: as in ft_cuda_chip. FT_NO_DEVICE with the reason where nobody can say. To be given to ft_cuda_processes_free in any case.
ft_status ft_cuda_processes_read(const char *pci, ft_gpu_processes *processes);
void ft_cuda_processes_free(ft_gpu_processes *processes);

#endif
