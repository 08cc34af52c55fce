// swizzled.h - an operand in shared memory as the descriptors of wgmma and tcgen05 tell it, which differ in what else is to be in them
// (wgmma.cpp, tcgen05.cpp): "Matrix-descriptor-encode", "Shared memory descriptor", "Strides", "Canonical layouts".
#ifndef FT_PTX_SWIZZLED_H
#define FT_PTX_SWIZZLED_H

#include "tests/ptx/machine.h"

namespace ptx {

// 16 terms of a number `mn` of rows or columns, 128-byte swizzle. By rows (K-major) eight rows are a pattern of 1,024 bytes and the next eight
// are `stride` further; by columns (MN-major) a pattern has eight terms of 64 numbers, the next eight terms are `stride` further and the next 64
// numbers `leading`. The swizzle keeps 16 bytes together: eight terms of one row, or one term of eight columns.
struct swizzled {
    uint32_t start, leading, stride;
    bool by_columns, is_half;
    const char *reader; // in what a fault says
    swizzled(uint64_t descriptor, bool columns, bool half, const char *who)
        : start(uint32_t(descriptor & 0x3fff) << 4), leading(uint32_t(descriptor >> 16 & 0x3fff) << 4),
          stride(uint32_t(descriptor >> 32 & 0x3fff) << 4), by_columns(columns), is_half(half), reader(who) {}
    // Eight neighbours from (mn, k) on, along k or, by columns, along mn.
    void eight(block &b, int mn, int k, float to[8]) const {
        uint32_t at = by_columns ? start + uint32_t(mn / 64) * leading + uint32_t(mn % 64) * 2 + uint32_t(k / 8) * stride + uint32_t(k % 8) * 128
                                 : start + uint32_t(mn / 8) * stride + uint32_t(mn % 8) * 128 + uint32_t(k) * 2;
        at ^= (at >> 7 & 7) << 4;
        uint16_t h[8];
        memcpy(h, b.at(at, 16, 16), sizeof h);
        if (b.dirty[at / GRANULE] != 0) b.must_be_handed_over(at, 16, reader);
        for (int n = 0; n < 8; n++)
            to[n] = is_half ? of_f16(h[n]) : of_bf16(h[n]);
    }
};

} // namespace ptx

#endif
