#include "engine/data/labels/answers.h"

#include "engine/data/tables/records.h"

#include <stdlib.h>
#include <string.h>

bool ft_answers_are(const char *cell) { return *cell == '\0' || strchr(cell, FT_SPAN_SEPARATOR) != NULL; }

static bool begins_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

// Behind so many characters from `at` on; where there are not as many, one byte behind the text.
static int64_t after(const char *text, size_t length, int64_t at, int64_t characters) {
    for (; characters > 0; characters--) {
        if (at >= (int64_t)length) return (int64_t)length + 1;
        at++;
        while (at < (int64_t)length && !begins_character(text[at])) at++;
    }
    return at;
}

bool ft_answers_next(const char **cell, const char *passage, size_t passage_length, ft_answer_span *a) {
    const char *separator = strchr(*cell, FT_SPAN_SEPARATOR), *stop = strchr(*cell, FT_LIST_SEPARATOR);
    if (separator == NULL || stop == NULL || stop < separator) return false;
    int64_t characters = 0;
    a->text = separator + 1;
    a->length = (size_t)(stop - a->text);
    for (size_t i = 0; i < a->length; i++) characters += begins_character(a->text[i]);
    a->begin = after(passage, passage_length, 0, strtoll(*cell, NULL, 10));
    a->end = after(passage, passage_length, a->begin, characters);
    a->there = a->end <= (int64_t)passage_length && a->end - a->begin == (int64_t)a->length &&
               memcmp(passage + a->begin, a->text, a->length) == 0;
    *cell = stop + 1;
    return true;
}
