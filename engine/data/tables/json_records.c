// json_records.c - JSON as records: one object a line, or whatever json_values.c finds.
#include "engine/data/tables/records.h"

#include "base/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The parser counts lines from the text it is given: its column is right, the line is ours.
static ft_status at_this_line(const ft_records *r) {
    ft_error error;
    ft_error_save(&error);
    if (error.code != FT_INVALID) return error.code;
    const char *colon = strrchr(error.where, ':');
    int64_t column = colon != NULL ? strtoll(colon + 1, NULL, 10) : 0;
    ft_status status = ft_fail_at(r->file, r->line, column, "%s", error.message);
    ft_hint("JSON lines have one object a line");
    return status;
}

static ft_status parse_line(ft_records *r, size_t length, json_t **object) {
    if (ft_json_parse(r->at, length, "", object) != FT_OK) return at_this_line(r);
    if (json_is_object(*object)) return FT_OK;
    json_decref(*object);
    return ft_fail_at(r->file, r->line, 1, "this line is no JSON object");
}

static size_t line_length(const ft_records *r) {
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    return (size_t)((stop != NULL ? stop : r->end) - r->at);
}

static void pass(ft_records *r, size_t length) {
    r->at += length;
    if (r->at < r->end) r->at++;
    r->line_start = r->at;
    r->line++;
}

// Moves to the next line that has something in it; false at the end.
static bool find_line(ft_records *r, size_t *length) {
    for (; r->at < r->end; pass(r, *length)) {
        *length = line_length(r);
        for (size_t i = 0; i < *length; i++)
            if (strchr(" \t\r", r->at[i]) == NULL || r->at[i] == '\0') return true;
    }
    return false;
}

// The next object, to be given back; NULL: there is none.
static ft_status next_object(ft_records *r, json_t **object) {
    if (r->values) return ft_json_value_next(r, object);
    size_t length;
    *object = NULL;
    if (!find_line(r, &length)) return FT_OK;
    FT_TRY(parse_line(r, length, object));
    r->record_line = r->line;
    pass(r, length);
    return FT_OK;
}

static ft_status take_keys(ft_records *r, const json_t *object) {
    const char **keys = ft_arena_alloc(r->arena, (json_object_size(object) + 1) * sizeof *keys);
    if (keys == NULL) return FT_NO_MEMORY;
    const char *key;
    json_t *value;
    r->keys = keys;
    json_object_foreach((json_t *)object, key, value) {
        if ((keys[r->key_count++] = ft_arena_strdup(r->arena, key)) == NULL) return FT_NO_MEMORY;
    }
    return r->key_count > 0 ? FT_OK : ft_fail_at(r->file, r->record_line, 1, "this object has no keys");
}

ft_status ft_json_record_keys(ft_records *r) {
    const ft_records before = *r; // it is read again as a record
    json_t *object;
    FT_TRY(next_object(r, &object));
    if (object == NULL) return ft_fail_at(r->file, 1, 0, r->in_list ? "the list is empty: no rows" : "the file is empty: no rows");
    ft_status status = take_keys(r, object);
    json_decref(object);
    r->at = before.at;
    r->line = before.line;
    r->line_start = before.line_start;
    r->in_list = before.in_list;
    r->values_read = before.values_read;
    return status;
}

// A scalar as text. NULL: it is none.
static const char *scalar_text(const json_t *value, char number[FT_REAL_TEXT]) {
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_true(value)) return "true";
    if (json_is_false(value)) return "false";
    if (json_is_integer(value)) snprintf(number, FT_REAL_TEXT, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value)) ft_real_text(json_real_value(value), number);
    return json_is_number(value) ? number : NULL;
}

static const json_t *first_of(const json_t *object, const char *const *keys, int count) {
    for (int i = 0; i < count; i++)
        if (json_object_get(object, keys[i]) != NULL) return json_object_get(object, keys[i]);
    return NULL;
}

