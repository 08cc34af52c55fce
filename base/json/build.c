#include "base/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ft_json_put(json_t *object, const char *key, json_t *value, bool *failed) {
    if (json_object_set_new(object, key, value) != 0) *failed = true;
}

void ft_json_append(json_t *array, json_t *value, bool *failed) {
    if (json_array_append_new(array, value) != 0) *failed = true;
}

json_t *ft_json_rounded(double value, int digits) {
    if (!isfinite(value)) return json_null();
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value);
    return json_real(strtod(text, NULL));
}

json_t *ft_json_text(const char *text) {
    json_t *value = json_string(text);
    if (value != NULL) return value;
    char *clean = strdup(text);
    if (clean == NULL) return NULL;
    for (char *c = clean; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    value = json_string(clean);
    free(clean);
    return value;
}
