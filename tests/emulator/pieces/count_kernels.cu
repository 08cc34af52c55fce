#include "kernels/cuda/tile/fragment.h"

extern "C" {
#include "tests/emulator/pieces/count_kernels.h"
}

#include <cstring>

namespace {

enum { WORDS = 2048 };

// A lane writes and reads word STEP * lane of shared memory.
template <int STEP> FT_KERNEL void words(const float *from, float *to) {
    FT_SHARED(float, shared, WORDS);
    const int lane = int(threadIdx.x);
    shared[STEP * lane] = 1.0f;
    __syncwarp();
    to[lane] = shared[STEP * lane];
}

template <class V, int STEP> FT_KERNEL void vectors(const float *from, float *to) {
    FT_SHARED(float, shared, WORDS);
    const int lane = int(threadIdx.x);
    V *mine = reinterpret_cast<V *>(shared + STEP * lane);
    *mine = V{};
    __syncwarp();
    V read = *mine;
    reinterpret_cast<V *>(to)[lane] = read;
}

// Rows of ldmatrix, STRIDE 16-bit numbers apart, filled by cp.async.
template <int STRIDE> FT_KERNEL void matrices(const float *from, float *to) {
    FT_SHARED(unsigned short, shared, 16 * STRIDE);
    const int lane = int(threadIdx.x);
    ft_copy_async16(shared + lane % 8 * STRIDE + lane / 8 * 8, from + lane % 8 * 32 + lane / 8 * 4);
    ft_copy_async_commit();
    ft_copy_async_wait<0>();
    __syncwarp();
    unsigned r[4];
    ft_ldmatrix_x4(r, shared + lane % 8 * STRIDE + lane / 8 * 8);
    to[lane] = float(r[0]);
}

// A lane copies word FIRST + STEP * lane.
template <int FIRST, int STEP> FT_KERNEL void global(const float *from, float *to) {
    const int at = FIRST + STEP * int(threadIdx.x);
    to[at] = from[at];
}
template <int STEP> FT_KERNEL void global_vectors(const float *from, float *to) {
    const int at = STEP * int(threadIdx.x);
    float4 v = *reinterpret_cast<const float4 *>(from + at);
    *reinterpret_cast<float4 *>(to + at) = v;
}
// Only some lanes, and of a loop that they leave at different times.
FT_KERNEL void diverging(const float *from, float *to) {
    const int lane = int(threadIdx.x);
    float sum = 0.0f;
    for (int i = 0; i <= lane / 16; i++)
        sum += from[32 * i + lane];
    if (lane < 8) to[lane] = sum;
}
// Conflicts of an even and an odd warp do not meet.
FT_KERNEL void two_warps(const float *from, float *to) {
    FT_SHARED(float, shared, WORDS);
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    shared[warp == 0 ? lane : 64 + 2 * lane] = 1.0f;
}

const struct {
    const char *name;
    void (*kernel)(const float *, float *);
    unsigned threads;
} kernels[] = {
    {"conflict_free", words<1>, 32},
    {"two_way", words<2>, 32},
    {"thirty_two_way", words<32>, 32},
    {"padded", words<33>, 32},
    {"broadcast", words<0>, 32},
    {"eight_bytes", vectors<float2, 2>, 32},
    {"eight_bytes_two_way", vectors<float2, 4>, 32},
    {"sixteen_bytes", vectors<float4, 4>, 32},
    {"sixteen_bytes_two_way", vectors<float4, 8>, 32},
    {"sixteen_bytes_eight_way", vectors<float4, 32>, 32},
    {"matrix_rows_of_a_tile", matrices<ft_tile_stride(64)>, 32},
    {"matrix_rows_not_padded", matrices<64>, 32},
    {"in_a_row", global<0, 1>, 32},
    {"misaligned", global<1, 1>, 32},
    {"strided", global<0, 2>, 32},
    {"far_apart", global<0, 32>, 32},
    {"one_word", global<7, 0>, 32},
    {"sixteen_bytes_in_a_row", global_vectors<4>, 32},
    {"half_sectors", global_vectors<8>, 32},
    {"diverging", diverging, 32},
    {"two_warps", two_warps, 64},
};

} // namespace

ft_status count_run(const char *name, const float *from, float *to) {
    for (const auto &k : kernels)
        if (strcmp(k.name, name) == 0) return ft_launch(k.name, k.kernel, dim3(1), dim3(k.threads), 0, nullptr, from, to);
    return ft_fail(FT_INVALID, "count_run", "no kernel is called %s", name);
}
