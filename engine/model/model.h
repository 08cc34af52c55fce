// model.h - an encoder of BERT's kind with a classification head: parameters, forward and backward of one packed micro-batch.
//
//     ft_model_create(...)            registers the parameters and allocates the weights
//     ft_model_load / ft_model_draw   fills them (model_files.h)
//     ft_model_prepare_training(...)  gradients and optimizer state
//     ft_model_hold_positions(...)    memory of what a step computes once for all its micro-batches
//     ft_model_begin_step(...)        that
//     ft_model_train_batch(...)       adds the gradients of one micro-batch, writes its losses
//     ft_model_end_step(...)          gradients are complete
//     ft_model_begin_prediction(...), ft_model_predict_batch(...), ft_model_end_prediction(...)    logits
//
// Families differ as families.h says; what follows is common to all.
// Mathematics: post-norm encoder, x = LN(x + drop(Wo att(x))), x = LN(x + drop(W2 act(W1 x))); pooled row = token 0;
// head: act(pooler) -> drop -> (hidden layer -> act -> drop)* -> classifier. The last layer computes keys and values
// for all tokens and everything else for the pooled rows only. Dropout is a function of the token (philox.h), so
// recomputation and any split into micro-batches give the same bits; gradients accumulate.
#ifndef FT_MODEL_H
#define FT_MODEL_H

#include "engine/config/config.h"
#include "engine/data/batch.h"
#include "engine/model/absent_rows.h"
#include "engine/model/loss.h"
#include "engine/model/model_config.h"
#include "engine/model/offload_inputs.h"
#include "engine/model/parameters.h"

// Sizes of the largest micro-batch of a run: what every step and op tensor is allocated for.
typedef struct ft_capacity {
    int32_t tokens, sequences, longest;
} ft_capacity;

// A linear layer, y = x W^T + b; every product of its weight is in linear.h.
// Layers that read the same rows may be one of several parts, of equal width: their weights stand one below the other in memory and their
// biases one behind the other, so that one product makes all outputs side by side. ft_linear_parts gives some of them.
typedef struct ft_linear {
    int weight, bias; // registry: of the first of all parts, or of all in one; -1: there is none
    int64_t inputs, outputs;
    int first, parts;  // which of them are this layer's
    unsigned unbiased; // bit n: part n has no bias, zeros stand in its place
} ft_linear;

enum { FT_QUERY, FT_KEY, FT_VALUE, FT_QKV_PARTS }; // of the layer in front of the attention

typedef struct ft_norm {
    int gamma, beta; // registry; -1: there is no norm
} ft_norm;

typedef struct ft_layer_parameters {
    ft_linear qkv, output;
    ft_norm norm1;
    ft_linear up, down;
    ft_norm norm2;
    ft_linear pos_key, pos_query; // of the relative positions; may be parts of qkv
} ft_layer_parameters;

// A table of relative positions and which of its rows a distance has; rows 0: none.
typedef struct ft_relative {
    ft_relative_rule rule;
    int32_t rows, reach;
    int table;                                  // registry
    ft_norm norm;
    int32_t *slots;                             // [2*reach + 1] device, with the two below in one block
    int32_t *row_number, *zero;                 // [rows]: where a row stands for its dropout, and that no sequence owns it
} ft_relative;

// PK and PQ of every layer and the sums of dPK and dPQ (relative.c): one block each, layer after layer.
typedef struct ft_position_tables {
    void *projected, *gradients; // device, of the type of the model and fp32; NULL: none held
    size_t projected_bytes, gradient_bytes;
    int32_t longest; // ft_capacity.longest of the step or pass under way; 0: none is
    bool training;   // it is a step
} ft_position_tables;

// The block behind layer 0 of DeBERTa's v2-x models; taps 0: none.
typedef struct ft_convolution {
    int taps;
    ft_activation activation;
    ft_linear linear; // of windows; its parts are the groups
    ft_norm norm;
} ft_convolution;

// Called with the hidden rows after the embeddings (layer -1) and every layer (the last one has pooled rows only).
typedef void (*ft_tap)(void *context, int layer, ft_tensor hidden);

