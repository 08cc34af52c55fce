#include "engine/model/spec/families.h"

#include "base/nearest.h"

#include <string.h>

#define BERT_KEYS BERT_KEYS_BUT(.embedding = NULL)
#define BERT_KEYS_BUT(...)                                                                                             \
    {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads",                           \
     .intermediate = "intermediate_size", .activation = "hidden_act", .hidden_dropout = "hidden_dropout_prob",         \
     .attention_dropout = "attention_probs_dropout_prob", .classifier_dropout = "classifier_dropout",                  \
     .epsilon = "layer_norm_eps",                                                                                      \
     __VA_ARGS__}

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

#define BERT(type, class, base, ...)                                                                                   \
    {                                                                                                                  \
        .model_type = type, .classifier_class = class, .prefix = base ".", .keys = BERT_KEYS,                          \
        .defaults = {.vocabulary = 30522, .padding = 0, .classifier_dropout = -1, BERT_SIZES}, .token_types = true,    \
        .positions = FT_POSITIONS_TABLE, .embeddings = BERT_EMBEDDINGS, .layer = "encoder.layer",                      \
        .blocks = ENCODER_BLOCKS, .names = BERT_LAYER, .attention_output_dropout = true,                               \
        .pooler = base ".pooler.dense", .classifier = "classifier", .pooler_activation = FT_ACT_TANH,                  \
        __VA_ARGS__                                                                                                    \
    }

#define ROBERTA(type, class, base, tokens)                                                                             \
    {                                                                                                                  \
        .model_type = type, .classifier_class = class, .prefix = base ".", .keys = BERT_KEYS,                          \
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
    .attention_output_dropout = true, .pooler = "pooler.dense", .classifier = "classifier", .token_hidden_dropout = true

#define DECODER(type, name, ...)                                                                                       \
    {                                                                                                                  \
        .model_type = type, .classifier_class = name "ForSequenceClassification", .prefix = "model.",                  \
        .keys = {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads",               \
                 .intermediate = "intermediate_size", .activation = "hidden_act", .attention_dropout = "attention_dropout", \
                 .epsilon = "rms_norm_eps", .key_heads = "num_key_value_heads", .head_width = "head_dim"},             \
        .positions = FT_POSITIONS_ROTARY, .rotary = FT_ROTARY_DECODER, .theta = 10000, .causal = true,                 \
        .embeddings = {.word = "embed_tokens", .norm = "layers.0.input_layernorm"}, .layer = "layers",                 \
        .norms_in_front = true, .first_norm_in_front = true, .rms_norms = true, .feed_forward_drops = FT_DROPS_NOTHING,                        \
        .classifier = "score", .unbiased_classifier = true, __VA_ARGS__                                                \
    }

#define DECODER_DEFAULTS                                                                                               \
    .hidden = 4096, .layers = 32, .heads = 32, .padding = -1, .activation = "silu", .undropped = true, .epsilon = 1e-6

#define DECODER_BLOCKS {FT_BLOCK_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD}

#define DECODER_LAYER                                                                                                  \
    .query = "self_attn.q_proj", .key = "self_attn.k_proj", .value = "self_attn.v_proj", .output = "self_attn.o_proj", \
    .norm[0] = "post_attention_layernorm", .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj",      \
    .norm[1] = "input_layernorm", .last_norm = "norm"

// The words of nomic-ai's own code, which the published files are written in.
static const ft_key_alias nomic_aliases[] = {{"n_embd", "hidden_size"},
                                             {"n_layer", "num_hidden_layers"},
                                             {"n_head", "num_attention_heads"},
                                             {"n_inner", "intermediate_size"},
                                             {"n_positions", "max_position_embeddings"},
                                             {"layer_norm_epsilon", "layer_norm_eps"},
                                             {"attn_pdrop", "attention_probs_dropout_prob"},
                                             {"resid_pdrop", "hidden_dropout_prob"},
                                             {"rotary_emb_base", "rope_theta"},
                                             {NULL, NULL}};

static const ft_family families[] = {
    BERT("bert", "BertForSequenceClassification", "bert"),
    BERT("ernie", "ErnieForSequenceClassification", "ernie", .keys.off = {"use_task_id"}),
    ROBERTA("roberta", "RobertaForSequenceClassification", "roberta", 50265),
    ROBERTA("xlm-roberta", "XLMRobertaForSequenceClassification", "roberta", 30522),
    ROBERTA("camembert", "CamembertForSequenceClassification", "roberta", 30522),
    ROBERTA("data2vec-text", "Data2VecTextForSequenceClassification", "data2vec_text", 30522),
    {.model_type = "mpnet",
     .classifier_class = "MPNetForSequenceClassification",
     .prefix = "mpnet.",
     .keys = BERT_KEYS,
     .defaults = {.vocabulary = 30527, .padding = 1, .classifier_dropout = -1, BERT_SIZES},
     .positions = FT_POSITIONS_TABLE | FT_POSITIONS_BIAS,
     .position_rule = FT_POSITIONS_BEHIND_PADDING,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.layer",
     .blocks = ENCODER_BLOCKS,
     .names = {.query = "attention.attn.q",
               .key = "attention.attn.k",
               .value = "attention.attn.v",
               .output = "attention.attn.o",
               .norm[0] = "attention.LayerNorm",
               .up = "intermediate.dense",
               .down = "output.dense",
               .norm[1] = "output.LayerNorm"},
     .attention_output_dropout = true,
     .pooler = "classifier.dense",
     .classifier = "classifier.out_proj",
     .pooler_activation = FT_ACT_TANH,
     .dropout_before_pooler = true,
     .token_hidden_dropout = true},
    {.model_type = "rembert",
     .classifier_class = "RemBertForSequenceClassification",
     .prefix = "rembert.",
     .keys = {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .intermediate = "intermediate_size",
              .activation = "hidden_act",
              .hidden_dropout = "hidden_dropout_prob",
              .attention_dropout = "attention_probs_dropout_prob",
              .classifier_dropout = "classifier_dropout_prob",
              .epsilon = "layer_norm_eps",
              .embedding = "input_embedding_size"},
     .defaults = {.vocabulary = 250300,
                  .hidden = 1152,
                  .layers = 32,
                  .heads = 18,
                  .intermediate = 4608,
                  .types = 2,
                  .embedding = 256,
                  .undropped = true,
                  .epsilon = 1e-12,
                  .classifier_dropout = 0.1},
     .token_types = true,
     .widening = FT_WIDEN_AFTER_NORM,
     .widens_always = true,
     .widening_name = "encoder.embedding_hidden_mapping_in",
     .positions = FT_POSITIONS_TABLE,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.layer",
     .blocks = ENCODER_BLOCKS,
     .names = BERT_LAYER,
     .attention_output_dropout = true,
     .pooler = "rembert.pooler.dense",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_TANH},
    {.model_type = "xlm-roberta-xl",
     .classifier_class = "XLMRobertaXLForSequenceClassification",
     .prefix = "roberta.",
     .keys = BERT_KEYS,
     .defaults = {.vocabulary = 250880,
                  .hidden = 2560,
                  .layers = 36,
                  .heads = 32,
                  .intermediate = 10240,
                  .types = 1,
                  .padding = 1,
                  .positions = 514,
                  .classifier_dropout = -1,
                  .epsilon = 1e-5},
     .token_types = true,
     .positions = FT_POSITIONS_TABLE,
     .position_rule = FT_POSITIONS_BEHIND_PADDING,
     .embeddings = {.word = "embeddings.word_embeddings",
                    .position = "embeddings.position_embeddings",
                    .type = "embeddings.token_type_embeddings",
                    .norm = "encoder.layer.0.attention.self_attn_layer_norm"},
     .layer = "encoder.layer",
     .blocks = ENCODER_BLOCKS,
     .names = {.query = "attention.self.query",
               .key = "attention.self.key",
               .value = "attention.self.value",
               .output = "attention.output.dense",
               .norm[0] = "LayerNorm",
               .up = "intermediate.dense",
               .down = "output.dense",
               .norm[1] = "attention.self_attn_layer_norm",
               .last_norm = "encoder.LayerNorm"},
     .norms_in_front = true,
     .first_norm_in_front = true,
     .attention_output_dropout = true,
     .feed_forward_drops = FT_DROPS_NOTHING,
     .pooler = "classifier.dense",
     .classifier = "classifier.out_proj",
     .pooler_activation = FT_ACT_TANH,
     .dropout_before_pooler = true},
    {.model_type = "eurobert",
     .classifier_class = "EuroBertForSequenceClassification",
     .prefix = "model.",
     .keys = {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .intermediate = "intermediate_size",
              .activation = "hidden_act",
              .hidden_dropout = "hidden_dropout",
              .attention_dropout = "attention_dropout",
              .classifier_dropout = "classifier_dropout",
              .epsilon = "rms_norm_eps",
              .key_heads = "num_key_value_heads",
              .head_width = "head_dim"},
     .defaults = {.vocabulary = 128256,
                  .hidden = 768,
                  .layers = 12,
                  .heads = 12,
                  .intermediate = 3072,
                  .padding = 128001,
                  .positions = 8192,
                  .activation = "silu",
                  .undropped = true,
                  .epsilon = 1e-5},
     .positions = FT_POSITIONS_ROTARY,
     .rotary = FT_ROTARY_BIASES,
     .theta = 10000,
     .embeddings = {.word = "embed_tokens", .norm = "layers.0.input_layernorm"},
     .layer = "layers",
     .blocks = {FT_BLOCK_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD},
     .names = {.query = "self_attn.q_proj",
               .key = "self_attn.k_proj",
               .value = "self_attn.v_proj",
               .output = "self_attn.o_proj",
               .norm[0] = "post_attention_layernorm",
               .gate = "mlp.gate_proj",
               .up = "mlp.up_proj",
               .down = "mlp.down_proj",
               .norm[1] = "input_layernorm",
               .last_norm = "norm"},
     .norms_in_front = true,
     .first_norm_in_front = true,
     .rms_norms = true,
     .feed_forward_drops = FT_DROPS_NOTHING,
     .pooler = "dense",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_GELU},
    DECODER("qwen2", "Qwen2", .windows = true, .blocks = DECODER_BLOCKS,
            .defaults = {DECODER_DEFAULTS, .vocabulary = 151936, .intermediate = 22016, .key_heads = 32, .positions = 32768},
            .names = {DECODER_LAYER, .unbiased = FT_LINEAR_OUTPUT | FT_LINEAR_UP | FT_LINEAR_DOWN}),
    DECODER("qwen3", "Qwen3", .windows = true,
            .defaults = {DECODER_DEFAULTS, .vocabulary = 151936, .intermediate = 22016, .key_heads = 32, .head_width = 128, .positions = 32768},
            .blocks = {FT_BLOCK_NORMED_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD},
            .names = {DECODER_LAYER, .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm"}),
    DECODER("llama", "Llama", .blocks = DECODER_BLOCKS,
            .defaults = {DECODER_DEFAULTS, .vocabulary = 32000, .intermediate = 11008, .positions = 2048},
            .names = {DECODER_LAYER}),
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
     .token_hidden_dropout = true,
     .span_dropout = "qa_dropout",
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
    {.model_type = "albert",
     .classifier_class = "AlbertForSequenceClassification",
     .prefix = "albert.",
     .keys = {.hidden = "hidden_size",
              .layers = "num_hidden_layers",
              .heads = "num_attention_heads",
              .intermediate = "intermediate_size",
              .activation = "hidden_act",
              .hidden_dropout = "hidden_dropout_prob",
              .attention_dropout = "attention_probs_dropout_prob",
              .classifier_dropout = "classifier_dropout_prob",
              .epsilon = "layer_norm_eps",
              .embedding = "embedding_size",
              .groups = "num_hidden_groups",
              .inner = "inner_group_num"},
     .defaults = {.vocabulary = 30000,
                  .hidden = 4096,
                  .layers = 12,
                  .heads = 64,
                  .intermediate = 16384,
                  .types = 2,
                  .embedding = 128,
                  .undropped = true,
                  .activation = "gelu_new",
                  .epsilon = 1e-12,
                  .classifier_dropout = 0.1},
     .token_types = true,
     .widening = FT_WIDEN_AFTER_NORM,
     .widens_always = true,
     .widening_name = "encoder.embedding_hidden_mapping_in",
     .positions = FT_POSITIONS_TABLE,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.albert_layer_groups",
     .inner_layer = "albert_layers",
     .blocks = ENCODER_BLOCKS,
     .names = {.query = "attention.query",
               .key = "attention.key",
               .value = "attention.value",
               .output = "attention.dense",
               .norm[0] = "attention.LayerNorm",
               .up = "ffn",
               .down = "ffn_output",
               .norm[1] = "full_layer_layer_norm"},
     .attention_output_dropout = true,
     .feed_forward_drops = FT_DROPS_NOTHING,
     .pooler = "albert.pooler",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_TANH},
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
               .mix_scores = "attention.self.head_logits_proj",
               .mix_weights = "attention.self.head_weights_proj",
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
     .feed_forward_drops = FT_DROPS_GATED,
     .pooler = "head.dense",
     .head_norm = "head.norm",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_GELU,
     .draws_by_width = true,
     .token_pooler = true},
    {.model_type = "nomic_bert",
     .classifier_class = "NomicBertForSequenceClassification",
     .prefix = "nomic_bert.",
     .aliases = nomic_aliases,
     .keys = BERT_KEYS_BUT(.off = {"prenorm", "rotary_emb_interleaved", "qkv_proj_bias", "moe_every_n_layers"}),
     .defaults = {.vocabulary = 30528,
                  .hidden = 768,
                  .layers = 12,
                  .heads = 12,
                  .intermediate = 3072,
                  .types = 2,
                  .positions = 2048,
                  .activation = "silu",
                  .undropped = true,
                  .classifier_dropout = -1,
                  .epsilon = 1e-12},
     .token_types = true,
     .positions = FT_POSITIONS_ROTARY,
     .rotary = FT_ROTARY_ONE,
     .theta = 1000,
     .embeddings = {.word = "embeddings.word_embeddings", .type = "embeddings.token_type_embeddings", .norm = "emb_ln"},
     .layer = "encoder.layers",
     .blocks = {FT_BLOCK_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD},
     .names = {.qkv = "attn.Wqkv",
               .output = "attn.out_proj",
               .norm[0] = "norm1",
               .gate = "mlp.fc12",
               .up = "mlp.fc11",
               .down = "mlp.fc2",
               .norm[1] = "norm2",
               .unbiased = FT_LINEAR_QKV | FT_LINEAR_OUTPUT | FT_LINEAR_UP | FT_LINEAR_DOWN},
     .attention_output_dropout = true,
     .other_modules = true,
     .pooler = "nomic_bert.pooler.dense",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_TANH},
    {.model_type = "gte",
     .classifier_class = "GteForSequenceClassification",
     .prefix = "gte.",
     .old_prefix = "new.",
     .keys = BERT_KEYS_BUT(.off = {"logn_attention_scale"}),
     .defaults = {.vocabulary = 250048,
                  .hidden = 768,
                  .layers = 12,
                  .heads = 12,
                  .intermediate = 3072,
                  .types = 1,
                  .padding = 1,
                  .positions = 8192,
                  .attention_undropped = true,
                  .classifier_dropout = -1,
                  .epsilon = 1e-12},
     .token_types = true,
     .types_optional = true,
     .positions = FT_POSITIONS_ROTARY,
     .rotary = FT_ROTARY_ONE,
     .theta = 160000,
     .embeddings = BERT_EMBEDDINGS,
     .layer = "encoder.layer",
     .blocks = {FT_BLOCK_ATTENTION, FT_BLOCK_GATED_FEED_FORWARD},
     .names = {.qkv = "attention.qkv_proj",
               .output = "attention.o_proj",
               .norm[0] = "attn_ln",
               .up = "mlp.up_gate_proj",
               .gate_below = true,
               .down = "mlp.down_proj",
               .norm[1] = "mlp_ln",
               .unbiased = FT_LINEAR_UP},
     .attention_output_dropout = true,
     .feed_forward_drops = FT_DROPS_BOTH,
     .other_modules = true,
     .pooler = "gte.pooler.dense",
     .classifier = "classifier",
     .pooler_activation = FT_ACT_TANH},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

int ft_family_count(void) { return FAMILIES + FT_PICTURE_FAMILIES; }
const ft_family *ft_family_at(int index) { return index < FAMILIES ? &families[index] : &ft_picture_families[index - FAMILIES]; }

const ft_family *ft_family_find(const char *model_type) {
    for (int i = 0; i < ft_family_count(); i++)
        if (strcmp(model_type, ft_family_at(i)->model_type) == 0) return ft_family_at(i);
    return NULL;
}

// Architectures that are met, and the one here that is most like them: what is asked of them, or the same models under another name.
static const struct {
    const char *type, *nearest;
} instead[] = {
    {"big_bird", "modernbert"},     {"bigbird", "modernbert"},   {"convbert", "bert"},           {"flaubert", "camembert"},
    {"funnel", "electra"},          {"ibert", "roberta"},           {"jina_embeddings_v3", "xlm-roberta"},
    {"longformer", "modernbert"},   {"luke", "roberta"},         {"megatron-bert", "bert"},      {"mobilebert", "distilbert"},
    {"neobert", "modernbert"},      {"new", "gte"},       {"nystromformer", "modernbert"}, {"roberta-prelayernorm", "roberta"},
    {"roformer", "modernbert"},     {"squeezebert", "bert"},     {"xlm", "xlm-roberta"},         {"xlnet", "deberta-v2"},
    {"xmod", "xlm-roberta"},         {"mistral", "llama"},          {"gemma", "llama"},             {"qwen2_moe", "qwen2"},        {"qwen3_moe", "qwen3"},
    {"xmod", "xlm-roberta"},        {"beit", "vit"},                {"dinov2_with_registers", "dinov2"}, {"vit_mae", "vit"},      {"vit_msn", "vit"},
};

const char *ft_family_nearest(const char *model_type) {
    const char *names[FAMILIES + FT_PICTURE_FAMILIES];
    for (size_t i = 0; i < sizeof instead / sizeof instead[0]; i++)
        if (strcmp(model_type, instead[i].type) == 0) return instead[i].nearest;
    for (int i = 0; i < ft_family_count(); i++) names[i] = ft_family_at(i)->model_type;
    return ft_nearest(model_type, ft_family_count(), names);
}
