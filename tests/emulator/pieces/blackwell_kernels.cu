#include "kernels/cuda/tile/tcgen05.h"

extern "C" {
#include "tests/emulator/pieces/blackwell_kernels.h"
}
#include "tests/emulator/pieces/reachable.h"

#include <string.h>

namespace {

constexpr int THREADS = 4 * FT_WARP, TERMS = 128, LEFT_TILE = FT_TENSOR_ROWS * FT_TENSOR_ROW, LEFT_BYTES = 2 * LEFT_TILE;

enum planted {
    NOTHING,
    NO_ASYNC_FENCE, // behind what threads stored for the products
    NO_COMMIT,
    NO_WAIT,         // for the products
    NOT_GIVEN_BACK,  // tensor memory
    TOO_FEW_COLUMNS, // of it
    WRONG_QUARTER,   // a warp's lanes
    BY_ROWS,         // a right operand that lies by columns
    NO_NEXT_TILE,    // of it, where it is wider than 64
    NEW_SUMS,        // where there are some to add to
    PLANTED
};
const char *const planted_names[PLANTED] = {"",
                                            "no_async_fence",
                                            "no_commit",
                                            "no_wait",
                                            "not_given_back",
                                            "too_few_columns",
                                            "wrong_quarter",
                                            "by_rows",
                                            "no_next_tile",
                                            "new_sums"};

struct signals {
    ft_mbarrier done;
    unsigned columns;
};
[[maybe_unused]] FT_DEVICE uint64_t without_address(uint64_t descriptor) { return descriptor & ~uint64_t(0x3fff); }

// A row a thread: sums go to tensor memory, products are added to them, and they come back.
template <class T, int N, bool COLUMNS, int FAULT>
FT_KERNEL void __launch_bounds__(THREADS)
    multiply_in_tensor_memory(const uint16_t *left, const uint16_t *right, bool add, float *d, uint64_t *descriptors) {
#ifdef FT_SM_100A
    FT_DYNAMIC_SHARED(bytes);
    constexpr int TILE = (COLUMNS ? TERMS : N) * FT_TENSOR_ROW, RIGHT_BYTES = TERMS * N * 2, ALLOCATED = FAULT == TOO_FEW_COLUMNS ? N / 2 : N;
    constexpr bool DESCRIBED_BY_COLUMNS = COLUMNS && FAULT != BY_ROWS;
    unsigned char *const right_tiles = bytes + LEFT_BYTES;
    signals *const signal = reinterpret_cast<signals *>(right_tiles + RIGHT_BYTES);
    const int thread = int(threadIdx.x), warp = thread / FT_WARP;
    for (int i = thread; i < LEFT_BYTES / 2; i += THREADS)
        reinterpret_cast<uint16_t *>(bytes)[i] = left[i];
    for (int i = thread; i < RIGHT_BYTES / 2; i += THREADS)
        reinterpret_cast<uint16_t *>(right_tiles)[i] = right[i];
    if (thread == 0) {
        ft_mbarrier_init(&signal->done, 1);
        ft_mbarrier_init_done();
    }
    if (warp == 0) {
        ft_tensor_allocate<ALLOCATED>(&signal->columns);
        ft_tensor_told();
    }
    __syncthreads();
    ft_tensor_heard();
    if (FAULT != NO_ASYNC_FENCE) ft_async_fence(bytes, size_t(LEFT_BYTES + RIGHT_BYTES));
    const unsigned columns = signal->columns, mine = columns + (FAULT == WRONG_QUARTER ? (ft_tensor_quarter() + (unsigned(FT_WARP) << 16)) & 0x7fffff : ft_tensor_quarter());
    float row[N];
#pragma unroll
    for (int n = 0; n < N; n++)
        row[n] = d[thread * N + n];
#pragma unroll
    for (int n = 0; n < N; n += 32)
        ft_tensor_store(mine + n, row + n);
    ft_tensor_stored();
    ft_tensor_told();
    __syncthreads();
    if (thread == 0) {
        ft_tensor_heard();
        descriptors[0] = without_address(ft_tcgen05_rows(bytes, LEFT_TILE, 0));
        descriptors[1] = without_address(COLUMNS ? ft_tcgen05_columns(right_tiles, TILE, 0) : ft_tcgen05_rows(right_tiles, TILE, 0));
#pragma unroll
        for (int step = 0; step < TERMS / 16; step++)
            ft_tcgen05<T, N, DESCRIBED_BY_COLUMNS>(columns, ft_tcgen05_rows(bytes, LEFT_TILE, step),
                                                   COLUMNS ? ft_tcgen05_columns(right_tiles, FAULT == NO_NEXT_TILE ? 0 : TILE, step)
                                                           : ft_tcgen05_rows(right_tiles, TILE, step),
                                                   (add && FAULT != NEW_SUMS) || step > 0);
        if (FAULT != NO_COMMIT) ft_tcgen05_commit(&signal->done);
    }
    __syncwarp();
    if (FAULT != NO_WAIT && FAULT != NO_COMMIT) ft_mbarrier_wait(&signal->done, 0);
    __syncwarp();
    ft_tensor_heard();
#pragma unroll
    for (int n = 0; n < N; n += 32)
        ft_tensor_load(row + n, mine + n);
    ft_tensor_loaded(row);
#pragma unroll
    for (int n = 0; n < N; n++)
        d[thread * N + n] = row[n];
    ft_tensor_told();
    __syncthreads();
    if (warp == 0 && FAULT != NOT_GIVEN_BACK) {
        ft_tensor_heard();
        ft_tensor_free<ALLOCATED>(columns);
    }
#else
    __trap();
#endif
}

#ifdef __CUDACC__
constexpr int COMPILED = NOTHING + 1; // faults are for the emulator
#else
constexpr int COMPILED = PLANTED;
#endif
template <class T, int N, bool COLUMNS, int FAULT = NOTHING>
ft_status run(int fault, const uint16_t *left, const uint16_t *right, bool add, float *d, uint64_t *descriptors) {
    if constexpr (FAULT == COMPILED) return ft_fail(FT_INVALID, "product", "no such fault");
    else if (fault != FAULT) return run<T, N, COLUMNS, FAULT + 1>(fault, left, right, add, d, descriptors);
    else
        return ft_launch("multiply_in_tensor_memory", multiply_in_tensor_memory<T, N, COLUMNS, FAULT>, dim3(1), dim3(THREADS),
                         size_t(LEFT_BYTES + TERMS * N * 2) + sizeof(signals), nullptr, left, right, add, d, descriptors);
}
template <class T>
ft_status run_shape(int fault, bool by_columns, int n, const uint16_t *left, const uint16_t *right, bool add, float *d, uint64_t *descriptors) {
    if (by_columns) return n == 64 ? run<T, 64, true>(fault, left, right, add, d, descriptors) : run<T, 128, true>(fault, left, right, add, d, descriptors);
    return n == 64 ? run<T, 64, false>(fault, left, right, add, d, descriptors) : run<T, 128, false>(fault, left, right, add, d, descriptors);
}
template <class T> uint32_t kind(int n, bool by_columns) {
    if (by_columns) return n == 64 ? ft_tcgen05_kind<T, 64, true>() : ft_tcgen05_kind<T, 128, true>();
    return n == 64 ? ft_tcgen05_kind<T, 64, false>() : ft_tcgen05_kind<T, 128, false>();
}

} // namespace

