// attention.h - multi-head attention over packed sequences; no S x S tensor is ever kept.
//
// For sequence b, head h, query row i, key row j (both counted inside the sequence):
//   P_ij = softmax over j of scale * <Q_i, K_j>;  out_i = sum_j dropout(P)_ij V_j;  lse_i = log sum_j exp(scale * <Q_i, K_j>)
// Head h owns columns [h*d, (h+1)*d) of every view. Queries may be fewer than keys (pooled rows only): query i of a
// sequence stands at position i, which is what the dropout function is told.
// backward, from out and lse: D_i = <dout_i, out_i>, dP_ij = dropout mask and scale of <dout_i, V_j>,
//   dS = P * (dP - D), dQ_i = scale sum_j dS_ij K_j, dK_j = scale sum_i dS_ij Q_i, dV_j = sum_i dropout(P)_ij dout_i.
// window w > 0: query i sees the keys j with |i - j| <= w alone, in P as in its gradients; every query of a sequence that has keys
// sees one then, so that queries are at most w more than keys. Scores outside of it are not computed, but for what rounds the band
// up to tiles: time and traffic are those of min(keys, 2 w + tiles) keys a query.
// causal: query i sees the keys j <= i alone; with a window those of them with i - j <= w. What is said of windows holds: tiles in which nothing is seen
// are not computed.
// key_heads < heads (grouped queries): head h reads the keys and values of head h / (heads / key_heads), of which there are so many. dK and
// dV are sums over the heads of a group, one head after the other.
// bias: s_ij = scale * <Q_i, K_j> + table[slots[clamp(i - j, -reach, reach) + reach], h] in place of the product alone, in P as in lse.
//   dtable[slot, h] += sum over the (i,j) of slot of dS_ij. Accumulated: a sequence adds one term for every run of distances of a slot, from the
//   smallest to the largest; sequences follow each other in order. So on the CPU the same bits for any number of threads and any split of the
//   sequences over calls.
// dq, dk, dv are written, not accumulated, and depend only on their own sequence. The softmax is fp32; all matrices but
// lse are H. Scores are fp32: no product of two fp16 rows is too large.
#ifndef FT_ATTENTION_H
#define FT_ATTENTION_H
#include "kernels/ops/op.h"

typedef struct ft_attention_shape {
    int32_t heads, head_dim;
    int32_t sequences;
    int32_t max_queries, max_keys;    // longest sequence, an upper bound (workspace and launch geometry)
    const int32_t *cu_queries;        // [sequences + 1] row where a sequence's queries begin, device
    const int32_t *cu_keys;           // [sequences + 1]
    float scale;                      // 1/sqrt(head_dim) for BERT
    int32_t window;                   // 0: every query sees every key
    bool causal;                      // but for those behind it
    int32_t key_heads;                // of keys and values, a divisor of heads; 0: as many
    ft_score_dropout dropout;
} ft_attention_shape;

// How far a query sees: keys of smaller positions, and of larger ones.
typedef struct ft_attention_band {
    int32_t behind, ahead;
} ft_attention_band;
static inline ft_attention_band ft_attention_band_of(const ft_attention_shape *s) {
    const int32_t all = 1 << 30; // further than any
    const int32_t window = s->window > 0 ? s->window : all;
    const ft_attention_band band = {window, s->causal ? 0 : window};
    return band;
}
static inline bool ft_attention_is_banded(const ft_attention_shape *s) { return s->window > 0 || s->causal; }

static inline int32_t ft_attention_key_heads(const ft_attention_shape *s) { return s->key_heads > 0 ? s->key_heads : s->heads; }
static inline int32_t ft_attention_group(const ft_attention_shape *s) { return s->heads / ft_attention_key_heads(s); } // heads that share keys

typedef struct ft_attention_bias {
    ft_tensor table;      // [rows, heads] fp32; absent: none, and the rest is not looked at
    const int32_t *slots; // [2*reach + 1] row of the table for i - j = index - reach, device; those of a row follow each other
    int32_t reach;        // distances beyond count as this one
} ft_attention_bias;

typedef struct ft_attention_forward_args {
    ft_attention_shape shape;
    ft_tensor q, k, v; // [Tq, heads*d], [Tk, key_heads*d] twice; strided views
    ft_tensor out;     // [Tq, heads*d]
    ft_tensor lse;     // [Tq, heads] fp32; optional (inference)
    ft_attention_bias bias;
    ft_workspace workspace;
} ft_attention_forward_args;
size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args);
ft_status ft_attention_forward_check(const ft_target *target, const ft_attention_forward_args *args);

typedef struct ft_attention_backward_args {
    ft_attention_shape shape;
    ft_tensor q, k, v, out, lse, dout;
    ft_tensor dq, dk, dv; // strided views, written
    ft_attention_bias bias;
    ft_tensor dbias;      // of its table, fp32; accumulated, optional
    ft_workspace workspace;
} ft_attention_backward_args;
size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args);
ft_status ft_attention_backward_check(const ft_target *target, const ft_attention_backward_args *args);
#endif
