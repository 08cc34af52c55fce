#include "hpo/report/plot.h"

#include "base/arena.h"
#include "engine/report/html.h"
#include "engine/report/page.h"
#include "hpo/space/objective.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 11, LEGEND = 12, TITLE = 17 /* 15, bold */, MARGIN = 12, FOOT = 14, TOOLTIPS = 250 };

// ---- texts ----------------------------------------------------------------------------------------------------------

// Of one character; what a font of unknown widths takes at most, but for a few wide ones.
static double character_width(unsigned char first, double size) {
    if (first >= 0xE0) return size; // beyond the alphabets: ideographs, signs
    if (strchr("iljI.,:;|'!()[] ", first) != NULL) return 0.36 * size;
    if (strchr("mwMW@%", first) != NULL) return 0.9 * size;
    return (first >= 'A' && first <= 'Z' ? 0.72 : 0.62) * size;
}

static bool begins_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

double ft_plot_text_width(const char *text, double size) {
    double width = 0;
    for (; *text != '\0'; text++)
        if (begins_character(*text)) width += character_width((unsigned char)*text, size);
    return width;
}

// The beginning and the end of a text that is too long: names of one section differ in their ends.
static void cut_text(const char *text, double size, double most, char *out, size_t room) {
    const size_t length = strlen(text);
    size_t head = 0, tail = length;
    double width = 0.8 * size; // of the ellipsis
    for (size_t i = 0; i < length && i < room / 3; i++) {
        if (!begins_character(text[i])) continue;
        head = i;
        if (width + character_width((unsigned char)text[i], size) > 0.45 * most) break;
        width += character_width((unsigned char)text[i], size);
    }
    for (size_t i = length; i-- > head && length - i < room / 2;) {
        if (!begins_character(text[i])) continue;
        width += character_width((unsigned char)text[i], size);
        if (width > most) break;
        tail = i;
    }
    snprintf(out, room, "%.*s\xE2\x80\xA6%s", (int)head, text, text + tail);
}

void ft_plot_text(FILE *out, double x, double y, const char *anchor, const char *style, double most, const char *text) {
    char part[200];
    const bool larger = strcmp(style, "key") == 0 || strcmp(style, "name") == 0;
    const double size = strcmp(style, "title") == 0 ? TITLE : larger ? LEGEND : SMALL;
    const bool cut = ft_plot_text_width(text, size) > most || strlen(text) >= sizeof part;
    if (cut) cut_text(text, size, most, part, sizeof part);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"", x, y);
    if (strcmp(anchor, "start") != 0) fprintf(out, " text-anchor=\"%s\"", anchor);
    if (style[0] != '\0') fprintf(out, " class=\"%s\"", style);
    fputc('>', out);
    ft_html_text(out, cut ? part : text);
    if (cut) fputs("<title>", out), ft_html_text(out, text), fputs("</title>", out);
    fputs("</text>", out);
}

void ft_plot_value(const ft_axis *axis, double value, char out[64]) {
    int choice =
        (int)fmin(fmax(round(value), 0), axis->choice_count - 1); // points of one choice stand beside each other
    if (axis->scale == FT_SCALE_CHOICES)
        snprintf(out, 64, "%.60s", axis->choices[choice]);
    else if (axis->unit == FT_UNIT_BYTES)
        snprintf(out, 64, "%.4g %s", value / (value < 0x1p30 ? 0x1p20 : 0x1p30), value < 0x1p30 ? "MiB" : "GiB");
    else if (axis->unit == FT_UNIT_STEPS)
        snprintf(out, 64, "%.0f", value);
    else
        ft_figure_text("", value, 5, out);
}

// ---- points ---------------------------------------------------------------------------------------------------------

// Its classes: a colour of an order is one for strokes, and filled one for areas.
static void class_of(ft_look look, bool filled, char out[16]) {
    static const char *const names[] = {"dot", "ring", "square", "triangle", "cross", "diamond"};
    if (look >= FT_LOOK_DOT)
        snprintf(out, 16, "%s", names[look - FT_LOOK_DOT]);
    else
        snprintf(out, 16, filled ? "q%d a%d" : "q%d", (int)look, (int)look);
}

