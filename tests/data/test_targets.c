// Labels that are no single class: every form of several classes, numbers, and what each refusal says.
#include "base/spill.h"
#include "engine/data/labels/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_table table_of(const char *name, const char *content, const char *label) {
    size_t length = strlen(content);
    char *data = malloc(length + 1);
    assert_non_null(data);
    memcpy(data, content, length);
    ft_table table;
    const ft_table_request request = {.text = "", .label = label, .empty_labels = true};
    if (ft_table_parse(data, length, length, name, &request, &table) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    return table;
}

// Numbers, or sets of classes written out.
static ft_status assign(const ft_labels *labels, const ft_table *table, float *target) {
    if (labels->kind == FT_LABELS_NUMBERS) return ft_targets_assign(labels, table, "t", target);
    ft_label_sets sets;
    ft_status status = ft_targets_assign_sets(labels, table, "t", &sets);
    for (int64_t row = 0; status == FT_OK && row < table->rows; row++)
        for (int64_t at = sets.first[row]; at < sets.first[row + 1]; at++) {
            if (at > sets.first[row]) assert_true(sets.label[at] > sets.label[at - 1]); // ascending, none twice
            target[row * labels->count + sets.label[at]] = 1;
        }
    ft_spill_free(sets.first);
    ft_spill_free(sets.label);
    return status;
}

