// gpu_ops_segments.c - products of several trials in one launch (kernels/ops/segment_product.h): the buffers of one product, cut into segments.
#include "benchmarks/gpu/gpu_ops_buffers.h"

enum { SEGMENTS = 16 };

// x, W, bias, y, dW in fp32, a part for each segment
void gpu_ops_segment_product_setup(test *t) {
    const int64_t sizes[] = {t->rows * t->inner, t->cols * t->inner, t->cols, t->rows * t->cols};
    for (int i = 0; i < 4; i++) gpu_ops_add_numbers(t, t->type, sizes[i], 0, 1);
    gpu_ops_add_numbers(t, FT_F32, t->cols * t->inner, 0, 1);
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = (double)ft_dtype_size(t->type) * ((double)t->rows * (double)(t->cols + t->inner) + (double)t->cols * (double)t->inner);
}

static ft_status run(test *t, int side, int count, const ft_gemm_args *list) {
    const ft_gemm_args *product[SEGMENTS];
    ft_device *device = t->device[side];
    for (int i = 0; i < count; i++) product[i] = &list[i];
    ft_segment_product_args args = {.product = product, .count = count};
    args.workspace = gpu_ops_scratch(device, side, ft_segment_product_workspace(&device->target, &args));
    return FT_RUN(device, segment_product, &args);
}

static int64_t first_of(int64_t n, int i) { return n * i / SEGMENTS; }

ft_status gpu_ops_segment_forward(test *t, int side) { // one W, the rows of sixteen
    ft_gemm_args list[SEGMENTS];
    for (int i = 0; i < SEGMENTS; i++) {
        const int64_t first = first_of(t->rows, i), rows = first_of(t->rows, i + 1) - first;
        list[i] = (ft_gemm_args){.a = ft_rows(gpu_ops_matrix(t, 0, side, t->rows, t->inner), first, rows), .b = gpu_ops_matrix(t, 1, side, t->cols, t->inner),
                                 .bias = ft_vector(t->at[2][side], t->cols, t->type), .c = ft_rows(gpu_ops_matrix(t, 3, side, t->rows, t->cols), first, rows), .trans_b = true};
    }
    return run(t, side, SEGMENTS, list);
}
ft_status gpu_ops_segment_weight(test *t, int side) { // a gradient of each, of some columns of y
    ft_gemm_args list[SEGMENTS];
    for (int i = 0; i < SEGMENTS; i++) {
        const int64_t first = first_of(t->cols, i), cols = first_of(t->cols, i + 1) - first;
        list[i] = (ft_gemm_args){.a = ft_columns(gpu_ops_matrix(t, 3, side, t->rows, t->cols), first, cols), .b = gpu_ops_matrix(t, 0, side, t->rows, t->inner),
                                 .c = ft_rows(gpu_ops_matrix(t, 4, side, t->cols, t->inner), first, cols), .trans_a = true, .accumulate = true};
    }
    return run(t, side, SEGMENTS, list);
}
