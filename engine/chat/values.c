#include "engine/chat/values.h"

#include "base/heap.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- work ----------------------------------------------------------------------------------------------------------
static const size_t MOST_WORK = (size_t)FT_CHAT_STEP * FT_CHAT_MOST_STEPS;
static _Thread_local size_t work; // values are made and compared in many places, and a thread runs one template at a time

void ft_chat_work_begin(void) { work = 0; }

bool ft_chat_work(size_t units) {
    if (work <= MOST_WORK) work += units < MOST_WORK ? units : MOST_WORK + 1;
    return work <= MOST_WORK;
}

ft_status ft_chat_work_status(void) {
    return work <= MOST_WORK ? FT_OK : ft_fail(FT_INVALID, NULL, "the chat template takes more than %d steps", FT_CHAT_MOST_STEPS);
}

// ---- values --------------------------------------------------------------------------------------------------------
void ft_chat_value_free(ft_chat_value *value) {
    json_decref(value->json);
    json_decref(value->name);
    *value = (ft_chat_value){0};
}

ft_status ft_chat_value_of(json_t *json, ft_chat_value *out) {
    *out = (ft_chat_value){.kind = FT_CHAT_JSON, .json = json};
    return json != NULL ? FT_OK : ft_fail_memory(0, "a chat template's value");
}

ft_status ft_chat_string(const char *text, size_t length, ft_chat_value *out) {
    *out = (ft_chat_value){0};
    if (!ft_chat_work(length)) return ft_chat_work_status();
    return ft_chat_value_of(json_stringn_nocheck(text, length), out);
}

ft_chat_value ft_chat_value_copy(const ft_chat_value *value) {
    json_incref(value->json);
    json_incref(value->name);
    return *value;
}

bool ft_chat_is_string(const ft_chat_value *value) { return value->kind == FT_CHAT_JSON && json_is_string(value->json); }

bool ft_chat_value_true(const ft_chat_value *value) {
    const json_t *json = value->json;
    if (value->kind != FT_CHAT_JSON) return value->kind != FT_CHAT_UNDEFINED;
    switch (json_typeof(json)) {
    case JSON_OBJECT: return json_object_size(json) > 0;
    case JSON_ARRAY: return json_array_size(json) > 0;
    case JSON_STRING: return json_string_length(json) > 0;
    case JSON_INTEGER: return json_integer_value(json) != 0;
    case JSON_REAL: return json_real_value(json) != 0;
    default: return json_is_true(json);
    }
}

const char *ft_chat_type_name(const ft_chat_value *value) {
    static const char *const NAMES[] = {"an object", "a list", "a string", "a number", "a number", "true", "false", "none"};
    if (value->kind == FT_CHAT_UNDEFINED) return "undefined";
    if (value->kind == FT_CHAT_JSON) return NAMES[json_typeof(value->json)];
    return value->kind == FT_CHAT_NAMESPACE ? "a namespace" : value->kind == FT_CHAT_LOOP ? "a loop" : "a macro";
}

// ---- text ----------------------------------------------------------------------------------------------------------
ft_status ft_chat_put(ft_chat_buffer *out, const char *text, size_t length) {
    if (length == 0) return FT_OK;
    if (length > FT_CHAT_MOST_TEXT - out->length) return ft_fail(FT_INVALID, NULL, "the chat template writes more than %d bytes", FT_CHAT_MOST_TEXT);
    if (out->capacity - out->length < length) {
        const size_t capacity = 2 * out->capacity + length + 256;
        char *data = ft_realloc(out->data, capacity, 1, "a rendered chat");
        if (data == NULL) return FT_NO_MEMORY;
        out->data = data, out->capacity = capacity;
    }
    memcpy(out->data + out->length, text, length);
    out->length += length;
    return FT_OK;
}

static ft_status put_text(ft_chat_buffer *out, const char *text) { return ft_chat_put(out, text, strlen(text)); }

