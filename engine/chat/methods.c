// methods.c - methods of strings and of objects.
#include "engine/chat/functions.h"

#include "base/utf8.h"
#include "engine/chat/syntax.h"

#include <stdlib.h>
#include <string.h>

typedef enum method_id {
    STRIP,
    LSTRIP,
    RSTRIP,
    SPLIT,
    STARTSWITH,
    ENDSWITH,
    UPPER,
    LOWER,
    CAPITALIZE,
    REPLACE,
    JOIN,
    ITEMS,
    KEYS,
    VALUES,
    GET,
    METHOD_COUNT
} method_id;
static const char *const METHODS[METHOD_COUNT] = {"strip",      "lstrip",  "rstrip", "split", "startswith", "endswith", "upper", "lower",
                                                  "capitalize", "replace", "join",   "items", "keys",       "values",   "get"};

int ft_chat_find_method(const char *name) {
    for (int i = 0; i < METHOD_COUNT; i++)
        if (strcmp(METHODS[i], name) == 0) return i;
    return -1;
}
const char *ft_chat_methods(void) {
    return "strip, lstrip, rstrip, split, startswith, endswith, upper, lower, capitalize, replace, join of strings; "
           "items, keys, values, get of objects";
}

typedef struct text {
    const char *at;
    size_t length;
} text;

// A string among the arguments; absent ones, and none where Python takes it for absent, are {NULL}.
static ft_status string_argument(const ft_chat_value *value, const char *method, bool needed, text *out) {
    *out = (text){NULL, 0};
    if (!needed && (value == NULL || (value->kind == FT_CHAT_JSON && json_is_null(value->json)))) return FT_OK;
    if (value == NULL || !ft_chat_is_string(value))
        return ft_fail(FT_INVALID, NULL, ".%s() takes a string, not %s", method, value != NULL ? ft_chat_type_name(value) : "nothing");
    *out = (text){json_string_value(value->json), json_string_length(value->json)};
    return FT_OK;
}

static ft_status most_of(const ft_chat_value *value, const char *method, json_int_t *most) {
    *most = -1;
    if (value == NULL || (value->kind == FT_CHAT_JSON && json_is_null(value->json))) return FT_OK;
    if (value->kind == FT_CHAT_JSON && ft_chat_integer(value->json, most)) return FT_OK;
    return ft_fail(FT_INVALID, NULL, ".%s() takes a whole number", method);
}

static ft_status strip(int id, text s, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"chars"};
    const ft_chat_value *given[1];
    text characters;
    FT_TRY(ft_chat_take(a, METHODS[id], 1, NAMES, given));
    FT_TRY(string_argument(given[0], METHODS[id], false, &characters));
    size_t length = s.length;
    const char *at = ft_chat_strip(s.at, &length, characters.at, characters.length, id != RSTRIP, id != LSTRIP);
    return ft_chat_string(at, length, out);
}

static ft_status append(json_t *list, const char *at, size_t length) {
    if (!ft_chat_work(100 + length)) return ft_chat_work_status();
    return json_array_append_new(list, json_stringn_nocheck(at, length)) == 0 ? FT_OK : ft_fail_memory(length, "a chat template's value");
}

static size_t blanks(const char *at, size_t length) {
    size_t rest = length;
    ft_chat_strip(at, &rest, NULL, 0, true, false);
    return length - rest;
}

static size_t word_at(const char *at, size_t length) {
    const unsigned char *p = (const unsigned char *)at, *end = p + length;
    while (p < end) {
        const unsigned char *here = p;
        if (ft_chat_is_blank(ft_utf8_next(&p))) return (size_t)((const char *)here - at);
    }
    return length;
}

