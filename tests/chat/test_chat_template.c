// Chat templates against transformers and jinja2 (tests/vectors/chat/make_chat_vectors.py): what is written, what {%
// generation %} names, and what is refused; and what is refused here alone, by name.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/files.h"
#include "engine/chat/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VECTORS FT_TEST_VECTORS "/chat/"
#define COUNT(array) (sizeof(array) / sizeof *(array))

#define DIGITS_20 "12345678901234567890"

static json_t *values;

static ft_status render(const char *source, size_t length, const json_t *variables, ft_chat_text *text) {
    ft_chat_template *t;
    ft_error_clear();
    ft_status status = ft_chat_template_parse(source, length, "file", &t);
    if (status == FT_OK) status = ft_chat_template_render(t, variables, text);
    ft_chat_template_free(t);
    return status;
}

static bool same_spans(const ft_chat_text *text, const json_t *spans) {
    if (text->span_count != json_array_size(spans)) return false;
    for (size_t i = 0; i < text->span_count; i++) {
        const json_t *span = json_array_get(spans, i);
        if (text->spans[i].begin != (size_t)json_integer_value(json_array_get(span, 0)) ||
            text->spans[i].end != (size_t)json_integer_value(json_array_get(span, 1)))
            return false;
    }
    return true;
}

static bool run_case(const json_t *one, ft_chat_text *text, bool *refused) {
    const char *name = json_string_value(json_object_get(one, "template")), *expected = json_string_value(json_object_get(one, "text"));
    const json_t *source = json_object_get(one, "source"), *variables = json_object_get(one, "variables");
    char path[512], *file = NULL;
    size_t length = json_string_length(source);
    if (name != NULL) {
        snprintf(path, sizeof path, VECTORS "%s", name);
        assert_int_equal(ft_read_file(path, 0, &file, &length), FT_OK);
    }
    const ft_status status = render(file != NULL ? file : json_string_value(source), length, variables != NULL ? variables : values, text);
    free(file);
    *refused = status != FT_OK;
    if (status == FT_OK && expected != NULL && strcmp(text->data, expected) == 0 && same_spans(text, json_object_get(one, "spans"))) return true;
    if (status == FT_INVALID && expected == NULL) return ft_error_message()[0] != '\0' && strstr(ft_error_where(), "line ") != NULL;
    print_error("%s\n  expected %s\n  got      %s: %s\n", name != NULL ? name : json_string_value(source), expected != NULL ? expected : "an error",
                status == FT_OK ? text->data : ft_error_where(), status == FT_OK ? "" : ft_error_message());
    return false;
}

// Python writes lists and objects in its own way: refused here, and counted.
static void test_vectors(void **state) {
    FILE *in = fopen(VECTORS "cases.jsonl", "r");
    char *line = NULL;
    size_t room = 0;
    int cases = 0, refused_both = 0, different = 0;
    ft_chat_text text = {0};
    assert_non_null(in);
    while (getline(&line, &room, in) > 0) {
        json_t *one = json_loads(line, 0, NULL);
        bool refused;
        assert_non_null(one);
        if (json_object_get(one, "values") != NULL)
            values = json_incref(json_object_get(one, "values"));
        else {
            different += !run_case(one, &text, &refused);
            cases++;
            refused_both += refused && json_object_get(one, "error") != NULL;
        }
        json_decref(one);
    }
    free(line);
    fclose(in);
    ft_chat_text_free(&text);
    json_decref(values);
    values = NULL;
    if (different > 0) fail_msg("%d of %d cases differ", different, cases);
    assert_true(cases > 300 && refused_both > 20);
}

