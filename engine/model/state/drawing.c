#include "engine/model/state/drawing.h"

#include "kernels/philox.h"

#include <math.h>
#include <string.h>

static uint64_t name_hash(const char *name) { // FNV-1a: the stream of a parameter does not depend on its neighbours
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

static double uniform(uint64_t key, uint64_t index) { // (0, 1), 53 bits
    return ((double)(ft_splitmix64(key + index * 0x9E3779B97F4A7C15u) >> 11) + 0.5) * 0x1p-53;
}

// Weights of linear layers are matrices, so a vector of this name is the gain of a norm.
static bool is_norm_weight(const ft_parameter *p) {
    size_t length = strlen(p->name), end = strlen(".weight");
    return p->rows == 0 && length > end && strcmp(p->name + length - end, ".weight") == 0;
}

// Box-Muller gives elements in pairs, of which the first has an even index.
static void draw_pair(const ft_drawing *d, uint64_t even, float pair[2]) {
    double radius = sqrt(-2.0 * log(uniform(d->key, even))), angle = 6.283185307179586 * uniform(d->key, even + 1);
    pair[0] = (float)(d->range * radius * cos(angle));
    pair[1] = (float)(d->range * radius * sin(angle));
    // What is too far off is drawn again, from a stream of its own.
    for (int i = 0; i < 2; i++)
        for (uint64_t again = 1; d->cut > 0 && fabs((double)pair[i]) > d->cut * d->range; again++) {
            const uint64_t key = ft_splitmix64(d->key ^ again << 32), at = 2 * (even + (uint64_t)i);
            pair[i] = (float)(d->range * sqrt(-2.0 * log(uniform(key, at))) * cos(6.283185307179586 * uniform(key, at + 1)));
        }
}

ft_drawing ft_drawing_of(const ft_parameter *parameter, double range, uint64_t seed, int64_t zero_row) {
    if (parameter->drawn.kind == FT_DRAWN_NORMAL) range = parameter->drawn.size;
    ft_drawing d = {.parameter = parameter, .key = ft_splitmix64(seed) ^ name_hash(parameter->name), .range = range};
    if (zero_row >= 0) {
        d.zero_first = zero_row * parameter->cols;
        d.zero_last = d.zero_first + parameter->cols;
    }
    return d;
}

// Of row p, columns 2 i and 2 i + 1: sine and cosine of p / 10000^(2 i / cols).
static float wave(const ft_drawing *d, int64_t element) {
    const int64_t cols = d->parameter->cols, col = element % cols;
    const double angle = (double)(element / cols) / pow(10000, 2 * (double)(col / 2) / (double)cols);
    return (float)(col % 2 == 0 ? sin(angle) : cos(angle));
}

ft_status ft_draw_part(void *context, int64_t first, int64_t count, float *out) {
    const ft_drawing *d = context;
    const ft_drawn drawn = d->parameter->drawn;
    if (drawn.kind == FT_DRAWN_CONSTANT) {
        for (int64_t i = 0; i < count; i++) out[i] = (float)drawn.size;
        return FT_OK;
    }
    if (drawn.kind == FT_DRAWN_ZERO || drawn.kind == FT_DRAWN_UNIFORM) {
        const double bound = drawn.kind == FT_DRAWN_ZERO ? 0 : drawn.size;
        for (int64_t i = 0; i < count; i++) out[i] = (float)(bound * (2 * uniform(d->key, (uint64_t)(first + i)) - 1));
        return FT_OK;
    }
    if (d->parameter->rows == 0) {
        float constant = is_norm_weight(d->parameter) ? 1.0f : 0.0f;
        for (int64_t i = 0; i < count; i++) out[i] = constant;
        return FT_OK;
    }
    if (d->waves) {
        for (int64_t i = first; i < first + count; i++) out[i - first] = wave(d, i);
        return FT_OK;
    }
    for (int64_t i = first; i < first + count;) {
        float pair[2];
        draw_pair(d, (uint64_t)i & ~(uint64_t)1, pair);
        if (i % 2 == 0) {
            out[i++ - first] = pair[0];
            if (i == first + count) break;
        }
        out[i++ - first] = pair[1];
    }
    for (int64_t i = d->zero_first > first ? d->zero_first : first; i < d->zero_last && i < first + count; i++) out[i - first] = 0;
    return FT_OK;
}
