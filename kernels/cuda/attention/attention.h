// attention.h - what the attention kernels share: their arguments on the device, where a block works, dropout of scores.
//
// Two paths. Tensor cores: bf16 and fp16, head sizes 32, 64, 96 and 128, a positive scale, views aligned to 16 bytes. The plain path, with
// fused multiply-adds in fp32: fp32, and whatever else does not fit, up to head size 256. Two more (path.h): warpgroups of sm_90a, where they
// were checked or are asked for, and a backward by one owner, for who asks.
// Forward: a block owns rows of queries and passes over the keys. Backward: one pass owns queries and gives dQ, one owns
// keys and gives dK and dV; both recompute the scores, so that no two blocks add to the same number.
#ifndef FT_CUDA_ATTENTION_H
#define FT_CUDA_ATTENTION_H

#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/cuda/attention/path.h"
}

// Of a view (unit.h), head h owns columns from h * head_dim on.
// The bias of scores by distance, over the scale: added to products, it is scaled with them. data NULL: none.
struct ft_bias_view {
    const float *data; // [heads][floats]
    int floats, origin;
    FT_METHOD const float *of(int head) const { return data + int64_t(head) * floats + origin; } // of distance 0
};

struct ft_attention_problem {
    int heads, head_dim, tiles; // tiles: blocks along the longest sequence
    int group;                  // heads that share keys and values
    ft_bias_view bias;
    const int32_t *cu_queries, *cu_keys;
    float scale;
    int behind, ahead; // furthest keys that a query sees, in front of it and behind it; further than any, where all are seen
    uint32_t reach;    // their sum: a pair is judged by one comparison
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
    p.group = ft_attention_group(&shape);
    p.tiles = (longest + rows_of_block - 1) / rows_of_block;
    p.cu_queries = shape.cu_queries;
    p.cu_keys = shape.cu_keys;
    p.scale = shape.scale;
    const ft_attention_band band = ft_attention_band_of(&shape);
    p.behind = band.behind;
    p.ahead = band.ahead;
    p.reach = uint32_t(band.behind) + uint32_t(band.ahead);
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
    // (their largest score is looked for before it is scaled)
    return shape.scale > 0 && (dtype == FT_BF16 || dtype == FT_F16) && (d == 32 || d == 64 || d == 96 || d == 128) &&
           (!ft_attention_is_banded(&shape) || d != 96); // no instance: no model with a window, or a causal one, has such heads
}

// ---- in kernels --------------------------------------------------------------------------------------------------------

// Where a block works.
struct ft_attention_place {
    int sequence, head, tile;
    int first_query, queries, first_key, keys; // rows of the sequence in the packed matrices
};
// item: which of sequences * tiles; a block for each, or several items one after the other.
FT_DEVICE ft_attention_place ft_attention_place_of(const ft_attention_problem &p, int item) {
    ft_attention_place at;
    at.sequence = item / p.tiles;
    at.tile = item % p.tiles;
    at.head = int(blockIdx.y);
    at.first_query = p.cu_queries[at.sequence];
    at.queries = p.cu_queries[at.sequence + 1] - at.first_query;
    at.first_key = p.cu_keys[at.sequence];
    at.keys = p.cu_keys[at.sequence + 1] - at.first_key;
    return at;
}
FT_DEVICE ft_attention_place ft_attention_place_of(const ft_attention_problem &p) {
    return ft_attention_place_of(p, int(blockIdx.x));
}

