// Rotary positions: pairs of columns turned in place.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/rope.h"

typedef struct rope_job {
    const ft_rope_args *args;
    int shares;
} rope_job;

static void rope_task(void *context, int task, int thread) {
    const rope_job *job = context;
    const ft_rope_args *a = job->args;
    const int64_t half = a->head_dim / 2;
    int64_t first, last;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *cosine = ft_row(a->table, a->position[row]), *sine = cosine + half;
        for (int64_t head = 0; head < a->x.cols; head += a->head_dim) {
            float *x = ft_row(a->x, row) + head, *y = x + half;
            for (int64_t c = 0; c < half; c += FT_LANES) {
                const int64_t n = half - c;
                const v16 k = v_load_any(cosine + c, n), s = v_load_any(sine + c, n), to = a->inverse ? v_neg(s) : s;
                const v16 p = v_load_any(x + c, n), q = v_load_any(y + c, n);
                v_store_any(x + c, v_sub(v_mul(p, k), v_mul(q, to)), n);
                v_store_any(y + c, v_add(v_mul(q, k), v_mul(p, to)), n);
            }
        }
    }
}

FT_ISA_OP(rope) {
    FT_TRY(ft_rope_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    rope_job job = {args, ft_shares(cpu, args->x.rows, args->x.rows * args->x.cols)};
    if (args->x.rows > 0) ft_pool_run(cpu->pool, job.shares, rope_task, &job);
    return FT_OK;
}
