#include "kernels/cuda/product.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/opened.h"
#include "kernels/cuda/ops.h"

#include <stdlib.h>
#include <string.h>

// ---- what is asked for ------------------------------------------------------------------------------------------------

bool ft_cuda_has_own_products(const ft_cuda *cuda, const char *targets) {
    return cuda->device.target.compute_capability == 90 && strstr(targets, "sm_90a") != NULL;
}

ft_status ft_cuda_products_asked(ft_cuda *cuda, const char *targets) {
    static const char *const names[] = {"auto", "cublaslt", "own"};
    const char *text = getenv(FT_PRODUCTS_NAME);
    int way = 0;
    while (text != NULL && text[0] != '\0' && way < 3 && strcmp(text, names[way]) != 0) way++;
    if (way == 3) return ft_fail(FT_INVALID, FT_PRODUCTS_NAME, "'%s' is neither own, cublaslt nor auto", text);
    cuda->products = (ft_product_way)way;
    cuda->own_products = way == FT_PRODUCTS_OWN;
    if (way != FT_PRODUCTS_OWN || ft_cuda_has_own_products(cuda, targets)) return FT_OK;
    return ft_fail(FT_NO_DEVICE, FT_PRODUCTS_NAME, "own is for compute capability 9.0 and kernels for sm_90a; %s has %d.%d, and these are for %s: leave it out", cuda->name,
                   cuda->device.target.compute_capability / 10, cuda->device.target.compute_capability % 10, targets);
}

// ---- the two ways -----------------------------------------------------------------------------------------------------

static const ft_op_table *own_ops(ft_device *device) { return &ft_cuda_of(device)->kernels->module.table->ops; }
static const ft_op_table *passes(ft_device *device) { return &ft_cuda_of(device)->kernels->ops; }

static ft_status activation_in_two(ft_device *device, const void *what) {
    const ft_gemm_args product = ft_product_activation_product(what);
    const ft_activation_forward_args rest = ft_product_activation_rest(what);
    FT_TRY(ft_cuda_gemm(device, &product));
    return passes(device)->activation_forward(device, &rest);
}
static ft_status activation_in_one(ft_device *device, const void *what) { return own_ops(device)->product_activation(device, what); }

static ft_status slope_in_two(ft_device *device, const void *what) {
    const ft_gemm_args product = ft_product_slope_product(what);
    const ft_activation_backward_args rest = ft_product_slope_rest(what);
    FT_TRY(ft_cuda_gemm(device, &product));
    return passes(device)->activation_backward(device, &rest);
}
static ft_status slope_in_one(ft_device *device, const void *what) { return own_ops(device)->product_slope(device, what); }

static ft_status norm_in_two(ft_device *device, const void *what) {
    const ft_gemm_args product = ft_product_norm_product(what);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(what);
    FT_TRY(ft_cuda_gemm(device, &product));
    return passes(device)->layernorm_forward(device, &rest);
}
static ft_status norm_in_one(ft_device *device, const void *what) { return own_ops(device)->product_norm(device, what); }

// An op, and what it is called with. kind: of the epilogue (gemm_choice.h).
typedef struct call {
    ft_gemm_epilogue epilogue;
    int32_t kind;
    ft_gemm_queue_function *in_two, *in_one;
    const ft_gemm_args *product;
    const void *args;
} call;

// ---- which --------------------------------------------------------------------------------------------------------------

static ft_gemm_shape shape_of(const call *c) {
    ft_gemm_shape shape = ft_cuda_gemm_shape(c->product);
    shape.epilogue = c->epilogue;
    shape.kind = c->kind;
    return shape;
}

static ft_status choose(ft_device *device, const ft_gemm_shape *shape, const call *c, bool *own) {
    ft_gemm_tuning *tuning = *ft_cuda_gemms_tuning(device);
    bool found = false;
    *own = false;
    if (tuning == NULL) return FT_OK;
    ft_gemm_tuning_find_way(tuning, shape, own, &found);
    if (found || !ft_gemm_tuning_measures(tuning)) return FT_OK;
    return ft_gemm_tuning_measure_way(tuning, device, shape, c->in_two, c->in_one, c->args, own);
}

static ft_status takes_own(ft_device *device, const call *c, bool *own) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (cuda->products == FT_PRODUCTS_OWN) return *own = true, FT_OK;
    const ft_gemm_shape shape = shape_of(c);
    ft_cuda_way *way = &cuda->kernels->ways[ft_cuda_gemm_hash(&shape) % FT_CUDA_WAYS];
    if (!way->known || memcmp(&way->shape, &shape, sizeof shape) != 0) {
        *way = (ft_cuda_way){.known = false};
        FT_TRY(choose(device, &shape, c, &way->own));
        way->shape = shape;
        way->known = true;
    }
    *own = way->own;
    return FT_OK;
}

// Without choices, and without a kernel that could be chosen, nothing is looked up.
static ft_status run(ft_device *device, bool fits, const call *c) {
    bool own = false;
    if (ft_cuda_of(device)->own_products && fits) FT_TRY(takes_own(device, c, &own));
    return (own ? c->in_one : c->in_two)(device, c->args);
}

ft_status ft_cuda_chosen_product_activation(ft_device *device, const ft_product_activation_args *args) {
    const ft_gemm_args product = ft_product_activation_product(args);
    const call c = {FT_GEMM_ACTIVATION, (int32_t)args->kind, activation_in_two, activation_in_one, &product, args};
    return run(device, ft_product_activation_own(args), &c);
}

ft_status ft_cuda_chosen_product_slope(ft_device *device, const ft_product_slope_args *args) {
    const ft_gemm_args product = ft_product_slope_product(args);
    const call c = {FT_GEMM_SLOPE, (int32_t)args->kind, slope_in_two, slope_in_one, &product, args};
    return run(device, ft_product_slope_own(args), &c);
}

ft_status ft_cuda_chosen_product_norm(ft_device *device, const ft_product_norm_args *args) {
    const ft_gemm_args product = ft_product_norm_product(args);
    const int32_t kind = (ft_product_norm_sum(args).dtype == FT_F32 ? FT_GEMM_SUM_FLOATS : 0) | (args->norm.dropout.probability > 0 ? FT_GEMM_SUM_DROPS : 0);
    const call c = {FT_GEMM_NORM, kind, norm_in_two, norm_in_one, &product, args};
    return run(device, ft_product_norm_own(args), &c);
}
