// options_train.c - [train]: how it is trained. Defaults are those of the Hugging Face Trainer where it has one.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_train_section
#include "engine/config/option_rows.h"

#include <math.h>

static const ft_option_choice scheduler_choices[] = {{"linear", FT_SCHED_LINEAR},
                                                     {"cosine", FT_SCHED_COSINE},
                                                     {"constant", FT_SCHED_CONSTANT},
                                                     {"constant_with_warmup", FT_SCHED_CONSTANT_WITH_WARMUP},
                                                     {"polynomial", FT_SCHED_POLYNOMIAL},
                                                     {"cosine_with_restarts", FT_SCHED_COSINE_WITH_RESTARTS},
                                                     {NULL, 0}};
static const ft_option_choice precision_choices[] = {{"fp32", FT_PRECISION_FP32},    {"float32", FT_PRECISION_FP32},
                                                     {"bf16", FT_PRECISION_BF16},    {"bfloat16", FT_PRECISION_BF16},
                                                     {"fp16", FT_PRECISION_FP16},    {"float16", FT_PRECISION_FP16},
                                                     {"half", FT_PRECISION_FP16},    {"auto", FT_PRECISION_AUTO},
                                                     {"int8", FT_PRECISION_INT8},    {NULL, 0}};
static const ft_option_choice residual_choices[] = {{"fp32", FT_RESIDUAL_FP32}, {"16bit", FT_RESIDUAL_16BIT}, {NULL, 0}};
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
    "auto: question_answering where data.train is SQuAD's JSON or has questions, contexts and answers, multi_label where labels are JSON "
    "lists or several columns, else single_label.";
#undef FT_TASK_LINE
static const ft_option_choice loss_choices[] = {{"auto", FT_LOSS_AUTO}, {"cross_entropy", FT_LOSS_CROSS_ENTROPY},
                                                {"focal", FT_LOSS_FOCAL}, {"bce", FT_LOSS_BCE},
                                                {"mse", FT_LOSS_MSE},   {NULL, 0}};

static const ft_option_choice frozen_choices[] = {
    {"auto", FT_FROZEN_DROPOUT_AUTO}, {"on", FT_FROZEN_DROPOUT_ON}, {"off", FT_FROZEN_DROPOUT_OFF}, {NULL, 0}};

