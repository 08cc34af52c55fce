#include "kernels/log.h"

#include "kernels/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ft_log_level level = FT_LOG_NORMAL;
static bool line_open; // a status line stands on the terminal

void ft_log_set_level(ft_log_level l) { level = l; }
ft_log_level ft_log_get_level(void) { return level; }

bool ft_log_is_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term != NULL && strcmp(term, "dumb") == 0);
}

bool ft_log_color(void) {
    const char *no = getenv("NO_COLOR");
    return ft_log_is_terminal() && (no == NULL || no[0] == '\0');
}

static void clear_line(void) {
    if (line_open) fputs("\r\033[K", stderr);
    line_open = false;
}

static void print_line(const char *prefix, const char *format, va_list args) {
    clear_line();
    fputs(prefix, stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void ft_info(const char *format, ...) {
    if (level < FT_LOG_NORMAL) return;
    va_list args;
    va_start(args, format);
    print_line("", format, args);
    va_end(args);
}

void ft_detail(const char *format, ...) {
    if (level < FT_LOG_VERBOSE) return;
    va_list args;
    va_start(args, format);
    print_line("", format, args);
    va_end(args);
}

void ft_warn(const char *format, ...) {
    if (level == FT_LOG_SILENT) return;
    va_list args;
    va_start(args, format);
    print_line("warning: ", format, args);
    va_end(args);
}

void ft_status_line(const char *format, ...) {
    if (level < FT_LOG_NORMAL || !ft_log_is_terminal()) return;
    clear_line();
    if (format[0] == '\0') {
        fflush(stderr);
        return;
    }
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
    line_open = true;
}

// Names from hostile files stand in messages: control bytes must not reach a terminal.
static void put_clean(const char *text) {
    for (; *text != '\0'; text++) fputc((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text, stderr);
}

void ft_log_error(void) {
    clear_line();
    const char *where = ft_error_where();
    fputs("ftengine: error: ", stderr);
    put_clean(ft_error_message());
    if (where[0] != '\0') {
        fputs(" (", stderr);
        put_clean(where);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    for (int i = 0; i < ft_error_hint_count(); i++) {
        fputs("  hint: ", stderr);
        put_clean(ft_error_hint(i));
        fputc('\n', stderr);
    }
}
