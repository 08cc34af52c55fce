// Pictures of every kind against Pillow's pixels; and files that are cut, damaged, too large or something else.
#include "base/files.h"
#include "base/sha256.h"
#include "engine/images/picture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICTURES FT_TEST_VECTORS "/pictures/"

static void equal_pillow(void **state) {
    char *pixels, name[64], path[256];
    size_t length, at;
    int width, height, cases = 0;
    assert_int_equal(ft_read_file(PICTURES "expected.rgb", 0, &pixels, &length), FT_OK);
    FILE *index = fopen(PICTURES "expected.txt", "r");
    assert_non_null(index);
    while (fscanf(index, "%63s %d %d %zu", name, &width, &height, &at) == 4) {
        ft_picture p;
        snprintf(path, sizeof path, PICTURES "files/%s", name);
        if (ft_picture_read(path, &p) != FT_OK) fail_msg("%s: %s", name, ft_error_message());
        if (p.width != width || p.height != height) fail_msg("%s: %d x %d", name, p.width, p.height);
        for (size_t i = 0; i < (size_t)width * (size_t)height * 3; i++)
            if (p.pixels[i] != (uint8_t)pixels[at + i]) fail_msg("%s: byte %zu is %d, not %d", name, i, p.pixels[i], (uint8_t)pixels[at + i]);
        ft_picture_free(&p);
        cases++;
    }
    assert_int_equal(cases, 44);
    fclose(index);
    free(pixels);
}

// Decoded at a part of its size: as Pillow's draft().
static void scaled_as_pillow(void **state) {
    FILE *cases = fopen(PICTURES "scaled.txt", "r");
    char name[64], expected[65], hex[65], path[256], *bytes;
    int least_width, least_height, width, height, count = 0, smaller = 0;
    size_t length;
    assert_non_null(cases);
    while (fscanf(cases, "%63s %d %d %d %d %64s", name, &least_width, &least_height, &width, &height, expected) == 6) {
        ft_picture p;
        snprintf(path, sizeof path, PICTURES "files/%s", name);
        assert_int_equal(ft_read_file(path, 0, &bytes, &length), FT_OK);
        assert_int_equal(ft_picture_decode_scaled(bytes, length, path, least_width, least_height, &p), FT_OK);
        if (p.width != width || p.height != height) fail_msg("%s for %d x %d: %d x %d, not %d x %d", name, least_width, least_height, p.width, p.height, width, height);
        assert_int_equal(ft_sha256(p.pixels, (size_t)width * (size_t)height * 3, hex), FT_OK);
        if (strcmp(hex, expected) != 0) fail_msg("%s for %d x %d: other pixels", name, least_width, least_height);
        smaller += p.width < 150;
        ft_picture_free(&p);
        free(bytes);
        count++;
    }
    fclose(cases);
    assert_int_equal(count, 24);
    assert_true(smaller >= 15);
    // On its side: what is asked for is of the picture as it is turned (17 x 23).
    ft_picture p;
    assert_int_equal(ft_read_file(PICTURES "files/turned6.jpg", 0, &bytes, &length), FT_OK);
    assert_int_equal(ft_picture_decode_scaled(bytes, length, "x", 8, 11, &p), FT_OK);
    assert_true(p.width == 9 && p.height == 12);
    ft_picture_free(&p);
    assert_int_equal(ft_picture_decode_scaled(bytes, length, "x", 11, 8, &p), FT_OK);
    assert_true(p.width == 17 && p.height == 23);
    ft_picture_free(&p);
    free(bytes);
}

static void refused(const void *bytes, size_t length, const char *told) {
    ft_picture p;
    // of exactly its size, for AddressSanitizer
    void *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    ft_error_clear();
    assert_int_equal(ft_picture_decode(copy, length, "x/picture", &p), FT_INVALID);
    assert_null(p.pixels);
    assert_string_equal(ft_error_where(), "x/picture");
    if (strstr(ft_error_message(), told) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), told);
    free(copy);
}

