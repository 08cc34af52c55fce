// gemm_choice.h - an algorithm that was measured for a matrix product, as a value: a device takes up a list of them and gives
// one (devices.h), and a file keeps it (engine/train/room/gemm_tuning.h).
#ifndef FT_GEMM_CHOICE_H
#define FT_GEMM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

// What follows the product in the same op (product_activation.h, product_slope.h, product_norm.h). Whether h is kept, or made again, is no part of it: what is
// computed again has the bits it had.
typedef enum ft_gemm_epilogue { FT_GEMM_NO_EPILOGUE, FT_GEMM_ACTIVATION, FT_GEMM_SLOPE, FT_GEMM_NORM, FT_GEMM_EPILOGUES } ft_gemm_epilogue;
// Of the sum that a norm reads: it is of fp32, and not of 16 bits; something is dropped.
enum { FT_GEMM_SUM_FLOATS = 1, FT_GEMM_SUM_DROPS = 2, FT_GEMM_SUMS = 4 };
typedef enum ft_gemm_bias { FT_GEMM_NO_BIAS, FT_GEMM_BIAS_IN_PLACE, FT_GEMM_BIAS_COPIED } ft_gemm_bias;

// Everything that the choice of an algorithm depends on, beside chip and library. Compared as bytes: no padding, set as a
// whole.
typedef struct ft_gemm_shape {
    int64_t m, n, k;                   // of the row-major product
    int64_t lda, ldb, ldc;             // strides
    int32_t a, b, c;                   // ft_dtype
    int32_t align_a, align_b, align_c; // of the addresses, in bytes, at most 256
    int32_t trans_a, trans_b, accumulate, bias; // bias: ft_gemm_bias
    int32_t epilogue, kind; // ft_gemm_epilogue; its ft_activation, or what the sum is
} ft_gemm_shape;

typedef struct ft_gemm_algorithm { // only the library that named it knows what is in it
    uint64_t data[8];
} ft_gemm_algorithm;

// Of a product with an epilogue it says which way: cuBLASLt's product and the pass behind it, whose algorithm is a choice of its own, or both in
// a kernel of ours.
enum { FT_GEMM_IN_TWO, FT_GEMM_OWN }; // data[0]

typedef struct ft_gemm_choice {
    ft_gemm_shape shape;
    ft_gemm_algorithm algorithm;
    float microseconds, first_microseconds; // of this one, and of what the heuristic names first, or the two
    bool asked;                             // a product of this device has asked for it
} ft_gemm_choice;

enum { FT_GEMM_DRIVER = 96 }; // characters that name a driver
// How a shape is measured: so many algorithms, each so many times and once before.
enum { FT_GEMM_CANDIDATES = 16, FT_GEMM_ROUNDS = 5, FT_GEMM_RUNS = FT_GEMM_CANDIDATES * (FT_GEMM_ROUNDS + 1) };

#endif
