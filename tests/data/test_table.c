// Tables: what is accepted, what comes out, and what every refusal says. Labels and their ids.
#include "base/files.h"
#include "engine/data/labels/labels.h"
#include "engine/data/tables/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ft_status parse_bytes(const char *content, size_t length, const char *text, const char *label, const char *id,
                             ft_table_label need, ft_table *table) {
    char *data = malloc(length + 1); // exactly what the contract asks for, so that the sanitizer sees one byte too many
    assert_non_null(data);
    memcpy(data, content, length);
    data[length] = 'x';
    const ft_table_request request = {.text = text, .label = label, .id = id, .need = need};
    return ft_table_parse(data, length, SIZE_MAX / 4, "t.tsv", &request, table);
}

static ft_status parse(const char *content, const char *text, const char *label, ft_table_label need, ft_table *table) {
    return parse_bytes(content, strlen(content), text, label, NULL, need, table);
}

static ft_table usual(const char *content) {
    ft_table table;
    ft_status status = parse(content, "", "", FT_LABEL_REQUIRED, &table);
    if (status != FT_OK) print_message("%s\n", ft_error_message());
    assert_int_equal(status, FT_OK);
    return table;
}

static ft_status read_file(const char *path, const char *label, ft_table *table) {
    return ft_table_read(path, &(ft_table_request){.text = "", .label = label}, table);
}

static bool hinted(const char *text) {
    for (int i = 0; i < ft_error_hint_count(); i++)
        if (strstr(ft_error_hint(i), text) != NULL) return true;
    return false;
}

static void refused(const char *content, const char *text, const char *label, ft_table_label need, const char *where,
                    const char *message, const char *hint) {
    ft_table table;
    ft_error_clear();
    assert_int_equal(parse(content, text, label, need, &table), FT_INVALID);
    assert_string_equal(ft_error_where(), where);
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s, not %s", ft_error_message(), message);
    if (hint != NULL && !hinted(hint)) fail_msg("%s: no hint %s", ft_error_message(), hint);
    assert_null(table.data);
}

static void check_three(ft_table table) {
    assert_int_equal(table.rows, 3);
    assert_string_equal(table.text[0], "a b");
    assert_string_equal(table.text[1], "\"quoted\" \"text");
    assert_string_equal(table.text[2], "");
    assert_int_equal(table.text_length[1], 14);
    assert_int_equal(table.text_length[2], 0);
    assert_string_equal(table.label[0], "x");
    assert_string_equal(table.label[2], "z z");
    assert_string_equal(table.text_column, "sentence");
    assert_string_equal(table.label_column, "label");
    assert_null(table.id);
    ft_table_free(&table);
    ft_table_free(&table);
}

static void line_ends(void **state) {
    check_three(usual("sentence\tlabel\na b\tx\n\"quoted\" \"text\ty\n\tz z\n"));
    check_three(usual("sentence\tlabel\na b\tx\n\"quoted\" \"text\ty\n\tz z"));
    check_three(usual("sentence\tlabel\r\na b\tx\r\n\"quoted\" \"text\ty\r\n\tz z\r\n"));
    check_three(usual("sentence\tlabel\r\na b\tx\r\n\"quoted\" \"text\ty\r\n\tz z"));
    check_three(usual("\xEF\xBB\xBFsentence\tlabel\na b\tx\n\"quoted\" \"text\ty\n\tz z\n"));
    check_three(usual("sentence\tlabel\na b\tx\n\"quoted\" \"text\ty\n\tz z\n\n\n"));
    check_three(usual("sentence\tlabel\r\na b\tx\n\"quoted\" \"text\ty\r\n\tz z\r\n\r\n\n"));
    check_three(usual("label\tidx\t sentence \nx\t1\ta b\ny\t2\t\"quoted\" \"text\nz z\t3\t\n"));
}

// With one column an empty line is an empty text: dropping it would shift the rows of predictions.
static void one_column(void **state) {
    ft_table table;
    assert_int_equal(parse("text\n\nb\n\n", "", "", FT_LABEL_IGNORED, &table), FT_OK);
    assert_int_equal(table.rows, 3);
    assert_string_equal(table.text[1], "b");
    assert_int_equal(table.text_length[0] + table.text_length[2], 0);
    assert_null(table.label);
    ft_table_free(&table);
}

