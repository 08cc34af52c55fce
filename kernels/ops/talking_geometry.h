// talking_geometry.h - how the CUDA kernels of talking heads cut their work: what the scratch sizes and the launches must agree on.
//
// Scores of all heads lie in scratch, of the queries that are in the works together: `rows` of each of `sequences`, those of whole sequences
// where they fit, else of a part of one. Of a query forward z and m; backward z, P, dA, what goes from one to the other, a, and its terms of
// the two mixing matrices.
#ifndef FT_CUDA_TALKING_GEOMETRY_H
#define FT_CUDA_TALKING_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

enum { FT_CUDA_TALKING_FLOATS = 8 << 20, FT_CUDA_TALKING_FEWEST = 16, FT_CUDA_TALKING_MOST = 256 }; // numbers of scratch; queries
static inline int64_t ft_cuda_talking_row(int64_t keys, int64_t heads, bool backward) {
    return (backward ? 5 : 2) * heads * keys + (backward ? 2 * heads * heads : 0);
}
typedef struct ft_cuda_talking_wave {
    int64_t sequences, rows;
} ft_cuda_talking_wave;
static inline ft_cuda_talking_wave ft_cuda_talking_wave_of(int64_t sequences, int64_t queries, int64_t keys, int64_t heads, bool backward) {
    const int64_t row = ft_cuda_talking_row(keys, heads, backward);
    int64_t most = row > 0 ? FT_CUDA_TALKING_FLOATS / row : 0;
    if (most < FT_CUDA_TALKING_FEWEST) most = FT_CUDA_TALKING_FEWEST;
    if (most > FT_CUDA_TALKING_MOST) most = FT_CUDA_TALKING_MOST;
    ft_cuda_talking_wave wave = {1, queries < most ? queries : most};
    if (wave.rows < 1) wave.rows = 1;
    if (queries > 0 && most / queries > 1) wave.sequences = most / queries < sequences ? most / queries : sequences;
    return wave;
}

#endif
