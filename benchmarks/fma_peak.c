#include "benchmarks/fma_peak.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

double ft_bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { CHAINS = 12, BURST = 2000 }; // latency 4 or 5, two a cycle: 10 chains fill the pipes, 12 leave some slack

typedef struct probe {
    double seconds;
    float (*burst)(void);
    double flops; // of a burst
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
    double start = ft_bench_seconds(), elapsed;
    long bursts = 0;
    float sum = 0;
    do {
        sum += p->burst();
        bursts++;
        elapsed = ft_bench_seconds() - start;
    } while (elapsed < p->seconds);
    p->sink[task] = sum;
    p->rate[task] = (double)bursts * p->flops / elapsed / 1e9;
}

double ft_fma_peak(ft_pool *pool, double seconds) { return ft_fma_peak_of(pool, seconds, NULL); }

double ft_fma_peak_of(ft_pool *pool, double seconds, const char *isa) {
    static probe p;
    const bool any = isa == NULL || strcmp(isa, "auto") == 0, avx2 = any || strncmp(isa, "avx", 3) == 0 || strcmp(isa, "amx_bf16") == 0;
    p.seconds = seconds;
    p.burst = plain_burst;
    p.flops = 2.0 * CHAINS * BURST * 4;
#if defined(__x86_64__)
    if (avx2 && (any || strcmp(isa, "avx2") != 0) && __builtin_cpu_supports("avx512f"))
        p.burst = wide_burst, p.flops *= 4;
    else if (avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        p.burst = half_burst, p.flops *= 2;
#else
    (void)avx2;
#endif
    int threads = ft_pool_threads(pool);
    ft_pool_run(pool, threads, run_probe, &p);
    double total = 0;
    for (int i = 0; i < threads; i++)
        total += p.rate[i];
    return total;
}
