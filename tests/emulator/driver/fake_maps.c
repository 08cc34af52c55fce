// fake_maps.c - maps for the copy engine: what the documentation of cuTensorMapEncodeTiled demands of them, as far as we use it.
#include "tests/emulator/driver/fake_tensor_map.h"
#include "tests/emulator/driver/fake_work.h"

#include <string.h>

_Static_assert(sizeof(fake_tensor_map) <= sizeof(ft_cu_tensor_map), "fits");

int cuTensorMapEncodeTiled(ft_cu_tensor_map *map, unsigned type, uint32_t rank, void *base, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, unsigned interleave,
                           unsigned swizzle, unsigned promotion, unsigned fill) {
    BEGIN;
    DEMAND(fake_set.capability >= 90, NOT_SUPPORTED);
    DEMAND(type == FT_CU_TENSOR_F16 || type == FT_CU_TENSOR_BF16, INVALID_VALUE); // others are not used yet
    DEMAND(rank == 2 && interleave == 0 && swizzle == FT_CU_TENSOR_SWIZZLE_128 && promotion <= 3 && fill == 0, INVALID_VALUE);
    DEMAND((uintptr_t)map % 64 == 0 && (uintptr_t)base % 16 == 0, INVALID_VALUE);
    for (int i = 0; i < 2; i++) {
        DEMAND(sizes[i] > 0 && sizes[i] <= (uint64_t)1 << 32, INVALID_VALUE);
        DEMAND(box[i] > 0 && box[i] <= 256 && steps[i] == 1, INVALID_VALUE);
    }
    DEMAND(strides[0] % 16 == 0 && strides[0] < (uint64_t)1 << 40 && strides[0] >= 2 * sizes[0], INVALID_VALUE);
    DEMAND(box[0] * 2 % 16 == 0 && box[0] * 2 <= 128, INVALID_VALUE); // of this swizzle
    const uint64_t off = fake_set.map_columns;
    fake_tensor_map content = {FAKE_TENSOR_MAP, (uint64_t)(uintptr_t)base + 2 * off, sizes[0] - off, sizes[1], strides[0], box[0], box[1]};
    memset(map, 0, sizeof *map);
    memcpy(map, &content, sizeof content);
    return 0;
}
