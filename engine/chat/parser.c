// parser.c - expressions, from tokens to a tree, by Jinja's grammar. What is not known is refused here, by name, before anything is rendered.
#include "engine/chat/parser.h"

#include "engine/chat/values.h"

#include <stdlib.h>
#include <string.h>

typedef ft_chat_node node;

// ---- nodes ---------------------------------------------------------------------------------------------------------
node *ft_chat_parse_make(ft_chat_parser *p, ft_chat_kind kind) {
    node *n = ft_arena_alloc(&p->out->arena, sizeof *n);
    if (n != NULL) n->kind = kind, n->line = p->lexer.token.line > 0 ? p->lexer.token.line : p->lexer.line, n->text = "", n->id = -1;
    return n;
}

ft_status ft_chat_parse_append(ft_chat_parser *p, node ***list, int *count, node *item) {
    if ((*count & (*count - 1)) == 0) { // a power of two, or nothing: full
        node **grown = ft_arena_alloc(&p->out->arena, (size_t)(*count > 0 ? 2 * *count : 1) * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (*count > 0) memcpy(grown, *list, (size_t)*count * sizeof *grown);
        *list = grown;
    }
    (*list)[(*count)++] = item;
    return FT_OK;
}

ft_status ft_chat_parse_append_text(ft_chat_parser *p, const char ***list, int *count, const char *text) {
    if ((*count & (*count - 1)) == 0) {
        const char **grown = ft_arena_alloc(&p->out->arena, (size_t)(*count > 0 ? 2 * *count : 1) * sizeof *grown);
        if (grown == NULL) return FT_NO_MEMORY;
        if (*count > 0) memcpy(grown, *list, (size_t)*count * sizeof *grown);
        *list = grown;
    }
    (*list)[(*count)++] = text;
    return FT_OK;
}

ft_status ft_chat_parse_fail_here(ft_chat_parser *p, const char *expected) {
    const ft_chat_token *t = &p->lexer.token;
    return ft_chat_fail(p->lexer.where, t->line, "%s was expected in front of %s%.40s%s", expected, t->kind == FT_CHAT_END ? "the tag's end" : "\"",
                        t->kind == FT_CHAT_NUMBER ? "a number"
                        : t->kind == FT_CHAT_END  ? ""
                                                  : t->text,
                        t->kind == FT_CHAT_END ? "" : "\"");
}

ft_status ft_chat_parse_too_deep(ft_chat_parser *p) {
    return ft_chat_fail(p->lexer.where, p->lexer.token.line, "nested deeper than %d", FT_CHAT_DEEPEST);
}

static bool is(const ft_chat_parser *p, ft_chat_token_kind kind, const char *text) {
    return p->lexer.token.kind == kind && strcmp(p->lexer.token.text, text) == 0;
}
bool ft_chat_parse_is_op(const ft_chat_parser *p, const char *text) { return is(p, FT_CHAT_OPERATOR, text); }
bool ft_chat_parse_is_word(const ft_chat_parser *p, const char *text) { return is(p, FT_CHAT_NAME, text); }
ft_status ft_chat_parse_advance(ft_chat_parser *p) { return ft_chat_lex_next(&p->lexer); }

ft_status ft_chat_parse_need_op(ft_chat_parser *p, const char *text) {
    if (!ft_chat_parse_is_op(p, text)) {
        char expected[16] = "\"";
        strcat(strncat(expected, text, 8), "\"");
        return ft_chat_parse_fail_here(p, expected);
    }
    return ft_chat_parse_advance(p);
}

ft_status ft_chat_parse_need_name(ft_chat_parser *p, const char **name) {
    if (p->lexer.token.kind != FT_CHAT_NAME) return ft_chat_parse_fail_here(p, "a name");
    *name = p->lexer.token.text;
    return ft_chat_parse_advance(p);
}

ft_status ft_chat_parse_need_end(ft_chat_parser *p) {
    return p->lexer.token.kind == FT_CHAT_END ? FT_OK : ft_chat_parse_fail_here(p, "the tag's end");
}

static ft_status keep_value(ft_chat_parser *p, node *n, json_t *value) {
    n->value = value;
    if (value == NULL || json_array_append_new(p->out->constants, value) != 0) return ft_fail_memory(0, "a chat template");
    return FT_OK;
}

// ---- expressions ---------------------------------------------------------------------------------------------------

// ( a, name=b ), behind the bracket.
static ft_status arguments(ft_chat_parser *p, node *n) {
    while (!ft_chat_parse_is_op(p, ")")) {
        if (n->count > 0) FT_TRY(ft_chat_parse_need_op(p, ","));
        if (ft_chat_parse_is_op(p, ")")) break;
        if (ft_chat_parse_is_op(p, "*") || ft_chat_parse_is_op(p, "**"))
            return ft_chat_parse_fail_here(p, "an argument (* and ** are not supported)");
        const ft_chat_token before = p->lexer.token;
        const char *at = p->lexer.at, *name = NULL;
        if (before.kind == FT_CHAT_NAME) { // name = value, or an expression that begins with a name
            const int line = p->lexer.line;
            FT_TRY(ft_chat_parse_advance(p));
            if (ft_chat_parse_is_op(p, "=")) {
                name = before.text;
                FT_TRY(ft_chat_parse_advance(p));
            } else if (p->lexer.token.kind == FT_CHAT_END) {
                return ft_chat_parse_fail_here(p, "\")\"");
            } else {
                const char *text = p->lexer.token.text; // back again
                const bool opened = p->lexer.token.kind == FT_CHAT_OPERATOR && strchr("([{", *text) != NULL,
                           closed = p->lexer.token.kind == FT_CHAT_OPERATOR && strchr(")]}", *text) != NULL;
                p->lexer.brackets += closed - opened;
                p->lexer.at = at, p->lexer.line = line, p->lexer.token = before;
            }
        }
        node *value;
        FT_TRY(ft_chat_parse_expression(p, &value));
        FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, value));
        FT_TRY(ft_chat_parse_append_text(p, &n->names, &n->name_count, name));
    }
    return ft_chat_parse_advance(p);
}

