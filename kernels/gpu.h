// gpu.h - facts of a GPU of this machine, as values: what is asked for them is in devices.h.
#ifndef FT_GPU_H
#define FT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FT_GPU_MINIMUM_CAPABILITY = 80 }; // Ampere: asynchronous copies and bf16 tensor cores

typedef struct ft_gpu {
    int ordinal, handle; // its number from 0, and the driver's name for it
    char name[96];       // "NVIDIA A100-SXM4-80GB"
    char pci[24];        // "0000:3b:00.0"; slices of one GPU (MIG) have the same
    char uuid[40];       // "8a3d5c1e-0b7f-4d3a-9c55-0123456789ab"; a slice has its own
    int capability;      // 10 * major + minor
    int multiprocessors;
    bool virtual_memory; // has cuMem* ranges
    size_t total_bytes;
} ft_gpu;

// The library of our kernels that a driver gets.
typedef struct ft_gpu_kernels {
    char path[512];
    int cuda; // that built it: 12040 is 12.4
    char targets[120]; // "sm_80 sm_90a ptx_90"
} ft_gpu_kernels;

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

// What a chip tells of itself at a moment.
typedef struct ft_gpu_sensors {
    bool has_memory, has_temperature, has_busy;
    size_t used_bytes, total_bytes; // of all programs, the driver's own included
    int celsius, busy;              // busy: percent of the time in which something was computed
} ft_gpu_sensors;

#endif