static void test_refusals(void **state) {
    static const struct {
        const char *source, *where, *message;
    } cases[] = {
        {"a\n{% include 'x' %}", "file: line 2", "the statement \"include\" is not supported; supported: if, for"},
        {"{{ x | groupby('a') }}", "line 1", "the filter |groupby is not supported; supported: trim"},
        {"{{ x is lower }}", "line 1", "the test \"is lower\" is not supported"},
        {"{{ x.title() }}", "line 1", "the method .title() is not supported"},
        {"{{ 2 ** 3 }}", "line 1", "the operator ** is not supported"},
        {"\n\n{{ strftime_now('%d') }}", "line 3", "today's date"},
        {"{{ lipsum() }}", "line 1", "the function lipsum() is not supported"},
        {"{{ [1, 2] }}", "line 1", "would be written as Python writes it"},
        {"{{ '\u00e9'.upper() }}", "line 1", "supported of ASCII alone"},
        {"{% for a in [1] recursive %}{% endfor %}", "line 1", "recursive"},
        {"{{ raise_exception('only users') }}", "line 1", "the chat template refuses these messages: only users"},
        {"{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "line 1", "nested deeper than"},
        {"{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", "line 1", "steps"},
        {"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "line 1", "more than"},
        // Values that hold each other: to free a deep one takes the stack, and to compare wide ones more time than there is.
        {"{% set ns = namespace(l=[]) %}{% for k in range(20) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{% endfor %}", "line 1",
         "nested deeper than 600"},
        {"{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = dict(l=ns.l) %}{% endfor %}", "line 1", "nested deeper than 600"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "line 1", "steps"},
        {"{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
         "{{ ns.a == ns.b }}", "line 1", "steps"},
        {"{% set l = range(99999) %}{% set m = l|map('string')|list %}{% for i in l %}{{ m|map('trim')|list|length }}{% endfor %}",
         "line 1", "steps"},
        {"{% set ns = namespace(s='ab') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s.strip(ns.s) }}", "line 1", "steps"},
        {"{{ x\n", "line 1", "a tag without its end"},
        {"\n{% " DIGITS_20 DIGITS_20 DIGITS_20 DIGITS_20, "line 2", "numbers like 12345678901234567890123456789012... are not supported"},
        {"{{ " DIGITS_20 " }}", "line 1", "numbers like " DIGITS_20 " are not supported"},
        {"{{ 12", "line 1", "a tag without its end"},
        {"{{ 12k }}", "line 1", "numbers like 12k are not supported"},
        {"{{ 1e400 }}", "line 1", "numbers like 1e400 are not supported"},
        {"{{ {'a': 1}['a' ~ 'b'].c }}", "line 1", "\"ab\" is undefined"},
        {"{% set key = {'a': 1}['a' ~ 'b'] %}{% set other = key %}{{ other.c }}", "line 1", "\"ab\" is undefined"},
        {"{{ 1e300 * 1e300 }}", "line 1", "a number that is not finite"},
        {"\xFF", "file", "not valid UTF-8"},
    };
    json_t *nothing = json_object();
    ft_chat_text text = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(render(cases[i].source, strlen(cases[i].source), nothing, &text), FT_INVALID);
        if (strstr(ft_error_message(), cases[i].message) == NULL || strstr(ft_error_where(), cases[i].where) == NULL)
            fail_msg("%s: %s: %s", cases[i].source, ft_error_where(), ft_error_message());
    }
    char deep[5000];
    for (int k = 0; k < 3; k++) { // as deep as it is long
        memset(deep, "(-["[k], sizeof deep - 1);
        memcpy(deep, "{{", 2);
        deep[sizeof deep - 1] = '\0';
        assert_int_equal(render(deep, strlen(deep), nothing, &text), FT_INVALID);
        assert_non_null(strstr(ft_error_message(), "nested deeper than"));
    }
    char *chain = malloc(400000); // which are no depth to the parser
    assert_non_null(chain);
    strcpy(chain, "{{ 1");
    for (int i = 0; i < 90000; i++)
        memcpy(chain + 4 + 4 * i, " + 1", 4);
    strcpy(chain + 4 + 4 * 90000, " }}");
    assert_int_equal(render(chain, strlen(chain), nothing, &text), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "nested deeper than"));
    free(chain);
    ft_chat_text_free(&text);
    json_decref(nothing);
}

// What is long is no more than as long: a megabyte of strings side by side, and of variables.
static void test_long(void **state) {
    enum { STRINGS = 200000, VARIABLES = 40000 };
    char *source = malloc(1 << 20), *at = source;
    json_t *nothing = json_object();
    ft_chat_text text = {0};
    assert_non_null(source);
    at += sprintf(at, "{{ ");
    for (int i = 0; i < STRINGS; i++) at += sprintf(at, "'%c' ", 'a' + i % 26);
    at += sprintf(at, "}}");
    const clock_t began = clock();
    assert_int_equal(render(source, (size_t)(at - source), nothing, &text), FT_OK);
    assert_int_equal(text.length, STRINGS);
    assert_int_equal(text.data[STRINGS - 1], 'a' + (STRINGS - 1) % 26);
    at = source;
    for (int i = 0; i < VARIABLES; i++) at += sprintf(at, "{%% set a%d=1 %%}", i);
    assert_int_equal(render(source, (size_t)(at - source), nothing, &text), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "steps"));
    const double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (took > 60) fail_msg("it took %.0f seconds", took); // of strings alone it was more before
    free(source);
    ft_chat_text_free(&text);
    json_decref(nothing);
}

// Where a model has its template.
static char scratch[] = "/tmp/ft-chat-XXXXXX";
static int set_up(void **state) { return mkdtemp(scratch) == NULL; }
static int tear_down(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void expect_open(const char *expected) {
    ft_chat_template *t;
    ft_chat_text text = {0};
    json_t *nothing = json_object();
    assert_int_equal(ft_chat_template_open(scratch, &t), FT_OK);
    if (expected == NULL)
        assert_null(t);
    else {
        assert_int_equal(ft_chat_template_render(t, nothing, &text), FT_OK);
        assert_string_equal(text.data, expected);
    }
    ft_chat_template_free(t);
    ft_chat_text_free(&text);
    json_decref(nothing);
}

static void test_open(void **state) {
    ft_chat_template *t;
    expect_open(NULL);
    write_file("tokenizer_config.json", "{}");
    expect_open(NULL);
    write_file("tokenizer_config.json", "{\"chat_template\": null}");
    expect_open(NULL);
    write_file("tokenizer_config.json", "{\"chat_template\": \"one{{ 1 }}\"}");
    expect_open("one1");
    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}, "
                                        "{\"name\": \"default\", \"template\": \"two\"}]}");
    expect_open("two");
    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}]}");
    assert_int_equal(ft_chat_template_open(scratch, &t), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "none is called \"default\""));
    write_file("tokenizer_config.json", "{\"chat_template\": 5}");
    assert_int_equal(ft_chat_template_open(scratch, &t), FT_INVALID);
    write_file("chat_template.jinja", "a file{{ nothing }}\n");
    expect_open("a file");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_long), cmocka_unit_test(test_open)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
