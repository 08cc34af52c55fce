#include "base/json/json.h"

#include "base/files.h"

#include <stdlib.h>
#include <string.h>

ft_status ft_json_load(const char *path, json_t **root) {
    *root = NULL;
    char *text;
    size_t length;
    FT_TRY(ft_read_file(path, 0, &text, &length));
    ft_status status = ft_json_parse(text, length, path, root);
    free(text);
    return status;
}

// ---- getters ------------------------------------------------------------------------------------------------------

// The file is quoted in messages, and may hold what would steer a terminal.
static void make_printable(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

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