static ft_status split_into(json_t *list, text s, text between, json_int_t most) {
    if (between.at == NULL) { // at white space, of which there is none at the ends
        for (;;) {
            const size_t gap = blanks(s.at, s.length);
            s.at += gap, s.length -= gap;
            if (s.length == 0) return FT_OK;
            size_t n = word_at(s.at, s.length);
            if (most-- == 0) { // the rest as it is, but for its end
                n = s.length;
                ft_chat_strip(s.at, &n, NULL, 0, false, true);
                return append(list, s.at, n);
            }
            FT_TRY(append(list, s.at, n));
            s.at += n, s.length -= n;
        }
    }
    if (between.length == 0) return ft_fail(FT_INVALID, NULL, ".split() at nothing");
    for (const char *found; most-- != 0 && (found = ft_chat_find(s.at, s.length, between.at, between.length)) != NULL;) {
        const size_t n = (size_t)(found - s.at);
        FT_TRY(append(list, s.at, n));
        s.at += n + between.length, s.length -= n + between.length;
    }
    return append(list, s.at, s.length);
}

static ft_status split(text s, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"sep", "maxsplit"};
    const ft_chat_value *given[2];
    text between;
    json_int_t most;
    FT_TRY(ft_chat_take(a, "split", 2, NAMES, given));
    FT_TRY(string_argument(given[0], "split", false, &between));
    FT_TRY(most_of(given[1], "split", &most));
    json_t *list = json_array();
    if (list == NULL) return ft_fail_memory(0, "a chat template's value");
    const ft_status status = split_into(list, s, between, most < 0 ? -1 : most);
    if (status == FT_OK) return ft_chat_value_of(list, out);
    json_decref(list);
    return status;
}

static bool has_end(text s, const char *what, size_t length, bool at_start) {
    return s.length >= length && memcmp(at_start ? s.at : s.at + s.length - length, what, length) == 0;
}

// With a string, or any of several.
static ft_status starts(int id, text s, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"prefix"};
    const ft_chat_value *given[1];
    bool yes = false;
    FT_TRY(ft_chat_take(a, METHODS[id], 1, NAMES, given));
    if (given[0] != NULL && given[0]->kind == FT_CHAT_JSON && json_is_array(given[0]->json)) {
        for (size_t i = 0; i < json_array_size(given[0]->json); i++) {
            const json_t *one = json_array_get(given[0]->json, i);
            if (!ft_chat_work(10 + json_string_length(one) / 16)) break;
            if (!json_is_string(one)) return ft_fail(FT_INVALID, NULL, ".%s() takes strings", METHODS[id]);
            yes = yes || has_end(s, json_string_value(one), json_string_length(one), id == STARTSWITH);
        }
    } else {
        text what;
        FT_TRY(string_argument(given[0], METHODS[id], true, &what));
        yes = has_end(s, what.at, what.length, id == STARTSWITH);
    }
    return ft_chat_value_of(json_boolean(yes), out);
}

