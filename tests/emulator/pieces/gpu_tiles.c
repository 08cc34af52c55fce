// gpu_tiles.c - the tile primitives of kernels/cuda/tile on this machine's GPU: the first thing to run on a new one, as
// everything on tensor cores stands on them. The emulator's twins pass the same checks (tests/emulator/pieces/tile_checks.h).
//
//     nvcc -std=c++17 -arch=native -I. -D_GNU_SOURCE -o gpu_tiles tests/emulator/pieces/gpu_tiles.c tests/emulator/pieces/tile_checks.c \
//         tests/emulator/pieces/tile_kernels.cu base/status.c && ./gpu_tiles
//
// On a chip of compute capability 9.0 also those of sm_90a: -gencode arch=compute_90a,code=sm_90a -DGPU_TILES_HOPPER, and
// tests/emulator/pieces/hopper_checks.c and hopper_kernels.cu with it. On one of 10.0 or 10.3 those of tensor memory: compute_100f (CUDA 12.9
// or later; compute_100a for 10.0), -DGPU_TILES_BLACKWELL, and blackwell_checks.c and blackwell_kernels.cu.
//
// One line a primitive, "name,ok" or "name,failed,what". Ends with 0 when all are ok, 4 where there is no GPU to try.
#ifdef GPU_TILES_BLACKWELL
#include "tests/emulator/pieces/blackwell_checks.h"
#endif
#ifdef GPU_TILES_HOPPER
#include "tests/emulator/pieces/hopper_checks.h"
#endif
#include "tests/emulator/pieces/tile_checks.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    static const struct {
        const char *name;
        ft_status (*check)(void);
    } checks[] = {{"ldmatrix", tile_check_ldmatrix}, {"mma", tile_check_mma}, {"exp2", tile_check_exp2},
                  {"skew", tile_check_skew}, {"pack_bounded", tile_check_pack_bounded}, {"cp_async_tiles", tile_check_chain},
#ifdef GPU_TILES_HOPPER
                  {"tensor_copy", hopper_check_copy}, {"wgmma", hopper_check_product}, {"warpgroup_pipeline", hopper_check_whole_pipeline},
#endif
#ifdef GPU_TILES_BLACKWELL
                  {"tcgen05_words", blackwell_check_words}, {"tcgen05", blackwell_check_product},
#endif
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        ft_error_clear();
        if (checks[i].check() == FT_OK) {
            printf("%s,ok\n", checks[i].name);
        } else if (strcmp(ft_error_where(), "cudaMalloc") == 0) { // the first call of all: no device answers
            fprintf(stderr, "gpu_tiles: %s\n", ft_error_message());
            return 4;
        } else {
            printf("%s,failed,%s: %s\n", checks[i].name, ft_error_where(), ft_error_message());
            failed = 1;
        }
    }
    return failed;
}
