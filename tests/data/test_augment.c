// What is drawn for a picture: a function of (seed, epoch, picture) alone, distributed as torchvision's draws are (its deciles, with fixed seeds here and
// there), RandAugment's table of magnitudes, and every operation as likely.
#include "engine/data/augment/augment.h"
#include "engine/data/augment/draws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 20000, DECILES = 9, SEED = 11 };
// Of a share of DRAWS the deviation is at most 0.0036, of the 40,000 of torchvision 0.0025; these draws are the same in every run.
#define BOUND 0.013

static const ft_augment plain = {.scale = {0.08, 1}, .ratio = {3.0 / 4, 4.0 / 3}};

// ---- deciles ----------------------------------------------------------------------------------------------------------------

typedef double draw(const void *how, int64_t picture);

static ft_box box_of(const void *how, int64_t picture) { return ft_augment_crop(how, SEED, 3, picture, 500, 375); }
static double crop_share(const void *how, int64_t p) { ft_box b = box_of(how, p); return b.width * (double)b.height / (500.0 * 375); }
static double crop_shape(const void *how, int64_t p) { ft_box b = box_of(how, p); return (double)b.width / b.height; }
static double crop_left(const void *how, int64_t p) { ft_box b = box_of(how, p); return b.left / fmax(500 - b.width, 1); }
static double crop_top(const void *how, int64_t p) { ft_box b = box_of(how, p); return b.top / fmax(375 - b.height, 1); }
static double narrow_share(const void *how, int64_t p) {
    ft_box b = ft_augment_crop(how, SEED, 3, p, 60, 300);
    return b.width * (double)b.height / (60.0 * 300);
}
static ft_box erased_of(const void *how, int64_t picture) { return ft_augment_erased(how, SEED, 3, picture, 224, 160); }
static double erased_share(const void *how, int64_t p) { ft_box b = erased_of(how, p); return b.width * (double)b.height / (224.0 * 160); }
static double erased_shape(const void *how, int64_t p) { ft_box b = erased_of(how, p); return (double)b.height / b.width; }
static double erased_left(const void *how, int64_t p) { ft_box b = erased_of(how, p); return b.left / (224.0 - b.width); }
static double erased_top(const void *how, int64_t p) { ft_box b = erased_of(how, p); return b.top / (160.0 - b.height); }
static ft_mix mix_of(const void *how, int64_t batch) { return ft_augment_mix(how, SEED, 3, batch, 224, 160); }
static double mix_share(const void *how, int64_t b) { return mix_of(how, b).share; }
static double mix_left(const void *how, int64_t b) { return mix_of(how, b).box.left; }
static double mix_bottom(const void *how, int64_t b) { ft_mix m = mix_of(how, b); return m.box.top + m.box.height; }

static uint8_t jittered(const void *how, int64_t picture, int channel) {
    uint8_t pixels[48], room[48];
    uint32_t seed = 7;
    ft_box erased;
    for (int i = 0; i < 48; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(seed >> 24);
    }
    assert_int_equal(ft_augment_picture(how, &(ft_picture_rules){.width = 4, .height = 4}, SEED, 3, picture, NULL, pixels, room, &erased), FT_OK);
    return pixels[channel];
}
static double jitter_0(const void *how, int64_t p) { return jittered(how, p, 0); }
static double jitter_10(const void *how, int64_t p) { return jittered(how, p, 10); }
static double jitter_47(const void *how, int64_t p) { return jittered(how, p, 47); }

static const ft_augment some = {.scale = {0.3, 0.9}, .ratio = {0.5, 2}}, narrow = {.scale = {0.6, 1}, .ratio = {3.0 / 4, 4.0 / 3}}, erases = {.erasing = 1};
static const ft_augment mixup_02 = {.mixup = 0.2}, mixup_04 = {.mixup = 0.4}, mixup_1 = {.mixup = 1}, mixup_8 = {.mixup = 8};
static const ft_augment cutmix_05 = {.cutmix = 0.5}, cutmix_1 = {.cutmix = 1};
static const ft_augment jitters = {.brightness = 0.4, .contrast = 0.5, .saturation = 0.6, .hue = 0.1};

