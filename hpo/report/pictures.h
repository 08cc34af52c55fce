// pictures.h - the pictures of a study: which ones there are for this one, and how each is drawn.
#ifndef FT_HPO_PICTURES_H
#define FT_HPO_PICTURES_H

#include "hpo/report/plot.h"
#include "hpo/report/summary.h"

typedef struct ft_study_picture {
    const char *section,
        *remark;      // heading on the page, and what is said below it once; pictures of a section follow each other
    const char *file; // name of the SVG file, without its end
    const char *title;
    double width, height;
    ft_status (*draw)(const ft_summary *summary, const struct ft_study_picture *picture, FILE *out);
    int objective, other; // of which objective, an importance -1: of all; the front: of which two
    int param, second;    // of which parameters, indices into summary->params
    const ft_gp_plane *plane; // of a belief
} ft_study_picture;

// Those that have something to show, in the page's order; texts live in the arena.
ft_status ft_study_pictures(const ft_summary *summary, ft_arena *arena, ft_study_picture **pictures, int *count);
// One <svg>; `alone`: as a file of its own.
ft_status ft_study_picture_write(const ft_summary *summary, const ft_study_picture *picture, bool alone, FILE *out);

// ---- each of them (internal) ----------------------------------------------------------------------------------------

enum {
    FT_PICTURE_PARAMS = 12,  // so many parameters have slices
    FT_PICTURE_BARS = 20,    // so many importances are shown
    FT_PICTURE_AXES = 9,     // stand beside each other in parallel coordinates, objectives among them
    FT_PICTURE_LINES = 300,  // so many trials are drawn there
    FT_PICTURE_CURVES = 160, // so many trials with intermediate values
    FT_PICTURE_LANES = 48    // rows of the timeline
};
ft_status ft_draw_history(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_front(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_importance(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_parallel(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_slice(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_contour(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_expected(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_doubt(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_curves(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_memory(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_draw_planned(const ft_summary *summary, const ft_study_picture *picture, FILE *out);
ft_status ft_timeline_height(const ft_summary *summary,
                             double *height); // of its picture: a row for each trial at a time
ft_status ft_draw_timeline(const ft_summary *summary, const ft_study_picture *picture, FILE *out);

// The axis of an objective over `values` [count] of it, which are sorted by this: the bad end is cut where a few outliers
// would press all others together. *beyond: how many lie behind it, for ft_plot_note_beyond.
ft_axis ft_objective_axis(const ft_summary *summary, int objective, double *values, int64_t count, int64_t *beyond);
void ft_plot_note_beyond(const ft_plot *plot, int64_t beyond);
// The chosen of all trials that `draws` says yes to, at most `most`: the best by objective 0, and others evenly among
// the rest. Worst first; numbers [count of trials]. *all: how many there are.
ft_status ft_choose_lines(const ft_summary *summary, bool (*draws)(const ft_summary *, int64_t number), int most,
                          int64_t *numbers, int64_t *count, int64_t *all);
// Complete trials that have both parameters of a picture, as small dots.
void ft_draw_specks(const ft_summary *summary, const ft_study_picture *picture, const ft_plot *plot);
ft_look ft_fate_look(ft_fate fate);
// Points' legend: the fates that `counts` [FT_FATES] has. Returns where a frame may begin.
double ft_fate_legend(FILE *out, double width, const int64_t *counts, const char *line, const char *line_text);

#endif
