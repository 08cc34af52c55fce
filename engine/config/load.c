// load.c - defaults, then files, then overrides.
#include "engine/config/ini.h"
#include "engine/config/options.h"
#include "engine/io/files.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (1 << 20) // bytes of a configuration file

ft_status ft_config_defaults(ft_config *config) {
    *config = (ft_config){.name = "run"};
    for (int i = 0; i < ft_options_count; i++)
        FT_TRY(ft_option_set(config, &ft_options[i], ft_options[i].initial, NULL, ft_options[i].name));
    return FT_OK;
}

void ft_config_free(ft_config *config) {
    ft_arena_free(&config->arena);
    *config = (ft_config){0};
}

static bool reserved(const char *section) {
    const ft_section *known = ft_section_find(section, strlen(section));
    return known != NULL && known->reserved;
}

typedef struct file_reading {
    ft_config *config;
    const char *directory;
    int lines[FT_OPTION_LIMIT]; // where each option was set, 0 for not yet
} file_reading;

static ft_status set_from_file(void *user, const char *section, const char *key, const char *value, int line,
                               const char *where) {
    file_reading *reading = user;
    char name[128];
    if (reserved(section)) return FT_OK;
    bool whole = snprintf(name, sizeof name, "%s%s%s", section, section[0] == '\0' ? "" : ".", key) < (int)sizeof name;
    int index = whole ? ft_option_find(name) : -1;
    if (index < 0) return ft_option_unknown(section, key, where);
    if (reading->lines[index] != 0)
        return ft_fail(FT_INVALID, where, "%s is set on line %d already", name, reading->lines[index]);
    reading->lines[index] = line;
    return ft_option_set(reading->config, &ft_options[index], value, reading->directory, where);
}

ft_status ft_config_apply_text(ft_config *config, const char *text, size_t size, const char *label,
                               const char *directory) {
    file_reading reading = {.config = config, .directory = directory};
    return ft_ini_parse(text, size, label, set_from_file, &reading);
}

static ft_status apply_file(ft_config *config, const char *path) {
    if (ft_path_is_directory(path)) return ft_fail(FT_INVALID, path, "this is a directory, not a configuration file");
    char *directory = ft_path_absolute(&config->arena, NULL, path);
    if (directory == NULL) return ft_error_code();
    char *slash = strrchr(directory, '/');
    slash[slash == directory] = '\0';

    const char *base = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1, *dot = strrchr(base, '.');
    size_t length = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    config->name = ft_arena_strndup(&config->arena, base, length);
    if (config->name == NULL) return ft_error_code();

    char *text = NULL;
    size_t size;
    FT_TRY(ft_read_file(path, FILE_LIMIT, &text, &size));
    ft_status status = ft_config_apply_text(config, text, size, path, directory);
    free(text);
    return status;
}

ft_status ft_config_apply_override(ft_config *config, const char *override) {
    const char *equals = strchr(override, '='), *from = override, *to = equals;
    if (equals == NULL) return ft_fail(FT_INVALID, override, "an option is given as section.key=value");
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    size_t value_length = strlen(value);
    while (value_length > 0 && isspace((unsigned char)value[value_length - 1]))
        value_length--;

    char *name = ft_arena_strndup(&config->arena, from, (size_t)(to - from));
    char *text = ft_arena_strndup(&config->arena, value, value_length);
    if (name == NULL || text == NULL) return ft_error_code();
    int index = ft_option_find(name);
    if (index >= 0) return ft_option_set(config, &ft_options[index], text, NULL, override);
    char *dot = strchr(name, '.');
    if (dot == NULL) return ft_option_unknown("", name, override);
    *dot = '\0';
    return reserved(name) ? FT_OK : ft_option_unknown(name, dot + 1, override);
}

ft_status ft_config_check(const ft_config *config) {
    if (config->train.patience > 0 && config->eval.strategy == FT_EVAL_NO)
        return ft_fail(FT_INVALID, "train.patience", "early stopping counts evaluations, and eval.strategy is no");
    if (config->eval.batch_size == FT_AUTO && config->train.batch_size * config->eval.batch_multiplier > (1 << 20))
        return ft_fail(FT_INVALID, "eval.batch_multiplier", "%lld times a batch of %lld sequences is more than %d",
                       (long long)config->eval.batch_multiplier, (long long)config->train.batch_size, 1 << 20);
    return FT_OK;
}

ft_status ft_config_load(ft_config *config, int file_count, const char *const *files, int override_count,
                         const char *const *overrides) {
    ft_status status = ft_config_defaults(config);
    for (int i = 0; status == FT_OK && i < file_count; i++)
        status = apply_file(config, files[i]);
    for (int i = 0; status == FT_OK && i < override_count; i++)
        status = ft_config_apply_override(config, overrides[i]);
    if (status == FT_OK) status = ft_config_check(config);
    if (status != FT_OK) ft_config_free(config);
    return status;
}
