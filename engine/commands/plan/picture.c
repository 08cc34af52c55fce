#include "engine/commands/plan/picture.h"

#include "base/files.h"
#include "engine/report/axis.h"
#include "engine/report/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LEFT = 74,
    TOP = 74,
    PLOT_WIDTH = 600,
    PLOT_HEIGHT = 380,
    BOTTOM = 84,
    COLOURS = 8,
    LABELLED_LINES = 2,
    LABELLED_POINTS = 16
};

static const char *const colours[COLOURS] = {"#2a6fdb", "#d9622b", "#1f9d6b", "#b4439b",
                                             "#96831c", "#5b5fc7", "#c2394f", "#6b7786"};
static const char *const dashes[FT_PLAN_PICTURE_LINES / COLOURS] = {"none", "7 4", "2 4"};

typedef struct frame {
    double low, high; // of y, as drawn: its logarithm where that is what is drawn
    double step;
    bool logarithmic, with_zero;
    int x_count;
} frame;

static double scaled(const frame *f, double y) { return f->logarithmic ? fmax(log2(y), f->low) : y; }
static double down(const frame *f, double y) {
    return TOP + PLOT_HEIGHT * (1 - (scaled(f, y) - f->low) / (f->high - f->low));
}
static double across(const frame *f, int i) { return LEFT + PLOT_WIDTH * (i + 0.5) / f->x_count; }

static frame frame_of(const ft_plan_picture *p) {
    double most = 0, least = INFINITY;
    bool with_zero = false;
    for (int k = 0; k < p->line_count; k++)
        for (int i = 0; i < p->x_count; i++) {
            most = fmax(most, p->lines[k].y[i]);
            with_zero |= p->lines[k].y[i] <= 0;
            if (p->lines[k].y[i] > 0) least = fmin(least, p->lines[k].y[i]);
        }
    // A budget far above everything would press the lines to the bottom; then it is only named.
    if (p->level <= 3 * most) most = fmax(most, p->level);
    if (most <= 0) most = least = 1;
    frame f = {.logarithmic = p->logarithmic, .with_zero = with_zero, .x_count = p->x_count, .step = 1};
    if (p->logarithmic) {
        f.low = floor(log2(least)) - with_zero; // a step lower: there lies 0
        f.high = fmax(ceil(log2(most)), f.low + 2);
    } else {
        f.step = ft_nice_step(most, 7, FT_UNIT_NUMBER);
        f.high = ceil(most * 1.02 / f.step) * f.step;
    }
    return f;
}

static void text_at(FILE *out, double x, double y, const char *anchor, const char *style, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
    ft_html_text(out, text);
    fputs("</text>\n", out);
}

static void write_axes(FILE *out, const ft_plan_picture *p, const frame *f) {
    char text[32];
    for (int k = 0;; k++) {
        double at = f->low + k * f->step;
        if (at > f->high + f->step / 2) break;
        double y = TOP + PLOT_HEIGHT * (1 - (at - f->low) / (f->high - f->low));
        fprintf(out, "<path d=\"M%d %.1fh%d\" stroke=\"#dfe3e8\"/>\n", LEFT, y, PLOT_WIDTH);
        snprintf(text, sizeof text, "%.9g", !f->logarithmic ? at : k == 0 && f->with_zero ? 0 : exp2(at));
        text_at(out, LEFT - 8, y + 4, "end", "fill=\"#5d6877\"", text);
    }
    const bool slanted = p->x_count > 12;
    for (int i = 0; i < p->x_count; i++) {
        double x = across(f, i), y = TOP + PLOT_HEIGHT;
        fprintf(out, "<path d=\"M%.1f %.1fv5\" stroke=\"#5d6877\"/>\n", x, y);
        char style[96] = "fill=\"#5d6877\"";
        if (slanted) snprintf(style, sizeof style, "fill=\"#5d6877\" transform=\"rotate(-45 %.1f %.1f)\"", x, y + 16);
        text_at(out, x, y + 18, slanted ? "end" : "middle", style,
                p->x_labels[i][0] != '\0' ? p->x_labels[i] : "(empty)");
    }
    text_at(out, LEFT + PLOT_WIDTH / 2.0, TOP + PLOT_HEIGHT + (slanted ? 58 : 42), "middle", "font-weight=\"bold\"",
            p->x_name);
    fprintf(out, "<path d=\"M%d %dv%dh%d\" stroke=\"#5d6877\" fill=\"none\"/>\n", LEFT, TOP, PLOT_HEIGHT, PLOT_WIDTH);
    char style[96];
    snprintf(style, sizeof style, "font-weight=\"bold\" transform=\"rotate(-90 18 %d)\"", TOP + PLOT_HEIGHT / 2);
    text_at(out, 18, TOP + PLOT_HEIGHT / 2.0, "middle", style, p->y_name);
}

