// devices.h - all that those above know of devices beyond an open one (kernels/ops/device.h): which there are, how one is opened by the
// name that a configuration gives it, what a plan must know of it, and what of the machine this process may use. What is
// behind it (devices.c, gpus.c) alone knows both back ends.
//
//   "cpu"   threads and instruction set as for ft_cpu_open()
//   "cuda"  the first CUDA device (CUDA_VISIBLE_DEVICES chooses which that is), with kernels and cuBLASLt; FT_NO_DEVICE
//   says
//           in one sentence what is missing
//   "cuda:N" that one, counted from 0
//   "auto"  CUDA where nothing is missing, else the CPU
#ifndef FT_DEVICES_H
#define FT_DEVICES_H

#include "kernels/cpu_units.h"
#include "kernels/gpu.h"
#include "kernels/host_limits.h"
#include "kernels/ops/device.h"
#include "kernels/ops/gemm_choice.h"

// ---- one device, by its name ------------------------------------------------------------------------------------------

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
// What people should hear of an open device: a part of it that is left alone, as the check at its first use has found. "": nothing.
const char *ft_device_remark(const ft_device *device);
// The same of products with an epilogue (ft_gemms_measure, ft_gemms_use).
const char *ft_device_product_remark(const ft_device *device);
// How products with an activation, its slope or a norm behind them are computed: own, cublaslt (and a pass), or measured, which is either by the shape; "" on
// devices without a kernel of our own for them. Another way has other bits.
const char *ft_device_products(const ft_device *device);
// Which of its paths attention takes on tensor cores, where it has a choice: "wgmma", "mma.sync"...; "" of a device without.
const char *ft_device_attention(const ft_device *device);
// Does it compute bf16 and fp16 in fp32, and only round to them?
bool ft_device_only_rounds(const ft_device *device);
// Does it give the same bits however the rows of a batch are split over calls? (Else for the same split.)
bool ft_target_same_bits(const ft_target *target);
// Can what is queued on it be recorded and replayed (graph_begin)?
bool ft_device_has_graphs(const ft_device *device);
// Bytes that an open device could still give to anybody, as it says itself at this moment; 0: it cannot say.
size_t ft_device_free_bytes(ft_device *device);

// ---- the host -----------------------------------------------------------------------------------------------------------
// Of the container's share, not the machine's size.

int ft_cpu_threads(void);            // OMP_NUM_THREADS if set, else affinity and cgroup quota; at least 1
size_t ft_cpu_total_bytes(void);     // memory that this process may use
size_t ft_cpu_available_bytes(void); // of that, what it could still take now; 0: unknown
size_t ft_cpu_stack_bytes(void);     // addresses of one more thread
void ft_host_limits_read(ft_host_limits *limits);
// Where the processor has tiles the kernel is asked for them, once in a process.
ft_cpu_units ft_cpu_units_read(void);
// Does what process `pid` of this machine holds count under that limit too? Yes where nobody can see the process.
bool ft_host_limit_is_shared(const ft_host_limit *limit, int64_t pid);

// ---- the GPUs of this machine -----------------------------------------------------------------------------------------

// What is asked for them: the driver's library, open.
typedef struct ft_gpus ft_gpus;
typedef struct ft_gpus_driver {
    const char *path;    // of the library
    const char *release; // "535.129.03"; "" where it does not say
    int version;         // the newest CUDA that it supports: 12020 is 12.2
} ft_gpus_driver;

// FT_NO_DEVICE says what is missing; *gpus is then NULL, as with FT_NO_MEMORY, the host's, which says nothing about the driver.
ft_status ft_gpus_open(ft_gpus **gpus);
void ft_gpus_close(ft_gpus *gpus); // NULL is fine
ft_gpus_driver ft_gpus_driver_of(const ft_gpus *gpus); // strings live as long as `gpus`
ft_status ft_gpus_count(const ft_gpus *gpus, int *count);
// ordinal: in [0, count), else FT_NO_DEVICE.
ft_status ft_gpus_read(const ft_gpus *gpus, int ordinal, ft_gpu *gpu);
// Bytes that nobody uses. Makes a context for the question, which takes some hundred MiB itself while it lasts, and of
// which the answer is not free: what a program would find.
ft_status ft_gpus_free_bytes(const ft_gpus *gpus, const ft_gpu *gpu, size_t *bytes);
// FT_NO_DEVICE with what is missing, if the kernels cannot run on this chip.
ft_status ft_gpu_check(const ft_gpu *gpu);
// What a run on any of them would lack, kernels or cuBLASLt, without a context: FT_OK or FT_NO_DEVICE. kernels: which a run would have; NULL
// is fine.
ft_status ft_gpus_check_libraries(const ft_gpus *gpus, ft_gpu_kernels *kernels);
// Who uses its memory, by NVIDIA's management library, which comes with the driver: only for telling people. FT_NO_DEVICE with
// the reason where nobody can say. To be given to ft_gpu_processes_free in any case.
ft_status ft_gpu_processes_read(const ft_gpu *gpu, ft_gpu_processes *processes);
void ft_gpu_processes_free(ft_gpu_processes *processes);
// Memory in use, temperature and load, as far as the same library tells; without a context. FT_NO_DEVICE as above.
ft_status ft_gpu_sensors_read(const ft_gpu *gpu, ft_gpu_sensors *sensors);

// ---- measured algorithms of matrix products -----------------------------------------------------------------------------

// Does the open device choose among any? The others are for devices that do.
bool ft_gemms_have(const ft_device *device);
size_t ft_gemms_library(const ft_device *device); // cuBLASLt's version: 130001 is 13.0.1
void ft_gemms_driver(const ft_device *device, char text[FT_GEMM_DRIVER]); // which driver it is, in words for a comparison
// Takes up the choices (copied); other shapes stay the heuristic's. Before the first product. A choice that this library does
// not know fails the product that asks for it.
ft_status ft_gemms_use(ft_device *device, const ft_gemm_choice *choices, size_t count);
// Tries the kernels of our own that measuring could choose, once, where there are some (product_check.h): ft_device_products says what came of it.
ft_status ft_gemms_check(ft_device *device);
// From now on every shape that is asked for the first time is measured on the operands of the call. What that leaves in C is
// of no use, and the device is waited for.
ft_status ft_gemms_measure(ft_device *device);
// Nothing is measured any more, and nothing was taken up or chosen: as before the first product.
void ft_gemms_forget(ft_device *device);
// What was measured or taken up so far; until the next product.
const ft_gemm_choice *ft_gemms_choices(const ft_device *device, size_t *count);

#endif
