// parse.c - from text to Jansson's values. Jansson's own parser does not survive a failed allocation (it goes on
// without the byte that found no room, and later writes behind a buffer), and refuses integers beyond int64.
#include "base/json/json.h"

#include "base/arena.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 512 };

typedef struct parser {
    const char *start, *at, *end;
    const char *path;
    char *scratch; // the present string or number, with a NUL
    size_t room;
} parser;

static ft_status parse_value(parser *p, int depth, json_t **out);

// ---- errors -------------------------------------------------------------------------------------------------------

static ft_status fail_at(const parser *p, const char *at, const char *what) {
    int line = 1, column = 1;
    for (const char *c = p->start; c < at; c++) {
        if (*c == '\n')
            line++, column = 1;
        else if ((*c & 0xC0) != 0x80)
            column++; // characters, not bytes
    }
    char where[512];
    snprintf(where, sizeof where, "%.*s:%d:%d", (int)sizeof where - 32, p->path, line, column);
    return ft_fail(FT_INVALID, where, "not valid JSON: %s", what);
}

// "WANTED, not 'x'" at the present place.
static ft_status fail_wanted(const parser *p, const char *wanted) {
    char text[96];
    if (p->at == p->end)
        snprintf(text, sizeof text, "%s, not the end of the text", wanted);
    else if (*p->at > ' ' && *p->at < 0x7F)
        snprintf(text, sizeof text, "%s, not '%c'", wanted, *p->at);
    else
        snprintf(text, sizeof text, "%s, not a byte 0x%02x", wanted, (unsigned char)*p->at);
    return fail_at(p, p->at, text);
}

// ---- strings ------------------------------------------------------------------------------------------------------

static bool reserve(parser *p, size_t bytes) {
    if (bytes <= p->room) return true;
    size_t room = bytes < 256 ? 256 : 2 * bytes;
    char *grown = ft_realloc(p->scratch, room, 1, "a JSON string");
    if (grown == NULL) return false;
    p->scratch = grown;
    p->room = room;
    return true;
}

// The length of the well-formed UTF-8 character at `at`, 0 when there is none (Unicode, table 3-7).
static int utf8_length(const char *at, const char *end) {
    const unsigned char *c = (const unsigned char *)at;
    int n = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > end - at) return 0;
    for (int i = 1; i < n; i++)
        if ((c[i] & 0xC0) != 0x80) return 0;
    if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90)) return 0; // longer than needed
    if ((c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F)) return 0; // surrogates, beyond U+10FFFF
    return n;
}

static size_t put_utf8(char *out, uint32_t c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    int n = c < 0x10000 ? 3 : 4;
    out[0] = (char)((n == 3 ? 0xE0 : 0xF0) | c >> 6 * (n - 1));
    for (int i = 1; i < n; i++)
        out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 63));
    return (size_t)n;
}

// Four hexadecimal digits at `at`, or -1.
static int32_t hex4(const char *at, const char *end) {
    int32_t value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *found = at[i] != '\0' ? strchr(digits, at[i] | 0x20) : NULL;
        if (found == NULL || at[i] < '0') return -1;
        value = value << 4 | (int32_t)(found - digits);
    }
    return value;
}

// Behind a backslash: writes the character and moves on.
static ft_status parse_escape(parser *p, size_t *length) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = p->at < p->end && *p->at != '\0' ? strchr(names, *p->at) : NULL;
    if (name != NULL) {
        p->scratch[(*length)++] = values[name - names];
        p->at++;
        return FT_OK;
    }
    if (p->at == p->end || *p->at != 'u')
        return fail_wanted(p, "a backslash needs one of \" \\ / b f n r t u behind it");
    int32_t c = hex4(p->at + 1, p->end), low = -1;
    if (c < 0) return fail_at(p, p->at, "\\u needs four hexadecimal digits");
    if (c == 0) return fail_at(p, p->at, "\\u0000 is not supported: it would end the string");
    p->at += 5;
    if (c >= 0xD800 && c < 0xE000) {
        if (c < 0xDC00 && p->end - p->at >= 2 && p->at[0] == '\\' && p->at[1] == 'u') low = hex4(p->at + 2, p->end);
        if (low < 0xDC00 || low >= 0xE000) return fail_at(p, p->at, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        p->at += 6;
    }
    *length += put_utf8(p->scratch + *length, (uint32_t)c);
    return FT_OK;
}

// At an opening quote; the string goes to scratch.
static ft_status parse_string(parser *p, size_t *length) {
    const char *open = p->at++, *close = p->at;
    while (close < p->end && *close != '"')
        close += *close == '\\' ? 2 : 1;
    if (close >= p->end) return fail_at(p, open, "this string does not end");
    if (!reserve(p, (size_t)(close - open))) return FT_NO_MEMORY; // no escape is shorter than what it stands for
    for (*length = 0; p->at < close;) {
        if (*p->at == '\\') {
            p->at++;
            FT_TRY(parse_escape(p, length));
            continue;
        }
        if ((unsigned char)*p->at < 0x20) return fail_wanted(p, "control characters in a string are written \\u00..");
        int n = utf8_length(p->at, close);
        if (n == 0) return fail_wanted(p, "strings are UTF-8");
        memcpy(p->scratch + *length, p->at, (size_t)n);
        *length += (size_t)n;
        p->at += n;
    }
    p->at = close + 1;
    p->scratch[*length] = '\0';
    return FT_OK;
}

// ---- numbers ------------------------------------------------------------------------------------------------------

