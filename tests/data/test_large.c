// Files that are read in pieces give the table of a file that is read whole, and arrays that lie in files are arrays.
#include "base/files.h"
#include "base/spill.h"
#include "engine/data/report.h"
#include "engine/data/tables/table.h"
#include "kernels/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        if ((expression) != FT_OK) fail_msg("%s: %s (%s)", #expression, ft_error_message(), ft_error_where());         \
    } while (0)

// ---- arrays -----------------------------------------------------------------------------------------------------------

// Catches: what is lost or moved wrongly when an array goes to a file, grows there, shrinks, or comes from the heap; pages behind the
// end of a file (SIGBUS); memory that is told where there is none.
static void arrays(void **state) {
    enum { SMALL = 1000, LARGE = 3 << 20, LARGER = 5 << 20 };
    int64_t *a = ft_spill_calloc(SMALL, sizeof *a, "a test");
    assert_non_null(a);
    assert_true(ft_spill_host_bytes(a) >= SMALL * sizeof *a && ft_spill_host_bytes(NULL) == 0);
    for (int i = 0; i < SMALL; i++) a[i] = i;
    a = ft_spill_realloc(a, LARGE, sizeof *a, "a test");
    assert_non_null(a);
    assert_int_equal(ft_spill_host_bytes(a), 0);
    for (int i = 0; i < LARGE; i++) a[i] = 3 * (int64_t)i + (i < SMALL ? a[i] - i : 0);
    a = ft_spill_realloc(a, LARGER, sizeof *a, "a test");
    assert_non_null(a);
    a[LARGER - 1] = 7;
    a = ft_spill_realloc(a, LARGE - 5, sizeof *a, "a test");
    assert_non_null(a);
    for (int i = 0; i < LARGE - 5; i++)
        if (a[i] != 3 * (int64_t)i) fail_msg("[%d] is %lld", i, (long long)a[i]);
    ft_spill_settle(a);
    ft_spill_settle(a);
    a[0] = 1;
    a = ft_spill_realloc(a, LARGER, sizeof *a, "a test"); // into another file
    assert_true(a != NULL && a[0] == 1 && a[LARGE - 6] == 3 * (int64_t)(LARGE - 6) && a[LARGER - 1] == 0);
    ft_spill_free(a);
    ft_spill_free(NULL);
    a = ft_spill_calloc(LARGE, sizeof *a, "a test");
    for (int i = 0; i < LARGE; i++) assert_true(a[i] == 0);
    ft_spill_free(a);
    assert_null(ft_spill_calloc(SIZE_MAX / 4, 8, "too much"));
}

// No file can be made there: the array is on the heap.
static void without_a_place(void **state) {
    setenv("TMPDIR", "/nowhere/at/all", 1);
    int64_t *a = ft_spill_calloc(FT_SPILL_FROM, 2, "a test");
    assert_non_null(a);
    assert_true(ft_spill_host_bytes(a) >= 2 * (size_t)FT_SPILL_FROM);
    a = ft_spill_realloc(a, FT_SPILL_FROM, 3, "a test");
    assert_non_null(a);
    ft_spill_free(a);
    unsetenv("TMPDIR");
}

// ---- tables -----------------------------------------------------------------------------------------------------------

static void same_string(const char *a, const char *b) {
    if (a == NULL || b == NULL) assert_true(a == b);
    else assert_string_equal(a, b);
}

static void same_tables(const ft_table *a, const ft_table *b) {
    assert_int_equal(a->rows, b->rows);
    assert_string_equal(a->sha256, b->sha256);
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->delimiter, b->delimiter);
    assert_int_equal(a->label_lists, b->label_lists);
    assert_int_equal(a->label_columns, b->label_columns);
    same_string(a->text_column, b->text_column), same_string(a->pair_column, b->pair_column), same_string(a->label_column, b->label_column);
    assert_true((a->pair == NULL) == (b->pair == NULL) && (a->label == NULL) == (b->label == NULL) && (a->id == NULL) == (b->id == NULL));
    for (int64_t i = 0; i < a->rows; i++) {
        assert_int_equal(a->line[i], b->line[i]);
        assert_int_equal(a->text_length[i], b->text_length[i]);
        assert_memory_equal(a->text[i], b->text[i], a->text_length[i] + 1);
        if (a->pair != NULL) assert_int_equal(a->pair_length[i], b->pair_length[i]);
        if (a->pair != NULL) assert_memory_equal(a->pair[i], b->pair[i], a->pair_length[i] + 1);
        if (a->label != NULL) assert_string_equal(a->label[i], b->label[i]);
        if (a->id != NULL) assert_string_equal(a->id[i], b->id[i]);
    }
}

static const char *write_file(const char *name, const char *content, size_t length) {
    static char path[300];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/ft-large-%ld-%s", dir != NULL ? dir : "/tmp", (long)getpid(), name);
    OK(ft_atomic_write(path, content, length));
    return path;
}

