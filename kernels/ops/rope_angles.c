#include "kernels/ops/rope.h"

#include <math.h>

void ft_rope_angles(double theta, int32_t head_dim, int32_t positions, float *table) {
    const int32_t half = head_dim / 2;
    for (int32_t i = 0; i < half; i++) {
        const float frequency = 1.0f / (float)pow(theta, 2.0 * i / head_dim);
        for (int32_t p = 0; p < positions; p++) {
            const float angle = (float)p * frequency;
            table[(int64_t)p * head_dim + i] = (float)cos((double)angle);
            table[(int64_t)p * head_dim + half + i] = (float)sin((double)angle);
        }
    }
}
