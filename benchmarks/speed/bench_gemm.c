// bench_gemm.c - speed of the matrix products of MiniLM-L6 (hidden 384) and BERT-base, beside the FMA peak and, where
// OpenBLAS was found at build time, the same product by OpenBLAS.
//
//     bench_gemm [threads [isa [rounds [tokens]]]]         0 threads: all; isa: auto, avx512, avx2, portable
//
// Per shape: the best of the rounds (the machine is shared, so the best is what the code can do), in GFLOP/s, and as
// percent of the best peak probed beside it.
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ops/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if FT_BENCH_OPENBLAS
#include <cblas.h>
extern void openblas_set_num_threads(int threads);
extern char *openblas_get_config(void);
#endif

typedef struct shape {
    const char *name;
    int out, in;
} shape;
static const shape shapes[] = {{"minilm out", 384, 384},   {"minilm qkv", 1152, 384}, {"minilm up", 1536, 384},
                               {"minilm down", 384, 1536}, {"bert out", 768, 768},    {"bert qkv", 2304, 768},
                               {"bert up", 3072, 768},     {"bert down", 768, 3072}};
static const int token_counts[] = {8, 64, 352, 1024, 4096};
static const char *const layouts[] = {"NT forward", "NN dX", "TN dW"};

typedef struct buffers {
    float *x, *w, *y, *scratch;
} buffers;

// Forward Y = X W^T, input gradient dX = dY W, weight gradient dW += dY^T X.
static ft_gemm_args product(int layout, ft_tensor x, ft_tensor w, ft_tensor y) {
    if (layout == 0) return (ft_gemm_args){.a = x, .b = w, .c = y, .trans_b = true};
    if (layout == 1) return (ft_gemm_args){.a = y, .b = w, .c = x};
    return (ft_gemm_args){.a = y, .b = x, .c = w, .trans_a = true, .accumulate = true};
}

#if FT_BENCH_OPENBLAS
static void blas(const ft_gemm_args *g) {
    int k = (int)(g->trans_a ? g->a.rows : g->a.cols);
    cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans,
                (int)g->c.rows, (int)g->c.cols, k, 1, g->a.data, (int)g->a.stride, g->b.data, (int)g->b.stride,
                g->accumulate ? 1 : 0, g->c.data, (int)g->c.stride);
}
#endif

static double seconds_per_call(ft_device *device, const ft_gemm_args *g, int repeats, bool library) {
    double start = ft_bench_seconds();
    for (int i = 0; i < repeats; i++) {
#if FT_BENCH_OPENBLAS
        if (library) {
            blas(g);
            continue;
        }
#endif
        if (device->ops->gemm(device, g) != FT_OK) {
            fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
            exit(1);
        }
    }
    return (ft_bench_seconds() - start) / repeats;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 3 ? atoi(argv[3]) : 20,
        only = argc > 4 ? atoi(argv[4]) : 0;
    ft_device *device;
    if (ft_cpu_open(threads, argc > 2 ? argv[2] : NULL, &device) != FT_OK) {
        fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
        return 1;
    }
    threads = ft_cpu_of(device)->threads;
    printf("%s\n", device->description);
    bool have_library = false;
#if FT_BENCH_OPENBLAS
    have_library = true;
    openblas_set_num_threads(threads);
    printf("%s\n", openblas_get_config());
#endif
    printf("%-12s %-11s %5s %12s %10s %10s %8s\n", "shape", "product", "T", "peak", "ftengine", "of peak", "openblas");
    for (size_t t = 0; t < sizeof token_counts / sizeof *token_counts; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int tokens = token_counts[t], out = shapes[s].out, in = shapes[s].in;
            if (only && tokens != only) continue;
            size_t xs = (size_t)tokens * (size_t)in, ws = (size_t)out * (size_t)in, ys = (size_t)tokens * (size_t)out;
            buffers b = {.x = aligned_alloc(4096, (xs * 4 + 4095) / 4096 * 4096),
                         .w = aligned_alloc(4096, (ws * 4 + 4095) / 4096 * 4096),
                         .y = aligned_alloc(4096, (ys * 4 + 4095) / 4096 * 4096)};
            if (!b.x || !b.w || !b.y) return 1;
            ft_tensor x = ft_matrix(b.x, tokens, in, FT_F32), w = ft_matrix(b.w, out, in, FT_F32),
                      y = ft_matrix(b.y, tokens, out, FT_F32);
            for (int layout = 0; layout < 3; layout++) {
                for (size_t i = 0; i < xs; i++)
                    b.x[i] = (float)(i % 17) * 0.01f;
                for (size_t i = 0; i < ws; i++)
                    b.w[i] = (float)(i % 13) * 0.01f;
                for (size_t i = 0; i < ys; i++)
                    b.y[i] = (float)(i % 11) * 0.01f;
                ft_gemm_args g = product(layout, x, w, y);
                g.workspace.bytes = ft_gemm_workspace(&device->target, &g);
                g.workspace.data = b.scratch = aligned_alloc(4096, (g.workspace.bytes + 4095) / 4096 * 4096);
                if (!b.scratch) return 1;
                double flops = 2.0 * tokens * out * in, best[2] = {0, 0}, peak = 0;
                int repeats = 1 + (int)(2e8 / flops); // about a millisecond: short enough to fall between disturbances
                for (int round = 0; round < rounds; round++) {
                    double now = ft_fma_peak(ft_cpu_of(device)->pool, 0.001);
                    if (now > peak) peak = now;
                    for (int library = 0; library <= (int)have_library; library++) {
                        seconds_per_call(device, &g, 1, library); // wakes the threads, warms the caches
                        double speed = flops / seconds_per_call(device, &g, repeats, library) / 1e9;
                        if (speed > best[library]) best[library] = speed;
                        // libgomp's threads spin for some milliseconds and would share our cores: let them fall asleep.
                        struct timespec pause = {0, library ? 12000000 : 0};
                        nanosleep(&pause, NULL);
                    }
                }
                printf("%-12s %-11s %5d %12.0f %10.1f %9.0f%% %8.1f\n", shapes[s].name, layouts[layout], tokens, peak,
                       best[0], 100 * best[0] / peak, best[1]);
                fflush(stdout);
                free(b.scratch);
            }
            free(b.x);
            free(b.w);
            free(b.y);
        }
    ft_device_close(device);
    return 0;
}
