// options.c - THE option table. A row is all there is to know about an option: the file syntax, the command line, help,
// bounds, defaults and the reference file come from it. Defaults are those of the Hugging Face Trainer where it has
// one.
#include "engine/config/options.h"

#include <math.h>
#include <string.h>

// The offset of a field, which does not compile when the field is not of the type that the row writes there.
#define AT(type, field) (offsetof(ft_config, field) + 0 * sizeof(_Generic(((ft_config *)0)->field, type : (char)0)))
#define AT_ENUM(field)                                                                                                 \
    (offsetof(ft_config, field) + 0 * sizeof(char[sizeof(((ft_config *)0)->field) == sizeof(int) ? 1 : -1]))

#define INT(field, default_, least_, most_, ...)                                                                       \
    {                                                                                                                  \
        .name = #field, .type = FT_OPTION_INT, .offset = AT(int64_t, field), .initial = default_, .least = least_,     \
        .most = most_, __VA_ARGS__                                                                                     \
    }
#define FLOAT(field, default_, low_, high_, ...)                                                                       \
    {                                                                                                                  \
        .name = #field, .type = FT_OPTION_FLOAT, .offset = AT(double, field), .initial = default_, .low = low_,        \
        .high = high_, __VA_ARGS__                                                                                     \
    }
