#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/ops/geometry.h"

size_t ft_gemm_workspace(const ft_target *target, const ft_gemm_args *args) {
    if (target->backend == FT_BACKEND_CUDA) return FT_CUDA_GEMM_WORKSPACE;
    ft_gemm_view view = ft_gemm_view_of(args);
    size_t b_floats, a_floats;
    ft_gemm_scratch(&view, &b_floats, &a_floats);
    return (b_floats + a_floats) * sizeof(float) * (size_t)target->threads + ft_cpu_copies_gemm(args);
}