static ft_status list_of(ft_chat_parser *p, const char *close, node *n) {
    while (!ft_chat_parse_is_op(p, close)) {
        node *item;
        FT_TRY(ft_chat_parse_expression(p, &item));
        FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, item));
        if (!ft_chat_parse_is_op(p, ",")) break;
        FT_TRY(ft_chat_parse_advance(p));
    }
    return ft_chat_parse_need_op(p, close);
}

static ft_status dictionary(ft_chat_parser *p, node *n) {
    while (!ft_chat_parse_is_op(p, "}")) {
        node *key, *value;
        FT_TRY(ft_chat_parse_expression(p, &key));
        FT_TRY(ft_chat_parse_need_op(p, ":"));
        FT_TRY(ft_chat_parse_expression(p, &value));
        FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, key));
        FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, value));
        if (!ft_chat_parse_is_op(p, ",")) break;
        FT_TRY(ft_chat_parse_advance(p));
    }
    return ft_chat_parse_need_op(p, "}");
}

static ft_status word(ft_chat_parser *p, node **out) {
    static const char *const TRUE[] = {"true", "True"}, *const FALSE[] = {"false", "False"}, *const NONE[] = {"none", "None"};
    const char *name = p->lexer.token.text;
    node *n = *out = ft_chat_parse_make(p, FT_CHAT_VARIABLE);
    if (n == NULL) return FT_NO_MEMORY;
    json_t *value = NULL;
    for (int i = 0; i < 2; i++) {
        if (strcmp(name, TRUE[i]) == 0) value = json_true();
        if (strcmp(name, FALSE[i]) == 0) value = json_false();
        if (strcmp(name, NONE[i]) == 0) value = json_null();
    }
    n->text = name;
    if (value != NULL) {
        n->kind = FT_CHAT_CONST;
        FT_TRY(keep_value(p, n, value));
    }
    return ft_chat_parse_advance(p);
}

static ft_status string(ft_chat_parser *p, node *n) {
    ft_chat_buffer text = {0};
    ft_status status = FT_OK;
    while (status == FT_OK && p->lexer.token.kind == FT_CHAT_STRING) { // strings side by side are one
        status = ft_chat_put(&text, p->lexer.token.text, p->lexer.token.length);
        if (status == FT_OK) status = ft_chat_parse_advance(p);
    }
    if (status == FT_OK) status = keep_value(p, n, json_stringn_nocheck(text.data != NULL ? text.data : "", text.length)); // the source is UTF-8
    free(text.data);
    return status;
}

