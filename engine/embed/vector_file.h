// vector_file.h - vectors written while they come: one array of numpy's (.npy), or a line of JSON each.
#ifndef FT_VECTOR_FILE_H
#define FT_VECTOR_FILE_H

#include "base/files.h"

#include <stdint.h>

typedef struct ft_vector_file {
    ft_atomic_file file; // its stream is standard output where there is no path
    const char *path;    // NULL: standard output
    bool npy;
    int64_t width, count;
} ft_vector_file;

// Whole or not at all: what is written shows with commit. npy: float32, little-endian, C order, [count, width]; it needs a file.
ft_status ft_vector_file_open(ft_vector_file *file, const char *path, bool npy, int64_t width);
// id NULL: the number of the vector. It matters for JSON lines alone.
ft_status ft_vector_file_add(ft_vector_file *file, const char *id, const float *vector);
ft_status ft_vector_file_flush(ft_vector_file *file);
ft_status ft_vector_file_commit(ft_vector_file *file);
void ft_vector_file_abort(ft_vector_file *file); // {0} is fine

#endif
