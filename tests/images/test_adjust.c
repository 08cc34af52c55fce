// Colours and places of pixels changed, against the SHA-256 of what torchvision makes of Pillow's pictures.
#include "base/files.h"
#include "engine/images/adjust.h"
#include "engine/images/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// picture() of make_augment.py
static uint8_t *picture(int width, int height, uint32_t seed, int shift) {
    const size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *pixels = malloc(bytes);
    assert_non_null(pixels);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)((seed >> 24 >> shift) + (shift != 0 ? 40 : 0));
    }
    return pixels;
}

typedef void change(uint8_t *pixels, int32_t width, int32_t height, double amount, uint8_t *room);
#define COUNT (size_t)width *(size_t)height

static void brightness(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_adjust_brightness(p, COUNT, amount); }
static void contrast(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_adjust_contrast(p, COUNT, amount); }
static void saturation(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_adjust_saturation(p, COUNT, amount); }
static void hue(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_adjust_hue(p, COUNT, amount); }
static void posterize(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_posterize(p, COUNT, (int)amount); }
static void solarize(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_solarize(p, COUNT, amount); }
static void autocontrast(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_autocontrast(p, COUNT); }
static void equalize(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_equalize(p, COUNT); }
static void flip(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) { ft_picture_flip(p, width, height); }

#define MOVE(name, call)                                                                                               \
    static void name(uint8_t *p, int32_t width, int32_t height, double amount, uint8_t *room) {                        \
        call;                                                                                                          \
        memcpy(p, room, COUNT * 3);                                                                                    \
    }
MOVE(shear_x, ft_picture_shear_rows(p, width, height, amount, room))
MOVE(shear_y, ft_picture_shear_columns(p, width, height, amount, room))
MOVE(translate_x, ft_picture_shift(p, width, height, (int32_t)amount, 0, room))
MOVE(translate_y, ft_picture_shift(p, width, height, 0, (int32_t)amount, room))
MOVE(rotate, ft_picture_turn(p, width, height, amount, room))

static const struct {
    const char *name;
    change *run;
} changes[] = {{"brightness", brightness}, {"contrast", contrast},         {"saturation", saturation},   {"hue", hue},         {"sharpness", ft_adjust_sharpness},
               {"posterize", posterize},   {"solarize", solarize},         {"autocontrast", autocontrast}, {"equalize", equalize}, {"flip", flip},
               {"shear_x", shear_x},       {"shear_y", shear_y},           {"translate_x", translate_x}, {"translate_y", translate_y},
               {"rotate", rotate}};
enum { CHANGES = sizeof changes / sizeof changes[0] };

static void equal_torchvision(void **state) {
    FILE *cases = fopen(FT_TEST_VECTORS "/pictures/augment/adjusted.txt", "r");
    assert_non_null(cases);
    int width, height, shift, count = 0, seen[CHANGES] = {0};
    uint32_t seed;
    double amount;
    char name[32], expected[65], hex[65];
    while (fscanf(cases, "%31s %lf %d %d %" SCNu32 " %d %64s", name, &amount, &width, &height, &seed, &shift, expected) == 7) {
        const size_t bytes = (size_t)width * (size_t)height * 3;
        uint8_t *pixels = picture(width, height, seed, shift), *room = malloc(bytes);
        assert_non_null(room);
        for (int i = 0; i < CHANGES; i++)
            if (strcmp(name, changes[i].name) == 0) changes[i].run(pixels, width, height, amount, room), seen[i]++;
        assert_int_equal(ft_sha256(pixels, bytes, hex), FT_OK);
        if (strcmp(hex, expected) != 0) fail_msg("%s %g of %d x %d, seed %u", name, amount, width, height, seed);
        free(pixels);
        free(room);
        count++;
    }
    assert_true(feof(cases));
    for (int i = 0; i < CHANGES; i++) assert_true(seen[i] >= 5);
    assert_int_equal(count, 395);
    fclose(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_torchvision)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
