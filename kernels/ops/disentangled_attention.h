// disentangled_attention.h - attention of DeBERTa v1, v2 and v3 over packed sequences: scores from contents and from
// the distance between query and key. No S x S and no S x 2*span tensor is ever kept.
//
// As in attention.h, with one more line for the scores. For query row i and key row j of a sequence, delta = i - j,
// s = slots[clamp(delta, -reach, reach) + reach], and the columns of head h everywhere:
//   z_ij = scale * (<Q_i, K_j> + <Q_i, PK_s> + <PQ_s, K_j>);    P = softmax over j of z;  out, lse, dropout as there
// PK (content to position, "c2p") and PQ (position to content, "p2c") are the projected table of relative positions,
// [table rows, heads*d] each, shared by all sequences; a model without one of the terms leaves that table absent, one
// with neither uses plain attention. scale = 1/sqrt(d * f) with f = 1 + terms, see the model.
//
// backward, with dS = P * (dropout(dP) - D) times scale as there:
//   dQ_i = sum_j dS_ij (K_j + PK_s)          dPK_s += sum over the (i,j) of slot s of dS_ij Q_i
//   dK_j = sum_i dS_ij (Q_i + PQ_s)          dPQ_s += sum over the (i,j) of slot s of dS_ij K_j
// dq, dk, dv are written and depend only on their own sequence. dpos_key and dpos_query are accumulated: a sequence
// adds one row per distance, from the smallest to the largest, to the row of its slot; sequences follow each other in
// order. So the same bits for any number of threads and any split of the sequences over calls. Rows of no slot stay
// untouched.
//
// Shapes: q, dq, out, dout [Tq, heads*d]; k, v, dk, dv [Tk, heads*d]; pos_key, pos_query [P, heads*d] with the same P
// where both are there; lse [Tq, heads]; a gradient of a table has the table's shape and needs the table to be there.
// All H but lse, dpos_key and dpos_query, which are fp32; any strides. slots holds 2*reach+1 numbers in [0, P) that do
// not fall with the distance, a contract of the caller; no sequence is longer than max_queries and max_keys, which size
// the scratch (linear in them, like reach, which may be as small as 0).
#ifndef FT_DISENTANGLED_ATTENTION_H
#define FT_DISENTANGLED_ATTENTION_H
#include "kernels/ops/attention.h"

typedef struct ft_disentangled_shape {
    ft_attention_shape attention;
    int32_t reach;        // distances beyond count as this one
    const int32_t *slots; // [2*reach + 1] row of the tables for delta = index - reach, device
} ft_disentangled_shape;

typedef struct ft_disentangled_attention_forward_args {
    ft_disentangled_shape shape;
    ft_tensor q, k, v;
    ft_tensor pos_key, pos_query; // PK, PQ; one may be absent
    ft_tensor out;
    ft_tensor lse; // optional (inference)
    ft_workspace workspace;
} ft_disentangled_attention_forward_args;
size_t ft_disentangled_attention_forward_workspace(const ft_target *target,
                                                   const ft_disentangled_attention_forward_args *args);
ft_status ft_disentangled_attention_forward_check(const ft_target *target, const ft_disentangled_attention_forward_args *args);

typedef struct ft_disentangled_attention_backward_args {
    ft_disentangled_shape shape;
    ft_tensor q, k, v, pos_key, pos_query, out, lse, dout;
    ft_tensor dq, dk, dv;           // written
    ft_tensor dpos_key, dpos_query; // accumulated, optional
    ft_workspace workspace;
} ft_disentangled_attention_backward_args;
size_t ft_disentangled_attention_backward_workspace(const ft_target *target,
                                                    const ft_disentangled_attention_backward_args *args);
ft_status ft_disentangled_attention_backward_check(const ft_target *target, const ft_disentangled_attention_backward_args *args);

// Which slot a distance has, from the numbers of a configuration. Host functions.
//   buckets  position_buckets of v2 and v3; <= 0 (v1, and v2 without it): every distance is a slot of its own
//   furthest max_relative_positions, or max_position_embeddings where that is below 1
// The tables have 2*span rows, span = buckets if > 0 else furthest.
typedef struct ft_relative_rule {
    int32_t buckets, furthest;
} ft_relative_rule;

int32_t ft_relative_span(ft_relative_rule rule);
// FT_INVALID where the rule has no meaning: furthest < 1, buckets 1, furthest - 1 == buckets / 2.
ft_status ft_relative_rule_check(ft_relative_rule rule);
// The slot of one distance, of a rule that passed the check.
int32_t ft_relative_slot(ft_relative_rule rule, int32_t delta);
// The smallest reach that describes sequences of up to `longest` tokens: at most longest - 1, less when the slots stop
// changing before.
int32_t ft_relative_reach(ft_relative_rule rule, int32_t longest);
// Fills slots[2*reach + 1].
void ft_relative_slots(ft_relative_rule rule, int32_t reach, int32_t *slots);
#endif
