// identity.c - what must not change from one call to the next: the space and the objectives. They are kept with
// the study, so that a difference can be told; other options may change, with a warning.
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "hpo/space/fidelity.h"
#include "hpo/storage/pyjson.h"

#include <stdlib.h>
#include <string.h>

static const char space_key[] = "ftengine:space", objective_key[] = "ftengine:objectives",
                  names_key[] = "study:metric_names";

// The rules by option; the further ones of an option get a number behind it.
static json_t *space_json(const ft_tuning *t, ft_arena *arena) {
    json_t *object = json_object();
    bool failed = false;
    for (int i = 0; i < t->space.count; i++) {
        const ft_space_rule *rule = &t->space.rules[i];
        int nth = 1;
        for (int k = 0; k < i; k++)
            nth += t->space.rules[k].option == rule->option;
        const char *name = ft_option_at(rule->option)->name, *text = ft_space_rule_text(rule, arena);
        const char *key = nth == 1 ? name : ft_arena_format(arena, "%s (%d)", name, nth);
        if (key == NULL || text == NULL)
            failed = true;
        else
            ft_json_put(object, key, ft_json_text(text), &failed);
    }
    // Which trials count is as much a part of the search as where it looks.
    if (t->limits.count > 0)
        ft_json_put(object, "study.constraints", ft_json_text(t->options->constraints), &failed);
    // And in what the reports of trials are counted.
    const char *fidelity = ft_fidelity_text(t->config, arena);
    failed = failed || fidelity == NULL;
    if (!failed && fidelity[0] != '\0') ft_json_put(object, "study.fidelity", ft_json_text(fidelity), &failed);
    if (!failed && object != NULL) return object;
    json_decref(object);
    ft_fail_memory(0, "the search space");
    return NULL;
}

static json_t *objectives_json(const ft_tuning *t) {
    json_t *array = json_array();
    bool failed = false;
    for (int i = 0; i < t->objectives.count; i++)
        ft_json_append(array, ft_json_text(t->objectives.list[i].name), &failed);
    if (!failed && array != NULL) return array;
    json_decref(array);
    ft_fail_memory(0, "the objectives");
    return NULL;
}

static ft_status store(ft_tuning *t, ft_attribute_kind kind, const char *key, json_t *value) {
    if (value == NULL) return FT_NO_MEMORY;
    char *line = ft_json_line(value);
    json_decref(value);
    if (line == NULL) return FT_NO_MEMORY;
    ft_status status = ft_stored_set_attribute(t->study, FT_STUDY_ATTRIBUTE, kind, key, line);
    free(line);
    return status;
}

static ft_status store_all(ft_tuning *t, bool named) {
    FT_TRY(store(t, FT_USER_ATTRIBUTE, space_key, space_json(t, &t->arena)));
    FT_TRY(store(t, FT_USER_ATTRIBUTE, objective_key, objectives_json(t)));
    return named ? FT_OK : store(t, FT_SYSTEM_ATTRIBUTE, names_key, objectives_json(t));
}

ft_status ft_tuning_store_identity(ft_tuning *t) {
    // What Optuna's dashboard shows. A study that another program made keeps the names that it was given there.
    const char *names;
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_SYSTEM_ATTRIBUTE, names_key, &t->arena, &names));
    FT_TRY(ft_storage_begin(t->storage));
    ft_status status = store_all(t, names != NULL);
    if (status == FT_OK) return ft_storage_commit(t->storage);
    ft_error error;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    ft_error_restore(&error);
    return status;
}

// ---- differences ----------------------------------------------------------------------------------------------------

static const char *text_of(const json_t *value) { return json_is_string(value) ? json_string_value(value) : "?"; }

// Numbers may be written in another way than by an older version: 1e+02, 100.
static bool same_rule(const char *a, const char *b) {
    for (bool begins = true; *a != '\0' && *b != '\0';) {
        char *end_a, *end_b;
        if (begins && strtod(a, &end_a) == strtod(b, &end_b) && end_a > a && end_b > b) {
            a = end_a, b = end_b;
            begins = false;
            continue;
        }
        if (*a != *b) return false;
        begins = strchr(" ([,=", *a) != NULL;
        a++, b++;
    }
    return *a == *b;
}