// Of ASCII letters; others need Python's tables.
static ft_status letters(int id, text s, const ft_chat_arguments *a, ft_chat_value *out) {
    if (a->count > 0) return ft_fail(FT_INVALID, NULL, ".%s() takes nothing", METHODS[id]);
    char *changed = malloc(s.length + 1);
    if (changed == NULL) return ft_fail_memory(s.length + 1, "a chat template's value");
    bool plain = true;
    for (size_t i = 0; i < s.length; i++) {
        const char c = s.at[i];
        const bool up = id == UPPER || (id == CAPITALIZE && i == 0);
        plain = plain && (unsigned char)c < 0x80;
        changed[i] = (char)(up && c >= 'a' && c <= 'z' ? c - 32 : !up && c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    const ft_status status =
        plain ? ft_chat_string(changed, s.length, out) : ft_fail(FT_INVALID, NULL, ".%s() is supported of ASCII alone", METHODS[id]);
    free(changed);
    return status;
}

static ft_status put_replaced(ft_chat_buffer *into, text s, text old, text new, json_int_t most) {
    if (old.length == 0) return ft_fail(FT_INVALID, NULL, ".replace() of nothing is not supported");
    for (const char *found; most-- != 0 && (found = ft_chat_find(s.at, s.length, old.at, old.length)) != NULL;) {
        const size_t n = (size_t)(found - s.at);
        FT_TRY(ft_chat_put(into, s.at, n));
        FT_TRY(ft_chat_put(into, new.at, new.length));
        s.at += n + old.length, s.length -= n + old.length;
    }
    return ft_chat_put(into, s.at, s.length);
}

static ft_status replace(text s, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"old", "new", "count"};
    const ft_chat_value *given[3];
    text old, new;
    json_int_t most;
    FT_TRY(ft_chat_take(a, "replace", 3, NAMES, given));
    FT_TRY(string_argument(given[0], "replace", true, &old));
    FT_TRY(string_argument(given[1], "replace", true, &new));
    FT_TRY(most_of(given[2], "replace", &most));
    ft_chat_buffer made = {0};
    ft_status status = put_replaced(&made, s, old, new, most < 0 ? -1 : most);
    if (status == FT_OK) status = ft_chat_string(made.data != NULL ? made.data : "", made.length, out);
    free(made.data);
    return status;
}

static ft_status join(const ft_chat_value *between, const ft_chat_arguments *a, ft_chat_value *out) {
    if (a->count != 1) return ft_fail(FT_INVALID, NULL, ".join() takes a list");
    return ft_chat_filter(ft_chat_find_filter("join"), &a->value[0], &(ft_chat_arguments){.value = between, .count = 1}, out);
}

static ft_status of_string(int id, const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    const text s = {json_string_value(v->json), json_string_length(v->json)};
    switch ((method_id)id) {
    case STRIP:
    case LSTRIP:
    case RSTRIP: return strip(id, s, a, out);
    case SPLIT: return split(s, a, out);
    case STARTSWITH:
    case ENDSWITH: return starts(id, s, a, out);
    case UPPER:
    case LOWER:
    case CAPITALIZE: return letters(id, s, a, out);
    case REPLACE: return replace(s, a, out);
    case JOIN: return join(v, a, out);
    default: return ft_fail(FT_INVALID, NULL, "a string has no .%s()", METHODS[id]);
    }
}

static ft_status get(const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    static const char *const NAMES[] = {"key", "default"};
    const ft_chat_value *given[2];
    text key;
    FT_TRY(ft_chat_take(a, "get", 2, NAMES, given));
    FT_TRY(string_argument(given[0], "get", true, &key));
    json_t *found = json_object_get(v->json, key.at);
    if (found == NULL && given[1] != NULL) return *out = ft_chat_value_copy(given[1]), FT_OK;
    return ft_chat_value_of(found != NULL ? json_incref(found) : json_null(), out);
}

static ft_status of_object(int id, const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    if (id == GET) return get(v, a, out);
    if (id < ITEMS) return ft_fail(FT_INVALID, NULL, "an object has no .%s()", METHODS[id]);
    if (a->count > 0) return ft_fail(FT_INVALID, NULL, ".%s() takes nothing", METHODS[id]);
    json_t *list = json_array(), *item;
    const char *key;
    bool failed = list == NULL;
    json_object_foreach(v->json, key, item) {
        if (!ft_chat_work(200 + strlen(key))) break;
        json_t *one = id == KEYS ? json_string_nocheck(key) : id == VALUES ? json_incref(item) : json_pack("[s, O]", key, item);
        failed = failed || one == NULL || json_array_append(list, one) != 0;
        json_decref(one);
    }
    if (!failed) return ft_chat_value_of(list, out);
    json_decref(list);
    return ft_fail_memory(0, "a chat template's value");
}

ft_status ft_chat_method(int id, const ft_chat_value *v, const ft_chat_arguments *a, ft_chat_value *out) {
    *out = (ft_chat_value){0};
    if (v->kind == FT_CHAT_UNDEFINED) return ft_chat_undefined(v);
    if (ft_chat_is_string(v)) return of_string(id, v, a, out);
    if (v->kind == FT_CHAT_JSON && json_is_object(v->json)) return of_object(id, v, a, out);
    return ft_fail(FT_INVALID, NULL, "%s has no .%s()", ft_chat_type_name(v), METHODS[id]);
}
