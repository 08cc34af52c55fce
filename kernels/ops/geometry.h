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
    FT_CUDA_RUN_TOKENS = 32, // sorted tokens whose rows one block adds into an embedding table
    FT_CUDA_NORM_CHUNK = 1 << 15, // gradients whose squares one block sums
    FT_CUDA_HEAD_DIM = 256,       // columns of a head of attention, at most
    FT_CUDA_NORM_COLUMNS = 8192,  // of a row whose norm is differentiated, at most
};

// Partial column sums: one row of `cols` for every tile, the rows that a block sums. Tiles are smaller where rows are few: the
// 400 tokens of a small batch would be seven of 64, for more than a hundred multiprocessors.
enum { FT_CUDA_TILE_ROWS = 64, FT_CUDA_FEW_TILES = 128 };
static inline int ft_cuda_tile_rows(int64_t rows) {
    return rows <= FT_CUDA_FEW_TILES * (FT_CUDA_TILE_ROWS / 4)   ? FT_CUDA_TILE_ROWS / 4
           : rows <= FT_CUDA_FEW_TILES * (FT_CUDA_TILE_ROWS / 2) ? FT_CUDA_TILE_ROWS / 2
                                                                 : FT_CUDA_TILE_ROWS;
}
static inline int64_t ft_cuda_tiles(int64_t rows) { return (rows + ft_cuda_tile_rows(rows) - 1) / ft_cuda_tile_rows(rows); }
// Never less than for fewer rows: what is planned for the longest batch suffices for all.
static inline size_t ft_cuda_tile_sum_bytes(int64_t rows, int64_t cols, int sums) {
    const int64_t tiles = ft_cuda_tiles(rows), most = rows > FT_CUDA_FEW_TILES * (FT_CUDA_TILE_ROWS / 4) ? FT_CUDA_FEW_TILES : 0;
    return (size_t)((tiles > most ? tiles : most) * cols * sums) * sizeof(float);
}

static inline size_t ft_cuda_aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// disentangled_attention_backward: gradients of a table of positions by distance. A block adds to a slab of its own,
// [distances][head_dim] in fp32, what it meets on its way over the rows of many sequences; `slabs` blocks share the
// sequences of a head, two for every multiprocessor where there is work for them. Distances are row - row of the other
// side, in whole strips of tensor cores: from 1 - 16 strips(others) to 16 strips(rows).
enum { FT_CUDA_STRIP = 16, FT_CUDA_SLAB_ROWS = 64 }; // FT_CUDA_SLAB_ROWS: of a sequence, that a block should have at least
static inline int64_t ft_cuda_strips(int64_t rows) { return (rows + FT_CUDA_STRIP - 1) / FT_CUDA_STRIP; }
static inline int64_t ft_cuda_distances(int64_t queries, int64_t keys) {
    return FT_CUDA_STRIP * (ft_cuda_strips(queries) + ft_cuda_strips(keys));
}
static inline int64_t ft_cuda_slabs(int multiprocessors, int64_t heads, int64_t sequences, int64_t longest) {
    const int64_t items = sequences * ((longest + FT_CUDA_SLAB_ROWS - 1) / FT_CUDA_SLAB_ROWS);
    const int64_t slabs = 2 * (int64_t)multiprocessors / heads;
    return slabs > items ? items : slabs < 1 ? 1 : slabs;
}

// attention_backward by one owner: a block for every multiprocessor takes (sequence, head) after (sequence, head), 128 keys at a time. What
// these add to the gradient of the queries it keeps in a slab of its own, fp32, unless the first 128 keys are all.
enum { FT_CUDA_OWNER_KEYS = 128, FT_CUDA_OWNER_QUERIES = 64 }; // FT_CUDA_OWNER_QUERIES: slabs are whole multiples of them
static inline int64_t ft_cuda_owner_tiles(int64_t keys) { return (keys + FT_CUDA_OWNER_KEYS - 1) / FT_CUDA_OWNER_KEYS; }
static inline int64_t ft_cuda_owner_blocks(int multiprocessors, int64_t heads, int64_t sequences) {
    const int64_t items = heads * sequences, blocks = multiprocessors > 0 ? multiprocessors : 1;
    return items < blocks ? items : blocks;
}
static inline int64_t ft_cuda_owner_slab(int64_t queries, int64_t head_dim) { // numbers
    return (queries + FT_CUDA_OWNER_QUERIES - 1) / FT_CUDA_OWNER_QUERIES * FT_CUDA_OWNER_QUERIES * head_dim;
}

// embedding_backward: two partial rows for every run of sorted tokens.
static inline int64_t ft_cuda_runs(int64_t tokens) { return (tokens + FT_CUDA_RUN_TOKENS - 1) / FT_CUDA_RUN_TOKENS; }
static inline size_t ft_cuda_run_bytes(int64_t tokens, int64_t cols) {
    return 2 * (size_t)(ft_cuda_runs(tokens) * cols) * sizeof(float);
}

// A bias of scores by distance (attention.h): a line of numbers for each head, with room for the rows that fill the last tiles; its gradient
// gathers in slabs of as many, as above.
enum { FT_CUDA_BIAS_PAD = 128 };
static inline int64_t ft_cuda_bias_floats(int64_t queries, int64_t keys) { return queries + keys + 2 * FT_CUDA_BIAS_PAD; }
static inline int64_t ft_cuda_bias_origin(int64_t keys) { return keys + FT_CUDA_BIAS_PAD; }
static inline size_t ft_cuda_bias_line_bytes(int64_t heads, int64_t queries, int64_t keys) {
    return ft_cuda_aligned((size_t)(heads * ft_cuda_bias_floats(queries, keys)) * sizeof(float));
}

#endif
