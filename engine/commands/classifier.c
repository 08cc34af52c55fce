#include "engine/commands/commands.h"

#include "engine/data/tables/formats.h"
#include "engine/hub/cache.h"
#include "base/files.h"
#include "engine/model/model_files.h"
#include "engine/metrics/decision.h"
#include "engine/train/job/fit.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/step/rehearsal.h"
#include "engine/train/repeat/repeat.h"
#include "engine/train/job/run_plan.h"
#include "engine/train/room/limit.h"
#include "kernels/devices/devices.h"
#include "base/log.h"
#include "engine/train/job/task.h"

#include <string.h>

// A run directory stands for the model in it, a name for the snapshot in the cache.
static ft_status model_directory(ft_classifier *c, const char *given) {
    const char *path = ft_path_is_directory(given) ? given : NULL;
    if (path == NULL) FT_TRY(ft_hub_find(given, &c->arena, &path));
    if (path == NULL) {
        ft_fail(FT_INVALID, given, "no such run or model directory, and no such model in the cache");
        ft_hint("give a run directory (runs/...), a directory with config.json and weights, or a name that `ftengine pull` has "
                "fetched");
        return FT_INVALID;
    }
    char *inside = ft_path_join(&c->arena, path, "model"), *config = NULL;
    if (inside != NULL) config = ft_path_join(&c->arena, inside, "config.json");
    if (config == NULL) return FT_NO_MEMORY;
    c->path = ft_path_exists(config) ? inside : path;
    const char **members;
    int count;
    FT_TRY(ft_repeat_members(path, &c->arena, &members, &count));
    if (c->path != path || count == 0) return FT_OK;
    ft_fail(FT_INVALID, path, "this directory holds %d runs, each with a model of its own", count);
    ft_hint("name one of them, as %s", members[0]);
    return FT_INVALID;
}

// A plain Hugging Face model may not say what it is for: then it is what transformers takes it for with class labels.
static void choose_task(ft_classifier *c) {
    const char *type = json_string_value(json_object_get(c->config.json, "problem_type"));
    c->task = ft_task_spec_of(c->settings.task != FT_TASK_AUTO ? c->settings.task : ft_task_of_problem_type(type));
}

static ft_status choose_labels(ft_classifier *c) {
    choose_task(c);
    c->label_names = c->config.label_names;
    c->labels = (ft_labels){.count = (int)c->config.num_labels, .names = c->config.label_names, .kind = c->task->labels,
                            .separator = c->settings.label_separator};
    if (c->settings.label_count == 0) return FT_OK;
    if (c->settings.label_count != c->config.num_labels)
        return ft_fail(FT_INVALID, c->path, "ftengine.json names %d labels, config.json %lld", c->settings.label_count,
                       (long long)c->config.num_labels);
    c->labels.names = (const char **)c->settings.labels;
    return FT_OK;
}

static ft_status load(ft_classifier *c) {
    c->options.model.head.hidden = c->settings.head_hidden;
    c->options.model.head.activation = c->settings.head_activation;
    const ft_config *o = &c->options;
    FT_TRY(ft_device_open(o->device.name, (int)o->device.threads, o->device.isa, &c->device, NULL));
    char tuning[FT_TUNING_HASH];
    FT_TRY(ft_gemm_tuning_apply(o, c->device, tuning));
    ft_memory_options memory = {.allocator = ft_allocator_options_of(&c->options, c->device, 0)};
    FT_TRY(ft_memory_create_with(c->device, &memory, &c->memory));
    FT_TRY(ft_model_create(c->memory, &c->config, &c->options, c->labels.count, &c->model));
    FT_TRY(ft_model_set_loss(&c->model, &(ft_loss){.kind = ft_task_loss(c->task->id)}));
    ft_load_report report;
    FT_TRY(ft_model_load(&c->model, c->path, c->config.initializer_range, 0, &c->arena, &report));
    if (report.drawn_count > 0) {
        ft_fail(FT_INVALID, c->path, "the model has no trained classifier (%s is missing)", report.drawn[0]);
        ft_hint("train one: ftengine train model.path=%s data.train=...", c->path);
        return FT_INVALID;
    }
    return FT_OK;
}

// eval.threshold, else what was saved.
static ft_status choose_thresholds(ft_classifier *c) {
    const int count = ft_threshold_count(&c->task->scoring, c->labels.count);
    double given;
    FT_TRY(ft_threshold_parse(c->options.eval.threshold, &given));
    if (strcmp(c->options.eval.threshold, "tuned") == 0)
        return ft_fail(FT_INVALID, "eval.threshold", "thresholds are tuned in training; a saved model has a number, or its own");
    c->threshold = c->settings.threshold_count > 0 ? c->settings.threshold : NULL;
    if (!(given == given) || count == 0) return FT_OK;
    double *threshold = ft_arena_alloc(&c->arena, (size_t)count * sizeof *threshold);
    if (threshold == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < count; k++) threshold[k] = given;
    c->threshold = threshold;
    return FT_OK;
}

