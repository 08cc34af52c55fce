// picture_belief.c - what the Gaussian process believes over two parameters: the value that it expects, and how sure it
// is of that. Of what is worse than the middle trial it knows ranks alone, so that it is one class.
#include "hpo/report/pictures.h"

#include "engine/report/html.h"
#include "hpo/space/objective.h"

#include <math.h>

enum { CLASSES = 10 };

typedef struct ruler {
    bool doubt;       // of deviations, else of means
    double low, high; // the values of the lowest class' end, and of the best place
    bool any;         // some cell is on it
} ruler;

static double number_of(const ruler *s, const ft_gp_view *view) { return s->doubt ? view->deviation : view->mean; }

static ruler ruler_of(const ft_summary *s, const ft_gp_plane *plane, bool doubt) {
    ruler out = {.doubt = doubt, .low = s->belief->insight.middle};
    const bool larger = !doubt && s->study->maximize[0]; // is better
    for (int i = 0; i < plane->rows * plane->columns; i++) {
        const double value = number_of(&out, &plane->view[i]);
        if (!plane->known[i] || isnan(value)) continue;
        if (!out.any || (larger ? value > out.high : value < out.high)) out.high = value;
        if (doubt && (!out.any || value > out.low)) out.low = value;
        out.any = true;
    }
    return out;
}

// 0: worse than the middle trial, or the least sure; 9 the best. -1: no trial has such a combination.
static int class_of(const ruler *s, const ft_gp_plane *plane, int cell) {
    const double value = number_of(s, &plane->view[cell]), span = s->high - s->low;
    if (!plane->known[cell]) return -1;
    if (isnan(value)) return 0;
    const double share = span != 0 ? (value - s->low) / span : 1;
    return s->doubt ? (int)fmin(share * CLASSES, CLASSES - 1) : 1 + (int)fmin(share * (CLASSES - 1), CLASSES - 2);
}

static void write_cells(const ft_plot *p, const ruler *s, const ft_gp_plane *plane) {
    for (int class = 0; class < CLASSES; class ++) {
        bool begun = false;
        for (int row = 0; row < plane->rows; row++)
            for (int from = 0, to; from < plane->columns; from = to) {
                const int first = row * plane->columns, here = class_of(s, plane, first + from);
                for (to = from + 1; to < plane->columns && class_of(s, plane, first + to) == here; to++) {
                }
                if (here != class) continue;
                if (!begun) fprintf(p->out, "<path class=\"a%d crisp\" d=\"", class);
                begun = true;
                fprintf(p->out, "M%.1f %.1fH%.1fV%.1fH%.1fz", ft_plot_x(p, plane->x[from]), ft_plot_y(p, plane->y[row]),
                        ft_plot_x(p, plane->x[to]), ft_plot_y(p, plane->y[row + 1]), ft_plot_x(p, plane->x[from]));
            }
        if (begun) fputs("\"/>\n", p->out);
    }
}

// A stroke through each cell where a trial rather fails, or breaks a limit.
static bool write_failing(const ft_plot *p, const ft_gp_plane *plane) {
    bool begun = false;
    for (int i = 0; i < plane->rows * plane->columns; i++) {
        const int row = i / plane->columns, column = i % plane->columns;
        if (!plane->known[i] || plane->view[i].chance >= 0.5) continue;
        if (!begun) fputs("<path class=\"lost\" d=\"", p->out);
        begun = true;
        fprintf(p->out, "M%.1f %.1fL%.1f %.1f", ft_plot_x(p, plane->x[column]), ft_plot_y(p, plane->y[row]),
                ft_plot_x(p, plane->x[column + 1]), ft_plot_y(p, plane->y[row + 1]));
    }
    if (begun) fputs("\"/>\n", p->out);
    return begun;
}

// The best trial, where it has both; and the cell with the largest expected gain, chances considered.
static ft_status write_marks(const ft_summary *s, const ft_study_picture *picture, const ft_plot *p) {
    const ft_gp_plane *plane = picture->plane;
    char text[FT_FIGURE_TEXT];
    int most = -1;
    const double x = ft_report_param_value(s, plane->trial, &s->params[picture->param]),
                 y = ft_report_param_value(s, plane->trial, &s->params[picture->second]);
    if (!isnan(x + y)) FT_TRY(ft_plot_points(p, &(ft_point){x, y, FT_LOOK_DIAMOND, plane->trial}, 1));
    for (int i = 0; i < plane->rows * plane->columns; i++)
        if (plane->known[i] && (most < 0 || plane->view[i].gain * plane->view[i].chance >
                                                plane->view[most].gain * plane->view[most].chance))
            most = i;
    if (most < 0) return FT_OK;
    const int row = most / plane->columns, column = most % plane->columns;
    fprintf(p->out, "<path class=\"ring\" d=\"M%.1f %.1fa5 5 0 1 0 10 0a5 5 0 1 0-10 0\"><title>expected gain ",
            (ft_plot_x(p, plane->x[column]) + ft_plot_x(p, plane->x[column + 1])) / 2 - 5,
            (ft_plot_y(p, plane->y[row]) + ft_plot_y(p, plane->y[row + 1])) / 2);
    ft_html_text(p->out, ft_figure_text(s->objectives[0], plane->view[most].gain, 3, text));
    fputs("</title></path>\n", p->out);
    return FT_OK;
}

static double write_legend(const ft_summary *s, const ruler *r, FILE *out) {
    char low[FT_FIGURE_TEXT], high[FT_FIGURE_TEXT], left[FT_FIGURE_TEXT + 24], right[FT_FIGURE_TEXT + 24];
    ft_figure_text(s->objectives[0], r->low, 4, low);
    ft_figure_text(s->objectives[0], r->high, 4, high);
    snprintf(left, sizeof left, r->doubt ? "\xC2\xB1%s" : "worse than %s", low);
    snprintf(right, sizeof right, r->doubt ? "\xC2\xB1%s, surer" : "%s", r->any ? high : "");
    return ft_plot_class_legend(out, left, right);
}

static ft_status draw(const ft_summary *s, const ft_study_picture *picture, bool doubt, FILE *out) {
    const ft_report_param *first = &s->params[picture->param], *second = &s->params[picture->second];
    const ft_gp_plane *plane = picture->plane;
    const ruler r = ruler_of(s, plane, doubt);
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height, .x = first->axis, .y = second->axis};
    p.top = write_legend(s, &r, out);
    ft_plot_frame(&p, first->text, second->text);
    write_cells(&p, &r, plane);
    const bool failing = write_failing(&p, plane);
    ft_draw_specks(s, picture, &p);
    FT_TRY(write_marks(s, picture, &p));
    ft_plot_note(&p, "Others as in trial %lld%s.%s", (long long)plane->trial,
                 plane->mixed ? ", or in the best that goes with both" : "",
                 failing ? " Strokes: rather fails." : "");
    return FT_OK;
}

ft_status ft_draw_expected(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    return draw(s, picture, false, out);
}
ft_status ft_draw_doubt(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    return draw(s, picture, true, out);
}
