#include "engine/tasks/answer.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 9 };

static ft_status are_distinct(const char *const *names, int outputs, bool *distinct) {
    bool failed = false;
    json_t *seen = json_object();
    for (int k = 0; k < outputs && !failed; k++) ft_json_put(seen, names[k], json_null(), &failed);
    *distinct = json_object_size(seen) == (size_t)outputs;
    json_decref(seen);
    return failed ? ft_fail_memory(0, "names of classes") : FT_OK;
}

ft_status ft_answer_keys(const char *const *names, int outputs, ft_arena *arena, const char *const **keys) {
    bool distinct;
    *keys = NULL;
    FT_TRY(are_distinct(names, outputs, &distinct));
    if (!distinct) return FT_OK;
    const char **key = ft_arena_alloc(arena, (size_t)outputs * sizeof *key);
    if (key == NULL) return FT_NO_MEMORY;
    for (int k = 0; k < outputs; k++) {
        json_t *name = json_string(names[k]);
        char *text = ft_json_line(name);
        json_decref(name);
        if (text != NULL) key[k] = ft_arena_format(arena, "%s:", text);
        free(text);
        if (text == NULL || key[k] == NULL) return FT_NO_MEMORY;
    }
    *keys = key;
    return FT_OK;
}

// Of outputs with one name the last counts, in the first one's place.
static ft_status write_tree(const ft_answer *a, const double *values, FILE *out) {
    bool failed = false;
    json_t *object = json_object();
    for (int k = 0; k < a->outputs; k++) ft_json_put(object, a->names[k], ft_json_rounded(values[k], DIGITS), &failed);
    char *text = failed ? NULL : ft_json_line(object);
    json_decref(object);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions");
    fputs(text, out);
    free(text);
    return FT_OK;
}

ft_status ft_answer_write_by_name(const ft_answer *a, const double *values, FILE *out) {
    if (a->keys == NULL) return write_tree(a, values, out);
    char number[FT_REAL_TEXT];
    putc('{', out);
    for (int k = 0; k < a->outputs; k++) {
        if (k > 0) putc(',', out);
        fputs(a->keys[k], out);
        ft_rounded_text(values[k], DIGITS, number);
        fputs(number, out);
    }
    putc('}', out);
    return FT_OK;
}
