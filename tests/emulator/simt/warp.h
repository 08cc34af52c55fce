// warp.h - barriers, shuffles and votes. Every function takes the line of its call as a last, hidden argument.
#ifndef FT_SIMT_WARP_H
#define FT_SIMT_WARP_H

#include "tests/emulator/simt/scheduler.h"

namespace simt {

// source(lane, first, argument): the lane to read, in the group of `width` lanes that begins at `first`. Outside of the
// group a lane keeps its own value.
template <class T, class S> inline T shuffle(unsigned mask, T value, int argument, int width, site where, S source) {
    struct record {
        T value, result;
        int argument;
    } mine{value, value, argument};
    if (width <= 0 || width > WARP || (width & (width - 1)) != 0) fault(where, "a shuffle among %d lanes", width);
    collective(mask, where, mine, [=](record **all) SIMT_NO_TSAN {
        for (int i = 0; i < WARP; i++) {
            if (all[i] == nullptr) continue;
            int first = i & -width, from = source(i, first, all[i]->argument);
            if (from < first || from >= first + width) from = i;
            if (all[from] == nullptr) fault(where, "a shuffle that reads lane %d, which is not among %08x", from, mask);
            all[i]->result = all[from]->value;
        }
    });
    return mine.result;
}

inline unsigned vote(unsigned mask, bool yes, site where) {
    struct record {
        bool yes;
        unsigned result;
    } mine{yes, 0};
    collective(mask, where, mine, [](record **all) SIMT_NO_TSAN {
        unsigned bits = 0;
        for (int i = 0; i < WARP; i++)
            if (all[i] != nullptr && all[i]->yes) bits |= 1u << i;
        for (int i = 0; i < WARP; i++)
            if (all[i] != nullptr) all[i]->result = bits;
    });
    return mine.result;
}

} // namespace simt

inline void __syncthreads(simt::site where = simt::site::here()) { simt::block_barrier(where); }
inline void __syncwarp(unsigned mask = ~0u, simt::site where = simt::site::here()) { simt::warp_barrier(mask, where); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, simt::site where = simt::site::here()) {
    return simt::shuffle(mask, value, lane, width, where,
                         [=](int, int first, int argument) { return first + (argument & (width - 1)); });
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, simt::site where = simt::site::here()) {
    return simt::shuffle(mask, value, bits, width, where, [](int lane, int, int argument) { return lane ^ argument; });
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, simt::site where = simt::site::here()) {
    return simt::shuffle(mask, value, int(distance), width, where,
                         [](int lane, int, int argument) { return lane - argument; });
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                          simt::site where = simt::site::here()) {
    return simt::shuffle(mask, value, int(distance), width, where,
                         [](int lane, int, int argument) { return lane + argument; });
}
inline unsigned __ballot_sync(unsigned mask, int yes, simt::site where = simt::site::here()) {
    return simt::vote(mask, yes != 0, where);
}
inline int __any_sync(unsigned mask, int yes, simt::site where = simt::site::here()) {
    return simt::vote(mask, yes != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int yes, simt::site where = simt::site::here()) {
    return simt::vote(mask, yes != 0, where) == mask;
}

#endif