static const struct {
    const char *name;
    draw *of;
    const ft_augment *how;
    double bound; // 0: BOUND
} figures[] = {
    {"crop_share", crop_share, &plain, 0},        {"crop_shape", crop_shape, &plain, 0},          {"crop_left", crop_left, &plain, 0},
    {"crop_top", crop_top, &plain, 0},            {"crop_some_share", crop_share, &some, 0},      {"crop_some_shape", crop_shape, &some, 0},
    {"crop_some_left", crop_left, &some, 0},      {"crop_some_top", crop_top, &some, 0},          {"crop_narrow_share", narrow_share, &narrow, 0},
    {"erased_share", erased_share, &erases, 0},   {"erased_shape", erased_shape, &erases, 0},     {"erased_left", erased_left, &erases, 0},
    {"erased_top", erased_top, &erases, 0},       {"mixup_0.2", mix_share, &mixup_02, 0},         {"mixup_0.4", mix_share, &mixup_04, 0},
    {"mixup_1", mix_share, &mixup_1, 0},          {"mixup_8", mix_share, &mixup_8, 0},            {"cutmix_0.5_share", mix_share, &cutmix_05, 0},
    {"cutmix_0.5_left", mix_left, &cutmix_05, 0}, {"cutmix_0.5_bottom", mix_bottom, &cutmix_05, 0}, {"cutmix_1_share", mix_share, &cutmix_1, 0},
    {"cutmix_1_left", mix_left, &cutmix_1, 0},    {"cutmix_1_bottom", mix_bottom, &cutmix_1, 0},
    // Against 20,000 of torchvision's, of whole numbers.
    {"jitter_0", jitter_0, &jitters, 0.02},       {"jitter_10", jitter_10, &jitters, 0.02},       {"jitter_47", jitter_47, &jitters, 0.02}};
enum { FIGURES = sizeof figures / sizeof figures[0] };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// What is below a decile, and what is not above it, enclose its share: equal values are many where they are whole numbers.
static void check_deciles(const char *name, double *value, const double *decile, double bound) {
    qsort(value, DRAWS, sizeof *value, ascending);
    for (int k = 0; k < DECILES; k++) {
        const double share = 0.1 * (k + 1), near = 1e-6 * fabs(decile[k]);
        int64_t below = 0, up_to = 0;
        for (int64_t i = 0; i < DRAWS; i++) {
            below += value[i] < decile[k] - near;
            up_to += value[i] <= decile[k] + near;
        }
        if ((double)below / DRAWS > share + bound || (double)up_to / DRAWS < share - bound)
            fail_msg("%s: torchvision has %g below %g, these are %g to %g", name, share, decile[k], (double)below / DRAWS, (double)up_to / DRAWS);
    }
}

static void distributed_as_torchvision(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/pictures/augment/distributions.txt", "r");
    static double value[DRAWS];
    char name[32];
    int count = 0;
    assert_non_null(f);
    for (; fscanf(f, "%31s", name) == 1; count++) {
        double decile[DECILES];
        for (int k = 0; k < DECILES; k++) assert_int_equal(fscanf(f, "%lf", &decile[k]), 1);
        int found = -1;
        for (int i = 0; i < FIGURES; i++)
            if (strcmp(name, figures[i].name) == 0) found = i;
        if (found < 0) fail_msg("nobody draws %s", name);
        for (int64_t i = 0; i < DRAWS; i++) value[i] = figures[found].of(figures[found].how, i);
        check_deciles(name, value, decile, figures[found].bound > 0 ? figures[found].bound : BOUND);
    }
    assert_int_equal(count, FIGURES);
    fclose(f);
}

// ---- RandAugment ------------------------------------------------------------------------------------------------------------

