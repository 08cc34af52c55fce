// preprocessor_config.json against what transformers' image processors (their Pillow ones) make of a picture; and files that are refused.
#include "base/files.h"
#include "engine/images/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PICTURES FT_TEST_VECTORS "/pictures/"

static void check(const char *name, const char *text, const float *expected, int height, int width) {
    ft_picture_rules rules;
    ft_picture photo;
    if (ft_picture_rules_parse(text, strlen(text), "preprocessor_config.json", &rules) != FT_OK) fail_msg("%s: %s", name, ft_error_message());
    if (rules.width != width || rules.height != height) fail_msg("%s: %d x %d", name, rules.width, rules.height);
    uint8_t *bytes = malloc((size_t)width * (size_t)height * 3);
    assert_non_null(bytes);
    assert_int_equal(ft_picture_read(PICTURES "files/photo.png", &photo), FT_OK);
    assert_int_equal(ft_picture_prepare(&rules, &photo, "photo.png", bytes), FT_OK);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < width * height; i++) {
            const float value = rules.value[c][bytes[3 * i + c]], wanted = expected[c * width * height + i];
            if (!(fabsf(value - wanted) <= 1e-6f)) fail_msg("%s: channel %d, pixel %d: %.9g, not %.9g", name, c, i, (double)value, (double)wanted);
        }
    ft_picture_free(&photo);
    free(bytes);
}

static void equal_transformers(void **state) {
    char *values, name[32], text[512];
    size_t length, at;
    int height, width, count = 0;
    assert_int_equal(ft_read_file(PICTURES "processed.f32", 0, &values, &length), FT_OK);
    FILE *cases = fopen(PICTURES "processed.txt", "r");
    assert_non_null(cases);
    while (fscanf(cases, "%31s %zu %d %d %511[^\n]", name, &at, &height, &width, text) == 5) {
        assert_true(at + (size_t)height * (size_t)width * 12 <= length);
        check(name, text, (const float *)(const void *)(values + at), height, width);
        count++;
    }
    assert_int_equal(count, 7);
    fclose(cases);
    free(values);
}

static void refusals(void **state) {
    static const struct {
        const char *text, *told;
    } cases[] = {
        {"[]", "a JSON object is needed"},
        {"{}", "\"image_processor_type\" is missing"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\"}", "\"CLIPImageProcessor\" is not supported"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": {\"height\": 4}}", "\"size\" must have"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"size\": 0}", "\"size\""},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"resample\": 0}", "\"resample\" 0 is not supported"},
        {"{\"image_processor_type\": \"BitImageProcessor\", \"do_center_crop\": false}", "\"do_center_crop\" must be true"},
        {"{\"image_processor_type\": \"BitImageProcessor\", \"crop_size\": 300}", "\"crop_size\" 300 x 300 is larger"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [0.5]}", "\"image_mean\" must be three numbers"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_std\": [1, 0, 1]}", "\"image_std\" must be above 0"},
        // Numbers of JSON that fp32 has not, and what they make of others.
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"rescale_factor\": 1e-300}", "make of 0 what is not finite"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"image_mean\": [0, 1e39, 0]}", "make of 0 what is not finite"},
        {"{\"image_processor_type\": \"ViTImageProcessor\", \"do_normalize\": false, \"rescale_factor\": 1e38}", "make of 4 what is not finite"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_picture_rules rules;
        ft_error_clear();
        assert_int_equal(ft_picture_rules_parse(cases[i].text, strlen(cases[i].text), "p.json", &rules), FT_INVALID);
        if (strstr(ft_error_message(), cases[i].told) == NULL) fail_msg("%s: %s", cases[i].text, ft_error_message());
        assert_string_equal(ft_error_where(), "p.json");
    }
    ft_picture_rules rules;
    const char text[] = "{\"image_processor_type\": \"ViTImageProcessor\", \"do_resize\": false}";
    uint8_t pixels[3] = {0}, out[3];
    assert_int_equal(ft_picture_rules_parse(text, strlen(text), "p.json", &rules), FT_OK);
    assert_int_equal(ft_picture_prepare(&rules, &(ft_picture){.width = 1, .height = 1, .pixels = pixels}, "a.png", out), FT_INVALID);
    assert_string_equal(ft_error_where(), "a.png");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_transformers), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
