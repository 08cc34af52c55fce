#include "kernels/cuda/kernels.h"
#include "base/arena.h"
#include "kernels/cuda/product.h"

#include <stdio.h>
#include <stdlib.h>

// ---- the op table: checks, then the kernels ---------------------------------------------------------------------

#define FT_OP(name, what)                                                                                              \
    static ft_status checked_##name(ft_device *device, const ft_##name##_args *args) {                                 \
        FT_TRY(ft_##name##_check(&device->target, args));                                                              \
        if (ft_cuda_of(device)->kernels->ops.name == NULL) return ft_fail(FT_FAILED, #name, "no CUDA kernel");         \
        FT_TRY(ft_cuda_enter(ft_cuda_of(device)));                                                                     \
        return ft_cuda_of(device)->kernels->ops.name(device, args);                                                    \
    }
#include "kernels/ops/ops.def"
#undef FT_OP

static const ft_op_table checked_ops = {
#define FT_OP(name, what) .name = checked_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

// ---- opening ----------------------------------------------------------------------------------------------------

static void close_kernels(ft_cuda_kernels *k) {
    if (k == NULL) return;
    ft_cuda_gemms_close(k->gemms);
    ft_cublaslt_close(k->lt);
    ft_cuda_module_close(&k->module);
    free(k);
}

static void cuda_kernels_close(ft_cuda *cuda) {
    ft_cuda_kernels *k = cuda->kernels;
    if (k == NULL) return;
    cuda->kernels = NULL;
    if (k->gemms != NULL && ft_cuda_wait(cuda) != FT_OK) ft_error_clear(); // an error here has no reader any more
    close_kernels(k);
}

// Once the device is open, so that its context is there: cuBLASLt and the runtime join it.
static ft_status load(ft_cuda *cuda, ft_cuda_kernels *k) {
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(k->module.table->ready());
    FT_TRY(ft_cublaslt_open(cuda->driver, &k->lt));
    FT_TRY(ft_cuda_gemms_open(k->lt, &k->gemms));
    k->ops = k->module.table->ops;
    k->ops.gemm = ft_cuda_gemm;
    k->ops.product_activation = ft_cuda_chosen_product_activation;
    k->ops.product_slope = ft_cuda_chosen_product_slope;
    k->ops.product_norm = ft_cuda_chosen_product_norm;
    return ft_cuda_products_asked(cuda, k->module.table->targets);
}

static ft_status open_on(const ft_cuda_driver *driver, int ordinal, ft_device **device) {
    ft_cuda_kernels *k = ft_calloc(1, sizeof *k, "CUDA kernels");
    if (k == NULL) return FT_NO_MEMORY;
    ft_status status = ft_cuda_module_open(driver, &k->module);
    if (status == FT_OK) status = ft_cuda_open(driver, ordinal, &checked_ops, device);
    if (status != FT_OK) {
        close_kernels(k);
        return status;
    }
    ft_cuda *cuda = ft_cuda_of(*device);
    cuda->kernels = k;
    cuda->close_kernels = cuda_kernels_close;
    status = load(cuda, k);
    if (status != FT_OK) {
        ft_error error;
        ft_error_save(&error);
        ft_device_close(*device);
        ft_error_restore(&error);
        *device = NULL;
    }
    return status;
}

ft_status ft_cuda_open_with_kernels(int ordinal, ft_device **device) {
    *device = NULL;
    ft_cuda_driver *driver;
    FT_TRY(ft_cuda_driver_open(NULL, &driver));
    ft_status status = open_on(driver, ordinal, device);
    if (status != FT_OK)
        ft_cuda_driver_close(driver);
    else
        ft_cuda_of(*device)->owned_driver = driver;
    return status;
}

ft_status ft_cuda_look_for_kernels(const ft_cuda_driver *driver, ft_gpu_kernels *kernels) {
    ft_cuda_module module;
    ft_cublaslt *lt;
    FT_TRY(ft_cuda_module_open(driver, &module));
    if (kernels != NULL) {
        *kernels = (ft_gpu_kernels){.cuda = module.table->runtime};
        snprintf(kernels->path, sizeof kernels->path, "%s", module.path);
        snprintf(kernels->targets, sizeof kernels->targets, "%s", module.table->targets);
    }
    ft_cuda_module_close(&module);
    FT_TRY(ft_cublaslt_open(driver, &lt));
    ft_cublaslt_close(lt);
    return FT_OK;
}
