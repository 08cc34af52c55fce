// search_training.c - random problems on which the sampler's own settings were chosen: families of landscapes, one
// instance a seed. None of them is reported; search_problems.c has the problems that are, and decided nothing.
#include "benchmarks/search/search_problems.h"
#include "hpo/search/history/random_stream.h"

#include <math.h>
#include <stdio.h>

#define PI 3.14159265358979323846
enum { MOST = 6 };

static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

static double square(double x) { return x * x; }

// ---- what an instance is made of ------------------------------------------------------------------------------------

static ft_random_stream stream_of(const asker *a, const char *family) {
    return ft_random_stream_of(a->instance, 0, FT_DRAW_UNIFORM, family);
}

static double between(ft_random_stream *s, double low, double high) { return low + ft_random_double(s) * (high - low); }
static int one_of(ft_random_stream *s, int low, int high) {
    return low + (int)ft_random_below(s, (uint64_t)(high - low + 1));
}
static double normal(ft_random_stream *s) {
    double radius = sqrt(-2 * log(1 - ft_random_double(s)));
    return radius * cos(2 * PI * ft_random_double(s));
}

static void ask_unit(asker *a, int count, double *x) {
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = ask_float(a, name, 0, 1, false);
    }
}

// A bowl of random axes around a random place; 1 at a typical corner.
typedef struct bowl {
    int n;
    double place[MOST], axis[MOST][MOST], scale[MOST];
} bowl;

static bowl bowl_of(ft_random_stream *s, int n, double condition) {
    bowl b = {.n = n};
    for (int i = 0; i < n; i++) {
        b.place[i] = between(s, 0.05, 0.95);
        b.scale[i] = pow(condition, -(double)i / (n > 1 ? n - 1 : 1));
        double norm = 0;
        for (int k = 0; k < n; k++)
            b.axis[i][k] = normal(s) * 0.4 + (i == k);
        for (int k = 0; k < n; k++)
            norm += square(b.axis[i][k]);
        for (int k = 0; k < n; k++)
            b.axis[i][k] /= sqrt(norm);
    }
    return b;
}

static double height(const bowl *b, const double *x) {
    double sum = 0;
    for (int i = 0; i < b->n; i++) {
        double z = 0;
        for (int k = 0; k < b->n; k++)
            z += b->axis[i][k] * (x[k] - b->place[k]);
        sum += b->scale[i] * z * z;
    }
    return sum;
}

// ---- floats alone ---------------------------------------------------------------------------------------------------

static double t_bowl(asker *a) {
    ft_random_stream s = stream_of(a, "bowl");
    int n = one_of(&s, 2, 6);
    bowl b = bowl_of(&s, n, pow(10, between(&s, 0, 2)));
    double x[MOST] = {0};
    ask_unit(a, n, x);
    return height(&b, x);
}

static double t_ripples(asker *a) {
    ft_random_stream s = stream_of(a, "ripples");
    int n = one_of(&s, 2, 5);
    bowl b = bowl_of(&s, n, 3);
    double x[MOST] = {0}, depth = between(&s, 0.01, 0.1), frequency = between(&s, 3, 10), sum = 0;
    ask_unit(a, n, x);
    for (int i = 0; i < n; i++)
        sum += depth * (1 - cos(2 * PI * frequency * (x[i] - b.place[i])));
    return sum + height(&b, x);
}

static double t_wells(asker *a) {
    ft_random_stream s = stream_of(a, "wells");
    int n = one_of(&s, 2, 5);
    double x[MOST] = {0}, best = 1;
    ask_unit(a, n, x);
    for (int w = 0; w < 8; w++) {
        double width = between(&s, 0.08, 0.35), depth = between(&s, 0.3, 1), distance = 0;
        for (int i = 0; i < n; i++)
            distance += square((x[i] - between(&s, 0, 1)) / width);
        best -= depth * exp(-distance / 2) * (1 - exp(-best));
    }
    return best;
}

static double t_valley(asker *a) {
    ft_random_stream s = stream_of(a, "valley");
    int n = one_of(&s, 2, 4);
    double x[MOST] = {0}, bend = between(&s, -1.5, 1.5), narrow = pow(10, between(&s, 0.5, 2)),
           at = between(&s, 0.1, 0.9), sum;
    ask_unit(a, n, x);
    sum = square(x[0] - at);
    for (int i = 1; i < n; i++)
        sum += narrow * square(x[i] - 0.5 - bend * (square(x[i - 1] - 0.3) - 0.15));
    return sum;
}

// ---- kinds of parameters --------------------------------------------------------------------------------------------

