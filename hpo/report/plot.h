// plot.h - what a study's pictures are drawn with: texts that are cut to their room, a frame with axes, points of many
// trials.
//
// A picture is SVG without a script. On the page colours are the page's variables, in a file of its own the same in
// light.
#ifndef FT_HPO_PLOT_H
#define FT_HPO_PLOT_H

#include "base/status.h"
#include "engine/report/axis.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// How a point looks: its colour, and its shape, so that nobody has to tell them apart by colour alone.
typedef enum ft_look {
    FT_LOOK_CLASS_0, // ten colours of one order, dots: 0 the worst tenth (or the earliest), 9 the best
    FT_LOOK_DOT = 10,
    FT_LOOK_RING,
    FT_LOOK_SQUARE,
    FT_LOOK_TRIANGLE,
    FT_LOOK_CROSS,
    FT_LOOK_DIAMOND,
    FT_LOOKS
} ft_look;

typedef struct ft_plot {
    FILE *out;
    double width, height;            // of the picture
    double left, top, right, bottom; // the area within the axes
    ft_axis x, y;
} ft_plot;

// ---- texts ----------------------------------------------------------------------------------------------------------

double ft_plot_text_width(const char *text, double size);
// `anchor`: "start", "middle" or "end"; `style`: a class of ft_picture_style, or "". Cut to `most` pixels, then with
// the whole text as tooltip.
void ft_plot_text(FILE *out, double x, double y, const char *anchor, const char *style, double most, const char *text);
// A value as on this axis, for people.
void ft_plot_value(const ft_axis *axis, double value, char out[64]);

// ---- legend and frame -----------------------------------------------------------------------------------------------

typedef struct ft_legend_entry {
    ft_look look;
    const char *line, *bar; // instead of a point: the class of a line, or of a bar. NULL: neither
    char text[64];          // "complete 120"
} ft_legend_entry;

// Below the title; its end, where a frame may begin.
double ft_plot_legend(FILE *out, double width, const ft_legend_entry *entries, int count);
// The ten classes as a strip with what its ends mean. As above.
double ft_plot_class_legend(FILE *out, const char *low, const char *high);

// Grid, ticks and names of both axes; sets left, right and bottom (top is given) from width, height and the room that
// labels need. What is drawn there comes behind it.
void ft_plot_frame(ft_plot *plot, const char *x_name, const char *y_name);
// The same without a y axis: rows from top to bottom, `left` pixels for their names.
void ft_plot_rows_frame(ft_plot *plot, double bottom, double left, const char *x_name);
// A line at the foot of the picture, for what was left out.
void ft_plot_note(const ft_plot *plot, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline double ft_plot_x(const ft_plot *p, double value) {
    return p->left + ft_axis_place(&p->x, value) * (p->right - p->left);
}
static inline double ft_plot_y(const ft_plot *p, double value) {
    return p->bottom - ft_axis_place(&p->y, value) * (p->bottom - p->top);
}

// ---- points ---------------------------------------------------------------------------------------------------------

typedef struct ft_point {
    double x, y;
    ft_look look;
    int64_t trial;
} ft_point;

// Look by look, the later over the earlier. A few have tooltips; of many that lie upon each other one is drawn.
ft_status ft_plot_points(const ft_plot *plot, const ft_point *points, int64_t count);

// ---- the file -------------------------------------------------------------------------------------------------------

// The rules behind the classes, with var(--NAME) for the page's colours.
extern const char ft_picture_style[];
void ft_picture_begin(FILE *out, const char *title, double width, double height, bool alone);
void ft_picture_end(FILE *out);

#endif
