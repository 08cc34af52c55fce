#include "engine/model/position_grid.h"

#include <math.h>
#include <string.h>

enum { TAPS = 4 };

bool ft_position_grid_of(int64_t rows, int64_t tokens, ft_position_grid *grid) {
    const int64_t side = (int64_t)floor(sqrt((double)(rows - tokens)) + 0.5);
    *grid = (ft_position_grid){.tokens = tokens, .height = side, .width = side};
    return side > 0 && side * side == rows - tokens;
}

// Which four places of a side are read for place i of the other, and their weights.
typedef struct taps {
    int64_t at[TAPS];
    double weight[TAPS];
} taps;

static double near(double x) { return (1.25 * x - 2.25) * x * x + 1; }                // |x| <= 1, with a = -0.75
static double far(double x) { return ((-0.75 * x + 3.75) * x - 6) * x + 3; } // 1 <= |x| <= 2

static taps taps_of(int64_t in, int64_t out, int64_t i) {
    const double at = ((double)i + 0.5) * ((double)in / (double)out) - 0.5, first = floor(at), t = at - first;
    taps p = {.weight = {far(t + 1), near(t), near(1 - t), far(2 - t)}};
    for (int k = 0; k < TAPS; k++) {
        const int64_t place = (int64_t)first - 1 + k;
        p.at[k] = place < 0 ? 0 : place >= in ? in - 1 : place;
    }
    return p;
}

void ft_position_grid_resize(const float *from, ft_position_grid f, float *to, ft_position_grid t, int64_t cols) {
    memcpy(to, from, (size_t)(t.tokens * cols) * sizeof *to);
    from += f.tokens * cols;
    to += t.tokens * cols;
    for (int64_t y = 0; y < t.height; y++)
        for (int64_t x = 0; x < t.width; x++, to += cols) {
            const taps down = taps_of(f.height, t.height, y), across = taps_of(f.width, t.width, x);
            for (int64_t c = 0; c < cols; c++) {
                double sum = 0;
                for (int i = 0; i < TAPS * TAPS; i++) {
                    const int64_t row = down.at[i / TAPS] * f.width + across.at[i % TAPS];
                    sum += down.weight[i / TAPS] * across.weight[i % TAPS] * (double)from[row * cols + c];
                }
                to[c] = (float)sum;
            }
        }
}
