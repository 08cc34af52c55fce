// Our own declarations of cuBLASLt against NVIDIA's header, where the machine has one: every type, number and parameter
// list. Skipped elsewhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/cublaslt.h"

#if __has_include(<cublasLt.h>) && __has_include(<cuda_runtime_api.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cublasLt.h>
#pragma GCC diagnostic pop

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_FIELD(our_field, their_field)                                                                             \
    _Static_assert(offsetof(ft_lt_choice, our_field) == offsetof(cublasLtMatmulHeuristicResult_t, their_field) &&      \
                       sizeof(((ft_lt_choice *)0)->our_field) ==                                                       \
                           sizeof(((cublasLtMatmulHeuristicResult_t *)0)->their_field),                                \
                   #our_field)
_Static_assert(sizeof(ft_lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
_Static_assert(sizeof(ft_lt_choice) == sizeof(cublasLtMatmulHeuristicResult_t), "choice");
SAME_FIELD(algorithm, algo);
SAME_FIELD(workspace_bytes, workspaceSize);
SAME_FIELD(status, state);
SAME_FIELD(waves, wavesCount);
SAME_NUMBER(FT_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(FT_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME_NUMBER(FT_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(FT_LT_F32, CUDA_R_32F);
SAME_NUMBER(FT_LT_F16, CUDA_R_16F);
SAME_NUMBER(FT_LT_BF16, CUDA_R_16BF);
SAME_NUMBER(FT_LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME_NUMBER(FT_LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(FT_LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(FT_LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(FT_LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(FT_LT_DESC_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME_NUMBER(FT_LT_TRANSPOSED, CUBLAS_OP_T);
SAME_NUMBER(FT_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(FT_LT_PREFER_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(FT_LT_PREFER_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_NUMBER(FT_LT_PREFER_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(FT_LT_PREFER_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(FT_LT_PREFER_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(FT_LT_PREFER_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_NUMBER(FT_LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

// With their types under our names the parameter lists must be theirs.
#define ft_lt_handle cublasLtHandle_t
#define ft_lt_desc cublasLtMatmulDesc_t
#define ft_lt_layout cublasLtMatrixLayout_t
#define ft_lt_preference cublasLtMatmulPreference_t
#define ft_lt_type cudaDataType
#define ft_lt_compute cublasComputeType_t
#define ft_lt_desc_attribute cublasLtMatmulDescAttributes_t
#define ft_lt_preference_attribute cublasLtMatmulPreferenceAttributes_t
#define ft_lt_choice cublasLtMatmulHeuristicResult_t
#define ft_lt_algorithm cublasLtMatmulAlgo_t
#define ft_cu_stream cudaStream_t
#define FT_CUBLASLT_CALL(field, symbol, parameters)                                                                    \
    _Static_assert(__builtin_types_compatible_p(cublasStatus_t parameters, __typeof__(symbol)), #symbol);
#include "kernels/cuda/cublaslt.def"
#undef FT_CUBLASLT_CALL

static void the_enums_of_theirs_are_ints(void **state) {
    assert_int_equal(sizeof(cublasStatus_t), sizeof(int));
    assert_int_equal(sizeof(cudaDataType), sizeof(unsigned));
    assert_int_equal(sizeof(cublasLtMatmulDescAttributes_t), sizeof(unsigned));
}
#else
static void the_enums_of_theirs_are_ints(void **state) { skip(); }
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_enums_of_theirs_are_ints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
