// picture_machine.c - what the trials cost: memory, planned and measured, and time on the devices.
#include "hpo/report/pictures.h"

#include "base/arena.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- memory ---------------------------------------------------------------------------------------------------------

ft_status ft_draw_planned(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    ft_point *points = ft_calloc((size_t)s->count + 1, sizeof *points, "a picture");
    if (points == NULL) return FT_NO_MEMORY;
    double low = INFINITY, high = -INFINITY;
    int64_t count = 0, above = 0, fates[FT_FATES] = {0};
    for (int64_t i = 0; i < s->count; i++) {
        const ft_report_trial *t = &s->trials[i];
        if (isnan(t->planned + t->measured)) continue;
        low = fmin(low, fmin(t->planned, t->measured));
        high = fmax(high, fmax(t->planned, t->measured));
        above += t->measured > t->planned;
        fates[t->fate]++;
        points[count++] = (ft_point){t->planned, t->measured, ft_fate_look(t->fate), i};
    }
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
    p.x = p.y = ft_axis_around(FT_SCALE_LINEAR, FT_UNIT_BYTES, low, high);
    p.top = ft_fate_legend(out, p.width, fates, NULL, NULL);
    ft_plot_frame(&p, "planned before the start", "measured");
    fprintf(out, "<path class=\"dashed\" d=\"M%.1f %.1fL%.1f %.1f\"/>", p.left, p.bottom, p.right, p.top);
    ft_status status = ft_plot_points(&p, points, count);
    ft_plot_note(&p, "Above the line: more than was planned. %" PRId64 " of %" PRId64 " trials are.", above, count);
    free(points);
    return status;
}

ft_status ft_draw_memory(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    ft_point *points = ft_calloc((size_t)s->count + 1, sizeof *points, "a picture");
    if (points == NULL) return FT_NO_MEMORY;
    double high = s->memory_over;
    int64_t count = 0, over = 0, fates[FT_FATES] = {0};
    for (int64_t i = 0; i < s->count; i++) {
        const ft_report_trial *t = &s->trials[i];
        if (isnan(t->measured)) continue;
        high = fmax(high, t->measured);
        over += ft_report_over_memory(s, i);
        fates[t->fate]++;
        points[count++] = (ft_point){(double)i, t->measured, ft_fate_look(t->fate), i};
    }
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
    p.x = (ft_axis){.unit = FT_UNIT_STEPS, .low = 0, .high = fmax((double)s->count - 1, 1)};
    p.y = (ft_axis){.unit = FT_UNIT_BYTES, .low = 0, .high = fmax(1.06 * high, 1)};
    p.top = ft_fate_legend(out, p.width, fates, s->memory_over > 0 ? "dashed" : NULL, "study.report_memory_over");
    ft_plot_frame(&p, "trial", "peak of reserved memory");
    if (s->memory_over > 0)
        fprintf(out, "<path class=\"dashed\" d=\"M%.1f %.1fH%.1f\"/>", p.left, ft_plot_y(&p, s->memory_over), p.right);
    ft_status status = ft_plot_points(&p, points, count);
    if (s->memory_over > 0) ft_plot_note(&p, "%" PRId64 " of %" PRId64 " trials are above the line.", over, count);
    free(points);
    return status;
}

// ---- time -----------------------------------------------------------------------------------------------------------

enum { LANE = 15, TOOLTIPS = 250 };

// A trial on its way: a bar.
typedef struct bar {
    double start, end;
    int64_t number;
    const char *device;
    int lane; // -1: there are too many
} bar;

static int by_device_and_start(const void *a, const void *b) {
    const bar *p = a, *q = b;
    int device = strcmp(p->device, q->device);
    if (device != 0) return device;
    if (p->start != q->start) return p->start < q->start ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

// Those that began. One that is running goes on to the end of the picture.
static int64_t gather(const ft_summary *s, bar *bars) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const ft_report_trial *t = &s->trials[i];
        double end = t->fate == FT_FATE_RUNNING ? fmax(s->seconds, t->start) : t->end;
        if (end >= t->start) bars[count++] = (bar){t->start, end, i, t->device != NULL ? t->device : "", -1};
    }
    qsort(bars, (size_t)count, sizeof *bars, by_device_and_start);
    return count;
}

// Each gets the first lane of its device that is free by then. Returns how many lanes there are.
static int take_lanes(bar *bars, int64_t count) {
    double until[FT_PICTURE_LANES]; // when it is free again
    int used = 0, first = 0;        // first: of this device
    for (int64_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(bars[i].device, bars[i - 1].device) != 0) first = used;
        int at = first;
        while (at < used && until[at] > bars[i].start + 1e-6)
            at++;
        if (at == FT_PICTURE_LANES) continue;
        if (at == used) used++;
        until[at] = bars[i].end;
        bars[i].lane = at;
    }
    return used;
}