static ft_status primary(ft_chat_parser *p, node **out) {
    const ft_chat_token token = p->lexer.token;
    if (token.kind == FT_CHAT_NAME) return word(p, out);
    node *n = *out = ft_chat_parse_make(p, FT_CHAT_CONST);
    if (n == NULL) return FT_NO_MEMORY;
    if (token.kind == FT_CHAT_STRING) return string(p, n);
    if (token.kind == FT_CHAT_NUMBER) {
        FT_TRY(keep_value(p, n, token.is_real ? json_real(token.real) : json_integer(token.integer)));
        return ft_chat_parse_advance(p);
    }
    if (ft_chat_parse_is_op(p, "[")) {
        n->kind = FT_CHAT_LIST;
        FT_TRY(ft_chat_parse_advance(p));
        return list_of(p, "]", n);
    }
    if (ft_chat_parse_is_op(p, "{")) {
        n->kind = FT_CHAT_DICT;
        FT_TRY(ft_chat_parse_advance(p));
        return dictionary(p, n);
    }
    if (!ft_chat_parse_is_op(p, "(")) return ft_chat_parse_fail_here(p, "a value");
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_expression(p, out));
    if (!ft_chat_parse_is_op(p, ",")) return ft_chat_parse_need_op(p, ")");
    n->kind = FT_CHAT_LIST; // a tuple, which is read as a list
    FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, *out));
    *out = n;
    FT_TRY(ft_chat_parse_advance(p));
    return list_of(p, ")", n);
}

static ft_status subscript(ft_chat_parser *p, node **out) {
    node *n = ft_chat_parse_make(p, FT_CHAT_ITEM), *part[3] = {NULL, NULL, NULL};
    int at = 0;
    bool slice = false;
    if (n == NULL) return FT_NO_MEMORY;
    n->a = *out;
    while (!ft_chat_parse_is_op(p, "]")) {
        if (ft_chat_parse_is_op(p, ":")) {
            slice = true;
            if (++at > 2) return ft_chat_parse_fail_here(p, "\"]\"");
            FT_TRY(ft_chat_parse_advance(p));
            continue;
        }
        if (part[at] != NULL) return ft_chat_parse_fail_here(p, "\"]\"");
        FT_TRY(ft_chat_parse_expression(p, &part[at]));
    }
    if (!slice && part[0] == NULL) return ft_chat_parse_fail_here(p, "an index");
    n->b = part[0];
    if (slice) {
        n->kind = FT_CHAT_SLICE;
        n->b = NULL;
        for (int i = 0; i < 3; i++)
            FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, part[i]));
    }
    *out = n;
    return ft_chat_parse_advance(p);
}

static ft_status member(ft_chat_parser *p, node **out) {
    node *n = ft_chat_parse_make(p, FT_CHAT_MEMBER);
    if (n == NULL) return FT_NO_MEMORY;
    n->a = *out;
    *out = n;
    if (p->lexer.token.kind == FT_CHAT_NUMBER && !p->lexer.token.is_real) { // a.0 is a[0]
        n->kind = FT_CHAT_ITEM;
        return primary(p, &n->b);
    }
    FT_TRY(ft_chat_parse_need_name(p, &n->text));
    if (!ft_chat_parse_is_op(p, "(")) return FT_OK;
    n->kind = FT_CHAT_METHOD;
    n->id = ft_chat_find_method(n->text);
    if (n->id < 0) return ft_chat_fail(p->lexer.where, n->line, "the method .%.60s() is not supported; supported: %s", n->text, ft_chat_methods());
    FT_TRY(ft_chat_parse_advance(p));
    return arguments(p, n);
}

