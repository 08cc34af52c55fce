// options_adapter.c - [adapter]: a few numbers that are trained beside a frozen model.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_adapter_section
#include "engine/config/option_rows.h"

static const ft_option_choice type_choices[] = {{"none", FT_ADAPTER_NONE}, {"lora", FT_ADAPTER_LORA}, {"dora", FT_ADAPTER_DORA}, {NULL, 0}};
static const ft_option_choice bias_choices[] = {
    {"none", FT_ADAPTER_BIAS_NONE}, {"lora_only", FT_ADAPTER_BIAS_ADAPTED}, {"all", FT_ADAPTER_BIAS_ALL}, {NULL, 0}};
static const ft_option_choice mask_choices[] = {{"each", FT_ADAPTER_MASK_EACH}, {"shared", FT_ADAPTER_MASK_SHARED}, {NULL, 0}};
static const ft_option_choice init_choices[] = {
    {"true", FT_ADAPTER_INIT_TRUE}, {"gaussian", FT_ADAPTER_INIT_GAUSSIAN}, {"false", FT_ADAPTER_INIT_FALSE}, {NULL, 0}};

static const ft_option rows[] = {
    CHOICE(adapter.type, FIXED, "none", type_choices, .elsewhere = "peft_type use_lora lora adapter_type",
           .help = "lora: beside linear layers, products of two small matrices (low-rank adaptation) are trained, the model itself is "
                   "frozen. The run leaves adapter/ in the files of Hugging Face PEFT in place of model/. dora: the same with a trained magnitude for every output, which costs a "
                   "second product on the way back. none: no adapter."),
    PATH(adapter.path, RESUMABLE, "", .elsewhere = "adapter_name_or_path lora_path resume_adapter",
         .help = "Directory of an adapter to go on from, of ftengine or PEFT, made with the same options. Empty: a new one."),
    INT(adapter.r, FIXED, "8", 1, 65536, .elsewhere = "lora_r lora_rank rank", .help = "Rank: rows of A and columns of B."),
    FLOAT(adapter.alpha, FIXED, "8", 0, 1e6, .low_open = true, .elsewhere = "lora_alpha",
          .help = "What an adapter adds counts alpha / r times."),
    BOOL(adapter.rslora, FIXED, "false", .elsewhere = "use_rslora", .help = "It counts alpha / sqrt(r) times."),
    FLOAT(adapter.dropout, FIXED, "0", 0, 1, .high_open = true, .elsewhere = "lora_dropout",
          .help = "Dropout of what adapters read (adapter.dropout_mask)."),
    CHOICE(adapter.dropout_mask, FIXED, "each", mask_choices,
           .help = "each: every adapter drops what it reads by a mask of its own, as in PEFT. shared: those that read the same rows (queries, keys and "
                   "values; both halves of a gated layer) by one mask, and their first products are one, which is faster; another draw, of the same distribution for each layer."),
    STRING(adapter.targets, FIXED, "auto", .elsewhere = "target_modules lora_target_modules lora_target lora_targets",
           .help = "Which linear layers have an adapter. all-linear: all but the head's. A list of names, or of the ends of names behind a "
                   "dot: query, output.dense. Else a regular expression (as Python's) for the whole name: "
                   ".*\\.layer\\.1\\..*(query|value). auto: queries and values."),
    STRING(adapter.exclude, FIXED, "", .elsewhere = "exclude_modules", .help = "Which of them have none all the same, in the same form."),
    LIST(adapter.layers, FIXED, "", 0, 1023, .unit = "layers", .elsewhere = "layers_to_transform lora_layers",
         .help = "Numbers of the layers that have adapters, from 0. Empty: all."),
    CHOICE(adapter.bias, FIXED, "none", bias_choices, .elsewhere = "lora_bias_type bias_train",
           .help = "Biases of the model that are trained too: none, those of layers with an adapter, or all."),
    STRING(adapter.modules_to_save, FIXED, "", .elsewhere = "modules_to_save lora_modules_to_save",
           .help = "Parts of the model that are trained in full and saved beside the adapters, by names or the ends of names: pooler, "
                   "LayerNorm. The classifier is one in any case, and so is a pooler that the model's file lacks."),
    CHOICE(adapter.init, FIXED, "true", init_choices, .elsewhere = "init_lora_weights",
           .help = "First values. true: A uniform within 1 / sqrt(inputs), B 0. gaussian: A normal with deviation 1 / r, B 0. false: B "
                   "is drawn too, so that training does not begin with the model as it is."),
    STRING(adapter.rank_pattern, FIXED, "", .help = "Other ranks for some layers: NAME=RANK, ..., where NAME is a regular expression for a "
                                                    "name or for its end behind a dot. The first that fits counts."),
    STRING(adapter.alpha_pattern, FIXED, "", .help = "Other alphas, in the same form."),
};
const ft_section ft_adapter_section = {
    .name = "adapter", .help = "Adapters: a few numbers that are trained beside a frozen model.", .rows = rows, .count = ROWS};
