// config.h - the effective configuration of a run, as values. The sections of options (options_*.c) have one row per field and
// drive parsing, overrides, bounds, help, `ftengine config` and configs/reference.ini.
//
// "auto" for numbers is FT_AUTO (ints) or a NaN (floats). Strings are never NULL ("" = not given) and live in the
// configuration's arena. Paths are absolute once loaded.
#ifndef FT_CONFIG_H
#define FT_CONFIG_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FT_AUTO INT64_MIN

typedef enum ft_init { FT_INIT_PRETRAINED = 0, FT_INIT_RANDOM } ft_init;
// Where transformers 5 does not tokenise as the files of a RoBERTa, XLM-R or DeBERTa say: whose rules hold.
typedef enum ft_rules_option { FT_TOKENIZE_AS_FILES = 0, FT_TOKENIZE_AS_TRANSFORMERS } ft_rules_option;
typedef enum ft_freeze { FT_FREEZE_NONE = 0, FT_FREEZE_EMBEDDINGS, FT_FREEZE_ENCODER } ft_freeze;
typedef enum ft_keep { FT_KEEP_AS_READ = 0, FT_KEEP_FP32, FT_KEEP_BF16, FT_KEEP_FP16, FT_KEEP_INT8, FT_KEEP_NF4, FT_KEEP_NF4_DOUBLE, FT_KEEP_AUTO } ft_keep;
typedef enum ft_frozen_dropout { FT_FROZEN_DROPOUT_AUTO = 0, FT_FROZEN_DROPOUT_ON, FT_FROZEN_DROPOUT_OFF } ft_frozen_dropout;
typedef enum ft_adapter_type { FT_ADAPTER_NONE = 0, FT_ADAPTER_LORA, FT_ADAPTER_DORA } ft_adapter_type;
typedef enum ft_adapter_bias { FT_ADAPTER_BIAS_NONE = 0, FT_ADAPTER_BIAS_ADAPTED, FT_ADAPTER_BIAS_ALL } ft_adapter_bias;
typedef enum ft_adapter_mask { FT_ADAPTER_MASK_EACH = 0, FT_ADAPTER_MASK_SHARED } ft_adapter_mask;
typedef enum ft_adapter_init { FT_ADAPTER_INIT_TRUE = 0, FT_ADAPTER_INIT_GAUSSIAN, FT_ADAPTER_INIT_FALSE } ft_adapter_init;
typedef enum ft_scheduler {
    FT_SCHED_LINEAR = 0,
    FT_SCHED_COSINE,
    FT_SCHED_CONSTANT,
    FT_SCHED_CONSTANT_WITH_WARMUP,
    FT_SCHED_POLYNOMIAL,
    FT_SCHED_COSINE_WITH_RESTARTS
} ft_scheduler;
// What a text is given: one class, any number of classes, or numbers.
typedef enum ft_task {
    FT_TASK_AUTO = 0,
#define FT_TASK_LINE(id, ...) FT_TASK_##id,
#include "engine/config/tasks.def"
#undef FT_TASK_LINE
    FT_TASK_COUNT
} ft_task;
typedef enum ft_loss_choice { FT_LOSS_AUTO = 0, FT_LOSS_CROSS_ENTROPY, FT_LOSS_FOCAL, FT_LOSS_BCE, FT_LOSS_MSE, FT_LOSS_SPANS } ft_loss_choice;
typedef enum ft_eval_strategy { FT_EVAL_EPOCH = 0, FT_EVAL_STEPS, FT_EVAL_NO } ft_eval_strategy;
typedef enum ft_metric {
    FT_METRIC_LOSS = 0,
    FT_METRIC_ACCURACY,
    FT_METRIC_BALANCED_ACCURACY,
    FT_METRIC_PRECISION_MACRO,
    FT_METRIC_PRECISION_MICRO,
    FT_METRIC_PRECISION_WEIGHTED,
    FT_METRIC_PRECISION_BINARY,
    FT_METRIC_PRECISION_SAMPLES,
    FT_METRIC_RECALL_MACRO,
    FT_METRIC_RECALL_MICRO,
    FT_METRIC_RECALL_WEIGHTED,
    FT_METRIC_RECALL_BINARY,
    FT_METRIC_RECALL_SAMPLES,
    FT_METRIC_F1_MACRO,
    FT_METRIC_F1_MICRO,
    FT_METRIC_F1_WEIGHTED,
    FT_METRIC_F1_BINARY,
    FT_METRIC_F1_SAMPLES,
    FT_METRIC_HAMMING_LOSS,
    FT_METRIC_MATTHEWS,
    FT_METRIC_COHEN_KAPPA,
    FT_METRIC_AUROC,
    FT_METRIC_AVERAGE_PRECISION,
    FT_METRIC_LOG_LOSS,
    FT_METRIC_BRIER,
    FT_METRIC_ECE,
    FT_METRIC_PEARSON,
    FT_METRIC_SPEARMAN,
    FT_METRIC_MSE,
    FT_METRIC_RMSE,
    FT_METRIC_MAE,
    FT_METRIC_R2,
    FT_METRIC_PRECISION_STRICT,
    FT_METRIC_RECALL_STRICT,
    FT_METRIC_F1_STRICT,
    FT_METRIC_F1_MACRO_STRICT,
    FT_METRIC_MRR,
    FT_METRIC_MRR_10,
    FT_METRIC_MAP,
    FT_METRIC_NDCG,
    FT_METRIC_NDCG_5,
    FT_METRIC_NDCG_10,
    FT_METRIC_RECALL_1,
    FT_METRIC_RECALL_5,
    FT_METRIC_RECALL_10,
    FT_METRIC_RECALL_100,
    FT_METRIC_EXACT_MATCH,
    FT_METRIC_ANSWER_F1,
    FT_METRIC_HAS_ANSWER_EXACT,
    FT_METRIC_HAS_ANSWER_F1,
    FT_METRIC_NO_ANSWER_EXACT,
    FT_METRIC_BEST_EXACT,
    FT_METRIC_BEST_EXACT_THRESHOLD,
    FT_METRIC_BEST_F1,
    FT_METRIC_BEST_F1_THRESHOLD,
    FT_METRIC_PERPLEXITY,
    FT_METRIC_COUNT
} ft_metric;
typedef enum ft_output_exists { FT_EXISTS_NEW = 0, FT_EXISTS_RESUME, FT_EXISTS_ERROR } ft_output_exists;
typedef enum ft_on_oom { FT_OOM_LADDER = 0, FT_OOM_FAIL } ft_on_oom; // when memory is refused after the start
// How the ranks of a host that share memory come to the sums of their gradients.
typedef enum ft_reduction_kind { FT_REDUCTION_CHAIN = 0, FT_REDUCTION_RING } ft_reduction_kind;
typedef enum ft_shard_kind { FT_SHARD_NONE = 0, FT_SHARD_OPTIMIZER, FT_SHARD_GRADIENTS, FT_SHARDS, FT_SHARD_AUTO = FT_SHARDS } ft_shard_kind;
typedef enum ft_graphs { FT_GRAPHS_AUTO = 0, FT_GRAPHS_ON, FT_GRAPHS_OFF } ft_graphs;
typedef enum ft_active_vocabulary { FT_VOCABULARY_AUTO = 0, FT_VOCABULARY_OFF } ft_active_vocabulary;
typedef enum ft_offload_choice { // but for auto a set
    FT_OFFLOAD_NONE = 0, FT_OFFLOAD_OPTIMIZER = 1, FT_OFFLOAD_ACTIVATIONS = 2, FT_OFFLOAD_ALL = 3, FT_OFFLOAD_TRUNK = 4, FT_OFFLOAD_AUTO = 8
} ft_offload_choice;
typedef enum ft_map_weights { FT_MAP_AUTO = 0, FT_MAP_ON, FT_MAP_OFF } ft_map_weights; // frozen weights, where their file lies
typedef enum ft_recompute { FT_RECOMPUTE_FALSE = 0, FT_RECOMPUTE_TRUE, FT_RECOMPUTE_AUTO } ft_recompute;
typedef enum ft_ranges { FT_RANGES_AUTO = 0, FT_RANGES_ON, FT_RANGES_OFF } ft_ranges;
// Of texts to go on with: what an assistant says, a prompt is answered with, and a text without either whole; or every token of all of them.
typedef enum ft_learn { FT_LEARN_COMPLETION = 0, FT_LEARN_ALL } ft_learn;
typedef enum ft_broken { FT_BROKEN_ERROR = 0, FT_BROKEN_SKIP } ft_broken; // pictures that cannot be read
// Of data files: by name and content, or as told. TEXT is for prediction: every line is a text.
typedef enum ft_format { FT_FORMAT_AUTO = 0, FT_FORMAT_TSV, FT_FORMAT_CSV, FT_FORMAT_JSONL, FT_FORMAT_TEXT, FT_FORMAT_CONLL, FT_FORMAT_SQUAD } ft_format;
// What the windows of a long text come to. AUTO: as the model was trained with, else MEAN.
// What the head reads: as the model's class has it, or the mean of a text's rows.
typedef enum ft_head_pooling { FT_HEAD_AUTO = 0, FT_HEAD_MEAN } ft_head_pooling;
typedef enum ft_window_pooling { FT_POOLING_AUTO = 0, FT_POOLING_MEAN, FT_POOLING_MAX } ft_window_pooling;
// AUTO: fp32, and what bf16 would bring is said. INT8: of predictions, whose rows are fp32 but for products (kernels/ops/int8_product.h).
typedef enum ft_precision { FT_PRECISION_FP32 = 0, FT_PRECISION_BF16, FT_PRECISION_FP16, FT_PRECISION_AUTO, FT_PRECISION_INT8, FT_PRECISIONS } ft_precision;
typedef enum ft_residual { FT_RESIDUAL_FP32 = 0, FT_RESIDUAL_16BIT } ft_residual;
static inline bool ft_precision_is_half(ft_precision p) { return p == FT_PRECISION_BF16 || p == FT_PRECISION_FP16; }

