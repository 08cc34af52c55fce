// cublaslt.h - NVIDIA's matrix products, opened when a CUDA device is. Like driver.h: nothing of it is linked or needed
// to build, its few types and numbers stand here as its binary interface has them (the same in CUDA 12 and 13).
//
//     ft_cublaslt *lt;
//     FT_TRY(ft_cublaslt_open(driver, &lt));
//     FT_TRY(FT_LT(lt, create, &handle));
//     ft_cublaslt_close(lt);
#ifndef FT_CUDA_CUBLASLT_H
#define FT_CUDA_CUBLASLT_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/driver/vendor_library.h"
#include "kernels/ops/gemm_choice.h"

#include <stdint.h>

// ---- the library's types ----------------------------------------------------------------------------------------

typedef struct ft_lt_handle_object *ft_lt_handle;
typedef struct ft_lt_desc_object *ft_lt_desc;             // what is computed
typedef struct ft_lt_layout_object *ft_lt_layout;         // where a matrix lies; columns are contiguous
typedef struct ft_lt_preference_object *ft_lt_preference; // which algorithms are welcome
typedef unsigned ft_lt_type, ft_lt_compute, ft_lt_desc_attribute, ft_lt_preference_attribute; // enums of theirs

typedef ft_gemm_algorithm ft_lt_algorithm;

typedef struct ft_lt_choice { // what the heuristic proposes
    ft_lt_algorithm algorithm;
    size_t workspace_bytes;
    int status; // the rest is valid when 0
    float waves;
    int reserved[4];
} ft_lt_choice;

enum {
    FT_LT_SUCCESS = 0,
    FT_LT_ALLOC_FAILED = 3,
    FT_LT_NOT_SUPPORTED = 15,

    FT_LT_F32 = 0, // element types
    FT_LT_F16 = 2,
    FT_LT_BF16 = 14,
    FT_LT_COMPUTE_F32 = 68, // fp32 sums; of fp32 inputs without TF32

    FT_LT_DESC_TRANSA = 3,
    FT_LT_DESC_TRANSB = 4,
    FT_LT_DESC_EPILOGUE = 7,
    FT_LT_DESC_BIAS_POINTER = 8,
    FT_LT_DESC_BIAS_TYPE = 26,
    FT_LT_TRANSPOSED = 1,
    FT_LT_EPILOGUE_BIAS = 4,

    FT_LT_PREFER_WORKSPACE = 1,
    FT_LT_PREFER_REDUCTION = 3,
    FT_LT_PREFER_ALIGNMENT_A = 5,
    FT_LT_PREFER_ALIGNMENT_B = 6,
    FT_LT_PREFER_ALIGNMENT_C = 7,
    FT_LT_PREFER_ALIGNMENT_D = 8,
    FT_LT_REDUCTION_COMPUTE_TYPE = 2, // partial sums of a split K in fp32, out of place
};

// ---- the library ------------------------------------------------------------------------------------------------

typedef struct ft_cublaslt {
    ft_vendor_library library;
    size_t version; // 130001 is 13.0.1
    size_t (*get_version)(void);
    const char *(*status_name)(int status);
#define FT_CUBLASLT_CALL(field, symbol, parameters) int(*field) parameters;
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL
} ft_cublaslt;

// Where it is looked for, in this order: the file FTENGINE_CUBLASLT names; the loader's own paths; CUDA_HOME and
// /usr/local/cuda; pip's nvidia packages of the virtual environment, the user and the system. Only releases that the
// driver can run. FT_NO_DEVICE says that none was found or what is wrong with it; *lt is then NULL.
ft_status ft_cublaslt_open(const ft_cuda_driver *driver, ft_cublaslt **lt);
void ft_cublaslt_close(ft_cublaslt *lt); // NULL is fine; the library's code stays mapped

// The error of a call: its name and the library's name for the result.
ft_status ft_cublaslt_fail(const ft_cublaslt *lt, const char *call, int status);
#define FT_LT(lt, field, ...) ft_cublaslt_check((lt), ft_cublaslt_symbol_##field, (lt)->field(__VA_ARGS__))
static inline ft_status ft_cublaslt_check(const ft_cublaslt *lt, const char *call, int status) {
    return status == FT_LT_SUCCESS ? FT_OK : ft_cublaslt_fail(lt, call, status);
}
#define FT_CUBLASLT_CALL(field, symbol, parameters) extern const char ft_cublaslt_symbol_##field[];
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL

#endif
