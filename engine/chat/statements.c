// statements.c - the statements of a template, and the whole of one.
#include "engine/chat/parser.h"

#include <string.h>

typedef ft_chat_node node;

static ft_status statements(ft_chat_parser *p, const char *const *stops, node *into, const char **stopped);

static const char *const IF_STOPS[] = {"elif", "else", "endif", NULL}, *const END_IF[] = {"endif", NULL},
                         *const FOR_STOPS[] = {"else", "endfor", NULL}, *const END_FOR[] = {"endfor", NULL}, *const END_SET[] = {"endset", NULL},
                         *const END_MACRO[] = {"endmacro", NULL}, *const END_GENERATION[] = {"endgeneration", NULL};

static ft_status block(ft_chat_parser *p, const char *const *stops, node **out, const char **stopped) {
    *out = ft_chat_parse_make(p, FT_CHAT_BLOCK);
    if (*out == NULL) return FT_NO_MEMORY;
    return statements(p, stops, *out, stopped);
}

static ft_status targets(ft_chat_parser *p, node *n) {
    const bool bracket = ft_chat_parse_is_op(p, "(");
    if (bracket) FT_TRY(ft_chat_parse_advance(p));
    for (;;) {
        const char *name;
        FT_TRY(ft_chat_parse_need_name(p, &name));
        FT_TRY(ft_chat_parse_append_text(p, &n->names, &n->name_count, name));
        if (!ft_chat_parse_is_op(p, ",")) break;
        FT_TRY(ft_chat_parse_advance(p));
    }
    return bracket ? ft_chat_parse_need_op(p, ")") : FT_OK;
}

