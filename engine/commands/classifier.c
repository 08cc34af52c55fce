#include "engine/commands/commands.h"

#include "engine/data/broken_pictures.h"
#include "engine/data/picture_feed.h"
#include "engine/data/pictures/source.h"

#include "engine/data/tables/formats.h"
#include "base/heap.h"
#include "engine/hub/cache.h"
#include "engine/memory/process.h"
#include "base/files.h"
#include "engine/files/weights.h"
#include "engine/model/adapter_files.h"
#include "engine/model/model_files.h"
#include "engine/model/spec/adapter_config.h"
#include "engine/metrics/decision.h"
#include "engine/train/job/fit.h"
#include "engine/train/room/device_choice.h"
#include "engine/train/room/gemm_tuning.h"
#include "engine/train/repeat/repeat.h"
#include "engine/train/room/limit.h"
#include "kernels/devices/devices.h"
#include "base/log.h"
#include "engine/train/job/task.h"

#include <string.h>
#include <unistd.h>

enum { TOKENS_AT_ONCE = 4096 };

// A run directory stands for the model in it, a name for the snapshot in the cache.
ft_status ft_classifier_find(const char *given, ft_arena *arena, const char **directory) {
    const char *path = ft_path_is_directory(given) ? given : NULL;
    if (path == NULL) FT_TRY(ft_hub_find(given, arena, &path));
    if (path == NULL) {
        ft_fail(FT_INVALID, given, "no such run or model directory, and no such model in the cache");
        ft_hint("give a run directory (runs/...), a directory with config.json and weights, or a name that `ftengine pull` has "
                "fetched");
        return FT_INVALID;
    }
    char *inside = ft_path_join(arena, path, "model"), *adapter = ft_path_join(arena, path, "adapter"), *config = NULL;
    if (inside != NULL) config = ft_path_join(arena, inside, "config.json");
    if (config == NULL || adapter == NULL) return FT_NO_MEMORY;
    *directory = ft_path_exists(config) ? inside : ft_adapter_lies_in(adapter) ? adapter : path;
    const char **members;
    int64_t one_in;
    int count;
    FT_TRY(ft_repeat_models(path, arena, &members, &count));
    if (*directory != path || count == 0) return FT_OK;
    if (ft_repeat_is_share(members[0], &one_in)) return ft_classifier_find(members[0], arena, directory); // that of all texts
    ft_fail(FT_INVALID, path, "this directory holds %d runs, each with a model of its own", count);
    ft_hint("name one of them, as %s", members[0]);
    return FT_INVALID;
}

// A plain Hugging Face model may not say what it is for: then it is what transformers takes it for with class labels.
static ft_status choose_task(ft_classifier *c) {
    const char *type = json_string_value(json_object_get(c->config.json, "problem_type"));
    const ft_task named = ft_model_config_is_of_tokens(&c->config)  ? FT_TASK_TOKEN_CLASSIFICATION
                          : ft_model_config_is_of_spans(&c->config) ? FT_TASK_QUESTION_ANSWERING
                          : ft_model_config_is_of_language(&c->config) ? FT_TASK_CAUSAL_LM
                                                                    : ft_task_of_problem_type(type);
    c->task = ft_task_spec_of(c->settings.task != FT_TASK_AUTO ? c->settings.task : named);
    if (ft_task_has_tokens(c->task)) ft_model_config_set_tokens(&c->config);
    if (ft_task_has_spans(c->task)) ft_model_config_set_spans(&c->config);
    if (ft_task_has_language(c->task) && c->config.family->causal) ft_model_config_set_language(&c->config);
    return c->settings.head_pooling == FT_HEAD_MEAN ? ft_model_config_set_mean(&c->config, c->path) : FT_OK;
}

static ft_status choose_labels(ft_classifier *c) {
    c->label_names = c->config.label_names;
    c->labels = (ft_labels){.count = (int)c->config.num_labels, .names = c->config.label_names, .kind = c->task->labels,
                            .separator = c->settings.label_separator, .grouped = c->task->grouped};
    if (c->settings.label_count == 0) return FT_OK;
    if (c->settings.label_count != c->config.num_labels)
        return ft_fail(FT_INVALID, c->path, "ftengine.json names %d labels, config.json %lld", c->settings.label_count,
                       (long long)c->config.num_labels);
    c->labels.names = (const char **)c->settings.labels;
    return FT_OK;
}

