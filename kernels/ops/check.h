// check.h - what ft_<op>_check() (op.h) asks of arguments: shapes, dtypes, which optional views are there.
#ifndef FT_CHECK_H
#define FT_CHECK_H

#include "kernels/ops/op.h"

#define FT_REQUIRE(op, condition)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) return ft_fail(FT_FAILED, op, "arguments that do not fit together: not %s", #condition);    \
    } while (0)

// The last of a check, which it returns from: scratch must be what the planner was told.
#define FT_REQUIRE_WORKSPACE(op, target, args)                                                                         \
    do {                                                                                                               \
        size_t need_ = ft_##op##_workspace(target, args);                                                              \
        if ((args)->workspace.bytes < need_)                                                                           \
            return ft_fail(FT_FAILED, #op, "workspace has %zu bytes, needs %zu", (args)->workspace.bytes, need_);      \
        return FT_OK;                                                                                                  \
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