static void check(ft_table table, ft_label_kind kind, const char *names, const float *expected) {
    ft_arena arena = {0};
    ft_labels labels = {.kind = kind, .separator = ","};
    if (ft_targets_labels(&table, NULL, &arena, &labels) != FT_OK) fail_msg("%s", ft_error_message());
    assert_int_equal(labels.kind, kind);
    char joined[200] = "";
    for (int i = 0; i < labels.count; i++) sprintf(joined + strlen(joined), "%s%s", i ? " " : "", labels.names[i]);
    assert_string_equal(joined, names);
    size_t values = (size_t)table.rows * (size_t)labels.count;
    float *target = calloc(values, sizeof *target);
    assert_non_null(target);
    if (assign(&labels, &table, target) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    for (size_t i = 0; i < values; i++)
        if (target[i] != expected[i]) fail_msg("target %zu is %g, not %g", i, (double)target[i], (double)expected[i]);
    free(target);
    ft_table_free(&table);
    ft_arena_free(&arena);
}

static void several_classes(void **state) {
    const ft_label_kind m = FT_LABELS_CLASSES;
    // One column; empty is none, order and blanks do not matter, twice is once.
    check(table_of("t.tsv", "text\tlabel\na\tx,y\nb\t\nc\t z , x,x\n", ""), m, "x y z", (float[]){1, 1, 0, 0, 0, 0, 1, 0, 1});
    check(table_of("t.tsv", "text\tlabel\na\t1.0,0\nb\t2\n", ""), m, "0 1 2", (float[]){1, 1, 0, 0, 0, 1});
    // JSON lists of names; commas and blanks are part of them. A list of one, an empty one, and a single string.
    check(table_of("t.jsonl", "{\"text\":\"a\",\"label\":[\"x, y\",\"z\"]}\n{\"text\":\"b\",\"label\":[]}\n{\"text\":\"c\",\"label\":[\"z\"]}\n", ""), m,
          "x, y z", (float[]){1, 1, 0, 0, 0, 1});
    check(table_of("t.jsonl", "{\"text\":\"a\",\"label\":[0,2]}\n{\"text\":\"b\",\"label\":[1]}\n", ""), m, "0 1 2", (float[]){1, 0, 1, 0, 1, 0});
    // Lists of 0 and 1
    check(table_of("t.jsonl", "{\"text\":\"a\",\"label\":[0,1,1]}\n{\"text\":\"b\",\"label\":[1.0,0.0,false]}\n", ""), m, "0 1 2",
          (float[]){0, 1, 1, 1, 0, 0});
    // Columns, in their order
    check(table_of("t.csv", "text,toxic,insult\na,1,0\nb,0.0,true\n", "toxic, insult"), m, "toxic insult", (float[]){1, 0, 0, 1});
    check(table_of("t.csv", "text,toxic,insult\na,1,0\nb,0,1\n", "insult, toxic"), m, "insult toxic", (float[]){0, 1, 1, 0});
}

static void numbers(void **state) {
    const ft_label_kind r = FT_LABELS_NUMBERS;
    check(table_of("t.tsv", "text\trating\na\t3.5\nb\t-1e2\n", "rating"), r, "rating", (float[]){3.5f, -100});
    check(table_of("t.csv", "text,x,y\na,1,2\nb,3,4.25\n", "y, x"), r, "y x", (float[]){2, 1, 4.25f, 3});
    check(table_of("t.jsonl", "{\"text\":\"a\",\"label\":[1,2.5]}\n{\"text\":\"b\",\"label\":[0,1]}\n", ""), r, "0 1", (float[]){1, 2.5f, 0, 1});
    check(table_of("t.csv", "text;rating\na;3,5\nb;-0,25\nc;4\nd;1.5\n", ""), r, "rating", (float[]){3.5f, -0.25f, 4, 1.5f});
    check(table_of("t.csv", "text;x;y\na;1,5;2\nb;3;4,25\n", "x, y"), r, "x y", (float[]){1.5f, 2, 3, 4.25f});
    check(table_of("t.jsonl", "{\"text\":\"a\",\"label\":0.5}\n", ""), r, "label", (float[]){0.5f});
}

static void refused(ft_table table, const ft_labels *labels, const char *where, const char *message) {
    float target[64] = {0};
    ft_error_clear();
    assert_int_equal(assign(labels, &table, target), FT_INVALID);
    assert_string_equal(ft_error_where(), where);
    if (strstr(ft_error_message(), message) == NULL) fail_msg("%s, not %s", ft_error_message(), message);
    ft_table_free(&table);
}

static void refusals(void **state) {
    const char *names[] = {"x", "yes"};
    ft_labels m = {.count = 2, .names = names, .kind = FT_LABELS_CLASSES, .separator = ","}, r = m;
    r.kind = FT_LABELS_NUMBERS;
    refused(table_of("t.tsv", "text\tlabel\na\tx\nb\tx,yess\n", ""), &m, "t:3", "unknown label \"yess\"");
    assert_string_equal(ft_error_hint(0), "did you mean \"yes\"?");
    refused(table_of("t.csv", "text,x,yes\na,1,0\nb,1,2\n", "x, yes"), &m, "t:3", "\"2\" is neither 0 nor 1");
    refused(table_of("t.csv", "text,x,yes,no\na,1,0,1\n", "x, yes, no"), &m, "t:2", "3 targets, there are 2");
    refused(table_of("t.tsv", "text\tlabel\na\t1\n", ""), &r, "t:2", "1 target, there are 2");
    refused(table_of("t.jsonl", "{\"text\":\"a\",\"label\":[1,2,3]}\n", ""), &r, "t:1", "3 targets, there are 2");
    r.count = 1;
    refused(table_of("t.tsv", "text\tlabel\na\t3,5\n", ""), &r, "t:2", "\"3,5\" is no number");
    assert_non_null(strstr(ft_error_hint(0), "point"));
    refused(table_of("t.csv", "text,label\na,\"3,5\"\n", ""), &r, "t:2", "\"3,5\" is no number");
    refused(table_of("t.csv", "text;label\na;1.234,5\n", ""), &r, "t:2", "\"1.234,5\" is no number");
    refused(table_of("t.csv", "text;label\na;1,234,5\n", ""), &r, "t:2", "\"1,234,5\" is no number");
    refused(table_of("t.csv", "text;label\na;,\n", ""), &r, "t:2", "is no number");
    refused(table_of("t.jsonl", "{\"text\":\"a;b\",\"label\":\"3,5\"}\n", ""), &r, "t:1", "is no number");
    refused(table_of("t.tsv", "text\tlabel\na\tnan\n", ""), &r, "t:2", "no number");
    refused(table_of("t.tsv", "text\tlabel\na\t\n", ""), &r, "t:2", "no number");
    refused(table_of("t.tsv", "text\tlabel\na\t1e99\n", ""), &r, "t:2", "no number");

    ft_table none = table_of("t.tsv", "text\tlabel\na\t\nb\t\n", "");
    ft_arena arena = {0};
    ft_labels labels = {.kind = FT_LABELS_CLASSES, .separator = ","};
    assert_int_equal(ft_targets_labels(&none, NULL, &arena, &labels), FT_INVALID);
    ft_table_free(&none);
    ft_arena_free(&arena);
}

// Classes of the validation file count, another separator separates.
static void two_tables(void **state) {
    ft_table train = table_of("t.tsv", "text\tlabel\na\tx|y, z\n", ""), other = table_of("t.tsv", "text\tlabel\na\tw|x\n", "");
    ft_arena arena = {0};
    ft_labels labels = {.kind = FT_LABELS_CLASSES, .separator = "|"};
    assert_int_equal(ft_targets_labels(&train, &other, &arena, &labels), FT_OK);
    assert_int_equal(labels.count, 3);
    assert_string_equal(labels.names[0], "w");
    assert_string_equal(labels.names[2], "y, z");
    labels = (ft_labels){.kind = FT_LABELS_CLASSES, .separator = ""}; // nothing separates anything; it had no end
    assert_int_equal(ft_targets_labels(&train, &other, &arena, &labels), FT_OK);
    assert_int_equal(labels.count, 2);
    assert_string_equal(labels.names[1], "x|y, z");
    ft_table_free(&train);
    ft_table_free(&other);
    ft_arena_free(&arena);
}

// Classes of a row in any order, some of them twice, among thousands: ascending and once, row by row.
static void many_classes(void **state) {
    enum { CLASSES = 3000, ROWS = 200, MEMBERS = 9 };
    char *content = malloc((size_t)CLASSES * 16 + (size_t)ROWS * MEMBERS * 16), *at = content;
    static const char *names[CLASSES];
    static char name[CLASSES][8];
    assert_non_null(content);
    at += sprintf(at, "text\tlabel\n");
    for (int row = 0; row < ROWS; row++) {
        at += sprintf(at, "t\t");
        for (int k = 0; k < row % (MEMBERS + 1); k++) at += sprintf(at, "%sc%d", k > 0 ? "," : "", (row * 37 + (k * k) % 7 * 911) % CLASSES);
        *at++ = '\n';
    }
    *at = '\0';
    for (int i = 0; i < CLASSES; i++) {
        snprintf(name[i], sizeof name[i], "c%d", (i + 1234) % CLASSES);
        names[i] = name[i];
    }
    ft_table table = table_of("t.tsv", content, "");
    const ft_labels labels = {.count = CLASSES, .names = names, .kind = FT_LABELS_CLASSES, .separator = ","};
    ft_label_sets sets;
    assert_int_equal(ft_targets_assign_sets(&labels, &table, "t", &sets), FT_OK);
    for (int row = 0; row < ROWS; row++) {
        bool expected[CLASSES] = {false};
        int64_t count = 0;
        for (int k = 0; k < row % (MEMBERS + 1); k++) {
            bool *one = &expected[((row * 37 + (k * k) % 7 * 911) % CLASSES + CLASSES - 1234) % CLASSES];
            count += !*one;
            *one = true;
        }
        assert_int_equal(sets.first[row + 1] - sets.first[row], count);
        for (int64_t i = sets.first[row]; i < sets.first[row + 1]; i++) {
            assert_true(expected[sets.label[i]]);
            assert_true(i == sets.first[row] || sets.label[i] > sets.label[i - 1]);
        }
    }
    ft_spill_free(sets.first);
    ft_spill_free(sets.label);
    ft_table_free(&table);
    free(content);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(several_classes), cmocka_unit_test(numbers), cmocka_unit_test(refusals),
                                       cmocka_unit_test(two_tables), cmocka_unit_test(many_classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
