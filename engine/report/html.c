#include "engine/report/html.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

static void put(FILE *out, unsigned char c) {
    switch (c) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default:
        if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
            fputs("\xEF\xBF\xBD", out);
        else
            fputc(c, out);
    }
}

void ft_html_text(FILE *out, const char *text) {
    size_t length = strlen(text);
    while (length > 0) {
        size_t good = ft_utf8_valid_prefix(text, length);
        for (size_t i = 0; i < good; i++)
            put(out, (unsigned char)text[i]);
        if (good < length) fputs("\xEF\xBF\xBD", out), good++;
        text += good;
        length -= good;
    }
}

void ft_html_name(FILE *out, const char *text) {
    fputs("<bdi>", out);
    ft_html_text(out, text);
    fputs("</bdi>", out);
}

void ft_html_number(FILE *out, double value, int digits) {
    if (!isfinite(value)) {
        fputs("&ndash;", out);
    } else if (fabs(value) >= 1000 && fabs(value) < 1e15) {
        char plain[32];
        snprintf(plain, sizeof plain, "%.0f", value);
        size_t length = strlen(plain), first = plain[0] == '-';
        for (size_t i = 0; i < length; i++) {
            if (i > first && (length - i) % 3 == 0) fputc(',', out);
            fputc(plain[i], out);
        }
    } else {
        fprintf(out, "%.*g", digits, value);
    }
}
