// check.h - do the arguments of an op fit together? Shapes, dtypes, which optional views are there, scratch large enough.
//
//     FT_TRY(ft_gemm_check(&device->target, args));
//
// Every back end asks this before it computes; the plan back end does nothing else. Only shapes and whether pointers are
// NULL are looked at, never what they point to. FT_FAILED with the op's name: an error of the program, not of its user.
#ifndef FT_CHECK_H
#define FT_CHECK_H

#include "kernels/backend.h"

#define FT_OP(name, what) ft_status ft_##name##_check(const ft_target *target, const ft_##name##_args *args);
#include "kernels/ops.def"
#undef FT_OP

#define FT_REQUIRE(op, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) return ft_fail(FT_FAILED, op, "arguments that do not fit together: not " #condition);        \
    } while (0)

static inline bool ft_is_matrix_of(ft_dtype dtype, ft_tensor t, int64_t rows, int64_t cols) {
    return t.data && t.dtype == dtype && t.rows == rows && t.cols == cols && t.stride >= cols;
}
static inline bool ft_is_vector_of(ft_dtype dtype, ft_tensor t, int64_t n) {
    return t.data && t.dtype == dtype && t.rows * t.cols == n && (t.rows == 1 || t.stride == t.cols);
}
static inline bool ft_is_optional_matrix_of(ft_dtype dtype, ft_tensor t, int64_t rows, int64_t cols) {
    return !t.data || ft_is_matrix_of(dtype, t, rows, cols);
}
static inline bool ft_is_optional_vector_of(ft_dtype dtype, ft_tensor t, int64_t n) {
    return !t.data || ft_is_vector_of(dtype, t, n);
}
// The same in fp32.
static inline bool ft_is_matrix(ft_tensor t, int64_t rows, int64_t cols) { return ft_is_matrix_of(FT_F32, t, rows, cols); }
static inline bool ft_is_vector(ft_tensor t, int64_t n) { return ft_is_vector_of(FT_F32, t, n); }
static inline bool ft_is_optional_matrix(ft_tensor t, int64_t rows, int64_t cols) {
    return ft_is_optional_matrix_of(FT_F32, t, rows, cols);
}
static inline bool ft_is_optional_vector(ft_tensor t, int64_t n) { return ft_is_optional_vector_of(FT_F32, t, n); }

#endif
