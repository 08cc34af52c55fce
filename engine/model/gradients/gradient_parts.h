// gradient_parts.h - the gradients of ranks that are apart (gradient_sums.h) in the pieces that are sent (buckets.h):
// sums of their squares, piece by piece, and gradients that are dealt out (distributed.shard = gradients).
//
// Dealt out, where every step is one micro-batch a rank, no rank has all gradients. A piece has memory of the step from
// when the backward pass comes to it until its sums have come, and the rows of the word table beside it (word_sums.h);
// then each rank keeps what lies in its part of the store (shards.h), which is what it updates. The next piece is computed
// while one is on its way. What the end of the step adds to (late pieces) stays until then, with what else is of its
// group. Every piece is summed whole, as it is without dealing out: a ring adds the parts of a buffer each in an order of
// its own, and so the bits are the same; what travels is the same too. Squares are summed of the whole piece by every
// rank.
//
//     ft_gradients_...     as gradients.h has it; of a step in this order: begin, reach, leave, share
//     ft_gradient_sums_finish(sums, p);  behind all of it: sends the late ones
//     ft_gradients_keep(p);              and when they have come
#ifndef FT_GRADIENT_PARTS_H
#define FT_GRADIENT_PARTS_H

#include "engine/model/gradients/buckets.h"

typedef struct ft_gradient_piece {
    ft_bucket bucket;
    int64_t first_sum; // of its squares
    int head;          // the piece with which its group begins (ft_bucket.joins): they have their memory together
    int64_t room;      // of a head, elements of all of them
    bool stays;        // until the end of the step: a late one, or of the group of one
    size_t place;      // of a head that does: bytes behind this rank's part
    float *data;       // [bucket.count] device, while it is there
} ft_gradient_piece;

typedef struct ft_gradient_parts {
    ft_gradient_piece *piece; // in the order in which they are sent
    int count;
    int64_t sums; // of squares, of all
    bool deals;
    int *piece_of;                // [parameters]; of what is not trained 0
    int64_t *own_first;           // [stores]: where the part of each begins in `own`, elements
    size_t own_bytes, late_bytes; // multiples of FT_MEMORY_PLACE
    float *own;                   // device, this rank's parts of all trained stores; while they are there
    int sent, kept;               // pieces of this step; kept <= sent
    ft_range *ranges;             // [count] scratch
} ft_gradient_parts;

// Where the ranks of p->memory are apart, p->parts; else nothing. p->deals_gradients and p->gradients_in_steps are
// known.
ft_status ft_gradient_parts_open(ft_parameters *p);
void ft_gradient_parts_close(ft_parameters *p); // none is fine
static inline bool ft_gradient_parts_deal(const ft_parameters *p) { return p->parts != NULL && p->parts->deals; }
// Sums of the squares of a piece that lies at `data` to their places in sums[p->parts->sums] (kernels/ops/adamw.h);
// queued.
ft_status ft_gradient_parts_square(const ft_parameters *p, int piece, float *data, double *sums);

// ---- dealt out: what gradients.h and gradient_sums.h are then
void ft_gradient_parts_begin(ft_parameters *p);
ft_status ft_gradient_parts_reach(ft_parameters *p, int point);
ft_status ft_gradient_parts_leave(ft_parameters *p); // what did not arrive is 0
ft_status ft_gradient_parts_share(ft_parameters *p);
ft_status ft_gradient_parts_finish(ft_parameters *p);
// Of the late ones, behind ft_group_join: inside of no scope, and of no graph.
ft_status ft_gradient_parts_keep(ft_parameters *p);
float *ft_gradient_parts_at(const ft_parameters *p, int index); // of that parameter
// Of the gradients of a store those that this rank updates, [own.count].
float *ft_gradient_parts_own(const ft_parameters *p, int store);

#endif
