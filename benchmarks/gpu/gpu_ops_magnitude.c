// gpu_ops_magnitude.c - the ops of adapters with magnitudes (kernels/ops/magnitude.h): buffers in order, then one run.
#include "benchmarks/gpu/gpu_ops_buffers.h"

enum { RANK = 16 };

void gpu_ops_row_norm_setup(test *t) { // rows x cols is the frozen matrix
    gpu_ops_add_numbers(t, t->type, t->rows * t->cols, 0, 1);
    gpu_ops_add_numbers(t, t->type, t->rows * RANK, 0, 1);
    gpu_ops_add_numbers(t, t->type, RANK * t->cols, 0, 1);
    gpu_ops_add_numbers(t, FT_F32, t->rows, 0, 1);
    t->moved = (double)ft_dtype_size(t->type) * (double)(t->rows * t->cols + RANK * (t->rows + t->cols)) + 4.0 * (double)t->rows;
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (RANK + 1);
}
ft_status gpu_ops_row_norm(test *t, int side) {
    ft_row_norm_args args = {.w = gpu_ops_matrix(t, 0, side, t->rows, t->cols), .b = gpu_ops_matrix(t, 1, side, t->rows, RANK), .a = gpu_ops_matrix(t, 2, side, RANK, t->cols),
                             .scale = 0.5f, .out = gpu_ops_vector(t, 3, side, t->rows)};
    ft_device *device = t->device[side];
    args.workspace = gpu_ops_scratch(device, side, ft_row_norm_workspace(&device->target, &args));
    return FT_RUN(device, row_norm, &args);
}

// x, times, magnitude, norm, bias, y
void gpu_ops_column_scale_setup(test *t) {
    const int64_t n = t->rows * t->cols;
    for (int i = 0; i < 2; i++) gpu_ops_add_numbers(t, t->type, n, 0, 1);
    for (int i = 0; i < 2; i++) gpu_ops_add_numbers(t, FT_F32, t->cols, 1, 0.5);
    gpu_ops_add_numbers(t, t->type, t->cols, 0, 1);
    gpu_ops_add_numbers(t, t->type, n, 0, 1);
    t->moved = (double)ft_dtype_size(t->type) * 2 * (double)n;
}
ft_status gpu_ops_column_scale(test *t, int side) { // as behind a product, with its bias
    ft_column_scale_args args = {.x = gpu_ops_matrix(t, 0, side, t->rows, t->cols), .magnitude = gpu_ops_vector(t, 2, side, t->cols), .norm = gpu_ops_vector(t, 3, side, t->cols),
                                 .bias = gpu_ops_vector(t, 4, side, t->cols), .y = gpu_ops_matrix(t, 5, side, t->rows, t->cols)};
    ft_device *device = t->device[side];
    args.workspace = gpu_ops_scratch(device, side, ft_column_scale_workspace(&device->target, &args));
    return FT_RUN(device, column_scale, &args);
}
ft_status gpu_ops_column_scale_times(test *t, int side) { // as for the gradient of magnitudes
    ft_column_scale_args args = {.x = gpu_ops_matrix(t, 0, side, t->rows, t->cols), .times = gpu_ops_matrix(t, 1, side, t->rows, t->cols), .norm = gpu_ops_vector(t, 3, side, t->cols),
                                 .y = gpu_ops_matrix(t, 5, side, t->rows, t->cols)};
    ft_device *device = t->device[side];
    args.workspace = gpu_ops_scratch(device, side, ft_column_scale_workspace(&device->target, &args));
    return FT_RUN(device, column_scale, &args);
}
