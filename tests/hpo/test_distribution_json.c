// Distributions as text: what Optuna writes and wrote, and what nobody should.
#include "hpo/storage/distribution_json.h"

#include "hpo/storage/pyjson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static ft_arena arena;

static ft_distribution read_ok(const char *text) {
    ft_distribution d;
    if (ft_distribution_from_json(text, "test", &arena, &d) != FT_OK) fail_msg("%s: %s", text, ft_error_message());
    return d;
}

// Text that Optuna 5 wrote comes out as it went in.
static void same_text(void **state) {
    static const char *const texts[] = {
        "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 1e-06, \"high\": 0.01, \"log\": "
        "true}}",
        "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": 0.1, \"low\": -0.3, \"high\": 0.5, \"log\": "
        "false}}",
        "{\"name\": \"IntDistribution\", \"attributes\": {\"log\": false, \"step\": 32, \"low\": -128, \"high\": 512}}",
        "{\"name\": \"IntDistribution\", \"attributes\": {\"log\": true, \"step\": 1, \"low\": 1, \"high\": "
        "9007199254740992}}",
        "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"adamw\", null, true, false, 2, 0.5, "
        "NaN, Infinity, "
        "-Infinity, \"\\u00e4\\ud83d\\ude00\\n\\\"\\\\\\u0001NaN\", 1e+16, \"NaN\"]}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ft_distribution d = read_ok(texts[i]);
        char *text;
        assert_int_equal(ft_distribution_to_json(&d, &text), FT_OK);
        assert_string_equal(text, texts[i]);
        free(text);
    }
    ft_arena_free(&arena);
}

static void old_names(void **state) {
    static const struct {
        const char *old, *now;
    } pairs[] = {
        {"{\"name\":\"UniformDistribution\",\"attributes\":{\"low\":0,\"high\":1}}",
         "{\"name\":\"FloatDistribution\",\"attributes\":{\"low\":0.0,\"high\":1.0,\"log\":false,\"step\":null}}"},
        {"{\"name\":\"LogUniformDistribution\",\"attributes\":{\"low\":0.5,\"high\":1}}",
         "{\"name\":\"FloatDistribution\",\"attributes\":{\"low\":0.5,\"high\":1,\"log\":true}}"},
        {"{\"name\":\"DiscreteUniformDistribution\",\"attributes\":{\"low\":0,\"high\":0.55,\"q\":0.1}}",
         "{\"name\":\"FloatDistribution\",\"attributes\":{\"low\":0,\"high\":0.5,\"step\":0.1}}"},
        {"{\"name\":\"IntUniformDistribution\",\"attributes\":{\"low\":0,\"high\":7,\"step\":2}}",
         "{\"name\":\"IntDistribution\",\"attributes\":{\"low\":0,\"high\":6.0,\"step\":2}}"},
        {"{\"name\":\"IntLogUniformDistribution\",\"attributes\":{\"low\":1,\"high\":7,\"step\":1}}",
         "{\"name\":\"IntDistribution\",\"attributes\":{\"low\":1,\"high\":7,\"log\":true}}"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        ft_distribution a = read_ok(pairs[i].old), b = read_ok(pairs[i].now);
        assert_true(ft_distribution_equal(&a, &b));
    }
    ft_arena_free(&arena);
}

// Written and read again and again, a range stays as it is.
static void ranges_do_not_shrink(void **state) {
    ft_distribution made;
    assert_int_equal(ft_distribution_float("test", 0, 5, false, 0.1333333333333333, &made), FT_OK);
    for (int i = 0; i < 3; i++) {
        char *text;
        assert_int_equal(ft_distribution_to_json(&made, &text), FT_OK);
        ft_distribution d = read_ok(text);
        assert_true(ft_distribution_equal(&d, &made));
        free(text);
        made = d;
    }
    ft_arena_free(&arena);
}

// Optuna stores such lists: only the first of equal choices is ever found.
static void equal_choices_are_read(void **state) {
    ft_distribution d =
        read_ok("{\"name\":\"CategoricalDistribution\",\"attributes\":{\"choices\":[1,true,1.0,\"a\",\"a\"]}}");
    assert_int_equal(d.choice_count, 5);
    assert_int_equal(ft_distribution_find_choice(&d, &d.choices[2]), 0);
    assert_int_equal(ft_distribution_find_choice(&d, &d.choices[4]), 3);
    ft_arena_free(&arena);
}

static void refusals(void **state) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "not valid JSON"},
        {"nul", "not valid JSON"},
        {"1, 2", "one value"},
        {"], [", "not valid JSON"},
        {"NaN", "needs a \"name\""},
        {"[]", "needs a \"name\""},
        {"{\"name\": 3, \"attributes\": {}}", "needs a \"name\""},
        {"{\"name\": \"FloatDistribution\"}", "needs a \"name\""},
        {"{\"name\": \"Flo\\u001bat\", \"attributes\": {}}", "unknown distribution \"Flo?at\""},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0}}", "needs a number \"high\""},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": \"1\"}}", "needs a number \"high\""},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": NaN}}", "must be finite"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 2, \"high\": 1}}", "low must not exceed high"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1, \"log\": true}}",
         "above 0 with log"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1, \"log\": 1}}",
         "neither true nor false"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1, \"step\": 0}}",
         "must be positive"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 1, \"high\": 2, \"log\": true, \"step\": 1}}",
         "do not go together"},
        {"{\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1, \"mu\": 1}}", "should not have"},
        {"{\"name\": \"UniformDistribution\", \"attributes\": {\"low\": 0, \"high\": 1, \"log\": true}}",
         "should not have"},
        {"{\"name\": \"IntDistribution\", \"attributes\": {\"low\": 0.5, \"high\": 1}}", "not an integer"},
        {"{\"name\": \"IntDistribution\", \"attributes\": {\"low\": 0, \"high\": 1e300}}", "not an integer"},
        {"{\"name\": \"IntDistribution\", \"attributes\": {\"low\": 0, \"high\": 4, \"step\": 0}}",
         "step must be at least 1"},
        {"{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": []}}", "at least one"},
        {"{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [[512, 256]]}}", "a list or an object"},
        {"{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"a\\u0000b\"]}}", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_distribution d;
        assert_int_equal(ft_distribution_from_json(cases[i].text, "test", &arena, &d), FT_INVALID);
        if (strstr(ft_error_message(), cases[i].error) == NULL)
            fail_msg("%s: '%s' is not in '%s'", cases[i].text, cases[i].error, ft_error_message());
        ft_error_clear();
    }
    ft_arena_free(&arena);
}

