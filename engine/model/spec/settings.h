// settings.h - ftengine.json beside a saved model: what config.json has no place for.
#ifndef FT_MODEL_SETTINGS_H
#define FT_MODEL_SETTINGS_H

#include "engine/config/config.h"

typedef struct ft_model_settings {
    const char *text_column, *label_column; // of the training file
    const char *group_column;               // of the queries of a ranking; "": it is the first text
    const char *pair_column;                // of the second texts; "": there are none
    int64_t max_length;
    const char *truncation;                 // data.truncation, not "auto"
    ft_window_pooling window_pooling;       // not AUTO
    ft_rules_option tokenizer_rules;
    ft_learn learn;                         // of causal_lm, and what its chat template was told
    const char *chat_variables;
    double temperature;                     // of the probabilities
    int threshold_count;                    // 0: none were saved
    const double *threshold;                // see train/decision.h
    ft_task task;                           // AUTO: not said
    const char *label_separator;
    int label_count;                        // 0: no ftengine.json, a plain Hugging Face model
    const char *const *labels;              // as the data spell them
    ft_head_pooling head_pooling;
    ft_int_list head_hidden;
    const char *head_activation;
    ft_keep base_storage;                   // and how its weights are kept (model.storage)
    const char *base_path, *base_sha256;    // of an adapter: the model that it stands beside; "": this is a model, or nothing is known
} ft_model_settings;

ft_status ft_model_settings_save(const ft_model_settings *settings, const char *path);
// An absent file gives label_count 0 and defaults (max_length FT_AUTO). Strings live in the arena.
ft_status ft_model_settings_load(const char *path, ft_arena *arena, ft_model_settings *settings);

#endif