static void value_text(double value, char out[32]) {
    snprintf(out, 32, value < 100 && value != floor(value) ? "%.2f" : "%.0f", value);
}

static void write_line(FILE *out, const ft_plan_picture *p, const frame *f, int k) {
    const ft_plan_picture_line *l = &p->lines[k];
    const char *colour = colours[k % COLOURS];
    char value[32];
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"", colour,
            dashes[k / COLOURS]);
    for (int i = 0; i < p->x_count; i++)
        fprintf(out, "%.1f,%.1f ", across(f, i), down(f, l->y[i]));
    fputs("\"/>\n", out);
    for (int i = 0; i < p->x_count; i++) {
        bool hollow = l->hollow != NULL && l->hollow[i];
        value_text(l->y[i], value);
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" stroke=\"%s\" stroke-width=\"2\" fill=\"%s\"><title>",
                across(f, i), down(f, l->y[i]), colour, hollow ? "white" : colour);
        ft_html_text(out, l->name);
        fprintf(out, "%s%s at ", l->name[0] != '\0' ? ": " : "", value);
        ft_html_text(out, p->x_labels[i]);
        fputs("</title></circle>\n", out);
        char style[64];
        snprintf(style, sizeof style, "font-size=\"10\" fill=\"%s\"", colour);
        // Numbers of more lines would lie upon each other; they are in the circles' titles, and in the text.
        if (p->line_count <= LABELLED_LINES && p->x_count <= LABELLED_POINTS)
            text_at(out, across(f, i), down(f, l->y[i]) + (k % 2 == 0 ? 17 : -9), "middle", style, value);
    }
}

static double legend_width(const ft_plan_picture *p) {
    size_t longest = 0;
    for (int k = 0; k < p->line_count; k++)
        if (strlen(p->lines[k].name) > longest) longest = strlen(p->lines[k].name);
    return longest > 0 ? 60 + 6.7 * (double)longest : 30; // characters of 12 pixels are this wide, or less
}

static void write_legend(FILE *out, const ft_plan_picture *p) {
    for (int k = 0; k < p->line_count; k++) {
        double x = LEFT + PLOT_WIDTH + 22, y = TOP + 10 + 20 * k;
        if (p->lines[k].name[0] == '\0') continue;
        fprintf(out,
                "<path d=\"M%.1f %.1fh26\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/><circle "
                "cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n",
                x, y, colours[k % COLOURS], dashes[k / COLOURS], x + 13, y, colours[k % COLOURS]);
        text_at(out, x + 34, y + 4, "start", "", p->lines[k].name);
    }
}

static void write_level(FILE *out, const ft_plan_picture *p, const frame *f) {
    if (!(p->level >= f->low && p->level <= f->high)) return;
    double y = down(f, p->level);
    fprintf(out, "<path d=\"M%d %.1fh%d\" stroke=\"#b3261e\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>\n", LEFT,
            y, PLOT_WIDTH);
    text_at(out, LEFT + PLOT_WIDTH - 4, y - 5, "end", "fill=\"#b3261e\"", p->level_name);
}

static void draw(FILE *out, const ft_plan_picture *p) {
    const frame f = frame_of(p);
    size_t heading = strlen(p->title) * 10 > strlen(p->subtitle) * 7 ? strlen(p->title) * 10 : strlen(p->subtitle) * 7;
    double width = LEFT + PLOT_WIDTH + legend_width(p), height = TOP + PLOT_HEIGHT + BOTTOM;
    if (width < 32 + (double)heading) width = 32 + (double)heading;
    double legend_end = TOP + 30 + 20.0 * p->line_count;
    if (height < legend_end) height = legend_end;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#1c2430\">\n<rect width=\"100%%\" "
            "height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    text_at(out, 16, 28, "start", "font-size=\"17\" font-weight=\"bold\"", p->title);
    text_at(out, 16, 50, "start", "fill=\"#5d6877\"", p->subtitle);
    write_axes(out, p, &f);
    write_level(out, p, &f);
    for (int k = 0; k < p->line_count; k++)
        write_line(out, p, &f, k);
    write_legend(out, p);
    text_at(out, 16, height - 10, "start", "font-size=\"11\" fill=\"#5d6877\"", p->note);
    fputs("</svg>\n", out);
}

ft_status ft_plan_picture_write(const ft_plan_picture *picture, const char *path) {
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    draw(file.stream, picture);
    return ft_atomic_commit(&file);
}
