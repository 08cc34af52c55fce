// picture_parts.c - what several pictures of a study share: the axis of an objective, the lines that are drawn when there are too many,
// how a trial's fate looks.
#include "hpo/report/pictures.h"

#include "hpo/space/objective.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

ft_axis ft_objective_axis(const ft_summary *s, int objective, double *values, int64_t count, int64_t *beyond) {
    const bool maximize = s->study->maximize[objective];
    const ft_unit unit = ft_figure_is_bytes(s->objectives[objective]) ? FT_UNIT_BYTES : FT_UNIT_NUMBER;
    *beyond = 0;
    if (count == 0) return ft_axis_around(FT_SCALE_LINEAR, unit, INFINITY, -INFINITY);
    qsort(values, (size_t)count, sizeof *values, ascending);
    double low = values[0], high = values[count - 1];
    double usual = maximize ? values[count / 10] : values[count - 1 - count / 10]; // nine of ten are better
    double best = maximize ? high : low, worst = maximize ? low : high, end = best + 1.25 * (usual - best);
    if (usual != best && fabs(worst - best) > 3 * fabs(usual - best)) {
        for (int64_t i = 0; i < count; i++)
            *beyond += maximize ? values[i] < end : values[i] > end;
        if (maximize)
            low = end;
        else
            high = end;
    }
    return ft_axis_around(FT_SCALE_LINEAR, unit, low, high);
}

void ft_plot_note_beyond(const ft_plot *p, int64_t beyond) {
    if (beyond == 1) ft_plot_note(p, "One value is far worse; it is drawn at the edge.");
    if (beyond > 1) ft_plot_note(p, "%" PRId64 " values are far worse; they are drawn at the edge.", beyond);
}

// Smaller is better; what is not complete comes last.
static double share_of(const ft_summary *s, int64_t number) { return isnan(s->share[number]) ? 2 : s->share[number]; }

typedef struct ranked {
    double share;
    int64_t number;
} ranked;

static int by_share(const void *a, const void *b) {
    const ranked *p = a, *q = b;
    if (p->share != q->share) return p->share < q->share ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

ft_status ft_choose_lines(const ft_summary *s, bool (*draws)(const ft_summary *, int64_t), int most, int64_t *numbers,
                          int64_t *count, int64_t *all) {
    ranked *list = ft_calloc((size_t)s->count + 1, sizeof *list, "a picture");
    if (list == NULL) return FT_NO_MEMORY;
    *all = *count = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (draws(s, i)) list[(*all)++] = (ranked){share_of(s, i), i};
    qsort(list, (size_t)*all, sizeof *list, by_share);
    int64_t best = *all <= most ? *all : most / 3, others = *all <= most ? 0 : most - best;
    for (int64_t k = others - 1; k >= 0; k--) // worst first, that the best are drawn over them
        numbers[(*count)++] = list[best + k * (*all - best) / others].number;
    for (int64_t k = best - 1; k >= 0; k--)
        numbers[(*count)++] = list[k].number;
    free(list);
    return FT_OK;
}

ft_look ft_fate_look(ft_fate fate) {
    static const ft_look looks[FT_FATES] = {FT_LOOK_DOT,   FT_LOOK_RING,  FT_LOOK_SQUARE, FT_LOOK_TRIANGLE,
                                            FT_LOOK_CROSS, FT_LOOK_CROSS, FT_LOOK_CROSS};
    return looks[fate];
}

double ft_fate_legend(FILE *out, double width, const int64_t *counts, const char *line, const char *line_text) {
    ft_legend_entry entries[FT_FATES + 1];
    int count = 0;
    for (int f = 0; f < FT_FATES; f++) {
        if (counts[f] == 0) continue;
        entries[count] = (ft_legend_entry){.look = ft_fate_look((ft_fate)f)};
        snprintf(entries[count].text, sizeof entries[count].text, "%s %" PRId64, ft_fate_name((ft_fate)f), counts[f]);
        count++;
    }
    if (line != NULL) {
        entries[count] = (ft_legend_entry){.line = line};
        snprintf(entries[count++].text, sizeof entries[0].text, "%s", line_text);
    }
    return ft_plot_legend(out, width, entries, count);
}