// Words within strings are strings, also behind escaped quotes.
static void words_in_strings(void **state) {
    json_t *root;
    double number;
    assert_int_equal(
        ft_pyjson_parse("[\"NaN\", \"\\\"\", NaN, \"\\\\\", -Infinity, {\"Infinity\": Infinity}]", "test", &root),
        FT_OK);
    assert_string_equal(json_string_value(json_array_get(root, 0)), "NaN");
    assert_true(ft_pyjson_number(json_array_get(root, 2), &number) && isnan(number));
    assert_string_equal(json_string_value(json_array_get(root, 3)), "\\");
    assert_true(ft_pyjson_number(json_array_get(root, 4), &number) && number == -INFINITY);
    assert_false(ft_pyjson_number(json_array_get(root, 0), &number));
    json_decref(root);
}

// What is no UTF-8 stands for itself, byte by byte: whatever is written can be read, or one name would lock all studies of a journal up.
static void any_bytes(void **state) {
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"a\xC3\xA4", "\"a\\u00e4\""},
        {"\xF0\x9F\x98\x80!", "\"\\ud83d\\ude00!\""},
        {"\xFF\xC3", "\"\\u00ff\\u00c3\""},
        {"\xED\xA0\x80", "\"\\u00ed\\u00a0\\u0080\""},                  // half of a surrogate pair
        {"\xF4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\""},        // beyond U+10FFFF
        {"\xE0\x80\x80x", "\"\\u00e0\\u0080\\u0080x\""},                 // longer than needed
        {"\xE2\x82", "\"\\u00e2\\u0082\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_text_stream stream;
        char *text;
        json_t *root;
        assert_int_equal(ft_text_open(&stream), FT_OK);
        ft_pyjson_write_text(stream.file, cases[i].text);
        assert_int_equal(ft_text_close(&stream, &text), FT_OK);
        assert_string_equal(text, cases[i].json);
        if (ft_pyjson_parse(text, "test", &root) != FT_OK) fail_msg("%s: %s", text, ft_error_message());
        json_decref(root);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_text),
        cmocka_unit_test(old_names),
        cmocka_unit_test(ranges_do_not_shrink),
        cmocka_unit_test(equal_choices_are_read),
        cmocka_unit_test(refusals),
        cmocka_unit_test(words_in_strings),
        cmocka_unit_test(any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