static double mixed_part(asker *a, ft_random_stream *s, double *size) {
    double rate = log10(ask_float(a, "rate", 1e-6, 1e-1, true)), best = between(s, -5.5, -1.5);
    double drop = ask_step(a, "drop", 0, 0.5, 0.05), units = log2(ask_int(a, "units", 8, 2048, true));
    int depth = (int)ask_int(a, "depth", 1, 16, false), kind = ask_choice(a, "kind", 4, digits);
    int batch = ask_choice(a, "batch", 5, digits);
    double value = 0, slope = between(s, -0.4, 0.4), by_kind[4], shift[4];
    for (int i = 0; i < 4; i++) {
        by_kind[i] = between(s, 0, 0.3);
        shift[i] = between(s, -1, 1);
    }
    value += by_kind[kind] + 0.1 * square(rate - best - shift[kind] - slope * (batch - 2));
    value += 0.5 * square(drop - between(s, 0, 0.5));
    value += 0.02 * square(units - between(s, 5, 11));
    value += 0.003 * square(depth - between(s, 2, 15));
    value += 0.01 * square(batch - between(s, 0, 4));
    *size = units + log2(depth) + batch;
    return value;
}

static double t_mixed(asker *a) {
    ft_random_stream s = stream_of(a, "mixed");
    double size;
    return mixed_part(a, &s, &size);
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static double t_branches(asker *a) {
    ft_random_stream s = stream_of(a, "branches");
    int branches = one_of(&s, 3, 8), branch = ask_choice(a, "branch", branches, digits);
    double shared = ask_float(a, "shared", 0, 1, false), value = 0;
    for (int b = 0; b < branches; b++) {
        double floor_ = between(&s, 0, 0.3), steep = pow(10, between(&s, -1, 0.5)), place = between(&s, 0, 1);
        int own = one_of(&s, 1, 3);
        if (b == branch) value = floor_ + steep * 0.3 * square(shared - place);
        for (int i = 0; i < own; i++) {
            char name[32];
            double best = between(&s, 0, 1), bound = between(&s, 0, 1);
            snprintf(name, sizeof name, "b%d.x%d", b, i);
            if (b == branch)
                value += steep * square(ask_float(a, name, 0, 1, false) - best + 0.3 * bound * (shared - place));
        }
    }
    return value;
}

static double t_tree(asker *a) {
    ft_random_stream s = stream_of(a, "tree");
    char name[32];
    int first = ask_choice(a, "root", 2, digits);
    snprintf(name, sizeof name, "side%d", first);
    int leaf = 3 * first + ask_choice(a, name, 3, digits);
    double value = 0, common = ask_float(a, "common", 0, 1, false);
    for (int l = 0; l < 6; l++) {
        double floor_ = between(&s, 0, 0.4), x = between(&s, 0, 1), y = between(&s, 0, 1), steep = between(&s, 0.2, 2);
        if (l != leaf) continue;
        snprintf(name, sizeof name, "u%d", l);
        value = floor_ + steep * square(ask_float(a, name, 0, 1, false) - x);
        snprintf(name, sizeof name, "v%d", first);
        value += steep * square(ask_float(a, name, 0, 1, false) - y) + 0.3 * square(common - y);
    }
    return value;
}

static double t_layers(asker *a) {
    ft_random_stream s = stream_of(a, "layers");
    int best = one_of(&s, 1, 6), layers = (int)ask_int(a, "layers", 1, 6, false);
    double value = between(&s, 0.02, 0.2) * square(layers - best), previous = 0;
    value += square(ask_float(a, "rate", 0, 1, false) - between(&s, 0, 1) - 0.05 * layers);
    double pull = between(&s, 0, 0.3);
    for (int i = 0; i < layers; i++) {
        char name[32];
        double width = between(&s, 4, 9.5);
        snprintf(name, sizeof name, "units%d", i);
        double units = log2(ask_int(a, name, 8, 1024, true));
        value += 0.04 * square(units - width - pull * previous);
        previous = units - width;
    }
    return value;
}

static double t_switches(asker *a) {
    ft_random_stream s = stream_of(a, "switches");
    double value = 1, base = ask_float(a, "base", 0, 1, false), place = between(&s, 0, 1);
    for (int i = 0; i < 4; i++) {
        char name[32];
        double gain = between(&s, -0.05, 0.25), best = between(&s, 0, 1), steep = between(&s, 0.2, 2);
        snprintf(name, sizeof name, "use%d", i);
        if (ask_choice(a, name, 2, digits) == 0) continue;
        snprintf(name, sizeof name, "how%d", i);
        value -= gain - steep * square(ask_float(a, name, 0, 1, false) - best);
    }
    return value + 0.5 * square(base - place);
}

// ---- constraints ----------------------------------------------------------------------------------------------------

// Half-spaces that leave the bottom of the bowl outside.
static double t_cut(asker *a) {
    ft_random_stream s = stream_of(a, "cut");
    int n = one_of(&s, 2, 5), cuts = one_of(&s, 1, 3);
    bowl b = bowl_of(&s, n, 5);
    double x[MOST] = {0};
    ask_unit(a, n, x);
    for (int c = 0; c < cuts; c++) {
        double side = 0, norm = 0, direction[MOST], scale = pow(10, between(&s, -2, 2));
        for (int i = 0; i < n; i++) {
            direction[i] = 0.5 - b.place[i] + 0.3 * normal(&s); // towards the middle: something stays feasible
            norm += square(direction[i]);
        }
        for (int i = 0; i < n; i++)
            side += direction[i] / sqrt(norm) * (x[i] - b.place[i]);
        constrain(a, scale * (between(&s, 0.1, 0.3) - side));
    }
    return height(&b, x);
}

// A small ball is feasible; the best of it is on its rim.
static double t_ball(asker *a) {
    ft_random_stream s = stream_of(a, "ball");
    int n = one_of(&s, 2, 5);
    double x[MOST] = {0}, radius = pow(between(&s, 0.01, 0.1), 1.0 / n) * 0.6, distance = 0, value = 0;
    ask_unit(a, n, x);
    for (int i = 0; i < n; i++) {
        distance += square(x[i] - between(&s, 0.2, 0.8));
        value += normal(&s) * x[i];
    }
    constrain(a, distance - radius * radius);
    return value;
}

// Bigger is better until it does not fit.
static double t_memory(asker *a) {
    ft_random_stream s = stream_of(a, "memory");
    double size, value = mixed_part(a, &s, &size), limit = between(&s, 7, 11);
    constrain(a, exp2(size - limit) - 1);
    return value - 0.03 * size;
}

static double t_scales(asker *a) {
    ft_random_stream s = stream_of(a, "scales");
    int n = one_of(&s, 3, 6);
    bowl goal = bowl_of(&s, n, 10);
    double x[MOST] = {0}, inside[MOST];
    ask_unit(a, n, x);
    for (int i = 0; i < n; i++)
        inside[i] = between(&s, 0.15, 0.85);
    for (int c = 0; c < 5; c++) {
        double side = 0, norm = 0, w[MOST], scale = pow(10, between(&s, -3, 3));
        for (int i = 0; i < n; i++) {
            w[i] = normal(&s);
            norm += square(w[i]);
        }
        for (int i = 0; i < n; i++)
            side += w[i] / sqrt(norm) * (x[i] - inside[i]);
        constrain(a, scale * (side - between(&s, 0.02, 0.25)));
    }
    return height(&goal, x);
}

// Two islands; the better value is on the smaller.
static double t_islands(asker *a) {
    ft_random_stream s = stream_of(a, "islands");
    int n = one_of(&s, 2, 4);
    double x[MOST] = {0}, one = 0, other = 0, value = 0;
    ask_unit(a, n, x);
    for (int i = 0; i < n; i++) {
        one += square(x[i] - between(&s, 0.1, 0.4));
        other += square(x[i] - between(&s, 0.6, 0.9));
        value += square(x[i] - between(&s, 0.7, 1.0));
    }
    constrain(a, fmin(one - square(0.3), other - square(between(&s, 0.12, 0.2))));
    return value;
}

const problem training_problems[] = {
    {"t_bowl", "standard", t_bowl, "2 to 6 floats"},
    {"t_ripples", "standard", t_ripples, "2 to 5 floats"},
    {"t_wells", "standard", t_wells, "2 to 5 floats"},
    {"t_valley", "standard", t_valley, "2 to 4 floats"},
    {"t_mixed", "mixed", t_mixed, "a log float, a stepped one, 2 ints, 2 lists of choices"},
    {"t_branches", "conditional", t_branches, "3 to 8 branches with 1 to 3 floats of their own"},
    {"t_tree", "conditional", t_tree, "3 choices decide over 8 floats"},
    {"t_layers", "conditional", t_layers, "a width for each of 1 to 6 layers"},
    {"t_switches", "conditional", t_switches, "4 switches with a float each"},
    {"t_cut", "constrained", t_cut, "2 to 5 floats, 1 to 3 constraints"},
    {"t_ball", "constrained", t_ball, "2 to 5 floats, 1 constraint"},
    {"t_memory", "constrained", t_memory, "t_mixed under a limit of memory"},
    {"t_scales", "constrained", t_scales, "3 to 6 floats, 5 constraints of all sizes"},
    {"t_islands", "constrained", t_islands, "2 to 4 floats, 1 constraint"},
};
const int training_problem_count = sizeof training_problems / sizeof training_problems[0];