static ft_status parse_if(ft_chat_parser *p, node *n) {
    const char *stopped;
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_expression(p, &n->a));
    FT_TRY(ft_chat_parse_need_end(p));
    FT_TRY(block(p, IF_STOPS, &n->b, &stopped));
    if (strcmp(stopped, "elif") == 0) {
        n->c = ft_chat_parse_make(p, FT_CHAT_IF);
        if (n->c == NULL) return FT_NO_MEMORY;
        if (++p->depth > FT_CHAT_DEEPEST) return ft_chat_parse_too_deep(p);
        FT_TRY(parse_if(p, n->c));
        p->depth--;
        return FT_OK;
    }
    if (strcmp(stopped, "else") == 0) {
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(ft_chat_parse_need_end(p));
        FT_TRY(block(p, END_IF, &n->c, &stopped));
    }
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status parse_for(ft_chat_parser *p, node *n) {
    const char *stopped;
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(targets(p, n));
    if (!ft_chat_parse_is_word(p, "in")) return ft_chat_parse_fail_here(p, "\"in\"");
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_choice(p, false, &n->a));
    if (ft_chat_parse_is_op(p, ",")) return ft_chat_parse_fail_here(p, "the end of a list (write it in brackets)");
    if (ft_chat_parse_is_word(p, "if")) {
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(ft_chat_parse_expression(p, &n->b));
    }
    if (ft_chat_parse_is_word(p, "recursive"))
        return ft_chat_fail(p->lexer.where, n->line, "loops that call themselves (recursive) are not supported");
    FT_TRY(ft_chat_parse_need_end(p));
    node *body;
    p->loops++;
    FT_TRY(block(p, FOR_STOPS, &body, &stopped));
    p->loops--;
    FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, body));
    if (strcmp(stopped, "else") == 0) {
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(ft_chat_parse_need_end(p));
        FT_TRY(block(p, END_FOR, &n->c, &stopped));
    }
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status parse_set(ft_chat_parser *p, node *n) {
    const char *stopped;
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(targets(p, n));
    if (n->name_count == 1 && ft_chat_parse_is_op(p, ".")) {
        n->text = n->names[0];
        n->flag = true;
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(ft_chat_parse_need_name(p, &n->names[0]));
    }
    if (ft_chat_parse_is_op(p, "=")) {
        FT_TRY(ft_chat_parse_advance(p));
        FT_TRY(ft_chat_parse_expression(p, &n->a));
        if (ft_chat_parse_is_op(p, ",")) return ft_chat_parse_fail_here(p, "the end of a list (write it in brackets)");
        return ft_chat_parse_need_end(p);
    }
    if (n->name_count > 1 || n->flag) return ft_chat_parse_fail_here(p, "\"=\"");
    FT_TRY(ft_chat_parse_need_end(p));
    node *body;
    FT_TRY(block(p, END_SET, &body, &stopped));
    FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, body));
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status parse_macro(ft_chat_parser *p, node *n) {
    const char *stopped;
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_need_name(p, &n->text));
    FT_TRY(ft_chat_parse_need_op(p, "("));
    int defaults = 0;
    while (!ft_chat_parse_is_op(p, ")")) {
        const char *name;
        node *fallback = NULL;
        if (n->name_count > 0) FT_TRY(ft_chat_parse_need_op(p, ","));
        FT_TRY(ft_chat_parse_need_name(p, &name));
        FT_TRY(ft_chat_parse_append_text(p, &n->names, &n->name_count, name));
        if (ft_chat_parse_is_op(p, "=")) {
            FT_TRY(ft_chat_parse_advance(p));
            FT_TRY(ft_chat_parse_expression(p, &fallback));
        }
        FT_TRY(ft_chat_parse_append(p, &n->list2, &defaults, fallback));
    }
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_need_end(p));
    node *body;
    const int loops = p->loops;
    p->loops = 0;
    FT_TRY(block(p, END_MACRO, &body, &stopped));
    p->loops = loops;
    FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, body));
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status parse_generation(ft_chat_parser *p, node *n) {
    const char *stopped;
    node *body;
    p->out->generations = true;
    FT_TRY(ft_chat_parse_advance(p));
    FT_TRY(ft_chat_parse_need_end(p));
    FT_TRY(block(p, END_GENERATION, &body, &stopped));
    FT_TRY(ft_chat_parse_append(p, &n->list, &n->count, body));
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status jump(ft_chat_parser *p, node *n) {
    if (p->loops == 0) return ft_chat_fail(p->lexer.where, n->line, "\"%s\" outside of a loop", n->text);
    FT_TRY(ft_chat_parse_advance(p));
    return ft_chat_parse_need_end(p);
}

static ft_status statement(ft_chat_parser *p, node **out) {
    static const struct {
        const char *name;
        ft_chat_kind kind;
        ft_status (*parse)(ft_chat_parser *, node *);
    } KNOWN[] = {{"if", FT_CHAT_IF, parse_if},
                 {"for", FT_CHAT_FOR, parse_for},
                 {"set", FT_CHAT_SET, parse_set},
                 {"macro", FT_CHAT_MACRO, parse_macro},
                 {"break", FT_CHAT_BREAK, jump},
                 {"continue", FT_CHAT_CONTINUE, jump},
                 {"generation", FT_CHAT_GENERATION, parse_generation}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        if (!ft_chat_parse_is_word(p, KNOWN[i].name)) continue;
        node *n = *out = ft_chat_parse_make(p, KNOWN[i].kind);
        if (n == NULL) return FT_NO_MEMORY;
        n->text = KNOWN[i].name;
        if (++p->depth > FT_CHAT_DEEPEST) return ft_chat_parse_too_deep(p);
        FT_TRY(KNOWN[i].parse(p, n));
        p->depth--;
        return FT_OK;
    }
    return ft_chat_fail(p->lexer.where, p->lexer.token.line,
                        "the statement \"%.60s\" is not supported; supported: if, for, set, macro, break, continue, generation",
                        p->lexer.token.kind == FT_CHAT_NAME ? p->lexer.token.text : "");
}

static bool stops_at(const ft_chat_parser *p, const char *const *stops, const char **stopped) {
    for (; stops != NULL && *stops != NULL; stops++)
        if (ft_chat_parse_is_word(p, *stops)) return *stopped = *stops, true;
    return false;
}

// Up to a statement that ends them, whose name is the token at hand, or (stops NULL) to the template's end.
static ft_status statements(ft_chat_parser *p, const char *const *stops, node *into, const char **stopped) {
    const char *text;
    size_t length;
    for (;;) {
        ft_chat_piece piece;
        node *n = NULL;
        FT_TRY(ft_chat_lex_piece(&p->lexer, &piece, &text, &length));
        if (piece == FT_CHAT_FINISH && stops == NULL) return FT_OK;
        if (piece == FT_CHAT_FINISH) {
            int last = 0;
            while (stops[last + 1] != NULL)
                last++;
            return ft_chat_fail(p->lexer.where, into->line, "the template ends without \"%s\"", stops[last]);
        }
        if (piece == FT_CHAT_STATEMENT) {
            if (stops_at(p, stops, stopped)) return FT_OK;
            FT_TRY(statement(p, &n));
        } else {
            p->lexer.token.line = piece == FT_CHAT_TEXT ? p->lexer.line : p->lexer.token.line;
            if ((n = ft_chat_parse_make(p, piece == FT_CHAT_TEXT ? FT_CHAT_DATA : FT_CHAT_OUTPUT)) == NULL) return FT_NO_MEMORY;
            if (piece == FT_CHAT_TEXT) {
                n->text = ft_arena_strndup(&p->out->arena, text, length);
                n->length = length;
                if (n->text == NULL) return FT_NO_MEMORY;
            } else {
                FT_TRY(ft_chat_parse_expression(p, &n->a));
                FT_TRY(ft_chat_parse_need_end(p));
            }
        }
        FT_TRY(ft_chat_parse_append(p, &into->list, &into->count, n));
    }
}

// Lines end with \n, and one at the very end does not count.
static char *normalised(ft_arena *arena, const char *source, size_t length, size_t *out_length) {
    char *text = ft_arena_alloc(arena, length + 1);
    size_t n = 0;
    for (size_t i = 0; text != NULL && i < length; i++) {
        if (source[i] == '\r' && i + 1 < length && source[i + 1] == '\n') continue;
        text[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n > 0 && text[n - 1] == '\n') n--;
    *out_length = n;
    return text;
}

ft_status ft_chat_parse(ft_chat_template *t, const char *source, size_t length) {
    ft_chat_parser p = {.out = t, .lexer = {.arena = &t->arena, .where = t->where, .line = 1, .line_starting = true}};
    size_t kept;
    char *text = normalised(&t->arena, source, length, &kept);
    if (text == NULL) return FT_NO_MEMORY;
    p.lexer.at = text, p.lexer.end = text + kept;
    if ((t->body = ft_chat_parse_make(&p, FT_CHAT_BLOCK)) == NULL) return FT_NO_MEMORY;
    return statements(&p, NULL, t->body, NULL);
}
