// gpu_ops_buffers.h - the buffers of a test's op, one after the other, and a run on them: for the files that have ops
// (gpu_ops_*.c).
#ifndef GPU_OPS_BUFFERS_H
#define GPU_OPS_BUFFERS_H

#include "benchmarks/gpu/gpu_ops.h"

// Each of these is the next buffer of the test: its place.
static inline int gpu_ops_add_floats(test *t, int64_t n, double mean, double spread) {
    return gpu_ops_add_numbers(t, FT_F32, n, mean, spread);
}
static inline int gpu_ops_add_rows(test *t, int64_t n, double mean, double spread) {
    return gpu_ops_add_numbers(t, t->type, n, mean, spread);
}
static inline void gpu_ops_add_many(test *t, int n, const int64_t *elements) { // of rows
    for (int i = 0; i < n; i++)
        gpu_ops_add_rows(t, elements[i], 0, 1);
}
// limit > 0: below it, at random; 0: the number of the place; < 0: the place within pieces of so many.
int gpu_ops_add_integers(test *t, int64_t n, int64_t limit);
int gpu_ops_add_step(test *t);
int gpu_ops_add_bounds(test *t); // of its sequences

double gpu_ops_uniform(void); // from 0 to 1, the same ones in every run of the program

// Where sequences begin: t->length tokens each or ragged, the last one what is left.
int gpu_ops_length_of(const test *t, int sequence);
int gpu_ops_sequences_of(const test *t);

static inline ft_tensor gpu_ops_matrix(const test *t, int i, int side, int64_t rows, int64_t cols) {
    return ft_matrix(t->at[i][side], rows, cols, t->dtype[i]);
}
static inline ft_tensor gpu_ops_vector(const test *t, int i, int side, int64_t n) {
    return ft_vector(t->at[i][side], n, t->dtype[i]);
}
static inline double gpu_ops_bytes_of(const test *t, double elements) {
    return (double)ft_dtype_size(t->type) * elements;
} // of rows

// The body of a run: the op with these arguments, in the scratch of its side.
#define RUN(op, ...)                                                                                                   \
    ft_##op##_args args = {__VA_ARGS__};                                                                               \
    ft_device *device = t->device[side];                                                                               \
    args.workspace = gpu_ops_scratch(device, side, ft_##op##_workspace(&device->target, &args));                       \
    return FT_RUN(device, op, &args)

#endif
