// bitsandbytes.h - matrices of 4 and 8 bits a number as transformers' save_pretrained leaves them in the files of a model that
// bitsandbytes quantised. Such a matrix is several tensors:
//
//     NAME.weight                                   4 bits: two codes a byte, the even one in the high bits, any type and shape
//     NAME.weight.quant_state.bitsandbytes__TYPE    JSON: quant_type (nf4, fp4), blocksize 64, shape, and, where scales have 8 bits
//                                                   themselves, nested_blocksize 256 and nested_offset
//     NAME.weight.quant_map                         fp32 [16]: the number of each code
//     NAME.weight.absmax                            a scale for 64 numbers: fp32, or uint8 with the two below
//     NAME.weight.nested_absmax, .nested_quant_map  fp32: a scale for 256 scales, and [256] the number of each of their codes
//
//     NAME.weight                                   8 bits: int8 [rows, cols]
//     NAME.SCB, NAME.weight_format                  fp32 [rows], and 0: a number is code x SCB / 127
//
// ft_weights shows each as one tensor of its shape (weights.h). Knows no model, and no device: what the bytes mean to kernels is
// kernels/ops/quantised.h.
#ifndef FT_BITSANDBYTES_H
#define FT_BITSANDBYTES_H

#include "base/arena.h"
#include "engine/files/weights.h"

#include <stdbool.h>

enum { FT_PACKED_BLOCK = 64, FT_PACKED_GROUP = 256, FT_PACKED_MAP = 256 }; // numbers a scale; scales a group; codes of a scale
enum { FT_PACKED_NAME = 320 }; // bytes; longer names are no such matrices'

// Everything lies where the file has it: copied out, not aligned.
typedef struct ft_packed {
    const char *type; // "nf4", "fp4", "int8"
    bool nested;      // scales have 8 bits
    int64_t rows, cols;
    const unsigned char *codes;  // [ceil(rows * cols / 2)], of int8 [rows * cols]
    const unsigned char *scales; // [scale_count] fp32 or uint8
    const unsigned char *groups, *map; // nested: fp32 [group_count], [256]
    int64_t scale_count, group_count;
    float values[16]; // of codes of 4 bits
    float mean;       // nested: added to every scale
} ft_packed;

// Is tensor `index` of `weights`, which are sorted, such a matrix? *packed: it, in `arena`; NULL: it is not. FT_INVALID: it is, and what
// belongs to it is missing or does not fit.
ft_status ft_packed_find(const ft_weights *weights, int index, ft_arena *arena, ft_packed **packed);
// Of a tensor that would belong to such a matrix, by its name: the matrix's name. False: by its name it is none.
bool ft_packed_part_of(const char *name, char matrix[FT_PACKED_NAME]);
// Elements [first, first + count), each rounded to fp32 after every operation, as kernels/ops/dequantise.h.
void ft_packed_numbers(const ft_packed *packed, int64_t first, int64_t count, float *out);
// Are all scales (and what makes them) finite?
bool ft_packed_is_finite(const ft_packed *packed);

#endif
