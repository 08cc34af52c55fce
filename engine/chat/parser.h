// parser.h - what the two halves of the parser share: reading tokens, and nodes. Inside of engine/chat.
#ifndef FT_CHAT_PARSER_H
#define FT_CHAT_PARSER_H

#include "engine/chat/syntax.h"

enum { FT_CHAT_DEEPEST = 100 };

typedef struct ft_chat_parser {
    ft_chat_lexer lexer;
    ft_chat_template *out;
    int depth, loops;
} ft_chat_parser;

// NULL: no memory. Of the token at hand.
ft_chat_node *ft_chat_parse_make(ft_chat_parser *p, ft_chat_kind kind);
ft_status ft_chat_parse_append(ft_chat_parser *p, ft_chat_node ***list, int *count, ft_chat_node *item);
ft_status ft_chat_parse_append_text(ft_chat_parser *p, const char ***list, int *count, const char *text);
ft_status ft_chat_parse_fail_here(ft_chat_parser *p, const char *expected);
ft_status ft_chat_parse_too_deep(ft_chat_parser *p);
bool ft_chat_parse_is_op(const ft_chat_parser *p, const char *text);
bool ft_chat_parse_is_word(const ft_chat_parser *p, const char *text);
ft_status ft_chat_parse_advance(ft_chat_parser *p);
ft_status ft_chat_parse_need_op(ft_chat_parser *p, const char *text);
ft_status ft_chat_parse_need_name(ft_chat_parser *p, const char **name);
ft_status ft_chat_parse_need_end(ft_chat_parser *p);
// An expression; without conditions "a if b else c" is none: that of a loop ends there.
ft_status ft_chat_parse_choice(ft_chat_parser *p, bool conditions, ft_chat_node **out);
ft_status ft_chat_parse_expression(ft_chat_parser *p, ft_chat_node **out);

#endif
