#include "base/log.h"

#include "base/context.h"
#include "base/log_copy.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ft_log_set_level(ft_log_level level) { atomic_store(&ft_context_now()->level, level); }
ft_log_level ft_log_get_level(void) { return (ft_log_level)atomic_load(&ft_context_now()->level); }

bool ft_log_is_terminal(void) {
    if (ft_context_now()->sink.line != NULL) return false;
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term != NULL && strcmp(term, "dumb") == 0);
}

bool ft_log_color(void) {
    const char *no = getenv("NO_COLOR");
    return ft_log_is_terminal() && (no == NULL || no[0] == '\0');
}

static void clear_line(ft_context *context) {
    if (atomic_exchange(&context->line_open, false)) fputs("\r\033[K", stderr);
}

// Names from hostile files stand in messages: what commands a terminal must not reach it. Line ends stay where messages have them.
static void clean(char *text, bool line_ends) {
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        if (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0) at[0] = at[1] = '?'; // in UTF-8, the other control characters
        else if ((*at < 0x20 && !(line_ends && *at == '\n')) || *at == 0x7F) *at = '?';
    }
}

// A line in one piece: other threads have lines of their own. Not shown: for copies alone.
static void put_line(const char *text, bool shown) {
    ft_context *context = ft_context_now();
    ft_log_copy_line(text);
    if (!shown) return;
    if (context->sink.line != NULL) {
        context->sink.line(context->sink.owner, text);
        return;
    }
    clear_line(context);
    fprintf(stderr, "%s\n", text);
}

static void print_line(bool shown, const char *prefix, const char *format, va_list args) {
    char usual[1024], *text = usual;
    const size_t begin = strlen(prefix);
    memcpy(usual, prefix, begin);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(usual + begin, sizeof usual - begin, format, args);
    const size_t size = begin + (length > 0 ? (size_t)length : 0) + 1;
    if (size > sizeof usual && (text = malloc(size)) != NULL) {
        memcpy(text, prefix, begin);
        vsnprintf(text + begin, size - begin, format, again);
    }
    va_end(again);
    clean(text != NULL ? text : usual, true);
    put_line(text != NULL ? text : usual, shown); // without memory it is cut
    if (text != usual) free(text);
}

void ft_info(const char *format, ...) {
    const bool shown = ft_log_get_level() >= FT_LOG_NORMAL;
    if (!shown && (ft_log_get_level() == FT_LOG_SILENT || !ft_log_copies())) return;
    va_list args;
    va_start(args, format);
    print_line(shown, "", format, args);
    va_end(args);
}

void ft_detail(const char *format, ...) {
    if (ft_log_get_level() < FT_LOG_VERBOSE) return;
    va_list args;
    va_start(args, format);
    print_line(true, "", format, args);
    va_end(args);
}

void ft_warn(const char *format, ...) {
    if (ft_log_get_level() == FT_LOG_SILENT) return;
    va_list args;
    va_start(args, format);
    print_line(true, "warning: ", format, args);
    va_end(args);
}

void ft_status_line(const char *format, ...) {
    ft_context *context = ft_context_now();
    if (ft_log_get_level() < FT_LOG_NORMAL || !ft_log_is_terminal()) return;
    clear_line(context);
    if (format[0] == '\0') {
        fflush(stderr);
        return;
    }
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
    atomic_store(&context->line_open, true);
}

static void put_clean(char *text) {
    clean(text, false);
    put_line(text, true);
}

void ft_log_error(void) {
    ft_error error;
    char line[sizeof error.message + sizeof error.where + 64];
    ft_error_save(&error);
    const bool has_where = error.where[0] != '\0';
    snprintf(line, sizeof line, "ftengine: error: %s%s%s%s", error.message, has_where ? " (" : "", error.where, has_where ? ")" : "");
    put_clean(line);
    for (int i = 0; i < error.hints; i++) {
        snprintf(line, sizeof line, "  hint: %s", error.hint[i]);
        put_clean(line);
    }
    ft_log_copy_told();
}
