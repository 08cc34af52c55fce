#include "engine/commands/text_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ft_text_table_cell(ft_text_table *t, const char *text) {
    if (t->count == t->capacity && !t->failed) {
        int capacity = t->capacity > 0 ? 2 * t->capacity : 256;
        const char **grown = ft_arena_alloc(t->arena, (size_t)capacity * sizeof *grown);
        t->failed = grown == NULL;
        if (grown != NULL) {
            if (t->count > 0) memcpy(grown, t->cells, (size_t)t->count * sizeof *grown);
            t->cells = grown;
            t->capacity = capacity;
        }
    }
    t->failed = t->failed || text == NULL;
    if (!t->failed) t->cells[t->count++] = text;
}

void ft_text_table_format(ft_text_table *t, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ft_text_table_cell(t, ft_arena_strdup(t->arena, text));
}

// Columns on a terminal, not bytes: names may be of any language.
static int width_of(const char *text) {
    int width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

// As errors are written (base/log.c). In UTF-8 there are control characters beyond ASCII's.
void ft_text_clean(const char *text, FILE *out) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
        if (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0) putc('?', out), at++;
        else putc(*at < 0x20 || *at == 0x7F ? '?' : *at, out);
}

static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

typedef struct column {
    int width;
    bool right;
} column;

static void print_cell(FILE *out, const char *text, column c, bool last) {
    int padding = c.width - width_of(text);
    if (c.right) fprintf(out, "%*s", padding, "");
    ft_text_clean(text, out);
    if (!c.right && !last) fprintf(out, "%*s", padding, "");
    fputs(last ? "\n" : "  ", out);
}

ft_status ft_text_table_print(const ft_text_table *t, FILE *out) {
    if (t->failed) return FT_NO_MEMORY;
    column *columns = ft_calloc((size_t)t->columns, sizeof *columns, "a table");
    if (columns == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->columns; i++)
        columns[i].right = t->count > t->columns;
    for (int i = 0; i < t->count; i++) {
        const char *text = t->cells[i];
        column *c = &columns[i % t->columns];
        int width = width_of(text);
        if (width > c->width) c->width = width;
        if (i >= t->columns && strcmp(text, "-") != 0 && !is_number(text)) c->right = false;
    }
    for (int i = 0; i < t->count; i++)
        print_cell(out, t->cells[i], columns[i % t->columns], (i + 1) % t->columns == 0);
    free(columns);
    return FT_OK;
}
