// beginning.c - what the study began with: its settings and its data. Trials of one study are compared with each other, so whoever
// goes on is told what has changed since, each time, whoever changed it in between.
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "hpo/storage/pyjson.h"

#include <stdlib.h>
#include <string.h>

static const char settings_key[] = "ftengine:settings", data_key[] = "ftengine:data";

// *value NULL: the study has no such attribute.
static ft_status stored(ft_tuning *t, const char *key, json_t **value) {
    const char *text;
    *value = NULL;
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, key, &t->arena, &text));
    return text != NULL ? ft_pyjson_parse(text, key, value) : FT_OK;
}

static ft_status store(ft_tuning *t, const char *key, const json_t *value) {
    char *line = ft_json_line(value);
    if (line == NULL) return FT_NO_MEMORY;
    ft_status status = ft_stored_set_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, key, line);
    free(line);
    return status;
}

// ---- settings -------------------------------------------------------------------------------------------------------

// Those that decide about results and are not the program's own: the others need not be told.
static json_t *settings_of(const ft_config *config, const ft_config *defaults) {
    json_t *object = json_object();
    bool failed = object == NULL;
    for (int i = 0; i < ft_option_count(); i++) {
        const ft_option *option = ft_option_at(i);
        char own[FT_OPTION_TEXT_LIMIT], initial[FT_OPTION_TEXT_LIMIT];
        const char *text = ft_option_get(config, option, own);
        if (!ft_option_comparable(option) && strcmp(text, ft_option_get(defaults, option, initial)) != 0)
            ft_json_put(object, option->name, ft_json_text(text), &failed);
    }
    if (!failed) return object;
    json_decref(object);
    ft_fail_memory(0, "settings");
    return NULL;
}

static const char *setting(const json_t *settings, const ft_option *option, const ft_config *defaults, char *scratch) {
    const char *text = json_string_value(json_object_get(settings, option->name));
    return text != NULL ? text : ft_option_get(defaults, option, scratch);
}

static void compare_settings(const json_t *before, const json_t *now, const ft_config *defaults) {
    for (int i = 0; i < ft_option_count(); i++) {
        const ft_option *option = ft_option_at(i);
        char one[FT_OPTION_TEXT_LIMIT], two[FT_OPTION_TEXT_LIMIT];
        const char *old = setting(before, option, defaults, one), *new = setting(now, option, defaults, two);
        if (!ft_option_comparable(option) && strcmp(old, new) != 0)
            ft_warn("%s is now %s, the study began with %s: trials may not compare", option->name, new[0] != '\0' ? new : "empty",
                    old[0] != '\0' ? old : "empty");
    }
}

// A study of an older version tells its last settings in config.ini.
static json_t *settings_of_file(const ft_tuning *t, const ft_config *defaults) {
    ft_arena arena = {0};
    ft_config before;
    const char *path = ft_path_join(&arena, t->directory, "config.ini");
    json_t *settings = NULL;
    if (path != NULL && ft_path_exists(path)) {
        if (ft_study_config_load(&before, 1, &path, 0, NULL) == FT_OK) {
            settings = settings_of(&before, defaults);
            ft_config_free(&before);
        }
        ft_error_clear(); // or a person's: it is replaced
    }
    ft_arena_free(&arena);
    return settings;
}

static ft_status check_settings(ft_tuning *t, const ft_config *defaults) {
    json_t *before, *now = settings_of(t->config, defaults);
    if (now == NULL) return FT_NO_MEMORY;
    ft_status status = stored(t, settings_key, &before);
    const bool known = before != NULL;
    if (status == FT_OK && !known) before = settings_of_file(t, defaults);
    if (status == FT_OK && before != NULL) compare_settings(before, now, defaults);
    if (status == FT_OK && !known) status = store(t, settings_key, before != NULL ? before : now);
    json_decref(before);
    json_decref(now);
    return status;
}

// ---- data -----------------------------------------------------------------------------------------------------------

// Under an option's name, the file and its digest. A file of the same name with other bytes is another file.
static ft_status look_at(const char *option, const char *path, json_t *before, bool *changed) {
    char digest[65];
    // Where it is searched its choices may be many. A folder of pictures has no digest before all of it is read; its runs say theirs.
    if (path[0] == '\0' || !ft_path_exists(path) || ft_path_is_directory(path)) return FT_OK;
    FT_TRY(ft_sha256_file(path, digest));
    const json_t *known = json_object_get(before, option);
    const char *file = json_string_value(json_object_get(known, "path")), *old = json_string_value(json_object_get(known, "sha256"));
    if (file != NULL && old != NULL) {
        if (strcmp(file, path) == 0 && strcmp(old, digest) != 0)
            ft_warn("%s holds other data than when the study began: trials may not compare (%s)", path, option);
        return FT_OK;
    }
    bool failed = false;
    ft_json_put(before, option, json_pack("{s:o, s:s}", "path", ft_json_text(path), "sha256", digest), &failed);
    *changed = true;
    return failed ? ft_fail_memory(0, "digests of data") : FT_OK;
}

static ft_status check_data(ft_tuning *t) {
    json_t *before;
    bool changed = false;
    FT_TRY(stored(t, data_key, &before));
    if (before == NULL && (before = json_object()) == NULL) return ft_fail_memory(0, "digests of data");
    ft_status status = look_at("data.train", t->config->data.train, before, &changed);
    if (status == FT_OK) status = look_at("data.validation", t->config->data.validation, before, &changed);
    if (status == FT_OK) status = look_at("data.test", t->config->data.test, before, &changed);
    if (status == FT_OK && changed) status = store(t, data_key, before);
    json_decref(before);
    return status;
}

ft_status ft_tuning_check_beginning(ft_tuning *t) {
    ft_config defaults;
    FT_TRY(ft_config_defaults(&defaults));
    ft_status status = check_settings(t, &defaults);
    ft_config_free(&defaults);
    return status == FT_OK ? check_data(t) : status;
}
