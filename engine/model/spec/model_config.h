// model_config.h - config.json of a Hugging Face model, checked.
#ifndef FT_MODEL_CONFIG_H
#define FT_MODEL_CONFIG_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/model/spec/custom_head.h"
#include "engine/model/spec/families.h"
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/rope.h"

#include <jansson.h>
#include <stdint.h>

// DeBERTa's relative positions and its head; zeros for other families, `factor` and the activation aside.
typedef struct ft_relative_config {
    bool c2p, p2c;         // which terms of the scores use the table
    bool talking_heads;    // scores and probabilities of all heads are mixed (kernels/ops/talking_attention.h)
    bool shared, norm;     // projected by the layer's own key and query; LayerNorm on the table
    int factor;            // scores are divided by sqrt(head width * factor)
    ft_relative_rule rule;
    double pooler_dropout;
    ft_activation pooler_activation;
} ft_relative_config;

// The convolution behind encoder layer 0 of deberta-v2-xlarge and -xxlarge; taps 0: none.
typedef struct ft_convolution_config {
    int taps, groups; // taps: conv_kernel_size, odd
    ft_activation activation;
} ft_convolution_config;

// Of one layer whose positions are rotary.
typedef struct ft_layer_sight {
    int32_t window; // tokens that a token sees to each side, or, in a causal model, in front of it; 0: all
    double theta;   // of the angles (kernels/ops/rope.h)
    ft_rope_scaling scaling;
} ft_layer_sight;

// What is read of a picture; all zero where texts are.
typedef struct ft_picture_config {
    int64_t height, width, patch, channels; // pixels; of a side of a patch
    int64_t tokens;                         // rows in front of the patches
    double scale;                           // of a new model: what its layers' scales begin with
} ft_picture_config;

enum { FT_BIAS_BUCKETS = 32 }; // rows of a table of biases by distance that distances have (position_bias.c)
enum { FT_MOST_POSITIONS = 16384 }; // the counter of the dropout generator (kernels/philox.h) bounds them

typedef struct ft_model_config {
    const char *model_type;             // "bert"
    const ft_family *family;
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t layer_groups, inner_layers; // of layers that share weights; 0 groups: every layer has its own
    int64_t key_value_heads, head_width; // of the attention: heads that keys and values have, columns of each
    unsigned positions;                 // set of ft_positions
    int64_t max_position_embeddings;    // tokens that a text may have
    int64_t position_rows;              // of the position table, 0 without one: those, and what RoBERTa's rule leaves in front
    int64_t bias_rows;                  // of the table of FT_POSITIONS_BIAS; 0 without one
    int64_t type_vocab_size;            // 0: no token types
    int64_t embedding_size;             // width of the tables
    ft_relative_config relative;
    ft_convolution_config convolution;
    ft_picture_config picture;
    ft_layer_sight *sights;             // [num_hidden_layers]; NULL: no rotary positions, every layer sees all
    unsigned unbiased;                  // set of ft_layer_linear: linear layers without a bias
    bool unbiased_norms, rms_norms;     // rms: RMSNorm, which has no bias
    bool mean_pooling;                  // the classifier reads the mean of all tokens, else the first
    bool late_pooling;                  // and that is the mean of what the head's first layer makes of them
    bool mean_head;                     // the first of these because the run says so, and without a pooler (ft_model_config_set_mean)
    bool last_pooling;                  // the classifier reads the last token
    bool all_rows;                      // somebody else than a head reads what comes out: the last layer has all rows
    bool token_head;                    // the head of token classification (ft_model_config_set_tokens): no pooling, and a pooler in few families
    bool span_head;                     // and of these the one that says where an answer begins and ends (ft_model_config_set_spans)
    bool language_head;                 // the logits of all words (ft_model_config_set_language)
    bool tied;                          // and its weight is the table of word embeddings (tie_word_embeddings)
    bool pooler_is_drawn;               // the model's files lack it; where nothing is known of them, as the family's are
    int64_t pad_token_id;               // -1: null in the file, no row is padding
    ft_activation hidden_act;
    bool sinusoidal;                    // the position table of a new model is sines and cosines; a file has its own
    double layer_norm_eps, initializer_range;
    double embedding_dropout;           // behind the embeddings
    double hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout; // classifier: null -> hidden, or
                                                                                  // a number of the family
    int64_t num_labels;                 // from num_labels, else from id2label; 2 when both are absent
    const char **label_names;           // [num_labels], "LABEL_i" when absent or when num_labels disagrees with id2label
    bool has_label_names;               // names other than LABEL_i
    const struct ft_weights *files;     // that frozen weights may be read from where they lie (mapped_files.h); NULL: they are copied. Not owned
    bool only_read;                     // and nothing of the model is written to, trained or not: it predicts
    json_t *json;                       // the whole file, kept for writing it back
    json_t *saved_quantisation;         // ft_model_config_set_quantised; NULL: weights are saved as numbers
    ft_arena arena;
} ft_model_config;

