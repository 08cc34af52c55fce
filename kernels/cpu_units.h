// cpu_units.h - which units for vectors and tiles the processor has that this process may use: values only. They are read by
// ft_cpu_units_read (devices.h).
#ifndef FT_CPU_UNITS_H
#define FT_CPU_UNITS_H

#include <stdbool.h>

typedef enum ft_cpu_unit {
    FT_UNIT_AVX2,        // with FMA
    FT_UNIT_AVX512,      // F, VL, BW and DQ: what the kernels of this name are compiled for
    FT_UNIT_AVX512_VNNI, // products of 8 bits
    FT_UNIT_AVX512_BF16,
    FT_UNIT_AVX512_FP16,
    FT_UNIT_AMX_BF16,
    FT_UNIT_AMX_INT8,
    FT_UNIT_AVX_VNNI,     // the same products where there is no AVX-512
    FT_UNIT_NEON,         // of 64-bit ARM, and its units for products of 8 bits (SDOT; USDOT) and of bf16, which we do not use
    FT_UNIT_NEON_DOTPROD,
    FT_UNIT_NEON_I8MM,
    FT_UNIT_NEON_BF16,
    FT_CPU_UNITS
} ft_cpu_unit;

// Sets of ft_cpu_unit, a bit each. refused: the processor has it, and the operating system does not let this process use it.
typedef struct ft_cpu_units {
    unsigned usable, refused;
} ft_cpu_units;

static inline bool ft_has_unit(unsigned set, ft_cpu_unit unit) { return (set >> unit & 1) != 0; }
static inline const char *ft_cpu_unit_name(ft_cpu_unit unit) {
    static const char *const names[FT_CPU_UNITS] = {"avx2",     "avx512",   "avx512_vnni", "avx512_bf16",  "avx512_fp16", "amx_bf16",
                                                    "amx_int8", "avx_vnni", "neon",        "neon_dotprod", "neon_i8mm",   "neon_bf16"};
    return names[unit];
}

#endif
