#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/ops/cross_entropy.h"

#include <math.h>

typedef struct loss_job {
    const ft_cross_entropy_args *args;
    int shares;
} loss_job;

// Logits c .. c+15 of a row; lanes past its end are minus infinity, which neither maximum nor sum sees.
FT_VEC v16 load_logits(const float *x, int64_t c, int64_t classes) {
    int64_t n = classes - c;
    if (n >= FT_LANES) return v_load(x + c);
    return v_select(m_first((int)n), v_load_n(x + c, (int)n), v_set1(-INFINITY));
}

static float largest(const float *x, int64_t classes) {
    v16 most = v_set1(-INFINITY);
    for (int64_t c = 0; c < classes; c += FT_LANES)
        most = v_max(most, load_logits(x, c, classes));
    return v_hmax(most);
}

// A NaN may be lost in the maximum but not in the sum, and so reaches the loss.
static void loss_row(const float *x, int64_t classes, int32_t label, float factor, float *loss, float *d) {
    float most = largest(x, classes);
    float chosen = x[label]; // before d, which may be x, is written
    v16 shift = v_set1(most), sums = v_zero();
    for (int64_t c = 0; c < classes; c += FT_LANES)
        sums = v_add(sums, v_exp(v_sub(load_logits(x, c, classes), shift)));
    float sum = v_hsum(sums);
    // The logarithm in double, rounded once: libm's logf differs between machines in the last bit.
    *loss = (float)(log((double)sum) + ((double)most - (double)chosen));
    if (!d) return;
    v16 scale = v_set1(factor / sum);
    for (int64_t c = 0; c < classes; c += FT_LANES)
        v_store_any(d + c, v_mul(v_exp(v_sub(load_logits(x, c, classes), shift)), scale), classes - c);
    // Of a confident right answer p - 1 is minus the sum of the others; subtracting in double keeps what is left of it.
    double p = exp((double)chosen - (double)most) / (double)sum;
    d[label] = (float)((p - 1.0) * (double)factor);
}

static void loss_task(void *context, int task, int thread) {
    const loss_job *job = context;
    const ft_cross_entropy_args *a = job->args;
    int64_t first, last;
    ft_share(a->logits.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        loss_row(ft_row(a->logits, row), a->logits.cols, a->labels[row], a->step ? a->step->loss_factor * a->step->loss_scale : 0.0f,
                 (float *)a->losses.data + row, ft_row_if(a->dlogits, row));
}

FT_ISA_OP(cross_entropy) {
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_TRY(ft_cross_entropy_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    loss_job job = {args, ft_shares(cpu, rows, rows * cols * 4)};
    ft_pool_run(cpu->pool, job.shares, loss_task, &job);
    return FT_OK;
}
