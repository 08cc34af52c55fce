// wgmma.h - products of warpgroups on the host, each warp's 16 rows by themselves: operands where the PTX manual has them, sums that
// arrive in the wait, reads of shared memory in the books of async_proxy.h.
#ifndef FT_SIMT_WGMMA_H
#define FT_SIMT_WGMMA_H

#include "tests/emulator/simt/async_proxy.h"
#include "tests/emulator/simt/fragment.h"

#include <cstring>

namespace simt {

// Number `term` of column `column` of the right operand, or of a row of the left one, that a descriptor describes (128-byte swizzle).
template <class T, bool COLUMNS> SIMT_NO_TSAN inline float right_operand(uint64_t descriptor, int term, int column, site where) {
    const unsigned start = unsigned(descriptor & 0x3fff) << 4, leading = unsigned(descriptor >> 16 & 0x3fff) << 4,
                   stride = unsigned(descriptor >> 32 & 0x3fff) << 4, base = unsigned(descriptor >> 49 & 7);
    if (descriptor >> 62 != 1 || base != 0) fault(where, "a descriptor that is not of tiles swizzled by 128 bytes");
    const unsigned outer = unsigned(COLUMNS ? term : column), inner = unsigned(COLUMNS ? column : term);
    const unsigned at = start + outer / 8 * stride + outer % 8 * 128 + inner / 64 * leading + inner % 64 * 2;
    return half_of<T>(async_read(swizzled(at), where), 0);
}

struct left_operand {
    unsigned registers[4];
    uint64_t descriptor; // of the rows of all four warps; 0: it is in registers
};

template <class T, int N, bool COLUMNS, bool LEFT_COLUMNS = false>
SIMT_NO_TSAN inline void multiply_group(float (&d)[N / 8][4], const left_operand &a, uint64_t b, bool add, site where) {
    struct record {
        left_operand a;
        float *sums;
        uint64_t b;
        bool add;
    } mine{a, product_begin(&d[0][0], N / 2, where), b, add};
    const int own = int(current->number) / WARP % 4 * 16; // the warp's rows
    collective(~0u, where, mine, [=](record **all) SIMT_NO_TSAN {
        static float left[16][16], right[16][N]; // (one thread of the system runs all of them)
        const record &first = *all[0];
        for (int lane = 0; lane < WARP; lane++) {
            const record &r = *all[lane];
            if (r.b != first.b || r.add != first.add || r.a.descriptor != first.a.descriptor)
                fault(where, "lanes of a warp differ in the operands of a product");
            for (int q = 0; q < 4; q++)
                for (int h = 0; h < 2; h++)
                    left[lane / 4 + q % 2 * 8][lane % 4 * 2 + q / 2 * 8 + h] = half_of<T>(r.a.registers[q], h);
        }
        // (all 64 rows, as nobody says that a warp reads only its own)
        for (int row = 0; first.a.descriptor != 0 && row < 64; row++)
            for (int k = 0; k < 16; k++) {
                const float x = right_operand<T, LEFT_COLUMNS>(first.a.descriptor, k, row, where);
                if (row / 16 == own / 16) left[row % 16][k] = x;
            }
        for (int outer = 0; outer < (COLUMNS ? 16 : N); outer++)
            for (int inner = 0; inner < (COLUMNS ? N : 16); inner++) {
                const int k = COLUMNS ? outer : inner, n = COLUMNS ? inner : outer;
                right[k][n] = right_operand<T, COLUMNS>(first.b, k, n, where);
            }
        for (int lane = 0; lane < WARP; lane++)
            for (int i = 0; i < N / 2; i++) {
                const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                float sum = all[lane]->add ? all[lane]->sums[i] : 0.0f;
                for (int k = 0; k < 16; k++)
                    sum += left[row][k] * right[k][column];
                all[lane]->sums[i] = sum;
            }
    });
}

} // namespace simt

template <int N> inline void ft_wgmma_hold(unsigned (&)[N][4]) {} // for the compiler of the chip's code
inline uint64_t ft_wgmma_made_here(uint64_t descriptor) { return descriptor; }
inline int ft_wgmma_made_here(int number) { return number; }
template <int N> inline void ft_wgmma_fence(float (&)[N][4]) { simt::product_fence(); }
template <int N> inline void ft_wgmma_fence_new(float (&sums)[N][4]) { // what was in them is gone
    memset(static_cast<void *>(&sums[0][0]), 0xff, sizeof sums);
    simt::product_fence();
}
inline void ft_wgmma_fence() { simt::product_fence(); }
inline void ft_wgmma_commit() { simt::product_commit(); }
template <int NEWEST, int N> inline void ft_wgmma_wait(float (&sums)[N][4], simt::site where = simt::site::here()) {
    simt::product_wait(&sums[0][0], NEWEST, where);
}
template <int NEWEST> inline void ft_wgmma_wait(simt::site where = simt::site::here()) { simt::product_wait(nullptr, NEWEST, where); }
template <class T, int N, bool COLUMNS>
inline void ft_wgmma(float (&d)[N / 8][4], const unsigned (&a)[4], uint64_t b, bool add, simt::site where = simt::site::here()) {
    simt::multiply_group<T, N, COLUMNS>(d, {{a[0], a[1], a[2], a[3]}, 0}, b, add, where);
    simt::product_reads(a);
}
template <class T, bool LEFT_COLUMNS, bool COLUMNS>
inline void ft_wgmma_of_tiles(float (&d)[8][4], uint64_t a, uint64_t b, bool add, simt::site where = simt::site::here()) {
    simt::multiply_group<T, 64, COLUMNS, LEFT_COLUMNS>(d, {{}, a}, b, add, where);
}
template <class T, bool COLUMNS>
inline void ft_wgmma_wide(float (&d)[32][4], uint64_t a, uint64_t b, bool add, simt::site where = simt::site::here()) {
    simt::multiply_group<T, 256, COLUMNS, false>(d, {{}, a}, b, add, where);
}

#endif