ft_status ft_classifier_open(const ft_section *const *sections, const char *path, int override_count, const char *const *overrides,
                             ft_classifier *c) {
    memset(c, 0, sizeof *c);
    FT_TRY(ft_config_load_with(sections, &c->options, 0, NULL, override_count, overrides));
    FT_TRY(model_directory(c, path));
    FT_TRY(ft_model_config_load(c->path, &c->config));
    char *settings = ft_path_join(&c->arena, c->path, "ftengine.json");
    if (settings == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_model_settings_load(settings, &c->arena, &c->settings));
    // A model of ours goes on as it was trained; of others nobody but the caller knows.
    bool ours = c->settings.label_count > 0;
    const char *truncation = c->options.data.truncation;
    const ft_input_request request = {.directory = c->path,
                                      .rules = ours ? c->settings.tokenizer_rules : c->options.model.tokenizer_rules,
                                      .truncation = strcmp(truncation, "auto") == 0 ? c->settings.truncation : truncation};
    FT_TRY(ft_input_open(&ft_text_input, &request, &c->input));
    FT_TRY(choose_labels(c));
    FT_TRY(choose_thresholds(c));
    FT_TRY(ft_fit_vocabulary(&c->input, &c->config, c->path));
    FT_TRY(ft_fit_max_length(&c->input, &c->config, c->options.data.max_length, c->settings.max_length, &c->max_length));
    return load(c);
}

ft_status ft_classifier_close(ft_classifier *c) {
    ft_model_free(&c->model);
    ft_status status = ft_memory_destroy(c->memory);
    ft_device_close(c->device);
    ft_input_close(&c->input);
    ft_model_config_free(&c->config);
    ft_config_free(&c->options);
    ft_arena_free(&c->arena);
    memset(c, 0, sizeof *c);
    return status;
}

ft_status ft_classifier_build(const ft_classifier *c, const ft_table *table, const char *path, const ft_labels *labels,
                              ft_dataset *dataset) {
    const ft_input_wanted wanted = {.table = table, .path = path, .max_length = c->max_length, .labels = labels};
    return ft_input_build(&c->input, &wanted, dataset, NULL);
}

ft_table_request ft_classifier_request(const ft_classifier *c, ft_format format, ft_table_label need) {
    const char *text = c->options.data.text_column, *pair = c->options.data.text_pair, *label = c->options.data.label_column;
    return (ft_table_request){.format = format != FT_FORMAT_AUTO ? format : c->options.data.format,
                              .text = text[0] != '\0' ? text : c->settings.text_column,
                              .pair = pair[0] != '\0' ? pair : c->settings.pair_column,
                              .label = label[0] != '\0' ? label : c->settings.label_column,
                              .need = need,
                              .empty_labels = c->task->empty_labels};
}

ft_status ft_parse_format(const char *name, bool plain, ft_format *format) {
    if (ft_format_from_name(name, format) && (plain || *format != FT_FORMAT_TEXT)) return FT_OK;
    ft_fail(FT_INVALID, "--format", "unknown format %s%s", name, plain ? "" : " of labelled data");
    ft_hint("auto, tsv, csv, jsonl%s", plain ? " or text (one text a line)" : "");
    return FT_INVALID;
}

static ft_batch_limits batch_limits(const ft_classifier *c) {
    return (ft_batch_limits){.max_tokens = c->tokens_at_once,
                             .max_sequences = c->options.eval.batch_size != FT_AUTO ? c->options.eval.batch_size : 0};
}

// Everything that a pass takes, and what passes before it took. When that is refused, half as many tokens at once will do, down to the
// longest text (memory.on_oom): logits do not depend on it.
static ft_status lay_out(ft_classifier *c, const ft_dataset *data) {
    while (data->examples > 0) {
        const ft_capacity needed = ft_capacity_union(ft_eval_capacity(data, batch_limits(c)), c->laid);
        if (memcmp(&needed, &c->laid, sizeof needed) == 0) return FT_OK;
        ft_memory_drop_layout(c->memory);
        const ft_step_sizes sizes = {.predict = needed, .loss = c->model.loss};
        ft_status status = ft_lay_out_steps(c->memory, &c->config, &c->options, c->model.labels, &sizes);
        c->laid = status == FT_OK ? needed : (ft_capacity){.tokens = 0};
        ft_memory_refusal refusal;
        const bool smaller = c->tokens_at_once > needed.longest && c->options.memory.on_oom == FT_OOM_LADDER;
        if (status != FT_NO_MEMORY || !smaller || !ft_memory_refused(c->memory, &refusal)) FT_TRY(status);
        else {
            ft_memory_trim(c->memory);
            c->tokens_at_once /= 2;
            ft_detail("out of memory, %s were refused: %d tokens at once", refusal.site, c->tokens_at_once);
        }
    }
    return FT_OK;
}

ft_status ft_classifier_predict(ft_classifier *c, const ft_dataset *data, ft_logits *logits, float *losses,
                                ft_predict_progress progress, void *context) {
    FT_TRY(ft_fit_types(data, &c->config, c->path));
    if (c->tokens_at_once == 0 && c->options.eval.batch_size == FT_AUTO) c->tokens_at_once = 4096;
    FT_TRY(lay_out(c, data));
    ft_window_pooling pooling = c->options.eval.window_pooling;
    if (pooling == FT_POOLING_AUTO) pooling = c->settings.window_pooling;
    FT_TRY(ft_predict_dataset(&c->model, c->task, data, batch_limits(c), c->laid, pooling, logits, losses, progress, context));
    if (c->settings.temperature != 1) ft_logits_divide(logits, c->settings.temperature);
    return FT_OK;
}