static void check(const char *name, const char *content, size_t length, const ft_table_request *request) {
    const char *path = write_file(name, content, length);
    ft_table whole;
    const ft_status expected = ft_table_read(path, request, &whole);
    char message[600], where[600];
    snprintf(message, sizeof message, "%s", ft_error_message()), snprintf(where, sizeof where, "%s", ft_error_where());
    static const size_t pieces[] = {1, 7, 64, 1000, 1 << 20};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        ft_table table;
        ft_error_clear();
        const ft_status status = ft_table_read_large(path, request, pieces[p], &table);
        if (status != expected) fail_msg("%s in pieces of %zu: %d, not %d: %s (%s)", name, pieces[p], status, expected, ft_error_message(), ft_error_where());
        if (status == FT_OK) same_tables(&table, &whole);
        else assert_string_equal(ft_error_message(), message), assert_string_equal(ft_error_where(), where);
        ft_table_forget_rows(&table);
        ft_table_free(&table);
    }
    ft_error_clear();
    if (expected == FT_OK) ft_table_free(&whole);
    unlink(path);
}

#define CASE(name, labels, content, ...)                                                                               \
    check(name, content, sizeof(content) - 1, &(ft_table_request){.text = "", .label = labels, __VA_ARGS__})

// Catches: a row cut between two pieces, a header read twice, lines counted from a piece's beginning, quotes across pieces, names of
// columns that die with a piece, flags of one piece alone, a hash of what was read twice, mistakes that are not found or told elsewhere.
static void pieces(void **state) {
    CASE("a.tsv", "", "text\tlabel\na\tx\nb\ty\n\tx\nlonger than the others\tx\n\n\n");
    CASE("b.csv", "", "id,text,label\n1,\"a, \"\"b\"\"\nc\",x\n2,\"\n\",y\n3,d,x\n", .id = "id");
    CASE("c.csv", "", "text;pair;label\na;b;1,5\nc;d;2\n", .pair = "pair");
    CASE("d.jsonl", "", "{\"text\":\"a\\u00e9\\n\",\"label\":[\"x\"]}\n{\"text\":\"\",\"label\":[]}\n{\"text\":\"b\",\"label\":\"y\"}\n", .empty_labels = true);
    CASE("e.csv", "p,q", "text,p,q\na,1,0\nb,0,1\n");
    CASE("f.tsv", "", "\xEF\xBB\xBFtext\tlabel\n\xC3\xA9\tx\nb\ty");
    CASE("g.tsv", "", "text\tlabel\nplain\tx\nna\xEFve\ty\nb\xE9\tx\n"); // Windows-1252
    CASE("h.tsv", "", "text\tlabel\r\na\tx\r\nb\ty\r\n");
    CASE("i.tsv", "", "text\tlabel\na\tx\nb\n");                // ragged
    CASE("j.tsv", "", "text\tlabel\na\tx\nb\t\nc\t\n");         // empty labels
    CASE("k.tsv", "", "text\tlabel\na\t\nb\t\n", .need = FT_LABEL_OPTIONAL);
    CASE("l.csv", "", "text,label\n\"a,x\nb,y\n");              // a quote that is never closed
    CASE("m.tsv", "", "text\tlabel\n");                         // no rows
    CASE("n.tsv", "label", "text\tother\na\tb\n"); // no such column
    CASE("o.tsv", "", "");
    CASE("p.jsonl", "", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\" \"label\":\"y\"}\n");
}

// A file that is large enough to be read so by itself, with texts that are the same as others: what is found about them is what is found
// about the file packed, which is read whole.
static void large_file(void **state) {
    enum { ROWS = 400000 };
    size_t room = (size_t)ROWS * 100, at = 0;
    char *content = malloc(room);
    assert_non_null(content);
    at += (size_t)sprintf(content, "text\tlabel\n");
    for (int i = 0; i < ROWS; i++) {
        const uint64_t draw = ft_splitmix64((uint64_t)i) % (ROWS * 4);
        at += (size_t)sprintf(content + at, "a text with the number %07llu and words behind it so that it is not short at all\t%d\n",
                              (unsigned long long)draw, i % 3);
    }
    assert_true(at >= FT_TABLE_LARGE && at < room);
    const char *path = write_file("large.tsv", content, at);
    const ft_table_request request = {.text = "", .label = ""};
    ft_table large, whole;
    OK(ft_table_read(path, &request, &large));
    assert_non_null(large.chunks);
    OK(ft_table_parse(content, at, at, path, &request, &whole)); // takes it
    assert_null(whole.chunks);
    same_tables(&large, &whole);
    ft_text_index a, b;
    OK(ft_text_index_build(&large, &a));
    OK(ft_text_index_build(&whole, &b));
    ft_dataset none = {.examples = ROWS};
    ft_data_report r, s;
    OK(ft_data_report_make(&a, &none, NULL, &r));
    OK(ft_data_report_make(&b, &none, NULL, &s));
    assert_memory_equal(&r, &s, sizeof r);
    int64_t repeated = 0; // by another way: a bit for every number
    char *seen = calloc(ROWS * 4, 1);
    for (int i = 0; i < ROWS; i++) repeated += seen[ft_splitmix64((uint64_t)i) % (ROWS * 4)]++ > 0;
    assert_int_equal(r.repeated, repeated);
    assert_true(r.contradicting > 0 && r.contradicting < r.repeated);
    OK(ft_data_report_make(&a, &none, &b, &s));
    assert_int_equal(s.known, ROWS);
    assert_true(s.known_row == 0 && s.train_row == 0);
    free(seen);
    ft_text_index_free(&a), ft_text_index_free(&b);
    ft_table_free(&large), ft_table_free(&whole);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrays), cmocka_unit_test(without_a_place), cmocka_unit_test(pieces),
                                       cmocka_unit_test(large_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
