// Which units a processor has: from what CPUID says of known ones, and here as the kernel's list of flags has them.
#include "kernels/cpu/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BIT(n) (1u << (n))
#define AVX2(u) BIT(FT_UNIT_AVX2) | (u)
#define AVX512(u) AVX2(BIT(FT_UNIT_AVX512) | (u))
enum { FMA = 1 << 12, EBX_AVX2 = 1 << 5, EBX_512 = (int)(BIT(16) | BIT(17) | BIT(30) | BIT(31)), VNNI = 1 << 11, BF16 = 1 << 5, FP16 = 1 << 23 };
enum { TILE_BF16 = 1 << 22, TILE = 1 << 24, TILE_INT8 = 1 << 25, TILES = TILE_BF16 | TILE | TILE_INT8 };
enum { AVX_VNNI = 1 << 4, SAPPHIRE = AVX512(BIT(FT_UNIT_AVX512_VNNI) | BIT(FT_UNIT_AVX512_BF16) | BIT(FT_UNIT_AVX512_FP16) | BIT(FT_UNIT_AMX_BF16) | BIT(FT_UNIT_AMX_INT8)) };
enum { SSE = 3, YMM = 7, ZMM = 0xE7, ALL = 0x600E7 };

static const struct {
    const char *what;
    ft_cpuid id;
    bool granted;
    unsigned usable, refused;
} cases[] = {
    {"nothing is known", {0}, true, 0, 0},
    {"Ivy Bridge: no AVX2", {.xcr0 = YMM}, false, 0, 0},
    {"AVX2 without FMA is none of ours", {.ebx_7 = EBX_AVX2, .xcr0 = YMM}, false, 0, 0},
    {"Haswell", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2, .xcr0 = YMM}, false, AVX2(0), 0},
    {"Haswell under a system that saves no YMM", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2, .xcr0 = SSE}, false, 0, AVX2(0)},
    {"Skylake-SP", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .xcr0 = ZMM}, false, AVX512(0), 0},
    {"the same under a system that saves YMM alone", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .xcr0 = YMM}, false, AVX2(0), BIT(FT_UNIT_AVX512)},
    {"Knights Landing: F without BW", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | BIT(16), .xcr0 = ZMM}, false, AVX2(0), 0},
    {"Cascade Lake", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .ecx_7 = VNNI, .xcr0 = ZMM}, false, AVX512(BIT(FT_UNIT_AVX512_VNNI)), 0},
    {"Zen 4", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .ecx_7 = VNNI, .eax_7_1 = BF16, .xcr0 = ZMM}, true,
     AVX512(BIT(FT_UNIT_AVX512_VNNI) | BIT(FT_UNIT_AVX512_BF16)), 0},
    {"Sapphire Rapids", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .ecx_7 = VNNI, .edx_7 = FP16 | TILES, .eax_7_1 = BF16, .xcr0 = ALL}, true,
     SAPPHIRE, 0},
    {"the same where the kernel says no", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .ecx_7 = VNNI, .edx_7 = FP16 | TILES, .eax_7_1 = BF16, .xcr0 = ALL},
     false, SAPPHIRE & ~(BIT(FT_UNIT_AMX_BF16) | BIT(FT_UNIT_AMX_INT8)), BIT(FT_UNIT_AMX_BF16) | BIT(FT_UNIT_AMX_INT8)},
    {"and where the system saves no tiles", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2 | (uint32_t)EBX_512, .edx_7 = TILES, .xcr0 = ZMM}, true, AVX512(0),
     BIT(FT_UNIT_AMX_BF16) | BIT(FT_UNIT_AMX_INT8)},
    {"tiles of one kind", {.edx_7 = TILE | TILE_INT8, .xcr0 = ALL}, true, BIT(FT_UNIT_AMX_INT8), 0},
    {"kinds of products without tiles are none", {.edx_7 = TILE_BF16 | TILE_INT8, .xcr0 = ALL}, true, 0, 0},
    {"Alder Lake's small cores", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2, .eax_7_1 = AVX_VNNI, .xcr0 = YMM}, false, AVX2(BIT(FT_UNIT_AVX_VNNI)), 0},
    {"the same under a system that saves no YMM", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2, .eax_7_1 = AVX_VNNI, .xcr0 = SSE}, false, 0, AVX2(BIT(FT_UNIT_AVX_VNNI))},
    {"bf16 without the rest of AVX-512 is none of ours", {.ecx_1 = FMA, .ebx_7 = EBX_AVX2, .ecx_7 = VNNI, .eax_7_1 = BF16, .xcr0 = ZMM}, false, AVX2(0), 0},
};

static void processors(void **unused) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_cpu_units got = ft_cpu_units_of(&cases[i].id, cases[i].granted);
        if (got.usable != cases[i].usable || got.refused != cases[i].refused)
            fail_msg("%s: usable %x, refused %x, not %x and %x", cases[i].what, got.usable, got.refused, cases[i].usable, cases[i].refused);
    }
}

static void arm(void **unused) {
    for (unsigned has = 0; has < 8; has++) {
        const ft_cpu_units got = ft_cpu_units_of_arm((has & 1) != 0, (has & 2) != 0, (has & 4) != 0);
        assert_int_equal(got.usable, BIT(FT_UNIT_NEON) | has << FT_UNIT_NEON_DOTPROD);
        assert_int_equal(got.refused, 0);
    }
}

static bool has_word(const char *line, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(line, word); at != NULL; at = strstr(at + 1, word))
        if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n')) return true;
    return false;
}

// What the kernel lists, it found by CPUID and saves.
static void this_machine(void **unused) {
    static const char *const flags[FT_CPU_UNITS][4] = {{"avx2", "fma"}, {"avx512f", "avx512vl", "avx512bw", "avx512dq"}, {"avx512_vnni"}, {"avx512_bf16"},
                                                       {"avx512_fp16"}, {"amx_tile", "amx_bf16"}, {"amx_tile", "amx_int8"}, {"avx2", "fma", "avx_vnni"},
                                                       {"asimd"}, {"asimddp"}, {"i8mm"}, {"bf16"}};
    const ft_cpu_units here = ft_cpu_units_here(), again = ft_cpu_units_here();
    static char line[16384];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    assert_int_equal(here.usable, again.usable);
    assert_int_equal(here.usable & here.refused, 0);
    if (file == NULL) skip();
    while (!found && fgets(line, sizeof line, file)) found = strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
    fclose(file);
    if (!found) { // another kind of processor
        assert_int_equal(here.usable | here.refused, 0);
        return;
    }
    for (int i = 0; i < FT_CPU_UNITS; i++) {
        bool listed = true;
        for (int k = 0; k < 4 && flags[i][k] != NULL; k++) listed = listed && has_word(line, flags[i][k]);
        if (listed != ft_has_unit(here.usable | here.refused, (ft_cpu_unit)i))
            fail_msg("%s: /proc/cpuinfo says %d", ft_cpu_unit_name((ft_cpu_unit)i), listed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(processors), cmocka_unit_test(arm), cmocka_unit_test(this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
