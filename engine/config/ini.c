#include "engine/config/ini.h"

#include <ctype.h>
#include <ini.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct ini_source {
    const char *at, *end;
    int line;       // of what was read last
    bool line_ends; // the next read begins another one
    const char *label;
    char where[512];
    ft_ini_handler handler;
    void *user;
    ft_status status;
} ini_source;

static void set_up(void) {
    static char comments[] = ";#"; // the library's pointers are not to const
    ini_use_stack = false;
    ini_allow_realloc = true;
    ini_initial_alloc = 256;
    ini_max_line = FT_INI_LINE_LIMIT + 3; // line end and NUL
    ini_allow_multiline = false;          // an indented line is a line like others
    ini_allow_bom = true;
    ini_allow_inline_comments = true;
    ini_stop_on_first_error = true;
    ini_allow_no_value = false;
    ini_start_comment_prefixes = comments;
    ini_inline_comment_prefixes = comments;
}

static void set_where(ini_source *source, int line) {
    snprintf(source->where, sizeof source->where, "%.480s:%d", source->label, line);
}

// fgets over memory. Lines longer than the buffer come in pieces.
static char *read_piece(char *out, int room, void *user) {
    ini_source *source = user;
    if (source->at == source->end || room < 2) return NULL;
    size_t left = (size_t)(source->end - source->at), most = (size_t)room - 1 < left ? (size_t)room - 1 : left;
    const char *newline = memchr(source->at, '\n', most);
    size_t length = newline == NULL ? most : (size_t)(newline - source->at) + 1;
    memcpy(out, source->at, length);
    out[length] = '\0';
    source->at += length;
    if (source->line_ends) source->line++;
    source->line_ends = newline != NULL;
    return out;
}

static int on_key(void *user, const char *section, const char *key, const char *value) {
    ini_source *source = user;
    set_where(source, source->line);
    if (key[0] == '\0')
        source->status = ft_fail(FT_INVALID, source->where, "there is no name before the '='");
    else
        source->status = source->handler(source->user, section, key, value, source->line, source->where);
    return source->status == FT_OK;
}

// What inih would cut or pass over in silence: binary bytes, very long lines and section names, and anything that
// follows a section's bracket.
static ft_status check_line(const char *line, size_t length, const char *where) {
    if (length > FT_INI_LINE_LIMIT)
        return ft_fail(FT_INVALID, where, "the line has %zu bytes; at most %d are read", length, FT_INI_LINE_LIMIT);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)line[i];
        if (iscntrl(c) && c != '\t' && !(c == '\r' && i + 1 == length))
            return ft_fail(FT_INVALID, where, "this is no text file: it holds the byte 0x%02x", c);
    }
    const char *end = line + length;
    while (line < end && isspace((unsigned char)*line))
        line++;
    if (line == end || *line != '[') return FT_OK;
    const char *close = memchr(line, ']', (size_t)(end - line));
    if (close == NULL) return ft_fail(FT_INVALID, where, "a section's name ends with ]");
    if (close - line > 40)
        return ft_fail(FT_INVALID, where, "unknown section (its name has %d bytes)", (int)(close - line) - 1);
    for (close++; close < end && isspace((unsigned char)*close);)
        close++;
    if (close < end && *close != ';' && *close != '#')
        return ft_fail(FT_INVALID, where, "nothing may follow a section's name on its line");
    return FT_OK;
}

ft_status ft_ini_parse(const char *text, size_t size, const char *label, ft_ini_handler handler, void *user) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    ini_source source = {
        .at = text, .end = text + size, .line_ends = true, .label = label, .handler = handler, .user = user};
    size_t bom = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int line = 0;
    for (const char *at = text + bom; at < source.end;) {
        const char *newline = memchr(at, '\n', (size_t)(source.end - at));
        const char *end = newline == NULL ? source.end : newline;
        set_where(&source, ++line);
        FT_TRY(check_line(at, (size_t)(end - at), source.where));
        at = newline == NULL ? end : newline + 1;
    }
    int result = ini_parse_stream(read_piece, &source, on_key, &source);
    if (source.status != FT_OK) return source.status;
    if (result == -2) return ft_fail_memory(FT_INI_LINE_LIMIT, "a line of a configuration file");
    if (result != 0) {
        set_where(&source, source.line);
        ft_fail(FT_INVALID, source.where, "this line is neither [section] nor key = value nor a comment");
        return FT_INVALID;
    }
    return FT_OK;
}
