#include "engine/report/chart.h"

#include "base/arena.h"
#include "engine/memory/memory.h"
#include "engine/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 560,
    HEIGHT = 260,
    LEFT = 66,
    RIGHT = 12,
    TOP = 12,
    BOTTOM = 34,  // of the plot inside the picture
    TOOLTIPS = 60 // so many points get one of their own
};

typedef struct frame {
    double x0, x1, y0, y1; // what the edges of the plot stand for
} frame;

static double across(const frame *f, double x) { return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT); }
static double down(const frame *f, double y) { return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM); }

// ---- axes ---------------------------------------------------------------------------------------------------------------

static void write_axes(FILE *out, const ft_chart *c, const frame *f) {
    const ft_axis x = {.unit = c->x_unit, .low = f->x0, .high = f->x1}, y = {.unit = c->y_unit, .low = f->y0, .high = f->y1};
    ft_tick ticks[FT_AXIS_TICKS];
    int count = ft_axis_ticks(&y, 6, ticks);
    fputs("<g class=\"grid\">", out);
    for (int i = 0; i < count; i++) {
        double at = HEIGHT - BOTTOM - ticks[i].place * (HEIGHT - TOP - BOTTOM);
        fprintf(out, "<path d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", LEFT, at, WIDTH - RIGHT,
                LEFT - 6, at + 4, ticks[i].text);
    }
    count = ft_axis_ticks(&x, 6, ticks);
    for (int i = 0; i < count; i++) {
        double at = LEFT + ticks[i].place * (WIDTH - LEFT - RIGHT);
        bool at_end = at > WIDTH - RIGHT - 20; // its middle would leave the picture
        fprintf(out, "<path d=\"M%.1f %dv4\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>", at, HEIGHT - BOTTOM,
                at_end ? (double)(WIDTH - 2) : at, HEIGHT - BOTTOM + 16, at_end ? "end" : "middle", ticks[i].text);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text></g>", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3,
            c->x_name);
}

// Room around the values; zero belongs to what is never far from it.
static void round_off(frame *f, bool from_zero) {
    if (f->x1 <= f->x0) f->x0 -= 0.5, f->x1 += 0.5;
    double span = f->y1 - f->y0;
    if (span < 1e-6 * fmax(fabs(f->y0), fabs(f->y1))) span = 0; // rounding, not news
    if (from_zero || (f->y0 >= 0 && f->y0 < 0.5 * f->y1))
        f->y0 = 0;
    else
        f->y0 -= span > 0 ? 0.06 * span : fmax(fabs(f->y0) * 0.1, 1e-12);
    f->y1 += span > 0 ? 0.06 * span : fmax(fabs(f->y1) * 0.1, 1e-12);
}

// ---- the picture around the lines ---------------------------------------------------------------------------------------

static void value_text(FILE *out, double value, ft_unit unit) {
    char bytes[24];
    if (unit == FT_UNIT_BYTES)
        fputs(ft_bytes_text((size_t)value, bytes), out);
    else
        ft_html_number(out, value, 4);
}

static void begin(FILE *out, const ft_chart *c, bool stacked) {
    fputs("<figure class=\"card\"><figcaption><b>", out);
    ft_html_text(out, c->title);
    fputs("</b>", out);
    for (int i = 0; i < c->line_count; i++) {
        const ft_chart_line *l = &c->lines[i];
        if (l->count == 0) continue;
        fprintf(out, "<span class=\"key\"><i class=\"b%d\"></i>", i);
        ft_html_text(out, l->name);
        if (!stacked && !c->over_range) fputs(" <em>", out), value_text(out, l->y[l->count - 1], c->y_unit), fputs("</em>", out);
        fputs("</span>", out);
    }
    fprintf(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    ft_html_text(out, c->title);
    fputs("\">", out);
}

static void finish(FILE *out, const ft_chart *c, const frame *f) {
    if (c->mark >= f->x0 && c->mark <= f->x1) {
        double x = across(f, c->mark);
        bool left = x > WIDTH - 90;
        fprintf(out,
                "<path class=\"mark\" d=\"M%.1f %dV%d\"/><text class=\"mark\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>",
                x, TOP, HEIGHT - BOTTOM, x + (left ? -4 : 4), TOP + 10, left ? "end" : "start", c->mark_name);
    }
    if (c->blank_to > c->blank_from) {
        double from = across(f, c->blank_from), to = across(f, c->blank_to);
        fprintf(out, "<rect class=\"blank\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", from, TOP, to - from,
                HEIGHT - TOP - BOTTOM);
        if (to - from > 60)
            fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>", (from + to) / 2,
                    (TOP + HEIGHT - BOTTOM) / 2, c->blank_name);
    }
    fputs("</svg></figure>\n", out);
}

