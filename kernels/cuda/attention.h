// attention.h - what the attention kernels share: their arguments on the device, where a block works, dropout of scores.
//
// Two paths. Tensor cores: bf16 and fp16, head sizes 32, 64, 96 and 128, views aligned to 16 bytes. The plain path, with
// fused multiply-adds in fp32: fp32, and whatever else does not fit, up to head size 256.
// Forward: a block owns rows of queries and passes over the keys. Backward: one pass owns queries and gives dQ, one owns
// keys and gives dK and dV; both recompute the scores, so that no two blocks add to the same number.
#ifndef FT_CUDA_ATTENTION_H
#define FT_CUDA_ATTENTION_H

#include "kernels/cuda/unit.h"

// Of a view (unit.h), head h owns columns from h * head_dim on.
struct ft_attention_problem {
    int heads, head_dim, tiles; // tiles: blocks along the longest sequence
    const int32_t *cu_queries, *cu_keys;
    float scale;
    // dropout; threshold 0: none, and no pointer is read
    uint32_t threshold, layer, site;
    float keep_scale;
    const ft_step_state *step;
    const int32_t *sequence_slot;
};

static inline ft_attention_problem ft_attention_problem_of(const ft_attention_shape &shape, int longest, int rows_of_block) {
    ft_attention_problem p = {};
    p.heads = shape.heads;
    p.head_dim = shape.head_dim;
    p.tiles = (longest + rows_of_block - 1) / rows_of_block;
    p.cu_queries = shape.cu_queries;
    p.cu_keys = shape.cu_keys;
    p.scale = shape.scale;
    p.threshold = shape.dropout.probability > 0 ? ft_dropout_threshold(shape.dropout.probability) : 0;
    p.layer = shape.dropout.layer;
    p.site = shape.dropout.site;
    p.keep_scale = ft_dropout_scale(p.threshold);
    p.step = shape.dropout.step;
    p.sequence_slot = shape.dropout.sequence_slot;
    return p;
}
static inline dim3 ft_attention_grid(const ft_attention_problem &p, int sequences) {
    return dim3(unsigned(sequences) * unsigned(p.tiles), unsigned(p.heads));
}

static inline bool ft_attention_is_aligned(const ft_tensor &view) {
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.stride * int64_t(ft_dtype_size(view.dtype)) % 16 == 0;
}
static inline bool ft_attention_has_tensor_path(const ft_attention_shape &shape, ft_dtype dtype) {
    int d = shape.head_dim;
    return (dtype == FT_BF16 || dtype == FT_F16) && (d == 32 || d == 64 || d == 96 || d == 128);
}

// ---- in kernels --------------------------------------------------------------------------------------------------------

// Where a block works.
struct ft_attention_place {
    int sequence, head, tile;
    int first_query, queries, first_key, keys; // rows of the sequence in the packed matrices
};
FT_DEVICE ft_attention_place ft_attention_place_of(const ft_attention_problem &p) {
    ft_attention_place at;
    at.sequence = int(blockIdx.x) / p.tiles;
    at.tile = int(blockIdx.x) % p.tiles;
    at.head = int(blockIdx.y);
    at.first_query = p.cu_queries[at.sequence];
    at.queries = p.cu_queries[at.sequence + 1] - at.first_query;
    at.first_key = p.cu_keys[at.sequence];
    at.keys = p.cu_keys[at.sequence + 1] - at.first_key;
    return at;
}

// Which scores of one head of one sequence are kept (philox.h).
struct ft_score_filter {
    uint32_t threshold, key, slot_head;
};
FT_DEVICE ft_score_filter ft_score_filter_of(const ft_attention_problem &p, const ft_attention_place &at) {
    if (p.threshold == 0) return {0, 0, 0};
    return {p.threshold, uint32_t(ft_dropout_key(p.step->seed, p.step->step, p.layer, p.site)),
            uint32_t(p.sequence_slot[at.sequence]) << 8 | uint32_t(at.head)};
}
FT_DEVICE bool ft_keeps(const ft_score_filter &f, int query, int key) {
    return f.threshold == 0 ||
           ft_dropout_bits_score(f.key, f.slot_head >> 8, f.slot_head & 255, uint32_t(query), uint32_t(key)) >= f.threshold;
}
// The same for a 16 x 16 piece in two accumulators of tensor cores (tile/fragment.h), whose rows are queries, or keys if
// ROWS_ARE_KEYS; row and column are multiples of 16. Bit q of the result: element q of the first accumulator is kept;
// bit 4 + q: of the second. One Philox call decides about the four elements of a lane that are 8 apart.
template <bool ROWS_ARE_KEYS> FT_DEVICE unsigned ft_kept_of_16x16(const ft_score_filter &f, int row, int column) {
    if (f.threshold == 0) return 255;
    const uint32_t g = threadIdx.x % FT_WARP / 4, t = threadIdx.x % 4 * 2;
    const uint32_t query = uint32_t(ROWS_ARE_KEYS ? column : row) / 16, key = uint32_t(ROWS_ARE_KEYS ? row : column) / 16;
    unsigned kept = 0;
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        const uint32_t i = ROWS_ARE_KEYS ? t + e : g, j = ROWS_ARE_KEYS ? g : t + e;
        uint32_t c[2] = {query << 22 | key << 12 | i << 3 | j, f.slot_head};
        ft_philox2x32_7(c, f.key);
#pragma unroll
        for (uint32_t below = 0; below < 2; below++)
#pragma unroll
            for (uint32_t right = 0; right < 2; right++) {
                uint32_t word = ROWS_ARE_KEYS ? c[right] : c[below], upper = ROWS_ARE_KEYS ? below : right;
                if ((word >> upper * 16 & 0xFFFF) >= f.threshold) kept |= 1u << (right * 4 + below * 2 + e);
            }
    }
    return kept;
}

// ---- the plain path (attention_plain.cu) -------------------------------------------------------------------------------

ft_status ft_attention_plain_forward(ft_device *device, const ft_attention_forward_args &args);
// `delta` as in attention_backward.cu, already queued.
ft_status ft_attention_plain_backward(ft_device *device, const ft_attention_backward_args &args, const float *delta);

#endif
