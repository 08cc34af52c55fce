#include "benchmarks/fma_peak.h"

#include <math.h>
#include <stdbool.h>
#include <time.h>

double ft_bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { CHAINS = 12, BURST = 2000 }; // latency 4 or 5, two a cycle: 10 chains fill the pipes, 12 leave some slack

typedef struct probe {
    double seconds;
    double rate[FT_POOL_MAX_THREADS];
    float sink[FT_POOL_MAX_THREADS]; // what the chains computed, so that they are computed
} probe;

// The body is the same for every width: the compiler keeps 12 vectors of `width` floats in registers.
#define FT_CHAINS(name, attributes, width)                                                                             \
    typedef float name##_vector __attribute__((vector_size(width * 4)));                                               \
    attributes static float name##_burst(void) {                                                                       \
        name##_vector c[CHAINS], x, y;                                                                                 \
        for (int j = 0; j < width; j++)                                                                                \
            x[j] = 0.9999f, y[j] = 1e-4f;                                                                              \
        for (int i = 0; i < CHAINS; i++)                                                                               \
            for (int j = 0; j < width; j++)                                                                            \
                c[i][j] = (float)i * 0.1f;                                                                             \
        for (int n = 0; n < BURST; n++)                                                                                \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) c[i] = c[i] * x + y;                             \
        float sum = 0;                                                                                                 \
        for (int i = 0; i < CHAINS; i++)                                                                               \
            sum += c[i][0];                                                                                            \
        return sum;                                                                                                    \
    }
#if defined(__x86_64__)
FT_CHAINS(wide, __attribute__((target("avx512f,fma,prefer-vector-width=512"), optimize("fp-contract=fast"))), 16)
FT_CHAINS(half, __attribute__((target("avx2,fma"), optimize("fp-contract=fast"))), 8)
#endif
FT_CHAINS(plain, , 4)

static void run_probe(void *context, int task, int thread) {
    probe *p = context;
    float (*burst)(void) = plain_burst;
    double flops = 2.0 * CHAINS * BURST * 4;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        burst = wide_burst, flops *= 4;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        burst = half_burst, flops *= 2;
#endif
    double start = ft_bench_seconds(), elapsed;
    long bursts = 0;
    float sum = 0;
    do {
        sum += burst();
        bursts++;
        elapsed = ft_bench_seconds() - start;
    } while (elapsed < p->seconds);
    p->sink[task] = sum;
    p->rate[task] = (double)bursts * flops / elapsed / 1e9;
}

double ft_fma_peak(ft_pool *pool, double seconds) {
    static probe p;
    p.seconds = seconds;
    int threads = ft_pool_threads(pool);
    ft_pool_run(pool, threads, run_probe, &p);
    double total = 0;
    for (int i = 0; i < threads; i++)
        total += p.rate[i];
    return total;
}