// model_dir/config.json. FT_INVALID: missing file, another architecture (the supported ones are named), impossible or
// inconsistent sizes, unknown activation, position_embedding_type other than absolute. *config is {0} on failure.
// Where there is no such directory, a name as in known_models.h gives the numbers built into the program.
ft_status ft_model_config_load(const char *model_dir, ft_model_config *config);
// The same from the text of such a file.
ft_status ft_model_config_parse(const char *text, size_t length, const char *path_for_errors, ft_model_config *config);
// Fills config->relative and config->convolution. Internal to model_config.c.
ft_status ft_relative_config_read(ft_model_config *config, const char *path_for_errors);
// Fills sights, unbiased, unbiased_norms, mean_pooling and the embeddings' dropout. Internal to model_config.c.
ft_status ft_rotary_config_read(ft_model_config *config, const char *path_for_errors);
// The same of a decoder (decoder_config.c). Internal to rotary_config.c.
ft_status ft_decoder_config_read(ft_model_config *config, const char *path_for_errors);
// Fills picture, the rows of positions and what follows from them. Internal to model_config.c.
ft_status ft_picture_config_read(ft_model_config *config, const char *path_for_errors);
// Pictures of another size than config.json's: the table of positions has other rows, which loading interpolates, and what is saved says so.
// FT_INVALID: no whole patches, or too many; a table that is no square's. where: for messages, what asks for it.
ft_status ft_model_config_set_picture(ft_model_config *config, int64_t height, int64_t width, const char *where);
static inline bool ft_model_config_reads_pictures(const ft_model_config *c) { return c->family->patches != NULL; }
// Numbers of the row that the classifier reads.
static inline int64_t ft_model_config_read_width(const ft_model_config *c) { return c->family->first_and_mean ? 2 * c->hidden_size : c->hidden_size; }
// Which weights a layer has: its own number, or, where layers share them, that of its group times inner_layers and its place in there.
int64_t ft_model_config_weights(const ft_model_config *config, int64_t layer);
void ft_model_config_free(ft_model_config *config); // {0} is fine

// Is it the config.json of a token classifier, by its "architectures"?
bool ft_model_config_is_of_tokens(const ft_model_config *config);
// What is built, drawn and saved from here on is a token classifier. Once, behind loading.
void ft_model_config_set_tokens(ft_model_config *config);
// The same of question answering; its outputs are two.
bool ft_model_config_is_of_spans(const ft_model_config *config);
void ft_model_config_set_spans(ft_model_config *config);
enum { FT_SPAN_OUTPUTS = 2 };
// The same of a language model, of a decoder. Its one output is the loss of a row (blocks/language.c).
bool ft_model_config_is_of_language(const ft_model_config *config);
void ft_model_config_set_language(ft_model_config *config);
// The head reads the mean of all rows in place of what the class has it read. FT_INVALID: the model's file says what it reads, or there are no
// texts. where: for messages, what asks for it.
ft_status ft_model_config_set_mean(ft_model_config *config, const char *where);
// The last linear layer of the head, by its name in files.
const char *ft_model_config_classifier(const ft_model_config *config);

// What is saved from here on says that bitsandbytes quantised its linear layers to so many bits, 4 (nf4; twice: scales too) or 8, but for
// `count` modules.
ft_status ft_model_config_set_quantised(ft_model_config *config, int bits, bool twice, int count, const char *const *skipped);

// Writes the config.json of a fine-tuned classifier that transformers opens with the same logits: every key of the input
// file, the labels of this task, the dropouts used in training, and a head with hidden layers (NULL: the standard one).
// problem_type: as transformers has it, "single_label_classification", "multi_label_classification" or "regression"; a token
// classifier has none. Atomic.
ft_status ft_model_config_save(const ft_model_config *base, const char *path, int label_count, const char *const *label_names,
                               double hidden_dropout, double attention_dropout, double classifier_dropout,
                               const ft_custom_head *head, const char *problem_type);
// Bytes of the heap that this takes meanwhile, so far as they grow with the labels.
size_t ft_model_config_save_bytes(int label_count);

#endif
