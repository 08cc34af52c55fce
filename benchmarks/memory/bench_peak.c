// bench_peak.c - the machine's FMA peak right now, for the scripts: virtual machines change phase by 2x, so every figure
// is read beside it.
//
//     bench_peak [threads [seconds [ISA]]]   0 threads: all; 0.2 seconds; the widest vectors, or avx512, avx2, portable. Prints GFLOP/s.
#include "base/status.h"
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/limits.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    const char *isa = argc > 3 ? argv[3] : NULL;
    ft_pool *pool;
    if (ft_pool_create(threads > 0 ? threads : ft_usable_threads(), &pool) != FT_OK) {
        fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
        return 1;
    }
    ft_fma_peak_of(pool, seconds / 4, isa); // wakes the cores
    printf("%.1f\n", ft_fma_peak_of(pool, seconds, isa));
    ft_pool_destroy(pool);
    return 0;
}