// As repr() does: the shortest digits that mean the number, with an exponent from 1e16 on and below 1e-4.
static void real_text(double value, char text[64]) {
    char digits[40];
    int precision = 0;
    if (value == 0) {
        strcpy(text, signbit(value) ? "-0.0" : "0.0");
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*e", precision, value);
    while (strtod(digits, NULL) != value && ++precision < 17);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        const int decimals = precision - exponent;
        snprintf(text, 64, "%.*f", decimals > 1 ? decimals : 1, value);
    } else
        snprintf(text, 64, "%s", digits); // two digits of exponent at least, as there
}

static ft_status put_scalar(ft_chat_buffer *out, const json_t *value, const char *const words[3]) {
    char text[64];
    switch (json_typeof(value)) {
    case JSON_TRUE: return put_text(out, words[0]);
    case JSON_FALSE: return put_text(out, words[1]);
    case JSON_NULL: return put_text(out, words[2]);
    case JSON_INTEGER: snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value)); break;
    default: real_text(json_real_value(value), text); break;
    }
    return put_text(out, text);
}

ft_status ft_chat_put_value(ft_chat_buffer *out, const ft_chat_value *value) {
    static const char *const WORDS[3] = {"True", "False", "None"};
    if (value->kind == FT_CHAT_UNDEFINED) return FT_OK;
    if (ft_chat_is_string(value)) return ft_chat_put(out, json_string_value(value->json), json_string_length(value->json));
    if (value->kind == FT_CHAT_JSON && !json_is_array(value->json) && !json_is_object(value->json)) return put_scalar(out, value->json, WORDS);
    return ft_fail(FT_INVALID, NULL, "%s would be written as Python writes it, which is not supported", ft_chat_type_name(value));
}

static ft_status put_quoted(ft_chat_buffer *out, const char *text, size_t length) {
    static const char PLAIN[] = "\b\f\n\r\t", NAMES[] = "bfnrt";
    FT_TRY(ft_chat_put(out, "\"", 1));
    size_t from = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        const char *known = c != '\0' ? strchr(PLAIN, c) : NULL;
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (known != NULL)
            snprintf(escaped, sizeof escaped, "\\%c", NAMES[known - PLAIN]);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        FT_TRY(ft_chat_put(out, text + from, i - from));
        FT_TRY(put_text(out, escaped));
        from = i + 1;
    }
    FT_TRY(ft_chat_put(out, text + from, length - from));
    return ft_chat_put(out, "\"", 1);
}

static ft_status put_line(ft_chat_buffer *out, int indent, int depth) {
    if (indent < 0) return FT_OK;
    FT_TRY(ft_chat_put(out, "\n", 1));
    for (int i = 0; i < indent * depth; i++)
        FT_TRY(ft_chat_put(out, " ", 1));
    return FT_OK;
}

static ft_status put_json(ft_chat_buffer *out, const json_t *value, int indent, int depth) {
    static const char *const WORDS[3] = {"true", "false", "null"};
    if (!ft_chat_work(50)) return ft_chat_work_status();
    if (json_is_string(value)) return put_quoted(out, json_string_value(value), json_string_length(value));
    const bool list = json_is_array(value);
    if (!list && !json_is_object(value)) return put_scalar(out, value, WORDS);
    const size_t count = list ? json_array_size(value) : json_object_size(value);
    if (count == 0) return put_text(out, list ? "[]" : "{}");
    if (depth > 100) return ft_fail(FT_INVALID, NULL, "a value nested deeper than 100");
    FT_TRY(ft_chat_put(out, list ? "[" : "{", 1));
    const char *key;
    json_t *item;
    size_t i = 0;
    if (list) {
        json_array_foreach(value, i, item) {
            if (i > 0) FT_TRY(put_text(out, indent < 0 ? ", " : ","));
            FT_TRY(put_line(out, indent, depth + 1));
            FT_TRY(put_json(out, item, indent, depth + 1));
        }
    } else {
        json_object_foreach((json_t *)value, key, item) {
            if (i++ > 0) FT_TRY(put_text(out, indent < 0 ? ", " : ","));
            FT_TRY(put_line(out, indent, depth + 1));
            FT_TRY(put_quoted(out, key, strlen(key)));
            FT_TRY(put_text(out, ": "));
            FT_TRY(put_json(out, item, indent, depth + 1));
        }
    }
    FT_TRY(put_line(out, indent, depth));
    return ft_chat_put(out, list ? "]" : "}", 1);
}

