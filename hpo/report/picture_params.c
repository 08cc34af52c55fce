// picture_params.c - parameters one by one: how much each decided, and the objective over its values.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>

// ---- importances ----------------------------------------------------------------------------------------------------

static void write_bar(const ft_plot *p, double y, const char *name, double share) {
    char text[32];
    double length = share * (p->right - p->left);
    snprintf(text, sizeof text, "%.1f %%", 100 * share);
    ft_plot_text(p->out, p->left - 8, y + 12, "end", "key", p->left - 20, name);
    fprintf(p->out, "<path class=\"bar\" d=\"M%.1f %.1fh%.1fv13h-%.1fz\"/>", p->left, y + 1, fmax(length, 1),
            fmax(length, 1));
    ft_plot_text(p->out, p->left + length + 6, y + 12, "start", "", 60, text);
    fputc('\n', p->out);
}

// In the order of the importance for all objectives: one parameter has one place in every picture.
ft_status ft_draw_importance(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
    double widest = 40, rest = 0;
    int others = 0;
    for (int i = 0; i < s->varying && i < FT_PICTURE_BARS; i++)
        widest = fmax(widest, ft_plot_text_width(s->params[i].text, 12));
    p.left = 24 + fmin(widest, 0.45 * p.width);
    p.right = p.width - 68;
    for (int i = 0; i < s->varying; i++) {
        const ft_report_param *param = &s->params[i];
        double share = fmax(picture->objective < 0 ? param->importance : param->alone[picture->objective], 0);
        if (i < FT_PICTURE_BARS)
            write_bar(&p, 32 + 19 * i, s->params[i].text, share);
        else
            rest += share, others++;
    }
    if (others > 0) ft_plot_note(&p, "%d more parameters have %.1f %% together", others, 100 * rest);
    return FT_OK;
}

// ---- slices ---------------------------------------------------------------------------------------------------------

// Trials with the same choice stand beside each other, each always in its place.
static double beside(int64_t number) { return 0.7 * (fmod((double)number * 0.6180339887498949, 1) - 0.5); }

static int64_t slice_points(const ft_summary *s, const ft_study_picture *picture, ft_point *points, double *values) {
    const ft_report_param *param = &s->params[picture->param];
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) {
        double x = ft_report_param_value(s, i, param), y = ft_report_value(s, i, picture->objective);
        if (isnan(x + y)) continue;
        ft_look look = (ft_look)(10 * i / s->count); // the later the further in the order of the colours
        if (s->trials[i].fate == FT_FATE_INFEASIBLE) look = FT_LOOK_RING;
        if (s->trials[i].front) look = FT_LOOK_DIAMOND;
        values[count] = y;
        points[count++] = (ft_point){param->axis.scale == FT_SCALE_CHOICES ? x + beside(i) : x, y, look, i};
    }
    return count;
}

ft_status ft_draw_slice(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    ft_point *points = ft_calloc((size_t)s->count + 1, sizeof *points, "a picture");
    double *values = ft_calloc((size_t)s->count + 1, sizeof *values, "a picture");
    ft_status status = points != NULL && values != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        const ft_report_param *param = &s->params[picture->param];
        int64_t beyond, count = slice_points(s, picture, points, values);
        ft_plot p = {.out = out, .width = picture->width, .height = picture->height, .x = param->axis};
        p.y = ft_objective_axis(s, picture->objective, values, count, &beyond);
        p.top = ft_plot_class_legend(out, "early", "late");
        ft_plot_frame(&p, param->axis.scale == FT_SCALE_LOG ? "logarithmic" : "", s->objectives[picture->objective]);
        status = ft_plot_points(&p, points, count);
        ft_plot_note_beyond(&p, beyond);
    }
    free(points);
    free(values);
    return status;
}
