// Folds part the rows, classes are spread, groups stay together; and a table in two.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/data/order/folds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1003, MOST_FOLDS = 10, CLASSES = 4 };

static const char *const class_names[CLASSES] = {"a", "b", "c", "rare"};
static char group_text[ROWS][16];
static const char *label[ROWS], *group[ROWS];
static int class_of[ROWS], group_of[ROWS];

static uint32_t state;
static uint32_t draw(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * n) >> 32);
}

// Classes of very different sizes; `groups` groups of very different sizes, whose labels lean to one side.
static void make_rows(uint32_t seed, int groups) {
    state = seed;
    for (int i = 0; i < ROWS; i++) {
        uint32_t square = draw((uint32_t)groups);
        group_of[i] = (int)(square * square / (uint32_t)groups);
        class_of[i] = i < 7 ? 3 : draw(10) < 6 ? group_of[i] % 3 : (int)draw(3);
        snprintf(group_text[i], sizeof group_text[i], "g%d", group_of[i]);
        label[i] = class_names[class_of[i]];
        group[i] = group_text[i];
    }
}

static void count(const int32_t *fold_of, int folds, int sizes[MOST_FOLDS], int of_class[MOST_FOLDS][CLASSES]) {
    memset(sizes, 0, MOST_FOLDS * sizeof *sizes);
    memset(of_class, 0, MOST_FOLDS * sizeof *of_class);
    for (int i = 0; i < ROWS; i++) {
        assert_in_range(fold_of[i], 0, folds - 1);
        sizes[fold_of[i]]++;
        of_class[fold_of[i]][class_of[i]]++;
    }
}

static void assert_even(const int *values, int stride, int folds) {
    int least = values[0], most = values[0];
    for (int f = 1; f < folds; f++) {
        least = values[f * stride] < least ? values[f * stride] : least;
        most = values[f * stride] > most ? values[f * stride] : most;
    }
    assert_in_range(most - least, 0, 1);
}

static void test_classes_are_spread(void **unused) {
    int32_t fold_of[ROWS], again[ROWS], other[ROWS];
    int sizes[MOST_FOLDS], of_class[MOST_FOLDS][CLASSES];
    for (int folds = 2; folds <= MOST_FOLDS; folds++) {
        make_rows((uint32_t)folds, 50);
        assert_int_equal(ft_folds_assign(label, NULL, ROWS, folds, 1, "x", fold_of), FT_OK);
        count(fold_of, folds, sizes, of_class);
        assert_even(sizes, 1, folds);
        for (int c = 0; c < CLASSES; c++) assert_even(&of_class[0][c], CLASSES, folds);
        assert_int_equal(ft_folds_assign(label, NULL, ROWS, folds, 1, "x", again), FT_OK);
        assert_memory_equal(fold_of, again, sizeof fold_of);
        assert_int_equal(ft_folds_assign(label, NULL, ROWS, folds, 2, "x", other), FT_OK);
        assert_memory_not_equal(fold_of, other, sizeof fold_of);
    }
    // Without labels: only the sizes. Neighbours are not neighbours in a fold: the file may be sorted.
    assert_int_equal(ft_folds_assign(NULL, NULL, ROWS, 5, 1, "x", fold_of), FT_OK);
    count(fold_of, 5, sizes, of_class);
    assert_even(sizes, 1, 5);
    int same = 0;
    for (int i = 1; i < ROWS; i++) same += fold_of[i] == fold_of[i - 1];
    assert_in_range(same, ROWS / 10, ROWS / 3);
}

static void test_groups_stay_together(void **unused) {
    int32_t fold_of[ROWS], again[ROWS];
    int sizes[MOST_FOLDS], of_class[MOST_FOLDS][CLASSES], total[CLASSES] = {0};
    for (uint32_t seed = 1; seed <= 20; seed++) {
        const int groups = 150, folds = 2 + (int)(seed % 4);
        int home[150];
        make_rows(seed, groups);
        assert_int_equal(ft_folds_assign(label, group, ROWS, folds, seed, "x", fold_of), FT_OK);
        memset(home, -1, sizeof home);
        for (int i = 0; i < ROWS; i++) {
            assert_true(home[group_of[i]] == -1 || home[group_of[i]] == fold_of[i]);
            home[group_of[i]] = fold_of[i];
        }
        count(fold_of, folds, sizes, of_class);
        memset(total, 0, sizeof total);
        for (int i = 0; i < ROWS; i++) total[class_of[i]]++;
        for (int f = 0; f < folds; f++) {
            assert_true(abs(sizes[f] * folds - ROWS) < ROWS / 10);
            for (int c = 0; c < 3; c++) assert_true(abs(of_class[f][c] * folds - total[c]) < total[c] / 5);
        }
        assert_int_equal(ft_folds_assign(label, group, ROWS, folds, seed, "x", again), FT_OK);
        assert_memory_equal(fold_of, again, sizeof fold_of);
    }
}

