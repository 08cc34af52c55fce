// layers.h - the building blocks of the encoder on views: each call asks for its scratch with the size of the run's
// largest micro-batch, runs one op and gives the scratch back. Internal to engine/model.
//
// Rows between layers. In 16 bits they are there twice: `x`, of the model's type, is what products read and what is kept for
// the backward pass; `wide`, the same in fp32 (x is its rounding), is what the next residual adds to. There is one `wide` for
// the whole way of a micro-batch, every norm writes it in place, and it goes away in the last layer. In fp32 it is absent, and
// residuals are the rows themselves. Where norms stand in front of blocks (block.h) it is there in every precision: not the rows, but the
// sums in front of their norm. The gradient of rows is fp32 in every precision.
//
// Unless train.residual is 16bit: then `wide` and the gradients of rows are of the model's type (ft_model.row_dtype), every kernel rounds
// what it has added up, and where norms stand behind the sum there is no `wide`: rows are the residual, as in fp32.
#ifndef FT_LAYERS_H
#define FT_LAYERS_H

#include "engine/model/state/builder.h"
#include "engine/model/state/net.h"
#include "kernels/ops/magnitude.h"
#include "kernels/philox.h"

// relative.c: the rows of the table of relative positions that sequences as long as the longest of the run can reach.
typedef struct ft_relative_window {
    int32_t first, rows;
} ft_relative_window;

// One micro-batch on its way through the model.
typedef struct ft_pass {
    ft_model *model;
    const ft_batch *batch;
    ft_capacity capacity;
    const ft_step_state *step;   // NULL: no dropout (prediction)
    ft_relative_window relative;
    const struct ft_cache *cache; // of texts that are gone on with (cache.h); NULL: none
} ft_pass;

// Which rows a tensor has: every token, the rows that are read, or those of the table of relative positions within reach.
typedef enum ft_rows_kind { FT_ROWS_TOKENS, FT_ROWS_READ, FT_ROWS_RELATIVE } ft_rows_kind;

int64_t ft_pass_rows(const ft_pass *pass, ft_rows_kind kind);
int64_t ft_pass_capacity(const ft_pass *pass, ft_rows_kind kind);

// A new tensor [rows, cols] of the model's type, memory for the capacity. site: "layer %d name" when layer >= 0, else name.
ft_status ft_pass_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, ft_memory_category category, int layer, const char *name,
                         ft_tensor *out);
// The same in fp32, whatever the model's type is: statistics of rows, logits, gradients of rows around the layers.
ft_status ft_pass_float_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, ft_memory_category category, int layer,
                               const char *name, ft_tensor *out);
// The same in the type of what adds up from layer to layer: gradients of rows between layers.
ft_status ft_pass_row_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, int layer, const char *name, ft_tensor *out);
// One number a row, a vector in fp32.
ft_status ft_pass_statistics(ft_pass *pass, ft_rows_kind kind, int layer, const char *name, ft_tensor *out);
// `wide`: the same as ft_pass_row_tensor where there is one, else absent.
bool ft_pass_has_wide(const ft_pass *pass);
bool ft_pass_wide_is_wider(const ft_pass *pass); // than the rows: what is there in both is rounded in one
ft_status ft_pass_wide_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, const char *name, ft_tensor *out);
bool ft_pass_is_half(const ft_pass *pass); // is the model's type one of 16 bits?
// x as the products of the model's type read it: itself, or, of fp32, rounded; then `own` is its memory, for the caller to free.
ft_status ft_pass_rounded(ft_pass *pass, ft_rows_kind kind, ft_tensor x, const char *name, ft_tensor *own, ft_tensor *out);
// y gets the numbers of x, rounded where it has another type: matrices whose rows lie back to back.
ft_status ft_pass_copy_rows(ft_pass *pass, ft_tensor x, ft_tensor y);
// x, where it is there, in that type: itself, or another tensor in its place.
ft_status ft_pass_retype(ft_pass *pass, ft_rows_kind kind, ft_dtype dtype, const char *name, ft_tensor *x);
// Frees a tensor made by ft_pass_tensor and marks it absent.
void ft_pass_free(ft_pass *pass, ft_tensor *tensor);

