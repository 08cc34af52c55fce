#include "engine/model/spec/settings.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/metrics/decision.h"
#include "engine/tasks/tasks.h"
#include "engine/text/long_text.h"

#include <string.h>

enum { FORMAT_VERSION = 1, MOST_LABELS = 1 << 20, MOST_LAYERS = 64 };

static const char *const pooling_names[] = {[FT_POOLING_AUTO] = "mean", [FT_POOLING_MEAN] = "mean", [FT_POOLING_MAX] = "max"};
static const char *const rule_names[] = {[FT_TOKENIZE_AS_FILES] = "files", [FT_TOKENIZE_AS_TRANSFORMERS] = "transformers"};

ft_status ft_model_settings_save(const ft_model_settings *s, const char *path) {
    json_t *labels = json_array(), *hidden = json_array();
    json_t *thresholds = json_array();
    bool failed = false;
    for (int i = 0; i < s->threshold_count; i++) ft_json_append(thresholds, json_real(s->threshold[i]), &failed);
    for (int i = 0; i < s->label_count; i++) ft_json_append(labels, json_string(s->labels[i]), &failed);
    for (int i = 0; i < s->head_hidden.count; i++) ft_json_append(hidden, json_integer(s->head_hidden.values[i]), &failed);
    json_t *root = json_pack("{s:i, s:s, s:s, s:{s:s, s:s*, s:s}, s:I, s:s, s:s, s:s, s:o, s:{s:o, s:s}}", "format_version",
                             FORMAT_VERSION, "ftengine", FT_VERSION, "task", ft_task_name(s->task), "columns", "text",
                             s->text_column, "pair", s->pair_column[0] != '\0' ? s->pair_column : NULL, "label", s->label_column,
                             "max_length", (json_int_t)s->max_length, "truncation", s->truncation, "tokenizer_rules",
                             rule_names[s->tokenizer_rules], "label_separator", s->label_separator, "labels", labels, "head",
                             "hidden", hidden, "activation", s->head_activation);
    if (s->group_column[0] != '\0') ft_json_put(json_object_get(root, "columns"), "group", json_string(s->group_column), &failed);
    if (s->learn == FT_LEARN_ALL) ft_json_put(root, "learn", json_string("all"), &failed);
    if (s->chat_variables[0] != '\0') ft_json_put(root, "chat_variables", json_string(s->chat_variables), &failed);
    if (s->head_pooling == FT_HEAD_MEAN) ft_json_put(json_object_get(root, "head"), "pooling", json_string("mean"), &failed);
    ft_json_put(root, "window_pooling", json_string(pooling_names[s->window_pooling]), &failed);
    ft_json_put(root, "temperature", json_real(s->temperature), &failed);
    ft_json_put(root, "thresholds", thresholds, &failed);
    if (s->base_path[0] != '\0')
        ft_json_put(root, "base", json_pack("{s:o, s:s, s:s}", "path", ft_json_text(s->base_path), "sha256", s->base_sha256, "storage", ft_keep_name(s->base_storage)), &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "ftengine.json") : ft_json_save(path, root);
    json_decref(root);
    return status;
}

