// product_check.h - may products with an epilogue be computed by our own kernels on this very GPU? As self_check.h has it for attention, with a
// verdict of its own: nothing else depends on it. Asked when such products are about to be measured, or a measured choice names one: a run that
// does neither takes no memory for it.
#ifndef FT_DEVICES_PRODUCT_CHECK_H
#define FT_DEVICES_PRODUCT_CHECK_H

#include "kernels/cuda/driver/device.h"

// Fills cuda->own_products, once; where they might be used and are not, cuda->product_remark says why. Nothing where FTENGINE_PRODUCTS names a
// way, or on other chips. Takes 1 MiB of the device for its time; where there are none, products stay in two, for this run. Errors: what the
// device does not recover from.
ft_status ft_cuda_product_check(ft_cuda *cuda);

#endif
