#include "kernels/cpu/gemm_bf16_plan.h"
#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/cpu/int8_plan.h"
#include "kernels/half.h"
#include "kernels/ops/geometry.h"
#include "kernels/ops/product_norm.h"
#include "kernels/ops/product_slope.h"

// Of the one and, after it, of the other.
size_t ft_product_activation_workspace(const ft_target *target, const ft_product_activation_args *args) {
    const ft_gemm_args product = ft_product_activation_product(args);
    const ft_activation_forward_args rest = ft_product_activation_rest(args);
    const size_t of_product = ft_gemm_workspace(target, &product), of_rest = ft_activation_forward_workspace(target, &rest);
    return of_product > of_rest ? of_product : of_rest;
}

// Likewise; and the sums of our own kernel, where there may be one.
size_t ft_product_slope_workspace(const ft_target *target, const ft_product_slope_args *args) {
    const ft_gemm_args product = ft_product_slope_product(args);
    const ft_activation_backward_args rest = ft_product_slope_rest(args);
    const size_t of_product = ft_gemm_workspace(target, &product), of_rest = ft_activation_backward_workspace(target, &rest);
    const size_t of_two = of_product > of_rest ? of_product : of_rest;
    if (!ft_product_activation_may(target, args->dx.dtype)) return of_two;
    const size_t sums = (size_t)(ft_cuda_slope_sums(args->dx.rows) * args->dx.cols) * sizeof(float);
    return of_two > sums ? of_two : sums;
}

size_t ft_product_norm_workspace(const ft_target *target, const ft_product_norm_args *args) {
    const ft_gemm_args product = ft_product_norm_product(args);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(args);
    const size_t of_product = ft_gemm_workspace(target, &product), of_rest = ft_layernorm_forward_workspace(target, &rest);
    return of_product > of_rest ? of_product : of_rest;
}

// In fp16 each by itself, one after the other.
static size_t largest_part(const ft_target *target, const ft_gemm_args *args) {
    size_t most = 0;
    for (int i = -1; i < args->more_count; i++) {
        const ft_gemm_args one = ft_gemm_part(args, i);
        const size_t bytes = ft_gemm_workspace(target, &one);
        if (bytes > most) most = bytes;
    }
    return most;
}

size_t ft_gemm_workspace(const ft_target *target, const ft_gemm_args *args) {
    if (target->backend == FT_BACKEND_CUDA) return FT_CUDA_GEMM_WORKSPACE;
    if (ft_gemm_is_bf16(args)) {
        const ft_gemm_bf16_plan plan = ft_gemm_bf16_plan_of(args);
        return (plan.a_words + plan.b_words + plan.c_words) * sizeof(float) * (size_t)target->threads;
    }
    if (args->more_count > 0 && ft_is_half(args->a.dtype)) return largest_part(target, args);
    ft_gemm_view view = ft_gemm_view_of(args);
    size_t b_floats, a_floats;
    ft_gemm_scratch(&view, &b_floats, &a_floats);
    return (b_floats + a_floats) * sizeof(float) * (size_t)target->threads + ft_cpu_copies_gemm(args);
}

// On the CPU one product after the other.
size_t ft_segment_product_workspace(const ft_target *target, const ft_segment_product_args *args) {
    size_t most = 0;
    for (int i = 0; target->backend == FT_BACKEND_CPU && i < args->count; i++) {
        const size_t bytes = ft_gemm_workspace(target, args->product[i]);
        if (bytes > most) most = bytes;
    }
    return most;
}

size_t ft_int8_product_workspace(const ft_target *target, const ft_int8_product_args *args) {
    return target->backend == FT_BACKEND_CUDA ? 0 : ft_int8_plan_of(args).bytes;
}