typedef struct ft_model {
    const ft_family *family;
    ft_device *device;
    ft_memory *memory;
    ft_dtype dtype; // of activations, their gradients and the weights that ops read: train.precision
    ft_parameters parameters;
    // shape
    int32_t layers, heads, head_dim;
    int64_t hidden, intermediate, embedding_width;
    ft_activation activation;
    float epsilon;
    int32_t labels, padding_id;
    int32_t targets; // numbers that a sequence is compared with; 0: a class
    ft_loss loss;
    float *class_weight; // [labels] device; NULL: all 1
    int32_t position_padding; // for ft_batch: the padding id where positions are counted behind it, else -1
    // registry
    ft_absent_rows absent; // of the word table; all its rows are there if absent.word_rows is NULL
    int word, position, token_type; // -1: the family has none
    ft_norm embedding_norm;
    ft_linear widening; // weight -1: the tables are as wide as the rows of the layers
    ft_layer_parameters *layer;
    ft_relative relative;
    ft_position_tables positions;
    ft_convolution convolution;
    float score_scale;
    ft_linear pooler;
    ft_activation pooler_activation;
    ft_linear *head; // hidden layers, then the classifier
    int32_t head_count;         // hidden layers + 1
    ft_activation head_activation;
    // training
    float hidden_dropout, attention_dropout, classifier_dropout, head_dropout;
    float attention_output_dropout, pooler_dropout; // the latter in front of the pooler
    double layer_lr_decay;       // the learning rate of a layer beside that of the one above it
    int32_t first_trained_layer; // of the lowest trained parameter: layers below it, and then the embeddings, get no backward pass
    bool embeddings_trained;     // it is one of theirs
    int32_t checkpoint_every;    // 0: keep all activations; k: keep the input of every k-th layer
    bool keeps_activation;       // act(h) of every layer too (recompute.c)
    bool rebuilds_norms;         // what norms put out is not kept
    ft_offloaded_inputs inputs;  // of recomputed layers, on the host
    bool ignore_mismatched_sizes; // a head of another shape in a checkpoint is drawn anew
    ft_tap tap;                  // optional
    void *tap_context;
    ft_arena arena;
} ft_model;

// label_count: outputs of the classifier. `options` gives head, freezing, dropout and checkpointing.
ft_status ft_model_create(ft_memory *memory, const ft_model_config *config, const ft_config *options, int32_t label_count,
                          ft_model *model);
// The same with those rows of the word table alone that `word_rows` holds, which must outlive the model; NULL: all rows.
ft_status ft_model_create_with(ft_memory *memory, const ft_model_config *config, const ft_config *options, int32_t label_count,
                               const ft_word_rows *word_rows, ft_model *model);
bool ft_model_trains_embeddings(const ft_config *options);
// What the backward pass keeps and what it computes again, between two steps: as `options` says, and `auto` is what is fastest.
void ft_model_set_recomputation(ft_model *model, const ft_config *options);
ft_status ft_recompute_check(const ft_config *options); // FT_INVALID for what precision or offload do not allow
// train.gradient_checkpointing of a run on this device, `auto` resolved: 0 off, k every k layers.
int64_t ft_checkpoint_every(const ft_config *options, const ft_device *device);
int ft_model_checkpoints(const ft_model *model); // how many inputs of layers a micro-batch keeps to compute from them again
// The weights will be trained: before they are loaded or drawn. Only in 16 bits there is anything to do.
ft_status ft_model_keep_master(ft_model *model);
// What training makes small; once, before batches are made for the model. Without it: cross-entropy.
ft_status ft_model_set_loss(ft_model *model, const ft_loss *loss);
ft_status ft_model_prepare_training(ft_model *model, double weight_decay);
void ft_model_free(ft_model *model); // {0} is fine

// What the relative positions of a model need between the micro-batches of a step, or of a pass of prediction: memory for
// their projections in all layers and, for training, of their gradients in the trained ones, 2 to 4 times layers * rows *
// hidden floats, rows <= 2 * span. Once, for the largest micro-batches of either kind (tokens and longest 0: there are none).
// Families without relative positions need nothing and may be given nothing.
ft_status ft_model_hold_positions(ft_model *model, ft_capacity train, ft_capacity predict);
void ft_model_release_positions(ft_model *model);
// Memory of the host for the inputs of layers, where they are offloaded (offload_inputs.h): as often as micro-batches or
// recomputation change. Without it they stay on the device.
ft_status ft_model_hold_inputs(ft_model *model, ft_capacity train);
void ft_model_release_inputs(ft_model *model);

// Around the micro-batches of one optimizer step: what depends on weights, step and layer, but on no text. `capacity` is that of
// all its micro-batches. A step that was begun may be begun anew; one that failed need not be ended.
ft_status ft_model_begin_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status ft_model_end_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
// For whoever replays what these two queued (step_graphs.h): the model's own mind of whether a step was begun. Queues nothing.
void ft_model_mark_step(ft_model *model, ft_capacity capacity, bool begun);
// The same without dropout and gradients, around a pass over texts with the weights as they are.
ft_status ft_model_begin_prediction(ft_model *model, ft_capacity capacity);
void ft_model_end_prediction(ft_model *model);

// Inside a step. `batch` holds device pointers. losses: [batch->sequences] fp32 device, written. Gradients are accumulated.
ft_status ft_model_train_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step,
                               ft_tensor losses);
// Inside a pass. logits: [batch->sequences, labels] fp32 device, written. No dropout.
ft_status ft_model_predict_batch(ft_model *model, const ft_batch *batch, ft_capacity capacity, ft_tensor logits);

#endif
