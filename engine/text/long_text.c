#include "engine/text/long_text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OVERLAP = 1 << 20 };

// "(64)" behind a word; blanks may stand anywhere but inside the number.
static bool read_overlap(const char *text, int32_t *overlap) {
    text += strspn(text, " ");
    if (*text++ != '(') return false;
    text += strspn(text, " ");
    if (*text < '0' || *text > '9') return false;
    char *end;
    long value = strtol(text, &end, 10);
    end += strspn(end, " ");
    *overlap = (int32_t)value;
    return value <= MOST_OVERLAP && *end == ')' && end[1] == '\0';
}

ft_status ft_long_text_parse(const char *text, const char *where, ft_long_text *rule) {
    static const char *const names[] = {"head", "tail", "head_tail", "windows"};
    *rule = (ft_long_text){.overlap = -1};
    for (int kind = FT_LONG_HEAD; kind <= FT_LONG_WINDOWS; kind++)
        if (strcmp(text, names[kind]) == 0) return rule->kind = (ft_long_text_kind)kind, FT_OK;
    rule->kind = FT_LONG_WINDOWS;
    if (strncmp(text, "windows", 7) == 0 && read_overlap(text + 7, &rule->overlap)) return FT_OK;
    ft_fail(FT_INVALID, where, "takes head, tail, head_tail, windows or windows(OVERLAP); got '%.60s'", text);
    ft_hint("windows(64): overlapping windows that share 64 tokens; windows alone: a quarter of a window");
    return FT_INVALID;
}