static ft_status read_list(const json_t *root, const char *path, ft_arena *arena, ft_model_settings *s) {
    const json_t *labels = json_object_get(root, "labels");
    size_t count = json_array_size(labels);
    if (!json_is_array(labels) || count < 1 || count > MOST_LABELS)
        return ft_fail(FT_INVALID, path, "\"labels\" must be a list of names");
    const char **names = ft_arena_alloc(arena, count * sizeof *names);
    if (names == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(labels, i));
        if (name == NULL) return ft_fail(FT_INVALID, path, "\"labels\" must be a list of names, element %zu is not", i);
        names[i] = ft_arena_strdup(arena, name);
        if (names[i] == NULL) return FT_NO_MEMORY;
    }
    s->labels = names;
    s->label_count = (int)count;
    const json_t *head = json_object_get(root, "head"), *hidden = json_object_get(head, "hidden");
    size_t layers = json_array_size(hidden);
    if (layers > MOST_LAYERS) return ft_fail(FT_INVALID, path, "\"head.hidden\" lists more than %d layers", MOST_LAYERS);
    int64_t *widths = ft_arena_alloc(arena, (layers + 1) * sizeof *widths);
    if (widths == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < layers; i++) {
        widths[i] = json_integer_value(json_array_get(hidden, i));
        if (widths[i] < 1 || widths[i] > 1 << 20) return ft_fail(FT_INVALID, path, "\"head.hidden\" element %zu is no width", i);
    }
    s->head_hidden = (ft_int_list){(int32_t)layers, widths};
    const char *activation, *pooling;
    FT_TRY(ft_json_string(head, path, "activation", "relu", &activation));
    FT_TRY(ft_json_string(head, path, "pooling", "auto", &pooling)); // absent in most
    if (strcmp(pooling, "mean") == 0) s->head_pooling = FT_HEAD_MEAN;
    else if (strcmp(pooling, "auto") != 0) return ft_fail(FT_INVALID, path, "\"head.pooling\" must be \"mean\" or \"auto\", not \"%.80s\"", pooling);
    s->head_activation = ft_arena_strdup(arena, activation);
    return s->head_activation != NULL ? FT_OK : FT_NO_MEMORY;
}

// Absent in models saved before there was a choice.
static ft_status read_long_texts(const json_t *root, const char *path, ft_arena *arena, ft_model_settings *s) {
    const char *truncation, *pooling;
    FT_TRY(ft_json_string(root, path, "truncation", "head", &truncation));
    FT_TRY(ft_json_string(root, path, "window_pooling", "mean", &pooling));
    ft_long_text rule;
    FT_TRY(ft_long_text_parse(truncation, path, &rule));
    s->truncation = ft_arena_strdup(arena, truncation);
    if (s->truncation == NULL) return FT_NO_MEMORY;
    for (ft_window_pooling k = FT_POOLING_MEAN; k <= FT_POOLING_MAX; k++)
        if (strcmp(pooling, pooling_names[k]) == 0) return s->window_pooling = k, FT_OK;
    return ft_fail(FT_INVALID, path, "\"window_pooling\" must be \"mean\" or \"max\", not \"%.80s\"", pooling);
}

// Absent in models saved before there was a choice.
static ft_status read_rules(const json_t *root, const char *path, ft_rules_option *rules) {
    const char *name;
    FT_TRY(ft_json_string(root, path, "tokenizer_rules", rule_names[FT_TOKENIZE_AS_FILES], &name));
    for (int i = 0; i < (int)(sizeof rule_names / sizeof rule_names[0]); i++)
        if (strcmp(name, rule_names[i]) == 0) return *rules = (ft_rules_option)i, FT_OK;
    return ft_fail(FT_INVALID, path, "\"tokenizer_rules\" must be \"files\" or \"transformers\", not \"%.80s\"", name);
}

// As many thresholds as the task has, or none.
static ft_status read_decisions(const json_t *root, const char *path, ft_arena *arena, ft_model_settings *s) {
    FT_TRY(ft_json_number(root, path, "temperature", 1, &s->temperature));
    if (!(s->temperature > 0 && s->temperature < 1e6)) return ft_fail(FT_INVALID, path, "\"temperature\" must be above 0");
    const json_t *list = json_object_get(root, "thresholds");
    size_t count = json_array_size(list);
    if (count != 0 && count != (size_t)ft_threshold_count(&ft_task_spec_of(s->task)->scoring, s->label_count))
        return ft_fail(FT_INVALID, path, "\"thresholds\" lists %zu numbers for %d labels", count, s->label_count);
    double *threshold = ft_arena_alloc(arena, (count + 1) * sizeof *threshold);
    if (threshold == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value)) return ft_fail(FT_INVALID, path, "\"thresholds\" element %zu is no number", i);
        threshold[i] = json_number_value(value);
    }
    s->threshold = threshold;
    s->threshold_count = (int)count;
    return FT_OK;
}