// The device, and an allocator that holds nothing yet.
static ft_status open_room(ft_classifier *c) {
    c->options.model.head.hidden = c->settings.head_hidden;
    c->options.model.head.activation = c->settings.head_activation;
    const ft_config *o = &c->options;
    c->room.config = o;
    char why[FT_DEVICE_WHY], idle_gpu[96];
    FT_TRY(ft_device_open(o->device.name, (int)o->device.threads, o->device.isa, &c->room.device, why));
    ft_cpu_tell(why, false, idle_gpu);
    ft_device_tell(c->room.device);
    FT_TRY(ft_gemm_tuning_apply(o, c->room.device, c->room.gemm_tuning));
    if (o->eval.batch_size != FT_AUTO) c->limits.max_sequences = o->eval.batch_size;
    else c->limits.max_tokens = TOKENS_AT_ONCE;
    ft_memory_options memory = {.allocator = ft_allocator_options_of(o, c->room.device, 0)};
    return ft_memory_create_with(c->room.device, &memory, &c->room.memory);
}

// ---- an adapter ---------------------------------------------------------------------------------------------------------

// `named`: by the adapter's files, `given`: by the caller.
static ft_status find_base(ft_classifier *c, const char *given, const char *named) {
    const char *base = given != NULL ? given : named;
    if (base[0] == '\0') {
        ft_fail(FT_INVALID, c->path, "the adapter does not say which model it was trained on");
        ft_hint("--base DIRECTORY names it");
        return FT_INVALID;
    }
    c->weights = ft_path_is_directory(base) ? base : NULL;
    if (c->weights == NULL) FT_TRY(ft_hub_find(base, &c->arena, &c->weights));
    if (c->weights != NULL) return FT_OK;
    ft_fail(FT_INVALID, c->path, "the model that the adapter was trained on is not there: %s", base);
    ft_hint("--base DIRECTORY says where it is%s", given == NULL ? ", `ftengine pull` fetches one by its name" : "");
    return FT_INVALID;
}

// A base with other weights gives other answers, and nothing else would tell.
static ft_status check_base(const ft_classifier *c) {
    char hash[65];
    if (c->settings.base_sha256[0] == '\0') return FT_OK;
    FT_TRY(ft_weights_digest(c->weights, hash));
    if (strcmp(hash, c->settings.base_sha256) == 0) return FT_OK;
    ft_fail(FT_INVALID, c->weights, "the adapter in %s was trained on other weights: sha256 %.12s..., these have %.12s...", c->path,
            c->settings.base_sha256, hash);
    ft_hint("it was trained on %s; --base DIRECTORY names a copy of that", c->settings.base_path);
    return FT_INVALID;
}

// Labels are those of ftengine.json, else as many as the classifier in the file has.
static ft_status choose_outputs(ft_classifier *c) {
    if (c->settings.label_count > 0) {
        c->config.num_labels = c->settings.label_count;
        c->config.label_names = (const char **)c->settings.labels;
        return FT_OK;
    }
    int64_t outputs;
    FT_TRY(ft_adapter_outputs(c->path, &c->config, &outputs));
    if (outputs == c->config.num_labels) return FT_OK;
    const char **names = ft_arena_alloc(&c->arena, (size_t)outputs * sizeof *names);
    for (int64_t i = 0; names != NULL && i < outputs; i++) names[i] = ft_arena_format(&c->arena, "LABEL_%lld", (long long)i);
    c->config.num_labels = outputs;
    c->config.label_names = names;
    return names != NULL ? FT_OK : FT_NO_MEMORY;
}

// Its model's configuration, with its own labels; the tokenizer is its own where it has one.
static ft_status open_adapter(ft_classifier *c, const char *base, const char **tokenizer) {
    const char *named;
    FT_TRY(ft_adapter_config_load(c->path, &c->options, &named));
    if (c->options.model.storage == FT_KEEP_AS_READ || c->options.model.storage == FT_KEEP_AUTO) c->options.model.storage = c->settings.base_storage;
    FT_TRY(find_base(c, base, named));
    FT_TRY(check_base(c));
    FT_TRY(ft_model_config_load(c->weights, &c->config));
    FT_TRY(choose_task(c));
    c->config.pooler_is_drawn = false; // what is saved beside the adapters is listed
    *tokenizer = c->settings.label_count > 0 ? c->path : c->weights;
    return choose_outputs(c);
}

