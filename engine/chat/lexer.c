// lexer.c - a template cut into text and tags, with the white space that tags take away (trim_blocks and lstrip_blocks,
// as transformers sets them), and tags into tokens.
#include "base/utf8.h"
#include "engine/chat/syntax.h"
#include "engine/chat/values.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_chat_fail(const char *where, int line, const char *format, ...) {
    char place[512], message[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    snprintf(place, sizeof place, "%.400s: line %d of the chat template", where, line);
    return ft_fail(FT_INVALID, place, "%s", message);
}

static bool begins(const ft_chat_lexer *l, const char *text) {
    const size_t length = strlen(text);
    return (size_t)(l->end - l->at) >= length && memcmp(l->at, text, length) == 0;
}

static void move_to(ft_chat_lexer *l, const char *to) {
    for (; l->at < to; l->at++)
        l->line += *l->at == '\n';
}

// ---- text and tags -------------------------------------------------------------------------------------------------
static const char *find_tag(const ft_chat_lexer *l) {
    for (const char *p = l->at; p + 1 < l->end; p++)
        if (p[0] == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
    return l->end;
}

// Where text ends that stands in front of a tag: without its spaces for "{%-", without those of the tag's own line for
// "{%".
static size_t kept_before(const ft_chat_lexer *l, const char *text, size_t length, const char *tag) {
    const char sign = tag + 2 < l->end ? tag[2] : '\0';
    if (sign == '-') {
        size_t kept = length;
        ft_chat_strip(text, &kept, NULL, 0, false, true);
        return kept;
    }
    if (sign == '+' || tag[1] == '{') return length;
    size_t line = length;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    if (line == 0 && !l->line_starting) return length;
    const char *rest = text + line;
    size_t blank = length - line;
    ft_chat_strip(rest, &blank, NULL, 0, false, true);
    return blank == 0 ? line : length;
}

// Behind a tag: "-" takes all white space, a statement or a comment its line's end.
static void pass_end(ft_chat_lexer *l, char sign, bool variable) {
    const char *before = l->at - 1;
    if (sign == '-') {
        size_t length = (size_t)(l->end - l->at), kept = length;
        const char *text = ft_chat_strip(l->at, &kept, NULL, 0, true, false);
        move_to(l, text != NULL ? text : l->end);
    } else if (sign != '+' && !variable && l->at < l->end && *l->at == '\n')
        move_to(l, l->at + 1);
    before = l->at - 1;
    l->line_starting = *before == '\n';
}

static ft_status pass_comment(ft_chat_lexer *l) {
    const int line = l->line;
    for (const char *p = l->at + 2; p + 1 < l->end; p++) {
        if (p[0] != '#' || p[1] != '}') continue;
        const char sign = p[-1] == '-' || p[-1] == '+' ? p[-1] : '\0';
        move_to(l, p + 2);
        pass_end(l, sign, false);
        return FT_OK;
    }
    return ft_chat_fail(l->where, line, "a comment {# without its end");
}

ft_status ft_chat_lex_piece(ft_chat_lexer *l, ft_chat_piece *piece, const char **text, size_t *length) {
    for (;;) {
        if (l->at == l->end) return *piece = FT_CHAT_FINISH, FT_OK;
        const char *tag = find_tag(l);
        if (tag > l->at) {
            *text = l->at;
            *length = (size_t)(tag - l->at);
            if (tag < l->end) *length = kept_before(l, l->at, *length, tag);
            move_to(l, tag);
            l->line_starting = false; // what comes is a tag; only its own end says more
            if (*length == 0) continue;
            return *piece = FT_CHAT_TEXT, FT_OK;
        }
        if (tag[1] == '#') {
            FT_TRY(pass_comment(l));
            continue;
        }
        l->block = tag[1] == '%';
        l->brackets = 0;
        l->at += 2;
        if (l->at < l->end && (*l->at == '-' || *l->at == '+')) l->at++;
        *piece = l->block ? FT_CHAT_STATEMENT : FT_CHAT_EXPRESSION;
        return ft_chat_lex_next(l);
    }
}

// ---- tokens --------------------------------------------------------------------------------------------------------
static bool is_name(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static ft_status keep(ft_chat_lexer *l, ft_chat_token_kind kind, const char *text, size_t length) {
    l->token.kind = kind;
    l->token.text = ft_arena_strndup(l->arena, text, length);
    l->token.length = length;
    return l->token.text != NULL ? FT_OK : FT_NO_MEMORY;
}

static int hexadecimal(const char *at, int digits) {
    int code = 0;
    for (int i = 0; i < digits; i++) {
        static const char DIGITS[] = "0123456789abcdef";
        const char lower = (char)(at[i] >= 'A' && at[i] <= 'F' ? at[i] + 32 : at[i]);
        const char *found = lower != '\0' ? strchr(DIGITS, lower) : NULL;
        if (found == NULL) return -1;
        code = code * 16 + (int)(found - DIGITS);
    }
    return code;
}

// Of a string what stands behind a backslash; *at is on it. Writes to `out`.
static ft_status escape(ft_chat_lexer *l, const char **at, const char *stop, char **out) {
    static const char FROM[] = "nrtbfav0\\'\"", TO[] = "\n\r\t\b\f\a\v\0\\'\"";
    const char *p = *at + 1;
    const char *known = p < stop && *p != '\0' ? strchr(FROM, *p) : NULL;
    if (p < stop && *p == '\n') return *at = p + 1, FT_OK; // a line that goes on
    if (known != NULL) {
        if (*p == '0') return ft_chat_fail(l->where, l->line, "a NUL byte in a string");
        *(*out)++ = TO[known - FROM];
        return *at = p + 1, FT_OK;
    }
    const int digits = p < stop && *p == 'x' ? 2 : p < stop && *p == 'u' ? 4 : 0;
    if (digits > 0 && stop - p > digits) {
        const int code = hexadecimal(p + 1, digits);
        if (code <= 0 || (code >= 0xD800 && code < 0xE000))
            return ft_chat_fail(l->where, l->line, "a character that there is not: \\%.*s", digits + 1, p);
        *out += ft_utf8_put((uint32_t)code, *out);
        return *at = p + 1 + digits, FT_OK;
    }
    if (digits > 0 || (p < stop && (*p == 'U' || *p == 'N' || is_digit((unsigned char)*p))))
        return ft_chat_fail(l->where, l->line, "\\%c in a string is not supported", *p);
    *(*out)++ = '\\'; // as Python: what means nothing stays
    return *at = p, FT_OK;
}

static ft_status lex_string(ft_chat_lexer *l) {
    const char quote = *l->at, *stop = l->at + 1;
    while (stop < l->end && *stop != quote)
        stop += *stop == '\\' && stop + 1 < l->end ? 2 : 1;
    if (stop >= l->end) return ft_chat_fail(l->where, l->line, "a string without its end");
    char *text = ft_arena_alloc(l->arena, (size_t)(stop - l->at) + 1), *out = text;
    if (text == NULL) return FT_NO_MEMORY;
    for (const char *p = l->at + 1; p < stop;)
        if (*p == '\\')
            FT_TRY(escape(l, &p, stop, &out));
        else
            *out++ = *p++;
    l->token.kind = FT_CHAT_STRING, l->token.text = text, l->token.length = (size_t)(out - text);
    move_to(l, stop + 1);
    return FT_OK;
}

static ft_status lex_number(ft_chat_lexer *l) {
    enum { LONGEST = 17, SHOWN = 32 }; // a 64-bit integer of so many characters is exact
    const char *p = l->at;
    char digits[LONGEST + 1] = "";
    while (p < l->end && is_digit((unsigned char)*p))
        p++;
    l->token.is_real = p + 1 < l->end && *p == '.' && is_digit((unsigned char)p[1]);
    if (l->token.is_real) p++;
    while (p < l->end && is_digit((unsigned char)*p))
        p++;
    if (p < l->end && (*p == 'e' || *p == 'E')) {
        const char *sign = p + 1 < l->end && (p[1] == '+' || p[1] == '-') ? p + 2 : p + 1;
        if (sign < l->end && is_digit((unsigned char)*sign)) {
            l->token.is_real = true;
            for (p = sign; p < l->end && is_digit((unsigned char)*p);)
                p++;
        }
    }
    const bool goes_on = p < l->end && is_name((unsigned char)*p), fits = p - l->at <= LONGEST;
    if (fits) memcpy(digits, l->at, (size_t)(p - l->at));
    l->token.real = strtod(digits, NULL);
    if (goes_on || !fits || !isfinite(l->token.real)) {
        const ptrdiff_t length = p - l->at + goes_on;
        return ft_chat_fail(l->where, l->line, "numbers like %.*s%s are not supported", (int)(length > SHOWN ? SHOWN : length), l->at,
                            length > SHOWN ? "..." : "");
    }
    l->token.kind = FT_CHAT_NUMBER;
    l->token.integer = strtoll(digits, NULL, 10);
    l->at = p;
    return FT_OK;
}

// The end of the tag, which `sign` may stand in front of.
static bool at_end(ft_chat_lexer *l, char *sign) {
    *sign = '\0';
    const char *close = l->block ? "%}" : "}}";
    if (l->brackets > 0) return false;
    if ((*l->at == '-' || (*l->at == '+' && l->block)) && l->end - l->at > 2 && memcmp(l->at + 1, close, 2) == 0) {
        *sign = *l->at;
        l->at += 3;
        return true;
    }
    if (!begins(l, close)) return false;
    l->at += 2;
    return true;
}

ft_status ft_chat_lex_next(ft_chat_lexer *l) {
    static const char *const OPERATORS[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<",
                                            ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|", ";"};
    char sign;
    while (l->at < l->end && strchr(" \t\n\v\f", *l->at) != NULL && *l->at != '\0')
        move_to(l, l->at + 1);
    l->token = (ft_chat_token){.line = l->line, .text = ""};
    if (l->at == l->end) return ft_chat_fail(l->where, l->line, "a tag without its end");
    if (at_end(l, &sign)) {
        l->token.kind = FT_CHAT_END;
        pass_end(l, sign, !l->block);
        return FT_OK;
    }
    if (is_name((unsigned char)*l->at)) {
        const char *p = l->at;
        while (p < l->end && (is_name((unsigned char)*p) || is_digit((unsigned char)*p)))
            p++;
        const char *begin = l->at;
        l->at = p;
        return keep(l, FT_CHAT_NAME, begin, (size_t)(p - begin));
    }
    if (is_digit((unsigned char)*l->at)) return lex_number(l);
    if (*l->at == '\'' || *l->at == '"') return lex_string(l);
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
        if (!begins(l, OPERATORS[i])) continue;
        const char c = *OPERATORS[i];
        l->brackets += c == '(' || c == '[' || c == '{';
        l->brackets -= l->brackets > 0 && (c == ')' || c == ']' || c == '}');
        l->at += strlen(OPERATORS[i]);
        return keep(l, FT_CHAT_OPERATOR, OPERATORS[i], strlen(OPERATORS[i]));
    }
    return ft_chat_fail(l->where, l->line, "the character '%c' (0x%02X) in a tag", *l->at >= ' ' && *l->at < 127 ? *l->at : '?',
                        (unsigned char)*l->at);
}
