#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/decay.h"

// Factors lie so close to 1 that thousands of steps have few different ones in fp32: a schedule is some stretches of equal
// factors.
typedef struct stretch {
    float factor;
    int32_t count;
} stretch;

// WORTH: shorter stretches are multiplied through. PLAIN: products after a leap that could not be made, so that trying costs
// little where none can. FACTORS: at once, whose stretches lie on the stack.
enum { WORTH = 16, PLAIN = 128, FACTORS = 512 };

typedef struct decay_job {
    const ft_decay_args *args;
    int shares;
} decay_job;

FT_VEC void multiply(v16 *value, int vectors, v16 factor, int64_t times) {
    for (int64_t i = 0; i < times; i++)
        for (int k = 0; k < vectors; k++) value[k] = v_mul(value[k], factor);
}

// `ahead` + 1 products in one, with their bits; false: not possible, and nothing has changed.
//
// A product takes a whole number of units in the last place off a number: its exact loss x (1 - factor), rounded. As long as
// x keeps its exponent that unit stays, and the loss shrinks with x; so if the first and the last of some products take the same
// number off, all of them did (where the rounded loss is the same at both ends, no tie lies between them).
FT_VEC bool leap(v16 *value, int vectors, v16 factor, int64_t ahead) {
    v16 last[4];
    m16 wrong = m_first(0);
    for (int k = 0; k < vectors; k++) {
        const u16x bits = u_bits(value[k]), loss = u_sub(bits, u_bits(v_mul(value[k], factor)));
        const u16x there = u_sub(bits, u_mul(loss, u_set1((uint32_t)ahead)));
        last[k] = v_mul(v_bits(there), factor);
        const m16 small = u_lt(loss, u_set1((1u << 23) / (uint32_t)ahead)); // the product above did not wrap around
        const m16 exponent = u_eq(u_shr(u_xor(bits, u_bits(last[k])), 23), u_set1(0));
        const m16 same = u_eq(u_sub(there, u_bits(last[k])), loss);
        wrong = m_or(wrong, m_not(m_and(small, m_and(exponent, same))));
    }
    if (m_any(wrong)) return false;
    for (int k = 0; k < vectors; k++) value[k] = last[k];
    return true;
}

FT_VEC void through(v16 *value, int vectors, stretch s) {
    const v16 factor = v_set1(s.factor);
    int64_t left = s.count;
    while (left > WORTH) {
        int64_t ahead = left - 1;
        while (ahead >= WORTH && !leap(value, vectors, factor, ahead)) ahead /= 4;
        const int64_t plain = left < PLAIN ? left : PLAIN;
        if (ahead < WORTH) multiply(value, vectors, factor, plain);
        left -= ahead < WORTH ? plain : ahead + 1;
    }
    multiply(value, vectors, factor, left);
}

// `vectors` independent chains, kept in registers over all factors.
FT_VEC void decay_vectors(const stretch *stretches, int count, float *x, int vectors, int64_t n) {
    v16 value[4];
    for (int k = 0; k < vectors; k++) value[k] = v_load_any(x + k * FT_LANES, n - k * FT_LANES);
    for (int i = 0; i < count; i++) through(value, vectors, stretches[i]);
    for (int k = 0; k < vectors; k++) v_store_any(x + k * FT_LANES, value[k], n - k * FT_LANES);
}

static int stretches_of(const float *factors, int64_t count, stretch *stretches) {
    int found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (found == 0 || stretches[found - 1].factor != factors[i]) stretches[found++] = (stretch){factors[i], 0};
        stretches[found - 1].count++;
    }
    return found;
}

static void decay_task(void *context, int task, int thread) {
    const decay_job *job = context;
    const ft_decay_args *a = job->args;
    float *x = a->parameter.data;
    stretch stretches[FACTORS];
    int64_t first, last;
    ft_share(a->parameter.rows * a->parameter.cols, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int64_t f = 0; f < a->count; f += FACTORS) {
        const int count = stretches_of(a->factors + f, a->count - f < FACTORS ? a->count - f : FACTORS, stretches);
        int64_t i = first;
        for (; i + 4 * FT_LANES <= last; i += 4 * FT_LANES) decay_vectors(stretches, count, x + i, 4, 4 * FT_LANES);
        for (; i + FT_LANES <= last; i += FT_LANES) decay_vectors(stretches, count, x + i, 1, FT_LANES);
        if (i < last) decay_vectors(stretches, count, x + i, 1, last - i);
    }
}

FT_ISA_OP(decay) {
    int64_t n = args->parameter.rows * args->parameter.cols;
    FT_TRY(ft_decay_check(&ft_cpu_of(device)->target, args));
    if (n == 0 || args->count == 0) return FT_OK;
    const ft_cpu *cpu = ft_cpu_of(device);
    // An element is as much work as there are factors.
    decay_job job = {args, ft_shares(cpu, (n + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, n * (1 + args->count / 8))};
    ft_pool_run(cpu->pool, job.shares, decay_task, &job);
    return FT_OK;
}
