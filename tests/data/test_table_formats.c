// Files as people have them: CSV, JSON lines, plain text, packed files, encodings, and what broken ones say. What holds of
// every table, and TSV, is in test_table.c.
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "engine/data/labels/labels.h"
#include "engine/data/tables/formats.h"
#include "engine/data/tables/records.h"
#include "engine/data/tables/source.h"
#include "engine/data/tables/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static ft_status parse_named(const char *name, const char *content, size_t length, const ft_table_request *request, ft_table *table) {
    char *data = malloc(length + 1);
    assert_non_null(data);
    memcpy(data, content, length);
    data[length] = 'x';
    return ft_table_parse(data, length, 1 << 20, name, request, table);
}

static const ft_table_request usual = {.text = "", .label = ""};

static ft_table parsed(const char *name, const char *content, size_t length) {
    ft_table table;
    ft_error_clear();
    if (parse_named(name, content, length, &usual, &table) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    return table;
}

// Texts and labels, in order, ending with NULL.
static void holds(ft_table table, const char *const *expected) {
    int64_t rows = 0;
    while (expected[2 * rows] != NULL) rows++;
    assert_int_equal(table.rows, rows);
    for (int64_t i = 0; i < rows; i++) {
        assert_string_equal(table.text[i], expected[2 * i]);
        assert_int_equal(table.text_length[i], strlen(expected[2 * i]));
        assert_string_equal(table.label[i], expected[2 * i + 1]);
    }
    ft_table_free(&table);
}

#define PARSED(name, content) parsed(name, content, sizeof(content) - 1)
#define HOLDS(name, content, ...) holds(parsed(name, content, sizeof(content) - 1), (const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *name, const char *content, const char *where, const char *message, const char *hint) {
    ft_table table;
    ft_error_clear();
    assert_int_equal(parse_named(name, content, strlen(content), &usual, &table), FT_INVALID);
    if (strcmp(ft_error_where(), where) != 0) fail_msg("%s (%s), not at %s", ft_error_message(), ft_error_where(), where);
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s, not %s", ft_error_message(), message);
    bool found = hint == NULL;
    for (int i = 0; i < ft_error_hint_count() && !found; i++) found = strstr(ft_error_hint(i), hint) != NULL;
    if (!found) fail_msg("%s: no hint %s", ft_error_message(), hint);
    assert_null(table.data);
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

static void csv(void **state) {
    HOLDS("t.csv", "text,label\na b,x\n\"c, d\",y\n", "a b", "x", "c, d", "y");
    HOLDS("t.csv", "text,label\r\n\"one\ntwo\r\nthree\",x\r\n\"say \"\"hi\"\"\",\"y\"\r\n", "one\ntwo\r\nthree", "x", "say \"hi\"", "y");
    HOLDS("t.csv", "\"text\",\"label\"\n\"\",x\n\"\"\"\",y\n,z", "", "x", "\"", "y", "", "z");
    HOLDS("t.csv", "\xEF\xBB\xBFtext;label\na, b;x\n\"c; d\";y\n", "a, b", "x", "c; d", "y");
    HOLDS("t.csv", "text\tlabel\n\"a\tb\"\tx\n", "a\tb", "x");
    HOLDS("t.csv", "text|label\na, b; c|x\n", "a, b; c", "x");
    HOLDS("t.csv", "text,label\n\na,x\n\r\n\nb,y\n\n", "a", "x", "b", "y"); // empty lines are nothing
    HOLDS("t.csv", "text,label\n5\" pipe,x\nit's \"so\",y\n", "5\" pipe", "x", "it's \"so\"", "y"); // quotes inside
    HOLDS("t.csv", ",text,label\n0,a,x\n1,b,y\n", "a", "x", "b", "y"); // the index of a data frame
    HOLDS("t.csv", "Unnamed: 0,label,text\n0,x,a\n", "a", "x");
    HOLDS("t.csv", "text,label\n\"a\",x", "a", "x"); // no last newline
    HOLDS("t.csv", "text,label\nx,\"a\"", "x", "a");
    ft_table table = PARSED("t.csv", "text,label\n\"a\nb\",x\nc,y\n");
    assert_int_equal(table.line[0], 2);
    assert_int_equal(table.line[1], 4);
    ft_table_free(&table);
}

static void csv_mistakes(void **state) {
    refused("t.csv", "text,label\na,x\nb,\"y\nc,z\n", "t.csv:3:3", "never closed", "tsv");
    refused("t.csv", "text,label\n\"a\"b,x\n", "t.csv:2:4", "behind a closing quote", "twice");
    refused("t.csv", "text,label\n\"a\nb\"c,x\n", "t.csv:3:3", "behind a closing quote", NULL);
    refused("t.csv", "text,label\na,b,x\n", "t.csv:2:5", "3 columns, the header has 2", "quotes");
    refused("t.csv", "text,label\n\"a\n\",x\nb\n", "t.csv:4:2", "1 column, the header has 2", NULL);
    refused("t.csv", "text,label\n\"a\nb\",x\nc,\n", "t.csv:4", "label is empty", NULL);
    refused("t.csv", "text,label\n", "t.csv:2", "no rows", NULL);
    refused("t.csv", "a,b\nc,d\n", "t.csv:1", "no text column", "a, b");
}

// ---- JSON lines ---------------------------------------------------------------------------------------------------

static void json_lines(void **state) {
    HOLDS("t.jsonl", "{\"text\": \"a\\tb\\n\", \"label\": 1}\n{\"label\": 0, \"text\": \"\\u00e4\"}\n", "a\tb\n", "1", "\xC3\xA4", "0");
    HOLDS("t", "{\"label\":1.0,\"text\":\"a\"}\r\n\r\n{\"label\":true,\"text\":\"b\",\"more\":{\"x\":[1]}}", "a", "1.0", "b", "true");
    HOLDS("t.ndjson", "\xEF\xBB\xBF{\"meta\": {\"a\": 1}, \"text\": null, \"label\": \"x\"}\n", "", "x"); // null is empty
    ft_table table = PARSED("t", "{\"text\": \"a\", \"label\": [\"x\", 2]}\n{\"text\": \"b\", \"label\": [\"y\"]}\n");
    assert_string_equal(table.label[0], "x\x1F" "2\x1F");
    assert_string_equal(table.label[1], "y\x1F"); // a list of one is a list
    assert_int_equal(table.line[1], 2);
    ft_table_free(&table);
}

static void json_mistakes(void **state) {
    refused("t.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": }\n", "t.jsonl:2:24", "a value is needed", "one object a line");
    refused("t.jsonl", "{\"text\": \"a\",\n \"label\": 1\n", "t.jsonl:1:14", "a key in quotes", "one object a line");
    refused("t.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n", "t.jsonl:2", "label is empty", NULL);
    refused("t.jsonl", "{\"text\": {}, \"label\": 1}\n", "t.jsonl:1", "\"text\" is neither a string", NULL);
    refused("t.jsonl", "{\"text\": [\"a\"], \"label\": 1}\n", "t.jsonl:1", "the text is a list", NULL);
    refused("t.jsonl", "{\"txt\": \"a\", \"label\": 1}\n", "t.jsonl:1", "no text column", "txt, label");
    refused("t.jsonl", "{\"text\": \"a\", \"label\": 1}\n3\n", "t.jsonl:2:1", "not valid JSON", NULL);
    refused("t.jsonl", "{}\n", "t.jsonl:1:1", "no keys", NULL);
    refused("t.jsonl", " \n\n", "t.jsonl:1", "no rows", NULL);
}

// A list of objects, objects over several lines: what datasets makes of them is in tests/vectors/json_files.
static void json_values(void **state) {
    HOLDS("t.json", "[{\"text\": \"a\", \"label\": 1}]", "a", "1");
    HOLDS("t", "\xEF\xBB\xBF \n[\r\n{\"text\": \"a]}\\\"[\", \"label\": 1}\n,\n{\"label\": \"x\", \"text\": \"b\"}\n]\n\n", "a]}\"[", "1", "b", "x");
    HOLDS("t.jsonl", "{\n  \"text\": \"a\",\n  \"label\": 1\n}\n{\"text\": \"b\",\n \"label\": 2}{\"text\": \"c\", \"label\": 3}", "a", "1", "b", "2", "c", "3");
    ft_table table = PARSED("t.json", "[\n  {\n    \"text\": \"a\",\n    \"label\": [\"x\"]\n  },\n  {\"text\": \"b\", \"label\": []}\n]\n");
    assert_int_equal(table.line[0], 2);
    assert_int_equal(table.line[1], 6);
    assert_string_equal(table.label[0], "x\x1F");
    ft_table_free(&table);
}

static void json_value_mistakes(void **state) {
    refused("t.json", "[{\"text\": \"a\", \"label\": 1}\n", "t.json:2:1", "list is never closed", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1},\n]", "t.json:2:1", "a comma behind the last", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1}\n {\"text\": \"b\"}]", "t.json:2:2", "comma is missing", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1}] x", "t.json:1:29", "behind the end of the list", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1},\n 3]", "t.json:2:2", "neither an object nor a text", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1},\n {\"text\": \"b\"", "t.json:2:2", "never closed", NULL);
    refused("t.json", "[\n {\"text\": \"a\",\n  \"label\": }]", "t.json:3:12", "a value is needed", NULL);
    refused("t.json", "[\n {\"text\": \"a\", \"label\": }]", "t.json:2:25", "a value is needed", NULL);
    refused("t.json", "[{\"text\": \"a\", \"label\": 1},\n {\"text\": {}, \"label\": 2}]", "t.json:2", "\"text\" is neither a string", NULL);
    refused("t.json", "[]\n", "t.json:1", "the list is empty", NULL);
    refused("t.json", "[\"a\", \"b\"]", "t.json:1", "no label column", NULL);
    refused("t.json", "{\n\"text\": \"a\", \"label\": 1}\n[1]", "t.json:3:1", "no JSON object", NULL);
}

