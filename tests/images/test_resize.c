// Sizes of noise, which hides nothing, against the SHA-256 of Pillow's bytes.
#include "base/files.h"
#include "engine/images/resize.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_pillow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