// Every group is one row: no fold is larger than another by more than the rounding of classes.
static void test_groups_of_one(void **unused) {
    int32_t fold_of[ROWS];
    int sizes[MOST_FOLDS], of_class[MOST_FOLDS][CLASSES];
    make_rows(3, 50);
    for (int i = 0; i < ROWS; i++) snprintf(group_text[i], sizeof group_text[i], "%d", i);
    assert_int_equal(ft_folds_assign(label, group, ROWS, 5, 1, "x", fold_of), FT_OK);
    count(fold_of, 5, sizes, of_class);
    for (int f = 0; f < 5; f++) assert_in_range(sizes[f], ROWS / 5 - 3, ROWS / 5 + 4);
}

static void test_numbers_are_no_classes(void **unused) {
    static char text[ROWS + 200][16];
    static const char *names[ROWS + 200];
    static int32_t fold_of[ROWS + 200];
    for (int i = 0; i < ROWS + 200; i++) {
        snprintf(text[i], sizeof text[i], "%d", i);
        names[i] = text[i];
    }
    assert_int_equal(ft_folds_assign(names, names, ROWS + 200, 10, 1, "x", fold_of), FT_OK);
    int sizes[MOST_FOLDS] = {0};
    for (int i = 0; i < ROWS + 200; i++) sizes[fold_of[i]]++;
    assert_even(sizes, 1, 10);
}

static void test_refused(void **unused) {
    int32_t fold_of[ROWS];
    make_rows(1, 3); // of which two occur
    assert_int_equal(ft_folds_assign(label, NULL, 4, 5, 1, "data.folds", fold_of), FT_INVALID);
    assert_string_equal(ft_error_message(), "4 examples cannot make 5 folds");
    assert_int_equal(ft_folds_assign(label, group, ROWS, 5, 1, "data.folds", fold_of), FT_INVALID);
    assert_string_equal(ft_error_message(), "2 groups cannot make 5 folds");
    assert_string_equal(ft_error_where(), "data.folds");
}

static void test_a_table_in_two(void **unused) {
    static const char text[] = "text\tpair\tlabel\tid\none\t1\tx\ti1\ntwo\t2\ty\ti2\nthree\t3\tx\ti3\nfour\t4\ty\ti4\n";
    char *data = malloc(sizeof text);
    memcpy(data, text, sizeof text);
    ft_table table, out;
    ft_table_request request = {.format = FT_FORMAT_TSV, .text = "text", .pair = "pair", .label = "label", .id = "id"};
    assert_int_equal(ft_table_parse(data, sizeof text - 1, SIZE_MAX / 4, "t.tsv", &request, &table), FT_OK);
    const int32_t fold_of[4] = {1, 0, 1, 0};
    int64_t kept[4], moved[4];
    assert_int_equal(ft_table_split(&table, fold_of, 1, &out, kept, moved), FT_OK);
    const struct {
        const ft_table *table;
        const int64_t *row;
        const char *text[2], *label, *id[2];
        int64_t rows[2];
    } parts[] = {{&out, moved, {"one", "three"}, "x", {"i1", "i3"}, {0, 2}}, {&table, kept, {"two", "four"}, "y", {"i2", "i4"}, {1, 3}}};
    for (int p = 0; p < 2; p++) {
        assert_int_equal(parts[p].table->rows, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(parts[p].row[i], parts[p].rows[i]);
            assert_int_equal(parts[p].table->line[i], parts[p].rows[i] + 2);
            assert_int_equal(parts[p].table->text_length[i], strlen(parts[p].text[i]));
            assert_memory_equal(parts[p].table->text[i], parts[p].text[i], strlen(parts[p].text[i]));
            assert_int_equal(parts[p].table->pair_length[i], 1);
            assert_int_equal(parts[p].table->pair[i][0], '1' + (int)parts[p].rows[i]);
            assert_string_equal(parts[p].table->label[i], parts[p].label);
            assert_string_equal(parts[p].table->id[i], parts[p].id[i]);
        }
    }
    assert_string_equal(out.sha256, table.sha256);
    ft_table_free(&out);
    ft_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_are_spread), cmocka_unit_test(test_groups_stay_together), cmocka_unit_test(test_groups_of_one),
        cmocka_unit_test(test_numbers_are_no_classes), cmocka_unit_test(test_refused), cmocka_unit_test(test_a_table_in_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