#define BOOL(field, default_, ...)                                                                                     \
    { .name = #field, .type = FT_OPTION_BOOL, .offset = AT(bool, field), .initial = default_, __VA_ARGS__ }
#define CHOICE(field, default_, choices_, ...)                                                                         \
    {                                                                                                                  \
        .name = #field, .type = FT_OPTION_CHOICE, .offset = AT_ENUM(field), .initial = default_, .choices = choices_,  \
        __VA_ARGS__                                                                                                    \
    }
#define TEXT(kind, field, default_, ...)                                                                               \
    { .name = #field, .type = kind, .offset = AT(const char *, field), .initial = default_, __VA_ARGS__ }
#define ANY INT64_MAX

static const ft_option_choice init_choices[] = {{"pretrained", FT_INIT_PRETRAINED}, {"random", FT_INIT_RANDOM}, {NULL, 0}};
static const ft_option_choice rules_choices[] = {
    {"files", FT_TOKENIZE_AS_FILES}, {"transformers", FT_TOKENIZE_AS_TRANSFORMERS}, {NULL, 0}};
static const ft_option_choice freeze_choices[] = {
    {"none", FT_FREEZE_NONE}, {"embeddings", FT_FREEZE_EMBEDDINGS}, {"encoder", FT_FREEZE_ENCODER}, {NULL, 0}};
// Checked against ft_activation_from_name by the tests.
static const ft_option_choice activation_choices[] = {{"relu", 0},     {"tanh", 0},   {"gelu", 0},
                                               {"gelu_new", 0}, {"silu", 0},   {"quick_gelu", 0},
                                               {"mish", 0},     {"linear", 0}, {NULL, 0}};
static const ft_option_choice scheduler_choices[] = {{"linear", FT_SCHED_LINEAR},
                                              {"cosine", FT_SCHED_COSINE},
                                              {"constant", FT_SCHED_CONSTANT},
                                              {"constant_with_warmup", FT_SCHED_CONSTANT_WITH_WARMUP},
                                              {"polynomial", FT_SCHED_POLYNOMIAL},
                                              {"cosine_with_restarts", FT_SCHED_COSINE_WITH_RESTARTS},
                                              {NULL, 0}};
static const ft_option_choice format_choices[] = {
    {"auto", FT_FORMAT_AUTO}, {"tsv", FT_FORMAT_TSV}, {"csv", FT_FORMAT_CSV}, {"jsonl", FT_FORMAT_JSONL}, {NULL, 0}};
static const ft_option_choice precision_choices[] = {{"fp32", FT_PRECISION_FP32},    {"float32", FT_PRECISION_FP32},
                                                     {"bf16", FT_PRECISION_BF16},    {"bfloat16", FT_PRECISION_BF16},
                                                     {"fp16", FT_PRECISION_FP16},    {"float16", FT_PRECISION_FP16},
                                                     {"half", FT_PRECISION_FP16},    {NULL, 0}};
#define TASK_ALSO(problem_type, id) {problem_type, FT_TASK_##id},
#define TASK_SAME(problem_type, id)
#define FT_TASK_LINE(id, name, also, problem_type, ...) {#name, FT_TASK_##id}, TASK_##also(problem_type, id)
static const ft_option_choice task_choices[] = {{"auto", FT_TASK_AUTO},
#include "engine/config/tasks.def"
                                                {NULL, 0}};
#undef FT_TASK_LINE
#define FT_TASK_LINE(id, name, also, problem_type, loss, help) #name ": " help ". "
static const char task_help[] =
#include "engine/config/tasks.def"
    "auto: multi_label where labels are JSON lists or several columns, else single_label.";
#undef FT_TASK_LINE
static const ft_option_choice loss_choices[] = {{"auto", FT_LOSS_AUTO}, {"cross_entropy", FT_LOSS_CROSS_ENTROPY},
                                         {"focal", FT_LOSS_FOCAL}, {"bce", FT_LOSS_BCE},
                                         {"mse", FT_LOSS_MSE},   {NULL, 0}};
static const ft_option_choice strategy_choices[] = {
    {"epoch", FT_EVAL_EPOCH}, {"steps", FT_EVAL_STEPS}, {"no", FT_EVAL_NO}, {NULL, 0}};
static const ft_option_choice metric_choices[] = {
    {"loss", FT_METRIC_LOSS},
    {"accuracy", FT_METRIC_ACCURACY},
    {"balanced_accuracy", FT_METRIC_BALANCED_ACCURACY},
    {"precision_macro", FT_METRIC_PRECISION_MACRO},
    {"precision_micro", FT_METRIC_PRECISION_MICRO},
    {"precision_weighted", FT_METRIC_PRECISION_WEIGHTED},
    {"precision_binary", FT_METRIC_PRECISION_BINARY},
    {"precision", FT_METRIC_PRECISION_BINARY},
    {"recall_macro", FT_METRIC_RECALL_MACRO},
    {"recall_micro", FT_METRIC_RECALL_MICRO},
    {"recall_weighted", FT_METRIC_RECALL_WEIGHTED},
    {"recall_binary", FT_METRIC_RECALL_BINARY},
    {"recall", FT_METRIC_RECALL_BINARY},
    {"f1_macro", FT_METRIC_F1_MACRO},
    {"f1_micro", FT_METRIC_F1_MICRO},
    {"f1_weighted", FT_METRIC_F1_WEIGHTED},
    {"f1_binary", FT_METRIC_F1_BINARY},
    {"f1", FT_METRIC_F1_BINARY},
    {"matthews", FT_METRIC_MATTHEWS},
    {"matthews_correlation", FT_METRIC_MATTHEWS},
    {"cohen_kappa", FT_METRIC_COHEN_KAPPA},
    {"auroc", FT_METRIC_AUROC},
    {"roc_auc", FT_METRIC_AUROC},
    {"average_precision", FT_METRIC_AVERAGE_PRECISION},
    {"log_loss", FT_METRIC_LOG_LOSS},
    {"brier", FT_METRIC_BRIER},
    {"ece", FT_METRIC_ECE},
    {"pearson", FT_METRIC_PEARSON},
    {"spearman", FT_METRIC_SPEARMAN},
    {"mse", FT_METRIC_MSE},
    {"rmse", FT_METRIC_RMSE},
    {"mae", FT_METRIC_MAE},
    {"r2", FT_METRIC_R2},
    {NULL, 0}};
static const ft_option_choice exists_choices[] = {
    {"new", FT_EXISTS_NEW}, {"resume", FT_EXISTS_RESUME}, {"error", FT_EXISTS_ERROR}, {NULL, 0}};
static const ft_option_choice device_choices[] = {{"auto", 0}, {"cpu", 0}, {"cuda", 0}, {NULL, 0}};
static const ft_option_choice sampler_choices[] = {
    {"tpe", 0}, {"random", 0}, {"grid", 0}, {"quasi_random", 0}, {NULL, 0}};
static const ft_option_choice bandwidth_choices[] = {{"auto", 0}, {"fine", 0}, {"optuna", 0}, {NULL, 0}};
static const ft_option_choice multivariate_choices[] = {{"auto", 0}, {"on", 0}, {"off", 0}, {NULL, 0}};
static const ft_option_choice pruner_choices[] = {{"none", 0},    {"median", 0},    {"percentile", 0},
                                                  {"halving", 0}, {"hyperband", 0}, {"threshold", 0},
                                                  {"wilcoxon", 0}, {NULL, 0}};
static const ft_option_choice memory_policy_choices[] = {{"fit", 0}, {"constrain", 0}, {"prune", 0}, {NULL, 0}};
static const ft_option_choice keep_choices[] = {{"best", 0}, {"top-k", 0}, {"all", 0}, {"none", 0}, {NULL, 0}};
static const ft_option_choice ranges_choices[] = {{"auto", FT_RANGES_AUTO}, {"true", FT_RANGES_ON},   {"on", FT_RANGES_ON},
                                                  {"false", FT_RANGES_OFF}, {"off", FT_RANGES_OFF}, {NULL, 0}};
static const ft_option_choice on_oom_choices[] = {{"ladder", FT_OOM_LADDER}, {"fail", FT_OOM_FAIL}, {NULL, 0}};
static const ft_option_choice pooling_choices[] = {
    {"auto", FT_POOLING_AUTO}, {"mean", FT_POOLING_MEAN}, {"max", FT_POOLING_MAX}, {NULL, 0}};
static const ft_option_choice vocabulary_choices[] = {{"auto", FT_VOCABULARY_AUTO}, {"off", FT_VOCABULARY_OFF}, {NULL, 0}};
static const ft_option_choice graphs_choices[] = {{"auto", FT_GRAPHS_AUTO}, {"on", FT_GRAPHS_ON},      {"true", FT_GRAPHS_ON},
                                                  {"off", FT_GRAPHS_OFF},   {"false", FT_GRAPHS_OFF}, {NULL, 0}};
static const ft_option_choice recompute_choices[] = {
    {"true", FT_RECOMPUTE_TRUE},   {"on", FT_RECOMPUTE_TRUE},     {"false", FT_RECOMPUTE_FALSE},
    {"off", FT_RECOMPUTE_FALSE},   {"auto", FT_RECOMPUTE_AUTO},   {NULL, 0}};
static const ft_option_choice offload_choices[] = {
    {"none", FT_OFFLOAD_NONE}, {"optimizer", FT_OFFLOAD_OPTIMIZER}, {"activations", FT_OFFLOAD_ACTIVATIONS},
    {"all", FT_OFFLOAD_ALL},   {"auto", FT_OFFLOAD_AUTO},           {NULL, 0}};
static const ft_option_choice isa_choices[] = {{"auto", 0}, {"portable", 0}, {"avx2", 0}, {"avx512", 0}, {NULL, 0}};

const ft_section ft_sections[] = {
    {"model", "What is trained."},
    {"data", "What it is trained and judged on."},
    {"train", "How it is trained."},
    {"eval", "How it is judged on the validation file."},
    {"memory", "How much memory a run may take."},
    {"device", "What it runs on."},
    {"output", "What it leaves behind."},
    {"study", "How `ftengine tune` searches; everything else passes this section over."},
    {"space",
     "What `ftengine tune` searches: any option, as float(LOW, HIGH), float(LOW, HIGH, log), float(LOW, HIGH, step=S), "
     "int(LOW, HIGH), int(LOW, HIGH, log), int(LOW, HIGH, step=S), choice(A, B, ...) with lists as [512, 256], or a "
     "value that is the same in every trial. Behind it may stand a condition: if train.batch_size < 32 and "
     "model.path in (bert-large-uncased, roberta-large), with =, !=, <, <=, >, >=, in and not in; an option may have "
     "several lines with conditions, of which the first that holds counts. An empty value takes an option of an "
     "earlier file out again. Example: train.learning_rate = float(1e-6, 1e-4, log)."},
};
const int ft_sections_count = (int)(sizeof ft_sections / sizeof ft_sections[0]);

const ft_option ft_options[] = {
    TEXT(FT_OPTION_PATH, model.path, "",
         .elsewhere = "model_name_or_path pretrained_model_name_or_path model_name model.name model_path model_dir",
         .help = "Directory of a Hugging Face model: config.json, model.safetensors or pytorch_model.bin, and vocab.txt or "
                 "tokenizer.json. Or the name of one that `ftengine pull NAME` has fetched, as "
                 "microsoft/deberta-v3-base or bert-base-uncased@main."),
    CHOICE(model.init, "pretrained", init_choices, .elsewhere = "from_scratch",
           .help = "Start from the weights in the directory, or from random ones of the same shape."),
    TEXT(FT_OPTION_PATH, model.stand_in_tokenizer, "",
         .help = "With model.init = random, where nothing is at model.path but the name is a well-known model's: its "
                 "built-in numbers make the model, and the tokenizer of this directory stands in for its own. For trying "
                 "memory and speed without a download; the accuracy means nothing."),
    CHOICE(model.tokenizer_rules, "files", rules_choices,
           .help = "Whose rules hold where transformers 5 does not tokenise as the files of a RoBERTa, XLM-R or DeBERTa "
                   "say. files: theirs, which is closest to how the models were trained. transformers: those of its "
                   "classes, for the same tokens as a program in Python sees. A saved model remembers it."),
    BOOL(model.ignore_mismatched_sizes, "false",
         .help = "Draw a new head where the checkpoint's has another shape, instead of refusing it."),
    FLOAT(model.hidden_dropout, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "hidden_dropout_prob dropout",
          .help = "Dropout behind the embeddings and behind both halves of a layer. auto: as config.json has it."),
    FLOAT(model.attention_dropout, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "attention_probs_dropout_prob attn_dropout",
          .help = "Dropout of the attention weights. auto: as config.json has it."),
    FLOAT(model.classifier_dropout, "auto", 0, 1, .high_open = true, .automatic = true,
          .elsewhere = "cls_dropout seq_classif_dropout",
          .help =
              "Dropout of the pooled output, before the head. auto: as config.json has it, else its hidden dropout."),
    CHOICE(model.freeze, "none", freeze_choices, .elsewhere = "freeze_encoder freeze_embeddings freeze_backbone",
           .help = "Weights that keep the values they started with: none, the embeddings, or the embeddings and all "
                   "layers (encoder; the pooler and the head are still trained)."),
    INT(model.freeze_layers, "0", 0, 1024, .unit = "layers", .elsewhere = "num_frozen_layers freeze_first_layers",
        .help = "Freezes the embeddings and so many layers, counted from the first. 0: none."),
    {.name = "model.head.hidden",
     .type = FT_OPTION_LIST,
     .offset = AT(ft_int_list, model.head.hidden),
     .initial = "",
     .least = 1,
     .most = 65536,
     .unit = "units",
     .elsewhere = "head_hidden hidden_dims head_hidden_sizes mlp_layers",
     .help = "Widths of hidden layers between the pooled output and the classifier, first to last. Empty: the "
             "standard head. transformers opens others with trust_remote_code."},
    TEXT(FT_OPTION_NAME, model.head.activation, "relu", .choices = activation_choices,
         .elsewhere = "head_activation activation", .help = "Activation behind each hidden layer of the head."),
    FLOAT(model.head.dropout, "auto", 0, 1, .high_open = true, .automatic = true, .elsewhere = "head_dropout",
          .help = "Dropout behind each hidden layer of the head. auto: model.classifier_dropout."),

    TEXT(FT_OPTION_PATH, data.train, "", .literal = "-",
         .elsewhere = "train_file train_data train_path training_file training_data",
         .help = "Training examples: TSV or CSV with a header line, or JSON lines; also packed with gzip or Zstandard. -: "
                 "standard input."),
    TEXT(FT_OPTION_PATH, data.validation, "", .literal = "-",
         .elsewhere = "validation_file validation_data valid_file eval_file eval_data dev dev_file",
         .help = "Examples that choose the best checkpoint and stop early. Empty: no evaluation."),
    TEXT(FT_OPTION_PATH, data.test, "", .literal = "-", .elsewhere = "test_file test_data test_path predict_file",
         .help = "Examples that the best model is judged on once, when training is over. Empty: none."),
    CHOICE(data.format, "auto", format_choices, .elsewhere = "file_format data_format file_type",
           .help = "tsv: columns separated by tabs, quotes are text. csv: cells may be quoted, columns separated by , ; tab "
                   "or |. jsonl: one JSON object a line. auto: by the file's name, else by its first line."),
    TEXT(FT_OPTION_STRING, data.text_column, "",
         .elsewhere = "text_column_name text_column_names sentence_column text_field",
         .help = "Column that holds the text. Empty: text, sentence or the like."),
    TEXT(FT_OPTION_STRING, data.text_pair, "",
         .elsewhere = "text_pair_column text_pair_column_name sentence2_key sentence2_column second_text_column",
         .help = "Column of the second texts, for tasks on pairs of texts: question and answer, premise and hypothesis. "
                 "Empty: single texts."),
    TEXT(FT_OPTION_STRING, data.label_column, "", .elsewhere = "label_column_name label_field target_column",
         .help = "Column that holds the label; several, separated by commas, for several classes (0 or 1 each) or "
                 "targets. Empty: label or the like."),
    TEXT(FT_OPTION_STRING, data.label_separator, ",", .elsewhere = "label_delimiter label_sep",
         .help = "What separates the classes of a text that has several, where they stand in one column."),
    FLOAT(data.validation_split, "0", 0, 1, .high_open = true, .elsewhere = "val_split validation_size val_size dev_split eval_split test_size",
          .help = "Share of data.train that is held out and judged on instead of a data.validation, with the same share of "
                  "every class; data.group keeps groups together. Drawn by train.data_seed (auto: 42). 0: none."),
    INT(data.folds, "0", 0, 1000, .unit = "parts", .elsewhere = "num_folds n_folds k_folds n_splits kfold cv",
        .help = "Cross-validation: data.train is cut into so many parts with the same share of every class, and each is "
                "once what the best checkpoint is chosen on, in a run directory of its own (fold-1, ...). Figures are means "
                "over the runs. How it is cut depends on train.data_seed (auto: 42), not on train.seed. 0: none."),
    INT(data.fold, "0", 0, 1000, .elsewhere = "fold_index fold_id",
        .help = "Of data.folds only this one, from 1. 0: all, one after the other."),
    TEXT(FT_OPTION_STRING, data.group, "", .elsewhere = "group_column groups group_by group_column_name",
         .help = "Column of data.train; examples with the same value there (an author, a document) stay in one fold, or on "
                 "one side of data.validation_split. Empty: "
                 "every example for itself."),
    INT(data.max_length, "auto", 3, 1 << 20, .automatic = true, .unit = "tokens",
        .elsewhere =
            "tok.max_length tokenizer.max_length max_seq_length max_seq_len max_len seq_length model_max_length",
        .help = "Longer texts are cut to so many tokens, special ones included. auto: 512, or what the model has."),
    TEXT(FT_OPTION_STRING, data.truncation, "auto",
         .elsewhere = "truncation truncation_side truncation_strategy sliding_window doc_stride stride return_overflowing_tokens",
         .help = "What stays of longer texts. head: the beginning. tail: the end. head_tail: a quarter from the beginning, the "
                 "rest from the end. windows(64): all, in windows that share 64 tokens with the one before; in training each is "
                 "an example with the text's label, elsewhere they are pooled (eval.window_pooling). windows: a quarter is "
                 "shared. Of a pair the longer text is cut first, and windows are of it alone, each with the other text. auto: "
                 "head, and what a saved model was trained with."),
    TEXT(
        FT_OPTION_PATH, data.cache_dir, "", .literal = "none", .elsewhere = "cache tokenizer_cache data_cache_dir",
        .help =
            "Where tokenised text is kept between runs. Empty: ftengine in the user's cache directory; none: nowhere."),

    CHOICE(train.task, "auto", task_choices, .elsewhere = "problem_type task task_type task_name",
           .help = task_help),
    CHOICE(train.loss, "auto", loss_choices, .elsewhere = "loss_function loss_fn criterion loss_type",
           .help = "What training makes small. auto: cross_entropy, bce or mse, as the task is. focal: of classes, for rare "
                   "ones. The loss of an evaluation is always the plain one of the task."),
    FLOAT(train.focal_gamma, "2", 0, 100, .low_open = true, .elsewhere = "gamma focal_loss_gamma",
          .help = "How much the focal loss passes over what is right already."),
    TEXT(FT_OPTION_STRING, train.class_weights, "none", .elsewhere = "class_weight pos_weight loss_weights weight_per_class",
         .help = "none, balanced (rare classes count more: examples / (classes * examples of the class); of multi_label "
                 "negative / positive examples), or one number a class, in the order of the classes."),
    FLOAT(train.label_smoothing, "0", 0, 1, .high_open = true, .elsewhere = "label_smoothing_factor smoothing",
          .help = "Share of a label that is spread over all classes. single_label only."),
    FLOAT(train.epochs, "3", 0, 1e6, .low_open = true,
          .elsewhere = "num_train_epochs num_epochs n_epochs max_epochs epoch",
          .help = "Passes over the training examples; parts of one are possible."),
    INT(train.max_steps, "0", 0, INT32_MAX, .unit = "optimizer steps",
        .elsewhere = "max_train_steps num_train_steps total_steps",
        .help = "Ends training after so many steps, whatever train.epochs says. 0: train.epochs decides."),
    INT(train.batch_size, "8", 1, 1 << 20, .unit = "sequences",
        .elsewhere = "per_device_train_batch_size per_gpu_train_batch_size train_batch_size bs",
        .help = "Sequences that are drawn together. What is in memory at once is train.micro_batch's business."),
    INT(train.gradient_accumulation_steps, "1", 1, 1 << 20, .unit = "batches",
        .elsewhere = "grad_accum grad_accum_steps gradient_accumulation accumulate_grad_batches accumulation_steps",
        .help =
            "Batches whose gradients make one optimizer step: the effective batch is so many times train.batch_size."),
    INT(train.micro_batch_tokens, "auto", 1, 1LL << 40, .automatic = true, .unit = "tokens",
        .elsewhere = "max_tokens tokens_per_batch max_tokens_per_batch",
        .help = "Tokens computed at once: less memory, the same result. auto: a whole batch, and as many as memory.limit "
                "allows if that does not fit."),
    INT(train.micro_batch, "auto", 1, 1 << 20, .automatic = true, .unit = "sequences",
        .elsewhere = "micro_batch_size micro_batch_size_per_gpu mini_batch_size",
        .help = "Sequences computed at once: less memory, the same result. auto: a whole batch."),
    FLOAT(train.learning_rate, "5e-5", 0, 100, .elsewhere = "lr max_lr peak_lr",
          .help = "Highest learning rate of AdamW."),
    FLOAT(train.weight_decay, "0", 0, 100, .elsewhere = "wd adam_weight_decay",
          .help = "Decoupled weight decay. Biases and the parameters of LayerNorms are never decayed."),
    FLOAT(train.adam_beta1, "0.9", 0, 1, .high_open = true, .elsewhere = "beta1 adam_beta_1",
          .help = "Decay of AdamW's first moments."),
    FLOAT(train.adam_beta2, "0.999", 0, 1, .high_open = true, .elsewhere = "beta2 adam_beta_2",
          .help = "Decay of AdamW's second moments."),
    FLOAT(train.adam_epsilon, "1e-8", 0, 1, .low_open = true, .elsewhere = "adam_eps eps epsilon",
          .help = "Added to AdamW's divisor."),
    FLOAT(train.max_grad_norm, "1", 0, INFINITY, .elsewhere = "grad_clip gradient_clip_val clip_grad_norm max_norm",
          .help = "Gradients are scaled down to this global norm. 0: they are never clipped."),
    CHOICE(train.lr_scheduler, "linear", scheduler_choices,
           .elsewhere = "lr_scheduler_type scheduler schedule lr_schedule",
           .help = "Course of the learning rate behind the warm-up. constant has no warm-up."),
    FLOAT(train.lr_end, "1e-7", 0, 100, .help = "polynomial: where the learning rate ends; below train.learning_rate."),
    FLOAT(train.lr_power, "1", 0, 100, .low_open = true, .elsewhere = "power polynomial_power",
          .help = "polynomial: the power."),
    INT(train.lr_cycles, "1", 1, INT32_MAX, .unit = "cycles", .elsewhere = "num_cycles",
        .help = "cosine_with_restarts: how often the learning rate falls from the top to 0."),
    FLOAT(train.layer_lr_decay, "1", 0, 1, .low_open = true, .elsewhere = "llrd layerwise_lr_decay layer_decay lr_layer_decay",
          .help = "Learning rate of a layer beside that of the layer above it: the head has train.learning_rate, the last "
                  "layer so many times that, the embeddings the least."),
    FLOAT(train.warmup_ratio, "0", 0, 1, .elsewhere = "warmup_proportion warmup_fraction",
          .help = "Share of all steps in which the learning rate rises from 0."),
    INT(train.warmup_steps, "0", 0, ANY, .unit = "optimizer steps", .elsewhere = "num_warmup_steps warmup",
        .help = "Steps in which the learning rate rises from 0. Above 0, train.warmup_ratio is not looked at."),
    {.name = "train.gradient_checkpointing",
     .type = FT_OPTION_EVERY_K,
     .offset = AT(int64_t, train.gradient_checkpointing),
     .initial = "auto",
     .least = 2,
     .most = 1024,
     .automatic = true,
     .elsewhere = "activation_checkpointing grad_checkpointing gradient_checkpointing_enable",
     .help = "Recompute instead of keeping: on keeps the input of every layer, a number k that of every k-th. Same "
             "result, less memory, about a third more time. auto: off (on with memory.offload = activations or all), and what "
             "memory.limit asks for if that does not fit."},
    INT(train.seed, "42", 0, 4294967295, .elsewhere = "random_seed random_state",
        .help = "Seed of the order of examples, of dropout and of new weights."),
    {.name = "train.seeds",
     .type = FT_OPTION_LIST,
     .offset = AT(ft_int_list, train.seeds),
     .initial = "",
     .least = 0,
     .most = 4294967295,
     .elsewhere = "seed_list random_seeds",
     .help = "A run with each of these seeds in place of train.seed, in a run directory of its own (seed-1, ...). Figures are "
             "means over the runs. Empty: one run."},
    INT(train.data_seed, "auto", 0, 4294967295, .automatic = true, .elsewhere = "shuffle_seed",
        .help = "Seed of the order of examples alone. auto: train.seed."),
    BOOL(train.drop_last, "false", .elsewhere = "dataloader_drop_last",
         .help = "Leaves out the examples at the end of an epoch that make no whole batch."),
    INT(train.patience, "0", 0, ANY, .unit = "evaluations", .elsewhere = "early_stopping_patience early_stopping",
        .help = "Stops after so many evaluations without a better eval.metric. 0: never."),
    FLOAT(train.min_delta, "0", 0, INFINITY, .elsewhere = "early_stopping_threshold early_stopping_min_delta",
          .help = "A change of eval.metric up to this is no improvement."),
    INT(train.logging_steps, "500", 1, ANY, .unit = "optimizer steps",
        .elsewhere = "log_steps log_every log_every_n_steps log_interval",
        .help = "Steps between two lines of metrics.jsonl."),
    CHOICE(train.precision, "fp32", precision_choices, .elsewhere = "fp16 bf16 dtype torch_dtype mixed_precision",
           .help = "Numbers that activations, their gradients and the weights that ops read have. bf16 and fp16 take half "
                   "the memory there and are several times faster on a GPU, but slower on the CPU, which only rounds to "
                   "them; gradients and moments of the weights, and the weights that are trained and saved, are fp32 "
                   "throughout. fp16 scales the loss (a power of two that halves when a step overflows, which is then "
                   "left out, and doubles after 2000 good ones); bf16 needs no scale. eval and predict take it too."),

    CHOICE(eval.strategy, "epoch", strategy_choices, .elsewhere = "eval_strategy evaluation_strategy do_eval",
           .help = "When the validation file is evaluated; without one, never."),
    INT(eval.steps, "500", 1, ANY, .unit = "optimizer steps", .elsewhere = "eval_steps evaluation_steps eval_every",
        .help = "Steps between two evaluations, for eval.strategy = steps."),
    INT(eval.batch_size, "auto", 1, 1 << 20, .automatic = true, .unit = "sequences",
        .elsewhere = "per_device_eval_batch_size per_gpu_eval_batch_size eval_batch_size valid_batch_size",
        .help = "Sequences evaluated at once. auto: what eval.batch_multiplier says."),
    INT(eval.batch_multiplier, "auto", 1, 1024, .automatic = true, .elsewhere = "eval_batch_multiplier eval_batch_size_multiplier",
        .help = "Evaluated at once: so many times what training has at once. auto: as much as fits into the memory of a training "
                "step, so that evaluation never raises the peak."),
    CHOICE(eval.metric, "loss", metric_choices, .elsewhere = "metric_for_best_model best_metric monitor",
           .help = "What makes a checkpoint the best, and what train.patience watches."),
    TEXT(FT_OPTION_STRING, eval.threshold, "auto", .elsewhere = "threshold decision_threshold prediction_threshold",
         .help = "From which probability on a label, or the second of two classes, is predicted: a number, or tuned (every "
                 "label for itself where its F1 is best on the validation data, two classes by eval.metric; saved with the "
                 "model). auto: 0.5, and of a saved model what it was saved with."),
    BOOL(eval.calibrate, "false", .elsewhere = "temperature_scaling calibration calibrate_probabilities",
         .help = "Finds the temperature at which the probabilities fit the validation data best, and saves it with the model."),
    CHOICE(eval.window_pooling, "auto", pooling_choices, .elsewhere = "window_aggregation sliding_window_aggregation pooling_strategy",
           .help = "data.truncation = windows: what a text's windows come to, in metrics and predictions. mean: of their "
                   "probabilities, or of the values of a regression. max: the largest probability of every class, made to sum "
                   "to 1 where one class holds; the largest value. auto: mean, and what a saved model was trained with."),

    {.name = "memory.limit",
     .type = FT_OPTION_SIZE,
     .offset = AT(int64_t, memory.limit),
     .initial = "auto",
     .least = 1 << 16,
     .most = 1LL << 50,
     .automatic = true,
     .share = true,
     .elsewhere = "max_memory max_memory_mb gpu_memory_limit memory_limit max_memory_gb "
                  "set_per_process_memory_fraction",
     .help = "Most that a run may take, as 24GiB, 512MiB, 24GB (10^9), bytes, or 80% of what the device has. auto: all "
             "of it; what is left to autofit is chosen for what is free now, unless device.wait is set."},
    {.name = "memory.max_split_size",
     .type = FT_OPTION_SIZE,
     .offset = AT(int64_t, memory.max_split_size),
     .initial = "auto",
     .least = 2 << 20,
     .most = 1LL << 50,
     .automatic = true,
     .elsewhere = "max_split_size_mb",
     .help = "Free blocks larger than this are never split for smaller requests. auto: every block may be split."},
    CHOICE(memory.expandable_segments, "auto", ranges_choices,
           .help = "Ranges of addresses that grow, instead of segments: less is reserved, above all when sizes vary. "
                   "auto: where the device has them, unless memory.max_split_size is given."),
    FLOAT(memory.garbage_collection_threshold, "0", 0, 1, .high_open = true,
          .help = "Share of memory.limit above which cached segments are given back before new ones are taken. 0: only "
                  "when there is no other way."),
    BOOL(memory.timeline, "true", .elsewhere = "record_memory_history memory_snapshot",
         .help = "Writes memory_timeline.json into the run directory, for ui.perfetto.dev."),
    CHOICE(memory.on_oom, "ladder", on_oom_choices,
           .elsewhere = "auto_find_batch_size find_executable_batch_size oom_retry handle_oom on_out_of_memory",
           .help = "When memory that was planned is refused (another program took it). ladder: release what is cached, then "
                   "smaller micro-batches of the same batch, or recomputation where train.gradient_checkpointing is auto, then "
                   "another device or the CPU where device.name is auto, a wait in between where device.wait is set; training "
                   "goes on from its last step and ends with the same numbers (with the same bits where all of it runs on the CPU). fail: the run ends with exit code 3."),
    INT(memory.min_micro_batch, "1", 1, 1 << 20, .unit = "sequences", .elsewhere = "min_batch_size minimum_batch_size",
        .help = "The ladder leaves room for so many of the longest texts in a micro-batch."),
    INT(memory.max_retries, "10", 0, 1 << 20, .elsewhere = "max_oom_retries oom_retries num_oom_retries",
        .help = "How often the ladder tries the same piece of work (start, step, evaluation, save) again, waits not counted."),
    CHOICE(memory.active_vocabulary, "auto", vocabulary_choices,
           .help = "Only those rows of the word embeddings live on the device that the texts of the run read, with gradient and "
                   "moments where training reads them: same saved weights to the bit, often half the state. auto: where "
                   "that takes less. off: all rows."),
    CHOICE(memory.recompute_activation, "true", recompute_choices, .elsewhere = "recompute_gelu gelu_checkpoint",
           .help = "Compute the activation inside a layer (GELU) again in the backward pass. false keeps it: a quarter to a third more "
                   "activations, a step shorter by about a hundredth. Same bits. fp32 only: in 16 bits it is always computed again. "
                   "auto: kept where memory.limit allows."),
    CHOICE(memory.recompute_layernorm, "auto", recompute_choices, .elsewhere = "recompute_norm layernorm_checkpoint",
           .help = "Make the output of every LayerNorm again from its input, which is kept: a sixth less activations for two short "
                   "passes a layer. Same bits. fp32 only: in 16 bits nothing is gained. auto: where memory.limit asks for it."),
    CHOICE(memory.offload, "none", offload_choices,
           .elsewhere = "offload_optimizer optimizer_offload cpu_offload offload_optimizer_device zero_offload offload_activations "
                        "activation_offloading cpu_checkpointing",
           .help = "What lies in pinned memory of the host, with the same bits. optimizer: AdamW's moments, and what makes weights of 16 bits exact "
                   "(in bf16 a tail of each, in fp16 master weights), which travel through the device in every update: 8 to 12 bytes a trained parameter less there. "
                   "activations: under train.gradient_checkpointing (auto is on then; off is refused) the inputs of layers, sent "
                   "while layers are computed and fetched before they are computed again: of all of them the device holds two at most beside what is being computed. "
                   "all: both. A CPU has no other memory: named, it refuses this, and with device.name=auto the run goes on there "
                   "without. auto: where memory.limit asks for it, and nothing faster fits."),

    TEXT(FT_OPTION_NAME, device.name, "auto", .choices = device_choices, .numbered = "cuda:",
         .elsewhere = "device use_cpu no_cuda accelerator",
         .help = "Where the run is computed. cuda: the first CUDA device (CUDA_VISIBLE_DEVICES chooses which that is); cuda:1: the "
                 "second. auto: where driver, kernels and cuBLASLt are there, the CUDA device with most free memory if the run fits "
                 "it, else the CPU."),
    INT(device.threads, "0", 0, 4096, .unit = "threads", .elsewhere = "num_threads n_threads omp_num_threads",
        .help = "Threads that compute. 0: one for every core this process may use."),
    TEXT(FT_OPTION_NAME, device.isa, "auto", .choices = isa_choices, .elsewhere = "cpu_arch simd",
         .help = "Instruction set of the CPU kernels. auto: the widest this machine has."),
    TEXT(FT_OPTION_PATH, device.gemm_tuning, "", .elsewhere = "gemm_config gemm_range autotune max_autotune tunableop_filename",
         .help = "File of measured algorithms for matrix products on this GPU, from ftengine tune-gemm. A resumed run needs the "
                 "same one. Without it cuBLASLt's heuristic chooses."),
    CHOICE(device.graphs, "auto", graphs_choices, .elsewhere = "cuda_graphs use_cuda_graph cudagraphs reduce-overhead enforce_eager",
           .help = "The GPU's work of a step is recorded once for every size of micro-batch and then replayed, for the price of a few "
                   "launches a step; micro-batches are filled up to multiples of 64 tokens, so that sizes come back. on: up to 64 "
                   "graphs, the least recently used goes first; what they hold is the driver's memory, not in the plan, and 64MiB are left "
                   "free for it. auto: off, until this was measured on a GPU."),
    {.name = "device.min_free_memory",
     .type = FT_OPTION_SIZE,
     .offset = AT(int64_t, device.min_free_memory),
     .initial = "auto",
     .least = 1,
     .most = 1LL << 50,
     .automatic = true,
     .elsewhere = "min_gpu_memory_mb min_free_gpu_memory min_free_memory_gb min_free",
     .help = "A device with less free memory than this is not used. Free is what no run of ftengine has reserved and nobody "
             "else holds. auto: the planned bytes of the run, which are reserved before its first step in any case."},
    BOOL(device.wait, "false", .elsewhere = "wait_for_gpu wait_for_device wait_for_memory gpu_wait",
         .help = "When no device has room, wait for one instead of ending with exit code 4."),
    {.name = "device.wait_timeout",
     .type = FT_OPTION_DURATION,
     .offset = AT(double, device.wait_timeout),
     .initial = "0",
     .low = 0,
     .high = 1e9,
     .elsewhere = "gpu_wait_timeout max_wait max_wait_time",
     .help = "Longest wait; then the run ends with exit code 4. 0: no limit."},
    {.name = "device.check_interval",
     .type = FT_OPTION_DURATION,
     .offset = AT(double, device.check_interval),
     .initial = "5s",
     .low = 0.01,
     .high = 86400,
     .elsewhere = "gpu_check_interval poll_interval",
     .help = "Time between two looks at the devices while waiting."},

    TEXT(FT_OPTION_PATH, output.dir, "", .elsewhere = "output_dir run_dir save_dir logging_dir",
         .help = "Run directory. Empty: runs/NAME-NNN, NAME being the config file's and NNN the next free number."),
    CHOICE(output.exists, "new", exists_choices, .elsewhere = "overwrite_output_dir resume_from_checkpoint resume",
           .help = "When output.dir is there already: take a fresh name beside it, go on where it stopped, or refuse."),
    INT(output.save_steps, "500", 0, ANY, .unit = "optimizer steps",
        .elsewhere = "save_every checkpoint_every checkpoint_steps",
        .help = "Steps between two checkpoints. 0: only at the end of an epoch, and when stopped."),
    INT(output.save_total_limit, "1", 1, 1 << 20, .unit = "checkpoints",
        .elsewhere = "max_checkpoints keep_checkpoints",
        .help = "Older checkpoints than the last so many are removed."),

    // [study] stays last: ft_option_count() ends before it.
    TEXT(FT_OPTION_STRING, study.name, "", .elsewhere = "study_name",
         .help = "Name of the study and of its directory in studies/. Empty: the configuration file's."),
    TEXT(FT_OPTION_PATH, study.storage, "", .scheme = "sqlite:///", .elsewhere = "storage_url",
         .help = "Where trials are kept, as sqlite:///FILE. Empty: study.db in the study's directory."),
    TEXT(FT_OPTION_STRING, study.objective, "", .elsewhere = "directions direction metric_name",
         .help = "What is looked for: maximize or minimize, then eval.METRIC, test.METRIC, train.loss, seconds.total, "
                 "seconds.train, tokens_per_second, memory.peak_reserved_bytes or the like; several are separated by "
                 "commas. Empty: the best eval.metric."),
    TEXT(FT_OPTION_STRING, study.constraints, "",
         .help = "What a trial must keep to be the best one, as memory.peak_reserved_bytes <= 8GiB, seconds.total <= 10m; "
                 "TPE learns to stay within."),
    INT(study.trials, "30", 0, ANY, .unit = "trials", .elsewhere = "n_trials num_trials max_trials max_evals",
        .help = "Finished trials (complete, pruned and failed) at which the study ends, whoever ran them. 0: it has no end."),
    {.name = "study.timeout",
     .type = FT_OPTION_DURATION,
     .offset = AT(double, study.timeout),
     .initial = "0",
     .low = 0,
     .high = 1e9,
     .elsewhere = "max_time time_budget_s",
     .help = "Stops after so long; the running trial is saved and goes on the next time. 0: no limit."},
    INT(study.seed, "42", 0, 4294967295, .elsewhere = "sampler_seed",
        .help = "Seed of the search. The same seed gives the same trials, also after a kill and a resume."),
    TEXT(FT_OPTION_NAME, study.sampler, "tpe", .choices = sampler_choices, .elsewhere = "search_algorithm search_alg",
         .help = "Who chooses the next values. grid tries every combination once."),
    INT(study.startup_trials, "10", 0, 1 << 30, .unit = "trials", .elsewhere = "n_startup_trials n_initial_points",
        .help = "Complete and pruned trials before TPE begins; until then values are random."),
    BOOL(study.quasi_startup, "false", .help = "Spread the first trials evenly (quasi-random) instead of at random."),
    INT(study.candidates, "24", 1, 1 << 20, .elsewhere = "n_ei_candidates",
        .help = "Points that TPE draws, of which it takes the most promising one."),
    TEXT(FT_OPTION_NAME, study.multivariate, "auto", .choices = multivariate_choices,
         .help = "Whether TPE draws parameters together. auto: with one objective."),
    BOOL(study.group, "false", .elsewhere = "group_decomposed",
         .help = "Draw together what always came together, for spaces with conditions."),
    BOOL(study.constant_liar, "true", .help = "Count running trials as bad ones, so that no two try the same."),
    BOOL(study.branch_split, "true",
         .help = "Tell good trials from others among those that have a parameter, so that a rare branch of the space "
                 "learns from its own trials. false: among all trials, as Optuna does."),
    BOOL(study.branch_joint, "true",
         .help = "Draw what only some trials have together with what always comes with it, to go with the values that "
                 "the trial has already. false: each alone, as Optuna does."),
    TEXT(FT_OPTION_NAME, study.bandwidth, "auto", .choices = bandwidth_choices,
         .help = "How near to good trials the next one may be. fine: the more trials, the nearer; optuna: never nearer "
                 "than about a 27th of a range. auto: fine with one objective."),
    INT(study.grid_points, "5", 2, 1 << 20, .unit = "values",
        .help = "Values of a float without a step in a grid, evenly spaced (in logarithms where it is log)."),
    TEXT(FT_OPTION_NAME, study.pruner, "none", .choices = pruner_choices,
         .help = "Who stops trials that will not become good, judging by the objective at every evaluation. wilcoxon: by the "
                 "runs of data.folds or train.seeds, each held against the same one of the best trial; stops what a "
                 "signed-rank test finds worse with p < 0.1, which takes four runs."),
    FLOAT(study.pruner_percentile, "50", 0, 100,
          .help = "percentile: how many of a hundred completed trials count as good at an evaluation."),
    INT(study.pruner_startup_trials, "5", 0, 1 << 30, .unit = "trials",
        .help = "median, percentile: completed trials before it begins."),
    INT(study.pruner_warmup_steps, "0", 0, ANY, .unit = "optimizer steps", .elsewhere = "n_warmup_steps",
        .help = "median, percentile, threshold: no trial is stopped before."),
    INT(study.pruner_interval_steps, "1", 1, ANY, .unit = "optimizer steps",
        .help = "median, percentile, threshold: steps between two looks at a trial."),
    INT(study.pruner_min_trials, "1", 1, 1 << 30, .unit = "trials", .elsewhere = "n_min_trials",
        .help = "median, percentile: completed trials that must have a value at a step."),
    INT(study.pruner_min_resource, "auto", 1, ANY, .automatic = true, .unit = "optimizer steps",
        .elsewhere = "min_resource grace_period",
        .help = "halving, hyperband: the first rung. auto: a hundredth of the longest trial (halving), 1 (hyperband)."),
    INT(study.pruner_max_resource, "auto", 1, ANY, .automatic = true, .unit = "optimizer steps",
        .elsewhere = "max_resource", .help = "hyperband: the last rung. auto: the longest completed trial."),
    INT(study.pruner_reduction_factor, "auto", 2, 1 << 20, .automatic = true, .elsewhere = "reduction_factor",
        .help = "halving, hyperband: one trial of so many goes on at a rung. auto: 4 (halving), 3 (hyperband)."),
    INT(study.pruner_min_early_stopping_rate, "0", 0, 1024, .elsewhere = "min_early_stopping_rate",
        .help = "halving: so many rungs are left out at the beginning."),
    INT(study.pruner_bootstrap_count, "0", 0, 1 << 30, .unit = "trials", .elsewhere = "bootstrap_count",
        .help = "halving, hyperband: a rung promotes nobody before more trials than that reached it."),
    FLOAT(study.pruner_lower, "auto", -INFINITY, INFINITY, .automatic = true,
          .help = "threshold: below this value a trial is stopped. auto: never."),
    FLOAT(study.pruner_upper, "auto", -INFINITY, INFINITY, .automatic = true,
          .help = "threshold: above this value a trial is stopped. auto: never."),
    INT(study.pruner_patience, "0", 0, 1 << 30, .unit = "evaluations",
        .help = "The pruner is asked only about trials without improvement for so many evaluations; with pruner = none "
                "those are stopped. 0: it is always asked."),
    FLOAT(study.pruner_min_delta, "0", 0, INFINITY, .help = "A change up to this is no improvement."),
    FLOAT(study.target, "auto", -INFINITY, INFINITY, .automatic = true, .elsewhere = "target_value stop_at_value",
          .help = "Ends the study when a trial is as good as this in the first objective. auto: never."),
    INT(study.no_improvement, "0", 0, 1 << 30, .unit = "trials", .elsewhere = "early_stopping_trials",
        .help = "Ends the study after so many finished trials without a new best one. 0: never."),
    INT(study.completed, "0", 0, 1 << 30, .unit = "trials", .elsewhere = "max_completed",
        .help = "Ends the study at so many completed trials, pruned and failed ones not counted. 0: never."),
    INT(study.max_failures, "5", 0, 1 << 30, .unit = "trials",
        .help = "Gives up after so many failures in a row; running out of memory and diverging are results, and not "
                "counted. 0: never."),
    INT(study.parallel, "1", 1, 256, .automatic = true, .unit = "trials", .elsewhere = "n_jobs num_workers max_concurrent",
        .help = "Trials that run at the same time, each in a worker process of its own; with device.threads = auto they "
                "share the cores. auto: one a core, at most 8."),
    INT(study.max_retries, "2", 0, 1 << 20, .unit = "times", .elsewhere = "max_retry",
        .help = "How often a trial goes on from its checkpoint after its worker was killed, crashed or hung, or a file or "
                "the device failed. A full disk costs none: the trial waits for room. One that diverged or ran out of memory is "
                "never tried again."),
    {.name = "study.heartbeat_timeout",
     .type = FT_OPTION_DURATION,
     .offset = AT(double, study.heartbeat_timeout),
     .initial = "10m",
     .low = 0,
     .high = 1e9,
     .elsewhere = "heartbeat_interval worker_timeout",
     .help = "A worker without a sign of life for so long (no micro-batch, no evaluation, no step) hangs, and is "
             "replaced. 0: never."},
    TEXT(FT_OPTION_NAME, study.memory_policy, "fit", .choices = memory_policy_choices,
         .help = "What to do about a trial whose planned memory is more than memory.limit. fit: what is at auto is chosen "
                 "so that it fits, with the batch of the trial as it is. constrain: it is not run, and the excess is a "
                 "constraint that TPE learns from. prune: it is not run, and counts as pruned. With "
                 "these two and activations in memory.offload, train.gradient_checkpointing=auto is on wherever the trial runs."),
    {.name = "study.report_memory_over",
     .type = FT_OPTION_SIZE,
     .offset = AT(int64_t, study.report_memory_over),
     .initial = "auto",
     .least = 1,
     .most = 1LL << 50,
     .automatic = true,
     .elsewhere = "memory_threshold report_threshold_gb",
     .help = "At the end, list the trials whose peak of reserved memory was above this, as 8GiB. auto: no list."},
    {.name = "study.min_free_disk",
     .type = FT_OPTION_SIZE,
     .offset = AT(int64_t, study.min_free_disk),
     .initial = "auto",
     .least = 1,
     .most = 1LL << 50,
     .automatic = true,
     .elsewhere = "min_disk_space",
     .help = "The study pauses while less is free on its disk, as 10GiB. auto: twice what the largest trial has left there, "
             "for each that runs and one more. It pauses too after a trial that found the disk full: until clearly more is free, or "
             "for 1 second, and twice as long each time, up to 10 minutes."},
    TEXT(FT_OPTION_NAME, study.keep, "best", .choices = keep_choices,
         .help = "Of which trials model and checkpoint stay on disk; logs and figures stay of all."),
    INT(study.keep_count, "3", 1, 1 << 30, .unit = "trials", .help = "k of study.keep = top-k."),
};
const int ft_options_count = (int)(sizeof ft_options / sizeof ft_options[0]);
_Static_assert(sizeof ft_options / sizeof ft_options[0] <= FT_OPTION_LIMIT, "FT_OPTION_LIMIT is too small");

int ft_option_find(const char *name) {
    for (int i = 0; i < ft_options_count; i++)
        if (strcmp(ft_options[i].name, name) == 0) return i;
    return -1;
}

const ft_section *ft_section_find(const char *name, size_t length) {
    for (int i = 0; i < ft_sections_count; i++)
        if (strlen(ft_sections[i].name) == length && memcmp(ft_sections[i].name, name, length) == 0)
            return &ft_sections[i];
    return NULL;
}

const char *ft_option_key(const ft_option *option) { return strchr(option->name, '.') + 1; }

int ft_option_count(void) {
    int count = ft_options_count;
    while (count > 0 && strncmp(ft_options[count - 1].name, "study.", 6) == 0)
        count--;
    return count;
}

const char *ft_option_name(int index) { return index >= 0 && index < ft_options_count ? ft_options[index].name : NULL; }

const char *ft_metric_name(ft_metric metric) {
    for (const ft_option_choice *choice = metric_choices; choice->name != NULL; choice++)
        if (choice->value == (int)metric) return choice->name;
    return "?";
}

bool ft_metric_greater_is_better(ft_metric metric) {
    switch (metric) {
    case FT_METRIC_LOSS: case FT_METRIC_LOG_LOSS: case FT_METRIC_BRIER: case FT_METRIC_ECE: case FT_METRIC_MSE: case FT_METRIC_RMSE:
    case FT_METRIC_MAE: return false;
    default: return true;
    }
}