extern "C" uint32_t blackwell_kind(ft_dtype dtype, int n, bool by_columns) {
    return dtype == FT_F16 ? kind<__half>(n, by_columns) : kind<__nv_bfloat16>(n, by_columns);
}

extern "C" ft_status blackwell_product(const char *fault, ft_dtype dtype, bool by_columns, int n, bool add, const uint16_t left_image[128 * 128],
                                       const uint16_t *right_image, float *d, uint64_t descriptors[2]) {
    int which = 0;
    while (which < PLANTED && strcmp(planted_names[which], fault) != 0)
        which++;
    reachable l(left_image, LEFT_BYTES), r(right_image, size_t(TERMS) * size_t(n) * 2), sum(d, size_t(FT_TENSOR_ROWS) * size_t(n) * sizeof *d),
        words(descriptors, 2 * sizeof *descriptors);
    for (const reachable *memory : {&l, &r, &sum, &words})
        FT_TRY(memory->status);
    const auto left = in<const uint16_t>(l), right = in<const uint16_t>(r);
    FT_TRY(dtype == FT_F16 ? run_shape<__half>(which, by_columns, n, left, right, add, in<float>(sum), in<uint64_t>(words))
                           : run_shape<__nv_bfloat16>(which, by_columns, n, left, right, add, in<float>(sum), in<uint64_t>(words)));
    FT_TRY(sum.back());
    return words.back();
}
