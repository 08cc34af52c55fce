#include "kernels/collectives/sums.h"

#include "kernels/half.h"

#define SUM(type)                                                                                                      \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type sum = ((const type *)parts)[i];                                                                           \
        for (int r = 1; r < ranks; r++)                                                                                \
            sum += ((const type *)((const char *)parts + (size_t)r * stride))[i];                                      \
        ((type *)out)[i] = sum;                                                                                        \
    }

static float wide(ft_dtype dtype, uint16_t bits) { return dtype == FT_BF16 ? ft_from_bf16(bits) : ft_from_fp16(bits); }

void ft_sum_parts(const void *parts, size_t stride, int ranks, int64_t count, ft_dtype dtype, void *out) {
    switch (dtype) {
    case FT_F32: SUM(float) break;
    case FT_F64: SUM(double) break;
    case FT_I32: SUM(int32_t) break;
    case FT_I64: SUM(int64_t) break;
    case FT_BF16:
    case FT_F16:
        for (int64_t i = 0; i < count; i++) {
            float sum = wide(dtype, ((const uint16_t *)parts)[i]);
            for (int r = 1; r < ranks; r++)
                sum += wide(dtype, ((const uint16_t *)((const char *)parts + (size_t)r * stride))[i]);
            ((uint16_t *)out)[i] = dtype == FT_BF16 ? ft_to_bf16(sum) : ft_to_fp16(sum);
        }
        break;
    case FT_U8: break;
    }
}
