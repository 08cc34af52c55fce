// What data.train may name beside files: ranges of shards, as braceexpand (of WebDataset) spells them out; splits of sets.
#include "engine/config/data_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void ranges(void **state) {
    static const struct {
        const char *path, *names[6]; // all of them, or the first ones
        int64_t count;
    } cases[] = {
        {"a.tar", {"a.tar"}, 1},
        {"a-{0..3}.tar", {"a-0.tar", "a-1.tar", "a-2.tar", "a-3.tar"}, 4},
        {"a-{008..012}.tar", {"a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar", "a-012.tar"}, 5},
        {"a-{8..12}.tar", {"a-8.tar", "a-9.tar", "a-10.tar"}, 5},
        {"a-{00..1}.tar", {"a-00.tar", "a-01.tar"}, 2},
        {"{1..2}/{0..1}.tar", {"1/0.tar", "1/1.tar", "2/0.tar", "2/1.tar"}, 4},
        {"{7..7}", {"7"}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_arena arena = {0};
        int64_t count;
        assert_int_equal(ft_shard_count(cases[i].path, &count), FT_OK);
        assert_int_equal(count, cases[i].count);
        for (int64_t k = 0; k < count && k < 6 && cases[i].names[k] != NULL; k++) {
            const char *name;
            assert_int_equal(ft_shard_path(cases[i].path, k, &arena, &name), FT_OK);
            assert_string_equal(name, cases[i].names[k]);
        }
        ft_arena_free(&arena);
    }
}

static void no_ranges(void **state) {
    static const char *const cases[][2] = {{"a-{.tar", "no range"},       {"a-{0..}.tar", "no range"},  {"a-{0,1}.tar", "no range"},          {"a-{a..b}.tar", "no range"},
                                           {"a-{0..2.tar", "no range"},   {"a-{3..1}.tar", "ends before it begins"}, {"{0..1999999}.tar", "more than 1000000"},
                                           {"{0..9999}{0..9999}", "more than 1000000"}, {"{0..12345678901}", "no range"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t count;
        ft_error_clear();
        assert_int_equal(ft_shard_count(cases[i][0], &count), FT_INVALID);
        if (strstr(ft_error_message(), cases[i][1]) == NULL) fail_msg("%s: %s", cases[i][0], ft_error_message());
    }
}

#define FLOWERS FT_TEST_VECTORS "/pictures/flowers-102"
#define BIRDS FT_TEST_VECTORS "/pictures/CUB_200_2011"

static void complete(const char *train, const char *validation, const char *test, bool cut, const char *const expected[3]) {
    ft_arena arena = {0};
    const char *paths[FT_DATA_PATHS] = {train, validation, test};
    assert_int_equal(ft_data_paths_complete(paths, cut, &arena), FT_OK);
    for (int i = 0; i < FT_DATA_PATHS; i++) assert_string_equal(paths[i], expected[i]);
    ft_arena_free(&arena);
}

static void splits(void **state) {
    complete(FLOWERS, "", "", false, (const char *const[]){FLOWERS "#train", FLOWERS "#validation", FLOWERS "#test"});
    complete(FLOWERS, "", "", true, (const char *const[]){FLOWERS "#train", "", FLOWERS "#test"});
    complete(FLOWERS, "mine.csv", "", false, (const char *const[]){FLOWERS "#train", "mine.csv", FLOWERS "#test"});
    complete(FLOWERS "#train", "", "", false, (const char *const[]){FLOWERS "#train", "", ""});
    complete("mine.csv", FLOWERS, FLOWERS "#test", false, (const char *const[]){"mine.csv", FLOWERS "#validation", FLOWERS "#test"});
    complete(BIRDS, "", "", false, (const char *const[]){BIRDS "#train", "", BIRDS "#test"});
    complete("/nowhere", "", "", false, (const char *const[]){"/nowhere", "", ""});
    const char *paths[FT_DATA_PATHS] = {BIRDS, BIRDS, ""};
    ft_arena arena = {0};
    assert_int_equal(ft_data_paths_complete(paths, false, &arena), FT_INVALID);
    assert_string_equal(ft_error_where(), "data.validation");
    ft_arena_free(&arena);
}

static void there(void **state) {
    assert_true(ft_data_path_exists(FLOWERS) && ft_data_path_exists(FLOWERS "#test") && ft_data_path_exists(FLOWERS "/jpg/image_0000{1..3}.jpg"));
    assert_false(ft_data_path_exists("/nowhere#test") || ft_data_path_exists(FLOWERS "/jpg/image_{1..3}.jpg") || ft_data_path_exists("x{"));
    assert_null(ft_known_set_at(FLOWERS "/jpg"));
    assert_null(ft_known_set_at(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(no_ranges), cmocka_unit_test(splits), cmocka_unit_test(there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
