// net.h - what a model is in memory: its layers as places in the registry of parameters, its shape, and what its blocks keep
// between micro-batches. Structs alone: the blocks compute with them, model.h has the calls.
#ifndef FT_NET_H
#define FT_NET_H

#include "engine/config/config.h"
#include "engine/data/batch.h"
#include "engine/model/spec/loss.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/state/absent_rows.h"
#include "engine/model/state/parameters.h"

// Sizes of the largest micro-batch of a run: what every step and op tensor is allocated for.
typedef struct ft_capacity {
    int32_t tokens, sequences, longest;
    int32_t reads, most_reads; // rows that are read, in all and of one sequence
} ft_capacity;

// A low-rank adapter of a linear layer, or of some of its parts (adapter.h).
enum { FT_MOST_ADAPTERS = 3 }; // of one layer
typedef struct ft_adapter {
    int a, b;         // registry: A [rank, inputs], B [outputs of its parts, rank]
    int magnitude;    // the same: of every output (dora.h); -1: there is none
    int64_t rank;
    float scale, dropout;
    uint32_t number;  // among all of the model, for its dropout; of adapters with one mask the same
    int first, parts; // of the layer
} ft_adapter;

// A linear layer, y = x W^T + b; every product of its weight is in linear.h.
// Layers that read the same rows may be one of several parts, the first of a width of its own: their weights stand one below the other in
// memory and their biases one behind the other, so that one product makes all outputs side by side. ft_linear_parts gives some of them.
typedef struct ft_linear {
    int weight, bias; // registry: of the first of all parts, or of all in one; -1: there is none
    int64_t inputs, outputs;
    int first, parts;  // which of them are this layer's
    int64_t lead, width; // outputs of part 0 of all, and of each one behind it
    unsigned unbiased; // bit n: part n has no bias, zeros stand in its place
    const ft_adapter *adapters; // by part; those whose A are one product stand together
    int adapter_count;
    bool each;         // every part is a parameter of its own, one behind the other in the registry, and so are biases
    bool scattered;    // and their weights stand where a file has them (mapped_files.h): the products of these are one a part
    bool apart;        // and some of them are trained, others frozen: they do not stand together, and every part is a product of its own
} ft_linear;

enum { FT_QUERY, FT_KEY, FT_VALUE, FT_QKV_PARTS }; // of the layer in front of the attention

typedef struct ft_norm {
    int gamma, beta; // registry; gamma -1: there is no norm, beta -1: it has no bias
    bool rms;        // RMSNorm
} ft_norm;

typedef struct ft_layer_parameters {
    ft_linear qkv, output, up, down;
    int mix_scores, mix_weights; // registry: by what heads that talk are mixed; -1: they do not
    ft_norm norm[FT_LAYER_BLOCKS]; // behind the blocks
    ft_norm query_norm, key_norm;  // of heads, as wide as one (normed_attention.c)
    int scale[FT_LAYER_BLOCKS];    // registry: of the columns that a block puts out, in front of its sum; -1: none
} ft_layer_parameters;

// Of the attention: queries, and what it puts out, have count * width columns, keys and values key_values * width. Scores are multiplied
// by `scale`.
typedef struct ft_heads {
    int32_t count, key_values, width;
    float scale;
} ft_heads;
static inline int64_t ft_query_columns(const ft_heads *h) { return (int64_t)h->count * h->width; }
static inline int64_t ft_key_columns(const ft_heads *h) { return (int64_t)h->key_values * h->width; }

enum { FT_INPUTS_ON_THE_WAY = 2 };

// Inputs of recomputed layers on their way to the host and back (offload_inputs.h).
typedef struct ft_offloaded_inputs {
    bool on;      // the run is one that offloads them
    char *host;   // pinned, a place for each of those that travel; NULL: none does
    size_t place; // bytes of one: of the largest micro-batch
    int count;
    ft_event *ready;                       // it is there, or its place is free
    ft_event *moved[FT_INPUTS_ON_THE_WAY]; // it has gone, or come
} ft_offloaded_inputs;

// Called with the hidden rows after the embeddings (layer -1) and every layer (the last one has only those that are read).
typedef void (*ft_tap)(void *context, int layer, ft_tensor hidden);