ft_status ft_chat_put_json(ft_chat_buffer *out, const json_t *value, int indent) { return put_json(out, value, indent, 0); }

// ---- comparing -----------------------------------------------------------------------------------------------------
bool ft_chat_integer(const json_t *value, json_int_t *out) {
    if (!json_is_integer(value) && !json_is_boolean(value)) return false;
    *out = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
    return true;
}

bool ft_chat_is_deeper(const json_t *value, int depth) {
    const char *key;
    json_t *item;
    size_t i;
    if (!json_is_array(value) && !json_is_object(value)) return false;
    if (depth == 0 || !ft_chat_work(10 * (json_array_size(value) + json_object_size(value)) + 20)) return true;
    json_array_foreach((json_t *)value, i, item)
        if (ft_chat_is_deeper(item, depth - 1)) return true;
    json_object_foreach((json_t *)value, key, item)
        if (ft_chat_is_deeper(item, depth - 1)) return true;
    return false;
}

bool ft_chat_json_equal(const json_t *a, const json_t *b) {
    json_int_t x = 0, y = 0;
    if (!ft_chat_work(10 + (json_is_string(a) ? json_string_length(a) / 16 : 0))) return false;
    if (ft_chat_integer(a, &x) && ft_chat_integer(b, &y)) return x == y;
    if ((json_is_real(a) || ft_chat_integer(a, &x)) && (json_is_real(b) || ft_chat_integer(b, &y)))
        return (json_is_real(a) ? json_real_value(a) : (double)x) == (json_is_real(b) ? json_real_value(b) : (double)y);
    if (json_typeof(a) != json_typeof(b)) return false;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b)) return false;
        for (size_t i = 0; i < json_array_size(a); i++)
            if (!ft_chat_json_equal(json_array_get(a, i), json_array_get(b, i))) return false;
        return true;
    }
    if (!json_is_object(a)) return json_equal(a, b);
    const char *key;
    json_t *item;
    if (json_object_size(a) != json_object_size(b)) return false;
    json_object_foreach((json_t *)a, key, item) {
        const json_t *other = json_object_get(b, key);
        if (other == NULL || !ft_chat_json_equal(item, other)) return false;
    }
    return true;
}

// ---- characters ----------------------------------------------------------------------------------------------------
bool ft_chat_is_blank(uint32_t c) {
    if (c <= 0x20) return c == 0x20 || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

static bool goes(uint32_t code, const char *characters, size_t length) {
    if (characters == NULL) return ft_chat_is_blank(code);
    if (!ft_chat_work(length)) return false;
    const unsigned char *p = (const unsigned char *)characters, *end = p + length;
    while (p < end)
        if (ft_utf8_next(&p) == code) return true;
    return false;
}

const char *ft_chat_strip(const char *text, size_t *length, const char *characters, size_t characters_length, bool left, bool right) {
    const char *end = text + *length;
    while (left && text < end) {
        const unsigned char *p = (const unsigned char *)text;
        if (!goes(ft_utf8_next(&p), characters, characters_length)) break;
        text = (const char *)p;
    }
    while (right && text < end) {
        const char *last = end - 1;
        while (last > text && ((unsigned char)*last & 0xC0) == 0x80)
            last--;
        const unsigned char *p = (const unsigned char *)last;
        if (!goes(ft_utf8_next(&p), characters, characters_length)) break;
        end = last;
    }
    *length = (size_t)(end - text);
    return text;
}

int64_t ft_chat_characters(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

size_t ft_chat_character_at(const char *text, size_t length, int64_t index) {
    size_t at = 0;
    for (; at < length; at++)
        if (((unsigned char)text[at] & 0xC0) != 0x80 && index-- == 0) break;
    return at;
}

const char *ft_chat_find(const char *text, size_t length, const char *what, size_t what_length) {
    if (what_length == 0) return text;
    return length >= what_length ? memmem(text, length, what, what_length) : NULL;
}
