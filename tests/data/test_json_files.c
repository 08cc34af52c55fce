// JSON that is no JSON lines has the rows that `datasets` reads (tests/vectors/json_files/make_json_vectors.py), whole and in
// pieces.
#include "base/json/json.h"
#include "base/log.h"
#include "engine/data/tables/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void has_rows(const char *name, const ft_table *table, const json_t *rows) {
    if (table->rows != (int64_t)json_array_size(rows))
        fail_msg("%s: %lld rows, datasets has %zu", name, (long long)table->rows, json_array_size(rows));
    for (int64_t i = 0; i < table->rows; i++) {
        const json_t *row = json_array_get(rows, (size_t)i), *label = json_array_get(row, 1);
        const char *text = json_string_value(json_array_get(row, 0));
        if (table->text_length[i] != strlen(text) || memcmp(table->text[i], text, strlen(text)) != 0)
            fail_msg("%s: row %lld is %s, not %s", name, (long long)i, table->text[i], text);
        if (json_is_null(label))
            assert_null(table->label);
        else
            assert_string_equal(table->label[i], json_string_value(label));
    }
}

static void as_datasets(void **state) {
    static const ft_table_request request = {.text = "", .label = "", .need = FT_LABEL_OPTIONAL};
    json_t *expect, *rows;
    const char *name;
    assert_int_equal(ft_json_load(FT_TEST_VECTORS "/json_files/expect.json", &expect), FT_OK);
    assert_true(json_object_size(json_object_get(expect, "files")) >= 9);
    json_object_foreach(json_object_get(expect, "files"), name, rows) {
        for (int pieces = 0; pieces < 2; pieces++) {
            char path[512];
            ft_table table;
            snprintf(path, sizeof path, "%s/json_files/%s", FT_TEST_VECTORS, name);
            const ft_status status =
                pieces ? ft_table_read_large(path, &request, 16, &table) : ft_table_read(path, &request, &table);
            if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
            has_rows(name, &table, rows);
            ft_table_free(&table);
        }
    }
    json_decref(expect);
}

int main(void) {
    ft_log_set_level(FT_LOG_QUIET);
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_datasets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
