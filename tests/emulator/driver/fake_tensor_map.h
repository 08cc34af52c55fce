// fake_tensor_map.h - what the fake driver's cuTensorMapEncodeTiled puts into a map, for the emulator's copy engine.
#ifndef FT_FAKE_TENSOR_MAP_H
#define FT_FAKE_TENSOR_MAP_H

#include <stdint.h>

#define FAKE_TENSOR_MAP 0x70616d65736e6574u // "tensemap", as a map of ours begins

typedef struct fake_tensor_map {
    uint64_t magic;
    uint64_t base;    // address of the matrix
    uint64_t columns, rows, stride; // in elements of 16 bits, rows, bytes
    uint64_t box_columns, box_rows;
} fake_tensor_map;

#endif
