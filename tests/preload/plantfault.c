// plantfault.c - LD_PRELOAD library: one call of the file system fails, or is the last one of its process. See README.md.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static bool ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

// Once, of all processes: who makes the file PLANT_DONE.
static bool is_first(void) {
    const char *done = getenv("PLANT_DONE");
    REAL(open);
    const int file = done != NULL ? real(done, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666) : -1;
    if (file >= 0) close(file);
    return file >= 0;
}

static bool fails(const char *call, const char *path) {
    char name[16], end[256], what[16];
    const char *plant = getenv("PLANT");
    if (plant == NULL || sscanf(plant, "%15s %255s %15s", name, end, what) != 3) return false;
    if (strcmp(call, name) != 0 || !ends_with(path, end) || !is_first()) return false;
    if (strcmp(what, "kill") == 0) raise(SIGKILL);
    errno = atoi(what);
    return true;
}

int mkdir(const char *path, mode_t mode) {
    struct stat there;
    REAL(mkdir);
    return stat(path, &there) != 0 && fails("mkdir", path) ? -1 : real(path, mode); // mkdir -p asks for all that is there, too
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename", to) ? -1 : real(from, to);
}

int link(const char *from, const char *to) {
    REAL(link);
    return fails("link", to) ? -1 : real(from, to);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    REAL(open);
    return flags & O_CREAT && fails("create", path) ? -1 : real(path, flags, mode);
}