static const ft_option rows[] = {
    CHOICE(train.task, FIXED, "auto", task_choices, .elsewhere = "problem_type task task_type task_name",
           .help = task_help),
    CHOICE(train.loss, FIXED, "auto", loss_choices, .elsewhere = "loss_function loss_fn criterion loss_type",
           .help = "What training makes small. auto: cross_entropy, bce or mse, as the task is. focal: of classes, for rare "
                   "ones. The loss of an evaluation is always the plain one of the task."),
    FLOAT(train.focal_gamma, FIXED, "2", 0, 100, .low_open = true, .elsewhere = "gamma focal_loss_gamma",
          .help = "How much the focal loss passes over what is right already."),
    STRING(train.class_weights, FIXED, "none", .elsewhere = "class_weight pos_weight loss_weights weight_per_class",
           .help = "none, balanced (rare classes count more: examples / (classes * examples of the class); of multi_label "
                   "negative / positive examples), or one number a class, in the order of the classes."),
    FLOAT(train.label_smoothing, FIXED, "0", 0, 1, .high_open = true, .elsewhere = "label_smoothing_factor smoothing",
          .help = "Share of a label that is spread over all classes. single_label only."),
    STRING(train.parameters, FIXED, "auto", .elsewhere = "trainable_parameters unfreeze trainable_layers train_only",
           .help = "What is trained, a list. all. classifier: the head alone, a linear probe. biases: every bias (BitFit). Else names of "
                   "the model's file or parts of them between dots, with * and ?: encoder.layer.11, LayerNorm, query.weight. The head "
                   "is trained in any case; what model.freeze and model.freeze_layers freeze is frozen in any case. auto: all."),
    CHOICE(train.frozen_dropout, FIXED, "auto", frozen_choices,
           .help = "Dropout of the model in those layers, and the embeddings, of which nothing is trained. auto: off with "
                   "train.parameters = classifier, else on, as in the Trainer."),
    FLOAT(train.epochs, FIXED, "3", 0, 1e6, .low_open = true,
          .elsewhere = "num_train_epochs num_epochs n_epochs max_epochs epoch",
          .help = "Passes over the training examples; parts of one are possible."),
    INT(train.max_steps, FIXED, "0", 0, INT32_MAX, .unit = "optimizer steps",
        .elsewhere = "max_train_steps num_train_steps total_steps",
        .help = "Ends training after so many steps, whatever train.epochs says. 0: train.epochs decides."),
    INT(train.batch_size, FIXED, "8", 1, 1 << 20, .unit = "sequences",
        .elsewhere = "per_device_train_batch_size per_gpu_train_batch_size train_batch_size bs",
        .help = "Sequences that are drawn together. What is in memory at once is train.micro_batch's business."),
    INT(train.gradient_accumulation_steps, FIXED, "1", 1, 1 << 20, .unit = "batches",
        .elsewhere = "grad_accum grad_accum_steps gradient_accumulation accumulate_grad_batches accumulation_steps",
        .help =
            "Batches whose gradients make one optimizer step: the effective batch is so many times train.batch_size."),
    INT(train.micro_batch_tokens, FREE, "auto", 1, 1LL << 40, .automatic = true, .unit = "tokens",
        .elsewhere = "max_tokens tokens_per_batch max_tokens_per_batch",
        .help = "Tokens computed at once: less memory, the same result. auto: a whole batch, and as many as memory.limit "
                "allows if that does not fit."),
    INT(train.micro_batch, FREE, "auto", 1, 1 << 20, .automatic = true, .unit = "sequences",
        .elsewhere = "micro_batch_size micro_batch_size_per_gpu mini_batch_size",
        .help = "Sequences computed at once: less memory, the same result. auto: a whole batch."),
    FLOAT(train.learning_rate, FIXED, "5e-5", 0, 100, .elsewhere = "lr max_lr peak_lr",
          .help = "Highest learning rate of AdamW."),
    FLOAT(train.weight_decay, FIXED, "0", 0, 100, .elsewhere = "wd adam_weight_decay",
          .help = "Decoupled weight decay. Biases and the parameters of LayerNorms are never decayed."),
    FLOAT(train.adam_beta1, FIXED, "0.9", 0, 1, .high_open = true, .elsewhere = "beta1 adam_beta_1",
          .help = "Decay of AdamW's first moments."),
    FLOAT(train.adam_beta2, FIXED, "0.999", 0, 1, .high_open = true, .elsewhere = "beta2 adam_beta_2",
          .help = "Decay of AdamW's second moments."),
    FLOAT(train.adam_epsilon, FIXED, "1e-8", 0, 1, .low_open = true, .elsewhere = "adam_eps eps epsilon",
          .help = "Added to AdamW's divisor."),
    FLOAT(train.max_grad_norm, FIXED, "1", 0, INFINITY, .elsewhere = "grad_clip gradient_clip_val clip_grad_norm max_norm",
          .help = "Gradients are scaled down to this global norm. 0: they are never clipped."),
    CHOICE(train.lr_scheduler, FIXED, "linear", scheduler_choices,
           .elsewhere = "lr_scheduler_type scheduler schedule lr_schedule",
           .help = "Course of the learning rate behind the warm-up. constant has no warm-up."),
    FLOAT(train.lr_end, FIXED, "1e-7", 0, 100, .help = "polynomial: where the learning rate ends; below train.learning_rate."),
    FLOAT(train.lr_power, FIXED, "1", 0, 100, .low_open = true, .elsewhere = "power polynomial_power",
          .help = "polynomial: the power."),
    INT(train.lr_cycles, FIXED, "1", 1, INT32_MAX, .unit = "cycles", .elsewhere = "num_cycles",
        .help = "cosine_with_restarts: how often the learning rate falls from the top to 0."),
    FLOAT(train.layer_lr_decay, FIXED, "1", 0, 1, .low_open = true, .elsewhere = "llrd layerwise_lr_decay layer_decay lr_layer_decay",
          .help = "Learning rate of a layer beside that of the layer above it: the head has train.learning_rate, the last "
                  "layer so many times that, the embeddings the least."),
    FLOAT(train.warmup_ratio, FIXED, "0", 0, 1, .elsewhere = "warmup_proportion warmup_fraction",
          .help = "Share of all steps in which the learning rate rises from 0."),
    INT(train.warmup_steps, FIXED, "0", 0, ANY, .unit = "optimizer steps", .elsewhere = "num_warmup_steps warmup",
        .help = "Steps in which the learning rate rises from 0. Above 0, train.warmup_ratio is not looked at."),
    EVERY_K(train.gradient_checkpointing, RESUMABLE, "auto", 2, 1024, .automatic = true,
            .elsewhere = "activation_checkpointing grad_checkpointing gradient_checkpointing_enable",
            .help = "Recompute instead of keeping: on keeps the input of every layer, a number k that of every k-th. Same "
                    "result, less memory, about a third more time. auto: off (on with memory.offload = activations or all), and what "
                    "memory.limit asks for if that does not fit."),
    INT(train.seed, FIXED, "42", 0, 4294967295, .elsewhere = "random_seed random_state",
        .help = "Seed of the order of examples, of dropout and of new weights."),
    LIST(train.seeds, FIXED, "", 0, 4294967295,
         .elsewhere = "seed_list random_seeds",
         .help = "A run with each of these seeds in place of train.seed, in a run directory of its own (seed-1, ...). Figures are "
                 "means over the runs. Empty: one run."),
    INT(train.data_seed, FIXED, "auto", 0, 4294967295, .automatic = true, .elsewhere = "shuffle_seed",
        .help = "Seed of the order of examples alone. auto: train.seed."),
    BOOL(train.drop_last, FIXED, "false", .elsewhere = "dataloader_drop_last",
         .help = "Leaves out the examples at the end of an epoch that make no whole batch."),
    INT(train.patience, RESUMABLE, "0", 0, ANY, .unit = "evaluations", .elsewhere = "early_stopping_patience early_stopping",
        .help = "Stops after so many evaluations without a better eval.metric. 0: never."),
    FLOAT(train.min_delta, FIXED, "0", 0, INFINITY, .elsewhere = "early_stopping_threshold early_stopping_min_delta",
          .help = "A change of eval.metric up to this is no improvement."),
    STRING(train.deadline, RESUMABLE, "", .elsewhere = "max_duration time_limit",
           .help = "The run ends in time for this, with the best model so far, evaluated and saved: 90s, 10m or 2h from its begin, or a time of this "
                   "machine's clock, as 18:30 or 2026-11-26T18:30. It ends before the step that could be too late, judging by the longest so "
                   "far; one step is made in any case. The schedule of the learning rate is that of the whole run, which `ftengine train RUN "
                   "train.deadline=` goes on with. Empty: none."),
    INT(train.logging_steps, FIXED, "500", 1, ANY, .unit = "optimizer steps",
        .elsewhere = "log_steps log_every log_every_n_steps log_interval",
        .help = "Steps between two lines of metrics.jsonl."),
    CHOICE(train.precision, FIXED, "fp32", precision_choices, .elsewhere = "fp16 bf16 dtype torch_dtype mixed_precision",
           .help = "Numbers that activations, their gradients and the weights that ops read have. bf16 and fp16 take half "
                   "the memory there and are several times faster on a GPU, but slower on the CPU, which only rounds to "
                   "them; gradients and moments of the weights, and the weights that are trained and saved, are fp32 "
                   "throughout. fp16 scales the loss (a power of two that halves when a step overflows, which is then "
                   "left out, and doubles after 2000 good ones); bf16 needs no scale. auto is fp32, and says what bf16 would take. eval and predict "
                   "take it too, and they alone int8: on a CPU, products of the layers in 8 bits, a step a row and an output."),
    CHOICE(train.residual, FIXED, "fp32", residual_choices, .elsewhere = "residual_in_fp32 fp32_residual_connection",
           .help = "Numbers that what adds up from layer to layer has in bf16 and fp16: the rows that the next sum takes up, and their gradients. 16bit: "
                   "those of train.precision. Norms then move 16 bytes a number, forward and back, where fp32 takes 26, and sums from layer to layer "
                   "are rounded after every block; within an op they stay fp32. Not with train.precision=fp32."),
};
const ft_section ft_train_section = {.name = "train", .help = "How it is trained.", .rows = rows, .count = ROWS};
