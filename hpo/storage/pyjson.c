#include "hpo/storage/pyjson.h"

#include "base/json/json.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    double value;
} words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
enum { WORDS = sizeof words / sizeof words[0] };

// "[" text "]", with {"NaN":0} for NaN and so on. Outside of strings these words have no other meaning in JSON.
static void write_wrapped(FILE *out, const char *text) {
    putc('[', out);
    bool in_string = false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"') {
            in_string = !in_string;
        } else if (in_string && *at == '\\' && at[1] != '\0') {
            putc(*at++, out);
        } else if (!in_string) {
            int i = 0;
            while (i < WORDS && strncmp(at, words[i].word, strlen(words[i].word)) != 0)
                i++;
            if (i < WORDS) {
                fprintf(out, "{\"%s\":0}", words[i].word);
                at += strlen(words[i].word) - 1;
                continue;
            }
        }
        putc(*at, out);
    }
    putc(']', out);
}

ft_status ft_pyjson_parse(const char *text, const char *where, json_t **root) {
    *root = NULL;
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    write_wrapped(stream.file, text);
    char *wrapped = NULL;
    FT_TRY(ft_text_close(&stream, &wrapped));
    size_t length = stream.length;
    json_t *list = NULL;
    ft_status status = ft_json_parse(wrapped, length, where, &list);
    if (status == FT_OK && json_array_size(list) != 1)
        status = ft_fail(FT_INVALID, where, "not valid JSON: one value is needed");
    if (status == FT_OK) *root = json_incref(json_array_get(list, 0));
    json_decref(list);
    free(wrapped);
    return status;
}

bool ft_pyjson_number(const json_t *value, double *out) {
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    if (!json_is_object(value) || json_object_size(value) != 1) return false;
    for (int i = 0; i < WORDS; i++)
        if (json_object_get(value, words[i].word) != NULL) {
            *out = words[i].value;
            return true;
        }
    return false;
}

bool ft_pyjson_scalar(const json_t *value, ft_choice *out) {
    *out = (ft_choice){.kind = FT_CHOICE_NULL};
    if (json_is_null(value)) return true;
    if (json_is_boolean(value)) {
        *out = (ft_choice){.kind = FT_CHOICE_BOOL, .integer = json_is_true(value)};
    } else if (json_is_integer(value)) {
        *out = (ft_choice){.kind = FT_CHOICE_INT, .integer = json_integer_value(value)};
    } else if (json_is_string(value)) {
        *out = (ft_choice){.kind = FT_CHOICE_TEXT, .text = json_string_value(value)};
    } else {
        out->kind = FT_CHOICE_FLOAT;
        return ft_pyjson_number(value, &out->number);
    }
    return true;
}

// The code point at *text, which moves on. A byte that is no UTF-8 stands for itself: it came from outside and must not
// stop a study from being stored.
static unsigned next_code_point(const char **text) {
    const unsigned char *c = (const unsigned char *)*text, *next = c;
    size_t length = 1;
    while (length < 4 && (c[length] & 0xC0) == 0x80)
        length++;
    if (ft_utf8_valid_prefix(*text, length) == 0) return (*text)++, c[0];
    const unsigned value = ft_utf8_next(&next);
    *text = (const char *)next;
    return value;
}

void ft_pyjson_write_text(FILE *out, const char *text) {
    static const char escaped[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    putc('"', out);
    while (*text != '\0') {
        unsigned c = next_code_point(&text);
        const char *found = c < 0x80 ? strchr(escaped, (int)c) : NULL;
        if (found != NULL)
            fprintf(out, "\\%c", letters[found - escaped]);
        else if (c >= 0x10000)
            fprintf(out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
        else if (c < 0x20 || c >= 0x7F)
            fprintf(out, "\\u%04x", c);
        else
            putc((int)c, out);
    }
    putc('"', out);
}

void ft_pyjson_write_number(FILE *out, double value) {
    if (isnan(value)) {
        fputs("NaN", out);
    } else if (isinf(value)) {
        fputs(value > 0 ? "Infinity" : "-Infinity", out);
    } else {
        char text[FT_REAL_TEXT];
        ft_real_text(value, text);
        fputs(text, out);
    }
}

void ft_pyjson_write_scalar(FILE *out, const ft_choice *value) {
    switch (value->kind) {
    case FT_CHOICE_NULL: fputs("null", out); break;
    case FT_CHOICE_BOOL: fputs(value->integer != 0 ? "true" : "false", out); break;
    case FT_CHOICE_INT: fprintf(out, "%lld", (long long)value->integer); break;
    case FT_CHOICE_FLOAT: ft_pyjson_write_number(out, value->number); break;
    case FT_CHOICE_TEXT: ft_pyjson_write_text(out, value->text); break;
    }
}

static void write_list(FILE *out, const json_t *value) {
    putc('[', out);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (i > 0) fputs(", ", out);
        ft_pyjson_write_value(out, json_array_get(value, i));
    }
    putc(']', out);
}

static void write_object(FILE *out, const json_t *value) {
    json_t *walked = (json_t *)value; // Jansson's iterators take no const and change nothing
    bool first = true;
    putc('{', out);
    for (void *at = json_object_iter(walked); at != NULL; at = json_object_iter_next(walked, at), first = false) {
        if (!first) fputs(", ", out);
        ft_pyjson_write_text(out, json_object_iter_key(at));
        fputs(": ", out);
        ft_pyjson_write_value(out, json_object_iter_value(at));
    }
    putc('}', out);
}

void ft_pyjson_write_value(FILE *out, const json_t *value) {
    ft_choice scalar;
    if (ft_pyjson_scalar(value, &scalar))
        ft_pyjson_write_scalar(out, &scalar); // {"NaN": 0} too
    else if (json_is_array(value))
        write_list(out, value);
    else
        write_object(out, value);
}

ft_status ft_text_open(ft_text_stream *stream) {
    *stream = (ft_text_stream){0};
    stream->file = open_memstream(&stream->data, &stream->length);
    return stream->file != NULL ? FT_OK : ft_fail_memory(0, "a text");
}

ft_status ft_text_close(ft_text_stream *stream, char **text) {
    bool failed = ferror(stream->file) != 0;
    failed = fclose(stream->file) != 0 || failed;
    failed = stream->data == NULL || failed; // glibc's fclose says nothing when it found no room for the end
    *text = stream->data;
    if (!failed) return FT_OK;
    free(stream->data);
    *text = NULL;
    return ft_fail_memory(stream->length, "a text");
}

ft_status ft_pyjson_text(const json_t *value, char **text) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    ft_pyjson_write_value(stream.file, value);
    return ft_text_close(&stream, text);
}
