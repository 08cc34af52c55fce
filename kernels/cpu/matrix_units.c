#include "kernels/cpu/matrix_units.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_GET_PERMISSION = 0x1022, ARCH_ASK_PERMISSION = 0x1023, TILE_DATA = 18 }; // asm/prctl.h of Linux 5.16

typedef struct words {
    unsigned a, b, c, d;
} words;

static words cpuid(unsigned leaf, unsigned part) {
    words w = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, part, &w.a, &w.b, &w.c, &w.d)) return (words){0, 0, 0, 0};
    return w;
}

// The system keeps all of these parts of a thread's state.
static bool keeps(uint32_t parts) {
    if (!(cpuid(1, 0).c >> 27 & 1)) return false; // OSXSAVE: XGETBV may be asked
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & parts) == parts;
}

bool ft_cpu_has_avx512_bf16(void) {
    enum { VECTORS = 0xE6 }; // SSE, AVX, and the three of AVX-512
    return keeps(VECTORS) && cpuid(7, 0).a >= 1 && cpuid(7, 1).a >> 5 & 1;
}

bool ft_cpu_has_amx_bf16(void) {
    const uint32_t units = cpuid(7, 0).d;
    if (!(units >> 22 & 1) || !(units >> 24 & 1) || !keeps(3u << 17)) return false;
    uint64_t granted = 0;
    if (syscall(SYS_arch_prctl, ARCH_GET_PERMISSION, &granted) == 0 && granted >> TILE_DATA & 1) return true;
    return syscall(SYS_arch_prctl, ARCH_ASK_PERMISSION, TILE_DATA) == 0;
}
#else
bool ft_cpu_has_avx512_bf16(void) { return false; }
bool ft_cpu_has_amx_bf16(void) { return false; }
#endif
