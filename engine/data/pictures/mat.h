// mat.h - vectors of whole numbers in MATLAB 5 files, as data sets ship their labels and splits. A reader of these alone, and no matio: that one
// brings HDF5 along, for two lists of numbers.
#ifndef FT_MAT_H
#define FT_MAT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { FT_MAT_MOST = 1 << 26 }; // bytes of a file, and of what is packed in it

typedef struct ft_mat_vector {
    const char *name; // of the variable
    int64_t count;
    int64_t *value; // [count], of the heap
} ft_mat_vector;

// Variables of a file, each a row or a column of numbers without fractions, of any of MATLAB's types. vector[i].name is set; free the values
// also on failure. FT_INVALID with the file: no such variable, another shape or kind, MATLAB 7.3 (which is HDF5), big-endian, damaged.
ft_status ft_mat_read(const char *path, int count, ft_mat_vector *vector);
ft_status ft_mat_parse(const void *bytes, size_t length, const char *path, int count, ft_mat_vector *vector);
void ft_mat_free(int count, ft_mat_vector *vector);

#endif
