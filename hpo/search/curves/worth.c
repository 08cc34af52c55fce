#include "hpo/search/curves/worth.h"

#include <math.h>
#include <string.h>

enum { PRICES = 40, POINTS = 321, NODES = 7 };
static const double WIDEST = 5;                   // units, to both sides of the best
static const double DEAREST = 1, CHEAPEST = 1e-6; // units a stage

// Gauss and Hermite's, for a normal step.
static const double node[NODES] = {0,
                                   1.154405394739968,
                                   -1.154405394739968,
                                   2.366759410734541,
                                   -2.366759410734541,
                                   3.750439717725742,
                                   -3.750439717725742};
static const double chance[NODES] = {0.4571428571428571,   0.2401231786050127,  0.2401231786050127,
                                     0.03075712396758651,  0.03075712396758651, 0.0005482688559722177,
                                     0.0005482688559722177};

static double at(const double *row, double x) {
    const double where = (x + WIDEST) / (2 * WIDEST) * (POINTS - 1);
    if (where <= 0) return row[0];
    if (where >= POINTS - 1) return row[POINTS - 1] + (x - WIDEST);
    const int i = (int)where;
    return row[i] + (where - i) * (row[i + 1] - row[i]);
}

static double improvement(double x, double deviation) {
    if (!(deviation > 0)) return fmax(x, 0);
    const double z = x / deviation;
    return deviation * (exp(-0.5 * z * z) * 0.3989422804014327 + z * 0.5 * erfc(-z * 0.7071067811865476));
}

// out += share * the positive part of `next`, as far away as a step goes: the same distance, and so the same part of
// two points, for all of them. Below the lowest point nothing is left; above the highest an improvement grows as the
// value does.
static void add_moved(const double *next, double step, double share, double *out) {
    const double distance = step / (2 * WIDEST) * (POINTS - 1), whole = floor(distance), part = distance - whole;
    const int by = (int)fmin(fmax(whole, -POINTS), POINTS), first = by < 0 ? -by : 0,
              end = by < 0 ? POINTS : POINTS - 1 - by;
    const double a = share * (1 - part), b = share * part, top = next[POINTS - 1] > 0 ? next[POINTS - 1] : 0;
    const int inside = end < POINTS - 1 - by ? end : POINTS - 1 - by;
    for (int i = first; i < inside; i++) {
        const double here = next[i + by], there = next[i + by + 1];
        out[i] += a * (here > 0 ? here : 0) + b * (there > 0 ? there : 0);
    }
    for (int i = end < first ? first : end; i < POINTS; i++)
        out[i] += share * (top + (2 * WIDEST) * ((double)i / (POINTS - 1) - 1) + step);
}

static void fill(const ft_curve_model *m, const double *end, double unit, double price, double *value) {
    double *row = value + (size_t)m->stages * POINTS;
    memcpy(row, end, POINTS * sizeof *row);
    for (int k = m->stages - 1; k >= 0; k--) {
        const double *next = row, step = sqrt(ft_curve_news(m, k)) / unit;
        row = value + (size_t)k * POINTS;
        for (int i = 0; i < POINTS; i++)
            row[i] = -price; // what going on is worth; who stops has 0
        for (int q = 0; q < NODES; q++)
            add_moved(next, step * node[q], chance[q], row);
    }
}

ft_status ft_worth_of(const ft_curve_model *m, ft_arena *arena, ft_worth *w) {
    double unit = 0;
    for (int k = 0; k <= m->stages; k++)
        unit += ft_curve_news(m, k);
    unit = sqrt(unit);
    *w = (ft_worth){.stages = m->stages,
                    .prices = PRICES,
                    .points = POINTS,
                    .unit = unit > 0 ? unit : 1,
                    .price = ft_arena_alloc(arena, PRICES * sizeof *w->price),
                    .value = ft_arena_alloc(arena, sizeof *w->value * PRICES * POINTS * ((size_t)m->stages + 1))};
    if (w->price == NULL || w->value == NULL) return FT_NO_MEMORY;
    double end[POINTS];
    const double last = sqrt(ft_curve_news(m, m->stages)) / w->unit;
    for (int i = 0; i < POINTS; i++)
        end[i] = improvement(WIDEST * (2.0 * i / (POINTS - 1) - 1), last);
    for (int p = 0; p < PRICES; p++) {
        w->price[p] = DEAREST * pow(CHEAPEST / DEAREST, p / (PRICES - 1.0));
        fill(m, end, w->unit, w->price[p], w->value + (size_t)p * POINTS * ((size_t)m->stages + 1));
    }
    return FT_OK;
}

double ft_worth_index(const ft_worth *w, int known, double ahead) {
    double dearer = 0;
    for (int p = 0; p < w->prices; p++) {
        const double v = at(w->value + ((size_t)p * ((size_t)w->stages + 1) + (size_t)known) * POINTS, ahead / w->unit);
        if (v > 0) {
            if (p == 0) return w->unit * w->price[0];
            return w->unit * (w->price[p] + (w->price[p - 1] - w->price[p]) * v / (v - dearer));
        }
        dearer = v;
    }
    return 0;
}
