#include "hpo/search/gp/minimise.h"

#include "base/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 8, HALVINGS = 16 };

typedef struct state {
    double *gradient, *next, *next_gradient, *direction; // [n] each
    double *moved[MEMORY], *changed[MEMORY];             // [n]: steps, and what they did to the gradient
    double curvature[MEMORY];
    int count, newest;
} state;

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// Held at a bound, beyond which the function falls.
static bool held(const ft_minimise *m, const double *x, const double *gradient, int i) {
    return (x[i] <= m->low[i] && gradient[i] > 0) || (x[i] >= m->high[i] && gradient[i] < 0);
}

// The two loops, over what is free.
static void find_direction(const ft_minimise *m, state *s, const double *x) {
    const int n = m->n;
    double share[MEMORY];
    for (int i = 0; i < n; i++)
        s->direction[i] = held(m, x, s->gradient, i) ? 0 : -s->gradient[i];
    for (int k = 0; k < s->count; k++) {
        const int at = (s->newest - k + MEMORY) % MEMORY;
        share[at] = dot(s->moved[at], s->direction, n) / s->curvature[at];
        for (int i = 0; i < n; i++)
            s->direction[i] -= share[at] * s->changed[at][i];
    }
    if (s->count > 0) {
        const double *c = s->changed[s->newest];
        const double scale = s->curvature[s->newest] / dot(c, c, n);
        for (int i = 0; i < n; i++)
            s->direction[i] *= scale;
    }
    for (int k = s->count - 1; k >= 0; k--) {
        const int at = (s->newest - k + MEMORY) % MEMORY;
        const double back = dot(s->changed[at], s->direction, n) / s->curvature[at];
        for (int i = 0; i < n; i++)
            s->direction[i] += (share[at] - back) * s->moved[at][i];
    }
    for (int i = 0; i < n; i++)
        if (held(m, x, s->gradient, i)) s->direction[i] = 0;
    if (dot(s->direction, s->gradient, n) < 0) return;
    s->count = 0;
    for (int i = 0; i < n; i++)
        s->direction[i] = held(m, x, s->gradient, i) ? 0 : -s->gradient[i];
}

static void remember(const ft_minimise *m, state *s, const double *x) {
    const int at = s->count > 0 ? (s->newest + 1) % MEMORY : 0;
    for (int i = 0; i < m->n; i++) {
        s->moved[at][i] = s->next[i] - x[i];
        s->changed[at][i] = s->next_gradient[i] - s->gradient[i];
    }
    s->curvature[at] = dot(s->moved[at], s->changed[at], m->n);
    if (!(s->curvature[at] > 1e-10 * dot(s->changed[at], s->changed[at], m->n))) return;
    s->newest = at;
    if (s->count < MEMORY) s->count++;
}

// A step that gains enough for its length; false: there is none.
static bool step(const ft_minimise *m, state *s, const double *x, double value, double *next_value) {
    double largest = 0;
    for (int i = 0; i < m->n; i++)
        largest = fmax(largest, fabs(s->direction[i]));
    double length = s->count > 0 || largest <= 0.5 ? 1 : 0.5 / largest;
    for (int tries = 0; tries < HALVINGS; tries++, length *= 0.4) {
        double expected = 0;
        for (int i = 0; i < m->n; i++) {
            s->next[i] = fmin(fmax(x[i] + length * s->direction[i], m->low[i]), m->high[i]);
            expected += s->gradient[i] * (s->next[i] - x[i]);
        }
        *next_value = m->function(m->context, s->next, s->next_gradient);
        if (isfinite(*next_value) && *next_value <= value + 1e-4 * expected && *next_value < value) return true;
    }
    return false;
}

static void run(const ft_minimise *m, state *s, double *x, double *value) {
    *value = m->function(m->context, x, s->gradient);
    for (int k = 0; k < m->steps && isfinite(*value); k++) {
        double largest = 0, next_value;
        for (int i = 0; i < m->n; i++)
            if (!held(m, x, s->gradient, i)) largest = fmax(largest, fabs(s->gradient[i]));
        if (!(largest > m->tolerance)) return;
        find_direction(m, s, x);
        if (!step(m, s, x, *value, &next_value)) {
            if (s->count == 0) return;
            s->count = 0; // once more, straight down
            continue;
        }
        const double gain = *value - next_value;
        remember(m, s, x);
        memcpy(x, s->next, (size_t)m->n * sizeof *x);
        memcpy(s->gradient, s->next_gradient, (size_t)m->n * sizeof *x);
        *value = next_value;
        if (gain < 0.2 * m->tolerance) return;
    }
}

ft_status ft_minimise_run(const ft_minimise *m, double *x, double *value) {
    const size_t n = (size_t)m->n;
    double *room = ft_calloc((4 + 2 * MEMORY) * n + 1, sizeof *room, "a minimum");
    if (room == NULL) return FT_NO_MEMORY;
    state s = {.gradient = room, .next = room + n, .next_gradient = room + 2 * n, .direction = room + 3 * n};
    for (size_t k = 0; k < MEMORY; k++) {
        s.moved[k] = room + (4 + k) * n;
        s.changed[k] = room + (4 + MEMORY + k) * n;
    }
    run(m, &s, x, value);
    free(room);
    return FT_OK;
}
