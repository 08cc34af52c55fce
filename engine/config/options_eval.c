// options_eval.c - [eval]: how it is judged on the validation file; the names of metrics.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_eval_section
#include "engine/config/option_rows.h"

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
    {"precision_samples", FT_METRIC_PRECISION_SAMPLES},
    {"recall_macro", FT_METRIC_RECALL_MACRO},
    {"recall_micro", FT_METRIC_RECALL_MICRO},
    {"recall_weighted", FT_METRIC_RECALL_WEIGHTED},
    {"recall_binary", FT_METRIC_RECALL_BINARY},
    {"recall", FT_METRIC_RECALL_BINARY},
    {"recall_samples", FT_METRIC_RECALL_SAMPLES},
    {"f1_macro", FT_METRIC_F1_MACRO},
    {"f1_micro", FT_METRIC_F1_MICRO},
    {"f1_weighted", FT_METRIC_F1_WEIGHTED},
    {"f1_binary", FT_METRIC_F1_BINARY},
    {"f1", FT_METRIC_F1_BINARY},
    {"f1_samples", FT_METRIC_F1_SAMPLES},
    {"hamming_loss", FT_METRIC_HAMMING_LOSS},
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
    {"precision_strict", FT_METRIC_PRECISION_STRICT},
    {"recall_strict", FT_METRIC_RECALL_STRICT},
    {"f1_strict", FT_METRIC_F1_STRICT},
    {"f1_macro_strict", FT_METRIC_F1_MACRO_STRICT},
    {"mrr", FT_METRIC_MRR},
    {"mrr_10", FT_METRIC_MRR_10},
    {"mrr@10", FT_METRIC_MRR_10},
    {"map", FT_METRIC_MAP},
    {"ndcg", FT_METRIC_NDCG},
    {"ndcg_5", FT_METRIC_NDCG_5},
    {"ndcg@5", FT_METRIC_NDCG_5},
    {"ndcg_10", FT_METRIC_NDCG_10},
    {"ndcg@10", FT_METRIC_NDCG_10},
    {"recall_1", FT_METRIC_RECALL_1},
    {"recall@1", FT_METRIC_RECALL_1},
    {"recall_5", FT_METRIC_RECALL_5},
    {"recall@5", FT_METRIC_RECALL_5},
    {"recall_10", FT_METRIC_RECALL_10},
    {"recall@10", FT_METRIC_RECALL_10},
    {"recall_100", FT_METRIC_RECALL_100},
    {"recall@100", FT_METRIC_RECALL_100},
    {"exact_match", FT_METRIC_EXACT_MATCH},
    {"answer_f1", FT_METRIC_ANSWER_F1},
    {"has_answer_exact", FT_METRIC_HAS_ANSWER_EXACT},
    {"has_answer_f1", FT_METRIC_HAS_ANSWER_F1},
    {"no_answer_exact", FT_METRIC_NO_ANSWER_EXACT},
    {"best_exact", FT_METRIC_BEST_EXACT},
    {"best_exact_threshold", FT_METRIC_BEST_EXACT_THRESHOLD},
    {"best_f1", FT_METRIC_BEST_F1},
    {"best_f1_threshold", FT_METRIC_BEST_F1_THRESHOLD},
    {"perplexity", FT_METRIC_PERPLEXITY},
    {NULL, 0}};
static const ft_option_choice pooling_choices[] = {
    {"auto", FT_POOLING_AUTO}, {"mean", FT_POOLING_MEAN}, {"max", FT_POOLING_MAX}, {NULL, 0}};

static const ft_option rows[] = {
    CHOICE(eval.strategy, FIXED, "epoch", strategy_choices, .elsewhere = "eval_strategy evaluation_strategy do_eval",
           .help = "When the validation file is evaluated; without one, never."),
    INT(eval.steps, FIXED, "500", 1, ANY, .unit = "optimizer steps", .elsewhere = "eval_steps evaluation_steps eval_every",
        .help = "Steps between two evaluations, for eval.strategy = steps."),
    INT(eval.batch_size, RESUMABLE, "auto", 1, 1 << 20, .automatic = true, .unit = "sequences",
        .elsewhere = "per_device_eval_batch_size per_gpu_eval_batch_size eval_batch_size valid_batch_size",
        .help = "Sequences evaluated at once. auto: what eval.batch_multiplier says."),
    INT(eval.batch_multiplier, RESUMABLE, "auto", 1, 1024, .automatic = true,
        .elsewhere = "eval_batch_multiplier eval_batch_size_multiplier",
        .help = "Evaluated at once: so many times what training has at once. auto: as much as fits into the memory of a training "
                "step, so that evaluation never raises the peak."),
    CHOICE(eval.metric, FIXED, "loss", metric_choices, .elsewhere = "metric_for_best_model best_metric monitor",
           .help = "What makes a checkpoint the best, and what train.patience watches."),
    STRING(eval.threshold, FIXED, "auto", .elsewhere = "threshold decision_threshold prediction_threshold null_score_diff_threshold",
           .help = "From which probability on a label, or the second of two classes, is predicted: a number, or tuned (every "
                   "label for itself where its F1 is best on the validation data, two classes by eval.metric; saved with the "
                   "model). auto: 0.5, and of a saved model what it was saved with. Of question_answering any number: no answer is said "
                   "where its score is higher by more than that than the best answer's; auto: 0 where the training data has "
                   "questions without an answer, else there always is one; tuned: by exact_match, else by F1."),
    INT(eval.n_best_size, FREE, "20", 1, 1000, .elsewhere = "n_best_size n_best",
        .help = "train.task = question_answering: of every window so many rows may begin an answer and so many end one, and so many "
                "answers of a question are written."),
    INT(eval.max_answer_length, FREE, "30", 1, 100000, .unit = "tokens", .elsewhere = "max_answer_length max_answer_len",
        .help = "train.task = question_answering: no answer is longer."),
    BOOL(eval.calibrate, FIXED, "false", .elsewhere = "temperature_scaling calibration calibrate_probabilities",
         .help = "Finds the temperature at which the probabilities fit the validation data best, and saves it with the model."),
    CHOICE(eval.window_pooling, FIXED, "auto", pooling_choices,
           .elsewhere = "window_aggregation sliding_window_aggregation pooling_strategy",
           .help = "data.truncation = windows: what a text's windows come to, in metrics and predictions. mean: of their "
                   "probabilities, or of the values of a regression. max: the largest probability of every class, made to sum "
                   "to 1 where one class holds; the largest value. auto: mean, and what a saved model was trained with."),
};
const ft_section ft_eval_section = {.name = "eval", .help = "How it is judged on the validation file.", .rows = rows, .count = ROWS};

const char *ft_metric_name(ft_metric metric) {
    for (const ft_option_choice *choice = metric_choices; choice->name != NULL; choice++)
        if (choice->value == (int)metric) return choice->name;
    return "?";
}

bool ft_metric_greater_is_better(ft_metric metric) {
    switch (metric) {
    case FT_METRIC_LOSS: case FT_METRIC_LOG_LOSS: case FT_METRIC_BRIER: case FT_METRIC_ECE: case FT_METRIC_MSE: case FT_METRIC_RMSE:
    case FT_METRIC_MAE: case FT_METRIC_HAMMING_LOSS: case FT_METRIC_PERPLEXITY: return false;
    default: return true;
    }
}