// ---- lines --------------------------------------------------------------------------------------------------------------

// The points [from, to) fall into one pixel column: the lowest and the highest, in their order.
static void column_points(FILE *out, const ft_chart_line *l, const frame *f, int64_t from, int64_t to) {
    int64_t low = from, high = from;
    for (int64_t i = from; i < to; i++) {
        if (l->y[i] < l->y[low]) low = i;
        if (l->y[i] > l->y[high]) high = i;
    }
    int64_t first = low < high ? low : high, second = low < high ? high : low;
    fprintf(out, "%.1f,%.1f ", across(f, l->x[first]), down(f, l->y[first]));
    if (second != first) fprintf(out, "%.1f,%.1f ", across(f, l->x[second]), down(f, l->y[second]));
}

static void write_line(FILE *out, const ft_chart *c, int index, const frame *f) {
    const ft_chart_line *l = &c->lines[index];
    fprintf(out, "<polyline class=\"c%d\" points=\"", index);
    for (int64_t from = 0, to; from < l->count; from = to) {
        double column = floor(across(f, l->x[from]));
        for (to = from + 1; to < l->count && floor(across(f, l->x[to])) == column; to++) {
        }
        column_points(out, l, f, from, to);
    }
    fputs("\"/>", out);
    for (int64_t i = 0; i < l->count && l->count <= TOOLTIPS; i++) {
        fprintf(out, "<circle class=\"b%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>", index, across(f, l->x[i]),
                down(f, l->y[i]), l->count <= 25 ? "3" : "2");
        ft_html_text(out, l->name);
        fputs(" ", out);
        value_text(out, l->y[i], c->y_unit);
        fprintf(out, " at %s %.0f</title></circle>", c->x_name, l->x[i]);
    }
}

ft_status ft_chart_lines(FILE *out, const ft_chart *c) {
    frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int k = 0; k < c->line_count; k++)
        for (int64_t i = 0; i < c->lines[k].count; i++) {
            f.x0 = fmin(f.x0, c->lines[k].x[i]);
            f.x1 = fmax(f.x1, c->lines[k].x[i]);
            f.y0 = fmin(f.y0, c->lines[k].y[i]);
            f.y1 = fmax(f.y1, c->lines[k].y[i]);
        }
    if (f.x0 > f.x1) return FT_OK;
    round_off(&f, false);
    begin(out, c, false);
    write_axes(out, c, &f);
    for (int k = 0; k < c->line_count; k++)
        if (c->lines[k].count > 0) write_line(out, c, k, &f);
    finish(out, c, &f);
    return FT_OK;
}

// ---- points -------------------------------------------------------------------------------------------------------------