static void skip_digits(parser *p) {
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
}

static bool skip_char(parser *p, const char *any_of) {
    bool found = p->at < p->end && *p->at != '\0' && strchr(any_of, *p->at) != NULL;
    if (found) p->at++;
    return found;
}

// A run of digits that must not be empty.
static ft_status need_digits(parser *p) {
    const char *from = p->at;
    skip_digits(p);
    return p->at > from ? FT_OK : fail_wanted(p, "a digit is needed");
}

static ft_status parse_number(parser *p, json_t **out) {
    const char *from = p->at;
    skip_char(p, "-");
    const char *digits = p->at;
    FT_TRY(need_digits(p));
    if (*digits == '0' && p->at > digits + 1) return fail_at(p, from, "a number does not begin with 0");
    bool integer = true;
    if (skip_char(p, ".")) {
        integer = false;
        FT_TRY(need_digits(p));
    }
    if (skip_char(p, "eE")) {
        integer = false;
        skip_char(p, "+-");
        FT_TRY(need_digits(p));
    }
    size_t length = (size_t)(p->at - from);
    if (!reserve(p, length + 1)) return FT_NO_MEMORY;
    memcpy(p->scratch, from, length);
    p->scratch[length] = '\0';
    errno = 0;
    json_int_t whole = integer ? strtoll(p->scratch, NULL, 10) : 0;
    if (integer && errno == 0) {
        *out = json_integer(whole);
    } else {
        double real = strtod(p->scratch, NULL);
        if (isinf(real)) return fail_at(p, from, "this number is too large");
        *out = json_real(real);
    }
    return *out != NULL ? FT_OK : ft_fail_memory(0, "a JSON number");
}

// ---- values -------------------------------------------------------------------------------------------------------

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

// Takes `c`, after white space.
static bool skip_mark(parser *p, char c) {
    skip_space(p);
    bool found = p->at < p->end && *p->at == c;
    if (found) p->at++;
    return found;
}

static ft_status parse_member(parser *p, int depth, json_t *object) {
    skip_space(p);
    const char *from = p->at;
    if (p->at == p->end || *p->at != '"') return fail_wanted(p, "a key in quotes is needed");
    size_t length;
    FT_TRY(parse_string(p, &length));
    if (json_object_get(object, p->scratch) != NULL) return fail_at(p, from, "duplicate key");
    char *key = ft_calloc(length + 1, 1, "a JSON key");
    if (key == NULL) return FT_NO_MEMORY;
    memcpy(key, p->scratch, length);
    json_t *value = NULL;
    ft_status status = skip_mark(p, ':') ? parse_value(p, depth, &value) : fail_wanted(p, "':' is needed");
    if (status == FT_OK && json_object_set_new_nocheck(object, key, value) != 0)
        status = ft_fail_memory(0, "a JSON object");
    free(key);
    return status;
}

static ft_status parse_element(parser *p, int depth, json_t *array) {
    json_t *value = NULL;
    FT_TRY(parse_value(p, depth, &value));
    return json_array_append_new(array, value) == 0 ? FT_OK : ft_fail_memory(0, "a JSON list");
}

static ft_status parse_container(parser *p, int depth, json_t **out) {
    bool object = *p->at++ == '{';
    if (depth > MOST_DEPTH) return fail_at(p, p->at - 1, "nested too deeply");
    char close = object ? '}' : ']';
    json_t *container = object ? json_object() : json_array();
    if (container == NULL) return ft_fail_memory(0, "a JSON text");
    ft_status status = FT_OK;
    if (!skip_mark(p, close)) {
        do {
            status = object ? parse_member(p, depth, container) : parse_element(p, depth, container);
        } while (status == FT_OK && skip_mark(p, ','));
        if (status == FT_OK && !skip_mark(p, close))
            status = fail_wanted(p, object ? "',' or '}' is needed" : "',' or ']' is needed");
    }
    if (status == FT_OK)
        *out = container;
    else
        json_decref(container);
    return status;
}

static bool skip_word(parser *p, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

static ft_status parse_value(parser *p, int depth, json_t **out) {
    skip_space(p);
    char c = p->at < p->end ? *p->at : '\0';
    if (c == '{' || c == '[') return parse_container(p, depth + 1, out);
    if (c == '-' || (c >= '0' && c <= '9')) return parse_number(p, out);
    if (c == '"') {
        size_t length;
        FT_TRY(parse_string(p, &length));
        *out = json_stringn_nocheck(p->scratch, length);
    } else if (skip_word(p, "true"))
        *out = json_true();
    else if (skip_word(p, "false"))
        *out = json_false();
    else if (skip_word(p, "null"))
        *out = json_null();
    else
        return fail_wanted(p, "a value is needed");
    return *out != NULL ? FT_OK : ft_fail_memory(0, "a JSON string");
}

ft_status ft_json_parse(const char *text, size_t length, const char *path, json_t **root) {
    *root = NULL;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, length -= 3; // a byte order mark
    parser p = {.start = text, .at = text, .end = text + length, .path = path};
    skip_space(&p);
    if (p.at == p.end || (*p.at != '{' && *p.at != '[')) return fail_wanted(&p, "'{' or '[' is needed");
    ft_status status = parse_value(&p, 0, root);
    skip_space(&p);
    if (status == FT_OK && p.at != p.end) {
        status = fail_wanted(&p, "nothing may follow");
        json_decref(*root);
        *root = NULL;
    }
    free(p.scratch);
    return status;
}
