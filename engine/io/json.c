#include "engine/io/json.h"

#include "engine/io/files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---- parsing
// ----------------------------------------------------------------------------------------------------------

// Jansson refuses integers beyond int64. transformers writes "no limit" as 1000000000000000019884624838656, so such
// integers get an exponent ("e0") and become reals. Returns a new text, or NULL when there is none (or no memory).
static char *soften_integers(const char *text, size_t length, size_t *new_length) {
    char *out = NULL;
    size_t written = 0, copied = 0;
    bool in_string = false;
    for (size_t i = 0; i < length;) {
        char c = text[i];
        if (in_string) {
            if (c == '"') in_string = false;
            i += c == '\\' ? 2 : 1;
            continue;
        }
        if (c == '"') in_string = true;
        if (c != '-' && (c < '0' || c > '9')) {
            i++;
            continue;
        }
        size_t end = i + 1;
        bool integer = true;
        while (end < length && strchr("0123456789+-.eE", text[end]) != NULL && text[end] != '\0')
            if (strchr(".eE", text[end++]) != NULL) integer = false;
        size_t digits = end - i - (c == '-');
        if (integer && digits >= 19) {
            if (out == NULL) out = malloc(length + length / 19 * 2 + 2); // each costs two more bytes and has 19 or more
            if (out == NULL) return NULL;
            memcpy(out + written, text + copied, end - copied);
            written += end - copied;
            memcpy(out + written, "e0", 2);
            written += 2;
            copied = end;
        }
        i = end;
    }
    if (out == NULL) return NULL;
    memcpy(out + written, text + copied, length - copied);
    *new_length = written + length - copied;
    return out;
}

// Jansson quotes from the file; a file may hold what would steer a terminal.
static void make_printable(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

static ft_status fail_parse(const char *path, json_error_t *error, int errnum) {
    // Some of Jansson's failed allocations leave another message or none.
    if (json_error_code(error) == json_error_out_of_memory || errnum == ENOMEM || error->text[0] == '\0')
        return ft_fail_memory(0, "a JSON text");
    char where[512];
    snprintf(where, sizeof where, "%.*s:%d:%d", (int)sizeof where - 32, path, error->line, error->column);
    make_printable(error->text);
    return ft_fail(FT_INVALID, where, "not valid JSON: %s", error->text);
}

ft_status ft_json_parse(const char *text, size_t length, const char *path, json_t **root) {
    json_error_t error = {0};
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, length -= 3; // a byte order mark
    errno = 0;
    *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        size_t new_length;
        char *softened = soften_integers(text, length, &new_length);
        errno = 0; // set by strtoll within Jansson
        if (softened != NULL) *root = json_loadb(softened, new_length, JSON_REJECT_DUPLICATES, &error);
        free(softened);
    }
    return *root != NULL ? FT_OK : fail_parse(path, &error, errno);
}

ft_status ft_json_load(const char *path, json_t **root) {
    *root = NULL;
    char *text;
    size_t length;
    FT_TRY(ft_read_file(path, 0, &text, &length));
    ft_status status = ft_json_parse(text, length, path, root);
    free(text);
    return status;
}

// ---- getters
// ----------------------------------------------------------------------------------------------------------

static ft_status wrong(const json_t *value, const char *path, const char *key, const char *wanted) {
    char text[80] = "null";
    switch (json_typeof(value)) {
    case JSON_OBJECT: strcpy(text, "an object"); break;
    case JSON_ARRAY: strcpy(text, "a list"); break;
    case JSON_STRING:
        snprintf(text, sizeof text, "the string \"%.60s\"", json_string_value(value));
        make_printable(text);
        break;
    case JSON_INTEGER: snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
    case JSON_REAL: ft_real_text(json_real_value(value), text); break;
    case JSON_TRUE: strcpy(text, "true"); break;
    case JSON_FALSE: strcpy(text, "false"); break;
    case JSON_NULL: break;
    }
    return ft_fail(FT_INVALID, path, "\"%s\" must be %s, not %s", key, wanted, text);
}

static const json_t *present(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

ft_status ft_json_int(const json_t *object, const char *path, const char *key, int64_t fallback, int64_t low,
                      int64_t high, int64_t *out) {
    const json_t *value = present(object, key);
    *out = fallback;
    if (value == NULL) return FT_OK;
    int64_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < low || n > high) {
        char wanted[96];
        if (high >= INT32_MAX)
            snprintf(wanted, sizeof wanted, "an integer of at least %lld", (long long)low);
        else
            snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)low, (long long)high);
        if (json_is_integer(value) && n > high)
            snprintf(wanted, sizeof wanted, "an integer of at most %lld", (long long)high);
        return wrong(value, path, key, wanted);
    }
    *out = n;
    return FT_OK;
}

ft_status ft_json_number(const json_t *object, const char *path, const char *key, double fallback, double *out) {
    const json_t *value = present(object, key);
    *out = fallback;
    if (value == NULL) return FT_OK;
    if (!json_is_number(value)) return wrong(value, path, key, "a number");
    *out = json_number_value(value);
    return FT_OK;
}

ft_status ft_json_bool(const json_t *object, const char *path, const char *key, bool fallback, bool *out) {
    const json_t *value = present(object, key);
    *out = fallback;
    if (value == NULL) return FT_OK;
    if (!json_is_boolean(value)) return wrong(value, path, key, "true or false");
    *out = json_is_true(value);
    return FT_OK;
}

ft_status ft_json_string(const json_t *object, const char *path, const char *key, const char *fallback,
                         const char **out) {
    const json_t *value = present(object, key);
    *out = fallback;
    if (value == NULL) return FT_OK;
    if (!json_is_string(value)) return wrong(value, path, key, "a string");
    *out = json_string_value(value);
    return FT_OK;
}