static void bytes_in_texts_are_kept(void **state) {
    const char content[] = "text\tlabel\na\0b\rc \t0\n\0\t1\n\xFF\xC3 \xC3\xA4\t2\n"; // one valid character: it is UTF-8
    ft_table table;
    assert_int_equal(parse_bytes(content, sizeof content - 1, "", "", NULL, FT_LABEL_REQUIRED, &table), FT_OK);
    assert_int_equal(table.rows, 3);
    assert_int_equal(table.text_length[0], 6);
    assert_memory_equal(table.text[0], "a\0b\rc ", 7);
    assert_int_equal(table.text_length[1], 1);
    assert_memory_equal(table.text[1], "\0", 2);
    assert_string_equal(table.text[2], "\xFF\xC3 \xC3\xA4");
    assert_string_equal(table.label[2], "2");
    char hex[65];
    assert_int_equal(ft_sha256(content, sizeof content - 1, hex), FT_OK);
    assert_string_equal(table.sha256, hex); // of the file, not of what parsing left of it
    ft_table_free(&table);
}

static void found(const char *header, const char *text, const char *label, ft_table_label need, const char *text_found,
                  const char *label_found) {
    char content[256];
    snprintf(content, sizeof content, "%s\n1\t2\t3\n", header);
    ft_table table;
    assert_int_equal(parse(content, text, label, need, &table), FT_OK);
    assert_string_equal(table.text_column, text_found);
    if (label_found == NULL)
        assert_null(table.label_column);
    else
        assert_string_equal(table.label_column, label_found);
    assert_int_equal(table.label != NULL, label_found != NULL);
    ft_table_free(&table);
}

static void columns(void **state) {
    found("id\tReview\tCategory", "", "", FT_LABEL_REQUIRED, "Review", "Category");
    found("title\tlabel\ttext", "title", "", FT_LABEL_REQUIRED, "title", "label");
    found("a\tb\tc", "c", "a", FT_LABEL_REQUIRED, "c", "a");
    found("text\tlabel\tc", "c", "text", FT_LABEL_REQUIRED, "c", "text");
    found("text\tlabel\tsentence", "", "sentence", FT_LABEL_REQUIRED, "text", "sentence"); // named ones are taken
    found("text\tlabel\tc", "", "", FT_LABEL_IGNORED, "text", NULL);
    found("text\tb\tc", "", "", FT_LABEL_OPTIONAL, "text", NULL);
    found("text\tb\tc", "", "nothere", FT_LABEL_OPTIONAL, "text", NULL);
    found("text\tb\tc", "", "b", FT_LABEL_OPTIONAL, "text", "b");
    found("text\tb\tb", "", "", FT_LABEL_OPTIONAL, "text", NULL); // a name that is not used may stand twice
    // Two that could be meant are a question.
    const ft_table_label need = FT_LABEL_REQUIRED;
    refused("question\tsentence\tlabel\n1\t2\t3\n", "", "", need, "t.tsv:1", "\"question\" or \"sentence\"", "data.text_column=question");
    refused("title\tlabel\ttext\n1\t2\t3\n", "", "", need, "t.tsv:1", "\"title\" or \"text\"", "data.text_column=text");
    refused("text\tlabel\trating\n1\t2\t3\n", "", "", need, "t.tsv:1", "\"label\" or \"rating\"", "data.label_column=rating");
}

static void ids(void **state) {
    const char content[] = "guid\ttext\tkey\nA\tt\tB\n";
    ft_table table;
    assert_int_equal(parse_bytes(content, sizeof content - 1, "", "", "key", FT_LABEL_IGNORED, &table), FT_OK);
    assert_string_equal(table.id[0], "B");
    ft_table_free(&table);
    assert_int_equal(parse_bytes(content, sizeof content - 1, "", "", "", FT_LABEL_IGNORED, &table), FT_OK);
    assert_string_equal(table.id[0], "A");
    ft_table_free(&table);
    assert_int_equal(parse_bytes(content, sizeof content - 1, "", "", "kay", FT_LABEL_IGNORED, &table), FT_INVALID);
    assert_true(hinted("\"key\""));
    assert_int_equal(parse_bytes("text\nx\n", 7, "", "", "", FT_LABEL_IGNORED, &table), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "no id column"));
}

