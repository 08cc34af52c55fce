// A file in pieces, wherever it is cut, has the rows, the lines and the mistakes of the file read whole.
#include "base/log.h"
#include "engine/data/tables/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *content;
} files[] = {
    {"t.tsv", "text\tid\na\t1\nb b\t2\n\t3\nlast\t4"},
    {"t.tsv", "text\tid\r\na\t1\r\nb\t2\r\n"},
    {"t.tsv", "text\tid\na\t1\nb\t2\n\n\r\n\n"},              // empty lines at the end are no rows
    {"t.tsv", "text\tid\na\t1\n\nb\t2\n"},                    // between others they are
    {"t.tsv", "text\na\n\nb\n\n"},                            // with one column they are texts
    {"t.tsv", "text\tid\na\t1\nb\t2\t3\nc\t4\n"},             // ragged
    {"t.tsv", "text\tid\n"},
    {"t.tsv", ""},
    {"t.csv", "text,id\n\"one\ntwo, \"\"three\"\"\",1\n5\" pipe,2\n\n\"\n\n\",3\nx,4\n"},
    {"t.csv", "text,id\na,1\n\"b\n,2\n"},                     // a quote that is never closed
    {"t.csv", "text,id\na,1\n\"b\"c,2\nd,3\n"},               // text behind a quote
    {"t.jsonl", "{\"text\": \"a\", \"id\": 1}\n\n{\"id\": 2, \"text\": \"b\\nc\"}\n{\"text\": \"d\"}\n"},
    {"t.jsonl", "{\"text\": \"a\", \"id\": 1}\n{\"text\": \"b\", \"id\": 2}\n{\"text\"}\n"},
    {"t.json", "[\n  {\"text\": \"a\", \"id\": 1},\n\n  {\"id\": 2,\n   \"text\": \"b\"}\n]\n"},
    {"t.json", "[{\"text\": \"a\", \"id\": 1}, {\"text\": \"b\", \"id\": 2}]"},
    {"t.json", "{\n \"text\": \"a\",\n \"id\": 1\n}\n{\n \"text\": \"b\",\n \"id\": 2\n}\n"},
    {"t.json", "[{\"text\": \"a\", \"id\": 1},\n {\"text\": \"b\", \"id\": }]\n"},
    {"t.zip", "PK\3\4 which is no text,\nwherever it is cut\n"},
    {"t", "plain\n\ntext, too\nwithout an end"},
    {"t", "text,id\nlooks like,1\na table,2\n"},
    {"t.tsv", "text\tid\nASCII at first, behind the look at the first bytes of a file that may be packed\t1\nna\xEFve\t2\ncaf\xE9\t3\n"},
    {"t.tsv", "text\tid\nASCII at first, behind the look at the first bytes of a file that may be packed\t1\nna\xC3\xAFve\t2\n\xFF\t3\n"},
    {"t.tsv", "\xEF\xBB\xBFtext\tid\na\t1\n\xEF\xBB\xBF" "b\t2\n"},
};
enum { FILES = sizeof files / sizeof *files };

typedef struct rows {
    ft_status status;
    char message[512], where[512];
    int64_t count, line[16];
    char *text[16], *id[16];
} rows;

static void keep(rows *r, const ft_table *t, bool ids) {
    for (int64_t i = 0; i < t->rows; i++, r->count++) {
        assert_true(r->count < 16);
        r->line[r->count] = t->line[i];
        r->text[r->count] = strndup(t->text[i], t->text_length[i]);
        r->id[r->count] = ids ? strdup(t->id[i]) : NULL;
    }
}

static void ended(rows *r, ft_status status) {
    r->status = status;
    if (status == FT_OK) return;
    snprintf(r->message, sizeof r->message, "%s", ft_error_message());
    snprintf(r->where, sizeof r->where, "%s", ft_error_where());
}

static void release(rows *r) {
    for (int64_t i = 0; i < r->count; i++) free(r->text[i]), free(r->id[i]);
}

static rows read_whole(const char *path, const ft_table_request *request) {
    rows r = {0};
    ft_table table;
    ft_status status = ft_table_read(path, request, &table);
    ended(&r, status);
    if (status != FT_OK) return r;
    keep(&r, &table, request->id != NULL);
    ft_table_free(&table);
    return r;
}

static rows read_pieces(const char *path, const ft_table_request *request, size_t bytes, int *pieces) {
    rows r = {0};
    ft_blocks blocks;
    ft_status status = ft_blocks_open(path, request, bytes, &blocks);
    *pieces = 0;
    for (bool found = true; status == FT_OK && found;) {
        ft_table table;
        status = ft_blocks_next(&blocks, &table, &found);
        if (status != FT_OK || !found) break;
        assert_true(table.rows > 0);
        ++*pieces;
        keep(&r, &table, request->id != NULL);
        ft_table_free(&table);
    }
    ended(&r, status);
    ft_blocks_close(&blocks);
    return r;
}

static void as_whole(const char *path, const ft_table_request *request, size_t bytes) {
    int pieces;
    rows whole = read_whole(path, request), cut = read_pieces(path, request, bytes, &pieces);
    assert_int_equal(cut.status, whole.status);
    assert_string_equal(cut.message, whole.message);
    assert_string_equal(cut.where, whole.where);
    for (int64_t i = 0; i < cut.count && whole.status == FT_OK; i++) {
        assert_string_equal(cut.text[i], whole.text[i]);
        assert_int_equal(cut.line[i], whole.line[i]);
        if (request->id != NULL) assert_string_equal(cut.id[i], whole.id[i]);
    }
    if (whole.status == FT_OK) assert_int_equal(cut.count, whole.count);
    if (whole.status == FT_OK && bytes == 1 && whole.count > 3) assert_true(pieces > 1);
    release(&whole);
    release(&cut);
}

static void wherever_it_is_cut(void **state) {
    char directory[] = "/tmp/ft_blocks_XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    for (int k = 0; k < FILES; k++) {
        const bool ids = strstr(files[k].name, ".") != NULL && strstr(files[k].content, "id") != NULL;
        const ft_table_request request = {.text = "", .need = FT_LABEL_IGNORED, .id = ids ? "id" : NULL, .plain = !ids};
        snprintf(path, sizeof path, "%s/%s", directory, files[k].name);
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        fwrite(files[k].content, 1, strlen(files[k].content), out);
        fclose(out);
        for (size_t bytes = 1; bytes < strlen(files[k].content) + 2; bytes++) as_whole(path, &request, bytes);
        as_whole(path, &request, SIZE_MAX);
        unlink(path);
    }
    rmdir(directory);
}

static void no_file(void **state) {
    ft_blocks blocks;
    const ft_table_request request = {.text = "", .need = FT_LABEL_IGNORED};
    assert_int_equal(ft_blocks_open("/nowhere/at/all", &request, 64, &blocks), FT_INVALID);
    ft_blocks_close(&blocks);
    assert_int_equal(ft_blocks_open("/tmp", &request, 64, &blocks), FT_INVALID);
    ft_blocks_close(&blocks);
}

int main(void) {
    ft_log_set_level(FT_LOG_QUIET);
    const struct CMUnitTest tests[] = {cmocka_unit_test(wherever_it_is_cut), cmocka_unit_test(no_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
