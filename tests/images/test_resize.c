// Sizes of noise, which hides nothing, against the SHA-256 of Pillow's bytes.
#include "base/files.h"
#include "engine/images/resize_axis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// noise() of make_pictures.py
static uint8_t *noise(int width, int height, uint32_t seed) {
    const size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *pixels = malloc(bytes);
    assert_non_null(pixels);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(seed >> 24);
    }
    return pixels;
}

static void equal_pillow(void **state) {
    FILE *cases = fopen(FT_TEST_VECTORS "/pictures/resized.txt", "r");
    assert_non_null(cases);
    int width, height, filter, to_width, to_height, count = 0;
    uint32_t seed;
    char expected[65], hex[65];
    while (fscanf(cases, "%d %d %" SCNu32 " %d %d %d %64s", &width, &height, &seed, &filter, &to_width, &to_height, expected) == 7) {
        const size_t bytes = (size_t)to_width * (size_t)to_height * 3;
        ft_picture p = {.width = width, .height = height, .pixels = noise(width, height, seed)};
        uint8_t *out = malloc(bytes);
        assert_non_null(out);
        assert_int_equal(ft_picture_resize(&p, (ft_resample)filter, to_width, to_height, out), FT_OK);
        assert_int_equal(ft_sha256(out, bytes, hex), FT_OK);
        if (strcmp(hex, expected) != 0) fail_msg("%d x %d to %d x %d by filter %d", width, height, to_width, to_height, filter);
        free(out);
        free(p.pixels);
        count++;
    }
    assert_int_equal(count, 42);
    fclose(cases);
}

// The sums of this processor's instruction set are the plain ones, at every width and number of rows around its steps.
static void equal_plain(void **state) {
    const ft_resize_functions *best = ft_resize_best();
    static const ft_resample filters[] = {FT_RESAMPLE_LANCZOS, FT_RESAMPLE_BILINEAR, FT_RESAMPLE_BICUBIC};
    for (int i = 0; i < 400; i++) {
        const int in = 1 + i * 7 % 61, out = 1 + i * 11 % 53, other = 1 + i % 9; // pixels of the axis before and behind, and of the other one
        const ft_resample filter = filters[i % 3];
        ft_resize_axis axis;
        assert_int_equal(ft_resize_axis_make(filter, in, out, &axis), FT_OK);
        uint8_t *from = noise(in, other, (uint32_t)i);
        const size_t bytes = (size_t)out * (size_t)other * 3;
        for (int columns = 0; columns < 2; columns++) {
            uint8_t *got = calloc(bytes, 1), *want = calloc(bytes, 1);
            assert_true(got != NULL && want != NULL);
            if (!columns) {
                best->rows(&axis, from, (size_t)in * 3, out, other, got);
                ft_resize_plain.rows(&axis, from, (size_t)in * 3, out, other, want);
            }
            for (int y = 0; columns && y < out; y++) {
                best->columns(&axis, y, from, (size_t)other * 3, got + y * other * 3);
                ft_resize_plain.columns(&axis, y, from, (size_t)other * 3, want + y * other * 3);
            }
            if (memcmp(got, want, bytes) != 0) fail_msg("%s of %d to %d beside %d, filter %d", columns ? "columns" : "rows", in, out, other, (int)filter);
            free(got);
            free(want);
        }
        free(from);
        ft_resize_axis_free(&axis);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_pillow), cmocka_unit_test(equal_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
