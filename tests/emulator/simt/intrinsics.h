// intrinsics.h - what CUDA gives to every kernel beyond C++: bit work, fast mathematics, cache hints, atomics. The list
// grows as kernels need; a name that is missing here is an error of the compiler, never a silent difference.
#ifndef FT_SIMT_INTRINSICS_H
#define FT_SIMT_INTRINSICS_H

#include "tests/emulator/simt/fibers.h"

#include <cmath>
#include <cstdint>
#include <cstring>

// ---- mathematics: the emulator computes exactly what the chip only approximates ----------------------------------------
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- bits -------------------------------------------------------------------------------------------------------------
inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
inline int __float_as_int(float x) { return int(__float_as_uint(x)); }
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
// Byte i of the result is byte (selector >> 4 i) % 8 of y and x, x being the low four.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned(uint64_t(x) * y >> 32); }

// min and max of numbers of one type, as CUDA has them without a namespace
#define FT_SIMT_MIN_MAX(type)                                                                                          \
    inline type min(type x, type y) { return y < x ? y : x; }                                                          \
    inline type max(type x, type y) { return x < y ? y : x; }
FT_SIMT_MIN_MAX(int)
FT_SIMT_MIN_MAX(unsigned)
FT_SIMT_MIN_MAX(long)
FT_SIMT_MIN_MAX(unsigned long)
FT_SIMT_MIN_MAX(long long)
FT_SIMT_MIN_MAX(unsigned long long)
#undef FT_SIMT_MIN_MAX
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }

// ---- memory -----------------------------------------------------------------------------------------------------------
template <class T> inline T __ldg(const T *from) { return *from; }
template <class T> inline T __ldcs(const T *from) { return *from; }
template <class T> inline T __ldcg(const T *from) { return *from; }
template <class T> inline void __stcs(T *to, T value) { *to = value; }
template <class T> inline void __stwb(T *to, T value) { *to = value; }
template <class T> inline void __stcg(T *to, T value) { *to = value; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// As on the chip, atomics order nothing else (relaxed): ThreadSanitizer then sees who relied on it.
template <class T> inline T atomicAdd_integer(T *at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline int atomicAdd(int *at, int value) { return atomicAdd_integer(at, value); }
inline unsigned atomicAdd(unsigned *at, unsigned value) { return atomicAdd_integer(at, value); }
inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value) {
    return atomicAdd_integer(at, value);
}
inline float atomicAdd(float *at, float value) {
    unsigned *bits = reinterpret_cast<unsigned *>(at), old = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(bits, &old, __float_as_uint(__uint_as_float(old) + value), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return __uint_as_float(old);
}
template <class T> inline T atomicOr(T *at, T value) { return __atomic_fetch_or(at, value, __ATOMIC_RELAXED); }
template <class T> inline T atomicAnd(T *at, T value) { return __atomic_fetch_and(at, value, __ATOMIC_RELAXED); }
template <class T> inline T atomicExch(T *at, T value) { return __atomic_exchange_n(at, value, __ATOMIC_RELAXED); }
template <class T> inline T atomicCAS(T *at, T expected, T value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <class T> inline T atomicMax(T *at, T value) {
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

#endif