// OF_KEYS below: the own rows are keys, and the others queries.
FT_DEVICE bool ft_attention_sees(const ft_attention_problem &p, int query, int key) { return uint32_t(query - key + p.ahead) <= p.reach; }
// Rows of the other side, of which there are `others`, that rows [first, first + rows) reach, from the beginning of a tile on (a power of two).
struct ft_attention_span {
    int first, end;
};
template <int TILE, bool OF_KEYS>
FT_DEVICE ft_attention_span ft_attention_span_of(const ft_attention_problem &p, int first, int rows, int others) {
    const int low = first - (OF_KEYS ? p.ahead : p.behind), high = first + rows + (OF_KEYS ? p.behind : p.ahead);
    return {low > 0 ? low / TILE * TILE : 0, high < others ? high : others};
}
// Do rows [row, row + rows) reach any, or all, of rows [other, other + others)?
template <bool OF_KEYS> FT_DEVICE bool ft_attention_reaches(const ft_attention_problem &p, int row, int rows, int other, int others) {
    return other < row + rows + (OF_KEYS ? p.behind : p.ahead) && row < other + others + (OF_KEYS ? p.ahead : p.behind);
}
template <bool OF_KEYS> FT_DEVICE bool ft_attention_reaches_all(const ft_attention_problem &p, int row, int rows, int other, int others) {
    return other + others - 1 - row <= (OF_KEYS ? p.behind : p.ahead) && row + rows - 1 - other <= (OF_KEYS ? p.ahead : p.behind);
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
// ROWS_ARE_KEYS. One Philox call decides about the four elements of a lane that are 8 apart.
// SPREAD: columns of a lane as in tile/skew.h, 4 apart.
struct ft_kept_16x16 {
    uint32_t bits[2][2]; // [which of the lane's two columns]: the two words of a call
    uint32_t least;      // the threshold in the upper half of a word: what is below it drops
};
// row and column are multiples of 16.
template <bool ROWS_ARE_KEYS, bool SPREAD = false>
FT_DEVICE ft_kept_16x16 ft_kept_of_16x16(const ft_score_filter &f, int row, int column) {
    const uint32_t g = threadIdx.x % FT_WARP / 4, t = threadIdx.x % 4 * (SPREAD ? 1 : 2);
    const uint32_t query = uint32_t(ROWS_ARE_KEYS ? column : row) / 16, key = uint32_t(ROWS_ARE_KEYS ? row : column) / 16;
    ft_kept_16x16 kept;
    kept.least = f.threshold << 16;
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        const uint32_t there = t + e * (SPREAD ? 4 : 1), i = ROWS_ARE_KEYS ? there : g, j = ROWS_ARE_KEYS ? g : there;
        kept.bits[e][0] = query << 22 | key << 12 | i << 3 | j;
        kept.bits[e][1] = f.slot_head;
        ft_philox2x32_7(kept.bits[e], f.key);
    }
    return kept;
}
// Whether element `index` of the first accumulator is kept; 4 + index: of the second. Without arithmetic but a shift.
template <bool ROWS_ARE_KEYS> FT_DEVICE bool ft_is_kept(const ft_kept_16x16 &kept, int index) {
    const int right = index / 4, below = index / 2 % 2;
    const uint32_t word = kept.bits[index % 2][ROWS_ARE_KEYS ? right : below];
    return ((ROWS_ARE_KEYS ? below : right) != 0 ? word : word << 16) >= kept.least;
}

// ---- for all paths -----------------------------------------------------------------------------------------------------

// delta[row, head] = <dout, out>, the D of attention.h. (backward.cu)
ft_status ft_attention_delta(ft_device *device, const ft_tensor &out, const ft_tensor &dout, int heads, int head_dim,
                             float *delta);

// Queues the lines of a bias into `scratch` (bias.cu), and says where they are; of no bias nothing.
ft_status ft_attention_bias_lines(ft_device *device, const ft_attention_shape &shape, const ft_attention_bias &bias, void *scratch, ft_bias_view *lines);
// Of its gradient (bias.cu): `lines` as above, the slabs behind them. `delta`: of ft_attention_delta, already queued.
ft_status ft_attention_bias_gradient(ft_device *device, const ft_attention_backward_args &args, const float *delta, const ft_bias_view &lines, bool tensor_path);

// ---- warpgroups of sm_90a (warpgroup.cu, warpgroup_backward.cu) ------------------------------------------

// What FTENGINE_ATTENTION (path.h) says, and where it leaves it open, whether the device was found fit for it. An error for a name that it does
// not know, and for wgmma where the device has no such instructions.
ft_status ft_attention_takes_warpgroups(ft_device *device, bool found_fit, bool *takes);
// Of what has a tensor path and is aligned: head sizes 64 and 128, without a bias.
template <class A> static inline bool ft_attention_has_warpgroup_path(const A &args) { // arguments of either op
    return (args.shape.head_dim == 64 || args.shape.head_dim == 128) && args.q.rows > 0 && args.k.rows > 0 &&
           args.bias.table.data == nullptr;
}
ft_status ft_attention_warpgroup_forward(ft_device *device, const ft_attention_forward_args &args);
// `delta`: of ft_attention_delta, already queued.
ft_status ft_attention_warpgroup_backward(ft_device *device, const ft_attention_backward_args &args, const float *delta);

// ---- tensor memory of sm_100a and sm_100f (tensor_memory.cu) -----------------------------------------------------------

// Whether FTENGINE_ATTENTION says tcgen05 and nobody has refused it (self_check.h); an error where the device has none.
ft_status ft_attention_takes_tensor_memory(ft_device *device, bool *takes);
static inline bool ft_attention_has_tensor_memory_path(const ft_attention_forward_args &args) {
    return ft_attention_has_warpgroup_path(args) && !ft_attention_is_banded(&args.shape) && ft_attention_group(&args.shape) == 1;
}
ft_status ft_attention_tensor_memory_forward(ft_device *device, const ft_attention_forward_args &args);

// ---- one owner of a sequence and head (owner.cu) -------------------------------------------------------------------

// Head sizes 32 and 64 (ft_attention_has_owner). `delta`: of ft_attention_delta, already queued.
ft_status ft_attention_owner_backward(ft_device *device, const ft_attention_backward_args &args, const float *delta);

// ---- the plain path (plain.cu) -------------------------------------------------------------------------------

ft_status ft_attention_plain_forward(ft_device *device, const ft_attention_forward_args &args, const ft_bias_view &bias);
// `delta`: of ft_attention_delta, already queued.
ft_status ft_attention_plain_backward(ft_device *device, const ft_attention_backward_args &args, const float *delta, const ft_bias_view &bias);

#endif
