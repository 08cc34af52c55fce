// JSON: errors that say where, getters that say which key, and text that reads back as the same value.
#include "base/files.h"
#include "base/json/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

static void refused_bytes(const char *text, size_t length, const char *where, const char *what) {
    json_t *root = (json_t *)&root; // must be overwritten
    assert_int_equal(ft_json_parse(text, length, "f.json", &root), FT_INVALID);
    assert_null(root);
    assert_string_equal(ft_error_where(), where);
    if (strstr(ft_error_message(), what) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), what);
}

static void refused(const char *text, const char *where, const char *what) {
    refused_bytes(text, strlen(text), where, what);
}

static json_t *parsed(const char *text) {
    json_t *root;
    OK(ft_json_parse(text, strlen(text), "f.json", &root));
    return root;
}

static void test_parse_errors(void **state) {
    refused("{\"a\": 1,\n \"b\": }", "f.json:2:7", "a value is needed, not '}'");
    refused("{\"a\": 1, \"a\": 2}", "f.json:1:10", "duplicate key");
    refused("{\"a\": 1} x", "f.json:1:10", "nothing may follow, not 'x'");
    refused("", "f.json:1:1", "'{' or '[' is needed, not the end of the text");
    refused("  \n ", "f.json:2:2", "the end of the text");
    refused("1", "f.json:1:1", "'{' or '[' is needed");
    refused_bytes("[1]\0", 4, "f.json:1:4", "nothing may follow, not a byte 0x00");
    refused("{\"a\": 1", "f.json:1:8", "',' or '}' is needed");
    refused("[1 2]", "f.json:1:4", "',' or ']' is needed, not '2'");
    refused("[1,]", "f.json:1:4", "a value is needed, not ']'");
    refused("{,}", "f.json:1:2", "a key in quotes is needed, not ','");
    refused("{\"a\": 1,}", "f.json:1:9", "a key in quotes is needed, not '}'");
    refused("{\"a\" 1}", "f.json:1:6", "':' is needed, not '1'");
    refused("{\"a\": NaN}", "f.json:1:7", "a value is needed, not 'N'");
    refused("[tru]", "f.json:1:2", "a value is needed, not 't'");
    refused("[nul", "f.json:1:2", "a value is needed, not 'n'");
    refused("[\x1b]", "f.json:1:2", "not a byte 0x1b"); // never sent to the terminal
    // Columns are characters.
    refused("[\"\xC3\xA9\xE2\x82\xAC\", x]", "f.json:1:8", "a value is needed, not 'x'");
}

static void test_number_errors(void **state) {
    refused("[01]", "f.json:1:2", "does not begin with 0");
    refused("[-]", "f.json:1:3", "a digit is needed, not ']'");
    refused("[1.]", "f.json:1:4", "a digit is needed, not ']'");
    refused("[.5]", "f.json:1:2", "a value is needed, not '.'");
    refused("[1e+]", "f.json:1:5", "a digit is needed, not ']'");
    refused("[+1]", "f.json:1:2", "a value is needed, not '+'");
    refused("[1, 1e999]", "f.json:1:5", "too large");
    refused("[-1e309]", "f.json:1:2", "too large");
    char digits[401];
    memset(digits, '9', sizeof digits - 1);
    digits[0] = '[';
    digits[sizeof digits - 2] = ']';
    digits[sizeof digits - 1] = '\0';
    refused(digits, "f.json:1:2", "too large");
}

static void test_string_errors(void **state) {
    refused("[\"a]", "f.json:1:2", "does not end");
    refused("[\"a\\\"]", "f.json:1:2", "does not end");
    refused("[\"a\\", "f.json:1:2", "does not end");
    refused("[\"a\nb\"]", "f.json:1:4", "not a byte 0x0a");
    refused("[\"\\x\"]", "f.json:1:4", "not 'x'");
    refused("[\"\\u00g0\"]", "f.json:1:4", "four hexadecimal digits");
    refused("[\"\\u00\"]", "f.json:1:4", "four hexadecimal digits");
    refused("[\"\\u0000\"]", "f.json:1:4", "\\u0000"); // would cut the string short
    refused("[\"\\ud83d\"]", "f.json:1:9", "surrogate");
    refused("[\"\\ud83d\\n\"]", "f.json:1:9", "surrogate");
    refused("[\"\\ude00\\ud83d\"]", "f.json:1:9", "surrogate");
    static const char *const bad[] = {"\xff",
                                      "\x80",
                                      "\xC0\x80",
                                      "\xC3",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xE2\x82",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xC3\x28"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "[\"%s\"]", bad[i]);
        refused(text, "f.json:1:3", "strings are UTF-8");
    }
}