static void optional_labels(void **state) {
    ft_table table;
    assert_int_equal(parse("text\tlabel\na\t\nb\t\n", "", "", FT_LABEL_OPTIONAL, &table), FT_OK);
    assert_null(table.label);
    assert_null(table.label_column);
    ft_table_free(&table);
    // Lists of labels, which only JSON has, are told by this character: one here would let empty labels pass.
    refused("text\tlabel\na\tx\x1f\nb\t\n", "", "", FT_LABEL_REQUIRED, "t.tsv:2:3", "the control character 0x1F in the label", NULL);
    refused("text\tlabel\na\tx\nb\t\n", "", "", FT_LABEL_OPTIONAL, "t.tsv:3", "label is empty", NULL);
}

static void refusals(void **state) {
    const ft_table_label need = FT_LABEL_REQUIRED;
    refused("", "", "", need, "t.tsv:1", "empty", NULL);
    refused("\xEF\xBB\xBF", "", "", need, "t.tsv:1", "empty", NULL);
    refused("\n", "", "", need, "t.tsv:1", "no header", NULL);
    refused(" \t\na\tb\n", "", "", need, "t.tsv:1", "no header", NULL);
    refused("text\tlabel\n", "", "", need, "t.tsv:2", "no rows", NULL);
    refused("text\tlabel", "", "", need, "t.tsv:2", "no rows", NULL);
    refused("text\tlabel\n\n\r\n\n", "", "", need, "t.tsv:2", "no rows", NULL);
    refused("text\tlabel\na\tb\nc\n", "", "", need, "t.tsv:3:2", "this line has 1 column, the header has 2", NULL);
    refused("text\tlabel\na\tb\tc\n", "", "", need, "t.tsv:2:5", "this line has 3 columns, the header has 2", "quotes");
    refused("text\tlabel\na\tb\n\nc\td\n", "", "", need, "t.tsv:3:1", "this line has 1 column", NULL);
    refused("text\tlabel\na\tb\n\t\n", "", "", need, "t.tsv:3", "label is empty", NULL);
    refused("text\tlabel\na\t\nc\t\n", "", "", need, "t.tsv:2", "label is empty", NULL);
    refused("sentence\tlabel\na\tb\n", "sentense", "", need, "t.tsv:1", "no column \"sentense\" for the text",
            "did you mean \"sentence\"");
    refused("sentence\tlabel\na\tb\n", "qqqqqq", "", need, "t.tsv:1", "no column", "2 columns: sentence, label");
    refused("sentence\tlabel\na\tb\n", "", "labl", need, "t.tsv:1", "for the label", "did you mean \"label\"");
    refused("some text here\t1\nmore\t0\n", "", "", need, "t.tsv:1", "no text column", "data.text_column");
    refused("some text here\t1\nmore\t0\n", "", "", need, "t.tsv:1", "no text column", "some text here, 1");
    refused("text\twhat\na\tb\n", "", "", need, "t.tsv:1", "no label column", "data.label_column");
    refused("text,label\na,b\n", "", "", need, "t.tsv:1", "no text column", "tabs");
    refused("text\tlabel\tlabel\na\tb\tc\n", "", "", need, "t.tsv:1", "two columns are named \"label\"", NULL);
    refused("text\tlabel\na\tb\n", "text", "text", need, "t.tsv:1", "same column", NULL);
    refused("text\tlabel\ra\tb\rc\td\r", "", "", need, "t.tsv:1", "carriage return", NULL);
    refused("\xFF\xFEt", "", "", need, "t.tsv", "UTF-16", NULL);

    ft_table table;
    const char in_label[] = "text\tlabel\na\tb\0c\n", in_header[] = "text\tlab\0el\na\tb\n",
               in_id[] = "text\tid\na\t\0\n";
    assert_int_equal(parse_bytes(in_label, sizeof in_label - 1, "", "", NULL, need, &table), FT_INVALID);
    assert_string_equal(ft_error_where(), "t.tsv:2:3");
    assert_non_null(strstr(ft_error_message(), "NUL"));
    assert_int_equal(parse_bytes(in_header, sizeof in_header - 1, "", "", NULL, need, &table), FT_INVALID);
    assert_int_equal(parse_bytes(in_id, sizeof in_id - 1, "", "", "id", FT_LABEL_IGNORED, &table), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "the id"));
}

