#include "kernels/ops/rope.h"

#include <math.h>

static float slowed(float f, const ft_rope_scaling *s) {
    const float factor = (float)s->factor;
    if (s->kind == FT_ROPE_DEFAULT) return f;
    if (s->kind == FT_ROPE_LINEAR) return f / factor;
    const float wavelength = (float)(2 * M_PI) / f;
    if (wavelength > (float)(s->original / s->low)) return f / factor;
    if (wavelength < (float)(s->original / s->high)) return f;
    const float t = ((float)s->original / wavelength - (float)s->low) / (float)(s->high - s->low);
    return (1 - t) * f / factor + t * f;
}

void ft_rope_angles(double theta, const ft_rope_scaling *scaling, int32_t head_dim, int32_t positions, float *table) {
    const int32_t half = head_dim / 2;
    for (int32_t i = 0; i < half; i++) {
        const float frequency = slowed(1.0f / (float)pow(theta, 2.0 * i / head_dim), scaling);
        for (int32_t p = 0; p < positions; p++) {
            const float angle = (float)p * frequency;
            table[(int64_t)p * head_dim + i] = (float)cos((double)angle);
            table[(int64_t)p * head_dim + half + i] = (float)sin((double)angle);
        }
    }
}