static ft_status compare_space(const json_t *before, const json_t *now, const ft_tuning *t) {
    const char *key;
    json_t *value;
    int differences = 0;
    char first[480] = "";
    ft_error_clear();
    json_object_foreach((json_t *)before, key, value) {
        const json_t *other = json_object_get(now, key);
        if (other != NULL && same_rule(text_of(value), text_of(other))) continue;
        if (differences++ == 0)
            snprintf(first, sizeof first, "%s was %.180s, now %.180s", key, text_of(value),
                     other != NULL ? text_of(other) : "not searched");
    }
    json_object_foreach((json_t *)now, key, value) {
        if (json_object_get(before, key) != NULL) continue;
        if (differences++ == 0) snprintf(first, sizeof first, "%s was not searched, now %.200s", key, text_of(value));
    }
    if (differences == 0) return FT_OK;
    ft_fail(FT_INVALID, t->place.name, "this study searches another space: %s", first);
    if (differences > 1) ft_hint("and %d more difference%s", differences - 1, differences == 2 ? "" : "s");
    ft_hint("choose another name with --study for the new space, or go on with %s/config.ini", t->place.directory);
    return FT_INVALID;
}

static ft_status compare_directions(const ft_tuning *t) {
    const ft_trials *trials = &t->study->trials;
    if (trials->objectives != t->objectives.count)
        return ft_fail(FT_INVALID, t->place.name, "this study has %d objective%s, and study.objective has %d",
                       trials->objectives, trials->objectives == 1 ? "" : "s", t->objectives.count);
    for (int i = 0; i < trials->objectives; i++)
        if (trials->maximize[i] != t->objectives.list[i].maximize)
            return ft_fail(FT_INVALID, t->place.name,
                           "this study %ss its objective %d, and study.objective would %s %s",
                           trials->maximize[i] ? "maximize" : "minimize", i + 1,
                           t->objectives.list[i].maximize ? "maximize" : "minimize", t->objectives.list[i].name);
    return FT_OK;
}

static ft_status compare_objectives(const json_t *before, const ft_tuning *t) {
    for (int i = 0; i < t->objectives.count; i++) {
        const char *was = json_string_value(json_array_get(before, (size_t)i));
        if (was == NULL || strcmp(was, t->objectives.list[i].name) == 0) continue;
        ft_fail(FT_INVALID, t->place.name, "this study looks for %s, and study.objective for %s", was,
                t->objectives.list[i].name);
        ft_hint("choose another name with --study");
        return FT_INVALID;
    }
    return FT_OK;
}

// *value = NULL when the study has no such attribute: it was made by another program.
static ft_status stored(ft_tuning *t, const char *key, json_t **value) {
    const char *text;
    *value = NULL;
    FT_TRY(ft_stored_attribute(t->study, FT_STUDY_ATTRIBUTE, FT_USER_ATTRIBUTE, key, &t->arena, &text));
    return text != NULL ? ft_pyjson_parse(text, key, value) : FT_OK;
}

// Another program's trials may have parameters of these names, of other kinds.
static ft_status compare_kinds(const ft_tuning *t) {
    for (int i = 0; i < t->space.count; i++)
        if (t->space.rules[i].name != NULL)
            FT_TRY(ft_stored_compatible(t->study, t->space.rules[i].name, &t->space.rules[i].distribution));
    return FT_OK;
}

ft_status ft_tuning_check_identity(ft_tuning *t) {
    FT_TRY(compare_directions(t));
    json_t *space, *objectives, *now;
    FT_TRY(stored(t, objective_key, &objectives));
    ft_status status = objectives != NULL ? compare_objectives(objectives, t) : FT_OK;
    json_decref(objectives);
    FT_TRY(status);
    FT_TRY(stored(t, space_key, &space));
    if (space == NULL) return compare_kinds(t);
    now = space_json(t, &t->arena);
    status = now != NULL ? compare_space(space, now, t) : FT_NO_MEMORY;
    json_decref(space);
    json_decref(now);
    return status;
}

// ---- config.ini -----------------------------------------------------------------------------------------------------

ft_status ft_tuning_write_config(ft_tuning *t) {
    char *path = ft_path_join(&t->arena, t->directory, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    ft_study_options options = *t->options;
    options.name = t->place.name;
    if (t->learnt_from != NULL) options.learn_from = t->learnt_from; // without passwords
    // Wherever it was called from: it is to be found again from elsewhere.
    const char *database = t->place.remote ? t->place.shown : ft_path_absolute(&t->arena, NULL, t->place.path);
    const char *storage =
        database != NULL && !t->place.remote ? ft_arena_format(&t->arena, "%s%s", t->place.scheme, database) : database;
    if (storage == NULL) return FT_NO_MEMORY;
    options.storage = t->storage_given ? storage : "";
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    fprintf(file.stream, "; `ftengine tune --study %s` goes on with this study.\n",
            strchr(t->place.directory, '/') == strrchr(t->place.directory, '/') ? t->place.name : t->place.directory);
    ft_status status = ft_config_write(t->config, true, true, file.stream);
    fputc('\n', file.stream);
    if (status == FT_OK) status = ft_section_write(&ft_study_section, &options, file.stream);
    fputc('\n', file.stream);
    if (status == FT_OK) status = ft_space_write(&t->space, file.stream);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}