typedef struct ft_int_list {
    int32_t count;
    const int64_t *values;
} ft_int_list;

typedef struct ft_section ft_section; // options.h

// A line about an option of a section that keeps its lines as they are (ft_section.lines). What it means is that section's
// owner's business.
typedef struct ft_option_line {
    const char *option;    // "train.learning_rate"; there is such an option
    const char *text;      // "float(1e-6, 1e-4, log)"
    const char *where;     // file:line, or the override
    const char *directory; // where its relative paths start; NULL: the working directory
    int source;            // 1, 2, ... the files in order, INT_MAX the command line
} ft_option_line;

typedef struct ft_config {
    struct {
        const char *path; // model directory
        const char *stand_in_tokenizer; // directory; see ft_trainer.tokenizer_dir
        ft_init init;
        ft_rules_option tokenizer_rules;
        bool ignore_mismatched_sizes; // a head of another shape in the checkpoint is drawn anew
        double hidden_dropout, attention_dropout, classifier_dropout; // NaN: config.json's
        ft_keep storage;            // of frozen linear layers
        ft_freeze freeze;
        int64_t freeze_layers; // the embeddings and the first k layers; 0 = none
        struct {
            ft_head_pooling pooling;
            ft_int_list hidden;     // widths of hidden layers between the pooled output and the classifier
            const char *activation; // name of an activation
            double dropout;         // after each hidden layer; NaN: the classifier dropout
        } head;
    } model;
    struct {
        ft_adapter_type type;
        const char *path; // an adapter to begin with; "": none
        int64_t r;
        double alpha;
        bool rslora;
        double dropout;
        ft_adapter_mask dropout_mask; // of adapters that read the same rows
        const char *targets, *exclude; // spec/adapter.h
        ft_int_list layers;            // empty: all
        ft_adapter_bias bias;
        const char *modules_to_save;
        ft_adapter_init init;
        const char *rank_pattern, *alpha_pattern;
    } adapter;
    struct {
        const char *train, *validation, *test;  // files
        ft_format format;
        const char *text_column, *label_column; // "" = by usual names (text, sentence, ...; label, ...)
        const char *text_pair;                  // column of the second texts; "": none
        const char *image;                      // column of a list that names its pictures; "": text_column, else by usual names
        int64_t folds, fold;                    // parts of `train` for cross-validation (0: none); the one to judge on, 0: all in turn
        ft_int_list shares;                     // a run on one text in each of these, in turn; empty: one on one in `share`
        int64_t share;
        const char *group;                      // column of data.train whose equal values stay in one fold; "": none
        double validation_split;                // share of `train` held out as validation; 0: none
        const char *label_separator;            // of the classes of a text with several
        int64_t max_length;                     // tokens, specials included; FT_AUTO: min(512, what the model has)
        const char *truncation;                 // "auto", or see text/long_text.h
        ft_learn learn;                         // of causal_lm
        const char *chat_template;              // a file in place of the model's; "": none
        const char *chat_variables;             // a JSON object of what the template is told; "": nothing
        bool label_all_tokens;                  // of words with tags: every token of a word is learned
        const char *cache_dir;                  // of tokenised text; "" = $XDG_CACHE_HOME/ftengine; "none" = no cache
        const char *feature_cache;              // of what a frozen trunk makes of texts: "auto", "off" or a directory
        int64_t feature_cache_limit;            // bytes of it
        int64_t workers;                        // threads that read pictures; FT_AUTO
        ft_broken broken_pictures;
        bool scaled_decoding;
    } data;
    struct {
        bool crop;
        double crop_least, crop_most, crop_narrowest, crop_widest; // shares of the area, width / height
        double flip;
        const char *color_jitter; // engine/data/augment/augment.h
        int64_t randaugment, magnitude;
        double erasing, mixup, cutmix;
    } augment;
    struct {
        ft_task task;
        ft_loss_choice loss;
        double focal_gamma;
        const char *parameters; // which are trained: spec/trained.h
        ft_frozen_dropout frozen_dropout;
        const char *class_weights; // "none", "balanced", or numbers in the order of the classes
        double label_smoothing;
        double layer_lr_decay;
        double epochs;
        int64_t max_steps; // > 0: overrides epochs
        int64_t batch_size, gradient_accumulation_steps;
        int64_t micro_batch_tokens, micro_batch; // FT_AUTO: the whole batch of batch_size sequences
        double learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon, max_grad_norm;
        ft_scheduler lr_scheduler;
        double lr_end, lr_power; // polynomial
        int64_t lr_cycles;       // cosine_with_restarts
        double warmup_ratio;
        int64_t warmup_steps;           // > 0: overrides warmup_ratio
        int64_t gradient_checkpointing; // 0 off, 1 on (every layer), k: every k-th layer's input is kept; FT_AUTO: ft_checkpoint_every
        int64_t seed, data_seed;        // data_seed FT_AUTO: seed
        ft_int_list seeds;              // a run for each, in turn; empty: one with `seed`
        bool drop_last;
        int64_t patience; // evaluations without improvement before stopping; 0: never stops early
        double min_delta; // improvement that counts
        const char *deadline; // "": none; as ft_deadline_left reads it
        int64_t logging_steps;
        ft_precision precision; // of what is computed with; the weights that are trained are fp32
        ft_residual residual;   // of what adds up from layer to layer; 16 bits: those of a precision that has them, else fp32
    } train;
    struct {
        ft_eval_strategy strategy; // no validation file: FT_EVAL_NO
        int64_t steps;             // for FT_EVAL_STEPS
        int64_t batch_size;        // sequences; FT_AUTO: as batch_multiplier says
        int64_t batch_multiplier;  // of training's micro-batches; FT_AUTO: what fits into the memory of a step
        ft_metric metric; // best checkpoint and early stopping
        const char *threshold; // "auto", "tuned", or a number
        int64_t n_best_size, max_answer_length; // of question answering
        ft_window_pooling window_pooling;
        bool calibrate;
    } eval;
    struct {
        int64_t limit; // bytes; 0 = what the device has; < 0: minus millionths of what it has
        int64_t host_limit; // of the whole process: bytes; 0: what the system lets it have; < 0: minus millionths of that
        int64_t max_split_size; // bytes; 0 = no limit
        ft_ranges expandable_segments;
        double garbage_collection_threshold; // share of the limit; 0 = off
        bool timeline;
        ft_on_oom on_oom;
        int64_t min_micro_batch; // sequences
        int64_t max_retries;     // of one piece of work
        ft_active_vocabulary active_vocabulary;
        ft_recompute recompute_activation, recompute_layernorm; // for the backward pass, instead of keeping them
        int64_t loss_rows; // of a language model: rows whose logits exist at once
        ft_map_weights map_weights;
        ft_offload_choice offload; // what lies in the host's memory instead of the device's
    } memory;
    struct {
        const char *name; // cpu | auto
        int64_t threads;  // 0: all cores of this process
        const char *isa;  // auto | portable | avx2 | avx512 | avx512_bf16 | amx_bf16 | neon
        const char *gemm_tuning; // "": none; "auto": the run's own (engine/train/products.c)
        ft_graphs graphs;
        int64_t min_free_memory; // bytes; 0: what the run needs
        bool wait;
        double wait_timeout, check_interval; // seconds; timeout 0: none
    } device;
    struct {
        int64_t channels; // of NCCL, on every GPU of several
        ft_shard_kind shard; // what of AdamW's state is dealt out among them
        ft_reduction_kind reduction; // of ranks on the CPU
        int64_t max_restarts; // when a rank is lost
        int64_t min_ranks;    // with which it goes on then
    } distributed;
    struct {
        const char *dir; // "" = runs/<config>-NNN
        ft_output_exists exists;
        int64_t save_steps; // checkpoint every N steps; 0: only when stopped and at the end of each epoch
        int64_t save_total_limit;
    } output;
    struct {
        bool tensorboard, log_model;
        const char *mlflow, *experiment; // address of a server, or "none"; "": as MLflow's own variables say
    } track;
    struct {
        const char *command, *url; // "": none, or for the url FTENGINE_NOTIFY_URL
        double timeout;            // seconds
    } notify;
    struct {
        const ft_option_line *list; // in order; of an option only those of the last source that has any
        int count;
    } lines;
    struct {
        const ft_section *const *list; // sections that are not a run's, as handed over; ends with NULL; NULL: none
        void **values;                        // of each the struct of its owner
    } others;
    int sources;      // files read so far
    const char *name; // base name of the last config file without extension; "run" without one
    ft_arena arena;
} ft_config;

