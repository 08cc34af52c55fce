// picture_parallel.c - trials as lines: through their values on axes that stand beside each other, and over their
// steps.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// ---- parallel coordinates -------------------------------------------------------------------------------------------

enum { SIDE = 90, APART = 260 }; // room beside the axes; between two of them at most

typedef struct bundle {
    const ft_summary *s;
    FILE *out;
    int axes, objectives; // the first of the axes are objectives
    ft_axis axis[FT_PICTURE_AXES];
    double left, apart, top, bottom, unset; // unset: where a line passes that has no value there
} bundle;

static double axis_value(const bundle *b, int64_t number, int axis) {
    return axis < b->objectives ? ft_report_value(b->s, number, axis)
                                : ft_report_param_value(b->s, number, &b->s->params[axis - b->objectives]);
}

static double height_on(const bundle *b, int axis, double value) {
    return isnan(value) ? b->unset : b->bottom - ft_axis_place(&b->axis[axis], value) * (b->bottom - b->top);
}

static void write_axis(const bundle *b, int axis) {
    ft_tick ticks[FT_AXIS_TICKS];
    double x = b->left + axis * b->apart, above = INFINITY;
    const char *name = axis < b->objectives ? b->s->objectives[axis] : b->s->params[axis - b->objectives].text;
    int count = ft_axis_ticks(&b->axis[axis], 6, ticks);
    ft_plot_text(b->out, x, b->top - 10, "middle", "name", fmin(b->apart - 6, 2 * SIDE - 6), name);
    fprintf(b->out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1f\"/>", x, b->top, b->bottom);
    for (int i = 0; i < count; i++) {
        double y = b->bottom - ticks[i].place * (b->bottom - b->top);
        fprintf(b->out, "<path class=\"axis\" d=\"M%.1f %.1fh-4\"/>", x, y);
        if (above - y < 13) continue;
        ft_plot_text(b->out, x - 6, y + 4, "end", "on", b->apart - 14,
                     ticks[i].choice >= 0 ? b->axis[axis].choices[ticks[i].choice] : ticks[i].text);
        above = y;
    }
    fputc('\n', b->out);
}

static void write_trial(const bundle *b, int64_t number) {
    const ft_report_trial *t = &b->s->trials[number];
    fprintf(b->out, "<path class=\"q%d%s\" d=\"", ft_report_class(b->s, number, 0), t->front ? " thick" : "");
    for (int a = 0; a < b->axes; a++)
        fprintf(b->out, "%s%.0f %.1f", a == 0 ? "M" : "L", b->left + a * b->apart,
                height_on(b, a, axis_value(b, number, a)));
    fprintf(b->out, "\"><title>trial %" PRId64 "</title></path>\n", number);
}

static bool is_complete(const ft_summary *s, int64_t number) { return !isnan(ft_report_value(s, number, 0)); }

static ft_status set_axes(bundle *b) {
    double *values = ft_calloc((size_t)b->s->count + 1, sizeof *values, "a picture");
    if (values == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < b->axes; a++) {
        int64_t count = 0, beyond;
        for (int64_t i = 0; i < b->s->count && a < b->objectives; i++) {
            values[count] = ft_report_value(b->s, i, a);
            count += !isnan(values[count]);
        }
        b->axis[a] = a < b->objectives ? ft_objective_axis(b->s, a, values, count, &beyond)
                                       : b->s->params[a - b->objectives].axis;
    }
    free(values);
    return FT_OK;
}

ft_status ft_draw_parallel(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    bundle b = {.s = s, .out = out, .objectives = s->study->objectives, .top = 78, .bottom = picture->height - 46};
    if (b.objectives > FT_PICTURE_AXES / 2) b.objectives = FT_PICTURE_AXES / 2;
    b.axes = b.objectives + s->varying < FT_PICTURE_AXES ? b.objectives + s->varying : FT_PICTURE_AXES;
    b.left = SIDE;
    b.apart = fmin((picture->width - 2 * SIDE) / fmax(b.axes - 1, 1), APART);
    b.unset = b.bottom + 14;
    FT_TRY(set_axes(&b));
    int64_t *numbers = ft_calloc((size_t)s->count + 1, sizeof *numbers, "a picture"), count, all;
    if (numbers == NULL) return FT_NO_MEMORY;
    ft_status status = ft_choose_lines(s, is_complete, FT_PICTURE_LINES, numbers, &count, &all);
    bool some_unset = false;
    ft_plot_class_legend(out, "worst tenth", "best tenth of the complete trials");
    for (int64_t i = 0; i < count; i++) {
        write_trial(&b, numbers[i]);
        for (int a = 0; a < b.axes; a++)
            some_unset |= isnan(axis_value(&b, numbers[i], a));
    }
    for (int a = 0; a < b.axes; a++)
        write_axis(&b, a);
    const ft_plot foot = {.out = out, .width = picture->width, .height = picture->height};
    const char *below = some_unset ? "A line below an axis has no value there. " : "";
    if (count < all)
        ft_plot_note(&foot, "%sThe best and others, evenly: %" PRId64 " of %" PRId64 " trials.", below, count, all);
    else if (some_unset)
        ft_plot_note(&foot, "%s", below);
    free(numbers);
    return status;
}

