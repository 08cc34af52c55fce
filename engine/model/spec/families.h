// families.h - what distinguishes the model families: names of tensors and of configuration keys, and the few places
// where their mathematics differ. The encoder reads the table; it never asks which family it runs.
#ifndef FT_FAMILIES_H
#define FT_FAMILIES_H

#include "base/status.h"
#include "kernels/ops/activation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a layer is made of, each block with a sum and a norm behind it (block.h).
typedef enum ft_block_kind { FT_BLOCK_ATTENTION, FT_BLOCK_NORMED_ATTENTION, FT_BLOCK_FEED_FORWARD, FT_BLOCK_GATED_FEED_FORWARD } ft_block_kind;
enum { FT_LAYER_BLOCKS = 2 };

// The linear layers of one layer, as a set.
typedef enum ft_layer_linear {
    FT_LINEAR_QKV = 1 << 0,
    FT_LINEAR_OUTPUT = 1 << 1,
    FT_LINEAR_UP = 1 << 2,
    FT_LINEAR_DOWN = 1 << 3,
    FT_LINEAR_POS_KEY = 1 << 4,
    FT_LINEAR_POS_QUERY = 1 << 5,
    FT_LINEAR_POOLER = 1 << 6,
} ft_layer_linear;

// Names of the tables and the norm below the layers, behind the family's prefix and without ".weight" and ".bias".
typedef struct ft_embedding_names {
    const char *word, *position, *type, *norm;
} ft_embedding_names;

// Of what stands below the layers where pictures are read, whole: a linear layer on patches, whose weight and bias these are, the vectors in front
// of them, and the table of positions. model_type of config.json says which there are.
typedef struct ft_patch_names {
    const char *weight, *bias, *first, *second, *position; // second: of distillation; NULL: the model has none
} ft_patch_names;

// Names of the linear layers and norms of one transformer layer, without ".weight" and ".bias".
typedef struct ft_layer_names {
    const char *query, *key, *value, *output, *up, *down;
    const char *norm[FT_LAYER_BLOCKS]; // behind the blocks; the last one's is the next layer's where norms stand in front of blocks
    const char *last_norm;             // then: behind the last layer
    const char *qkv; // one matrix for all three; with `query` and `value` it is head by head, and those are vectors, their biases, and a
                     // key has none; else it is one linear layer. NULL: three linear layers
    const char *query_norm, *key_norm; // of heads, in front of their angles (Qwen3)
    const char *pos_key, *pos_query; // of the relative positions
    const char *mix_scores, *mix_weights; // of heads that talk to each other, where config.json asks for it; NULL: they cannot
    const char *gate; // what is activated in a gated feed-forward block, beside `up`; NULL: `up` has both
    bool gate_below;  // and then the second half of its rows is that one in files, else the first
    const char *scale[FT_LAYER_BLOCKS]; // whole: a number for every column of what a block puts out, in front of its sum; NULL: none
    unsigned unbiased; // set of ft_layer_linear: those that have no bias, where config.json has no say in it
} ft_layer_names;

typedef struct ft_family_keys { // of config.json
    const char *hidden, *layers, *heads, *intermediate, *activation;
    const char *hidden_dropout, *attention_dropout, *classifier_dropout;
    const char *epsilon;   // NULL: fixed at the default
    const char *key_heads, *head_width; // of the attention; NULL: as many as heads, and all of them as wide as the rows
    const char *embedding; // width of the tables; NULL: the hidden one
    const char *groups, *inner; // of layers that share weights (weights_of_layer of model_config.h); NULL: none do
    const char *off[4];    // switches that change the mathematics and must be off, where they are there at all
} ft_family_keys;

typedef struct ft_family_defaults { // where config.json has no such key
    int64_t vocabulary, hidden, layers, heads, intermediate, types, padding;
    int64_t embedding; // 0: as the hidden width
    int64_t key_heads, head_width; // 0: as many as heads, and as wide as the rows allow
    int64_t positions; // 0: 512
    bool undropped;    // dropouts are 0, else 0.1
    bool attention_undropped; // that of the scores is 0
    const char *activation; // NULL: "gelu"
    double epsilon;
    double classifier_dropout; // negative: as the hidden one
} ft_family_defaults;

// What tells a model where a token stands, as a set.
typedef enum ft_positions {
    FT_POSITIONS_TABLE = 1 << 0,    // a row of a table, added to the token's
    FT_POSITIONS_ROTARY = 1 << 2,   // queries and keys are turned (rope.h), by layer as config.json says (rotary_config.c)
    FT_POSITIONS_BIAS = 1 << 3,     // a number for every distance and head, added to the scores of all layers (position_bias.h)
    FT_POSITIONS_RELATIVE = 1 << 1, // terms of the scores from a table of distances: DeBERTa's disentangled attention
} ft_positions;

// Which row of the table a token has.
typedef enum ft_position_rule {
    FT_POSITIONS_FROM_0,          // 0, 1, 2, ...
    FT_POSITIONS_BEHIND_PADDING,  // padding id + 1, + 2, ...: the rows up to the padding id belong to no token
} ft_position_rule;

// How the rows of DeBERTa's table belong to distances.
typedef enum ft_relative_kind {
    FT_RELATIVE_NONE,
    FT_RELATIVE_DISTANCES, // v1: a row each. Nor does it know the keys of the variants of v2
    FT_RELATIVE_BUCKETS,   // v2 and v3: far ones may share a row
} ft_relative_kind;

