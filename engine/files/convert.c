// convert.c - elements of files as fp32. Halves and brain floats are exact; doubles are rounded to the nearest.
#include "engine/files/safetensors.h"
#include "kernels/half.h"

#include <stdbool.h>
#include <string.h>

static void convert(ft_dtype dtype, const unsigned char *in, int64_t count, float *out) {
    size_t size = ft_dtype_size(dtype);
    if (dtype == FT_F32 && count > 0) memcpy(out, in, (size_t)count * size);
    for (int64_t i = 0; i < count && dtype != FT_F32; i++, in += size) {
        uint16_t half;
        double value;
        if (dtype == FT_F64) {
            memcpy(&value, in, sizeof value);
            out[i] = (float)value;
        } else {
            memcpy(&half, in, sizeof half);
            out[i] = dtype == FT_F16 ? ft_from_fp16(half) : ft_from_bf16(half);
        }
    }
}

// A view that is not dense: the place of each element comes from its indices, the last of which runs fastest.
static void convert_view(const ft_safetensor *t, int64_t first, int64_t count, float *out) {
    size_t size = ft_dtype_size(t->dtype);
    int64_t index[8] = {0}, place = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = first % t->shape[d];
        first /= t->shape[d];
        place += index[d] * t->strides[d];
    }
    for (int64_t i = 0; i < count; i++) {
        convert(t->dtype, (const unsigned char *)t->data + (size_t)place * size, 1, out + i);
        for (int d = t->rank - 1; d >= 0; d--) {
            place += t->strides[d];
            if (++index[d] < t->shape[d]) break;
            place -= index[d] * t->strides[d];
            index[d] = 0;
        }
    }
}

static ft_status check_real(const char *path, const ft_safetensor *t) {
    if (t->dtype != FT_F32 && t->dtype != FT_BF16 && t->dtype != FT_F16 && t->dtype != FT_F64)
        return ft_fail(FT_INVALID, path,
                       "tensor %.200s: dtype %s, a floating-point tensor (F32, BF16, F16 or F64) is needed", t->name,
                       t->dtype_name);
    return FT_OK;
}

ft_status ft_tensor_part_to_f32(const char *path, const ft_safetensor *t, int64_t first, int64_t count, float *out) {
    FT_TRY(check_real(path, t));
    size_t size = ft_dtype_size(t->dtype);
    int64_t elements = (int64_t)(t->bytes / size);
    if (first < 0 || count < 0 || first > elements || count > elements - first)
        return ft_fail(FT_INVALID, path, "tensor %.200s: %lld elements, %lld are needed", t->name, (long long)elements,
                       (long long)(first + count));
    if (t->strides != NULL && count > 0)
        convert_view(t, first, count, out);
    else
        convert(t->dtype, (const unsigned char *)t->data + (size_t)first * size, count, out);
    return FT_OK;
}

ft_status ft_safetensor_part_to_f32(const ft_safetensors *file, const ft_safetensor *t, int64_t first, int64_t count,
                                    float *out) {
    return ft_tensor_part_to_f32(ft_safetensors_path(file), t, first, count, out);
}

ft_status ft_safetensor_to_f32(const ft_safetensors *file, const ft_safetensor *t, float *out, int64_t count) {
    FT_TRY(check_real(ft_safetensors_path(file), t));
    size_t size = ft_dtype_size(t->dtype);
    if (count < 0 || t->bytes / size != (size_t)count)
        return ft_fail(FT_INVALID, ft_safetensors_path(file), "tensor %.200s: %zu elements, %lld are needed", t->name,
                       t->bytes / size, (long long)count);
    return ft_safetensor_part_to_f32(file, t, 0, count, out);
}
