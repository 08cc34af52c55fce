// picture_contour.c - the objective over two parameters: the mean of the trials around each place, in bands of ten
// classes, and the trials themselves. Where there are none around, nothing is claimed.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FINE = 96 }; // cells along an axis of numbers; of choices one each

// Sums of weights and of weighted shares (ft_summary.share: 0 the best) over cells [rows][columns].
typedef struct field {
    int columns, rows;
    double *weight, *share, *scratch;
} field;

static int cells_along(const ft_axis *axis) { return axis->scale == FT_SCALE_CHOICES ? axis->choice_count : FINE; }

static int cell_at(const ft_axis *axis, int cells, double value) {
    int cell = (int)(ft_axis_place(axis, value) * cells);
    return cell < cells ? cell : cells - 1;
}

// A normal kernel of 6% of the axis, cut at three deviations: rows (apart = 1) or columns. A choice says nothing of the
// next one.
static void blur(const field *f, double *values, int lines, int line_apart, int cells, int apart, bool choices) {
    const double sigma = 0.06 * FINE;
    const int reach = (int)(3 * sigma);
    if (choices) return;
    for (int line = 0; line < lines; line++) {
        double *v = values + line * line_apart;
        for (int i = 0; i < cells; i++) {
            double sum = 0;
            for (int k = i > reach ? i - reach : 0; k < cells && k <= i + reach; k++) {
                double value = v[k * apart], z = (k - i) / sigma;
                if (value != 0) sum += value * exp(-0.5 * z * z);
            }
            f->scratch[i] = sum;
        }
        for (int i = 0; i < cells; i++)
            v[i * apart] = f->scratch[i];
    }
}

static void fill(const ft_summary *s, const ft_study_picture *picture, const field *f) {
    const ft_report_param *first = &s->params[picture->param], *second = &s->params[picture->second];
    for (int64_t i = 0; i < s->count; i++) {
        double x = ft_report_param_value(s, i, first), y = ft_report_param_value(s, i, second);
        double share = s->share[picture->objective * s->count + i];
        if (isnan(x + y + share)) continue;
        int cell = cell_at(&second->axis, f->rows, y) * f->columns + cell_at(&first->axis, f->columns, x);
        f->weight[cell] += 1;
        f->share[cell] += share;
    }
    double *fields[2] = {f->weight, f->share};
    for (int k = 0; k < 2; k++) {
        blur(f, fields[k], f->rows, f->columns, f->columns, 1, first->axis.scale == FT_SCALE_CHOICES);
        blur(f, fields[k], f->columns, 1, f->rows, f->columns, second->axis.scale == FT_SCALE_CHOICES);
    }
}

// Cells of one class that touch in a row are one bar. -1: nothing is known there.
static int class_of_cell(const field *f, int row, int column) {
    const double nobody = 0.05; // the weight that one trial has at 2.4 deviations
    int cell = row * f->columns + column;
    return f->weight[cell] > nobody ? 9 - (int)fmin(10 * f->share[cell] / f->weight[cell], 9) : -1;
}

static void write_bands(const ft_plot *p, const field *f) {
    double width = (p->right - p->left) / f->columns, height = (p->bottom - p->top) / f->rows;
    for (int class = 0; class < 10; class ++) {
        bool begun = false;
        for (int row = 0; row < f->rows; row++)
            for (int from = 0, to; from < f->columns; from = to) {
                int here = class_of_cell(f, row, from);
                for (to = from + 1; to < f->columns && class_of_cell(f, row, to) == here; to++) {
                }
                if (here != class) continue;
                if (!begun) fprintf(p->out, "<path class=\"a%d crisp\" d=\"", class);
                begun = true;
                // Edges that touch have the same digits: no seams.
                fprintf(p->out, "M%.1f %.1fH%.1fV%.1fH%.1fz", p->left + from * width, p->bottom - row * height,
                        p->left + to * width, p->bottom - (row + 1) * height, p->left + from * width);
            }
        if (begun) fputs("\"/>\n", p->out);
    }
}

void ft_draw_specks(const ft_summary *s, const ft_study_picture *picture, const ft_plot *p) {
    bool drawn[100][100] = {{false}};
    fputs("<path class=\"speck\" d=\"", p->out);
    for (int64_t i = 0; i < s->count; i++) {
        double x = ft_report_param_value(s, i, &s->params[picture->param]),
               y = ft_report_param_value(s, i, &s->params[picture->second]);
        if (isnan(x + y + s->share[picture->objective * s->count + i])) continue;
        bool *place = &drawn[(int)(ft_axis_place(&p->y, y) * 99)][(int)(ft_axis_place(&p->x, x) * 99)];
        if (!*place) fprintf(p->out, "M%.0f %.0fh0", ft_plot_x(p, x), ft_plot_y(p, y));
        *place = true;
    }
    fputs("\"/>\n", p->out);
}

ft_status ft_draw_contour(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    const ft_report_param *first = &s->params[picture->param], *second = &s->params[picture->second];
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height, .x = first->axis, .y = second->axis};
    field f = {.columns = cells_along(&p.x), .rows = cells_along(&p.y)};
    size_t cells = (size_t)f.columns * (size_t)f.rows;
    f.weight = ft_calloc(cells, sizeof *f.weight, "a picture");
    f.share = ft_calloc(cells, sizeof *f.share, "a picture");
    f.scratch = ft_calloc((size_t)(f.columns > f.rows ? f.columns : f.rows), sizeof *f.scratch, "a picture");
    ft_status status = f.weight != NULL && f.share != NULL && f.scratch != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) {
        p.top = ft_plot_class_legend(out, "worse", "better than others");
        fill(s, picture, &f);
        ft_plot_frame(&p, first->text, second->text);
        write_bands(&p, &f);
        ft_draw_specks(s, picture, &p);
    }
    free(f.weight);
    free(f.share);
    free(f.scratch);
    return status;
}