// A span of a text, [0, 5, "PER"] or {"start": 0, "end": 5, "label": "PER"}, as its three parts in one; malloc()ed. NULL: it is none.
static char *span_text(const json_t *value) {
    static const char *const starts[] = {"start", "start_offset"}, *const ends[] = {"end", "end_offset"};
    static const char *const labels[] = {"label", "entity_group", "type", "tag", "entity"};
    const bool list = json_is_array(value) && json_array_size(value) == 3;
    const json_t *start = list ? json_array_get(value, 0) : first_of(value, starts, 2);
    const json_t *end = list ? json_array_get(value, 1) : first_of(value, ends, 2);
    const json_t *label = list ? json_array_get(value, 2) : first_of(value, labels, 5);
    const char *name = json_string_value(label);
    if (!json_is_integer(start) || !json_is_integer(end) || name == NULL || strchr(name, FT_SPAN_SEPARATOR) != NULL) return NULL;
    const size_t bytes = strlen(name) + 64;
    char *text = malloc(bytes);
    if (text != NULL)
        snprintf(text, bytes, "%lld%c%lld%c%s", (long long)json_integer_value(start), FT_SPAN_SEPARATOR, (long long)json_integer_value(end),
                 FT_SPAN_SEPARATOR, name);
    return text;
}

static ft_status not_a_value(const ft_records *r, const char *key) {
    return ft_fail_at(r->file, r->record_line, 0, "\"%.100s\" is neither a string nor a number nor a list of them%s", key,
                      r->words ? ", or of spans with start, end and label" : "");
}

// Each member and what separates it from the next; an empty list is an empty cell.
static ft_status list_cell(ft_records *r, const char *key, const json_t *list) {
    size_t bytes = 1, at = 0;
    char number[FT_REAL_TEXT];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *member = json_array_get(list, i);
        char *span = r->words ? span_text(member) : NULL;
        const char *text = span != NULL ? span : scalar_text(member, number);
        const bool good = text != NULL && strchr(text, FT_LIST_SEPARATOR) == NULL;
        if (good) bytes += strlen(text) + 1;
        free(span);
        if (!good) return not_a_value(r, key);
    }
    char *cell = ft_arena_alloc(r->arena, bytes);
    if (cell == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < json_array_size(list); i++) {
        char *span = r->words ? span_text(json_array_get(list, i)) : NULL;
        const char *text = span != NULL ? span : scalar_text(json_array_get(list, i), number);
        if (text == NULL) return ft_fail_memory(0, "a span");
        size_t length = strlen(text);
        memcpy(cell + at, text, length);
        free(span);
        at += length;
        cell[at++] = FT_LIST_SEPARATOR; // behind the last one too: a list of one is a list
    }
    cell[at] = '\0';
    return ft_records_add(r, cell, at, r->record_line, 0);
}

static bool is_answers(const json_t *value) {
    return json_is_object(value) || (json_is_array(value) && (json_array_size(value) == 0 || json_is_object(json_array_get(value, 0))));
}

static ft_status answers_cell(ft_records *r, const json_t *value) {
    char where[512];
    snprintf(where, sizeof where, "%.480s:%lld", r->file, (long long)r->record_line);
    char *cell = ft_answers_cell(r->arena, where, value);
    return cell != NULL ? ft_records_add(r, cell, strlen(cell), r->record_line, 0) : ft_error_code();
}

// A list or an object as it stands.
static ft_status json_cell(ft_records *r, const json_t *value) {
    char *line = ft_json_line(value);
    if (line == NULL) return FT_NO_MEMORY;
    char *cell = ft_arena_format(r->arena, "%c%s", FT_JSON_CELL, line);
    free(line);
    return cell != NULL ? ft_records_add(r, cell, strlen(cell), r->record_line, 0) : FT_NO_MEMORY;
}

static ft_status value_cell(ft_records *r, const char *key, const json_t *value) {
    if (r->questions && is_answers(value)) return answers_cell(r, value);
    if (r->language && (json_is_array(value) || json_is_object(value))) return json_cell(r, value);
    if (json_is_array(value)) return list_cell(r, key, value);
    char number[FT_REAL_TEXT];
    const char *text = value == NULL || json_is_null(value) ? "" : scalar_text(value, number);
    if (text == NULL) return not_a_value(r, key);
    char *cell = ft_arena_strdup(r->arena, text);
    return cell != NULL ? ft_records_add(r, cell, strlen(cell), r->record_line, 0) : FT_NO_MEMORY;
}

ft_status ft_json_record_next(ft_records *r, bool *found) {
    json_t *object;
    FT_TRY(next_object(r, &object));
    *found = object != NULL;
    if (!*found) return FT_OK;
    r->count = 0;
    ft_status status = FT_OK;
    for (int i = 0; i < r->key_count && status == FT_OK; i++) {
        if (r->wanted != NULL && !r->wanted[i]) status = ft_records_add(r, r->end, 0, r->record_line, 0); // an empty text
        else status = value_cell(r, r->keys[i], json_object_get(object, r->keys[i]));
    }
    json_decref(object);
    return status;
}
