// csv.c - a study as a table for spreadsheets and data frames.
#include "hpo/exchange/exchange.h"

#include "hpo/storage/pyjson.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A field, quoted when it has to be.
static void put(FILE *out, const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL && text[0] != ' ') {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

static void put_name(FILE *out, const char *kind, const char *name, ft_status *status) {
    ft_arena arena = {0};
    const char *text = ft_arena_format(&arena, "%s_%s", kind, name);
    putc(',', out);
    if (text != NULL)
        put(out, text);
    else
        *status = FT_NO_MEMORY;
    ft_arena_free(&arena);
}

static void put_number(FILE *out, double value) {
    putc(',', out);
    ft_pyjson_write_number(out, value);
}

// The words of JSON without the quotes of texts.
static ft_status put_json(FILE *out, const char *json) {
    json_t *value;
    FT_TRY(ft_pyjson_parse(json, "an attribute", &value));
    put(out, json_is_string(value) ? json_string_value(value) : json);
    json_decref(value);
    return FT_OK;
}

static void put_choice(FILE *out, const ft_choice *choice) {
    if (choice->kind == FT_CHOICE_TEXT)
        put(out, choice->text);
    else
        ft_pyjson_write_scalar(out, choice);
}

static void put_param(FILE *out, const ft_trials *trials, const ft_trial_param *p) {
    putc(',', out);
    if (p == NULL) return;
    const ft_distribution *d = trials->distributions[p->distribution];
    if (d->kind == FT_CATEGORICAL)
        put_choice(out, &d->choices[(int)p->value]);
    else if (d->kind == FT_INT)
        fprintf(out, "%" PRId64, (int64_t)p->value);
    else
        ft_pyjson_write_number(out, p->value);
}

static void put_constraint(FILE *out, const ft_trial *t, int name) {
    for (int i = 0; i < t->constraint_count; i++)
        if (t->constraints[i].name == name) {
            put_number(out, t->constraints[i].value);
            return;
        }
    putc(',', out);
}

// ---- the attributes that some trial has -----------------------------------------------------------------------------

typedef struct key_list {
    const char **key;
    int count, capacity;
    ft_arena arena;
} key_list;

static ft_status add_key(key_list *keys, const char *key) {
    for (int i = 0; i < keys->count; i++)
        if (strcmp(keys->key[i], key) == 0) return FT_OK;
    if (keys->count == keys->capacity) {
        int capacity = 2 * keys->capacity + 16;
        const char **grown = ft_arena_alloc(&keys->arena, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (keys->count > 0) memcpy(grown, keys->key, (size_t)keys->count * sizeof *grown);
        keys->key = grown;
        keys->capacity = capacity;
    }
    const char *copy = ft_arena_strdup(&keys->arena, key);
    if (copy == NULL) return FT_NO_MEMORY;
    keys->key[keys->count++] = copy;
    return FT_OK;
}

static ft_status gather_keys(ft_stored *study, key_list *keys) {
    for (int64_t n = 0; n < study->trials.count; n++) {
        ft_arena arena = {0};
        ft_attribute *attributes;
        int count;
        ft_status status = ft_stored_attributes(study, n, FT_USER_ATTRIBUTE, &arena, &attributes, &count);
        for (int i = 0; status == FT_OK && i < count; i++)
            status = add_key(keys, attributes[i].key);
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status put_attributes(ft_stored *study, int64_t number, const key_list *keys, FILE *out) {
    ft_arena arena = {0};
    ft_attribute *attributes;
    int count;
    ft_status status = ft_stored_attributes(study, number, FT_USER_ATTRIBUTE, &arena, &attributes, &count);
    for (int k = 0; status == FT_OK && k < keys->count; k++) {
        putc(',', out);
        for (int i = 0; status == FT_OK && i < count; i++)
            if (strcmp(attributes[i].key, keys->key[k]) == 0) status = put_json(out, attributes[i].json);
    }
    ft_arena_free(&arena);
    return status;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

static ft_status put_header(const ft_trials *trials, const key_list *keys, FILE *out) {
    ft_status status = FT_OK;
    fputs("number,state", out);
    for (int i = 0; i < trials->objectives; i++)
        if (trials->objectives == 1)
            fputs(",value", out);
        else
            fprintf(out, ",value_%d", i);
    fputs(",datetime_start,datetime_complete,seconds", out);
    for (int i = 0; i < trials->constraint_names.count; i++)
        put_name(out, "constraint", trials->constraint_names.name[i], &status);
    for (int i = 0; i < trials->names.count; i++)
        put_name(out, "param", trials->names.name[i], &status);
    for (int i = 0; i < keys->count; i++)
        put_name(out, "user", keys->key[i], &status);
    fputs("\r\n", out);
    return status;
}

static ft_status put_trial(ft_stored *study, int64_t number, const key_list *keys, FILE *out) {
    const ft_trials *trials = &study->trials;
    const ft_trial *t = &trials->trial[number];
    char start_text[FT_EXCHANGE_TIME], finish_text[FT_EXCHANGE_TIME];
    int64_t start, finish;
    FT_TRY(ft_stored_times(study, number, &start, &finish));
    fprintf(out, "%" PRId64 ",%s", number, ft_trial_state_name(t->state));
    for (int i = 0; i < trials->objectives; i++)
        if (i < t->value_count)
            put_number(out, t->values[i]);
        else
            putc(',', out);
    ft_exchange_time(start, start_text);
    ft_exchange_time(finish, finish_text);
    fprintf(out, ",%s,%s,", start_text, finish_text);
    if (start >= 0 && finish >= 0) fprintf(out, "%.6f", (double)(finish - start) * 1e-6);
    for (int i = 0; i < trials->constraint_names.count; i++)
        put_constraint(out, t, i);
    for (int i = 0; i < trials->names.count; i++)
        put_param(out, trials, ft_trial_find_param(t, i));
    FT_TRY(put_attributes(study, number, keys, out));
    fputs("\r\n", out);
    return FT_OK;
}

ft_status ft_export_csv(ft_stored *study, FILE *out) {
    key_list keys = {.key = NULL};
    ft_status status = gather_keys(study, &keys);
    if (status == FT_OK) status = put_header(&study->trials, &keys, out);
    for (int64_t i = 0; status == FT_OK && i < study->trials.count; i++)
        status = put_trial(study, i, &keys, out);
    ft_arena_free(&keys.arena);
    return status;
}