static ft_status postfix(ft_chat_parser *p, node **out) {
    for (;;) {
        if (ft_chat_parse_is_op(p, ".")) {
            FT_TRY(ft_chat_parse_advance(p));
            FT_TRY(member(p, out));
        } else if (ft_chat_parse_is_op(p, "[")) {
            FT_TRY(ft_chat_parse_advance(p));
            FT_TRY(subscript(p, out));
        } else if (ft_chat_parse_is_op(p, "(")) {
            node *n = ft_chat_parse_make(p, FT_CHAT_CALL);
            if (n == NULL) return FT_NO_MEMORY;
            n->a = *out;
            *out = n;
            if (n->a->kind != FT_CHAT_VARIABLE) return ft_chat_fail(p->lexer.where, n->line, "only functions that have a name can be called");
            FT_TRY(ft_chat_parse_advance(p));
            FT_TRY(arguments(p, n));
        } else
            return FT_OK;
    }
}

static ft_status filter(ft_chat_parser *p, node **out) {
    node *n = ft_chat_parse_make(p, FT_CHAT_FILTER);
    if (n == NULL) return FT_NO_MEMORY;
    n->a = *out;
    *out = n;
    FT_TRY(ft_chat_parse_need_name(p, &n->text));
    n->id = ft_chat_find_filter(n->text);
    if (n->id < 0) return ft_chat_fail(p->lexer.where, n->line, "the filter |%.60s is not supported; supported: %s", n->text, ft_chat_filters());
    if (!ft_chat_parse_is_op(p, "(")) return FT_OK;
    FT_TRY(ft_chat_parse_advance(p));
    return arguments(p, n);
}

static ft_status test(ft_chat_parser *p, node **out) {
    node *n = ft_chat_parse_make(p, FT_CHAT_TEST);
    if (n == NULL) return FT_NO_MEMORY;
    n->a = *out;
    *out = n;
    if (ft_chat_parse_is_word(p, "not")) {
        n->flag = true;
        FT_TRY(ft_chat_parse_advance(p));
    }
    if (ft_chat_parse_is_op(p, "==")) { // a test has this name too
        n->text = "==";
        FT_TRY(ft_chat_parse_advance(p));
    } else
        FT_TRY(ft_chat_parse_need_name(p, &n->text));
    n->id = ft_chat_find_test(n->text);
    if (n->id < 0) return ft_chat_fail(p->lexer.where, n->line, "the test \"is %.60s\" is not supported; supported: %s", n->text, ft_chat_tests());
    if (ft_chat_parse_is_op(p, "(")) {
        FT_TRY(ft_chat_parse_advance(p));
        return arguments(p, n);
    }
    const ft_chat_token *t = &p->lexer.token;
    const bool word = t->kind == FT_CHAT_NAME && !ft_chat_parse_is_word(p, "else") && !ft_chat_parse_is_word(p, "or") &&
                      !ft_chat_parse_is_word(p, "and") && !ft_chat_parse_is_word(p, "if");
    if (word && ft_chat_parse_is_word(p, "is")) return ft_chat_parse_fail_here(p, "the end of a test");
    if (!word && t->kind != FT_CHAT_STRING && t->kind != FT_CHAT_NUMBER && !ft_chat_parse_is_op(p, "[") && !ft_chat_parse_is_op(p, "{")) return FT_OK;
    node *argument;
    FT_TRY(primary(p, &argument));
    FT_TRY(postfix(p, &argument));
    FT_TRY(ft_chat_parse_append_text(p, &n->names, &n->name_count, NULL));
    return ft_chat_parse_append(p, &n->list, &n->count, argument);
}

static ft_status unary(ft_chat_parser *p, bool with_filters, node **out) {
    if (ft_chat_parse_is_op(p, "-")) {
        node *n = ft_chat_parse_make(p, FT_CHAT_NEGATE);
        if (n == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_chat_parse_advance(p));
        if (++p->depth > FT_CHAT_DEEPEST) return ft_chat_parse_too_deep(p);
        FT_TRY(unary(p, false, &n->a));
        p->depth--;
        *out = n;
    } else
        FT_TRY(primary(p, out));
    FT_TRY(postfix(p, out));
    while (with_filters && (ft_chat_parse_is_op(p, "|") || ft_chat_parse_is_word(p, "is"))) {
        const bool pipe = ft_chat_parse_is_op(p, "|");
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY((pipe ? filter : test)(p, out));
    }
    return ft_chat_parse_is_op(p, "**") ? ft_chat_fail(p->lexer.where, p->lexer.token.line, "the operator ** is not supported") : FT_OK;
}

