// Pickles: what the instructions make, and that whatever is not plain data is refused with its byte, and nothing else.
#include "engine/files/pickle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_arena arena;
static const ft_pickle_value *value;
static size_t end;

static bool allowed(void *context, const char *name) {
    return strcmp(name, "m.f") == 0 || strcmp(name, "collections.OrderedDict") == 0;
}

static ft_status read_bytes(const char *bytes, size_t size) {
    ft_arena_free(&arena);
    unsigned char *exact = malloc(size + (size == 0)); // of the exact size, so that a sanitizer sees a step beyond it
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    end = 0;
    ft_status status = ft_pickle_read(exact, size, &end, "f.bin: data.pkl", allowed, NULL, &arena, &value);
    free(exact); // texts in the values are not looked at after this
    return status;
}

static void read_whole(const char *bytes, size_t size) {
    if (read_bytes(bytes, size) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    assert_int_equal(end, size);
}
#define READ(literal) read_whole(literal, sizeof literal - 1)

static void refused(const char *bytes, size_t size, const char *what, int byte) {
    char where[64];
    assert_int_equal(read_bytes(bytes, size), FT_INVALID);
    assert_null(value);
    snprintf(where, sizeof where, "f.bin: data.pkl, byte %d", byte);
    if (strstr(ft_error_message(), what) == NULL) fail_msg("\"%s\" does not say \"%s\"", ft_error_message(), what);
    assert_string_equal(ft_error_where(), where);
}
#define REFUSED(literal, what, byte) refused(literal, sizeof literal - 1, what, byte)

static void number(int64_t want) {
    assert_int_equal(value->kind, FT_PICKLE_INT);
    assert_true(value->number == want);
}

static void test_numbers(void **state) {
    READ("K\xFF."), number(255);
    READ("M\x01\x80."), number(0x8001);
    READ("J\xFE\xFF\xFF\xFF."), number(-2);
    READ("\x8a\x00."), number(0);
    READ("\x8a\x01\xFF."), number(-1);
    READ("\x8a\x02\xFF\x00."), number(255);
    READ("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), number(INT64_MIN);
    READ("\x8b\x02\x00\x00\x00\x00\x01."), number(256);
    READ("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), assert_int_equal(value->kind, FT_PICKLE_BIG);
    assert_int_equal(value->length, 9);
    READ("G\xC0\x04\x00\x00\x00\x00\x00\x00."), assert_true(value->kind == FT_PICKLE_REAL && value->real == -2.5);
    READ("\x80\x02N."), assert_int_equal(value->kind, FT_PICKLE_NONE);
    READ("\x88."), assert_true(value->kind == FT_PICKLE_BOOL && value->number == 1);
    READ("\x89."), assert_true(value->kind == FT_PICKLE_BOOL && value->number == 0);
}

static void test_groups(void **state) {
    READ("(K\x01K\x02K\x03t."), assert_int_equal(value->count, 3);
    assert_true(value->kind == FT_PICKLE_TUPLE && value->items[2]->number == 3);
    READ("K\x01K\x02\x86."), assert_true(value->count == 2 && value->items[0]->number == 1);
    READ("]K\x01"
         "a(K\x02K\x03K\x04K\x05K\x06"
         "e."),
        assert_int_equal(value->count, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(value->items[i]->number, i + 1);
    READ("}X\x01\x00\x00\x00"
         "aK\x07s."),
        assert_true(value->kind == FT_PICKLE_DICT && value->count == 2);
    assert_true(value->items[0]->length == 1 && value->items[1]->number == 7);
    READ("(K\x01K\x02"
         "d."),
        assert_true(value->kind == FT_PICKLE_DICT && value->count == 2);
    READ("ccollections\nOrderedDict\n)R(K\x01K\x02u}b."),
        assert_true(value->kind == FT_PICKLE_DICT && value->count == 2);
    READ("K\x05q\x03K\x06h\x03\x86."), assert_true(value->items[1]->number == 5);
    READ("K\x05\x94K\x06\x94h\x01\x86\x94."), assert_true(value->items[1]->number == 6);
    READ("K\x05r\x00\x01\x00\x00"
         "0j\x00\x01\x00\x00."),
        number(5);
    READ("K\x01"
         "2\x86."),
        assert_ptr_equal(value->items[0], value->items[1]);
    READ("K\x01(K\x02K\x03"
         "1."),
        number(1);
    READ("]q\x00h\x00"
         "a."),
        assert_ptr_equal(value->items[0], value); // a list in itself
}

static void test_calls(void **state) {
    READ("cm\nf\nK\x01\x85R."), assert_int_equal(value->kind, FT_PICKLE_CALL);
    assert_string_equal(value->items[0]->text, "m.f");
    assert_int_equal(value->items[1]->items[0]->number, 1);
    READ("\x8c\x01m\x8c\x01"
         "f\x93."),
        assert_string_equal(value->text, "m.f");
    READ("K\x09Q."), assert_true(value->kind == FT_PICKLE_OUTSIDE && value->items[0]->number == 9);
    REFUSED("cposix\nsystem\n(X\x02\x00\x00\x00lstR.",
            "asks for posix.system, which a list of tensors does not need; nothing was run", 0);
    REFUSED("\x80\x04\x8c\x08"
            "builtins\x8c\x04"
            "eval\x93.",
            "builtins.eval", 18);
    REFUSED("K\x01)R.", "calls something that is no function", 3);
    REFUSED("cm\nf\nK\x01R.", "calls something that is no function", 7);
    REFUSED("cm\nf", "inside of a name", 0);
    REFUSED("i", "instruction 0x69 is none", 0); // INST: calls at once
    REFUSED("cm\nf\n)\x81.", "instruction 0x81 is none", 6);
    REFUSED("\x82\x01.", "instruction 0x82 is none", 0); // names by a number that copyreg knows
}

static void test_damage(void **state) {
    REFUSED("", "ends without an end", 0);
    REFUSED("K\x01", "ends without an end", 2);
    REFUSED(".", "needs a value", 0);
    REFUSED("(.", "needs a value", 1);
    REFUSED("J\x01", "inside of an instruction", 0);
    REFUSED("X\xFF\xFF\xFF\xFF"
            "a.",
            "longer than the pickle", 0);
    REFUSED("\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
            "a.",
            "longer than the pickle", 0);
    REFUSED("K\x01t.", "needs a mark", 2);
    REFUSED("K\x01\x86.", "more values than there are", 2);
    REFUSED("K\x01(\x85.", "more values than there are", 3);
    REFUSED("h\x00.", "never remembered", 0);
    REFUSED("K\x01q\x02h\x01.", "never remembered", 4);
    REFUSED("q\x00.", "no value to remember", 0);
    REFUSED("2.", "no value to repeat", 0);
    REFUSED("K\x01r\xFF\xFF\xFF\xFF.", "remembers too many", 2);
    REFUSED("K\x01K\x01"
            "a.",
            "no list or dictionary", 4);
    REFUSED("]K\x01K\x02s.", "no list or dictionary", 5);
    REFUSED("}(K\x01u.", "a key without a value", 4);
    REFUSED("(K\x01"
            "d.",
            "a key without a value", 3);
    REFUSED("\x80\x06N.", "later than 5", 0);
    REFUSED("Nb.", "attributes of nothing", 1);
}

static void test_limits(void **state) {
    size_t size = FT_PICKLE_MOST_VALUES + 8;
    char *many = malloc(size);
    assert_non_null(many);
    memset(many, 'N', size);
    assert_int_equal(read_bytes(many, size), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "too many values"));
    memset(many, '(', size);
    assert_int_equal(read_bytes(many, size), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "too many values"));
    many[0] = 'N';
    memset(many + 1, '2', size - 1);
    assert_int_equal(read_bytes(many, size), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "too many values"));
    free(many);
    char name[600];
    size_t length = (size_t)snprintf(name, sizeof name, "c%0300d\nf\n.", 1);
    refused(name, length, "too long", 0);
}

static int tear_down(void **state) { return ft_arena_free(&arena), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_calls), cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
