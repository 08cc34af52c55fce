// What a report counts: lengths, repeated texts, contradictions, texts of the training data elsewhere.
#include "engine/data/input.h"
#include "engine/data/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_table table_of(const char *content) {
    size_t length = strlen(content);
    char *data = malloc(length + 1);
    assert_non_null(data);
    memcpy(data, content, length);
    ft_table table;
    const ft_table_request request = {.text = "", .pair = strncmp(content, "text\tpair", 9) == 0 ? "pair" : NULL, .label = ""};
    assert_int_equal(ft_table_parse(data, length, length, "t.tsv", &request, &table), FT_OK);
    return table;
}

// A data set in which row i has lengths[i] tokens.
static ft_dataset data_of(int64_t rows, const int *lengths) {
    ft_dataset data = {.input = &ft_text_input,
                       .examples = rows, .sequences = rows, .offset = calloc((size_t)rows + 1, sizeof *data.offset)};
    assert_non_null(data.offset);
    for (int64_t i = 0; i < rows; i++) data.offset[i + 1] = data.offset[i] + lengths[i];
    return data;
}

static void counts(void **state) {
    ft_table train = table_of("text\tlabel\na\tx\nb\tx\na\tx\n \ty\na\ty\nb\tx\n");
    ft_table other = table_of("text\tlabel\nc\tx\nb\ty\nc\tx\na\tx\n");
    ft_text_index first, second;
    ft_data_report r;
    ft_dataset data = data_of(6, (const int[]){5, 3, 9, 2, 7, 4});
    data.truncated = 1;
    assert_int_equal(ft_text_index_build(&train, &first), FT_OK);
    assert_int_equal(ft_data_report_make(&first, &data, NULL, &r), FT_OK);
    assert_int_equal(r.examples, 6);
    assert_int_equal(r.repeated, 3);
    assert_int_equal(r.contradicting, 1);
    assert_int_equal(r.contradicting_row, 4);
    assert_int_equal(r.contradicted_row, 0);
    assert_int_equal(r.known, 0);
    assert_int_equal(r.empty, 1);
    assert_int_equal(r.truncated, 1);
    assert_memory_equal(r.length, ((const int32_t[]){2, 4, 9, 9, 9}), sizeof r.length);
    free(data.offset);

    data = data_of(4, (const int[]){1, 1, 1, 1});
    assert_int_equal(ft_text_index_build(&other, &second), FT_OK);
    assert_int_equal(ft_data_report_make(&second, &data, &first, &r), FT_OK);
    assert_int_equal(r.repeated, 1);
    assert_int_equal(r.contradicting, 0);
    assert_int_equal(r.known, 2);
    assert_int_equal(r.known_row, 1);
    assert_int_equal(r.train_row, 1);
    free(data.offset);
    ft_text_index_free(&first);
    ft_text_index_free(&first);
    ft_text_index_free(&second);
    ft_table_free(&train);
    ft_table_free(&other);
}

// A text is the same only with the same second text, and where one ends and the other begins counts.
static void pairs(void **state) {
    ft_table train = table_of("text\tpair\tlabel\na\tb\tx\na\tc\tx\na\tb\tx\nab\t\tx\n\tab\tx\n");
    ft_dataset data = data_of(5, (const int[]){1, 1, 1, 1, 1});
    ft_text_index index;
    ft_data_report r;
    assert_int_equal(ft_text_index_build(&train, &index), FT_OK);
    assert_int_equal(ft_data_report_make(&index, &data, NULL, &r), FT_OK);
    assert_int_equal(r.repeated, 1);
    ft_text_index_free(&index);
    free(data.offset);
    ft_table_free(&train);
}

// Quantiles of 1 .. 200: so many per cent of the lengths are no longer.
static void quantiles(void **state) {
    char content[2000] = "text\tlabel\n";
    int lengths[200];
    for (int i = 0; i < 200; i++) {
        lengths[i] = 1 + i * 77 % 200;
        sprintf(content + strlen(content), "%d\tx\n", i);
    }
    ft_table table = table_of(content);
    ft_dataset data = data_of(200, lengths);
    ft_text_index index;
    ft_data_report r;
    assert_int_equal(ft_text_index_build(&table, &index), FT_OK);
    assert_int_equal(ft_data_report_make(&index, &data, NULL, &r), FT_OK);
    assert_memory_equal(r.length, ((const int32_t[]){1, 100, 180, 198, 200}), sizeof r.length);
    assert_int_equal(r.repeated, 0);
    ft_text_index_free(&index);
    free(data.offset);
    ft_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(pairs), cmocka_unit_test(quantiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
