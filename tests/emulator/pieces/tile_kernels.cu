#include "kernels/cuda/tile/exp2.h"
#include "kernels/cuda/tile/fragment.h"
#include "kernels/cuda/tile/skew.h"

extern "C" {
#include "tests/emulator/pieces/tile_kernels.h"
}
#include "tests/emulator/pieces/reachable.h"

namespace {

FT_KERNEL void read_matrices(const uint16_t *matrix, bool transposed, uint32_t *registers) {
    FT_SHARED(uint16_t, shared, 256);
    int lane = int(threadIdx.x);
    for (int i = lane; i < 256; i += FT_WARP)
        shared[i] = matrix[i];
    __syncwarp();
    const uint16_t *row = shared + (lane / 8 % 2 * 8 + lane % 8) * 16 + lane / 16 * 8;
    unsigned r[4];
    if (transposed)
        ft_ldmatrix_x4_transposed(r, row);
    else
        ft_ldmatrix_x4(r, row);
    for (int m = 0; m < 4; m++)
        registers[lane * 4 + m] = r[m];
}

template <class T> FT_KERNEL void multiply(const uint16_t *left, const uint16_t *right, float *d) {
    int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4 * 2;
    auto pair = [](uint16_t low, uint16_t high) { return unsigned(low) | unsigned(high) << 16; };
    unsigned a[4], b[2];
    float sum[4];
    for (int q = 0; q < 4; q++) {
        const uint16_t *at = left + (g + q % 2 * 8) * 16 + t + q / 2 * 8;
        a[q] = pair(at[0], at[1]);
        sum[q] = d[(g + q / 2 * 8) * 8 + t + q % 2];
    }
    for (int q = 0; q < 2; q++)
        b[q] = pair(right[(t + q * 8) * 8 + g], right[(t + q * 8 + 1) * 8 + g]);
    ft_mma<T>(sum, a, b[0], b[1]);
    for (int q = 0; q < 4; q++)
        d[(g + q / 2 * 8) * 8 + t + q % 2] = sum[q];
}

template <class T>
FT_KERNEL void chain(const T *left, const T *right, const T *values, int64_t stride, int valid, float *result) {
    FT_DYNAMIC_SHARED(bytes);
    T *l = reinterpret_cast<T *>(bytes), *r = l + 16 * ft_tile_stride(32), *v = r + 32 * ft_tile_stride(32);
    ft_tile_load<16, 32, FT_WARP>(l, left, stride, 16);
    ft_tile_load<32, 32, FT_WARP>(r, right, stride, valid);
    ft_copy_async_commit();
    ft_tile_load<32, 64, FT_WARP>(v, values, stride, valid);
    ft_copy_async_commit();
    ft_copy_async_wait<1>();
    __syncthreads();
    float s[4][4] = {};
    for (int k = 0; k < 2; k++)
        for (int n = 0; n < 2; n++) {
            unsigned a[4], b[4];
            ft_left<32>(a, l, 0, k * 16);
            ft_right_of_rows<32>(b, r, n * 16, k * 16);
            ft_mma<T>(s[2 * n], a, b[0], b[1]);
            ft_mma<T>(s[2 * n + 1], a, b[2], b[3]);
        }
    ft_copy_async_wait<0>();
    __syncthreads();
    float d[8][4] = {};
    for (int k = 0; k < 2; k++)
        for (int n = 0; n < 4; n++) {
            unsigned a[4], b[4];
            ft_left_of<T>(a, s[2 * k], s[2 * k + 1]);
            ft_right_of_columns<64>(b, v, k * 16, n * 16);
            ft_mma<T>(d[2 * n], a, b[0], b[1]);
            ft_mma<T>(d[2 * n + 1], a, b[2], b[3]);
        }
    int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4 * 2;
    for (int n = 0; n < 8; n++)
        for (int q = 0; q < 4; q++)
            result[(g + q / 2 * 8) * 64 + n * 8 + t + q % 2] = d[n][q];
}

FT_KERNEL void powers(const float *x, float *y) { y[threadIdx.x] = ft_exp2(x[threadIdx.x]); }

// The accumulator of 16 rows and 8 spread columns from (row, column) on.
template <class Element> FT_DEVICE void spread_accumulator(float (&d)[4], Element element, int row, int column) {
    const int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4;
    for (int q = 0; q < 4; q++)
        d[q] = element(row + g + q / 2 * 8, column + t + q % 2 * 4);
}

FT_KERNEL void skews(tile_skews *s) {
    const int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4;
    const float shrink = 0.25f, grow = 4.0f;
    const ft_skew skew = ft_skew_of();
    float first[4], second[4], scores[2][4];
    auto store = [&](float (&to)[16][16]) {
        for (int q = 0; q < 8; q++)
            to[g + q % 4 / 2 * 8][q / 4 * 8 + t + q % 2 * 4] = scores[q / 4][q % 4];
    };
    ft_row_words row_words[2];
    for (int chunk = 0; chunk < 2; chunk++) {
        auto element = [&](int row, int column) { return s->rows[row][column]; };
        spread_accumulator(first, element, 0, chunk * 16);
        spread_accumulator(second, element, 0, chunk * 16 + 8);
        row_words[chunk] = ft_row_words_of(first, second, shrink);
    }
    ft_skew_rows(scores, skew, row_words[0], row_words[1], grow);
    store(s->from_rows);
    ft_column_words column_words[2];
    for (int chunk = 0; chunk < 2; chunk++) {
        auto element = [&](int row, int column) { return s->columns[row][column]; };
        spread_accumulator(first, element, chunk * 16, 0);
        spread_accumulator(second, element, chunk * 16, 8);
        column_words[chunk] = ft_column_words_of(first, second, shrink);
    }
    for (int q = 0; q < 8; q++)
        scores[q / 4][q % 4] = 1.0f;
    ft_skew_columns(scores, skew, column_words[0], column_words[1], grow);
    store(s->from_columns);
    ft_band_carry carry = {};
    for (int step = 0; step < 4; step++) {
        auto element = [&](int row, int column) { return step < 3 ? s->gradients[row][step * 16 + column] : 0.0f; };
        spread_accumulator(first, element, 0, 0);
        spread_accumulator(second, element, 0, 8);
        const unsigned words[2][2] = {{ft_pack<__half>(first[0], first[1]), ft_pack<__half>(first[2], first[3])},
                                      {ft_pack<__half>(second[0], second[1]), ft_pack<__half>(second[2], second[3])}};
        unsigned band[4];
        ft_skew_band(band, skew, carry, words);
        for (int q = 0; q < 4; q++) {
            const float2 pair = ft_unpack<__half>(band[q]);
            s->bands[step][g + q % 2 * 8][q / 2 * 8 + t] = pair.x;
            s->bands[step][g + q % 2 * 8][q / 2 * 8 + t + 4] = pair.y;
        }
    }
}

FT_KERNEL void bounded_pairs(const float *x, uint32_t *pairs) {
    pairs[threadIdx.x] = ft_pack_bounded(x[2 * threadIdx.x], x[2 * threadIdx.x + 1]);
}

} // namespace

