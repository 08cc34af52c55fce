#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static _Thread_local ft_error current;

static void set_text(char *out, size_t size, const char *format, va_list args) {
    vsnprintf(out, size, format, args);
}

static void begin(ft_status code, const char *where) {
    current.code = code;
    current.disk_full = current.locked = current.device = false;
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

// Bytes of addresses that the process has: all, and those that count as data. 0: nobody says. No memory is asked for.
static void read_addresses(unsigned long long *all, unsigned long long *data) {
    char text[160];
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = '\0';
    *all = *data = 0;
    if (sscanf(text, "%llu %*u %*u %*u %*u %llu", all, data) != 2) return;
    *all *= (unsigned long long)sysconf(_SC_PAGESIZE);
    *data *= (unsigned long long)sysconf(_SC_PAGESIZE);
}

// A want of memory that a limit of addresses explains has its name. bytes: that were asked for, 0: nobody knows.
static void name_limit(unsigned long long bytes) {
    enum { BESIDE = 1 << 20 }; // what an allocator takes with them
    static const struct {
        int resource;
        const char *name, *what;
    } limits[] = {{RLIMIT_AS, "RLIMIT_AS (ulimit -v)", "addresses"}, {RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", "data"}};
    unsigned long long used[2];
    read_addresses(&used[0], &used[1]);
    for (int i = 0; i < 2; i++) {
        struct rlimit r;
        if (getrlimit(limits[i].resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY || used[i] == 0) continue;
        if (bytes > 0 && (bytes > ULLONG_MAX / 2 || used[i] + bytes + BESIDE <= r.rlim_cur)) continue;
        ft_error_where_default("%s", limits[i].name);
        if (bytes > 0)
            ft_hint("%s lets the process have %llu bytes of %s: %llu are taken, %llu more are needed, and others after them", limits[i].name,
                    (unsigned long long)r.rlim_cur, limits[i].what, used[i], bytes);
        else ft_hint("%s lets the process have %llu bytes of %s: %llu are taken", limits[i].name, (unsigned long long)r.rlim_cur, limits[i].what, used[i]);
        return;
    }
}

static const char *reason_of(int errnum, char *buffer, size_t size) {
#ifdef __GLIBC__ // the text, which may or may not be in the buffer
    return strerror_r(errnum, buffer, size);
#else
    return strerror_r(errnum, buffer, size) == 0 ? buffer : "unknown error";
#endif
}

ft_status ft_fail_errno(ft_status code, int errnum, const char *where, const char *format, ...) {
    char text[sizeof current.message - 160], reason[128];
    va_list args;
    va_start(args, format);
    set_text(text, sizeof text, format, args);
    va_end(args);
    begin(errnum == ENOMEM ? FT_NO_MEMORY : code, where);
    current.disk_full = errnum == ENOSPC || errnum == EDQUOT;
    snprintf(current.message, sizeof current.message, "%s: %s", text, reason_of(errnum, reason, sizeof reason));
    if (errnum == ENOMEM) name_limit(0);
    return current.code;
}

ft_status ft_fail_memory(unsigned long long bytes, const char *what) {
    ft_fail(FT_NO_MEMORY, NULL, "out of host memory (%llu bytes for %s)", bytes, what);
    name_limit(bytes);
    return FT_NO_MEMORY;
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
void ft_error_is_of_device(void) { current.device = true; }
bool ft_error_of_device(void) { return current.device; }
void ft_error_clear(void) { memset(&current, 0, sizeof current); }
void ft_error_save(ft_error *out) { *out = current; }
void ft_error_restore(const ft_error *in) { current = *in; }
