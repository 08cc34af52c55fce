// bench_peak.c - the machine's FMA peak right now, for the scripts: virtual machines change phase by 2x, so every figure
// is read beside it.
//
//     bench_peak [threads [seconds]]         0 threads: all; 0.2 seconds. Prints GFLOP/s.
#include "base/status.h"
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/limits.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    ft_pool *pool;
    if (ft_pool_create(threads > 0 ? threads : ft_usable_threads(), &pool) != FT_OK) {
        fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
        return 1;
    }
    ft_fma_peak(pool, seconds / 4); // wakes the cores
    printf("%.1f\n", ft_fma_peak(pool, seconds));
    ft_pool_destroy(pool);
    return 0;
}
