// merge.c - an adapter and the model that it was trained on become one ordinary model.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "base/log.h"
#include "engine/model/adapter_files.h"
#include "engine/model/model_files.h"
#include "engine/model/quantised_files.h"

#include <stdint.h>
#include <string.h>

// The form of the linear layers in the file; FT_QUANTISATIONS: numbers.
static ft_status parse_storage(const char *name, ft_quantisation *format) {
    static const char *const names[] = {[FT_NF4] = "nf4", [FT_NF4_DOUBLE] = "nf4_double", [FT_INT8] = "int8", [FT_QUANTISATIONS] = "fp32"};
    for (*format = 0; *format <= FT_QUANTISATIONS; ++*format)
        if (strcmp(name, names[*format]) == 0) return FT_OK;
    return ft_fail(FT_INVALID, "--storage", "it is nf4, nf4_double, int8 or fp32, got %s", name);
}

static ft_status copy_tokenizer(ft_classifier *c, const char *directory) {
    const char *from = c->settings.label_count > 0 ? c->path : c->weights; // an adapter of ours brings it
    for (const char *const *name = ft_input_files(&c->input); *name != NULL; name++) {
        char *source = ft_path_join(&c->arena, from, *name), *target = ft_path_join(&c->arena, directory, *name);
        if (source == NULL || target == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_copy_file(source, target));
    }
    return FT_OK;
}

// Of a language model, what ends a text that it writes.
static ft_status copy_ends(ft_classifier *c, const char *directory) {
    static const char name[] = "generation_config.json";
    char *source = ft_path_join(&c->arena, c->weights, name), *target = ft_path_join(&c->arena, directory, name);
    if (source == NULL || target == NULL) return FT_NO_MEMORY;
    return ft_task_has_language(c->task) && ft_path_exists(source) ? ft_copy_file(source, target) : FT_OK;
}

// What ftengine.json said of the adapter is true of the model, but for the base.
static ft_status save_settings(ft_classifier *c, const char *directory) {
    char *path = ft_path_join(&c->arena, directory, "ftengine.json");
    ft_model_settings s = c->settings;
    s.base_path = s.base_sha256 = "";
    if (path == NULL) return FT_NO_MEMORY;
    return s.label_count > 0 ? ft_model_settings_save(&s, path) : FT_OK;
}

static ft_status write_model(ft_classifier *c, ft_quantisation format, const char *directory) {
    char *config = ft_path_join(&c->arena, directory, "config.json");
    const ft_custom_head head = {c->settings.head_hidden, c->settings.head_activation, c->room.model.head_dropout, c->settings.head_pooling};
    const bool custom = ft_custom_head_is(&head);
    if (config == NULL) return FT_NO_MEMORY;
    if (format == FT_QUANTISATIONS) FT_TRY(ft_model_save_weights(&c->room.model, directory, NULL, NULL));
    else {
        FT_TRY(ft_model_save_quantised(&c->room.model, format, directory));
        FT_TRY(ft_model_set_quantised(&c->room.model, format, &c->config));
    }
    FT_TRY(ft_model_config_save(&c->config, config, c->labels.count, c->label_names, c->room.model.hidden_dropout, c->room.model.attention_dropout,
                                c->room.model.classifier_dropout, custom ? &head : NULL, ft_task_problem_type(c->task->id)));
    if (custom) FT_TRY(ft_custom_head_save_loader(c->config.family, directory));
    FT_TRY(copy_tokenizer(c, directory));
    FT_TRY(copy_ends(c, directory));
    return save_settings(c, directory);
}

static ft_status merge(ft_classifier *c, ft_quantisation format, const char *output) {
    ft_atomic_dir dir;
    const bool model = c->weights == c->path;
    if (model && format == FT_QUANTISATIONS) {
        ft_fail(FT_INVALID, c->path, "this is a model: there is no adapter to merge");
        ft_hint("give a run that was trained with an adapter, or a directory with adapter_config.json; --storage writes a model in fewer bits");
        return FT_INVALID;
    }
    if (ft_path_exists(output)) return ft_fail(FT_INVALID, "--output", "%s is there already", output);
    const size_t names = ft_model_config_save_bytes(c->labels.count);
    FT_TRY(ft_classifier_load(c, &(ft_classifier_work){.host = names, .files = SIZE_MAX}));
    if (!model) FT_TRY(ft_model_merge_adapters(&c->room.model, &c->config, &c->options));
    FT_TRY(ft_atomic_dir_open(&dir, output));
    ft_status status = write_model(c, format, dir.temporary);
    if (status == FT_OK) status = ft_atomic_dir_commit(&dir);
    else ft_atomic_dir_abort(&dir);
    if (status == FT_OK && !model && format == FT_QUANTISATIONS && c->settings.base_storage > FT_KEEP_FP16)
        ft_info("merged into the model's own weights; the adapter was trained beside weights of fewer bits, which are not quite the same");
    if (status == FT_OK && model) ft_info("quantised  %s  %s", c->path, output);
    else if (status == FT_OK) ft_info("merged     %s and %s  %s", c->weights, c->path, output);
    return status;
}

static ft_status print_document(const char *output) {
    bool failed = false;
    json_t *document = json_pack("{s:i}", "format_version", 1);
    ft_json_put(document, "model", ft_json_text(output), &failed);
    return ft_print_document(document, failed);
}

static ft_status open_and_merge(const ft_section *const *sections, const char *path, const char *base, ft_quantisation format, const char *output) {
    static const char *const exact[] = {"device.name=cpu", "train.precision=fp32", "model.storage=fp32"};
    ft_classifier c;
    ft_status status = ft_classifier_open(sections, path, base, 3, exact, &c);
    if (status == FT_OK) status = merge(&c, format, output);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_classifier_close(&c);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

ft_status ft_command_merge(const ft_section *const *sections, int argc, char **argv) {
    ft_arena arena = {0};
    ft_words words;
    const char *base = NULL, *output = NULL, *storage = "fp32";
    ft_quantisation format = FT_QUANTISATIONS;
    bool json = false;
    const ft_flag flags[] = {
        {"--output", &output, NULL}, {"--base", &base, NULL}, {"--storage", &storage, NULL}, {"--json", NULL, &json}};
    ft_status status = ft_parse_words("merge", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count > 0 || output == NULL)) {
        status = ft_fail(FT_INVALID, "merge", output == NULL ? "--output is missing" : "give one run or adapter directory");
        ft_hint("ftengine merge RUN|ADAPTER --output DIR [--base MODEL] [--storage nf4|nf4_double|int8]");
    }
    if (status == FT_OK) status = parse_storage(storage, &format);
    if (status == FT_OK) status = open_and_merge(sections, words.plain[0], base, format, output);
    if (status == FT_OK && json) status = print_document(output);
    ft_arena_free(&arena);
    return status;
}