// Every prefix of a file ends with an error or, where the pixels are all there, with them.
static void truncated(void **state) {
    static const char *const names[] = {"photo.jpg", "progressive.jpg", "cmyk.jpg", "ycck.jpg", "photo.png", "palette_clear.png", "interlaced.png", "rgba16.png", "photo.webp", "lossless.webp"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[256], *bytes;
        size_t length;
        snprintf(path, sizeof path, PICTURES "files/%s", names[n]);
        assert_int_equal(ft_read_file(path, 0, &bytes, &length), FT_OK);
        refused(bytes, length / 2, strstr(names[n], "webp") != NULL ? "" : "truncated");
        for (size_t cut = 0; cut + 16 < length; cut += 1 + cut / 16) refused(bytes, cut, "");
        free(bytes);
    }
}

static void damaged(void **state) {
    char *bytes;
    size_t length;
    assert_int_equal(ft_read_file(PICTURES "files/photo.png", 0, &bytes, &length), FT_OK);
    bytes[length / 2] = (char)(bytes[length / 2] ^ 0x40);
    refused(bytes, length, "broken PNG picture");
    free(bytes);
}

static void other_files(void **state) {
    refused("", 0, "an empty file");
    refused("hello, this is text", 19, "not a picture");
    refused("GIF89a\1\0\1\0", 10, "a GIF picture: this format is not supported");
    refused("BM\0\0\0\0", 6, "a BMP picture");
    refused("II*\0\0\0\0\0", 8, "a TIFF picture");
    assert_int_equal(ft_error_hint_count(), 1);
    assert_string_equal(ft_error_hint(0), "JPEG, PNG and WebP can be read");
    char *bytes;
    size_t length;
    assert_int_equal(ft_read_file(PICTURES "files/animated.webp", 0, &bytes, &length), FT_OK);
    refused(bytes, length, "anim");
    free(bytes);
    ft_picture p;
    assert_int_equal(ft_picture_read("/nowhere/picture.png", &p), FT_INVALID);
    assert_string_equal(ft_error_where(), "/nowhere/picture.png");
}

// Headers that ask for 10 GB and more: no memory is taken for them.
static void bombs(void **state) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60,
                                  8, 2, 0, 0, 0, 0x0F, 0xB0, 0xE2, 0x15, // 60000 x 60000
                                  0, 0, 0, 0, 'I', 'D', 'A', 'T', 0x35, 0xAF, 0x06, 0x1E};
    enum { HEADER = 33 };
    static const uint8_t webp[] = {'R', 'I', 'F', 'F', 28, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8', 'L', 16, 0, 0, 0, 0x2F, 0xFE, 0xBF, 0xFF, 0x0F,
                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}; // 16383 x 16383, the most that the format has
    char *bytes;
    size_t length;
    refused(png, HEADER, ""); // nothing follows: it ends here first or there
    refused(png, sizeof png, "a picture of 60000 x 60000 pixels: at most 178956970 can be read");
    refused(webp, sizeof webp, "a picture of 16383 x 16383 pixels: at most 178956970 can be read");
    assert_int_equal(ft_read_file(PICTURES "files/photo.jpg", 0, &bytes, &length), FT_OK);
    for (size_t i = 0; i + 9 < length; i++) { // the frame header
        if ((uint8_t)bytes[i] != 0xFF || (uint8_t)bytes[i + 1] != 0xC0) continue;
        memcpy(bytes + i + 5, "\xFF\xDC\xFF\xDC", 4); // 65500 x 65500, the most that the library takes
        break;
    }
    refused(bytes, length, "a picture of 65500 x 65500 pixels: at most 178956970 can be read");
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_pillow), cmocka_unit_test(scaled_as_pillow), cmocka_unit_test(truncated), cmocka_unit_test(damaged),
        cmocka_unit_test(other_files),  cmocka_unit_test(bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
