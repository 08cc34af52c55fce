#include "engine/model/spec/families.h"

#include <string.h>

#define BERT_KEYS                                                                                                      \
    {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads",                           \
     .intermediate = "intermediate_size", .activation = "hidden_act", .hidden_dropout = "hidden_dropout_prob",         \
     .attention_dropout = "attention_probs_dropout_prob", .classifier_dropout = "classifier_dropout",                  \
     .epsilon = "layer_norm_eps"}

#define BERT_LAYER                                                                                                     \
    {.query = "attention.self.query", .key = "attention.self.key", .value = "attention.self.value",                    \
     .output = "attention.output.dense", .norm[0] = "attention.output.LayerNorm", .up = "intermediate.dense",          \
     .down = "output.dense", .norm[1] = "output.LayerNorm"}

#define BERT_EMBEDDINGS                                                                                                \
    {.word = "embeddings.word_embeddings", .position = "embeddings.position_embeddings",                               \
     .type = "embeddings.token_type_embeddings", .norm = "embeddings.LayerNorm"}

#define ENCODER_BLOCKS {FT_BLOCK_ATTENTION, FT_BLOCK_FEED_FORWARD}

// The defaults are those of the configuration classes of transformers 5.23.
#define BERT_SIZES .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072, .types = 2, .epsilon = 1e-12

#define ROBERTA(type, class, tokens)                                                                                   \
    {                                                                                                                  \
        .model_type = type, .classifier_class = class, .prefix = "roberta.", .keys = BERT_KEYS,                        \
        .defaults = {.vocabulary = tokens, .padding = 1, .classifier_dropout = -1, BERT_SIZES}, .token_types = true,   \
        .positions = FT_POSITIONS_TABLE, .position_rule = FT_POSITIONS_BEHIND_PADDING, .embeddings = BERT_EMBEDDINGS,  \
        .layer = "encoder.layer", .blocks = ENCODER_BLOCKS, .names = BERT_LAYER, .attention_output_dropout = true,     \
        .pooler = "classifier.dense",                                                                                  \
        .classifier = "classifier.out_proj", .pooler_activation = FT_ACT_TANH, .dropout_before_pooler = true           \
    }

#define DEBERTA_KEYS                                                                                                   \
    {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads",                           \
     .intermediate = "intermediate_size", .activation = "hidden_act", .hidden_dropout = "hidden_dropout_prob",         \
     .attention_dropout = "attention_probs_dropout_prob", .classifier_dropout = "cls_dropout",                         \
     .epsilon = "layer_norm_eps", .embedding = "embedding_size"}

#define DEBERTA_NUMBERS .epsilon = 1e-7, .classifier_dropout = -1

#define DEBERTA_LAYER                                                                                                  \
    .output = "attention.output.dense", .norm[0] = "attention.output.LayerNorm", .up = "intermediate.dense",           \
    .down = "output.dense", .norm[1] = "output.LayerNorm"

#define DEBERTA_KINDS                                                                                                  \
    .token_types = true, .types_optional = true, .positions = FT_POSITIONS_TABLE, .widening = FT_WIDEN_BEFORE_NORM,    \
    .widening_name = "embeddings.embed_proj", .embeddings = BERT_EMBEDDINGS, .layer = "encoder.layer",                 \
    .blocks = ENCODER_BLOCKS,                                                                                          \
    .attention_output_dropout = true, .pooler = "pooler.dense", .classifier = "classifier"

static const ft_family families[] = {
    {.model_type = "bert",
     .classifier_class = "BertForSequenceClassification",
     .prefix = "bert.",
     .keys = BERT_KEYS,
     .defaults = {.vocabulary = 30522, .padding = 0, .classifier_dropout = -1, BERT_SIZES},
     .token_types = true,
     .positions = FT_POSITIONS_TABLE,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.layer",
     .blocks = ENCODER_BLOCKS,
     .names = BERT_LAYER,
     .attention_output_dropout = true,
     .pooler = "bert.pooler.dense",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_TANH},
    ROBERTA("roberta", "RobertaForSequenceClassification", 50265),
    ROBERTA("xlm-roberta", "XLMRobertaForSequenceClassification", 30522),
    {.model_type = "distilbert",
     .classifier_class = "DistilBertForSequenceClassification",
     .prefix = "distilbert.",
     .keys = {.hidden = "dim",
              .layers = "n_layers",
              .heads = "n_heads",
              .intermediate = "hidden_dim",
              .activation = "activation",
              .hidden_dropout = "dropout",
              .attention_dropout = "attention_dropout",
              .classifier_dropout = "seq_classif_dropout"},
     .defaults = {.vocabulary = 30522,
                  .hidden = 768,
                  .layers = 6,
                  .heads = 12,
                  .intermediate = 3072,
                  .epsilon = 1e-12,
                  .classifier_dropout = 0.2},
     .positions = FT_POSITIONS_TABLE,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "transformer.layer",
     .blocks = ENCODER_BLOCKS,
     .names = {.query = "attention.q_lin",
               .key = "attention.k_lin",
               .value = "attention.v_lin",
               .output = "attention.out_lin",
               .norm[0] = "sa_layer_norm",
               .up = "ffn.lin1",
               .down = "ffn.lin2",
               .norm[1] = "output_layer_norm"},
     .pooler = "pre_classifier",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_RELU},
    {.model_type = "electra",
     .classifier_class = "ElectraForSequenceClassification",
     .prefix = "electra.",
     .keys = {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .intermediate = "intermediate_size",
              .activation = "hidden_act",
              .hidden_dropout = "hidden_dropout_prob",
              .attention_dropout = "attention_probs_dropout_prob",
              .classifier_dropout = "classifier_dropout",
              .epsilon = "layer_norm_eps",
              .embedding = "embedding_size"},
     .defaults = {.vocabulary = 30522,
                  .hidden = 256,
                  .layers = 12,
                  .heads = 4,
                  .intermediate = 1024,
                  .types = 2,
                  .embedding = 128,
                  .epsilon = 1e-12,
                  .classifier_dropout = -1},
     .token_types = true,
     .widening = FT_WIDEN_AFTER_NORM,
     .widening_name = "embeddings_project",
     .positions = FT_POSITIONS_TABLE,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.layer",
     .blocks = ENCODER_BLOCKS,
     .names = BERT_LAYER,
     .attention_output_dropout = true,
     .pooler = "classifier.dense",
     .classifier = "classifier.out_proj",
     .pooler_activation = FT_ACT_GELU,
     .dropout_before_pooler = true},
    {.model_type = "deberta",
     .classifier_class = "DebertaForSequenceClassification",
     .prefix = "deberta.",
     .keys = DEBERTA_KEYS,
     .defaults = {.vocabulary = 50265, .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072, DEBERTA_NUMBERS},
     DEBERTA_KINDS,
     .relative = FT_RELATIVE_DISTANCES,
     .names = {.qkv = "attention.self.in_proj",
               .query = "attention.self.q_bias",
               .value = "attention.self.v_bias",
               .pos_key = "attention.self.pos_proj",
               .pos_query = "attention.self.pos_q_proj",
               .unbiased = FT_LINEAR_POS_KEY,
               DEBERTA_LAYER}},
    {.model_type = "deberta-v2",
     .classifier_class = "DebertaV2ForSequenceClassification",
     .prefix = "deberta.",
     .keys = DEBERTA_KEYS,
     .defaults = {.vocabulary = 128100, .hidden = 1536, .layers = 24, .heads = 24, .intermediate = 6144, DEBERTA_NUMBERS},
     DEBERTA_KINDS,
     .relative = FT_RELATIVE_BUCKETS,
     .names = {.query = "attention.self.query_proj",
               .key = "attention.self.key_proj",
               .value = "attention.self.value_proj",
               .pos_key = "attention.self.pos_key_proj",
               .pos_query = "attention.self.pos_query_proj",
               DEBERTA_LAYER}},
    {.model_type = "modernbert",
     .classifier_class = "ModernBertForSequenceClassification",
     .prefix = "model.",
     .keys = {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .intermediate = "intermediate_size",
              .activation = "hidden_activation",
              .hidden_dropout = "mlp_dropout",
              .attention_dropout = "attention_dropout",
              .classifier_dropout = "classifier_dropout",
              .epsilon = "norm_eps"},
     .defaults = {.vocabulary = 50368,
                  .padding = 50283,
                  .hidden = 768,
                  .layers = 22,
                  .heads = 12,
                  .intermediate = 1152,
                  .positions = 8192,
                  .epsilon = 1e-5,
                  .undropped = true},
     .positions = FT_POSITIONS_ROTARY,
     .embeddings = {.word = "embeddings.tok_embeddings", .norm = "embeddings.norm"},
     .layer = "layers",
     .blocks = {FT_BLOCK_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD},
     .norms_in_front = true,
     .names = {.qkv = "attn.Wqkv",
               .output = "attn.Wo",
               .norm[0] = "mlp_norm",
               .up = "mlp.Wi",
               .down = "mlp.Wo",
               .norm[1] = "attn_norm",
               .last_norm = "final_norm"},
     .attention_dropout_behind = true,
     .pooler = "head.dense",
     .head_norm = "head.norm",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_GELU,
     .draws_by_width = true},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

int ft_family_count(void) { return FAMILIES; }
const ft_family *ft_family_at(int index) { return &families[index]; }

const ft_family *ft_family_find(const char *model_type) {
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(model_type, families[i].model_type) == 0) return &families[i];
    return NULL;
}