typedef struct ft_model {
    const ft_family *family;
    ft_device *device;
    ft_memory *memory;
    ft_dtype dtype; // of activations, their gradients and the weights that ops read: train.precision
    ft_dtype row_dtype; // of what adds up from layer to layer (layers.h): fp32, or dtype where train.residual says so
    ft_parameters parameters;
    // shape
    int32_t layers;
    ft_heads heads;
    int64_t hidden, intermediate, embedding_width;
    ft_activation activation;
    float epsilon;
    int32_t labels, padding_id;
    int64_t vocabulary; // of a language model, whose head is the logits of so many words; 0: it is none
    int32_t loss_rows;  // and the logits of so many rows exist at once
    int32_t targets; // numbers that a sequence is compared with; 0: a class
    ft_loss loss;
    float *class_weight; // [labels] device; NULL: all 1
    bool sinusoidal_positions; // a position table that no file gives is sines and cosines
    int32_t position_padding; // for ft_batch: the padding id where positions are counted behind it, else -1
    // registry
    struct ft_modules *modules; // linear layers by name, and which of them are adapted (builder.h); NULL: no adapters
    ft_absent_rows absent; // of the word table; all its rows are there if absent.word_rows is NULL
    int word, position, token_type; // -1: the family has none
    struct ft_patches *patches; // of a model that reads pictures (patches.h); NULL: texts
    ft_norm embedding_norm;
    ft_linear widening; // weight -1: the tables are as wide as the rows of the layers
    ft_layer_parameters *layer;
    struct ft_rotary *rotary;           // angles that queries and keys are turned by, and windows (rotary.h); NULL: none
    struct ft_position_bias *position_bias; // MPNet's table (position_bias.h); NULL: none
    struct ft_relative *relative;       // DeBERTa's table of relative positions (relative.h); NULL: none
    struct ft_convolution *convolution; // the block behind layer 0 of its v2-x models (convolution.h); NULL: none
    ft_linear pooler; // weight -1: there is none
    ft_activation pooler_activation;
    ft_norm head_norm;  // behind it
    bool causal;        // a token sees itself and those in front of it; last_pooling: the head reads the last one of a sequence
    bool last_pooling;
    bool mean_pooling;  // the head reads the mean of a sequence's rows; else some of them (ft_batch.read_row)
    bool first_and_mean; // the first row of a sequence and the mean of the others, side by side
    int64_t read_width;  // columns of what the head reads
    bool late_pooling;  // and that is behind the pooler and its activation (EuroBERT)
    bool ends_whole;    // the last layer has all rows: the head takes their mean, almost all are read (token classification, whose
                        // places relative positions and windows ask for), or a convolution behind that layer reads neighbours
    bool reads_features; // batches bring what the head reads (ft_batch.feature): embeddings and layers are not run
    ft_linear *head; // hidden layers, then the classifier
    int32_t head_count;         // hidden layers + 1
    ft_activation head_activation;
    // training
    struct ft_pack_member *member; // of runs that share products of frozen weights (pack.h); NULL: it is in none
    float embedding_dropout, hidden_dropout, attention_dropout, classifier_dropout, head_dropout;
    float attention_output_dropout, feed_forward_dropout, gate_dropout, pooler_dropout; // the last one in front of the pooler
    double layer_lr_decay;       // the learning rate of a layer beside that of the one above it
    int32_t first_trained_layer; // of the lowest trained parameter: layers below it, and then the embeddings, get no backward pass
    int32_t lowest_trained_block; // of that layer: the blocks below it get none either
    bool embeddings_trained;     // it is one of theirs
    bool *quiet;                 // [layers + 1] the embeddings, then every layer: it drops nothing (train.frozen_dropout); NULL: none is
    int32_t checkpoint_every;    // 0: keep all activations; k: keep the input of every k-th layer
    bool keeps_activation;       // act(h) of every layer too (recompute.c)
    bool rebuilds_norms;         // what norms put out is not kept
    ft_offloaded_inputs inputs;  // of recomputed layers, on the host
    bool ignore_mismatched_sizes; // a head of another shape in a checkpoint is drawn anew
    const struct ft_elsewhere *elsewhere; // of parameters that are not there (elsewhere.h); NULL: nobody saves them
    ft_tap tap;                  // optional
    void *tap_context;
    ft_arena arena;
} ft_model;

#endif
