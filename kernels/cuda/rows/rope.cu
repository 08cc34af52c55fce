// rope.cu - rotary positions. A thread turns eight neighbouring pairs; of the columns counted here every head has the first half.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/rope.h"
}

// WHOLE: eight pairs lie in one head, and both halves of rows and of the table begin at 16-byte addresses.
template <class T, bool WHOLE> struct rope_body {
    ft_view<T> x;
    ft_view<const float> table;
    const int32_t *position;
    int half;
    float direction; // of the sine: -1 for the inverse
    FT_METHOD void operator()(int64_t row, int col, int n) const {
        const float *const turn = table.at(position[row], 0);
        const int steps = WHOLE ? 1 : n, count = WHOLE ? FT_CUDA_UNIT : 1;
#pragma unroll 1
        for (int at = col; at < col + steps; at++) {
            const int head = at / half, i = at - head * half;
            T *const first = x.at(row, head * 2 * half + i), *const second = first + half;
            ft_unit a = ft_load<WHOLE>(first, count), b = ft_load<WHOLE>(second, count);
            const ft_unit c = ft_load<WHOLE>(turn + i, count), s = ft_load<WHOLE>(turn + half + i, count);
#pragma unroll
            for (int k = 0; k < FT_CUDA_UNIT; k++) {
                const float to = s.v[k] * direction, p = a.v[k], q = b.v[k];
                a.v[k] = p * c.v[k] - q * to;
                b.v[k] = q * c.v[k] + p * to;
            }
            ft_store<WHOLE>(first, a, count);
            ft_store<WHOLE>(second, b, count);
        }
    }
};

template <class I> static ft_status run(ft_device *device, const ft_rope_args *a) {
    using T = typename I::type;
    rope_body<T, I::WHOLE> body = {ft_view_of<T>(a->x), ft_view_of<const float>(a->table), a->position, a->head_dim / 2,
                                   a->inverse ? -1.0f : 1.0f};
    return ft_each_unit("rope", device, body, a->x.rows, a->x.cols / 2);
}

ft_status ft_cuda_rope(ft_device *device, const ft_rope_args *args) {
    const bool whole = ft_is_whole(args->x) && ft_is_whole(args->table) && args->head_dim / 2 % FT_CUDA_UNIT == 0;
    return ft_pick(args->x.dtype, whole, [&](auto i) { return run<decltype(i)>(device, args); });
}
