#include "engine/plan/relevance.h"

#include "engine/config/options.h"

#include <string.h>

static const struct {
    const char *name;
    ft_relevance relevance;
} known[] = {
    {"model.hidden_dropout", FT_RELEVANT_ZERO},
    {"model.attention_dropout", FT_IRRELEVANT},
    {"model.classifier_dropout", FT_IRRELEVANT},
    {"model.head.activation", FT_IRRELEVANT},
    {"model.head.dropout", FT_IRRELEVANT},
    {"train.focal_gamma", FT_IRRELEVANT},
    {"train.label_smoothing", FT_IRRELEVANT},
    {"train.layer_lr_decay", FT_IRRELEVANT},
    {"train.epochs", FT_RELEVANT_WITH_TEXTS},
    {"train.max_steps", FT_RELEVANT_WITH_TEXTS},
    {"train.learning_rate", FT_IRRELEVANT},
    {"train.weight_decay", FT_RELEVANT_ZERO_OF_TEXTS}, // rows of the word table that no text reads are decayed when they are saved
    {"train.adam_beta1", FT_IRRELEVANT},
    {"train.adam_beta2", FT_IRRELEVANT},
    {"train.adam_epsilon", FT_RELEVANT_WITH_TEXTS}, // as fp32 it may be 0 though it is not
    {"train.max_grad_norm", FT_IRRELEVANT},
    {"train.lr_scheduler", FT_IRRELEVANT},
    {"train.lr_end", FT_IRRELEVANT},
    {"train.lr_power", FT_IRRELEVANT},
    {"train.lr_cycles", FT_IRRELEVANT},
    {"train.warmup_ratio", FT_IRRELEVANT},
    {"train.warmup_steps", FT_IRRELEVANT},
    {"train.seed", FT_RELEVANT_WITH_TEXTS},
    {"train.data_seed", FT_RELEVANT_WITH_TEXTS},
    {"train.drop_last", FT_RELEVANT_WITH_TEXTS},
    {"train.patience", FT_IRRELEVANT},
    {"train.min_delta", FT_IRRELEVANT},
    {"train.logging_steps", FT_IRRELEVANT},
    {"eval.steps", FT_IRRELEVANT},
    {"eval.metric", FT_IRRELEVANT},
    {"memory.timeline", FT_IRRELEVANT},
    {"memory.on_oom", FT_IRRELEVANT},
    {"memory.min_micro_batch", FT_IRRELEVANT},
    {"memory.max_retries", FT_IRRELEVANT},
};

ft_relevance ft_option_relevance(int option) {
    const ft_option *o = ft_option_at(option);
    for (size_t i = 0; o != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, o->name) == 0) return known[i].relevance;
    return FT_RELEVANT;
}