static void write_shape(FILE *out, ft_look look, double x, double y) {
    switch (look) {
    case FT_LOOK_SQUARE: fprintf(out, "M%.1f %.1fh5v5h-5z", x - 2.5, y - 2.5); break;
    case FT_LOOK_TRIANGLE: fprintf(out, "M%.1f %.1fl3.5 6h-7z", x, y - 3.5); break;
    case FT_LOOK_CROSS: fprintf(out, "M%.1f %.1fl5 5m0-5l-5 5", x - 2.5, y - 2.5); break;
    case FT_LOOK_DIAMOND: fprintf(out, "M%.1f %.1fl4.5 4.5l-4.5 4.5l-4.5-4.5z", x, y - 4.5); break;
    default: fprintf(out, "M%.1f %.1fa3 3 0 1 0 6 0a3 3 0 1 0-6 0", x - 3, y);
    }
}

static void write_one(const ft_plot *p, const ft_point *point) {
    char name[16], x[64], y[64];
    class_of(point->look, true, name);
    ft_plot_value(&p->x, point->x, x);
    ft_plot_value(&p->y, point->y, y);
    fprintf(p->out, "<path class=\"%s\" d=\"", name);
    write_shape(p->out, point->look, ft_plot_x(p, point->x), ft_plot_y(p, point->y));
    fprintf(p->out, "\"><title>trial %lld: ", (long long)point->trial);
    ft_html_text(p->out, x);
    fputs(", ", p->out);
    ft_html_text(p->out, y);
    fputs("</title></path>\n", p->out);
}

// Of the points in a cell one is seen: of dots the one that is drawn last, since they hide each other; of each other
// shape one.
static ft_status choose_seen(const ft_plot *p, const ft_point *points, int64_t count, bool *seen) {
    enum { CELL = 3 }; // pixels
    const int columns = (int)(p->width / CELL) + 1, rows = (int)(p->height / CELL) + 1;
    const size_t cells = (size_t)columns * (size_t)rows;
    bool *taken = ft_calloc(cells, sizeof *taken, "a picture");
    if (taken == NULL) return FT_NO_MEMORY;
    for (int look = FT_LOOKS - 1; look >= 0; look--) {
        for (int64_t i = count - 1; i >= 0; i--) {
            if (points[i].look != (ft_look)look) continue;
            bool *cell =
                &taken[(int)(ft_plot_y(p, points[i].y) / CELL) * columns + (int)(ft_plot_x(p, points[i].x) / CELL)];
            seen[i] = !*cell;
            *cell = true;
        }
        if (look > FT_LOOK_DOT) memset(taken, 0, cells * sizeof *taken);
    }
    free(taken);
    return FT_OK;
}

// All seen points of one look, as one path of whole pixels.
static void write_many(const ft_plot *p, const ft_point *points, int64_t count, ft_look look, const bool *seen) {
    char name[16];
    bool dots = look <= FT_LOOK_DOT, begun = false;
    class_of(look, !dots, name);
    for (int64_t i = 0; i < count; i++) {
        if (points[i].look != look || !seen[i]) continue;
        double x = ft_plot_x(p, points[i].x), y = ft_plot_y(p, points[i].y);
        if (!begun) fprintf(p->out, "<path class=\"%s%s\" d=\"", name, dots ? " many" : "");
        begun = true;
        if (dots)
            fprintf(p->out, "M%.0f %.0fh0", x, y);
        else
            write_shape(p->out, look, round(x), round(y));
    }
    if (begun) fputs("\"/>\n", p->out);
}

ft_status ft_plot_points(const ft_plot *p, const ft_point *points, int64_t count) {
    bool *seen = ft_calloc((size_t)count + 1, sizeof *seen, "a picture");
    ft_status status = seen != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && count > TOOLTIPS) status = choose_seen(p, points, count, seen);
    for (int look = 0; status == FT_OK && look < FT_LOOKS; look++) {
        if (count > TOOLTIPS) write_many(p, points, count, (ft_look)look, seen);
        for (int64_t i = 0; count <= TOOLTIPS && i < count; i++)
            if (points[i].look == (ft_look)look) write_one(p, &points[i]);
    }
    free(seen);
    return status;
}

// ---- legend ---------------------------------------------------------------------------------------------------------

