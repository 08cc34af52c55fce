// write.c - JSON text as people want to read it. Jansson writes reals with a fixed number of digits: 0.1 becomes
// 0.10000000000000001 where it must be exact.
#include "base/files.h"
#include "base/json/json.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void end_real(char text[FT_REAL_TEXT]) {
    if (strpbrk(text, ".e") == NULL) strcat(text, ".0"); // else it would be read back as an integer
}

void ft_real_text(double value, char text[FT_REAL_TEXT]) {
    enum { APART = 15, ENOUGH = 17 }; // numbers of so many digits are doubles apart; so many digits always do
    int precision = 1;
    // Therefore the shortest text of what has no more than 15 digits is 15 without the zeros at their end. Subnormals are less far
    // apart, and from 1e15 on "g" writes an exponent.
    if (value == 0 || (fabs(value) >= DBL_MIN && fabs(value) < 1e15)) {
        snprintf(text, FT_REAL_TEXT, "%.*g", APART, value);
        if (strtod(text, NULL) == value) {
            end_real(text);
            return;
        }
        precision = APART + 1;
    }
    for (; precision < ENOUGH; precision++) {
        snprintf(text, FT_REAL_TEXT, "%.*e", precision - 1, value);
        if (strtod(text, NULL) == value) break;
    }
    snprintf(text, FT_REAL_TEXT, "%.*e", precision - 1, value);
    int exponent = atoi(strchr(text, 'e') + 1);
    // Small exponents are written out, as Python's repr does, with the same digits.
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - 1 - exponent;
        snprintf(text, FT_REAL_TEXT, "%.*f", decimals > 0 ? decimals : 0, value);
    }
    end_real(text);
}

void ft_rounded_text(double value, int digits, char text[FT_REAL_TEXT]) {
    if (!isfinite(value)) {
        strcpy(text, "null");
        return;
    }
    snprintf(text, FT_REAL_TEXT, "%.*g", digits, value);
    const char *exponent = strchr(text, 'e');
    // Of so few digits these are already the shortest text, but for the form of large numbers, and subnormals (see above).
    if (digits <= 15 && (value == 0 || fabs(value) >= DBL_MIN) && (exponent == NULL || exponent[1] == '-')) end_real(text);
    else ft_real_text(strtod(text, NULL), text);
}

static void write_string(FILE *out, const char *text, size_t length) {
    putc('"', out);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c == '\t')
            fputs("\\t", out);
        else if (c == '\r')
            fputs("\\r", out);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
    putc('"', out);
}

enum { ONE_LINE = -1 }; // a depth that stays

static void new_line(FILE *out, int depth) {
    if (depth > ONE_LINE) fprintf(out, "\n%*s", 2 * depth, "");
}

static int deeper(int depth) { return depth == ONE_LINE ? ONE_LINE : depth + 1; }

static void write_value(FILE *out, const json_t *value, int depth);

static void write_object(FILE *out, const json_t *object, int depth) {
    putc('{', out);
    json_t *walked = (json_t *)object; // Jansson's iterators take no const and change nothing
    bool first = true;
    for (void *at = json_object_iter(walked); at != NULL; at = json_object_iter_next(walked, at), first = false) {
        if (!first) putc(',', out);
        new_line(out, deeper(depth));
        write_string(out, json_object_iter_key(at), strlen(json_object_iter_key(at))); // no key holds a NUL
        fputs(depth == ONE_LINE ? ":" : ": ", out);
        write_value(out, json_object_iter_value(at), deeper(depth));
    }
    if (!first) new_line(out, depth);
    putc('}', out);
}

static void write_array(FILE *out, const json_t *array, int depth) {
    size_t count = json_array_size(array);
    putc('[', out);
    for (size_t i = 0; i < count; i++) {
        if (i != 0) putc(',', out);
        new_line(out, deeper(depth));
        write_value(out, json_array_get(array, i), deeper(depth));
    }
    if (count != 0) new_line(out, depth);
    putc(']', out);
}

static void write_value(FILE *out, const json_t *value, int depth) {
    char text[FT_REAL_TEXT];
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_object(out, value, depth); break;
    case JSON_ARRAY: write_array(out, value, depth); break;
    case JSON_STRING: write_string(out, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
    case JSON_REAL:
        ft_real_text(json_real_value(value), text);
        fputs(text, out);
        break;
    case JSON_TRUE: fputs("true", out); break;
    case JSON_FALSE: fputs("false", out); break;
    case JSON_NULL: fputs("null", out); break;
    }
}

void ft_json_write(FILE *out, const json_t *root) {
    write_value(out, root, 0);
    putc('\n', out);
}

char *ft_json_line(const json_t *root) {
    char *text = NULL;
    size_t length;
    FILE *out = root != NULL ? open_memstream(&text, &length) : NULL;
    if (out != NULL) {
        write_value(out, root, ONE_LINE);
        bool failed = ferror(out) != 0;
        if (fclose(out) == 0 && !failed && text != NULL) return text;
        free(text);
    }
    ft_fail_memory(0, "a JSON text");
    return NULL;
}

json_t *ft_json_copy_object(const json_t *object) {
    json_t *walked = (json_t *)object, *copy = json_object();
    for (void *at = json_object_iter(walked); copy != NULL && at != NULL; at = json_object_iter_next(walked, at)) {
        if (json_object_set_nocheck(copy, json_object_iter_key(at), json_object_iter_value(at)) == 0) continue;
        json_decref(copy);
        copy = NULL;
    }
    if (copy == NULL) ft_fail_memory(0, "a JSON object");
    return copy;
}

ft_status ft_json_save(const char *path, const json_t *root) {
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    ft_json_write(file.stream, root);
    return ft_atomic_commit(&file); // which looks for failed writes
}
