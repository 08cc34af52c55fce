// picture_values.c - the objectives: their course over the trials, and two of them against each other.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// ---- how it went ----------------------------------------------------------------------------------------------------

static int64_t history_points(const ft_summary *s, int objective, ft_point *points, double *values, int64_t *fates) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) {
        double value = ft_report_value(s, i, objective);
        if (isnan(value)) value = ft_report_pruned_at(s, i);
        if (isnan(value)) continue;
        fates[s->trials[i].fate]++;
        values[count] = value;
        points[count++] = (ft_point){(double)i, value, ft_fate_look(s->trials[i].fate), i};
    }
    return count;
}

// Stairs over the feasible complete trials. Returns the best value.
static double write_best(const ft_summary *s, int objective, const ft_plot *p) {
    const double sign = s->study->maximize[objective] ? 1 : -1;
    double best = NAN;
    for (int64_t i = 0; i < s->count; i++) {
        double value = ft_report_value(s, i, objective);
        if (isnan(value) || s->trials[i].fate != FT_FATE_COMPLETE || sign * value <= sign * best) continue;
        double x = ft_plot_x(p, (double)i), y = ft_plot_y(p, value);
        if (isnan(best))
            fprintf(p->out, "<path class=\"best\" d=\"M%.1f %.1f", x, y);
        else
            fprintf(p->out, "H%.1fV%.1f", x, y);
        best = value;
    }
    if (!isnan(best)) fprintf(p->out, "H%.1f\"/>\n", p->right);
    return best;
}

ft_status ft_draw_history(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    const int o = picture->objective;
    ft_point *points = ft_calloc((size_t)s->count + 1, sizeof *points, "a picture");
    double *values = ft_calloc((size_t)s->count + 1, sizeof *values, "a picture");
    ft_status status = points != NULL && values != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        int64_t beyond, fates[FT_FATES] = {0}, count = history_points(s, o, points, values, fates);
        ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
        p.x = (ft_axis){.unit = FT_UNIT_STEPS, .low = 0, .high = fmax((double)s->count - 1, 1)};
        p.y = ft_objective_axis(s, o, values, count, &beyond);
        p.top = ft_fate_legend(out, p.width, fates, "best", "best so far");
        ft_plot_frame(&p, "trial", s->objectives[o]);
        status = ft_plot_points(&p, points, count);
        write_best(s, o, &p);
        ft_plot_note_beyond(&p, beyond);
    }
    free(points);
    free(values);
    return status;
}

// ---- several objectives ---------------------------------------------------------------------------------------------

static int by_x(const void *a, const void *b) {
    const ft_point *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

// With two objectives the edge of what is reached: stairs through the points that no other beats, which are sorted by
// x.
static void write_edge(const ft_plot *p, const ft_point *front, int64_t count, bool maximize_x) {
    if (count == 0) return;
    fprintf(p->out, "<path class=\"best\" d=\"M%.1f %.1f", ft_plot_x(p, front[0].x), ft_plot_y(p, front[0].y));
    for (int64_t i = 1; i < count; i++)
        if (maximize_x)
            fprintf(p->out, "V%.1fH%.1f", ft_plot_y(p, front[i].y), ft_plot_x(p, front[i].x));
        else
            fprintf(p->out, "H%.1fV%.1f", ft_plot_x(p, front[i].x), ft_plot_y(p, front[i].y));
    fputs("\"/>\n", p->out);
}

// The axes of both objectives; values [count] is scratch.
static ft_axis axis_of(const ft_summary *s, int objective, double *values, int64_t *beyond) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) {
        double value = ft_report_value(s, i, objective);
        if (!isnan(value)) values[count++] = value;
    }
    return ft_objective_axis(s, objective, values, count, beyond);
}

static void draw_front(const ft_summary *s, const ft_study_picture *picture, ft_plot *p, ft_point *points,
                       double *values) {
    int64_t beyond[2], on_front = 0;
    p->x = axis_of(s, picture->objective, values, &beyond[0]);
    p->y = axis_of(s, picture->other, values, &beyond[1]);
    for (int64_t i = 0; i < s->front_count; i++) {
        int64_t number = s->front[i];
        double x = ft_report_value(s, number, picture->objective), y = ft_report_value(s, number, picture->other);
        if (!isnan(x + y)) points[on_front++] = (ft_point){x, y, FT_LOOK_DIAMOND, number};
    }
    qsort(points, (size_t)on_front, sizeof *points, by_x);
    ft_legend_entry legend[2] = {{.look = FT_LOOK_DIAMOND}, {.look = FT_LOOK_DOT}};
    snprintf(legend[0].text, sizeof legend[0].text, "no other is better in all: %" PRId64, s->front_count);
    snprintf(legend[1].text, sizeof legend[1].text, "other complete trials");
    p->top = ft_plot_legend(p->out, p->width, legend, 2);
    ft_plot_frame(p, s->objectives[picture->objective], s->objectives[picture->other]);
    if (s->study->objectives == 2) write_edge(p, points, on_front, s->study->maximize[picture->objective]);
    ft_plot_note_beyond(p, beyond[0] + beyond[1]);
}

ft_status ft_draw_front(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    ft_point *points = ft_calloc((size_t)s->count + 1, sizeof *points, "a picture");
    double *values = ft_calloc((size_t)s->count + 1, sizeof *values, "a picture");
    ft_status status = points != NULL && values != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
        draw_front(s, picture, &p, points, values);
        int64_t count = 0;
        for (int64_t i = 0; i < s->count; i++) {
            double x = ft_report_value(s, i, picture->objective), y = ft_report_value(s, i, picture->other);
            ft_look look = s->trials[i].front ? FT_LOOK_DIAMOND : ft_fate_look(s->trials[i].fate);
            if (!isnan(x + y)) points[count++] = (ft_point){x, y, look, i};
        }
        status = ft_plot_points(&p, points, count);
    }
    free(points);
    free(values);
    return status;
}
