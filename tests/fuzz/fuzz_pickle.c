// Any bytes as a pickle: values or a refusal with its byte; what is made can be walked.
#include "engine/files/pickle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static bool allowed(void *context, const char *name) {
    return strncmp(name, "torch.", 6) == 0 || strncmp(name, "coll", 4) == 0;
}

static uint64_t walk(const ft_pickle_value *v, int depth) { // of values that may hold themselves
    uint64_t sum = (uint64_t)v->number;
    check(v->kind <= FT_PICKLE_OUTSIDE);
    if (v->kind == FT_PICKLE_TEXT || v->kind == FT_PICKLE_BIG || v->kind == FT_PICKLE_NAME)
        for (size_t i = 0; i < v->length; i++)
            sum += (unsigned char)v->text[i];
    check(v->kind != FT_PICKLE_DICT || v->count % 2 == 0);
    check(v->kind != FT_PICKLE_CALL || (v->count == 2 && v->items[1]->kind == FT_PICKLE_TUPLE));
    for (size_t i = 0; depth > 0 && i < v->count && i < 8; i++)
        sum += walk(v->items[i], depth - 1);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    ft_arena arena = {0};
    const ft_pickle_value *value;
    size_t at = 0;
    ft_status status = ft_pickle_read(input, size, &at, "fuzz", allowed, NULL, &arena, &value);
    if (status == FT_OK) {
        check(value != NULL && at <= size);
        check(walk(value, 5) == walk(value, 5));
    } else
        check(status == FT_INVALID && value == NULL && strncmp(ft_error_where(), "fuzz, byte ", 11) == 0);
    ft_arena_free(&arena);
    return 0;
}