// Operators by how strongly they bind: + and -, ~, and * / // %.
static ft_status binary(ft_chat_parser *p, int level, node **out) {
    static const char *const LEVELS[3][4] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
    if (level == 3) return unary(p, true, out);
    FT_TRY(binary(p, level + 1, out));
    for (int i = 0; i < 4; i++) {
        if (LEVELS[level][i] == NULL || !ft_chat_parse_is_op(p, LEVELS[level][i])) continue;
        node *n = ft_chat_parse_make(p, FT_CHAT_BINARY);
        if (n == NULL) return FT_NO_MEMORY;
        n->text = LEVELS[level][i];
        n->a = *out;
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(binary(p, level + 1, &n->b));
        *out = n;
        i = -1;
    }
    return FT_OK;
}

static ft_status compare_operator(ft_chat_parser *p, const char **found) {
    static const char *const OPERATORS[] = {"==", "!=", "<", "<=", ">", ">="};
    *found = NULL;
    for (int i = 0; i < 6; i++)
        if (ft_chat_parse_is_op(p, OPERATORS[i])) *found = OPERATORS[i];
    if (ft_chat_parse_is_word(p, "in")) *found = "in";
    if (*found != NULL) return ft_chat_parse_advance(p);
    if (!ft_chat_parse_is_word(p, "not")) return FT_OK;
    FT_TRY(ft_chat_parse_advance(p));
    if (!ft_chat_parse_is_word(p, "in")) return ft_chat_parse_fail_here(p, "\"in\"");
    *found = "not in";
    return ft_chat_parse_advance(p);
}

static ft_status comparison(ft_chat_parser *p, node **out) {
    const char *operator;
    FT_TRY(binary(p, 0, out));
    node *n = NULL;
    for (int count = 0;;) {
        FT_TRY(compare_operator(p, &operator));
        if (operator== NULL) return FT_OK;
        if (n == NULL) {
            n = ft_chat_parse_make(p, FT_CHAT_COMPARE);
            if (n == NULL) return FT_NO_MEMORY;
            n->a = *out;
            *out = n;
        }
        node *right;
        FT_TRY(binary(p, 0, &right));
        FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, right));
        FT_TRY(ft_chat_parse_append_text(p, &n->ops, &count, operator));
    }
}

static ft_status negation(ft_chat_parser *p, node **out) {
    if (!ft_chat_parse_is_word(p, "not")) return comparison(p, out);
    node *n = *out = ft_chat_parse_make(p, FT_CHAT_NOT);
    if (n == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_chat_parse_advance(p));
    if (++p->depth > FT_CHAT_DEEPEST) return ft_chat_parse_too_deep(p);
    FT_TRY(negation(p, &n->a));
    p->depth--;
    return FT_OK;
}

static ft_status both(ft_chat_parser *p, bool either, node **out) {
    FT_TRY(either ? both(p, false, out) : negation(p, out));
    while (ft_chat_parse_is_word(p, either ? "or" : "and")) {
        node *n = ft_chat_parse_make(p, either ? FT_CHAT_OR : FT_CHAT_AND);
        if (n == NULL) return FT_NO_MEMORY;
        n->a = *out;
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(either ? both(p, false, &n->b) : negation(p, &n->b));
        *out = n;
    }
    return FT_OK;
}

// a, or a if b else c.
ft_status ft_chat_parse_choice(ft_chat_parser *p, bool conditions, node **out) {
    if (++p->depth > FT_CHAT_DEEPEST) return ft_chat_parse_too_deep(p);
    FT_TRY(both(p, true, out));
    while (conditions && ft_chat_parse_is_word(p, "if")) {
        node *n = ft_chat_parse_make(p, FT_CHAT_CHOICE);
        if (n == NULL) return FT_NO_MEMORY;
        n->b = *out;
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(both(p, true, &n->a));
        if (ft_chat_parse_is_word(p, "else")) {
            FT_TRY(ft_chat_parse_advance(p));
            FT_TRY(ft_chat_parse_expression(p, &n->c));
        }
        *out = n;
    }
    p->depth--;
    return FT_OK;
}

ft_status ft_chat_parse_expression(ft_chat_parser *p, node **out) { return ft_chat_parse_choice(p, true, out); }
