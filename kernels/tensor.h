// tensor.h - a view of device memory: rows x cols elements, row-major, `stride` elements from row to row.
//
// Activations are packed: one row a token, no padding (cu_seqlens says where sequences begin). Everything the ops touch
// is such a matrix, so that Q, K and V can be three views of one [tokens, 3*hidden] product. Vectors have rows = 1.
// A view owns nothing. data == NULL means "absent" where an op calls the argument optional.
#ifndef FT_TENSOR_H
#define FT_TENSOR_H

#include "kernels/dtype.h"

#include <stdint.h>

typedef struct ft_tensor {
    void *data;
    int64_t rows, cols, stride; // in elements; stride >= cols
    ft_dtype dtype;
} ft_tensor;

static inline ft_tensor ft_matrix(void *data, int64_t rows, int64_t cols, ft_dtype dtype) {
    return (ft_tensor){data, rows, cols, cols, dtype};
}
static inline ft_tensor ft_vector(void *data, int64_t n, ft_dtype dtype) {
    return (ft_tensor){data, 1, n, n, dtype};
}
static inline ft_tensor ft_absent(void) { return (ft_tensor){0, 0, 0, 0, FT_F32}; }
// Columns [first, first + count) of every row.
static inline ft_tensor ft_columns(ft_tensor t, int64_t first, int64_t count) {
    t.data = t.data ? (char *)t.data + (size_t)first * ft_dtype_size(t.dtype) : NULL;
    t.cols = count;
    return t;
}
// Rows [first, first + count).
static inline ft_tensor ft_rows(ft_tensor t, int64_t first, int64_t count) {
    t.data = t.data ? (char *)t.data + (size_t)(first * t.stride) * ft_dtype_size(t.dtype) : NULL;
    t.rows = count;
    return t;
}

#endif