// ---- intermediate values --------------------------------------------------------------------------------------------

static bool has_reports(const ft_summary *s, int64_t number) {
    const ft_trial *t = s->trials[number].trial;
    for (int i = 0; i < t->report_count; i++)
        if (isfinite(t->reports[i].value)) return true;
    return false;
}

// The lowest and the highest in each few pixels, in their order: no spike is lost, and no curve is longer than the
// picture is wide.
static void write_curve(const ft_plot *p, const ft_summary *s, int64_t number, const char *style) {
    const ft_trial *t = s->trials[number].trial;
    const double cell = 3;
    int points = 0;
    fprintf(p->out, "<path class=\"%s\" d=\"", style);
    for (int from = 0, to; from < t->report_count; from = to) {
        int low = -1, high = -1;
        double column = floor(ft_plot_x(p, (double)t->reports[from].step) / cell);
        for (to = from; to < t->report_count && floor(ft_plot_x(p, (double)t->reports[to].step) / cell) == column;
             to++) {
            if (!isfinite(t->reports[to].value)) continue;
            if (low < 0 || t->reports[to].value < t->reports[low].value) low = to;
            if (high < 0 || t->reports[to].value > t->reports[high].value) high = to;
        }
        for (int k = 0; k < 2 && low >= 0; k++) {
            const ft_trial_report *r = &t->reports[(k == 0) == (low < high) ? low : high];
            if (k == 1 && low == high) continue;
            fprintf(p->out, "%s%.0f %.1f", points++ == 0 ? "M" : "L", ft_plot_x(p, (double)r->step),
                    ft_plot_y(p, r->value));
        }
    }
    if (points == 1) fprintf(p->out, "m-2 0h4"); // one report is no line
    fprintf(p->out, "\"><title>trial %" PRId64 "</title></path>\n", number);
}

static double *report_values(const ft_summary *s, int64_t *count, double *last_step) {
    int64_t all = 0;
    for (int64_t i = 0; i < s->count; i++)
        all += s->trials[i].trial->report_count;
    double *values = ft_calloc((size_t)all + 1, sizeof *values, "a picture");
    *count = 0;
    *last_step = 1;
    for (int64_t i = 0; i < s->count && values != NULL; i++) {
        const ft_trial *t = s->trials[i].trial;
        for (int k = 0; k < t->report_count; k++) {
            if (!isfinite(t->reports[k].value)) continue;
            values[(*count)++] = t->reports[k].value;
            *last_step = fmax(*last_step, (double)t->reports[k].step);
        }
    }
    return values;
}

ft_status ft_draw_curves(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    double last, *values;
    int64_t value_count, count, all, beyond, *numbers = ft_calloc((size_t)s->count + 1, sizeof *numbers, "a picture");
    if (numbers == NULL || (values = report_values(s, &value_count, &last)) == NULL) {
        free(numbers);
        return FT_NO_MEMORY;
    }
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
    p.x = (ft_axis){.unit = FT_UNIT_STEPS, .low = 0, .high = last};
    p.y = ft_objective_axis(s, 0, values, value_count, &beyond);
    ft_status status = ft_choose_lines(s, has_reports, FT_PICTURE_CURVES, numbers, &count, &all);
    ft_legend_entry legend[] = {{.line = "q9", .text = "complete: best tenth"},
                                {.line = "q0", .text = "worst tenth"},
                                {.line = "cut", .text = "pruned"},
                                {.line = "lost", .text = "failed, running"}};
    p.top = ft_plot_legend(out, p.width, legend, sizeof legend / sizeof legend[0]);
    ft_plot_frame(&p, "step", s->objectives[0]);
    for (int64_t i = 0; i < count; i++) {
        char style[16];
        const ft_report_trial *t = &s->trials[numbers[i]];
        bool pruned = t->fate == FT_FATE_PRUNED || t->fate == FT_FATE_OOM;
        snprintf(style, sizeof style, "q%d%s", ft_report_class(s, numbers[i], 0), t->front ? " thick" : "");
        write_curve(&p, s, numbers[i], !isnan(ft_report_value(s, numbers[i], 0)) ? style : pruned ? "cut" : "lost");
    }
    if (count < all)
        ft_plot_note(&p, "The best and others, evenly: %" PRId64 " of %" PRId64 " trials.", count, all);
    else
        ft_plot_note_beyond(&p, beyond);
    free(values);
    free(numbers);
    return status;
}