// ---- other kinds --------------------------------------------------------------------------------------------------

static void kinds(void **state) {
    static const struct {
        const char *name, *content;
        size_t length;
        const char *message, *hint;
    } cases[] = {
#define BYTES(content) content, sizeof(content) - 1
        {"d/t.parquet", BYTES("PAR1\x15\x04\x15\x10 and more"), "this is a Parquet file; texts are read from", "read_parquet('d/t.parquet').to_json('d/t.parquet.jsonl'"},
        {"t.csv", BYTES("PAR1\x15\x04\x15\x10"), "a Parquet file", "to_json"}, // whatever it is called
        {"t.arrow", BYTES("ARROW1\0\0 and more"), "an Arrow file", "read_table('t.arrow')"},
        {"t.xlsx", BYTES("PK\3\4\24\0\6\0\10\0\0\0!\0"), "an Excel workbook", "read_excel('t.xlsx').to_csv('t.xlsx.csv'"},
        {"t.csv", BYTES("PK\3\4\24\0\6\0\10\0\0\0!\0aaaabbbbcccc\23\0\0\0[Content_Types].xml"), "an Excel workbook", "read_excel"},
        {"t.zip", BYTES("PK\3\4\24\0\0\0\0\0"), "a ZIP archive", "unzip 't.zip'"},
        {"t.csv.bz2", BYTES("BZh91AY&SY\1\2\3"), "a bzip2 file", "bunzip2 -k 't.csv.bz2'"},
        {"t.csv.xz", BYTES("\xFD" "7zXZ\0\0\4"), "an xz file", "unxz -k 't.csv.xz'"},
        {"t.csv", BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n"), "a pointer of Git LFS, not the file itself", "git lfs pull --include 't.csv'"},
        {"<stdin>", BYTES("PK\3\4\24\0\0\0\0\0"), "a ZIP archive", "save it as a file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_table table;
        ft_error_clear();
        assert_int_equal(parse_named(cases[i].name, cases[i].content, cases[i].length, &usual, &table), FT_INVALID);
        if (strstr(ft_error_message(), cases[i].message) == NULL) fail_msg("%s: %s", cases[i].name, ft_error_message());
        if (strstr(ft_error_hint(0), cases[i].hint) == NULL) fail_msg("%s: %s", cases[i].name, ft_error_hint(0));
        assert_string_equal(ft_error_where(), cases[i].name);
    }
    // What only begins like one is text.
    HOLDS("t.tsv", "text\tlabel\nPK\3\4\tx\n", "PK\3\4", "x");
    HOLDS("t.csv", "BZh9,text,label\n1,a,x\n", "a", "x");
    HOLDS("t.csv", "PAR1,text,label\n1,a,x\n", "a", "x");
    static const char *const addresses[] = {"https://a.b/c.csv", "/data/https://a.b/c.csv", "conf/http:/a.b/c.csv", "s3://bucket/c.csv", "hf://datasets/a/b/c.csv"};
    static const char *const helps[] = {"curl -LO 'https://a.b/c.csv'", "curl -LO 'https://a.b/c.csv'", "curl -LO 'http://a.b/c.csv'", "curl -LO 's3://bucket/c.csv'", "hf download"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        ft_table table;
        ft_error_clear();
        assert_int_equal(ft_table_read(addresses[i], &usual, &table), FT_INVALID);
        if (strstr(ft_error_message(), "this is an address") == NULL) fail_msg("%s: %s", addresses[i], ft_error_message());
        if (strstr(ft_error_hint(0), helps[i]) == NULL) fail_msg("%s: %s", addresses[i], ft_error_hint(0));
    }
    ft_table table;
    assert_int_equal(ft_table_read("no/such:/file.csv", &usual, &table), FT_INVALID);
    assert_null(strstr(ft_error_message(), "address"));
}

// ---- columns ------------------------------------------------------------------------------------------------------

static void several_columns(void **state) {
    const char content[] = "a,b,x,y\none,two,0,1\nthree,,1,0\n";
    ft_table table;
    ft_table_request r = {.text = "a", .pair = "b", .label = "y, x"};
    assert_int_equal(parse_named("t.csv", content, sizeof content - 1, &r, &table), FT_OK);
    assert_string_equal(table.pair[0], "two");
    assert_int_equal(table.pair_length[1], 0);
    assert_string_equal(table.pair_column, "b");
    assert_int_equal(table.label_columns, 2);
    assert_string_equal(table.label_column_name[0], "y");
    assert_string_equal(table.label_column, "y, x");
    assert_string_equal(table.label[0], "1\x1F" "0\x1F");
    ft_table_free(&table);
    const struct {
        ft_table_request request;
        const char *message;
    } bad[] = {{{.text = "a", .label = "x, q"}, "no column \"q\""},      {{.text = "a", .label = "x, x"}, "listed twice"},
               {{.text = "a", .label = "x, a"}, "the same column"},      {{.text = "a", .pair = "a", .label = "x"}, "both texts"},
               {{.text = "a", .pair = "q", .label = "x"}, "second text"}, {{.text = "a", .label = "x, b"}, "\"b\" is empty"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse_named("t.csv", content, sizeof content - 1, &bad[i].request, &table), FT_INVALID);
        if (strstr(ft_error_message(), bad[i].message) == NULL) fail_msg("%s, not %s", ft_error_message(), bad[i].message);
    }
    // A name with a comma in it is a name before it is a list.
    const char named[] = "text,\"x, y\"\na,1\n";
    r = (ft_table_request){.text = "", .label = "x, y"};
    assert_int_equal(parse_named("t.csv", named, sizeof named - 1, &r, &table), FT_OK);
    assert_int_equal(table.label_columns, 1);
    ft_table_free(&table);
}

// ---- which format -------------------------------------------------------------------------------------------------

static ft_format format_found(const char *name, const char *content, bool plain) {
    ft_table table;
    ft_table_request r = {.text = "", .label = "", .need = FT_LABEL_IGNORED, .plain = plain};
    if (parse_named(name, content, strlen(content), &r, &table) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_format format = table.format;
    ft_table_free(&table);
    return format;
}

static void formats(void **state) {
    assert_int_equal(format_found("t", "text\tlabel\na\tb\n", false), FT_FORMAT_TSV);
    assert_int_equal(format_found("t.txt", "text,label\na,b\n", false), FT_FORMAT_CSV);
    assert_int_equal(format_found("t.data", "text;label\na;b\n", false), FT_FORMAT_CSV);
    assert_int_equal(format_found("t.txt", "text\na\n", false), FT_FORMAT_TSV);
    assert_int_equal(format_found("t.tsv", "text\na, b\n", false), FT_FORMAT_TSV); // the name decides
    assert_int_equal(format_found("t.CSV", "text\na\n", false), FT_FORMAT_CSV);
    assert_int_equal(format_found("t.json", "{\"text\": \"a\"}\n", false), FT_FORMAT_JSONL);
    // Where anything may be plain text
    assert_int_equal(format_found("t.txt", "text\nHello, world\n", true), FT_FORMAT_TEXT);
    assert_int_equal(format_found("<stdin>", "Hello, world\nand so on\n", true), FT_FORMAT_TEXT);
    assert_int_equal(format_found("<stdin>", "id,text\n1,a\n", true), FT_FORMAT_CSV);
    assert_int_equal(format_found("<stdin>", "id\ttext\n1\ta\n", true), FT_FORMAT_TSV);
    assert_int_equal(format_found("<stdin>", "{\"text\": \"a\"}\n", true), FT_FORMAT_JSONL);
    assert_int_equal(format_found("<stdin>", "[note] a text\n", true), FT_FORMAT_TEXT);
    assert_int_equal(format_found("<stdin>", "[{\"text\": \"a\"}]\n", true), FT_FORMAT_JSONL);
    assert_int_equal(format_found("<stdin>", "[\n \"a\", \"b\"]\n", true), FT_FORMAT_JSONL);
    assert_int_equal(format_found("<stdin>", "\n\n", true), FT_FORMAT_TEXT);
    assert_int_equal(format_found("<stdin>", "\"text\n", true), FT_FORMAT_TEXT);
    assert_int_equal(format_found("t.tsv", "text\nb\n", true), FT_FORMAT_TSV);

    ft_format format;
    for (ft_format f = FT_FORMAT_AUTO; f <= FT_FORMAT_TEXT; f++) {
        assert_true(ft_format_from_name(ft_format_name(f), &format));
        assert_int_equal(format, f);
    }
    assert_false(ft_format_from_name("xlsx", &format));
    assert_int_equal(ft_format_of_name("a/b.tsv/c"), FT_FORMAT_AUTO);
    assert_int_equal(ft_format_of_name("a.csv.gz"), FT_FORMAT_CSV);
    assert_int_equal(ft_format_of_name("a.Jsonl.zst"), FT_FORMAT_JSONL);
    assert_int_equal(ft_format_of_name(".tsv"), FT_FORMAT_AUTO); // a hidden file without an ending
    assert_int_equal(ft_csv_delimiter("\"a,b,c\";d", 9), ';');
    assert_int_equal(ft_csv_delimiter("one", 3), ',');
}

static void plain_text(void **state) {
    ft_table table;
    ft_table_request r = {.text = "", .label = "", .need = FT_LABEL_IGNORED, .format = FT_FORMAT_TEXT};
    assert_int_equal(parse_named("t", "a\tb\r\n\n{\"x\"\n", 11, &r, &table), FT_OK);
    assert_int_equal(table.rows, 3);
    assert_string_equal(table.text[0], "a\tb");
    assert_int_equal(table.text_length[1], 0);
    assert_string_equal(table.text[2], "{\"x\"");
    assert_int_equal(table.line[2], 3);
    ft_table_free(&table);
    assert_int_equal(parse_named("t", "", 0, &r, &table), FT_INVALID);
    r.id = "";
    assert_int_equal(parse_named("t", "a", 1, &r, &table), FT_INVALID);
    r.id = NULL, r.pair = "b";
    assert_int_equal(parse_named("t", "a", 1, &r, &table), FT_INVALID);
    r.pair = NULL, r.need = FT_LABEL_REQUIRED;
    assert_int_equal(parse_named("t", "a", 1, &r, &table), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "no labels"));
}

// ---- packing and encodings ----------------------------------------------------------------------------------------

static const char text_of_all[] = "text\tlabel\na b\tx\nc d\ty\n";

static size_t gzip(const char *content, char *out, size_t room) {
    z_stream z = {.next_in = (Bytef *)content, .avail_in = (uInt)strlen(content), .next_out = (Bytef *)out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void packed_refused(const char *data, size_t length, const char *message) {
    ft_table table;
    assert_int_equal(parse_named("t", data, length, &usual, &table), FT_INVALID);
    assert_string_equal(ft_error_where(), "t");
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s, not %s", ft_error_message(), message);
}

static void packed(void **state) {
    char out[2000], hex[65];
    size_t n = gzip(text_of_all, out, sizeof out);
    ft_table table = parsed("t.tsv.gz", out, n);
    assert_int_equal(ft_sha256(out, n, hex), FT_OK);
    assert_string_equal(table.sha256, hex); // of the file on disk
    holds(table, (const char *const[]){"a b", "x", "c d", "y", NULL});
    packed_refused(out, n - 9, "ends early");
    packed_refused(out, n - 1, "ends early");
    size_t both = n + gzip("e\tz\n", out + n, sizeof out - n); // as `cat a.gz b.gz` makes them, and padded by a tape
    memset(out + both, 0, 100);
    holds(parsed("t", out, both + 100), (const char *const[]){"a b", "x", "c d", "y", "e", "z", NULL});
    memcpy(out + both, "more", 4);
    packed_refused(out, both + 4, "damaged");
    out[n - 6] ^= 1; // the checksum
    packed_refused(out, n, "gzip file is damaged");

    n = ZSTD_compress(out, sizeof out, text_of_all, strlen(text_of_all), 3);
    assert_false(ZSTD_isError(n));
    holds(parsed("t.tsv.zst", out, n), (const char *const[]){"a b", "x", "c d", "y", NULL});
    packed_refused(out, n - 1, "ends early");
    packed_refused(out, 5, "ends early");
    both = n + ZSTD_compress(out + n, sizeof out - n, "e\tz\n", 4, 3);
    holds(parsed("t", out, both), (const char *const[]){"a b", "x", "c d", "y", "e", "z", NULL});
    memcpy(out + both, "more", 4);
    packed_refused(out, both + 4, "Zstandard file is damaged");

    char *zeros = calloc(1, 3 << 20); // more than parse_named allows
    assert_non_null(zeros);
    memset(zeros, 'a', (3 << 20) - 1);
    char *small = malloc(1 << 16);
    assert_non_null(small);
    n = gzip(zeros, small, 1 << 16);
    packed_refused(small, n, "more than 1048576 bytes");
    n = ZSTD_compress(small, 1 << 16, zeros, 3 << 20, 3);
    packed_refused(small, n, "more than 1048576 bytes");
    free(zeros);
    free(small);
}

static size_t utf16(const char *ascii, bool big, bool mark, char *out) {
    size_t n = 0;
    if (mark) out[n++] = big ? '\xFE' : '\xFF', out[n++] = big ? '\xFF' : '\xFE';
    for (const char *c = ascii; *c != '\0'; c++) out[n++] = big ? 0 : *c, out[n++] = big ? *c : 0;
    return n;
}

static void encodings(void **state) {
    const char *const rows[] = {"a b", "x", "c d", "y", NULL};
    char out[400];
    for (int big = 0; big < 2; big++)
        for (int mark = 0; mark < 2; mark++) holds(parsed("t.tsv", out, utf16(text_of_all, big, mark, out)), rows);
    // Beyond the first plane, and half of a pair
    static const char pair[] = "\xFF\xFEt\0e\0x\0t\0\t\0l\0a\0b\0e\0l\0\n\0\x3D\xD8\x00\xDE\t\0x\0\n\0\x3D\xD8\t\0y\0";
    holds(parsed("t.tsv", pair, sizeof pair - 1), (const char *const[]){"\xF0\x9F\x98\x80", "x", "\xEF\xBF\xBD", "y", NULL});
    HOLDS("t.tsv", "text\tlabel\nna\xEFve\tcaf\xE9\n\x93so\x94 \x80 5\tx\n", "na\xC3\xAFve", "caf\xC3\xA9",
          "\xE2\x80\x9Cso\xE2\x80\x9D \xE2\x82\xAC 5", "x");
    // UTF-8 with damage stays UTF-8: the tokenizer decides about the rest
    HOLDS("t.tsv", "text\tlabel\n\xC3\xA4 \xE4\tx\n", "\xC3\xA4 \xE4", "x");
    ft_table table;
    assert_int_equal(parse_named("t.tsv", "text\tl\xC3\xA4" "bel\nb\tx\xE4\n", 18, &(ft_table_request){.text = "", .label = "l\xC3\xA4" "bel"}, &table),
                     FT_INVALID);
    assert_string_equal(ft_error_where(), "t.tsv:2:3");
}

// GLUE's files hold quotes that belong to the text, also a single one at the beginning.
static void glue_quotes(void **state) {
    HOLDS("train.tsv", "index\tsentence\tlabel\n0\t\"it's a\t1\n1\t'' so '' \"\"\t0\n", "\"it's a", "1", "'' so '' \"\"", "0");
}

// Lines are those of the ids, numbers too; what is no list of answers is no "no answer".
static void squad(void **state) {
#define QUESTION(id, answers) \
    "{\"data\": [{\"paragraphs\": [\n{\"context\": \"12 a\", \"qas\": [{\"id\": " id ", \"question\": \"q\", \"answers\": " answers "}]}]}]}"
    static const ft_table_request questions = {.format = FT_FORMAT_SQUAD, .text = "", .label = "", .id = "",
                                               .need = FT_LABEL_REQUIRED, .questions = true, .empty_labels = true};
    static const char text[] = "{\"data\": [{\"paragraphs\": [\n{\"context\": \"12 a\", \"qas\": [\n"
                               "{\"id\": \"a\", \"question\": \"12\", \"answers\": []},\n"
                               "{\"id\" : 12, \"question\": \"13\", \"answers\": [{\"text\": \"12\", \"answer_start\": 0}]},\n"
                               "{\"question\": \"q\", \"answers\": null, \"id\":\n13}]}]}]}";
    static const struct {
        const char *id;
        int64_t line;
    } rows[] = {{"a", 3}, {"12", 4}, {"13", 6}};
    static const char *const wrong[] = {"5", "true", "\"12\"", "[\"12\"]", "{\"text\": [\"12\"]}", "[{\"text\": \"12\", \"answer_start\": -1}]"};
    ft_table table;
    assert_int_equal(parse_named("q.json", text, sizeof text - 1, &questions, &table), FT_OK);
    assert_int_equal(table.rows, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(table.id[i], rows[i].id);
        if (table.line[i] != rows[i].line) fail_msg("question %s is said to be on line %d", rows[i].id, (int)table.line[i]);
    }
    ft_table_free(&table);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char one[400];
        const int length = snprintf(one, sizeof one, QUESTION("\"a\"", "%s"), wrong[i]);
        assert_int_equal(parse_named("q.json", one, (size_t)length, &questions, &table), FT_INVALID);
        if (strstr(ft_error_message(), "these are no answers") == NULL) fail_msg("%s: %s", wrong[i], ft_error_message());
    }
    // Ids that are written otherwise are looked for a few times alone: each look goes through the whole file.
    enum { MANY = 20000 };
    char *many = malloc(MANY * 100 + 200), *at = many;
    assert_non_null(many);
    at += sprintf(at, "{\"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": [");
    for (int i = 0; i < MANY; i++) at += sprintf(at, "%s\n{\"id\": \"\\u0061%d\", \"question\": \"q\", \"answers\": []}", i > 0 ? "," : "", i);
    at += sprintf(at, "]}]}]}");
    const double began = ft_now();
    if (parse_named("q.json", many, (size_t)(at - many), &questions, &table) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    assert_int_equal(table.rows, MANY);
    assert_string_equal(table.id[MANY - 1], "a19999");
    if (ft_now() - began > 3) fail_msg("%d questions took %.1f s", MANY, ft_now() - began); // 0.1 s on two busy cores
    ft_table_free(&table);
    free(many);
}

// ---- what a file is for ---------------------------------------------------------------------------------------------------

// Wrong: a header or a sentence that ends with O taken for tags, several labels of a text for spans, a line that is cut off for another number of columns.
static void tasks_of_files(void **state) {
    static const struct {
        const char *name, *content;
        ft_task task;
    } cases[] = {
        {"a.txt", "Ada B-PER\nleft O\n\nNew B-LOC\nYork I-LOC\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a", "-DOCSTART- -X- -X- O\r\n\r\nEU NNP B-NP S-ORG\r\nrejects VBZ B-VP O\r\nGer", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.tsv", "New York\tU-LOC\n\t\nnow\tO\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.tsv", "text\tlabel\nblood type\tO\nother\tO\n", FT_TASK_AUTO},
        {"a.txt", "Ada B-PER\nleft early O\n", FT_TASK_AUTO},
        {"a.txt", "his blood is of type O\n", FT_TASK_AUTO}, // one line says too little
        {"a.txt", "Ada NOUN\nleft VERB\n", FT_TASK_AUTO},   // no entities
        {"a.csv", "Ada,B-PER\nleft,O\n", FT_TASK_AUTO},
        {"a.bio", "Ada NOUN\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.jsonl", "{\"tokens\": [\"Ada\"], \"ner_tags\": [\"B-PER\"]}\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.jsonl", "{\"text\":\"Ada\",\"label\":[]}\n{\"text\":\"Ada\",\"label\":[[0,3,\"PER\"]]}\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.jsonl", "{\"text\": \"Ada\", \"entities\": [{\"start\": 0, \"end\": 3, \"label\": \"PER\"}]}\n", FT_TASK_TOKEN_CLASSIFICATION},
        {"a.jsonl", "{\"text\": \"Ada\", \"label\": [\"x\", \"y\"]}\n", FT_TASK_AUTO},
        {"a.jsonl", "{\"tokens\": [\"Ada\"], \"label\": \"x\"}\n", FT_TASK_AUTO},
        {"a.jsonl", "{\"text\": \"\\\"tokens\\\": [\\\"tags\\\": [\", \"label\": \"x\"}\n", FT_TASK_AUTO},
        {"a.json", "{\"data\": [{\"paragraphs\": []}]}", FT_TASK_QUESTION_ANSWERING},
        {"a.jsonl", "{\"question\": \"q\", \"context\": \"c\", \"answers\": {}}\n", FT_TASK_QUESTION_ANSWERING},
    };
    char dir[] = "/tmp/ft-formats-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, cases[i].name);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(cases[i].content, file);
        assert_int_equal(fclose(file), 0);
        if (ft_file_task(path, FT_FORMAT_AUTO) != cases[i].task) fail_msg("case %zu: %s", i, cases[i].content);
    }
    assert_int_equal(ft_file_task(path, FT_FORMAT_CONLL), FT_TASK_TOKEN_CLASSIFICATION); // whatever stands there
    assert_int_equal(ft_file_task("/nowhere.txt", FT_FORMAT_AUTO), FT_TASK_AUTO);
    assert_int_equal(ft_remove_tree(dir), FT_OK);
}

int main(void) {
    ft_log_set_level(FT_LOG_QUIET);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv),          cmocka_unit_test(csv_mistakes),    cmocka_unit_test(json_lines),
        cmocka_unit_test(json_mistakes), cmocka_unit_test(json_values), cmocka_unit_test(json_value_mistakes), cmocka_unit_test(kinds), cmocka_unit_test(several_columns), cmocka_unit_test(formats),
        cmocka_unit_test(plain_text),   cmocka_unit_test(packed),          cmocka_unit_test(encodings),
        cmocka_unit_test(glue_quotes),  cmocka_unit_test(squad), cmocka_unit_test(tasks_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
