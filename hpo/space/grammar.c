#include "hpo/space/grammar.h"

#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Words of a choice or a condition; far more than a study can make sense of.
#define WORD_LIMIT 1000
#define TEST_LIMIT 32

typedef struct cursor {
    const char *at, *where;
    ft_arena *arena;
} cursor;

static bool name_character(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }
static bool function_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void skip_blanks(cursor *c) {
    while (isspace((unsigned char)*c->at))
        c->at++;
}

static ft_status expected(const cursor *c, const char *what) {
    if (*c->at == '\0') return ft_fail(FT_INVALID, c->where, "the line ends where %s should be", what);
    return ft_fail(FT_INVALID, c->where, "there should be %s at '%.40s'", what, c->at);
}

static bool take(cursor *c, char wanted) {
    skip_blanks(c);
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

// The keyword `word`, not the beginning of a longer one.
static bool take_word(cursor *c, const char *word) {
    skip_blanks(c);
    size_t length = strlen(word);
    if (strncmp(c->at, word, length) != 0 || name_character(c->at[length])) return false;
    c->at += length;
    return true;
}

static ft_status keep(cursor *c, const char *from, const char *to, const char **out) {
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    *out = ft_arena_strndup(c->arena, from, (size_t)(to - from));
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

// What stands between two marks that are not part of it: "a b", [512, 256].
static ft_status enclosed(cursor *c, char close, const char **out) {
    const char *from = ++c->at, *to = strchr(from, close);
    if (to == NULL) return ft_fail(FT_INVALID, c->where, "'%.40s' lacks its closing %c", from - 1, close);
    c->at = to + 1;
    *out = ft_arena_strndup(c->arena, from, (size_t)(to - from));
    return *out != NULL ? FT_OK : FT_NO_MEMORY;
}

// One word of a list in parentheses: up to the next comma or parenthesis, or enclosed.
static ft_status word(cursor *c, const char **out) {
    skip_blanks(c);
    if (*c->at == '"' || *c->at == '\'') return enclosed(c, *c->at, out);
    if (*c->at == '[') return enclosed(c, ']', out);
    const char *from = c->at;
    c->at += strcspn(c->at, ",()[]\"'");
    if (c->at == from) return expected(c, "a value");
    return keep(c, from, c->at, out);
}

static ft_status words(cursor *c, const char ***out, int *count) {
    const char *found[WORD_LIMIT];
    *count = 0;
    if (!take(c, '(')) return expected(c, "(");
    do {
        if (*count == WORD_LIMIT) return ft_fail(FT_INVALID, c->where, "more than %d values", WORD_LIMIT);
        FT_TRY(word(c, &found[*count]));
        ++*count;
    } while (take(c, ','));
    if (!take(c, ')')) return expected(c, ", or )");
    *out = ft_arena_alloc(c->arena, (size_t)*count * sizeof **out);
    if (*out == NULL) return FT_NO_MEMORY;
    memcpy(*out, found, (size_t)*count * sizeof **out);
    return FT_OK;
}

// ---- what is drawn --------------------------------------------------------------------------------------------------

static ft_status range(cursor *c, ft_spec *spec) {
    static const char form[] = "(LOW, HIGH), (LOW, HIGH, log) or (LOW, HIGH, step=S)";
    FT_TRY(words(c, &spec->words, &spec->count));
    for (int i = 2; i < spec->count; i++) {
        const char *extra = spec->words[i], *equals = strchr(extra, '=');
        size_t length = equals != NULL ? (size_t)(equals - extra) : 0;
        while (length > 0 && isspace((unsigned char)extra[length - 1]))
            length--;
        if (strcmp(extra, "log") == 0 && !spec->log)
            spec->log = true;
        else if (length == 4 && strncmp(extra, "step", 4) == 0 && spec->step == NULL)
            spec->step = equals + 1 + strspn(equals + 1, " \t");
        else
            return ft_fail(FT_INVALID, c->where, "'%.60s' is unknown here: a range is %s", extra, form);
    }
    if (spec->count < 2) return ft_fail(FT_INVALID, c->where, "a range has two bounds: %s", form);
    spec->count = 2;
    return FT_OK;
}

// The first " if " outside of quotes, or the end.
static const char *end_of_value(const char *text) {
    for (const char *at = text; *at != '\0'; at++)
        if (isspace((unsigned char)at[0]) && strncmp(at + 1, "if", 2) == 0 && isspace((unsigned char)at[3])) return at;
    return text + strlen(text);
}

static ft_status fixed(cursor *c, ft_spec *spec) {
    spec->count = 1;
    spec->words = ft_arena_alloc(c->arena, sizeof *spec->words);
    if (spec->words == NULL) return FT_NO_MEMORY;
    if (*c->at == '"' || *c->at == '\'' || *c->at == '[') return word(c, &spec->words[0]);
    const char *from = c->at;
    c->at = end_of_value(from);
    return keep(c, from, c->at, &spec->words[0]);
}

static ft_status unknown_function(const cursor *c, const char *from, size_t length) {
    static const char *const names[] = {"float", "int", "choice"};
    char name[24];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), from);
    ft_fail(FT_INVALID, c->where, "there is no %s(): a space is float(), int(), choice() or a value", name);
    const char *near = ft_nearest(name, 3, names);
    if (near != NULL)
        ft_hint("did you mean %s()?", near);
    else
        ft_hint("a value with parentheses stands in \"quotes\"");
    return FT_INVALID;
}