static void write_swatch(FILE *out, const ft_legend_entry *entry, double x, double y) {
    char name[16];
    class_of(entry->look, true, name);
    fprintf(out, "<path class=\"%s\" d=\"", entry->line != NULL ? entry->line : entry->bar != NULL ? entry->bar : name);
    if (entry->line != NULL)
        fprintf(out, "M%.1f %.1fh12", x - 1, y - 4);
    else if (entry->bar != NULL)
        fprintf(out, "M%.1f %.1fh10v8h-10z", x, y - 8);
    else
        write_shape(out, entry->look, x + 5, y - 4);
    fputs("\"/>", out);
}

double ft_plot_legend(FILE *out, double width, const ft_legend_entry *entries, int count) {
    double x = MARGIN, y = 38;
    for (int i = 0; i < count; i++) {
        double room = 26 + ft_plot_text_width(entries[i].text, LEGEND);
        if (x > MARGIN && x + room > width - MARGIN) x = MARGIN, y += 17;
        write_swatch(out, &entries[i], x, y);
        ft_plot_text(out, x + 15, y, "start", "key", width - MARGIN - x - 15, entries[i].text);
        x += room;
    }
    return count > 0 ? y + 12 : 34;
}

double ft_plot_class_legend(FILE *out, const char *low, const char *high) {
    double x = MARGIN + ft_plot_text_width(low, LEGEND) + 6;
    ft_plot_text(out, MARGIN, 38, "start", "key", 300, low);
    for (int k = 0; k < 10; k++)
        fprintf(out, "<path class=\"a%d\" d=\"M%.1f 29h9v10h-9z\"/>", k, x + 9 * k);
    ft_plot_text(out, x + 96, 38, "start", "key", 300, high);
    return 50;
}

// ---- frame ----------------------------------------------------------------------------------------------------------

static const char *tick_label(const ft_axis *axis, const ft_tick *tick) {
    const char *text = tick->choice >= 0 ? axis->choices[tick->choice] : tick->text;
    return text[0] != '\0' ? text : "(empty)";
}

static void write_y_axis(const ft_plot *p, const ft_tick *ticks, int count) {
    double above = INFINITY;
    for (int i = 0; i < count; i++) {
        double y = p->bottom - ticks[i].place * (p->bottom - p->top);
        fprintf(p->out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->right);
        if (above - y < SMALL + 2) continue; // no room for its label
        ft_plot_text(p->out, p->left - 6, y + 4, "end", "", p->left - 24, tick_label(&p->y, &ticks[i]));
        above = y;
    }
}

static void write_x_axis(const ft_plot *p, const ft_tick *ticks, int count) {
    double used = 0;
    for (int i = 0; i < count; i++) {
        double x = p->left + ticks[i].place * (p->right - p->left), each = (p->right - p->left) / count - 8;
        const char *label = tick_label(&p->x, &ticks[i]);
        double most = ticks[i].choice >= 0 ? fmax(each, 34) : 90,
               half = fmin(ft_plot_text_width(label, SMALL), most) / 2;
        double middle = fmin(fmax(x, half + 2), p->width - half - 2);
        fprintf(p->out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, p->top, p->bottom + 4);
        if (middle - half < used + 6) continue;
        ft_plot_text(p->out, middle, p->bottom + 17, "middle", "", most, label);
        used = middle + half;
    }
}

void ft_plot_frame(ft_plot *p, const char *x_name, const char *y_name) {
    ft_tick x[FT_AXIS_TICKS], y[FT_AXIS_TICKS];
    p->bottom = p->height - 40 - FOOT;
    p->right = p->width - MARGIN;
    int y_count = ft_axis_ticks(&p->y, (int)fmax((p->bottom - p->top) / 40, 2), y);
    double widest = 20;
    for (int i = 0; i < y_count; i++)
        widest = fmax(widest, ft_plot_text_width(tick_label(&p->y, &y[i]), SMALL));
    p->left = 26 + fmin(widest, 0.28 * p->width) + 2;
    int x_count = ft_axis_ticks(&p->x, (int)fmax((p->right - p->left) / 80, 2), x);
    write_y_axis(p, y, y_count);
    write_x_axis(p, x, x_count);
    ft_plot_text(p->out, (p->left + p->right) / 2, p->bottom + 33, "middle", "name", p->right - p->left, x_name);
    double middle = (p->top + p->bottom) / 2;
    fprintf(p->out, "<g transform=\"translate(14 %.1f) rotate(-90)\">", middle);
    ft_plot_text(p->out, 0, 0, "middle", "name", p->bottom - p->top, y_name);
    fputs("</g>\n", p->out);
}

