// product.h - products with an epilogue on CUDA: cuBLASLt's product and a pass behind it, or a kernel of our own that is both (products/).
//
// Of our own is what FTENGINE_PRODUCTS=own asks for; without it, where device.gemm_tuning has measured both for the shape on this kind of chip and
// it was the faster one, and where a check of this very GPU has found it right (kernels/devices/product_check.h). The two were timed one after
// the other, without graphs. No run that measures nothing has it. FTENGINE_PRODUCTS=cublaslt: never. Compute capability 9.0 alone.
#ifndef FT_CUDA_PRODUCT_H
#define FT_CUDA_PRODUCT_H

#include "kernels/cuda/driver/device.h"
#include "kernels/ops/product_norm.h"
#include "kernels/ops/product_slope.h"

#define FT_PRODUCTS_NAME "FTENGINE_PRODUCTS"

// Does the device have such kernels? targets: of the module.
bool ft_cuda_has_own_products(const ft_cuda *cuda, const char *targets);
// Reads the environment into cuda->products and own_products. FT_INVALID: a name that is none; FT_NO_DEVICE: asked for, and not there.
ft_status ft_cuda_products_asked(ft_cuda *cuda, const char *targets);

// The ops.
ft_status ft_cuda_chosen_product_activation(ft_device *device, const ft_product_activation_args *args);
ft_status ft_cuda_chosen_product_slope(ft_device *device, const ft_product_slope_args *args);
ft_status ft_cuda_chosen_product_norm(ft_device *device, const ft_product_norm_args *args);

#endif
