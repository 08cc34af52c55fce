// disentangled.h - what the kernels of disentangled attention share: where positions come in, and where gradients of
// their tables are gathered.
//
// Backward, a block owns rows of one side of a head, queries or keys, and passes over the others. u = own - other is the
// distance of a pair as the block sees it; delta, as the op counts it, is u where queries are owned and -u where keys
// are. Positions are two tables: the own one, whose rows meet the block's own rows in a product (PK for queries, PQ for
// keys), and the other one. The pass of queries gives dQ and dPK, the pass of keys dK, dV and dPQ:
//     scores: <own, other + own table at u> + <other, other table at u>
//     gradient of own rows: sum of dS (other + own table at u);  of the own table at u: sum of dS own
// The last of these is a sum over all sequences. A block has a slab for it, row u of which is added to in program order;
// afterwards one kernel adds the slabs, in order, to the rows of the slots. So no two blocks add to one number, and a
// device gives the same bits every time.
#ifndef FT_CUDA_DISENTANGLED_H
#define FT_CUDA_DISENTANGLED_H

#include "kernels/cuda/attention/attention.h"

extern "C" {
#include "kernels/ops/disentangled_attention.h"
}

struct ft_position_slots {
    const int32_t *slots;
    int reach;
    FT_METHOD int64_t of(int delta) const {
        return slots[(delta < -reach ? -reach : delta > reach ? reach : delta) + reach];
    }
};
static inline ft_position_slots ft_position_slots_of(const ft_disentangled_shape &shape) { return {shape.slots, shape.reach}; }

// The slabs of one pass: [slab][head][distance][head_dim]. data NULL: the gradient of the table is not wanted.
struct ft_slabs {
    float *data;
    int count, distances;
    int origin; // row of u = 0
    FT_METHOD float *of(int slab, int head, int heads, int head_dim) const {
        return data + (int64_t(slab) * heads + head) * distances * head_dim;
    }
};
// `data`: behind <dout, out> in the op's scratch.
static inline ft_slabs ft_slabs_of(const ft_device *device, const ft_disentangled_attention_backward_args &a, bool of_keys) {
    const ft_attention_shape &s = a.shape.attention;
    const bool wanted = (of_keys ? a.dpos_query : a.dpos_key).data != nullptr;
    const int longest = s.max_queries > s.max_keys ? s.max_queries : s.max_keys;
    const size_t deltas = ft_cuda_aligned(size_t(a.q.rows) * size_t(s.heads) * sizeof(float));
    ft_slabs slabs = {};
    if (!wanted) return slabs;
    slabs.data = reinterpret_cast<float *>(static_cast<char *>(a.workspace.data) + deltas);
    slabs.count = int(ft_cuda_slabs(device->target.sm_count, s.heads, s.sequences, longest));
    slabs.distances = int(ft_cuda_distances(s.max_queries, s.max_keys));
    slabs.origin = int(FT_CUDA_STRIP * ft_cuda_strips(of_keys ? s.max_queries : s.max_keys)) - 1;
    return slabs;
}

// ---- the plain path (plain.cu), as in attention.h ------------------------------------------------------------

ft_status ft_disentangled_plain_forward(ft_device *device, const ft_disentangled_attention_forward_args &args);
ft_status ft_disentangled_plain_backward(ft_device *device, const ft_disentangled_attention_backward_args &args,
                                         const float *delta, bool of_keys, const ft_slabs &slabs);

#endif