void ft_plot_rows_frame(ft_plot *p, double bottom, double left, const char *x_name) {
    ft_tick ticks[FT_AXIS_TICKS];
    p->bottom = bottom;
    p->left = left;
    p->right = p->width - MARGIN;
    write_x_axis(p, ticks, ft_axis_ticks(&p->x, (int)fmax((p->right - p->left) / 80, 2), ticks));
    ft_plot_text(p->out, (p->left + p->right) / 2, p->bottom + 33, "middle", "name", p->right - p->left, x_name);
}

void ft_plot_note(const ft_plot *p, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ft_plot_text(p->out, MARGIN, p->height - 5, "start", "note", p->width - 2 * MARGIN, text);
}

// ---- the file -------------------------------------------------------------------------------------------------------

#define CLASS(k) ".picture .q" #k "{stroke:var(--q" #k ")}.picture .a" #k "{fill:var(--q" #k ")}"

const char ft_picture_style[] =
    ".picture text{font:11px system-ui,sans-serif;fill:var(--soft)}.picture .title{font-size:15px;font-weight:600;"
    "fill:var(--text)}.picture .key,.picture .name{font-size:12px;fill:var(--text)}.picture .note{font-style:italic}\n"
    ".picture path{fill:none;stroke-width:1.4;stroke-linejoin:round}.picture .grid{stroke:var(--line);stroke-width:1}"
    ".picture .many{stroke-width:5;stroke-linecap:round;fill:none}"
    ".picture .dot{stroke:var(--0)}.picture .dot:not(.many){fill:var(--0)}.picture .ring{stroke:var(--5)}"
    ".picture .square{stroke:var(--4)}.picture .triangle{fill:var(--1)}.picture "
    ".cross{stroke:var(--7);stroke-width:1.8}"
    ".picture .diamond{stroke:var(--text);fill:var(--1)}.picture .best{stroke:var(--1);stroke-width:2}"
    ".picture .bar{fill:var(--0)}.picture .dashed{stroke:var(--soft);stroke-dasharray:4 4}"
    ".picture .thick{stroke-width:3.2}.picture .axis{stroke:var(--text);stroke-width:1}.picture .cut{stroke:var(--4);"
    "stroke-width:1;stroke-dasharray:3 2}.picture .lost{stroke:var(--7);stroke-width:1}.picture .crisp{stroke:none;"
    "shape-rendering:crispEdges}.picture "
    ".speck{stroke:var(--text);stroke-width:2;stroke-linecap:round;stroke-opacity:.55}"
    ".picture .on{paint-order:stroke;stroke:var(--card);stroke-width:3}\n"
    ".picture .t0{fill:var(--0)}.picture .t1{fill:var(--5)}.picture .t2{fill:var(--4)}.picture .t3{fill:var(--1)}"
    ".picture .t4{fill:var(--7)}.picture .t5{fill:var(--2)}.picture .t6{fill:var(--line)}\n" CLASS(0) CLASS(1) CLASS(2)
        CLASS(3) CLASS(4) CLASS(5) CLASS(6) CLASS(7) CLASS(8) CLASS(9) "\n";

void ft_picture_begin(FILE *out, const char *title, double width, double height, bool alone) {
    fprintf(out, "<svg class=\"picture\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" ", width, height);
    if (alone) fprintf(out, "xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ", width, height);
    fputs("aria-label=\"", out);
    ft_html_text(out, title);
    fputs("\">\n", out);
    if (alone) {
        fputs("<style>", out);
        ft_page_light_style(out, ft_picture_style);
        fputs("</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", out);
    }
    ft_plot_text(out, MARGIN, 18, "start", "title", width - 2 * MARGIN, title);
    fputc('\n', out);
}

void ft_picture_end(FILE *out) { fputs("</svg>\n", out); }
