#include "kernels/devices/verdict.h"

#include "base/arena.h"
#include "base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

// As of other caches; "" where there is no place.
static void find_path(ft_verdict *v, const char *name, const char *subject) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char directory[400], hash[65];
    v->path[0] = '\0';
    int length = -1;
    if (cache != NULL && cache[0] == '/')
        length = snprintf(directory, sizeof directory, "%s/ftengine/checks", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(directory, sizeof directory, "%s/.cache/ftengine/checks", home);
    if (length < 0 || (size_t)length >= sizeof directory) return;
    if (ft_make_directories(directory) != FT_OK || ft_sha256(subject, strlen(subject), hash) != FT_OK) {
        ft_error_clear();
        return;
    }
    length = snprintf(v->path, sizeof v->path, "%s/%s-%.16s", directory, name, hash);
    if (length < 0 || (size_t)length >= sizeof v->path) v->path[0] = '\0';
}

void ft_verdict_open(ft_verdict *v, const char *name, const char *subject) {
    v->fd = -1;
    v->text[0] = '\0';
    find_path(v, name, subject);
    if (v->path[0] == '\0') return;
    v->fd = open(v->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (v->fd < 0) return;
    const bool alone = flock(v->fd, LOCK_EX | LOCK_NB) == 0;
    const ssize_t got = pread(v->fd, v->text, sizeof v->text - 1, 0);
    v->text[got > 0 ? got : 0] = '\0';
    v->text[strcspn(v->text, "\n")] = '\0';
    if (alone) return;
    const size_t length = strlen(v->text), end = sizeof FT_VERDICT_NEVER_ENDED - 1;
    const bool begun = strcmp(v->text, FT_VERDICT_BEGUN) == 0 || (length >= end && strcmp(v->text + length - end, FT_VERDICT_NEVER_ENDED) == 0);
    if (begun) v->text[0] = '\0'; // whoever has begun is alive
    ft_verdict_close(v);
}

void ft_verdict_write(ft_verdict *v, const char *text) {
    char line[FT_VERDICT_TEXT + 1];
    if (v->fd < 0) return;
    const int length = snprintf(line, sizeof line, "%.*s\n", FT_VERDICT_TEXT - 1, text);
    if (ftruncate(v->fd, 0) == 0 && pwrite(v->fd, line, (size_t)length, 0) == length) (void)fsync(v->fd);
}

void ft_verdict_close(ft_verdict *v) {
    if (v->fd >= 0) close(v->fd); // and its lock is gone
    v->fd = -1;
}