ft_status ft_timeline_height(const ft_summary *s, double *height) {
    bar *bars = ft_calloc((size_t)s->count + 1, sizeof *bars, "a picture");
    if (bars == NULL) return FT_NO_MEMORY;
    *height = 118 + LANE * take_lanes(bars, gather(s, bars));
    free(bars);
    return FT_OK;
}

static void write_bar(const ft_plot *p, double unit, const bar *b) {
    double x = ft_plot_x(p, b->start / unit), width = fmax(ft_plot_x(p, b->end / unit) - x, 0.7);
    fprintf(p->out, "M%.1f %.1fh%.1fv10h-%.1fz", x, p->top + 2 + LANE * b->lane, width, width);
}

// Of a few trials each has a tooltip; of many the bars of one fate are one path, without those that are hidden by their
// like.
static void write_bars(const ft_summary *s, const ft_plot *p, double unit, const bar *bars, int64_t count) {
    for (int fate = 0; fate < FT_FATES; fate++) {
        double reached[FT_PICTURE_LANES] = {0}; // pixels
        bool begun = false;
        for (int64_t i = 0; i < count; i++) {
            const bar *b = &bars[i];
            if (b->lane < 0 || (int)s->trials[b->number].fate != fate) continue;
            double end = ft_plot_x(p, b->end / unit);
            if (count > TOOLTIPS && end < reached[b->lane] + 0.4) continue;
            reached[b->lane] = end;
            if (!begun) fprintf(p->out, "<path class=\"t%d\" d=\"", fate);
            begun = true;
            write_bar(p, unit, b);
            if (count > TOOLTIPS) continue;
            fprintf(p->out, "\"><title>trial %" PRId64 ": %s, %.1f s</title></path>\n", b->number,
                    ft_fate_name((ft_fate)fate), b->end - b->start);
            begun = false;
        }
        if (begun) fputs("\"/>\n", p->out);
    }
}

static void write_lanes(const ft_plot *p, const bar *bars, int64_t count) {
    const char *said = "";
    int lane = -1;
    for (int64_t i = 0; i < count; i++) {
        if (bars[i].lane <= lane) continue;
        lane = bars[i].lane;
        double y = p->top + LANE * lane;
        fprintf(p->out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->right);
        if (strcmp(said, bars[i].device) == 0) continue;
        said = bars[i].device;
        ft_plot_text(p->out, p->left - 8, y + 11, "end", "", p->left - 12, said);
    }
    fputc('\n', p->out);
}

ft_status ft_draw_timeline(const ft_summary *s, const ft_study_picture *picture, FILE *out) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "days since the first start"},
                 {3600, "hours since the first start"},
                 {60, "minutes since the first start"},
                 {1, "seconds since the first start"}};
    bar *bars = ft_calloc((size_t)s->count + 1, sizeof *bars, "a picture");
    if (bars == NULL) return FT_NO_MEMORY;
    int64_t count = gather(s, bars), left_out = 0, fates[FT_FATES] = {0};
    int lanes = take_lanes(bars, count), u = 0;
    for (int64_t i = 0; i < count; i++) {
        left_out += bars[i].lane < 0;
        fates[s->trials[bars[i].number].fate]++;
    }
    while (u < 3 && s->seconds < 3 * units[u].seconds)
        u++;
    ft_legend_entry legend[FT_FATES];
    static const char *const styles[FT_FATES] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6"};
    int entries = 0;
    for (int f = 0; f < FT_FATES; f++) {
        if (fates[f] == 0) continue;
        legend[entries] = (ft_legend_entry){.bar = styles[f]};
        snprintf(legend[entries].text, sizeof legend[entries].text, "%s %" PRId64, ft_fate_name((ft_fate)f), fates[f]);
        entries++;
    }
    ft_plot p = {.out = out, .width = picture->width, .height = picture->height};
    p.x = (ft_axis){.low = 0, .high = fmax(s->seconds / units[u].seconds, 1e-3)};
    p.top = ft_plot_legend(out, p.width, legend, entries);
    ft_plot_rows_frame(&p, p.top + LANE * lanes, 120, units[u].name);
    write_lanes(&p, bars, count);
    write_bars(s, &p, units[u].seconds, bars, count);
    if (left_out > 0)
        ft_plot_note(&p, "%" PRId64 " trials ran beside so many others that they have no row here.", left_out);
    free(bars);
    return FT_OK;
}
