// dtype.h - element types of tensors and of files. Sizes are in bytes.
#ifndef FT_DTYPE_H
#define FT_DTYPE_H

#include <stddef.h>

typedef enum ft_dtype { FT_F32 = 0, FT_BF16 = 1, FT_F16 = 2, FT_F64 = 3, FT_I32 = 4, FT_I64 = 5, FT_U8 = 6 } ft_dtype;

static inline size_t ft_dtype_size(ft_dtype dtype) {
    switch (dtype) {
    case FT_F32: case FT_I32: return 4;
    case FT_BF16: case FT_F16: return 2;
    case FT_F64: case FT_I64: return 8;
    case FT_U8: return 1;
    }
    return 0;
}

static inline const char *ft_dtype_name(ft_dtype dtype) {
    static const char *const names[] = {"fp32", "bf16", "fp16", "fp64", "int32", "int64", "uint8"};
    return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : "?";
}

#endif
