// merge.c - an adapter and the model that it was trained on become one ordinary model.
#include "engine/commands/commands.h"

#include "base/files.h"
#include "base/log.h"
#include "engine/model/adapter_files.h"
#include "engine/model/model_files.h"

static ft_status copy_tokenizer(ft_classifier *c, const char *directory) {
    const char *from = c->settings.label_count > 0 ? c->path : c->weights; // an adapter of ours brings it
    for (const char *const *name = ft_input_files(&c->input); *name != NULL; name++) {
        char *source = ft_path_join(&c->arena, from, *name), *target = ft_path_join(&c->arena, directory, *name);
        if (source == NULL || target == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_copy_file(source, target));
    }
    return FT_OK;
}

// What ftengine.json said of the adapter is true of the model, but for the base.
static ft_status save_settings(ft_classifier *c, const char *directory) {
    char *path = ft_path_join(&c->arena, directory, "ftengine.json");
    ft_model_settings s = c->settings;
    s.base_path = s.base_sha256 = "";
    if (path == NULL) return FT_NO_MEMORY;
    return s.label_count > 0 ? ft_model_settings_save(&s, path) : FT_OK;
}

static ft_status write_model(ft_classifier *c, const char *directory) {
    char *config = ft_path_join(&c->arena, directory, "config.json");
    const bool custom = c->settings.head_hidden.count > 0;
    const ft_custom_head head = {c->settings.head_hidden, c->settings.head_activation, c->model.head_dropout};
    if (config == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_model_save_weights(&c->model, directory, NULL, NULL));
    FT_TRY(ft_model_config_save(&c->config, config, c->labels.count, c->label_names, c->model.hidden_dropout, c->model.attention_dropout,
                                c->model.classifier_dropout, custom ? &head : NULL, ft_task_problem_type(c->task->id)));
    if (custom) FT_TRY(ft_custom_head_save_loader(c->config.family, directory));
    FT_TRY(copy_tokenizer(c, directory));
    return save_settings(c, directory);
}

static ft_status merge(ft_classifier *c, const char *output) {
    ft_atomic_dir dir;
    if (c->weights == c->path) {
        ft_fail(FT_INVALID, c->path, "this is a model: there is no adapter to merge");
        ft_hint("give a run that was trained with an adapter, or a directory with adapter_config.json");
        return FT_INVALID;
    }
    if (ft_path_exists(output)) return ft_fail(FT_INVALID, "--output", "%s is there already", output);
    FT_TRY(ft_model_merge_adapters(&c->model, &c->config, &c->options));
    FT_TRY(ft_atomic_dir_open(&dir, output));
    ft_status status = write_model(c, dir.temporary);
    if (status == FT_OK) status = ft_atomic_dir_commit(&dir);
    else ft_atomic_dir_abort(&dir);
    if (status == FT_OK && c->settings.base_storage > FT_KEEP_FP16)
        ft_info("merged into the model's own weights; the adapter was trained beside weights of fewer bits, which are not quite the same");
    if (status == FT_OK) ft_info("merged     %s and %s  %s", c->weights, c->path, output);
    return status;
}

static ft_status open_and_merge(const ft_section *const *sections, const char *path, const char *base, const char *output) {
    static const char *const exact[] = {"device.name=cpu", "train.precision=fp32", "model.storage=fp32"};
    ft_classifier c;
    ft_status status = ft_classifier_open(sections, path, base, 3, exact, &c);
    if (status == FT_OK) status = merge(&c, output);
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
    const char *base = NULL, *output = NULL;
    const ft_flag flags[] = {{"--output", &output, NULL}, {"--base", &base, NULL}};
    ft_status status = ft_parse_words("merge", argc, argv, sizeof flags / sizeof flags[0], flags, &arena, &words);
    if (status == FT_OK && (words.plain_count != 1 || words.override_count > 0 || output == NULL)) {
        status = ft_fail(FT_INVALID, "merge", output == NULL ? "--output is missing" : "give one run or adapter directory");
        ft_hint("ftengine merge RUN|ADAPTER --output DIR [--base MODEL]");
    }
    if (status == FT_OK) status = open_and_merge(sections, words.plain[0], base, output);
    ft_arena_free(&arena);
    return status;
}
