// options_model.c - [model]: what is trained.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_model_section
#include "engine/config/option_rows.h"

static const ft_option_choice init_choices[] = {{"pretrained", FT_INIT_PRETRAINED}, {"random", FT_INIT_RANDOM}, {NULL, 0}};
static const ft_option_choice rules_choices[] = {
    {"files", FT_TOKENIZE_AS_FILES}, {"transformers", FT_TOKENIZE_AS_TRANSFORMERS}, {NULL, 0}};
static const ft_option_choice freeze_choices[] = {
    {"none", FT_FREEZE_NONE}, {"embeddings", FT_FREEZE_EMBEDDINGS}, {"encoder", FT_FREEZE_ENCODER}, {NULL, 0}};
static const ft_option_choice storage_choices[] = {{"precision", FT_KEEP_AS_READ},   {"fp32", FT_KEEP_FP32}, {"bf16", FT_KEEP_BF16},
                                                   {"fp16", FT_KEEP_FP16},           {"int8", FT_KEEP_INT8}, {"nf4", FT_KEEP_NF4},
                                                   {"nf4_double", FT_KEEP_NF4_DOUBLE}, {"auto", FT_KEEP_AUTO}, {NULL, 0}};
const char *ft_keep_name(ft_keep keep) {
    for (const ft_option_choice *c = storage_choices; c->name != NULL; c++)
        if (c->value == (int)keep) return c->name;
    return "?";
}
// Checked against ft_activation_from_name by the tests.
static const ft_option_choice activation_choices[] = {{"relu", 0},     {"tanh", 0},   {"gelu", 0},
                                                      {"gelu_new", 0}, {"silu", 0},   {"quick_gelu", 0},
                                                      {"mish", 0},     {"linear", 0}, {NULL, 0}};

static const ft_option_choice head_pooling_choices[] = {{"auto", FT_HEAD_AUTO}, {"mean", FT_HEAD_MEAN}, {NULL, 0}};
static const ft_option rows[] = {
    PATH(model.path, RESUMABLE, "", .hub_name = true,
         .elsewhere = "model_name_or_path pretrained_model_name_or_path model_name model.name model_path model_dir model",
         .help = "Directory of a Hugging Face model: config.json, model.safetensors or pytorch_model.bin, and vocab.txt or "
                 "tokenizer.json. Or the name of one that `ftengine pull NAME` has fetched, as "
                 "microsoft/deberta-v3-base or bert-base-uncased@main."),
    CHOICE(model.init, FIXED, "pretrained", init_choices, .elsewhere = "from_scratch",
           .help = "Start from the weights in the directory, or from random ones of the same shape."),
    PATH(model.stand_in_tokenizer, FIXED, "",
         .help = "With model.init = random, where nothing is at model.path but the name is a well-known model's: its "
                 "built-in numbers make the model, and the tokenizer of this directory stands in for its own. For trying "
                 "memory and speed without a download; the accuracy means nothing."),
    CHOICE(model.tokenizer_rules, FIXED, "files", rules_choices,
           .help = "Whose rules hold where transformers 5 does not tokenise as the files of a RoBERTa, XLM-R or DeBERTa "
                   "say. files: theirs, which is closest to how the models were trained. transformers: those of its "
                   "classes, for the same tokens as a program in Python sees. A saved model remembers it."),
    BOOL(model.ignore_mismatched_sizes, FIXED, "false",
         .help = "Draw a new head where the checkpoint's has another shape, instead of refusing it."),
    FLOAT(model.hidden_dropout, FIXED, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "hidden_dropout_prob dropout",
          .help = "Dropout behind the embeddings and behind both halves of a layer. auto: as config.json has it."),
    FLOAT(model.attention_dropout, FIXED, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "attention_probs_dropout_prob attn_dropout",
          .help = "Dropout of the attention weights. auto: as config.json has it."),
    FLOAT(model.classifier_dropout, FIXED, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "cls_dropout seq_classif_dropout",
          .help =
              "Dropout of the pooled output, before the head. auto: as config.json has it, else its hidden dropout."),
    CHOICE(model.freeze, FIXED, "none", freeze_choices, .elsewhere = "freeze_encoder freeze_embeddings freeze_backbone",
           .help = "Weights that keep the values they started with: none, the embeddings, or the embeddings and all "
                   "layers (encoder; the pooler and the head are still trained)."),
    CHOICE(model.storage, FIXED, "precision", storage_choices, .elsewhere = "load_in_4bit load_in_8bit quantization bnb_4bit_quant_type",
           .help = "How the frozen weights of linear layers are kept in memory; products run in train.precision. precision: as "
                   "they are read. fp32, bf16, fp16: in that type. int8: 8 bits and a scale a row. nf4: 4 bits and a scale for 64 "
                   "numbers; nf4_double: scales of 8 bits; both as bitsandbytes stores them, and from a file that has them so byte by byte. Fewer bits change results. auto: the most exact form with which the run "
                   "fits into memory, whatever else is left at auto."),
    INT(model.freeze_layers, FIXED, "0", 0, 1024, .unit = "layers", .elsewhere = "num_frozen_layers freeze_first_layers",
        .help = "Freezes the embeddings and so many layers, counted from the first. 0: none."),
    CHOICE(model.head.pooling, FIXED, "auto", head_pooling_choices, .elsewhere = "pooling pooling_mode pooler_type",
           .help = "What the head reads of a text. auto: what the model's class reads, most often what its pooler makes of the first row. mean: the "
                   "mean of all rows, without a pooler, as sentence-transformers models mean it; transformers opens such a head with trust_remote_code."),
    LIST(model.head.hidden, FIXED, "", 1, 65536, .unit = "units",
         .elsewhere = "head_hidden hidden_dims head_hidden_sizes mlp_layers",
         .help = "Widths of hidden layers between the pooled output and the classifier, first to last. Empty: the "
                 "standard head. transformers opens others with trust_remote_code."),
    NAME(model.head.activation, FIXED, "relu", activation_choices,
         .elsewhere = "head_activation activation", .help = "Activation behind each hidden layer of the head."),
    FLOAT(model.head.dropout, FIXED, "auto", 0, 1, .high_open = true, .automatic = true, .elsewhere = "head_dropout",
          .help = "Dropout behind each hidden layer of the head. auto: model.classifier_dropout."),
};
const ft_section ft_model_section = {.name = "model", .help = "What is trained.", .rows = rows, .count = ROWS};