static void test_values(void **state) {
    json_t *root =
        parsed(" [ \"\\u00e9\\ud83D\\uDE00\\/\\b\\f\\n\\r\\t\\\\\\\"\" , -0 , 0.5e-3,true,false,null,{ } , [ ] , 12E2, "
               "-9223372036854775808, \"\", {\"\":1} ]\r\n\t");
    static const json_type types[] = {JSON_STRING, JSON_INTEGER, JSON_REAL, JSON_TRUE,    JSON_FALSE,  JSON_NULL,
                                      JSON_OBJECT, JSON_ARRAY,   JSON_REAL, JSON_INTEGER, JSON_STRING, JSON_OBJECT};
    assert_int_equal(json_array_size(root), sizeof types / sizeof types[0]);
    for (size_t i = 0; i < json_array_size(root); i++)
        assert_int_equal(json_typeof(json_array_get(root, i)), types[i]);
    assert_string_equal(json_string_value(json_array_get(root, 0)), "\xC3\xA9\xF0\x9F\x98\x80/\b\f\n\r\t\\\"");
    assert_true(json_real_value(json_array_get(root, 2)) == 0.5e-3);
    assert_true(json_real_value(json_array_get(root, 8)) == 1200);
    assert_true(json_integer_value(json_array_get(root, 9)) == INT64_MIN);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(root, 11), "")), 1);
    json_decref(root);
}

static void test_depth(void **state) {
    enum { DEEP = 100000, ALLOWED = 512 };
    char *text = malloc(DEEP);
    assert_non_null(text);
    memset(text, '[', DEEP);
    refused_bytes(text, DEEP, "f.json:1:513", "nested too deeply");
    memset(text + ALLOWED, ']', ALLOWED);
    json_t *root;
    OK(ft_json_parse(text, 2 * ALLOWED, "f.json", &root));
    json_decref(root);
    free(text);
}

static void test_long_integers(void **state) {
    json_t *root = parsed(
        "\xEF\xBB\xBF{\"model_max_length\": 1000000000000000019884624838656, \"x\": \"9999999999999999999999\\\"\", "
        "\"fits\": 9223372036854775807, \"low\": -9223372036854775809, \"real\": 1234567890123456789012.5}");
    double value;
    OK(ft_json_number(root, "f.json", "model_max_length", 0, &value));
    assert_true(value == 1000000000000000019884624838656.0);
    OK(ft_json_number(root, "f.json", "low", 0, &value));
    assert_true(value == -9223372036854775808.0);
    OK(ft_json_number(root, "f.json", "real", 0, &value));
    assert_true(value == 1234567890123456789012.5);
    const char *text;
    OK(ft_json_string(root, "f.json", "x", "", &text));
    assert_string_equal(text, "9999999999999999999999\"");
    json_decref(root);
}

static void test_load(void **state) {
    char path[] = "/tmp/test_json_XXXXXX", where[64];
    close(mkstemp(path));
    json_t *root;
    OK(ft_atomic_write(path, "{\n\"a\": tru}", 11));
    assert_int_equal(ft_json_load(path, &root), FT_INVALID);
    snprintf(where, sizeof where, "%s:2:6", path);
    assert_string_equal(ft_error_where(), where);
    OK(ft_atomic_write(path, "{\"a\": true}", 11));
    OK(ft_json_load(path, &root));
    json_decref(root);
    unlink(path);
    assert_int_equal(ft_json_load(path, &root), FT_INVALID);
    assert_null(root);
    assert_string_equal(ft_error_where(), path);
}

