// talking_attention.h - attention of heads that talk to each other: DeBERTa v1 with `talking_head`. Scores of all heads of a pair are mixed
// in front of the softmax, and probabilities behind it, by a matrix each.
//
// For query row i and key row j of a sequence, and heads g, h:
//   z_h,ij = scale * (<Q_i, K_j> + <Q_i, PK_s> + <PQ_s, K_j>)      of head h's columns, as in disentangled_attention.h
//   m_g,ij = sum_h mix_scores[g,h] z_h,ij;  P_g = softmax over j of m_g;  lse_g,i = log sum_j exp(m_g,ij)
//   a_g,ij = sum_h mix_weights[g,h] dropout(P)_h,ij;  out_i = sum_j a_g,ij V_j    of head g's columns
// Either table may be absent, or both: then slots and reach are not looked at.
//
// backward, with dA_g,ij = <dout_i, V_j> of head g's columns:
//   dP_h = dropout of sum_g mix_weights[g,h] dA_g;  dM_g = P_g * (dP_g - sum over j of P_g dP_g);  dZ_h = scale * sum_g mix_scores[g,h] dM_g
//   dmix_weights[g,h] += sum_ij dA_g dropout(P)_h;  dmix_scores[g,h] += sum_ij dM_g z_h;  dV_j = sum_i a_g,ij dout_i
//   dQ, dK, dPK, dPQ from dZ as in disentangled_attention.h from dS
// dq, dk, dv are written and depend only on their own sequence. dpos_key, dpos_query, dmix_scores and dmix_weights are accumulated: sixteen
// queries of a sequence are one term, of the tables one for each distance; sequences follow each other in order. So on the CPU the same bits for any
// number of threads and any split of the sequences over calls; on CUDA as many queries are one term as the scratch holds.
//
// Unlike the other attentions this one keeps scores of all heads: of a block of queries, in scratch of a bounded size (talking_workspace.c).
//
// Shapes: as in disentangled_attention.h; mix_scores, mix_weights and their gradients [heads, heads]. All H but lse and the gradients that
// are accumulated, which are fp32.
#ifndef FT_TALKING_ATTENTION_H
#define FT_TALKING_ATTENTION_H
#include "kernels/ops/disentangled_attention.h"

typedef struct ft_talking_attention_forward_args {
    ft_disentangled_shape shape;
    ft_tensor q, k, v;
    ft_tensor pos_key, pos_query;      // optional
    ft_tensor mix_scores, mix_weights;
    ft_tensor out;
    ft_tensor lse; // optional (inference)
    ft_workspace workspace;
} ft_talking_attention_forward_args;
size_t ft_talking_attention_forward_workspace(const ft_target *target, const ft_talking_attention_forward_args *args);
ft_status ft_talking_attention_forward_check(const ft_target *target, const ft_talking_attention_forward_args *args);

typedef struct ft_talking_attention_backward_args {
    ft_disentangled_shape shape;
    ft_tensor q, k, v, pos_key, pos_query, mix_scores, mix_weights, lse, dout;
    ft_tensor dq, dk, dv;                // written
    ft_tensor dpos_key, dpos_query;      // accumulated, optional
    ft_tensor dmix_scores, dmix_weights; // accumulated, optional
    ft_workspace workspace;
} ft_talking_attention_backward_args;
size_t ft_talking_attention_backward_workspace(const ft_target *target, const ft_talking_attention_backward_args *args);
ft_status ft_talking_attention_backward_check(const ft_target *target, const ft_talking_attention_backward_args *args);

#endif