// Defaults, then the files in order, then the overrides ("section.key=value", paths relative to the working directory).
// A later source that sets an option, or has lines for it in a section that keeps lines, replaces the lines that earlier ones
// had for it.
// Unknown keys and sections, values out of range and lists that are no lists: FT_INVALID with file:line or the
// override, and the nearest name, or the name it has here when it is one known elsewhere.
ft_status ft_config_load(ft_config *config, int file_count, const char *const *files, int override_count,
                         const char *const *overrides);
// The same with sections that are not a run's: a list that ends with NULL and outlives the configuration; of all sections one
// may keep lines. Their options are checked like others, and written by ft_config_write.
ft_status ft_config_load_with(const ft_section *const *others, ft_config *config, int file_count, const char *const *files,
                              int override_count, const char *const *overrides);
void ft_config_free(ft_config *config); // {0} is fine

// The configuration as INI, every option that differs from its default plus, with `all`, the others; absolute paths.
// Lines that are kept are written as they were read. skip_output_dir leaves output.dir, output.exists and all sections that
// are not a run's out (a run directory's config.ini).
ft_status ft_config_write(const ft_config *config, bool all, bool skip_output_dir, FILE *out);
// The reference: every section and option with help, type, bounds, default and names known elsewhere; as a commented INI file, as
// Markdown (docs/reference/options.md) and as the manual page ftengine-config(5).
typedef enum ft_reference_form { FT_REFERENCE_INI, FT_REFERENCE_MARKDOWN, FT_REFERENCE_MAN } ft_reference_form;
ft_status ft_config_write_reference(const ft_section *const *others, ft_reference_form form, FILE *out);
// Text of a manual page: what roff would take for its own is escaped, a line that begins with a dot as well.
void ft_write_roff(FILE *out, const char *text);
// Value of one option as text ("train.batch_size"); for run.json, compare. Iterate with index 0..ft_option_count()-1:
// the options of a run.
int ft_option_count(void);
const char *ft_option_name(int index);                                                // "train.batch_size"
ft_status ft_option_text(const ft_config *config, int index, char *out, size_t size); // FT_FAILED if it does not fit

// Of tasks (task_names.c), by tasks.def.
const char *ft_keep_name(ft_keep keep);         // "nf4", as model.storage has it
const char *ft_task_name(ft_task task);         // "single_label", as train.task has it; AUTO: "auto"
const char *ft_task_problem_type(ft_task task); // "single_label_classification", as config.json has it; AUTO is single label
ft_task ft_task_named(const char *name);        // AUTO: none is called so; so are NULL and "auto"
ft_task ft_task_of_problem_type(const char *problem_type); // AUTO: none of them; so is NULL
// The loss that FT_LOSS_AUTO means: CROSS_ENTROPY, BCE or MSE; AUTO for AUTO.
ft_loss_choice ft_task_loss(ft_task task);
// Can train.loss, and train.label_smoothing, be set so? Of AUTO nobody knows yet: true.
bool ft_task_has_loss(ft_task task, ft_loss_choice loss);
bool ft_task_smooths(ft_task task);
bool ft_loss_smooths(ft_loss_choice loss);
bool ft_loss_reads_targets(ft_loss_choice loss); // a row of numbers a text; else it reads a class

const char *ft_metric_name(ft_metric metric); // "accuracy", "f1_macro", ...
bool ft_metric_greater_is_better(ft_metric metric);

#endif