// A file that is no text must not send its control characters to a terminal, and a long header must not flood it.
static void header_listing_is_safe(void **state) {
    char content[4000] = "a\x1B[2J";
    for (int i = 0; i < 300; i++)
        sprintf(content + strlen(content), "\tcolumn%d", i);
    strcat(content, "\nx\n");
    ft_table table;
    assert_int_equal(parse(content, "", "", FT_LABEL_REQUIRED, &table), FT_INVALID);
    assert_int_equal(parse(content, "a", "", FT_LABEL_REQUIRED, &table), FT_INVALID);
    assert_true(hinted("301 columns: a?[2J, column0"));
    assert_true(hinted("..."));
}

static void files(void **state) {
    char path[] = "/tmp/test_table_XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    const char content[] = "sentence\tlabel\na\tb\n";
    assert_int_equal(write(descriptor, content, strlen(content)), (ssize_t)strlen(content));
    close(descriptor);
    ft_table table;
    assert_int_equal(read_file(path, "", &table), FT_OK);
    assert_string_equal(table.text[0], "a");
    ft_table_free(&table);
    assert_int_equal(read_file(path, "nothere", &table), FT_INVALID);
    char where[64];
    snprintf(where, sizeof where, "%s:1", path);
    assert_string_equal(ft_error_where(), where);
    unlink(path);
    assert_int_equal(read_file(path, "", &table), FT_INVALID);
    assert_true(strstr(ft_error_message(), path) != NULL || strstr(ft_error_where(), path) != NULL);
    ft_table_free(&table); // {0} after a failure
    assert_int_equal(read_file("/tmp", "", &table), FT_INVALID);
}

// Longer than one chunk, through a pipe.
static void standard_input(void **state) {
    enum { ROWS = 30000 };
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs("text\tlabel\n", file);
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "text number %d\t%d\n", i, i % 3);
    rewind(file);
    fflush(file);
    int saved = dup(STDIN_FILENO);
    assert_true(dup2(fileno(file), STDIN_FILENO) >= 0);
    ft_table table;
    assert_int_equal(read_file("-", "", &table), FT_OK);
    assert_int_equal(table.rows, ROWS);
    assert_string_equal(table.text[ROWS - 1], "text number 29999");
    assert_string_equal(table.label[ROWS - 1], "2");
    ft_table_free(&table);
    clearerr(stdin);
    ft_error_clear();
    assert_int_equal(read_file("-", "", &table), FT_INVALID); // at its end: empty
    assert_string_equal(ft_error_where(), "<stdin>:1");
    assert_true(dup2(saved, STDIN_FILENO) >= 0);
    close(saved);
    fclose(file);
}

// ---- labels -------------------------------------------------------------------------------------------------------

// `given`: labels separated by blanks, one a row.
static ft_table labelled(const char *given) {
    char content[512] = "text\tlabel\n";
    for (const char *at = given; *at != '\0';) {
        size_t width = strcspn(at, " ");
        sprintf(content + strlen(content), "t\t%.*s\n", (int)width, at);
        at += width + strspn(at + width, " ");
    }
    return usual(content);
}

static void check_labels(const char *given, const char *expected, int missing) {
    ft_table table = labelled(given);
    ft_arena arena = {0};
    ft_labels labels;
    assert_int_equal(ft_labels_from_table(&table, &arena, &labels), FT_OK);
    ft_table_free(&table); // the names must not point into it
    char joined[512] = "";
    for (int i = 0; i < labels.count; i++)
        sprintf(joined + strlen(joined), "%s%s", i ? " " : "", labels.names[i]);
    assert_string_equal(joined, expected);
    assert_int_equal(labels.missing, missing);
    ft_arena_free(&arena);
}