ft_status ft_chart_scatter(FILE *out, const ft_chart *c) {
    const ft_chart_line *l = &c->lines[0];
    if (c->line_count == 0 || l->count == 0) return FT_OK;
    enum { CELL = 3, COLUMNS = WIDTH / CELL + 1, CELLS = COLUMNS * (HEIGHT / CELL + 1) };
    bool *drawn = ft_calloc(CELLS, sizeof *drawn, "a chart");
    if (drawn == NULL) return FT_NO_MEMORY;
    frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int64_t i = 0; i < l->count; i++) {
        f.y0 = fmin(f.y0, fmin(l->x[i], l->y[i]));
        f.y1 = fmax(f.y1, fmax(l->x[i], l->y[i]));
    }
    f.x0 = f.y0, f.x1 = f.y1;
    round_off(&f, false);
    f.x0 = f.y0, f.x1 = f.y1;
    begin(out, c, true);
    write_axes(out, c, &f);
    fprintf(out, "<path class=\"mark\" d=\"M%.1f %.1fL%.1f %.1f\"/><g class=\"b0\" fill-opacity=\".55\">", across(&f, f.x0),
            down(&f, f.y0), across(&f, f.x1), down(&f, f.y1));
    for (int64_t i = 0; i < l->count; i++) {
        double x = across(&f, l->x[i]), y = down(&f, l->y[i]);
        bool *cell = &drawn[(int)(y / CELL) * COLUMNS + (int)(x / CELL)];
        if (!*cell) fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", x, y);
        *cell = true;
    }
    fputs("</g>", out);
    finish(out, c, &f);
    free(drawn);
    return FT_OK;
}

// ---- stacked areas ------------------------------------------------------------------------------------------------------

static double height_at(const ft_chart *c, int lines, int64_t i) {
    double sum = 0;
    for (int k = 0; k < lines; k++)
        sum += c->lines[k].y[i];
    return sum;
}

// Of each pixel column the moment with the largest sum: peaks are what such a picture is looked at for. Returns how many.
static int64_t choose_moments(const ft_chart *c, const frame *f, int64_t *moment) {
    const ft_chart_line *l = &c->lines[0];
    int64_t count = 0;
    for (int64_t from = 0, to; from < l->count; from = to) {
        double column = floor(across(f, l->x[from])), best = -1;
        for (to = from; to < l->count && floor(across(f, l->x[to])) == column; to++) {
            double sum = height_at(c, c->line_count, to);
            if (sum > best) best = sum, moment[count] = to;
        }
        count++;
    }
    return count;
}

// The outline of the sum of the first `lines` lines: forwards as stairs, or backwards.
static void write_stairs(FILE *out, const ft_chart *c, int lines, const frame *f, const int64_t *moment, int64_t count,
                         bool forwards) {
    for (int64_t n = 0; n < count; n++) {
        int64_t i = forwards ? n : count - 1 - n;
        double y = down(f, height_at(c, lines, moment[i])), left = across(f, c->lines[0].x[moment[i]]);
        double right = i + 1 < count ? across(f, c->lines[0].x[moment[i + 1]]) : WIDTH - RIGHT;
        fprintf(out, "%.1f,%.1f %.1f,%.1f ", forwards ? left : right, y, forwards ? right : left, y);
    }
}

static void write_areas(FILE *out, const ft_chart *c, const frame *f, const int64_t *moment, int64_t count) {
    for (int k = 0; k < c->line_count; k++) {
        fprintf(out, "<polygon class=\"b%d\" points=\"", k);
        write_stairs(out, c, k + 1, f, moment, count, true);
        write_stairs(out, c, k, f, moment, count, false);
        fputs("\"/>", out);
    }
}

ft_status ft_chart_stacked(FILE *out, const ft_chart *c) {
    int64_t count = c->line_count > 0 ? c->lines[0].count : 0;
    if (count == 0) return FT_OK;
    int64_t *moment = ft_calloc((size_t)count, sizeof *moment, "a chart");
    if (moment == NULL) return FT_NO_MEMORY;
    frame f = {c->lines[0].x[0], c->lines[0].x[count - 1], 0, 0};
    for (int64_t i = 0; i < count; i++)
        f.y1 = fmax(f.y1, height_at(c, c->line_count, i));
    round_off(&f, true);
    begin(out, c, true);
    write_areas(out, c, &f, moment, choose_moments(c, &f, moment));
    write_axes(out, c, &f);
    finish(out, c, &f);
    free(moment);
    return FT_OK;
}
