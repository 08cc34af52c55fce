// chart.h - charts as inline SVG without a script: lines over steps, areas stacked upon each other over time, and
// points beside a diagonal.
//
// A curve of any length is drawn with at most two points a pixel column, the lowest and the highest in it, so that no
// spike is lost. Points carry their values as tooltips while there are few. Colours are classes (c0, c1, ...), which the
// page's style gives meaning in light and in dark.
#ifndef FT_CHART_H
#define FT_CHART_H

#include "base/status.h"
#include "engine/report/axis.h"

#include <stdint.h>
#include <stdio.h>

enum { FT_CHART_LINES = 8 };

typedef struct ft_chart_line {
    const char *name;
    int64_t count;
    const double *x, *y; // x ascending (but for a scatter); finite
} ft_chart_line;

typedef struct ft_chart {
    const char *title;
    const char *x_name;
    ft_unit x_unit, y_unit;
    int line_count;
    ft_chart_line lines[FT_CHART_LINES];
    bool over_range; // x is no time: the last value of a line is none to tell beside its name
    double mark; // a dashed vertical at this x; NaN: none
    const char *mark_name;
    double blank_from, blank_to; // nothing is known between these x; equal: there is no such stretch
    const char *blank_name;
} ft_chart;

// A <figure>; nothing when no line has a point.
ft_status ft_chart_lines(FILE *out, const ft_chart *chart);
// A point for each x and y of lines[0], on axes of one scale, and the diagonal on which both are equal. Of points that lie
// upon each other one is drawn.
ft_status ft_chart_scatter(FILE *out, const ft_chart *chart);
// As ft_chart_lines with lines[k].y stacked in order: all lines share count and x, values are at least 0 and stay as they are
// until the next x.
ft_status ft_chart_stacked(FILE *out, const ft_chart *chart);

#endif
