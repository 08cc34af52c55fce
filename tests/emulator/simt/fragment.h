// fragment.h - ldmatrix and mma.m16n8k16 on the host: every lane's piece is where the PTX manual has it.
#ifndef FT_SIMT_FRAGMENT_H
#define FT_SIMT_FRAGMENT_H

#include "tests/emulator/simt/async_proxy.h"
#include "tests/emulator/simt/counts.h"
#include "tests/emulator/simt/scheduler.h"

#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

namespace simt {

SIMT_COUNTED_HERE inline void load_matrices(unsigned (&result)[4], const void *row, bool transposed, site where) {
    struct record {
        uint16_t row[8];
        unsigned result[4];
    } mine;
    if ((uintptr_t(row) & 15) != 0) fault(where, "ldmatrix: a row that is not aligned to 16 bytes");
#ifdef SIMT_COUNT
    count_access(SIMT_LDMATRIX, __builtin_return_address(0), row, 16);
#endif
    if (async_used) async_note_load(row, where);
    uint4 read = *static_cast<const uint4 *>(row); // seen by the sanitizers
    memcpy(mine.row, &read, sizeof mine.row);
    collective(~0u, where, mine, [=](record **all) SIMT_NO_TSAN {
        for (int lane = 0; lane < WARP; lane++)
            for (int m = 0; m < 4; m++) {
                record **rows = all + m * 8;
                int g = lane / 4, t = lane % 4 * 2;
                unsigned low = transposed ? rows[t]->row[g] : rows[g]->row[t];
                unsigned high = transposed ? rows[t + 1]->row[g] : rows[g]->row[t + 1];
                all[lane]->result[m] = low | high << 16;
            }
    });
    memcpy(result, mine.result, sizeof mine.result);
}

// One half of a register as a number.
template <class T> SIMT_NO_TSAN inline float half_of(unsigned pair, int which) {
    unsigned bits = which == 0 ? pair & 0xffff : pair >> 16;
    if constexpr (std::is_same<T, __half>::value) {
        __half_raw raw;
        raw.x = uint16_t(bits);
        return __half2float(__half(raw));
    } else {
        float x;
        bits <<= 16;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
}

template <class T> inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, site where) {
    struct record {
        unsigned a[4], b[2];
        float d[4];
    } mine{{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
    collective(~0u, where, mine, [](record **all) SIMT_NO_TSAN {
        float left[16][16], right[16][8], sum[16][8];
        for (int lane = 0; lane < WARP; lane++) {
            const record &r = *all[lane];
            int g = lane / 4, t = lane % 4 * 2;
            for (int h = 0; h < 2; h++) {
                for (int q = 0; q < 4; q++)
                    left[g + q % 2 * 8][t + q / 2 * 8 + h] = half_of<T>(r.a[q], h);
                for (int q = 0; q < 2; q++) {
                    right[t + q * 8 + h][g] = half_of<T>(r.b[q], h);
                    sum[g + q * 8][t + h] = r.d[q * 2 + h];
                }
            }
        }
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] += left[i][k] * right[k][j];
        for (int lane = 0; lane < WARP; lane++)
            for (int q = 0; q < 4; q++)
                all[lane]->d[q] = sum[lane / 4 + q / 2 * 8][lane % 4 * 2 + q % 2];
    });
    memcpy(d, mine.d, sizeof mine.d);
}

} // namespace simt

inline void ft_ldmatrix_x4(unsigned (&r)[4], const void *row, simt::site where = simt::site::here()) {
    simt::load_matrices(r, row, false, where);
}
inline void ft_ldmatrix_x4_transposed(unsigned (&r)[4], const void *row, simt::site where = simt::site::here()) {
    simt::load_matrices(r, row, true, where);
}
template <class T>
inline void ft_mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, simt::site where = simt::site::here()) {
    simt::multiply<T>(d, a, b0, b1, where);
}

#endif