extern "C" ft_status tile_ldmatrix(const uint16_t matrix[256], bool transposed, uint32_t registers[32][4]) {
    reachable m(matrix, 256 * sizeof *matrix), r(registers, 32 * sizeof *registers);
    FT_TRY(m.status);
    FT_TRY(r.status);
    FT_TRY(ft_launch("ldmatrix", read_matrices, dim3(1), dim3(FT_WARP), 0, nullptr, in<const uint16_t>(m), transposed,
                     in<uint32_t>(r)));
    return r.back();
}

extern "C" ft_status tile_mma(ft_dtype dtype, const uint16_t left[256], const uint16_t right[128], float d[128]) {
    reachable a(left, 256 * sizeof *left), b(right, 128 * sizeof *right), sum(d, 128 * sizeof *d);
    FT_TRY(a.status);
    FT_TRY(b.status);
    FT_TRY(sum.status);
    FT_TRY(ft_launch("mma", dtype == FT_F16 ? multiply<__half> : multiply<__nv_bfloat16>, dim3(1), dim3(FT_WARP), 0, nullptr,
                     in<const uint16_t>(a), in<const uint16_t>(b), in<float>(sum)));
    return sum.back();
}

template <class T>
static ft_status run_chain(const reachable &left, const reachable &right, const reachable &values, int64_t stride, int valid,
                           const reachable &result) {
    size_t shared = ft_tile_bytes(16, 32) + ft_tile_bytes(32, 32) + ft_tile_bytes(32, 64);
    return ft_launch("chain", chain<T>, dim3(1), dim3(FT_WARP), shared, nullptr, in<const T>(left), in<const T>(right),
                     in<const T>(values), stride, valid, in<float>(result));
}

extern "C" ft_status tile_chain(ft_dtype dtype, const uint16_t *left, const uint16_t *right, const uint16_t *values,
                                int64_t stride, int valid, float result[16 * 64]) {
    size_t row = size_t(stride) * sizeof(uint16_t);
    reachable l(left, 16 * row), r(right, 32 * row), v(values, 32 * row), out(result, 16 * 64 * sizeof *result);
    for (const reachable *memory : {&l, &r, &v, &out})
        FT_TRY(memory->status);
    FT_TRY(dtype == FT_F16 ? run_chain<__half>(l, r, v, stride, valid, out)
                           : run_chain<__nv_bfloat16>(l, r, v, stride, valid, out));
    return out.back();
}

extern "C" ft_status tile_exp2(const float x[32], float y[32]) {
    reachable from(x, 32 * sizeof *x), to(y, 32 * sizeof *y);
    FT_TRY(from.status);
    FT_TRY(to.status);
    FT_TRY(ft_launch("exp2", powers, dim3(1), dim3(FT_WARP), 0, nullptr, in<const float>(from), in<float>(to)));
    return to.back();
}

extern "C" ft_status tile_skew(tile_skews *s) {
    reachable memory(s, sizeof *s);
    FT_TRY(memory.status);
    FT_TRY(ft_launch("skew", skews, dim3(1), dim3(FT_WARP), 0, nullptr, in<tile_skews>(memory)));
    return memory.back();
}

extern "C" ft_status tile_pack_bounded(const float x[32][2], uint32_t pairs[32]) {
    reachable from(x, 32 * sizeof *x), to(pairs, 32 * sizeof *pairs);
    FT_TRY(from.status);
    FT_TRY(to.status);
    FT_TRY(ft_launch("pack_bounded", bounded_pairs, dim3(1), dim3(FT_WARP), 0, nullptr, in<const float>(from), in<uint32_t>(to)));
    return to.back();
}
