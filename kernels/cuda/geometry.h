// geometry.h - how the CUDA kernels cut their work: what the scratch sizes (plain C, always compiled) and the launches
// (the module) must agree on. None of it depends on the chip, so one plan holds for all of them.
#ifndef FT_CUDA_GEOMETRY_H
#define FT_CUDA_GEOMETRY_H

#include <stddef.h>
#include <stdint.h>

enum {
    FT_CUDA_GEMM_WORKSPACE =
        32 << 20,            // bytes, of every product: cuBLASLt chooses among the algorithms that it suffices for
    FT_CUDA_UNIT = 8,        // neighbouring columns that a thread works on: one Philox call, 16 bytes of 16-bit values
    FT_CUDA_TILE_ROWS = 64,  // rows whose column sums one block makes
    FT_CUDA_RUN_TOKENS = 32, // sorted tokens whose rows one block adds into an embedding table
    FT_CUDA_NORM_CHUNK = 1 << 15, // gradients whose squares one block sums
};

// Partial column sums: one row of `cols` for every tile of rows.
static inline int64_t ft_cuda_tiles(int64_t rows) { return (rows + FT_CUDA_TILE_ROWS - 1) / FT_CUDA_TILE_ROWS; }
static inline size_t ft_cuda_tile_sum_bytes(int64_t rows, int64_t cols, int sums) {
    return (size_t)(ft_cuda_tiles(rows) * cols * sums) * sizeof(float);
}

static inline size_t ft_cuda_aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// embedding_backward: the order of the tokens by id, then two partial rows for every run of sorted tokens.
static inline int64_t ft_cuda_runs(int64_t tokens) { return (tokens + FT_CUDA_RUN_TOKENS - 1) / FT_CUDA_RUN_TOKENS; }
static inline size_t ft_cuda_order_bytes(int64_t tokens) { return ft_cuda_aligned((size_t)tokens * sizeof(int32_t)); }
static inline size_t ft_cuda_run_bytes(int64_t tokens, int64_t cols) {
    return ft_cuda_order_bytes(tokens) + 2 * (size_t)(ft_cuda_runs(tokens) * cols) * sizeof(float);
}

#endif
