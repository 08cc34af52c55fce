// gemm.h - the matrix products of one CUDA device: cuBLASLt's handle, and for every shape that was asked for the
// descriptors and the algorithm.
//
// An algorithm is what a list of choices has for the call (ft_cuda_gemms_use), else what cuBLASLt's heuristic names first for (shapes, strides, types, alignment of the addresses, the
// fixed workspace): a function of the call and the library, never of time. fp32 is IEEE fp32 without TF32, 16-bit
// inputs are summed in fp32. Sums of a split K are added in fp32 in the workspace, in a fixed order.
#ifndef FT_CUDA_GEMM_H
#define FT_CUDA_GEMM_H

#include "kernels/cuda/cublaslt.h"
#include "kernels/ops/device.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/gemm_choice.h"

typedef struct ft_cuda_gemms ft_cuda_gemms;
typedef struct ft_gemm_tuning ft_gemm_tuning;

// The device's context is the calling thread's. `lt` must outlive the result.
ft_status ft_cuda_gemms_open(const ft_cublaslt *lt, ft_cuda_gemms **gemms);
void ft_cuda_gemms_close(ft_cuda_gemms *gemms); // NULL is fine

// ---- choices that were measured (gemm_tuning.c) --------------------------------------------------------------------------

// Of an open device of this back end, no planned one; as in devices.h.
size_t ft_cuda_gemms_library(const ft_device *device); // cuBLASLt's version: 130001 is 13.0.1
void ft_cuda_gemms_driver(const ft_device *device, char text[FT_GEMM_DRIVER]);
// Takes up the choices (copied); other shapes stay the heuristic's. Before the first product. A choice that this library does
// not know fails the product that asks for it.
ft_status ft_cuda_gemms_use(ft_device *device, const ft_gemm_choice *choices, size_t count);
// From now on every shape that is asked for the first time is measured: up to FT_GEMM_CANDIDATES algorithms, FT_GEMM_ROUNDS
// times each, on the operands of the call. What that leaves in C is of no use, and the device is waited for.
ft_status ft_cuda_gemms_measure(ft_device *device);
// Nothing is measured any more, and nothing was taken up or chosen: as if no product had been asked for.
void ft_cuda_gemms_forget(ft_device *device);
// What was measured or taken up so far; until the next product.
const ft_gemm_choice *ft_cuda_gemms_choices(const ft_device *device, size_t *count);

// ---- for product.c --------------------------------------------------------------------------------------------------------

// What a plan of this product goes by.
ft_gemm_shape ft_cuda_gemm_shape(const ft_gemm_args *args);
uint64_t ft_cuda_gemm_hash(const ft_gemm_shape *shape); // of all its bytes
// A product with an epilogue: its way was chosen. *found: it was.
void ft_gemm_tuning_find_way(ft_gemm_tuning *tuning, const ft_gemm_shape *shape, bool *own, bool *found);
// Measures the two ways and notes the faster one. Equal ones, and a kernel of ours that does not run: in two.
typedef ft_status ft_gemm_queue_function(ft_device *device, const void *what);
ft_status ft_gemm_tuning_measure_way(ft_gemm_tuning *tuning, ft_device *device, const ft_gemm_shape *shape, ft_gemm_queue_function *in_two,
                                     ft_gemm_queue_function *in_one, const void *what, bool *own);

// ---- for gemm_tuning.c ----------------------------------------------------------------------------------------------------

// A product that is described and waits for an algorithm.
typedef struct ft_gemm_call {
    ft_lt_desc desc;
    ft_lt_layout a, b, c; // of our A, B and C
    size_t workspace;     // what of it is cuBLASLt's; a bias that must be copied goes behind
    bool copies_bias;
    const ft_gemm_args *args;
} ft_gemm_call;
// The algorithm that was chosen for this shape. *found: there is one.
ft_status ft_gemm_tuning_find(ft_gemm_tuning *tuning, const ft_cublaslt *lt, ft_lt_handle handle, const ft_gemm_call *call,
                              const ft_gemm_shape *shape, ft_lt_algorithm *algorithm, bool *found);
bool ft_gemm_tuning_measures(const ft_gemm_tuning *tuning);
// Measures what the heuristic offers and notes the fastest.
ft_status ft_gemm_tuning_measure(ft_gemm_tuning *tuning, ft_device *device, ft_lt_handle handle, const ft_gemm_call *call,
                                 const ft_gemm_shape *shape, const ft_lt_choice *offered, int count, ft_lt_algorithm *algorithm);
void ft_gemm_tuning_free(ft_gemm_tuning *tuning); // NULL is fine
ft_gemm_tuning **ft_cuda_gemms_tuning(ft_device *device);
ft_status ft_cuda_gemm_queue(ft_device *device, ft_lt_handle handle, const ft_gemm_call *call, const ft_lt_algorithm *algorithm);

#endif
