// MATLAB 5 files as scipy writes them (vectors/pictures/make_sets.py), plain and packed; what is not supported, cut or damaged is one clear error.
#include "base/files.h"
#include "engine/data/pictures/mat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAT FT_TEST_VECTORS "/pictures/mat/"

static void equal_scipy(void **state) {
    static const char *const files[] = {MAT "vectors.mat", MAT "packed.mat"};
    char name[32];
    long long count, value;
    int variables = 0;
    FILE *expected = fopen(MAT "vectors.txt", "r");
    assert_non_null(expected);
    while (fscanf(expected, "%31s %lld", name, &count) == 2) {
        ft_mat_vector v[2] = {{.name = name}, {.name = name}};
        for (int f = 0; f < 2; f++) {
            if (ft_mat_read(files[f], 1, &v[f]) != FT_OK) fail_msg("%s of %s: %s", name, files[f], ft_error_message());
            assert_int_equal(v[f].count, count);
        }
        for (long long i = 0; i < count; i++) {
            assert_int_equal(fscanf(expected, "%lld", &value), 1);
            if (v[0].value[i] != value || v[1].value[i] != value) fail_msg("%s: number %lld is not %lld", name, i, value);
        }
        ft_mat_free(2, v);
        variables++;
    }
    assert_int_equal(variables, 8);
    fclose(expected);
}

static void several_at_once(void **state) {
    ft_mat_vector v[2] = {{.name = "few"}, {.name = "column"}};
    assert_int_equal(ft_mat_read(MAT "packed.mat", 2, v), FT_OK);
    assert_true(v[0].count == 1 && v[0].value[0] == 7 && v[1].count == 5 && v[1].value[4] == 5);
    ft_mat_free(2, v);
}

// Of exactly its size, for AddressSanitizer.
static void refused(const char *bytes, size_t length, const char *name, const char *told) {
    ft_mat_vector v = {.name = name};
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    ft_error_clear();
    if (ft_mat_parse(copy, length, "x/file.mat", 1, &v) != FT_INVALID) fail_msg("%s: not refused", name);
    assert_string_equal(ft_error_where(), "x/file.mat");
    if (strstr(ft_error_message(), told) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), told);
    ft_mat_free(1, &v);
    free(copy);
}

static void unsupported(void **state) {
    static const struct {
        const char *variable, *told;
    } cases[] = {{"square", "\"square\" is no row or column"}, {"half", "\"half\" holds 0.5, which is no whole number"},
                 {"complex", "no array of plain numbers"},     {"text", "no array of plain numbers"},
                 {"cell", "no array of plain numbers"},        {"nothing", "there is no \"nothing\" in it"}};
    char *bytes;
    size_t length;
    assert_int_equal(ft_read_file(MAT "others.mat", 0, &bytes, &length), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) refused(bytes, length, cases[i].variable, cases[i].told);
    refused("MATLAB", 6, "a", "not a MATLAB file");
    refused("", 0, "a", "not a MATLAB file");
    memcpy(bytes + 124, "\1\0MI", 4);
    refused(bytes, length, "half", "big-endian");
    memcpy(bytes, "MATLAB 7.3", 10);
    refused(bytes, length, "half", "HDF5");
    free(bytes);
}

// A file that is cut anywhere lacks its last variable, or more.
static void truncated(void **state) {
    static const char *const files[] = {MAT "vectors.mat", MAT "packed.mat"};
    for (int f = 0; f < 2; f++) {
        char *bytes;
        size_t length;
        assert_int_equal(ft_read_file(files[f], 0, &bytes, &length), FT_OK);
        for (size_t cut = 0; cut < length; cut += 1 + (cut > 400) * 6) refused(bytes, cut, "signed", "");
        refused(bytes, length - 9, "signed", "");
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_scipy), cmocka_unit_test(several_at_once), cmocka_unit_test(unsupported),
                                       cmocka_unit_test(truncated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
