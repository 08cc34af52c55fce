#include "tests/emulator/pieces/hopper_checks.h"

#include "tests/emulator/half.h"
#include "tests/emulator/pieces/hopper_kernels.h"

#include <math.h>

static const ft_dtype dtypes[] = {FT_BF16, FT_F16};

static uint32_t random_state = 1;
static double whole_number(int most) { // from -most to most
    random_state = random_state * 1664525u + 1013904223u;
    return (double)((random_state >> 8) % (uint32_t)(2 * most + 1)) - most;
}

// Where a number of a tile of 64 columns is: 16 bytes number c of a row of 128 bytes at c ^ row % 8. (CUDA programming guide, "Tensor
// Memory Access", the pattern of CU_TENSOR_MAP_SWIZZLE_128B.)
static int swizzled(int row, int column) { return row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8; }

ft_status hopper_check_copy(void) {
    enum { ROWS = 50, COLUMNS = 136, STRIDE = 144 };
    _Alignas(16) static uint16_t matrix[ROWS * STRIDE];
    static uint16_t image[HOPPER_BOX * 64];
    for (int i = 0; i < ROWS * STRIDE; i++)
        matrix[i] = (uint16_t)(i + 1);
    static const int corners[][2] = {{0, 0}, {7, 64}, {40, 64}, {13, 128}, {49, 8}};
    for (int c = 0; c < (int)(sizeof corners / sizeof *corners); c++) {
        const int row = corners[c][0], column = corners[c][1];
        FT_TRY(hopper_copy(matrix, ROWS, COLUMNS, STRIDE, row, column, image));
        for (int i = 0; i < HOPPER_BOX; i++)
            for (int j = 0; j < 64; j++) {
                const int inside = row + i < ROWS && column + j < COLUMNS;
                const int want = inside ? matrix[(row + i) * STRIDE + column + j] : 0, got = image[swizzled(i, j)];
                if (got != want)
                    return ft_fail(FT_FAILED, "tensor_copy", "box at (%d,%d), (%d,%d): %d, not %d", row, column, i, j, got, want);
            }
    }
    return FT_OK;
}

// Small whole numbers: every sum is exact, whatever its order.
static ft_status check_product(ft_dtype dtype, int by_columns, int n, int add, bool left_in_shared, bool left_by_columns) {
    static uint16_t left[64 * 128], numbers[64 * 128], left_image[64 * 128], image[128 * 128];
    static double right[128][128];
    static float d[64 * 128], before[64 * 128];
    for (int i = 0; i < 64 * 128; i++)
        left[i] = numbers[i] = half_bits(dtype, whole_number(15));
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < 128; k++)
            left_image[left_by_columns ? swizzled(k, i) : k / 64 * 64 * 64 + swizzled(i, k % 64)] = left[i * 128 + k];
    if (left_in_shared) // nobody is to look there
        for (int i = 0; i < 64 * 128; i++)
            left[i] ^= 0x8000;
    for (int k = 0; k < 128; k++)
        for (int j = 0; j < n; j++) {
            right[k][j] = whole_number(15);
            const int row = by_columns ? k : j, column = by_columns ? j : k, rows_of_tile = by_columns ? 128 : n;
            image[column / 64 * rows_of_tile * 64 + swizzled(row, column % 64)] = half_bits(dtype, right[k][j]);
        }
    for (int i = 0; i < 64 * n; i++)
        d[i] = before[i] = (float)whole_number(900);
    FT_TRY(hopper_product(dtype, by_columns, n, add, left, left_in_shared ? left_image : NULL, left_by_columns, image, d));
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < n; j++) {
            double want = add ? (double)before[i * n + j] : 0;
            for (int k = 0; k < 128; k++)
                want += half_value(dtype, numbers[i * 128 + k]) * right[k][j];
            if ((double)d[i * n + j] != want)
                return ft_fail(FT_FAILED, "wgmma", "%s, %d columns by %s, (%d,%d): %g, not %g", ft_dtype_name(dtype), n,
                               by_columns ? "columns" : "rows", i, j, (double)d[i * n + j], want);
        }
    return FT_OK;
}

ft_status hopper_check_product(void) {
    for (int i = 0; i < 16; i++)
        FT_TRY(check_product(dtypes[i % 2], i / 2 % 2, i / 4 % 2 ? 64 : 128, i / 8, false, false));
    for (int i = 0; i < 12; i++) // both in shared memory: by rows, the right one by columns, both by columns
        FT_TRY(check_product(dtypes[i % 2], i / 4 > 0, 64, i / 2 % 2, true, i / 4 == 2));
    for (int i = 0; i < 4; i++)
        FT_TRY(check_product(dtypes[i % 2], 0, 32, i / 2, false, false));
    return FT_OK;
}

// Of five tiles the last has 24 rows; what lies behind it, in the matrix and beyond, is NaN.
ft_status hopper_check_pipeline(const char *fault) {
    enum { TILES = 5, VALID = 4 * HOPPER_TILE + 24, ROWS = VALID + 20, TERMS = TILES * HOPPER_TILE };
    static uint16_t left[64 * TERMS];
    _Alignas(16) static uint16_t right[ROWS * 64];
    static float d[64 * 64];
    for (int i = 0; i < 64 * TERMS; i++)
        left[i] = half_bits(FT_BF16, whole_number(15));
    for (int i = 0; i < ROWS * 64; i++)
        right[i] = half_bits(FT_BF16, i < VALID * 64 ? whole_number(15) : (double)NAN);
    for (int i = 0; i < 64 * 64; i++)
        d[i] = (float)NAN;
    FT_TRY(hopper_pipeline(fault, left, right, ROWS, VALID, d));
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            double want = 0;
            for (int k = 0; k < VALID; k++)
                want += half_value(FT_BF16, left[i * TERMS + k]) * half_value(FT_BF16, right[k * 64 + j]);
            if ((double)d[i * 64 + j] != want)
                return ft_fail(FT_FAILED, "pipeline", "(%d,%d): %g, not %g", i, j, (double)d[i * 64 + j], want);
        }
    return FT_OK;
}
ft_status hopper_check_whole_pipeline(void) { return hopper_check_pipeline(""); }
