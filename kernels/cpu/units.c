#include "kernels/cpu/units.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

// Bits of XCR0: what a unit's registers need to be saved.
enum { XCR0_YMM = 0x6, XCR0_ZMM = 0xE6, XCR0_TILES = 0x60000 };

static bool bit(uint32_t word, int number) { return (word >> number & 1) != 0; }
static bool saves(const ft_cpuid *id, uint64_t registers) { return (id->xcr0 & registers) == registers; }

static bool has_avx2(const ft_cpuid *id) { return bit(id->ebx_7, 5) && bit(id->ecx_1, 12); }
// F, DQ, BW, VL
static bool has_avx512(const ft_cpuid *id) {
    return has_avx2(id) && bit(id->ebx_7, 16) && bit(id->ebx_7, 17) && bit(id->ebx_7, 30) && bit(id->ebx_7, 31);
}

ft_cpu_units ft_cpu_units_of(const ft_cpuid *id, bool tiles_granted) {
    const bool avx512 = has_avx512(id), tiles = bit(id->edx_7, 24), wide = saves(id, XCR0_ZMM);
    const struct {
        bool there, usable;
    } unit[FT_CPU_UNITS] = {
        [FT_UNIT_AVX2] = {has_avx2(id), saves(id, XCR0_YMM)},
        [FT_UNIT_AVX512] = {avx512, wide},
        [FT_UNIT_AVX512_VNNI] = {avx512 && bit(id->ecx_7, 11), wide},
        [FT_UNIT_AVX512_BF16] = {avx512 && bit(id->eax_7_1, 5), wide},
        [FT_UNIT_AVX512_FP16] = {avx512 && bit(id->edx_7, 23), wide},
        [FT_UNIT_AMX_BF16] = {tiles && bit(id->edx_7, 22), saves(id, XCR0_TILES) && tiles_granted},
        [FT_UNIT_AMX_INT8] = {tiles && bit(id->edx_7, 25), saves(id, XCR0_TILES) && tiles_granted},
        [FT_UNIT_AVX_VNNI] = {has_avx2(id) && bit(id->eax_7_1, 4), saves(id, XCR0_YMM)},
    };
    ft_cpu_units units = {0, 0};
    for (int i = 0; i < FT_CPU_UNITS; i++) {
        if (!unit[i].there) continue;
        if (unit[i].usable) units.usable |= 1u << i;
        else units.refused |= 1u << i;
    }
    return units;
}

ft_cpu_units ft_cpu_units_of_arm(bool dotprod, bool i8mm, bool bf16) {
    const bool there[FT_CPU_UNITS] = {[FT_UNIT_NEON] = true, [FT_UNIT_NEON_DOTPROD] = dotprod, [FT_UNIT_NEON_I8MM] = i8mm, [FT_UNIT_NEON_BF16] = bf16};
    ft_cpu_units units = {0, 0};
    for (int i = 0; i < FT_CPU_UNITS; i++)
        if (there[i]) units.usable |= 1u << i;
    return units;
}

#if defined(__x86_64__)
static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

// arch_prctl(ARCH_GET_XCOMP_PERM) tells what is granted, (ARCH_REQ_XCOMP_PERM) asks. The kernel grants it to the whole process, and refuses
// where a signal's stack would be too small, or knows nothing of tiles (before Linux 5.16).
static bool tiles_are_granted(void) {
    enum { GET_PERMISSION = 0x1022, ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    uint64_t granted = 0;
    if (syscall(SYS_arch_prctl, GET_PERMISSION, &granted) != 0) return false;
    return (granted >> TILE_DATA & 1) != 0 || syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
}

ft_cpu_units ft_cpu_units_here(void) {
    enum { OSXSAVE = 27, TILE = 24 };
    ft_cpuid id = {0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) id.ecx_1 = c;
    uint32_t subleaves = 0;
    if (__get_cpuid_count(7, 0, &subleaves, &b, &c, &d)) id.ebx_7 = b, id.ecx_7 = c, id.edx_7 = d;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) id.eax_7_1 = a;
    if (bit(id.ecx_1, OSXSAVE)) id.xcr0 = read_xcr0();
    const bool tiles = bit(id.edx_7, TILE) && saves(&id, XCR0_TILES);
    return ft_cpu_units_of(&id, tiles && tiles_are_granted());
}
#elif defined(__aarch64__) && defined(__linux__)
ft_cpu_units ft_cpu_units_here(void) {
    enum { DOTPROD = 20, I8MM = 13, BF16 = 14 }; // of AT_HWCAP, and two of AT_HWCAP2
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    return ft_cpu_units_of_arm((first >> DOTPROD & 1) != 0, (second >> I8MM & 1) != 0, (second >> BF16 & 1) != 0);
}
#elif defined(__aarch64__) && defined(__APPLE__)
static bool says_yes(const char *name) {
    int yes = 0;
    size_t size = sizeof yes;
    return sysctlbyname(name, &yes, &size, NULL, 0) == 0 && yes != 0;
}
ft_cpu_units ft_cpu_units_here(void) {
    return ft_cpu_units_of_arm(says_yes("hw.optional.arm.FEAT_DotProd"), says_yes("hw.optional.arm.FEAT_I8MM"), says_yes("hw.optional.arm.FEAT_BF16"));
}
#else
ft_cpu_units ft_cpu_units_here(void) { return (ft_cpu_units){0, 0}; }
#endif