static ft_status what(cursor *c, ft_spec *spec) {
    skip_blanks(c);
    size_t length = 0;
    while (function_character(c->at[length]))
        length++;
    const char *from = c->at, *behind = c->at + length + strspn(c->at + length, " \t");
    if (length == 0 || *behind != '(') return fixed(c, spec);
    static const struct {
        const char *name;
        ft_spec_kind kind;
    } functions[] = {{"float", FT_SPEC_FLOAT}, {"int", FT_SPEC_INT}, {"choice", FT_SPEC_CHOICE}};
    for (int i = 0; i < 3; i++) {
        if (strlen(functions[i].name) != length || memcmp(functions[i].name, from, length) != 0) continue;
        spec->kind = functions[i].kind;
        c->at = behind;
        return spec->kind == FT_SPEC_CHOICE ? words(c, &spec->words, &spec->count) : range(c, spec);
    }
    return unknown_function(c, from, length);
}

// ---- conditions -----------------------------------------------------------------------------------------------------

static ft_status one_value(cursor *c, ft_spec_test *test) {
    test->values = ft_arena_alloc(c->arena, sizeof *test->values);
    if (test->values == NULL) return FT_NO_MEMORY;
    test->count = 1;
    skip_blanks(c);
    if (*c->at == '"' || *c->at == '\'' || *c->at == '[') return word(c, &test->values[0]);
    const char *from = c->at;
    c->at += strcspn(c->at, " \t,()");
    if (c->at == from) return expected(c, "a value");
    return keep(c, from, c->at, &test->values[0]);
}

static ft_status comparison(cursor *c, ft_spec_test *test) {
    static const struct {
        const char *sign;
        ft_comparison comparison;
    } signs[] = {{"==", FT_IS_ONE_OF}, {"=", FT_IS_ONE_OF},    {"!=", FT_IS_NONE_OF}, {"<=", FT_IS_AT_MOST},
                 {"<", FT_IS_BELOW},   {">=", FT_IS_AT_LEAST}, {">", FT_IS_ABOVE}};
    skip_blanks(c);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t length = strlen(signs[i].sign);
        if (strncmp(c->at, signs[i].sign, length) != 0) continue;
        c->at += length;
        test->comparison = signs[i].comparison;
        return one_value(c, test);
    }
    bool negated = take_word(c, "not");
    if (!take_word(c, "in")) return expected(c, negated ? "in" : "=, !=, <, <=, >, >=, in or not in");
    test->comparison = negated ? FT_IS_NONE_OF : FT_IS_ONE_OF;
    return words(c, &test->values, &test->count);
}

static ft_status condition(cursor *c, ft_spec *spec) {
    ft_spec_test tests[TEST_LIMIT];
    do {
        if (spec->test_count == TEST_LIMIT)
            return ft_fail(FT_INVALID, c->where, "a condition has more than %d parts", TEST_LIMIT);
        ft_spec_test *test = &tests[spec->test_count++];
        skip_blanks(c);
        const char *from = c->at;
        while (name_character(*c->at))
            c->at++;
        if (c->at == from) return expected(c, "an option's name");
        FT_TRY(keep(c, from, c->at, &test->option));
        FT_TRY(comparison(c, test));
    } while (take_word(c, "and"));
    spec->tests = ft_arena_alloc(c->arena, (size_t)spec->test_count * sizeof *spec->tests);
    if (spec->tests == NULL) return FT_NO_MEMORY;
    memcpy(spec->tests, tests, (size_t)spec->test_count * sizeof *tests);
    return FT_OK;
}

ft_status ft_spec_parse(const char *text, const char *where, ft_arena *arena, ft_spec *spec) {
    cursor c = {text, where, arena};
    *spec = (ft_spec){0};
    FT_TRY(what(&c, spec));
    if (take_word(&c, "if")) FT_TRY(condition(&c, spec));
    skip_blanks(&c);
    if (*c.at == '\0') return FT_OK;
    return expected(&c, spec->test_count > 0 ? "'and' or the end of the line" : "'if' or the end of the line");
}

bool ft_spec_needs_quotes(const char *word_) { return word_[0] == '\0' || strpbrk(word_, " \t,()[]\"'=") != NULL; }