ft_dropout ft_pass_dropout(const ft_pass *pass, ft_rows_kind kind, float probability, uint32_t layer, ft_dropout_site site);

// The ops of these names, with scratch: those that several blocks run. What one block alone runs is in its file (run_op.h).
ft_status ft_pass_activation_forward(ft_pass *pass, ft_rows_kind kind, ft_activation_forward_args args);
ft_status ft_pass_activation_backward(ft_pass *pass, ft_rows_kind kind, ft_activation_backward_args args);
ft_status ft_pass_dropout_rows(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor y);
// y, of another type than x, gets its numbers: matrices whose rows lie back to back.
ft_status ft_pass_cast(ft_pass *pass, ft_tensor x, ft_tensor y);
ft_status ft_pass_column_scale(ft_pass *pass, ft_rows_kind kind, ft_column_scale_args args);
ft_status ft_pass_column_sum(ft_pass *pass, ft_rows_kind kind, ft_tensor x, ft_tensor out);
ft_status ft_pass_gather(ft_pass *pass, const int32_t *index, ft_tensor x, ft_tensor y);
ft_status ft_pass_scatter_add(ft_pass *pass, const int32_t *index, ft_tensor x, ft_tensor y);
// queries: which rows q and out have. Scratch is that of the largest shape.
ft_attention_shape ft_pass_attention_shape(const ft_pass *pass, ft_rows_kind queries, int layer);
ft_attention_shape ft_pass_largest_shape(const ft_pass *pass, ft_rows_kind queries, ft_attention_shape shape);
// loss.c: the loss of the model's task; logits become their gradient.
ft_status ft_pass_loss(ft_pass *pass, ft_tensor logits, ft_tensor losses);

// The cross-entropy of a class each and nothing else: no gradient, no weights.
ft_status ft_pass_plain_losses(ft_pass *pass, ft_tensor logits, ft_tensor losses);

// norm.h: what a norm keeps of its rows for its backward pass.
typedef struct ft_norm_saved {
    ft_tensor mean, rstd;
} ft_norm_saved;

// embeddings.c: token ids to the rows that layer 0 reads.
void ft_embeddings_build(ft_builder *b);
typedef struct ft_embeddings_saved {
    ft_tensor sum;
    ft_norm_saved norm;
    ft_tensor narrow; // input of the widening layer, where there is one
} ft_embeddings_saved;
// x and wide: [T,H], made here, the caller frees them. keep: fill `saved` (else everything is freed).
ft_status ft_embeddings_forward(ft_pass *pass, bool keep, ft_embeddings_saved *saved, ft_tensor *x, ft_tensor *wide);
// Frees dx, the gradient of the stream, absent where there is none beside x, and `saved`.
ft_status ft_embeddings_backward(ft_pass *pass, ft_embeddings_saved *saved, ft_tensor *dx, ft_tensor *stream);
void ft_embeddings_saved_free(ft_pass *pass, ft_embeddings_saved *saved);

// encoder_layer.c: what one layer keeps for its backward pass, block by block.
enum { FT_BLOCK_SAVED = 5 };
typedef struct ft_block_saved {
    ft_tensor own[FT_BLOCK_SAVED]; // by the block's own names
    ft_tensor sum;
    ft_tensor product; // in front of the scale, where that is trained
    ft_norm_saved norm;
    ft_tensor y; // of the last block the layer's caller has it; absent where it is made again
} ft_block_saved;
typedef struct ft_layer_saved {
    ft_block_saved block[FT_LAYER_BLOCKS];
} ft_layer_saved;

