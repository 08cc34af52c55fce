// block.h - what a layer is made of. Every block of the family's layer (families.h), the first one first, does
//
//     s = r + dropout(block(x) W^T + b);  y = LN(s)        x: output of the block below; r: x, or those of its rows that go on
//
// where W is the block's last linear layer. Where norms stand in front of blocks (ft_family.norms_in_front), r is the s of the block below
// instead, its stream; the norm behind a block is then the one in front of the next, and the first block of all, which has none in front,
// has x for r as elsewhere. Sum and norm are the same for all: residual.c; encoder_layer.c has them one after the other.
// A new kind of block is a file with such a table and a name in families.h.
#ifndef FT_BLOCK_H
#define FT_BLOCK_H

#include "engine/model/blocks/layers.h"

// On the way back. The input may be absent: then it is made again from the sum of the block below (ft_block_input_again).
typedef struct ft_block_input {
    ft_tensor *x;
    bool wanted; // else nothing reads it
    int layer, block; // the one below, whose output x is
    const ft_block_saved *below;
} ft_block_input;

// product: gradient of the last linear layer's, where it is a tensor of its own, for the block to free; else that is `past` itself.
// past: gradient of r, which is consumed, in the type of what adds up. dx (of that type): that of x, made where want_dx. stream: that of an r which is not x, for the block
// below; absent elsewhere.
typedef struct ft_block_gradients {
    ft_tensor product, past, dx, stream;
    bool want_dx;
} ft_block_gradients;

typedef struct ft_block {
    const char *sum, *sum_gradient; // names of tensors
    ft_dropout_site site;           // of the sum
    int saved;                      // tensors that it keeps between forward and backward, FT_BLOCK_SAVED at most
    void (*build)(ft_builder *b, int layer); // its parameters, the last first
    const ft_linear *(*first)(const ft_layer_parameters *l), *(*last)(const ft_layer_parameters *l);
    // out: input of the last linear layer, in memory that the block keeps or frees. rows: x, becomes r. wide: x as it is summed up, becomes r (layers.h).
    // keep: what is in `saved` stays; else it goes as early as it can, `recede` having its turn once `out` was read.
    ft_status (*forward)(ft_pass *pass, int layer, ft_tensor *rows, ft_tensor *wide, bool keep, ft_tensor *saved, ft_tensor *out);
    void (*recede)(ft_pass *pass, int layer, bool keep, ft_tensor *saved, ft_tensor *out);
    // What it has read of `saved` may be gone, the rest goes with the layer.
    ft_status (*backward)(ft_pass *pass, int layer, ft_tensor *saved, const ft_block_input *input, ft_block_gradients *g);
} ft_block;

extern const ft_block ft_attention_block, ft_normed_attention_block, ft_feed_forward_block, ft_gated_feed_forward_block;
const ft_block *ft_block_at(const ft_model *model, int block); // of every layer

// Does the backward pass come to this block? Blocks below it in its layer, and layers below that, keep nothing.
static inline bool ft_block_goes_back(const ft_model *m, int layer, int block) {
    return layer > m->first_trained_layer || (layer == m->first_trained_layer && block >= m->lowest_trained_block);
}
bool ft_block_reads_input(const ft_model *model, int layer, int block); // on the way back: its first linear layer's weight is trained

static inline bool ft_layer_is_last(const ft_pass *pass, int layer) { return layer == pass->model->layers - 1; }
// The last layer goes on with the rows alone that the head reads (ft_batch.read_row), unless what is behind it reads all.
static inline bool ft_layer_is_read(const ft_pass *pass, int layer) { return ft_layer_is_last(pass, layer) && !pass->model->ends_whole; }
static inline ft_rows_kind ft_layer_rows(const ft_pass *pass, int layer) {
    return ft_layer_is_read(pass, layer) ? FT_ROWS_READ : FT_ROWS_TOKENS;
}
static inline ft_status ft_layer_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, int layer, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, kind, cols, FT_MEM_ACTIVATIONS, layer, name, out);
}
static inline ft_tensor ft_product_gradient(const ft_block_gradients *g) { return g->product.data != NULL ? g->product : g->past; }

// attention.c, for its kinds: the linear layer of queries, keys and values, and the scores of queries and keys alone.
void ft_attention_build_qkv(ft_builder *b, ft_linear *qkv);
ft_status ft_attention_plain_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args args);
ft_status ft_attention_plain_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args args);

// residual.c. a: what the block put out; y is made here.
ft_status ft_residual_forward(ft_pass *pass, int layer, int block, ft_tensor a, ft_tensor rows, ft_tensor wide, ft_block_saved *saved,
                              ft_tensor *y);
// past: dy becomes the gradient of r, in place; `product` is made where it differs. Frees the sum.
ft_status ft_residual_backward(ft_pass *pass, int layer, int block, ft_block_saved *saved, ft_block_gradients *g);
// Is the r of a block whose input is this another tensor than x?
static inline bool ft_block_has_stream(const ft_pass *pass, const ft_block_input *input) {
    return pass->model->family->norms_in_front && (input->layer >= 0 || pass->model->family->first_norm_in_front);
}
// The end of a block's way back, dy the gradient behind its first linear layer: where it is wanted g->dx becomes that of x, rows of
// this kind, in `past`'s place and with that of r in it, unless r is another tensor: then `past` becomes `stream`. Else `past` is freed.
ft_status ft_block_input_gradient(ft_pass *pass, ft_rows_kind kind, int layer, const ft_linear *first, ft_tensor dy, const ft_block_input *input,
                                  ft_block_gradients *g);
ft_status ft_block_input_again(ft_pass *pass, const ft_block_input *input); // where it is absent

#endif