static void classes(void **state) {
    check_labels("1 0 1", "0 1", 0);
    check_labels("2 1 0 11 3 4 5 6 7 8 9 10", "0 1 2 3 4 5 6 7 8 9 10 11", 0); // by number, not by bytes
    check_labels("0", "0", 0);
    check_labels("4 0 1 2 4", "0 1 2 3 4", 1); // 3 exists without an example
    check_labels("4 0", "0 4", 0);             // too few of 0..4: these are names
    check_labels("1 2 3", "1 2 3", 0);         // does not start at 0: names, ids 0..2
    check_labels("0 1 -1", "-1 0 1", 0);
    check_labels("00 1 0", "0 00 1", 0);
    check_labels("0 1.0", "0 1", 0); // a data frame wrote it
    check_labels("0.0 1.00 1 2.0", "0 1 2", 0);
    check_labels("-1.0 1.0", "-1 1", 0);
    check_labels("1.0 1.1 2.0", "1.0 1.1 2.0", 0); // versions, say
    check_labels("1.0 x", "1.0 x", 0);
    check_labels("0 99999999999999999999", "0 99999999999999999999", 0);
    check_labels("pos neg pos Neg", "Neg neg pos", 0);
    check_labels("b \xC3\xA4 a", "a b \xC3\xA4", 0); // unsigned bytes

    ft_table unlabelled;
    assert_int_equal(parse("text\na\n", "", "", FT_LABEL_OPTIONAL, &unlabelled), FT_OK);
    ft_labels labels;
    ft_arena arena = {0};
    assert_int_equal(ft_labels_from_table(&unlabelled, &arena, &labels), FT_INVALID);
    ft_table_free(&unlabelled);
}

static void label_ids(void **state) {
    const char *names[] = {"positive", "negative", "neutral"}; // as a model's configuration may have them: not sorted
    const ft_labels labels = {.count = 3, .names = names};
    ft_table table = labelled("neutral positive negative positive");
    int32_t id[4];
    assert_int_equal(ft_labels_assign(&labels, &table, "v.tsv", id), FT_OK);
    assert_memory_equal(id, ((const int32_t[]){2, 0, 1, 0}), sizeof id);
    ft_table_free(&table);

    const char *digits[] = {"0", "1"};
    table = labelled("1.0 0 0.00 1");
    assert_int_equal(ft_labels_assign(&(ft_labels){.count = 2, .names = digits}, &table, "v.tsv", id), FT_OK);
    assert_memory_equal(id, ((const int32_t[]){1, 0, 0, 1}), sizeof id);
    ft_table_free(&table);

    table = labelled("neutral negativ positive");
    ft_error_clear();
    assert_int_equal(ft_labels_assign(&labels, &table, "v.tsv", id), FT_INVALID);
    assert_string_equal(ft_error_where(), "v.tsv:3");
    assert_non_null(strstr(ft_error_message(), "unknown label \"negativ\""));
    assert_true(hinted("did you mean \"negative\"?"));
    assert_true(hinted("positive, negative, neutral"));
    ft_table_free(&table);

    // Numbers are not ids of named classes: nobody said in which order.
    table = labelled("0");
    assert_int_equal(ft_labels_assign(&labels, &table, "-", id), FT_INVALID);
    assert_string_equal(ft_error_where(), "<stdin>:2");
    ft_table_free(&table);
}

// What labels.h says of a look-up, name by name: as it stands, else a whole number without its ".0", else a number that is an id; of names
// that are twice there the first.
static int looked_for(const ft_labels *labels, const char *label, const char *short_form, int number) {
    for (int i = 0; i < labels->count; i++)
        if (strcmp(labels->names[i], label) == 0) return i;
    for (int i = 0; i < labels->count && short_form != NULL; i++)
        if (strcmp(labels->names[i], short_form) == 0) return i;
    return number >= 0 && number < labels->count ? number : -1;
}

