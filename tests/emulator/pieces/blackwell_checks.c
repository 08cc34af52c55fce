#include "tests/emulator/pieces/blackwell_checks.h"

#include "tests/emulator/half.h"
#include "tests/emulator/pieces/blackwell_kernels.h"

#include <string.h>

enum { ROWS = 128, TERMS = 128, MOST = 128 };

static uint32_t random_state = 1;
static double whole_number(int most) { // from -most to most
    random_state = random_state * 1664525u + 1013904223u;
    return (double)((random_state >> 8) % (uint32_t)(2 * most + 1)) - most;
}

// Where a number of a tile of 64 columns is: 16 bytes number c of a row of 128 bytes at c ^ row % 8 (hopper_checks.c).
static int swizzled(int row, int column) { return row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8; }

// Words that public kernels for B200 give the same products (tests/ptx/descriptors.md), and those that the tables of the PTX ISA come to.
typedef struct known_words {
    ft_dtype dtype;
    int n;
    bool by_columns;
    uint32_t kind;
    uint64_t right; // without the address; of the left operand it is the first
} known_words;
static const known_words known[] = {
    {FT_BF16, 128, false, 0x08200490, 0x4000404000000000}, {FT_F16, 128, false, 0x08200010, 0x4000404000000000},
    {FT_BF16, 64, false, 0x08100490, 0x4000404000000000},  {FT_F16, 64, false, 0x08100010, 0x4000404000000000},
    {FT_BF16, 64, true, 0x08110490, 0x4000404004000000},   {FT_F16, 64, true, 0x08110010, 0x4000404004000000},
    {FT_BF16, 128, true, 0x08210490, 0x4000404004000000},  {FT_F16, 128, true, 0x08210010, 0x4000404004000000},
};
enum { KNOWN = sizeof known / sizeof *known };

// Small whole numbers: every sum is exact, whatever its order.
static ft_status check_product(const char *fault, const known_words *k, bool add, uint64_t descriptors[2]) {
    static uint16_t left[ROWS * TERMS], left_image[ROWS * TERMS], image[TERMS * MOST];
    static double right[TERMS][MOST];
    static float d[ROWS * MOST], before[ROWS * MOST];
    for (int i = 0; i < ROWS; i++)
        for (int t = 0; t < TERMS; t++)
            left_image[t / 64 * ROWS * 64 + swizzled(i, t % 64)] = left[i * TERMS + t] = half_bits(k->dtype, whole_number(15));
    for (int t = 0; t < TERMS; t++)
        for (int j = 0; j < k->n; j++) {
            right[t][j] = whole_number(15);
            const int row = k->by_columns ? t : j, column = k->by_columns ? j : t, rows_of_tile = k->by_columns ? TERMS : k->n;
            image[column / 64 * rows_of_tile * 64 + swizzled(row, column % 64)] = half_bits(k->dtype, right[t][j]);
        }
    for (int i = 0; i < ROWS * k->n; i++)
        d[i] = before[i] = (float)whole_number(900);
    FT_TRY(blackwell_product(fault, k->dtype, k->by_columns, k->n, add, left_image, image, d, descriptors));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < k->n; j++) {
            double want = add ? (double)before[i * k->n + j] : 0;
            for (int t = 0; t < TERMS; t++)
                want += half_value(k->dtype, left[i * TERMS + t]) * right[t][j];
            if ((double)d[i * k->n + j] != want)
                return ft_fail(FT_FAILED, "tcgen05", "%s, %d columns by %s, (%d,%d): %g, not %g", ft_dtype_name(k->dtype), k->n,
                               k->by_columns ? "columns" : "rows", i, j, (double)d[i * k->n + j], want);
        }
    return FT_OK;
}

ft_status blackwell_check_words(void) {
    for (int i = 0; i < KNOWN; i++) {
        uint64_t got[2];
        const uint32_t kind = blackwell_kind(known[i].dtype, known[i].n, known[i].by_columns);
        if (kind != known[i].kind) return ft_fail(FT_FAILED, "tcgen05", "an instruction descriptor is %#x, not %#x", kind, known[i].kind);
        FT_TRY(check_product("", &known[i], false, got));
        const uint64_t want[2] = {known[0].right, known[i].right};
        for (int w = 0; w < 2; w++)
            if (got[w] != want[w])
                return ft_fail(FT_FAILED, "tcgen05", "a matrix descriptor is %#llx, not %#llx", (unsigned long long)got[w], (unsigned long long)want[w]);
    }
    return FT_OK;
}

ft_status blackwell_check_product(void) {
    uint64_t unused[2];
    for (int i = 0; i < 2 * KNOWN; i++)
        FT_TRY(check_product("", &known[i % KNOWN], i < KNOWN, unused));
    return FT_OK;
}

ft_status blackwell_check_faulty_product(const char *fault) {
    uint64_t unused[2];
    return check_product(fault, &known[KNOWN - 2], true, unused);
}
