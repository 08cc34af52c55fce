#include "engine/data/tables/cells.h"

#include <string.h>

static void separate(ft_cell_writer *w) {
    if (w->begun) fputc(w->format == FT_FORMAT_CSV ? ',' : '\t', w->out);
    w->begun = true;
}

static bool needs_quotes(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r') return true;
    return length > 0 && (text[0] == ' ' || text[length - 1] == ' ');
}

static void quoted(ft_cell_writer *w, const char *text, size_t length) {
    fputc('"', w->out);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"') fputc('"', w->out);
        fputc(text[i] == '\0' ? ' ' : text[i], w->out);
    }
    fputc('"', w->out);
}

void ft_write_cell(ft_cell_writer *w, const char *text, size_t length) {
    separate(w);
    if (w->format == FT_FORMAT_CSV && needs_quotes(text, length)) {
        quoted(w, text, length);
        return;
    }
    for (size_t i = 0; i < length; i++) {
        const bool tab = text[i] == '\t' && w->format != FT_FORMAT_CSV;
        fputc(tab || text[i] == '\n' || text[i] == '\r' || text[i] == '\0' ? ' ' : text[i], w->out);
    }
}

void ft_write_text(ft_cell_writer *w, const char *text) { ft_write_cell(w, text, strlen(text)); }

void ft_write_number(ft_cell_writer *w, double value, int decimals) {
    separate(w);
    fprintf(w->out, "%.*f", decimals, value);
}

void ft_end_row(ft_cell_writer *w) {
    fputc('\n', w->out);
    w->begun = false;
}
