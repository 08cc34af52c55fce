// backend.h - the table of ops that every device has, and all their headers: for who runs ops. What else there is of a device is in
// device.h, which is all that most need.
//
//     FT_TRY(FT_RUN(device, gemm, &args));
#ifndef FT_BACKEND_H
#define FT_BACKEND_H

#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cast.h"
#include "kernels/ops/column_sum.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/span_cross_entropy.h"
#include "kernels/ops/dequantise.h"
#include "kernels/ops/decay.h"
#include "kernels/ops/device.h"
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gated.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/int8_product.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/losses.h"
#include "kernels/ops/magnitude.h"
#include "kernels/ops/product_activation.h"
#include "kernels/ops/product_norm.h"
#include "kernels/ops/product_slope.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/rows.h"
#include "kernels/ops/segment_product.h"
#include "kernels/ops/sequence_mean.h"
#include "kernels/ops/talking_attention.h"
#include "kernels/ops/unfold.h"

struct ft_op_table {
#define FT_OP(name, what) ft_status (*name)(ft_device *device, const ft_##name##_args *args);
#include "kernels/ops/ops.def"
#undef FT_OP
};

#define FT_RUN(device, op, args) ((device)->ops->op((device), (args)))

#endif
