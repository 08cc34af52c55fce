// syntax.h - a template as a tree. Inside of engine/chat.
#ifndef FT_CHAT_SYNTAX_H
#define FT_CHAT_SYNTAX_H

#include "base/arena.h"
#include "base/status.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

// ---- tokens of an expression or a statement ------------------------------------------------------------------------
typedef enum ft_chat_token_kind { FT_CHAT_NAME, FT_CHAT_STRING, FT_CHAT_NUMBER, FT_CHAT_OPERATOR, FT_CHAT_END } ft_chat_token_kind;
typedef struct ft_chat_token {
    ft_chat_token_kind kind;
    const char *text; // NAME, OPERATOR: NUL-terminated, in the arena; STRING: what it stands for
    size_t length;
    json_int_t integer;
    double real;
    bool is_real;
    int line;
} ft_chat_token;

// What comes next of a template: text, or what a tag begins with.
typedef enum ft_chat_piece { FT_CHAT_TEXT, FT_CHAT_EXPRESSION, FT_CHAT_STATEMENT, FT_CHAT_FINISH } ft_chat_piece;

typedef struct ft_chat_lexer {
    ft_arena *arena;
    const char *where, *at, *end;
    int line;
    bool block;         // of the tag at hand: a statement, else an expression
    int brackets;       // open ones, inside of which nothing ends a tag
    bool line_starting; // what came last ended with a line
    ft_chat_token token;
} ft_chat_lexer;

// The next piece; text without the white space that tags take away. Behind EXPRESSION and STATEMENT the first token is
// read.
ft_status ft_chat_lex_piece(ft_chat_lexer *lexer, ft_chat_piece *piece, const char **text, size_t *length);
// The next token; END at the end of the tag, which is passed.
ft_status ft_chat_lex_next(ft_chat_lexer *lexer);
// FT_INVALID at a line of the template.
ft_status ft_chat_fail(const char *where, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

// ---- the tree ------------------------------------------------------------------------------------------------------
typedef enum ft_chat_kind {
    // expressions
    FT_CHAT_CONST,    // value
    FT_CHAT_VARIABLE, // text
    FT_CHAT_LIST,     // list
    FT_CHAT_DICT,     // list: keys and values in turns
    FT_CHAT_MEMBER,   // a . text
    FT_CHAT_ITEM,     // a [ b ]
    FT_CHAT_SLICE,    // a [ list[0] : list[1] : list[2] ], of which some are NULL
    FT_CHAT_CALL,     // a ( list, names )
    FT_CHAT_METHOD,   // a . text ( list, names )
    FT_CHAT_FILTER,   // a | text ( list, names )
    FT_CHAT_TEST,     // a is text ( list ); flag: not
    FT_CHAT_NOT,      // a
    FT_CHAT_NEGATE,   // a
    FT_CHAT_BINARY,   // a op b
    FT_CHAT_AND,
    FT_CHAT_OR,
    FT_CHAT_COMPARE, // a, then list with ops
    FT_CHAT_CHOICE,  // b if a else c; c may be NULL
    // statements
    FT_CHAT_DATA,   // text
    FT_CHAT_OUTPUT, // a
    FT_CHAT_FOR,    // targets names in a, where b (or NULL): list, else: c
    FT_CHAT_IF,     // a: list, else: c
    FT_CHAT_BLOCK,  // list
    FT_CHAT_SET,    // targets names = a; or text . names[0] = a where flag; or without a: list is rendered
    FT_CHAT_MACRO,  // text (names, defaults in list2): list
    FT_CHAT_BREAK,
    FT_CHAT_CONTINUE,
    FT_CHAT_GENERATION, // list
} ft_chat_kind;

typedef struct ft_chat_node {
    ft_chat_kind kind;
    int line;
    const char *text; // in the arena
    size_t length;
    json_t *value; // CONST: owned by the template's list of constants
    struct ft_chat_node *a, *b, *c;
    struct ft_chat_node **list, **list2;
    int count;
    const char **names; // CALL, METHOD, FILTER: of the arguments, NULL where one has none
    const char **ops;   // COMPARE
    int name_count;
    bool flag;
    int id; // FILTER, TEST, METHOD, BINARY: which
} ft_chat_node;

typedef struct ft_chat_template {
    ft_arena arena;
    json_t *constants; // keeps the values of CONST
    ft_chat_node *body;
    const char *where, *source;
    size_t length;    // of the source
    bool generations; // it says itself what the assistant writes
} ft_chat_template;

// Names that are known, for messages and by number; -1: there is no such.
int ft_chat_find_filter(const char *name);
int ft_chat_find_test(const char *name);
int ft_chat_find_method(const char *name);
const char *ft_chat_filters(void), *ft_chat_tests(void), *ft_chat_methods(void); // "a, b, c"

ft_status ft_chat_parse(ft_chat_template *template, const char *source, size_t length);

#endif