void ft_layer_build(ft_builder *b, int layer);
// Where the weights of frozen layers are on the host: from here on those of this one may be read, until another is entered; `next`, which
// will be, is sent meanwhile (-1: unknown). ft_layer_forward enters its layer itself.
ft_status ft_layer_enter(ft_pass *pass, int layer, int next);
// y: [T,H], last layer [B,H] unless the model ends whole; made here, the caller frees it. wide: that of x becomes that of y.
// keep: fill `saved` (else everything is freed).
ft_status ft_layer_forward(ft_pass *pass, int layer, ft_tensor x, ft_tensor *wide, bool keep, ft_layer_saved *saved, ft_tensor *y);
// dy (of y's rows, in the type of what adds up, as dx and stream) is freed; dx [T,H] is made here when want_dx. Frees `saved`. An absent x is the output of the layer
// below, whose saved tensors stand in front of this one's: it is made here. stream (absent behind the last layer, and where there is
// none): the gradient of the sum in front of y from above becomes that of the sum in front of x.
ft_status ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *saved, ft_tensor *dy, ft_tensor *stream, bool want_dx,
                            ft_tensor *dx);
// x [T,H], the input of a layer, made here again from its `wide`.
ft_status ft_layer_input_of_stream(ft_pass *pass, int layer, ft_tensor wide, ft_tensor *x);
void ft_layer_saved_free(ft_pass *pass, ft_layer_saved *saved);

// offload_inputs.c: of the inputs that are kept for recomputation, counted from below, number n on its way to the host and back.
bool ft_input_travels(const ft_pass *pass, int n); // else nothing of this is called for it
ft_status ft_input_send(ft_pass *pass, int n, ft_tensor x);
ft_status ft_input_sent(ft_pass *pass, int n, ft_tensor *x); // frees x: from here on its place may be written to
ft_status ft_input_fetch(ft_pass *pass, int n, ft_tensor *x); // x is made here
ft_status ft_input_fetched(ft_pass *pass, int n); // from here on it may be read
// A micro-batch failed: what is computed from here on finds done what was still on its way, from and to places that are free now.
void ft_inputs_abandon(const ft_model *model);

// head.c: the rows that are read to logits, and back.
void ft_head_build(ft_builder *b, const ft_int_list *hidden);
typedef struct ft_head_saved {
    ft_tensor read;              // the mean of the rows of every sequence, or those that are read, where all are there
    ft_tensor pooler_h, pooled;  // before and after its activation, the latter where a norm follows
    ft_norm_saved norm;
    ft_tensor *input;            // [head_count] input of each linear layer (after dropout)
    bool borrowed;               // the first of them is the caller's x itself
    ft_tensor *h;                // [head_count - 1] before the activation
} ft_head_saved;
// What the pooler reads of x, as it is before its dropout: rows [B,H] of the model's type, written.
ft_status ft_head_rows(ft_pass *pass, ft_tensor x, ft_tensor rows);
// x [B,H], of a model that ends whole [T,H]; where it is [B,H] it becomes the pooler's input in place: some families drop there.
ft_status ft_head_forward(ft_pass *pass, ft_tensor x, bool keep, ft_head_saved *saved, ft_tensor logits);
// dlogits [B,labels]; dx (fp32), as x, is made here when want_dx. Frees `saved`.
ft_status ft_head_backward(ft_pass *pass, ft_tensor x, ft_head_saved *saved, ft_tensor dlogits, bool want_dx, ft_tensor *dx);
void ft_head_saved_free(ft_pass *pass, ft_head_saved *saved);

// language.c: the head of a language model in that one's place, whose loss is part of it. Built in front of all else, and tied to the word table
// once that is there.
void ft_language_build(ft_builder *b);
void ft_language_tie(ft_builder *b);
// x [T,H] is freed. losses: [reads] fp32. dx (fp32), as x, is made here when want_dx.
ft_status ft_language_train(ft_pass *pass, ft_tensor *x, ft_tensor losses, bool want_dx, ft_tensor *dx);
// The plain losses alone.
ft_status ft_language_judge(ft_pass *pass, ft_tensor x, ft_tensor losses);
// The logits of all words, [reads, vocabulary], for who asks for a few rows.
ft_status ft_language_next(ft_pass *pass, ft_tensor x, ft_tensor logits);

#endif
