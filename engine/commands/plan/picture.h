// picture.h - a table or a sweep of plans as one SVG file: lines over values of an option. It needs no script, no
// font file and no page around it.
#ifndef FT_PLAN_PICTURE_H
#define FT_PLAN_PICTURE_H

#include "base/status.h"

#include <stdbool.h>

enum { FT_PLAN_PICTURE_LINES = 24 }; // eight colours, whole, dashed and dotted

typedef struct ft_plan_picture_line {
    const char *name;
    const double *y;    // [x_count], at least 0
    const bool *hollow; // [x_count] points that are drawn empty; NULL: none
} ft_plan_picture_line;

typedef struct ft_plan_picture {
    const char *title, *subtitle;
    const char *x_name, *y_name;
    int x_count; // at least 1; values are spaced evenly, whatever they are
    const char *const *x_labels;
    int line_count; // at most FT_PLAN_PICTURE_LINES
    const ft_plan_picture_line *lines;
    bool logarithmic; // y in powers of two; 0 lies on the axis
    double level;     // a dashed horizontal with level_name at this y; NaN: none
    const char *level_name;
    const char *note; // below everything
} ft_plan_picture;

// Writes the file whole or not at all.
ft_status ft_plan_picture_write(const ft_plan_picture *picture, const char *path);

#endif
