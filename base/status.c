#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local ft_error current;

static void set_text(char *out, size_t size, const char *format, va_list args) {
    vsnprintf(out, size, format, args);
}

static void begin(ft_status code, const char *where) {
    current.code = code;
    current.disk_full = current.locked = false;
    current.hints = 0;
    current.where[0] = '\0';
    if (where != NULL) snprintf(current.where, sizeof current.where, "%s", where);
}

ft_status ft_fail(ft_status code, const char *where, const char *format, ...) {
    char text[sizeof current.message]; // the arguments may point into the present message
    va_list args;
    va_start(args, format);
    set_text(text, sizeof text, format, args);
    va_end(args);
    begin(code, where);
    memcpy(current.message, text, sizeof text);
    return code;
}

ft_status ft_fail_errno(ft_status code, int errnum, const char *where, const char *format, ...) {
    char text[sizeof current.message - 160], reason[128];
    va_list args;
    va_start(args, format);
    set_text(text, sizeof text, format, args);
    va_end(args);
    begin(errnum == ENOMEM ? FT_NO_MEMORY : code, where);
    current.disk_full = errnum == ENOSPC || errnum == EDQUOT;
    // The GNU form returns the text, which may or may not be `reason`.
    snprintf(current.message, sizeof current.message, "%s: %s", text, strerror_r(errnum, reason, sizeof reason));
    return current.code;
}

ft_status ft_fail_memory(unsigned long long bytes, const char *what) {
    return ft_fail(FT_NO_MEMORY, NULL, "out of host memory (%llu bytes for %s)", bytes, what);
}

void ft_hint(const char *format, ...) {
    if (current.hints >= 4) return;
    va_list args;
    va_start(args, format);
    set_text(current.hint[current.hints++], sizeof current.hint[0], format, args);
    va_end(args);
}

void ft_error_where_default(const char *format, ...) {
    if (current.where[0] != '\0') return;
    va_list args;
    va_start(args, format);
    set_text(current.where, sizeof current.where, format, args);
    va_end(args);
}

const char *ft_error_message(void) { return current.message; }
const char *ft_error_where(void) { return current.where; }
int ft_error_hint_count(void) { return current.hints; }
const char *ft_error_hint(int index) { return index >= 0 && index < current.hints ? current.hint[index] : ""; }
ft_status ft_error_code(void) { return current.code; }
bool ft_error_disk_full(void) { return current.disk_full; }
void ft_error_is_locked(void) { current.locked = true; }
bool ft_error_locked(void) { return current.locked; }
void ft_error_clear(void) { memset(&current, 0, sizeof current); }
void ft_error_save(ft_error *out) { *out = current; }
void ft_error_restore(const ft_error *in) { current = *in; }