// Catches: an order that the search does not share with the sort (names that begin others, bytes above 127), a twin that has another id.
static void look_ups_among_many(void **state) {
    enum { MOST = 400 };
    static const char *const odd[] = {"", "a", "aa", "a\xC3\xA4", "\xC3\xA4", "b", "a", "1.0", "1", "7", "-3", "007", "12.0"};
    enum { ODD = sizeof odd / sizeof odd[0] };
    char made[MOST][16];
    const char *names[MOST];
    for (int count = 1; count <= MOST; count += count < 40 ? 1 : 60) {
        const ft_labels labels = {.count = count, .names = names};
        for (int i = 0; i < count; i++) {
            snprintf(made[i], sizeof made[i], "c%d", (int)((unsigned)i * 7919 % 1009));
            names[i] = i % 3 == 0 ? odd[i / 3 % ODD] : made[i];
        }
        ft_label_index index;
        assert_int_equal(ft_label_index_make(&labels, &index), FT_OK);
        for (int i = 0; i < count; i++) assert_int_equal(ft_label_index_find(&index, names[i]), looked_for(&labels, names[i], NULL, -1));
        for (size_t i = 0; i < ODD; i++) assert_int_equal(ft_label_index_find(&index, odd[i]), looked_for(&labels, odd[i], i == 7 ? "1" : i == 12 ? "12" : NULL, -1));
        assert_int_equal(ft_label_index_find(&index, "7.00"), looked_for(&labels, "7.00", "7", -1));
        assert_int_equal(ft_label_index_find(&index, "c"), -1);
        assert_int_equal(ft_label_index_find(&index, "5"), -1); // these have names
        ft_label_index_free(&index);
    }
    for (int i = 0; i < MOST; i++) {
        snprintf(made[i], sizeof made[i], "LABEL_%d", i);
        names[i] = made[i];
    }
    const ft_labels placeholders = {.count = MOST, .names = names};
    ft_label_index index;
    assert_int_equal(ft_label_index_make(&placeholders, &index), FT_OK);
    assert_int_equal(ft_label_index_find(&index, "LABEL_399"), 399);
    assert_int_equal(ft_label_index_find(&index, "399"), 399);
    assert_int_equal(ft_label_index_find(&index, "400"), -1);
    assert_int_equal(ft_label_index_find(&index, "07"), -1);
    ft_label_index_free(&index);
    ft_label_index_free(&index);
}

static void check_both(const char *train, const char *other, const char *expected, int missing) {
    ft_table first = labelled(train), second = labelled(other);
    ft_arena arena = {0};
    ft_labels labels;
    assert_int_equal(ft_labels_from_tables(&first, &second, "v.tsv", &arena, &labels), FT_OK);
    ft_table_free(&first);
    ft_table_free(&second);
    char joined[512] = "";
    for (int i = 0; i < labels.count; i++)
        sprintf(joined + strlen(joined), "%s%s", i ? " " : "", labels.names[i]);
    assert_string_equal(joined, expected);
    assert_int_equal(labels.missing, missing);
    ft_arena_free(&arena);
}

static void classes_of_two_tables(void **state) {
    check_both("b a", "a", "a b", 0);
    check_both("b a", "zebra a", "a b zebra", 1);
    check_both("0 1 2", "3 1.0", "0 1 2 3", 1);
    check_both("group1 group2", "group3", "group1 group2 group3", 1); // digits are no slips of the pen
    ft_table train = labelled("travel food"), validation = labelled("food travle");
    ft_arena arena = {0};
    ft_labels labels;
    assert_int_equal(ft_labels_from_tables(&train, &validation, "v.tsv", &arena, &labels), FT_INVALID);
    assert_string_equal(ft_error_where(), "v.tsv:3");
    assert_true(hinted("\"travel\""));
    ft_arena_free(&arena);
    ft_table_free(&train);
    ft_table_free(&validation);
}

static void placeholder_names(void **state) {
    const char *names[] = {"LABEL_0", "LABEL_1"};
    const ft_labels labels = {.count = 2, .names = names};
    ft_table table = labelled("1 LABEL_0 LABEL_1 0");
    int32_t id[4];
    assert_int_equal(ft_labels_assign(&labels, &table, "v.tsv", id), FT_OK);
    assert_memory_equal(id, ((const int32_t[]){1, 0, 1, 0}), sizeof id);
    ft_table_free(&table);
    table = labelled("1 2");
    assert_int_equal(ft_labels_assign(&labels, &table, "v.tsv", id), FT_INVALID);
    assert_string_equal(ft_error_where(), "v.tsv:3");
    ft_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends),
        cmocka_unit_test(one_column),
        cmocka_unit_test(bytes_in_texts_are_kept),
        cmocka_unit_test(columns),
        cmocka_unit_test(ids),
        cmocka_unit_test(optional_labels),
        cmocka_unit_test(refusals),
        cmocka_unit_test(header_listing_is_safe),
        cmocka_unit_test(files),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(classes),
        cmocka_unit_test(label_ids),
        cmocka_unit_test(classes_of_two_tables),
        cmocka_unit_test(placeholder_names),
        cmocka_unit_test(look_ups_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