static void test_getters(void **state) {
    json_t *o =
        parsed("{\"i\": 7, \"r\": 7.0, \"s\": \"seven\", \"b\": true, \"n\": null, \"l\": [], \"o\": {}, \"z\": -3}");
    int64_t i;
    double r;
    bool b;
    const char *s;
    OK(ft_json_int(o, "f", "i", 1, 0, 10, &i));
    assert_int_equal(i, 7);
    OK(ft_json_int(o, "f", "absent", 1, 5, 10, &i)); // a default need not lie in the range
    assert_int_equal(i, 1);
    OK(ft_json_int(o, "f", "n", 1, 0, 10, &i));
    assert_int_equal(i, 1);
    OK(ft_json_int(NULL, "f", "i", 2, 0, 10, &i));
    assert_int_equal(i, 2);
    OK(ft_json_number(o, "f", "i", 0, &r));
    assert_true(r == 7);
    OK(ft_json_number(o, "f", "n", NAN, &r));
    assert_true(isnan(r));
    OK(ft_json_bool(o, "f", "b", false, &b));
    assert_true(b);
    OK(ft_json_bool(o, "f", "absent", false, &b));
    assert_false(b);
    OK(ft_json_string(o, "f", "s", "x", &s));
    assert_string_equal(s, "seven");
    OK(ft_json_string(o, "f", "n", NULL, &s));
    assert_null(s);

    assert_int_equal(ft_json_int(o, "f", "i", 0, 8, 10, &i), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"i\" must be an integer from 8 to 10, not 7");
    assert_string_equal(ft_error_where(), "f");
    assert_int_equal(ft_json_int(o, "f", "z", 0, 1, INT32_MAX, &i), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"z\" must be an integer of at least 1, not -3");
    assert_int_equal(ft_json_int(o, "f", "r", 0, 0, 10, &i), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"r\" must be an integer from 0 to 10, not 7.0");
    assert_int_equal(ft_json_number(o, "f", "s", 0, &r), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"s\" must be a number, not the string \"seven\"");
    assert_int_equal(ft_json_bool(o, "f", "i", false, &b), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"i\" must be true or false, not 7");
    assert_int_equal(ft_json_string(o, "f", "l", NULL, &s), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"l\" must be a string, not a list");
    assert_int_equal(ft_json_string(o, "f", "o", NULL, &s), FT_INVALID);
    assert_string_equal(ft_error_message(), "\"o\" must be a string, not an object");
    assert_int_equal(ft_json_int(o, "f", "b", 0, 0, 10, &i), FT_INVALID);
    json_decref(o);
}

