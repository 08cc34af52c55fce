// Parquet files by DuckDB's library: the rows of JSON lines that pyarrow made of the same table, whole, in pieces and
// a few at a time; a file that is damaged is one clear error or rows, and nothing worse. Skipped where there is no
// DuckDB: tools/duckdb.sh fetches it, FTENGINE_DUCKDB names another.
// ctest: sanitize=leave
#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/duckdb_library.h"
#include "engine/data/tables/formats.h"
#include "engine/data/tables/table.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VECTORS FT_TEST_VECTORS "/parquet/"

static void same_rows(const ft_table *a, const ft_table *b) {
    assert_int_equal(a->rows, b->rows);
    for (int64_t i = 0; i < a->rows; i++) {
        assert_int_equal(a->line[i], b->line[i]);
        assert_int_equal(a->text_length[i], b->text_length[i]);
        assert_memory_equal(a->text[i], b->text[i], a->text_length[i]);
        if (a->pair != NULL) assert_string_equal(a->pair[i], b->pair[i]);
        if (a->label != NULL) assert_string_equal(a->label[i], b->label[i]);
        if (a->id != NULL) assert_string_equal(a->id[i], b->id[i]);
    }
    assert_true((a->label == NULL) == (b->label == NULL) && (a->id == NULL) == (b->id == NULL) &&
                (a->pair == NULL) == (b->pair == NULL));
}

static void well(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static const struct {
    const char *name;
    ft_table_request request;
    ft_task task;
} files[] = {
    {"reviews", {.text = "", .label = "", .id = "id"}, FT_TASK_AUTO},
    {"reviews", {.text = "text", .label = "price", .empty_labels = true}, FT_TASK_AUTO},
    {"reviews", {.text = "text", .label = "words"}, FT_TASK_AUTO},
    {"reviews", {.text = "day", .label = NULL, .need = FT_LABEL_IGNORED}, FT_TASK_AUTO},
    {"words", {.text = "", .label = "", .words = true}, FT_TASK_TOKEN_CLASSIFICATION},
    {"questions",
     {.text = "", .pair = "context", .label = "", .id = "id", .questions = true},
     FT_TASK_QUESTION_ANSWERING},
    {"numbers", {.text = "", .label = "stars"}, FT_TASK_AUTO},
};

static void test_rows(void **state) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char parquet[600], lines[600], hex[65];
        ft_table a, b;
        snprintf(parquet, sizeof parquet, VECTORS "%s.parquet", files[i].name);
        snprintf(lines, sizeof lines, VECTORS "%s.jsonl", files[i].name);
        ft_table_request request = files[i].request;
        well(ft_table_read(lines, &request, &b));
        if (i % 2 == 0) request.format = FT_FORMAT_CSV; // whatever is said of its format: it has its own
        well(ft_table_read(parquet, &request, &a));
        same_rows(&a, &b);
        assert_string_equal(a.text_column, b.text_column);
        char *data;
        size_t length;
        well(ft_read_file(parquet, 1 << 20, &data, &length));
        well(ft_sha256(data, length, hex));
        free(data);
        assert_string_equal(a.sha256, hex);
        ft_table_free(&a);
        assert_int_equal(ft_file_task(parquet, FT_FORMAT_AUTO), files[i].task);
        if (!request.words && !request.questions) {
            well(ft_table_read_large(parquet, &request, 700, &a));
            same_rows(&a, &b);
            assert_string_equal(a.sha256, hex);
            ft_table_free(&a);
        }
        ft_table_free(&b);
    }
}

// A few rows at a time, as prediction reads them.
static void test_pieces(void **state) {
    const ft_table_request request = {.text = "", .label = NULL, .need = FT_LABEL_IGNORED};
    ft_blocks blocks;
    int64_t rows = 0;
    well(ft_blocks_open(VECTORS "reviews.parquet", &request, FT_FIRST_PIECE, &blocks));
    blocks.rows = 7;
    for (bool found = true; found;) {
        ft_table piece;
        well(ft_blocks_next(&blocks, &piece, &found));
        assert_true(piece.rows <= 8); // the first line may be a header
        rows += piece.rows;
        ft_table_free(&piece);
    }
    assert_int_equal(rows, 48);
    ft_blocks_close(&blocks);
}

// ---- what is damaged ------------------------------------------------------------------------------------------------

static char folder[] = "/tmp/ftengine-parquet-XXXXXX";

static ft_status read_bytes(const char *name, const char *data, size_t length, ft_table *table) {
    static const ft_table_request request = {.text = "", .label = ""};
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, length, out), length);
    fclose(out);
    ft_error_clear();
    const ft_status status = ft_table_read(path, &request, table);
    unlink(path);
    return status;
}

static void test_damaged(void **state) {
    char *data;
    size_t length, refused = 0, tried = 0;
    uint64_t draw = 12345;
    well(ft_read_file(VECTORS "reviews.parquet", 1 << 20, &data, &length));
    for (int i = 0; i < 64; i++) {
        ft_table table;
        char *copy = malloc(length);
        assert_non_null(copy);
        memcpy(copy, data, length);
        size_t kept = length;
        draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
        if (i % 4 == 0) kept = 5 + (size_t)(draw >> 33) % (length - 5); // its end is missing
        for (int k = 0; i % 4 != 0 && k < 1 + i % 3; k++) {             // in the footer, and anywhere
            draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
            const size_t span = i % 4 == 1 ? length - 5 : 1200;
            copy[length - 1 - (size_t)(draw >> 33) % span] = (char)(draw >> 20);
        }
        const ft_status status = read_bytes("a 'b' [c]*?.parquet", copy, kept, &table);
        free(copy);
        tried++;
        if (status == FT_OK) {
            ft_table_free(&table);
            continue;
        }
        refused++;
        if (status != FT_INVALID) fail_msg("%d: status %d: %s", i, status, ft_error_message());
        assert_true(ft_error_message()[0] != '\0' && strchr(ft_error_message(), '\n') == NULL);
        assert_non_null(strstr(ft_error_where(), "a 'b' [c]*?.parquet"));
        assert_null(strstr(ft_error_message(), "/dev/fd"));
        if (i % 4 == 0) assert_non_null(strstr(ft_error_message(), "this Parquet file cannot be read: "));
    }
    assert_true(refused > tried / 3); // others have another letter in a text
    ft_table whole;
    well(read_bytes("a 'b' [c]*?.parquet", data, length, &whole)); // the name is no pattern
    assert_int_equal(whole.rows, 48);
    ft_table_free(&whole);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_damaged)};
    glob_t fetched = {0};
    if (glob(FT_SOURCE_DIR "/third_party/duckdb/*duckdb*.so", 0, NULL, &fetched) == 0)
        setenv("FTENGINE_DUCKDB", fetched.gl_pathv[0], 0);
    globfree(&fetched);
    const ft_duckdb *duckdb;
    bool absent;
    if (ft_duckdb_load(&duckdb, &absent) != FT_OK || absent) {
        printf("skipped: no DuckDB: %s\n", absent ? "tools/duckdb.sh fetches it" : ft_error_message());
        return 0;
    }
    ft_log_set_level(FT_LOG_SILENT);
    if (mkdtemp(folder) == NULL) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