// eval.threshold, else what was saved.
static ft_status choose_thresholds(ft_classifier *c) {
    const int count = ft_threshold_count(&c->task->scoring, c->labels.count);
    double given;
    FT_TRY(ft_threshold_parse(c->options.eval.threshold, c->task, &given));
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

// What the caller says, else what a run of ours was trained with.
static ft_status open_input(ft_classifier *c, const ft_rows_request *rows, const char *tokenizer) {
    const bool ours = c->settings.label_count > 0, automatic = strcmp(c->options.data.truncation, "auto") == 0;
    const char *column;
    FT_TRY(ft_picture_column(&c->options, ft_model_config_reads_pictures(&c->config), c->path, &column));
    c->options.train.task = c->task->id;
    const char *truncation = rows != NULL && automatic ? "head" : automatic && ours ? c->settings.truncation : ft_task_truncation(&c->options, c->task);
    const ft_input_request request = {.directory = tokenizer,
                                      .rules = ours ? c->settings.tokenizer_rules : c->options.model.tokenizer_rules,
                                      .truncation = truncation,
                                      .lower_case = rows != NULL && rows->lower_case,
                                      .learn_all = c->options.data.learn == FT_LEARN_ALL || c->settings.learn == FT_LEARN_ALL,
                                      .chat_template = c->options.data.chat_template,
                                      .chat_variables = c->options.data.chat_variables[0] != '\0' ? c->options.data.chat_variables : c->settings.chat_variables,
                                      .patch = (int32_t)c->config.picture.patch,
                                      .tokens = (int32_t)c->config.picture.tokens,
                                      .workers = ft_picture_workers(&c->options, FT_BESIDE_NOTHING),
                                      .scaled = c->options.data.scaled_decoding};
    if (rows != NULL && ft_model_config_reads_pictures(&c->config)) return ft_fail(FT_INVALID, c->path, "a model of pictures embeds no texts");
    const ft_input_kind *kind = ft_model_config_reads_pictures(&c->config) ? &ft_picture_input
                                : rows != NULL                ? &ft_text_input
                                : ft_task_has_spans(c->task)  ? &ft_question_input
                                : ft_task_has_tokens(c->task) ? &ft_word_input
                                : ft_task_has_language(c->task) ? &ft_language_input
                                                              : &ft_text_input;
    return ft_input_open(kind, &request, &c->input);
}

// Of rows as far as tokenizer and model go: who trained the model had no reason to say less.
static int64_t usual_length(const ft_classifier *c, const ft_rows_request *rows) {
    if (c->settings.max_length != FT_AUTO || rows == NULL) return c->settings.max_length;
    const int64_t said = ft_input_sizes_of(&c->input).longest;
    return rows->max_length > 0 ? rows->max_length : said > 0 ? said : c->config.max_position_embeddings;
}

static ft_status open_as(ft_classifier *c, const ft_section *const *sections, const char *path, const char *base, int override_count,
                         const char *const *overrides, const ft_rows_request *rows) {
    memset(c, 0, sizeof *c);
    c->rows = rows != NULL;
    FT_TRY(ft_config_load_with(sections, &c->options, 0, NULL, override_count, overrides));
    ft_classifier_watch(c);
    c->held = (ft_job_held){.start = ft_process_held(getpid())};
    FT_TRY(ft_classifier_find(path, &c->arena, &c->path));
    const bool adapter = ft_adapter_lies_in(c->path);
    const char *tokenizer = c->weights = c->path;
    char *settings = ft_path_join(&c->arena, c->path, "ftengine.json");
    if (settings == NULL) return FT_NO_MEMORY;
    if (!adapter) FT_TRY(ft_model_config_load(c->path, &c->config)); // says what is no model
    FT_TRY(ft_model_settings_load(settings, &c->arena, &c->settings));
    if (!adapter && base != NULL) return ft_fail(FT_INVALID, "--base", "%s is a model, not an adapter", c->path);
    if (adapter) FT_TRY(open_adapter(c, base, &tokenizer));
    else FT_TRY(choose_task(c));
    FT_TRY(ft_fit_task(c->task, &c->config));
    if (rows != NULL) {
        c->config.last_pooling = false;
        c->config.late_pooling = false;
        c->config.mean_pooling = rows->mean;
        c->config.all_rows = rows->all;
    }
    FT_TRY(open_input(c, rows, tokenizer));
    FT_TRY(choose_labels(c));
    if (rows == NULL) FT_TRY(choose_thresholds(c));
    FT_TRY(ft_fit_vocabulary(&c->input, &c->config, c->path));
    FT_TRY(ft_fit_picture(&c->input, &c->config, c->path));
    FT_TRY(ft_fit_max_length(&c->input, &c->config, c->options.data.max_length, usual_length(c, rows), &c->max_length));
    ft_heap_trim();
    c->held.tokenizer = ft_process_held(getpid());
    return open_room(c);
}

ft_status ft_classifier_open(const ft_section *const *sections, const char *path, const char *base, int override_count,
                             const char *const *overrides, ft_classifier *c) {
    return open_as(c, sections, path, base, override_count, overrides, NULL);
}

ft_status ft_classifier_open_rows(const ft_section *const *sections, const char *path, const char *base, int override_count,
                                  const char *const *overrides, const ft_rows_request *rows, ft_classifier *c) {
    return open_as(c, sections, path, base, override_count, overrides, rows);
}

ft_status ft_classifier_close(ft_classifier *c) {
    ft_heap_watch_end();
    ft_model_free(&c->room.model);
    ft_status status = ft_room_close(&c->room);
    ft_input_close(&c->input);
    ft_model_config_free(&c->config);
    ft_weights_close(c->files);
    ft_config_free(&c->options);
    ft_arena_free(&c->arena);
    memset(c, 0, sizeof *c);
    return status;
}

ft_status ft_classifier_leave_out(const ft_classifier *c, ft_table *table, const char *path) {
    ft_broken_pictures broken;
    if (!ft_model_config_reads_pictures(&c->config) || c->options.data.broken_pictures != FT_BROKEN_SKIP) return FT_OK;
    FT_TRY(ft_picture_input_leave_out(&c->input, table, path, &broken));
    ft_broken_pictures_free(&broken);
    return FT_OK;
}

ft_status ft_classifier_build(const ft_classifier *c, const ft_table *table, const char *path, const ft_labels *labels,
                              ft_dataset *dataset) {
    const ft_input_wanted wanted = {.table = table, .path = path, .max_length = c->max_length, .labels = labels};
    return ft_input_build(&c->input, &wanted, dataset, NULL);
}

ft_table_request ft_classifier_request(const ft_classifier *c, ft_format format, ft_table_label need) {
    const char *text = c->options.data.image[0] != '\0' ? c->options.data.image : c->options.data.text_column, *pair = c->options.data.text_pair, *label = c->options.data.label_column;
    const char *group = c->options.data.group[0] != '\0' ? c->options.data.group : c->settings.group_column;
    return (ft_table_request){.format = format != FT_FORMAT_AUTO ? format : c->options.data.format,
                              .text = text[0] != '\0' ? text : c->settings.text_column,
                              .pair = pair[0] != '\0' ? pair : c->settings.pair_column,
                              .label = label[0] != '\0' ? label : c->settings.label_column,
                              .need = ft_task_has_language(c->task) ? FT_LABEL_IGNORED : need,
                              .id = c->task->grouped && need != FT_LABEL_IGNORED && group[0] != '\0' ? group : NULL,
                              .empty_labels = c->task->empty_labels,
                              .words = ft_task_has_tokens(c->task),
                              .questions = ft_task_has_spans(c->task),
                              .language = ft_task_has_language(c->task),
                              .pictures = ft_model_config_reads_pictures(&c->config)};
}

ft_status ft_parse_format(const char *name, bool plain, ft_format *format) {
    if (ft_format_from_name(name, format) && (plain || *format != FT_FORMAT_TEXT)) return FT_OK;
    ft_fail(FT_INVALID, "--format", "unknown format %s%s", name, plain ? "" : " of labelled data");
    ft_hint("auto, tsv, csv, jsonl, conll, squad%s", plain ? " or text (one text a line)" : "");
    return FT_INVALID;
}