static char *written(const json_t *root) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    ft_json_write(out, root);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_real_text(void **state) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.1, "0.1"},
        {1e-12, "1e-12"},
        {5e-5, "5e-05"},
        {0.0001, "0.0001"},
        {0.02, "0.02"},
        {3, "3.0"},
        {-0.0, "-0.0"},
        {1e8, "100000000.0"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e30, "1e+30"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {4.9406564584124654e-324, "5e-324"},
        {2e-5, "2e-05"},
        {9007199254740993.0, "9007199254740992.0"},
        {123456.789, "123456.789"},
        {-1234.5, "-1234.5"},
    };
    char text[FT_REAL_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { // as Python's repr has them
        ft_real_text(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
    uint64_t bits = 1;
    for (int i = 0; i < 50000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value, again;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        if (i % 2) value = (double)(bits >> 40) / 1000; // and ordinary ones
        ft_real_text(value, text);
        again = strtod(text, NULL);
        if (memcmp(&value, &again, sizeof value) != 0) fail_msg("%a became %s", value, text);
        assert_true(strlen(text) < FT_REAL_TEXT && strpbrk(text, ".e") != NULL);
    }
}

// As it was first written: digits are tried from one on. What is faster must give the same bytes.
static void tried_text(double value, char text[FT_REAL_TEXT]) {
    int precision = 1;
    for (; precision < 17; precision++) {
        snprintf(text, FT_REAL_TEXT, "%.*e", precision - 1, value);
        if (strtod(text, NULL) == value) break;
    }
    snprintf(text, FT_REAL_TEXT, "%.*e", precision - 1, value);
    int exponent = atoi(strchr(text, 'e') + 1), decimals = precision - 1 - exponent;
    if (exponent >= -4 && exponent < 16) snprintf(text, FT_REAL_TEXT, "%.*f", decimals > 0 ? decimals : 0, value);
    if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
}

static void same_text(double value, int digits) {
    char want[FT_REAL_TEXT], got[FT_REAL_TEXT], rounded[FT_REAL_TEXT];
    tried_text(value, want);
    ft_real_text(value, got);
    if (strcmp(want, got) != 0) fail_msg("%a is %s, not %s", value, want, got);
    snprintf(rounded, sizeof rounded, "%.*g", digits, value);
    const double near = strtod(rounded, NULL);
    if (!isfinite(near)) return; // the largest numbers, rounded up
    tried_text(near, want);
    ft_rounded_text(value, digits, got);
    if (strcmp(want, got) != 0) fail_msg("%a of %d digits is %s, not %s", value, digits, want, got);
}

// Catches: digits that are cut where a shorter text would do, exponents written where they were not (1e9, 1e15), subnormals (of
// whose digits fewer suffice), powers of two (whose neighbours are not equally far), a whole number without ".0".
static void test_text_is_as_tried(void **state) {
    static const double edges[] = {1e8, 1e9, 1e10, 1e14, 1e15, 1e16, 1e17, 1e22, 1e-4, 1e-5, 1, DBL_MIN, DBL_MAX, DBL_EPSILON};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (int digits = 1; digits <= 17; digits++) {
            same_text(edges[i], digits), same_text(-edges[i], digits);
            same_text(nextafter(edges[i], 0), digits), same_text(nextafter(edges[i], INFINITY) < INFINITY ? edges[i] : 1, digits);
        }
    same_text(0, 9), same_text(-0.0, 9);
    for (int e = -1074; e < 1022; e++) same_text(ldexp(1, e), 9), same_text(ldexp(3, e), 9 + e % 5);
    uint64_t bits = 7;
    for (int i = 0; i < 60000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) same_text(value, 9);
        const double uniform = (double)(bits >> 11) * 0x1p-53;
        same_text(uniform, 9);
        same_text((double)(float)uniform, 9);
        same_text(exp(-40 * uniform), 1 + i % 17);               // as probabilities are
        same_text(exp(60 * uniform - 20), 9);
        same_text((double)(bits >> 44) * 4.9406564584124654e-324, 9); // subnormals
        if (i % 8 == 0) same_text((double)(bits >> (16 + i / 8 % 40)), 9);
    }
    char text[FT_REAL_TEXT];
    ft_rounded_text(NAN, 9, text);
    assert_string_equal(text, "null");
    ft_rounded_text(-INFINITY, 9, text);
    assert_string_equal(text, "null");
}

static void test_write(void **state) {
    json_t *root = parsed(
        "{\"z\": 1, \"a\": [1, 2.5, \"x\", []], \"o\": {}, \"n\": null, \"t\": [true, false], "
        "\"s\": \"\\\"\\\\\\n\\t\\r\\u0001\xC3\xA9/\\u007f\", \"k\\n\": {\"i\": {\"j\": -9223372036854775808}}}");
    char *text = written(root);
    assert_string_equal(text, "{\n"
                              "  \"z\": 1,\n"
                              "  \"a\": [\n"
                              "    1,\n"
                              "    2.5,\n"
                              "    \"x\",\n"
                              "    []\n"
                              "  ],\n"
                              "  \"o\": {},\n"
                              "  \"n\": null,\n"
                              "  \"t\": [\n"
                              "    true,\n"
                              "    false\n"
                              "  ],\n"
                              "  \"s\": \"\\\"\\\\\\n\\t\\r\\u0001\xC3\xA9/\x7f\",\n"
                              "  \"k\\n\": {\n"
                              "    \"i\": {\n"
                              "      \"j\": -9223372036854775808\n"
                              "    }\n"
                              "  }\n"
                              "}\n");
    json_t *again = parsed(text), *copy = ft_json_copy_object(root);
    assert_true(json_equal(root, again) && json_equal(root, copy));
    assert_ptr_equal(json_object_get(copy, "a"), json_object_get(root, "a"));
    free(text);
    text = ft_json_line(root);
    assert_string_equal(
        text, "{\"z\":1,\"a\":[1,2.5,\"x\",[]],\"o\":{},\"n\":null,\"t\":[true,false],"
              "\"s\":\"\\\"\\\\\\n\\t\\r\\u0001\xC3\xA9/\x7f\",\"k\\n\":{\"i\":{\"j\":-9223372036854775808}}}");
    free(text);
    json_decref(again);
    json_decref(copy);
    json_decref(root);
    assert_null(ft_json_line(NULL));
    assert_int_equal(ft_error_code(), FT_NO_MEMORY);
}

static void test_save(void **state) {
    char path[] = "/tmp/test_json_XXXXXX";
    close(mkstemp(path));
    json_t *root = parsed("{\"layer_norm_eps\": 1e-12, \"p\": 0.1}");
    OK(ft_json_save(path, root));
    char *text;
    size_t length;
    OK(ft_read_file(path, 0, &text, &length));
    assert_string_equal(text, "{\n  \"layer_norm_eps\": 1e-12,\n  \"p\": 0.1\n}\n");
    free(text);
    unlink(path);
    assert_int_equal(ft_json_save("/dev/full", root), FT_FAILED);
    assert_string_equal(ft_error_where(), "/dev/full");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_errors), cmocka_unit_test(test_number_errors), cmocka_unit_test(test_string_errors),
        cmocka_unit_test(test_values),       cmocka_unit_test(test_depth),         cmocka_unit_test(test_long_integers),
        cmocka_unit_test(test_load),         cmocka_unit_test(test_getters),       cmocka_unit_test(test_real_text),
        cmocka_unit_test(test_text_is_as_tried),
        cmocka_unit_test(test_write),        cmocka_unit_test(test_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