static void magnitudes_as_torchvision(void **state) {
    static const char *const names[FT_OPERATIONS] = {"Identity",   "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
                                                     "Color",      "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
    FILE *f = fopen(FT_TEST_VECTORS "/pictures/augment/amounts.txt", "r");
    char name[32];
    int width, height, has_sign, count = 0;
    assert_non_null(f);
    for (; fscanf(f, "%31s %d %d %d", name, &width, &height, &has_sign) == 4; count++) {
        const ft_operation o = (ft_operation)(count % FT_OPERATIONS);
        assert_string_equal(name, names[o]);
        assert_int_equal(ft_operation_has_sign(o), has_sign);
        for (int m = 0; m < FT_MAGNITUDES; m++) {
            double expected;
            assert_int_equal(fscanf(f, "%lf", &expected), 1);
            // torch.linspace rounds by how many lanes its vectors have
            if (fabs(ft_operation_amount(o, m, width, height) - expected) > 2e-7 * fabs(expected))
                fail_msg("%s %d: %.9g, not %.9g", name, m, ft_operation_amount(o, m, width, height), expected);
        }
    }
    assert_int_equal(count, 2 * FT_OPERATIONS);
    fclose(f);
}

enum { SIDE = 24, // smaller ones are left alone by equalize
        BYTES = SIDE * SIDE * 3 };

static void draw_picture(uint8_t *pixels) {
    for (int i = 0; i < BYTES; i++) pixels[i] = (uint8_t)(30 + (i * 37 + i / SIDE * 11) % 190);
}

// One operation: which one it was is seen in what it left.
static void operations_are_as_likely(void **state) {
    static uint8_t left[FT_OPERATIONS][2][BYTES];
    const ft_augment a = {.operations = 1, .magnitude = 9};
    const ft_picture_rules rules = {.width = SIDE, .height = SIDE};
    int seen[FT_OPERATIONS][2] = {{0}};
    uint8_t pixels[BYTES], room[BYTES];
    ft_box erased;
    for (int o = 0; o < FT_OPERATIONS; o++)
        for (int sign = 0; sign < 2; sign++) {
            const double amount = ft_operation_amount((ft_operation)o, 9, SIDE, SIDE);
            draw_picture(left[o][sign]);
            ft_operation_apply((ft_operation)o, sign && ft_operation_has_sign((ft_operation)o) ? -amount : amount, left[o][sign], SIDE, SIDE, room);
        }
    for (int64_t i = 0; i < DRAWS; i++) {
        bool found = false;
        draw_picture(pixels);
        assert_int_equal(ft_augment_picture(&a, &rules, SEED, 0, i, NULL, pixels, room, &erased), FT_OK);
        for (int o = 0; o < FT_OPERATIONS && !found; o++)
            for (int sign = 0; sign < 2 && !found; sign++)
                if (memcmp(pixels, left[o][sign], BYTES) == 0) found = true, seen[o][sign]++;
        assert_true(found);
    }
    for (int o = 0; o < FT_OPERATIONS; o++) {
        const double share = (double)(seen[o][0] + seen[o][1]) / DRAWS, positive = (double)seen[o][0] / (seen[o][0] + seen[o][1]);
        if (fabs(share - 1.0 / FT_OPERATIONS) > 0.008) fail_msg("operation %d: %g of all", o, share);
        if (ft_operation_has_sign((ft_operation)o) && fabs(positive - 0.5) > 0.06) fail_msg("operation %d: %g positive", o, positive);
    }
}

// ---- functions --------------------------------------------------------------------------------------------------------------

static void function_of_seed_epoch_picture(void **state) {
    const ft_augment a = {.crop = true, .scale = {0.08, 1}, .ratio = {0.75, 1.33}, .flip = 0.5, .brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1,
                          .operations = 2, .magnitude = 9, .erasing = 0.5};
    const ft_picture_rules rules = {.width = SIDE, .height = SIDE, .filter = FT_RESAMPLE_BILINEAR};
    static uint8_t whole[40 * 30 * 3], one[BYTES], two[BYTES], room[BYTES];
    const ft_picture picture = {.width = 40, .height = 30, .pixels = whole};
    ft_box first, second;
    int differ[3] = {0}, erased = 0;
    for (size_t i = 0; i < sizeof whole; i++) whole[i] = (uint8_t)(i * 31 % 251);
    for (int64_t p = 0; p < 100; p++) {
        assert_int_equal(ft_augment_picture(&a, &rules, 1, 2, p, &picture, one, room, &first), FT_OK);
        assert_int_equal(ft_augment_picture(&a, &rules, 1, 2, p, &picture, two, room, &second), FT_OK);
        assert_memory_equal(one, two, BYTES);
        assert_memory_equal(&first, &second, sizeof first);
        erased += first.width > 0;
        const int64_t others[3][3] = {{2, 2, p}, {1, 3, p}, {1, 2, p + 100}};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(ft_augment_picture(&a, &rules, (uint64_t)others[k][0], others[k][1], others[k][2], &picture, two, room, &second), FT_OK);
            differ[k] += memcmp(one, two, BYTES) != 0;
        }
    }
    for (int k = 0; k < 3; k++) assert_true(differ[k] >= 98);
    assert_in_range(erased, 35, 65);
}

// What one augmentation draws does not change with another beside it.
static void streams_are_their_own(void **state) {
    const ft_augment alone = {.flip = 0.5}, beside = {.flip = 0.5, .erasing = 1, .crop = true, .scale = {0.08, 1}, .ratio = {0.75, 1.33}};
    const ft_picture_rules rules = {.width = 2, .height = 1, .filter = FT_RESAMPLE_BILINEAR};
    uint8_t whole[600];
    const ft_picture picture = {.width = 20, .height = 10, .pixels = whole};
    for (size_t i = 0; i < sizeof whole; i++) whole[i] = (uint8_t)(i % 60 / 3 * 12); // from left to right it grows
    int flipped = 0;
    for (int64_t p = 0; p < 200; p++) {
        uint8_t one[6] = {0, 0, 0, 9, 9, 9}, two[6], room[6];
        ft_box erased;
        assert_int_equal(ft_augment_picture(&alone, &rules, 5, 0, p, NULL, one, room, &erased), FT_OK);
        assert_int_equal(ft_augment_picture(&beside, &rules, 5, 0, p, &picture, two, room, &erased), FT_OK);
        assert_int_equal(one[0] > one[3], two[0] > two[3]);
        flipped += one[0] > one[3];
    }
    assert_in_range(flipped, 75, 125);
}

static void both_mixes(void **state) {
    const ft_augment a = {.mixup = 1, .cutmix = 1};
    int cuts = 0;
    for (int64_t b = 0; b < 2000; b++) cuts += mix_of(&a, b).cuts;
    assert_in_range(cuts, 900, 1100);
    assert_true(mix_of(&plain, 0).share == 1 && mix_of(&plain, 0).box.width == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(distributed_as_torchvision), cmocka_unit_test(magnitudes_as_torchvision),
                                       cmocka_unit_test(operations_are_as_likely),   cmocka_unit_test(function_of_seed_epoch_picture),
                                       cmocka_unit_test(streams_are_their_own),      cmocka_unit_test(both_mixes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
