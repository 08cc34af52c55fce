// attributes.c - what users and programs hang on studies and trials, and the parameters that a waiting trial must take.
#include "hpo/storage/internal.h"

#include "hpo/storage/pyjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_stored_changeable(const ft_stored *study, int64_t number) {
    if (number < 0 || number >= study->trials.count)
        return ft_fail(FT_FAILED, study->storage->path, "there is no trial %lld", (long long)number);
    ft_trial_state state = study->trials.trial[number].state;
    if (!ft_trial_finished(state)) return FT_OK;
    return ft_fail(FT_FAILED, study->storage->path, "trial %lld is %s and cannot change", (long long)number,
                   ft_trial_state_name(state));
}

ft_status ft_stored_gone(const ft_stored *study, int64_t number) {
    return ft_fail(FT_FAILED, study->storage->path, "trial %lld was finished by another process", (long long)number);
}

// ---- write ----------------------------------------------------------------------------------------------------------

ft_status ft_stored_set_attribute(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                                  const char *json) {
    json_t *parsed;
    FT_TRY(ft_pyjson_parse(json, key, &parsed));
    json_decref(parsed);
    bool user = kind == FT_USER_ATTRIBUTE;
    if (number == FT_STUDY_ATTRIBUTE)
        return ft_sql_run(study->storage, user ? FT_SQL_STUDY_USER_ATTRIBUTE_SET : FT_SQL_STUDY_SYSTEM_ATTRIBUTE_SET,
                          NULL, "itt", study->id, key, json);
    FT_TRY(ft_stored_changeable(study, number));
    int changed;
    FT_TRY(ft_sql_run(study->storage, user ? FT_SQL_USER_ATTRIBUTE_SET : FT_SQL_SYSTEM_ATTRIBUTE_SET, &changed, "itt",
                      study->trial_ids[number], key, json));
    return changed == 1 ? FT_OK : ft_stored_gone(study, number);
}

ft_status ft_stored_set_scalar(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                               const ft_choice *value) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    ft_pyjson_write_scalar(stream.file, value);
    char *json;
    FT_TRY(ft_text_close(&stream, &json));
    ft_status status = ft_stored_set_attribute(study, number, kind, key, json);
    free(json);
    return status;
}

// ---- read -----------------------------------------------------------------------------------------------------------

static ft_status choose(ft_stored *study, int64_t number, ft_attribute_kind kind, ft_sql *id) {
    bool user = kind == FT_USER_ATTRIBUTE, of_study = number == FT_STUDY_ATTRIBUTE;
    if (!of_study && (number < 0 || number >= study->trials.count))
        return ft_fail(FT_FAILED, study->storage->path, "there is no trial %lld", (long long)number);
    *id = of_study ? (user ? FT_SQL_STUDY_USER_ATTRIBUTES : FT_SQL_STUDY_SYSTEM_ATTRIBUTES)
                   : (user ? FT_SQL_USER_ATTRIBUTES : FT_SQL_SYSTEM_ATTRIBUTES);
    return ft_sql_bind(study->storage, *id, "i", of_study ? study->id : study->trial_ids[number]);
}

static ft_status read_rows(ft_stored *study, ft_sql id, ft_arena *arena, ft_attribute **attributes, int *count) {
    int capacity = 0;
    for (;;) {
        bool row;
        FT_TRY(ft_sql_step(study->storage, id, &row));
        if (!row) return FT_OK;
        const char *key = ft_sql_text(study->storage, id, 0), *json = ft_sql_text(study->storage, id, 1);
        if (key == NULL || json == NULL)
            return ft_fail(FT_INVALID, study->storage->path, "an attribute has no name or no value that is UTF-8");
        if (*count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            ft_attribute *grown = ft_arena_alloc(arena, (size_t)capacity * sizeof *grown);
            if (grown == NULL) return FT_NO_MEMORY;
            if (*count > 0) memcpy(grown, *attributes, (size_t)*count * sizeof *grown);
            *attributes = grown;
        }
        ft_attribute *a = &(*attributes)[*count];
        a->key = ft_arena_strdup(arena, key);
        a->json = ft_arena_strdup(arena, json);
        if (a->key == NULL || a->json == NULL) return FT_NO_MEMORY;
        ++*count;
    }
}

ft_status ft_stored_attributes(ft_stored *study, int64_t number, ft_attribute_kind kind, ft_arena *arena,
                               ft_attribute **attributes, int *count) {
    *attributes = NULL;
    *count = 0;
    ft_sql id = FT_SQL_USER_ATTRIBUTES;
    FT_TRY(choose(study, number, kind, &id));
    ft_status status = read_rows(study, id, arena, attributes, count);
    ft_sql_reset(study->storage, id);
    return status;
}

ft_status ft_stored_attribute(ft_stored *study, int64_t number, ft_attribute_kind kind, const char *key,
                              ft_arena *arena, const char **json) {
    *json = NULL;
    ft_attribute *attributes;
    int count;
    FT_TRY(ft_stored_attributes(study, number, kind, arena, &attributes, &count));
    for (int i = 0; i < count; i++)
        if (strcmp(attributes[i].key, key) == 0) *json = attributes[i].json;
    return FT_OK;
}

// ---- fixed parameters -----------------------------------------------------------------------------------------------

static ft_status copy_fixed(ft_stored *study, int64_t number, json_t *object, ft_arena *arena, ft_fixed_param **params,
                            int *count) {
    char where[512];
    snprintf(where, sizeof where, "%.400s, trial %lld", study->storage->path, (long long)number);
    if (!json_is_object(object)) return ft_fail(FT_INVALID, where, "its fixed_params are no JSON object");
    *params = ft_arena_alloc(arena, (json_object_size(object) + 1) * sizeof **params);
    if (*params == NULL) return FT_NO_MEMORY;
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        ft_fixed_param *p = &(*params)[(*count)++];
        if (!ft_pyjson_scalar(json_object_iter_value(at), &p->value))
            return ft_fail(FT_INVALID, where, "a fixed parameter is a list or an object");
        p->name = ft_arena_strdup(arena, json_object_iter_key(at));
        if (p->name == NULL) return FT_NO_MEMORY;
        if (p->value.kind != FT_CHOICE_TEXT) continue;
        p->value.text = ft_arena_strdup(arena, p->value.text);
        if (p->value.text == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

ft_status ft_stored_fixed(ft_stored *study, int64_t number, ft_arena *arena, ft_fixed_param **params, int *count) {
    *params = NULL;
    *count = 0;
    const char *json;
    FT_TRY(ft_stored_attribute(study, number, FT_SYSTEM_ATTRIBUTE, "fixed_params", arena, &json));
    if (json == NULL) return FT_OK;
    json_t *object;
    FT_TRY(ft_pyjson_parse(json, "fixed_params", &object));
    ft_status status = copy_fixed(study, number, object, arena, params, count);
    json_decref(object);
    return status;
}
