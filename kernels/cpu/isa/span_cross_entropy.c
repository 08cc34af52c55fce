// Softmax cross-entropy along the rows of sequences. A share is some of the sequences.
#include "kernels/ops/span_cross_entropy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vmath.h"

#include <math.h>

typedef struct span_job {
    const ft_span_cross_entropy_args *args;
    int shares;
} span_job;

// Rows `row` .. of a column, before `end`; lanes beyond are minus infinity.
FT_VEC v16 load_column(ft_tensor x, int64_t row, int64_t end, int64_t c) {
    float lanes[FT_LANES];
    for (int i = 0; i < FT_LANES; i++) lanes[i] = row + i < end ? ft_row(x, row + i)[c] : -INFINITY;
    return v_load(lanes);
}

static int64_t marked_row(const int32_t *marks, int64_t begin, int64_t end, int64_t c) {
    for (int64_t row = begin; row < end; row++)
        if (marks[row] >> c & 1) return row;
    return -1;
}

static void no_gradient(ft_tensor d, int64_t begin, int64_t end, int64_t c) {
    for (int64_t row = begin; row < end && d.data != NULL; row++) ft_row(d, row)[c] = 0;
}

// As the rows of cross_entropy.c: the maximum may lose a NaN, the sum does not.
static void loss_column(const ft_span_cross_entropy_args *a, int64_t begin, int64_t end, int64_t c) {
    const int64_t marked = marked_row(a->marks, begin, end, c);
    if (marked < 0) {
        no_gradient(a->dlogits, begin, end, c);
        return;
    }
    v16 most = v_set1(-INFINITY), sums = v_zero();
    for (int64_t row = begin; row < end; row += FT_LANES) most = v_max(most, load_column(a->logits, row, end, c));
    const float largest = v_hmax(most), chosen = ft_row(a->logits, marked)[c];
    const v16 shift = v_set1(largest);
    for (int64_t row = begin; row < end; row += FT_LANES) sums = v_add(sums, v_exp(v_sub(load_column(a->logits, row, end, c), shift)));
    const float sum = v_hsum(sums);
    const double share = 1.0 / (double)a->logits.cols;
    float *loss = (float *)a->losses.data + marked;
    *loss = (float)((double)*loss + share * (log((double)sum) + ((double)largest - (double)chosen)));
    if (a->dlogits.data == NULL) return;
    const double factor = share * (double)a->step->loss_factor * (double)a->step->loss_scale;
    const v16 scale = v_set1((float)(factor / (double)sum));
    for (int64_t row = begin; row < end; row += FT_LANES) {
        float lanes[FT_LANES];
        v_store(lanes, v_mul(v_exp(v_sub(load_column(a->logits, row, end, c), shift)), scale));
        for (int i = 0; i < FT_LANES && row + i < end; i++) ft_row(a->dlogits, row + i)[c] = lanes[i];
    }
    // Of a confident right answer p - 1 is minus the sum of the others; subtracting in double keeps what is left of it.
    const double p = exp((double)chosen - (double)largest) / (double)sum;
    ft_row(a->dlogits, marked)[c] = (float)((p - 1.0) * factor);
}

static void loss_task(void *context, int task, int thread) {
    const span_job *job = context;
    const ft_span_cross_entropy_args *a = job->args;
    int64_t first, last;
    ft_share(a->sequences, 1, job->shares, task, &first, &last);
    for (int64_t s = first; s < last; s++) {
        const int64_t begin = a->cu_rows[s], end = a->cu_rows[s + 1];
        for (int64_t row = begin; row < end; row++) ((float *)a->losses.data)[row] = 0;
        for (int64_t c = 0; c < a->logits.cols; c++) loss_column(a, begin, end, c);
    }
}

FT_ISA_OP(span_cross_entropy) {
    FT_TRY(ft_span_cross_entropy_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    span_job job = {args, ft_shares(cpu, args->sequences, args->logits.rows * args->logits.cols * 4)};
    if (args->sequences > 0) ft_pool_run(cpu->pool, job.shares, loss_task, &job);
    return FT_OK;
}
