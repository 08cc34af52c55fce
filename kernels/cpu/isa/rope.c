// Rotary positions: pairs of columns turned in place.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/ops/rope.h"

typedef struct rope_job {
    const ft_rope_args *args;
    int shares;
} rope_job;

FT_VEC void turn(const rope_job *job, int task, const bool halves) {
    const ft_rope_args *a = job->args;
    const int64_t half = a->head_dim / 2;
    int64_t first, last;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *cosine = ft_row(a->table, a->position[row]), *sine = cosine + half;
        for (int64_t head = 0; head < a->x.cols; head += a->head_dim) {
            const lane_row x = lanes_of(a->x, row, halves);
            for (int64_t c = 0; c < half; c += FT_LANES) {
                const int64_t n = half - c;
                const v16 k = v_load_any(cosine + c, n), s = v_load_any(sine + c, n), to = a->inverse ? v_neg(s) : s;
                const v16 p = v_load_row(x, head + c, n, halves), q = v_load_row(x, head + half + c, n, halves);
                v_store_row(x, head + c, v_sub(v_mul(p, k), v_mul(q, to)), n, halves);
                v_store_row(x, head + half + c, v_add(v_mul(q, k), v_mul(p, to)), n, halves);
            }
        }
    }
}
static void rope_task(void *context, int task, int thread) { turn(context, task, false); }
static void rope_half_task(void *context, int task, int thread) { turn(context, task, true); }

FT_ISA_OP(rope) {
    FT_TRY(ft_rope_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    rope_job job = {args, ft_shares(cpu, args->x.rows, args->x.rows * args->x.cols)};
    if (args->x.rows > 0) ft_pool_run(cpu->pool, job.shares, args->x.dtype == FT_BF16 ? rope_half_task : rope_task, &job);
    return FT_OK;
}
