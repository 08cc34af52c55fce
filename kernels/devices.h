// devices.h - a device by the name that a configuration gives it, and what a plan must know of it.
//
//   "cpu"   threads and instruction set as for ft_cpu_open()
//   "cuda"  the first CUDA device (CUDA_VISIBLE_DEVICES chooses which that is), with kernels and cuBLASLt; FT_NO_DEVICE
//   says
//           in one sentence what is missing
//   "cuda:N" that one, counted from 0
//   "auto"  CUDA where nothing is missing, else the CPU
#ifndef FT_OPEN_H
#define FT_OPEN_H

#include "kernels/backend.h"

enum { FT_DEVICE_WHY = 512 };
// isa: as for ft_cpu_open(); "auto" is its NULL. why[FT_DEVICE_WHY] (may be NULL): why "auto" is the CPU, else "".
ft_status ft_device_open(const char *name, int threads, const char *isa, ft_device **device, char *why);

// The device that would be opened, without a context on it.
typedef struct ft_device_facts {
    char name[16]; // "cpu", "cuda:0"
    ft_target target;
    size_t total_bytes;
} ft_device_facts;
ft_status ft_device_look(const char *name, int threads, ft_device_facts *facts);
// The target of a CUDA chip that need not be here, with pages of 2 MiB as all of them have; compute_capability: 80 for 8.0.
ft_target ft_cuda_target(int sm_count, int compute_capability);
// Does it compute bf16 and fp16 in fp32, and only round to them?
bool ft_device_only_rounds(const ft_device *device);
// Does it give the same bits however the rows of a batch are split over calls? (Else for the same split.)
bool ft_target_same_bits(const ft_target *target);
// Can what is queued on it be recorded and replayed (graph_begin of backend.h)?
bool ft_device_has_graphs(const ft_device *device);
// Bytes that an open device could still give to anybody, as it says itself at this moment; 0: it cannot say.
size_t ft_device_free_bytes(ft_device *device);

#endif
