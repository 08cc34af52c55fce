// Thumbnails: their sizes; and that they are the picture, resized (test_resize.c has that against Pillow), within what JPEG loses.
#include "engine/images/resize.h"
#include "engine/images/thumbnail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

static ft_picture slope(int32_t width, int32_t height) {
    ft_picture p = {.width = width, .height = height, .pixels = malloc((size_t)width * (size_t)height * 3)};
    assert_non_null(p.pixels);
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) p.pixels[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c] = (uint8_t)(c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : 128);
    return p;
}

static void sizes(void **state) {
    static const int32_t cases[][5] = {{500, 375, 112, 112, 84}, {375, 500, 112, 84, 112}, {112, 112, 112, 112, 112}, {30, 20, 112, 30, 20},
                                       {2000, 1, 112, 112, 1},   {1, 2000, 112, 1, 112},   {1, 1, 1, 1, 1},           {513, 513, 512, 512, 512}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_picture p = slope(cases[i][0], cases[i][1]), back;
        ft_thumbnail t;
        assert_int_equal(ft_thumbnail_make(&p, cases[i][2], &t), FT_OK);
        assert_int_equal(ft_picture_decode(t.bytes, t.length, "thumbnail", &back), FT_OK);
        if (t.width != cases[i][3] || t.height != cases[i][4] || back.width != t.width || back.height != t.height) fail_msg("case %zu: %d x %d", i, t.width, t.height);
        ft_picture_free(&back);
        ft_picture_free(&p);
        ft_thumbnail_free(&t);
    }
}

static void pixels(void **state) {
    ft_picture p = slope(400, 300), back;
    ft_thumbnail t;
    assert_int_equal(ft_thumbnail_make(&p, 100, &t), FT_OK);
    uint8_t *expected = malloc(100 * 75 * 3);
    assert_non_null(expected);
    assert_int_equal(ft_picture_resize(&p, FT_RESAMPLE_BILINEAR, 100, 75, expected), FT_OK);
    assert_int_equal(ft_picture_decode(t.bytes, t.length, "thumbnail", &back), FT_OK);
    for (size_t i = 0; i < 100 * 75 * 3; i++)
        if (abs(back.pixels[i] - expected[i]) > 12) fail_msg("byte %zu is %d, not %d", i, back.pixels[i], expected[i]);
    assert_true(t.length < 4000);
    free(expected);
    ft_picture_free(&back);
    ft_picture_free(&p);
    ft_thumbnail_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