// Where the feed-forward block drops, with the probability of the hidden rows.
typedef enum ft_feed_forward_drops {
    FT_DROPS_BEHIND,  // its last linear layer
    FT_DROPS_NOTHING,
    FT_DROPS_GATED,   // in front of that, what the gate let through
    FT_DROPS_BOTH,
} ft_feed_forward_drops;

// What config.json says of rotary positions.
typedef enum ft_rotary_kind {
    FT_ROTARY_BY_LAYER, // windows and angles by layer, biases and the head too: ModernBERT's keys
    FT_ROTARY_ONE,      // the same angles in all of them
    FT_ROTARY_BIASES,   // the same, and biases and pooling as EuroBERT says them
    FT_ROTARY_DECODER,  // those of Qwen and Llama: scaled angles, causal windows, biases
} ft_rotary_kind;

// A key of config.json that stands for one of the family's, in files of the code that a model was published with.
typedef struct ft_key_alias {
    const char *alias, *key;
} ft_key_alias;

// A part of the names of files that modules have otherwise in transformers 5, whose adapters are called by it.
typedef struct ft_module_alias {
    const char *file, *module;
} ft_module_alias;

// Where tables narrower than the hidden rows are widened.
typedef enum ft_widening { FT_WIDEN_NEVER, FT_WIDEN_AFTER_NORM, FT_WIDEN_BEFORE_NORM } ft_widening;

typedef struct ft_family {
    const char *model_type, *classifier_class; // config.json; the class that transformers opens a classifier with
    const char *prefix;                        // of the encoder's tensors, with its dot; may be missing in a file
    const char *old_prefix;                    // or be this. NULL: no other
    const ft_key_alias *aliases;               // the last one of NULLs; NULL: none
    ft_family_keys keys;
    ft_family_defaults defaults;
    bool token_types;
    bool types_optional; // type_vocab_size 0: none
    unsigned positions;        // set of ft_positions; DeBERTa's config.json may ask for another (relative_config.c)
    ft_rotary_kind rotary;
    double theta;              // of those, where config.json has none
    bool windows;              // of a decoder: config.json may ask for them (use_sliding_window)
    bool causal;               // a decoder: a token sees itself and those in front of it, and a classifier reads the last one
    ft_position_rule position_rule;
    ft_relative_kind relative; // of the distances where config.json asks for them
    ft_widening widening;
    bool widens_always;           // tables that are as wide as the hidden rows too
    const char *widening_name;    // behind the prefix; it has a bias when it stands behind the norm
    ft_embedding_names embeddings;
    const ft_patch_names *patches; // NULL: it reads texts
    bool first_and_mean;           // the classifier reads the first row and the mean of the others, side by side
    const char *layer;            // behind the prefix; the number of the layer follows
    const char *inner_layer;      // where layers share weights: that is the number of a group, and behind it stand this and the layer's number in it
    ft_block_kind blocks[FT_LAYER_BLOCKS]; // of a layer, the first one first
    ft_layer_names names;
    bool norms_in_front;           // of blocks: sums add to sums (block.h); the first block has none
    bool first_norm_in_front;      // but for this: it has the embeddings' norm, and sums begin with what that reads
    bool rms_norms;                // RMSNorm
    bool attention_output_dropout; // behind the output projection of the attention
    ft_feed_forward_drops feed_forward_drops;
    bool attention_dropout_behind; // the same, with the probability of the scores'
    // The head: [dropout] -> pooler -> activation -> [norm] -> dropout -> classifier. Full names; pooler NULL: neither that nor an activation.
    const char *pooler, *classifier, *head_norm;
    bool unbiased_classifier;
    ft_activation pooler_activation;
    bool dropout_before_pooler; // the classifier's dropout, once more
    const ft_module_alias *modules; // one after the other; the last one of NULLs; NULL: modules are called as files have them
    bool other_modules;         // module names in transformers are not those of the file: PEFT's adapters would not be found
    bool draws_by_width;        // a new head: cut normal numbers, of widths of their own (drawing.h)
    // The head of token classification is dropout -> FT_TOKEN_CLASSIFIER, for each row that is read.
    bool token_pooler;          // with the pooler and its norm in front, row by row
    bool token_hidden_dropout;  // with the hidden dropout, whatever the classifier's is
    const char *span_dropout;   // of config.json, 0.1 where it is absent: what stands in front of FT_SPAN_CLASSIFIER; NULL: nothing does
} ft_family;

#define FT_TOKEN_CLASSIFIER "classifier" // of every family
#define FT_LANGUAGE_HEAD "lm_head"        // of every decoder
// That of question answering is the same without a dropout, but where the family has a pooler there or says another key, and is called
#define FT_SPAN_CLASSIFIER "qa_outputs" // where there is no pooler, else as that of tokens

// Those that read pictures (picture_families.c); ft_family_at has them behind the others.
enum { FT_PICTURE_FAMILIES = 3 };
extern const ft_family ft_picture_families[FT_PICTURE_FAMILIES];

// NULL when there is none of that name.
const ft_family *ft_family_find(const char *model_type);
// The name of a module, or of a parameter in it, as transformers 5 has it in memory. room: of `out`, which cuts it.
void ft_family_module(const ft_family *family, const char *name, char *out, size_t room);
// Of a model type that there is none of: the one whose models stand in for it, or whose name is like it. NULL: none.
const char *ft_family_nearest(const char *model_type);
int ft_family_count(void);
const ft_family *ft_family_at(int index);

#endif