static ft_status read_base(const json_t *root, const char *path, ft_arena *arena, ft_model_settings *s) {
    const json_t *base = json_object_get(root, "base");
    const char *where, *hash, *storage;
    int kept = 0;
    FT_TRY(ft_json_string(base, path, "path", "", &where));
    FT_TRY(ft_json_string(base, path, "sha256", "", &hash));
    FT_TRY(ft_json_string(base, path, "storage", ft_keep_name(FT_KEEP_AS_READ), &storage));
    while (kept < FT_KEEP_AUTO && strcmp(storage, ft_keep_name((ft_keep)kept)) != 0) kept++;
    if (kept == FT_KEEP_AUTO) return ft_fail(FT_INVALID, path, "\"storage\": \"%s\" is none that model.storage has", storage);
    s->base_storage = (ft_keep)kept;
    s->base_path = ft_arena_strdup(arena, where);
    s->base_sha256 = ft_arena_strdup(arena, hash);
    return s->base_path != NULL && s->base_sha256 != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status read_all(const json_t *root, const char *path, ft_arena *arena, ft_model_settings *s) {
    int64_t version;
    FT_TRY(ft_json_int(root, path, "format_version", 0, 0, INT32_MAX, &version));
    if (version != FORMAT_VERSION)
        return ft_fail(FT_INVALID, path, "format_version %lld, this program reads %d", (long long)version, FORMAT_VERSION);
    FT_TRY(ft_json_int(root, path, "max_length", FT_AUTO, 3, INT32_MAX, &s->max_length));
    FT_TRY(read_rules(root, path, &s->tokenizer_rules));
    FT_TRY(read_long_texts(root, path, arena, s));
    const json_t *columns = json_object_get(root, "columns");
    const char *text, *pair, *label, *group;
    FT_TRY(ft_json_string(columns, path, "text", "", &text));
    FT_TRY(ft_json_string(columns, path, "pair", "", &pair));
    FT_TRY(ft_json_string(columns, path, "label", "", &label));
    FT_TRY(ft_json_string(columns, path, "group", "", &group));
    s->group_column = ft_arena_strdup(arena, group);
    s->text_column = ft_arena_strdup(arena, text);
    s->pair_column = ft_arena_strdup(arena, pair);
    s->label_column = ft_arena_strdup(arena, label);
    if (s->text_column == NULL || s->group_column == NULL || s->pair_column == NULL || s->label_column == NULL) return FT_NO_MEMORY;
    const char *task, *separator, *learn, *variables;
    FT_TRY(ft_json_string(root, path, "learn", "completion", &learn));
    FT_TRY(ft_json_string(root, path, "chat_variables", "", &variables));
    s->learn = strcmp(learn, "all") == 0 ? FT_LEARN_ALL : FT_LEARN_COMPLETION;
    s->chat_variables = ft_arena_strdup(arena, variables);
    if (s->chat_variables == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_json_string(root, path, "task", "single_label", &task));
    FT_TRY(ft_json_string(root, path, "label_separator", ",", &separator));
    s->task = ft_task_named(task);
    if (s->task == FT_TASK_AUTO) return ft_fail(FT_INVALID, path, "unknown \"task\" %.60s", task);
    s->label_separator = ft_arena_strdup(arena, separator);
    if (s->label_separator == NULL) return FT_NO_MEMORY;
    FT_TRY(read_base(root, path, arena, s));
    FT_TRY(read_list(root, path, arena, s));
    return read_decisions(root, path, arena, s);
}

ft_status ft_model_settings_load(const char *path, ft_arena *arena, ft_model_settings *s) {
    *s = (ft_model_settings){.text_column = "",
                             .pair_column = "",
                             .group_column = "",
                             .label_column = "",
                             .label_separator = ",",
                             .temperature = 1,
                             .max_length = FT_AUTO,
                             .truncation = "head",
                             .chat_variables = "",
                             .window_pooling = FT_POOLING_MEAN,
                             .base_path = "",
                             .base_sha256 = "",
                             .head_activation = "relu"};
    if (!ft_path_exists(path)) return FT_OK;
    json_t *root;
    FT_TRY(ft_json_load(path, &root));
    ft_status status = read_all(root, path, arena, s);
    json_decref(root);
    return status;
}
