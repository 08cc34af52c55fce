#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- reading ------------------------------------------------------------------------------------------------------

// Whether the caller named the wrong thing, rather than the system failing.
static bool wrong_name(int errnum) {
    return errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES || errnum == EISDIR || errnum == ELOOP ||
           errnum == ENAMETOOLONG;
}

static ft_status open_kind(const char *path, bool regular, int *descriptor) {
    *descriptor = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0)); // which changes nothing for a regular file
    if (fd < 0) return ft_fail_errno(wrong_name(errno) ? FT_INVALID : FT_FAILED, errno, path, "cannot open the file");
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        close(fd);
        return ft_fail(FT_INVALID, path, "a file is needed here, this is a directory");
    }
    if (regular && !S_ISREG(st.st_mode)) {
        close(fd);
        return ft_fail(FT_INVALID, path, "a file is needed here, this is a %s", S_ISFIFO(st.st_mode) ? "pipe" : "device");
    }
    *descriptor = fd;
    return FT_OK;
}

ft_status ft_open_input(const char *path, int *descriptor) { return open_kind(path, true, descriptor); }

// Reads up to the end or `most` bytes; *got says how many.
static ft_status read_some(int fd, const char *path, char *out, size_t most, size_t *got) {
    for (*got = 0; *got < most;) {
        ssize_t n = read(fd, out + *got, most - *got);
        if (n == 0) break;
        if (n > 0)
            *got += (size_t)n;
        else if (errno != EINTR)
            return ft_fail_errno(FT_FAILED, errno, path, "cannot read the file");
    }
    return FT_OK;
}

static ft_status read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *length) {
    struct stat st;
    size_t capacity = 1 << 16; // pipes and files of /proc do not tell their size
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if ((unsigned long long)st.st_size > max_bytes)
            return ft_fail(FT_INVALID, path, "the file has %lld bytes, at most %zu can be read here",
                           (long long)st.st_size, max_bytes);
        if (st.st_size > 0) capacity = (size_t)st.st_size + 2; // one for the NUL, one to see the end
    }
    for (;;) {
        char *grown = ft_realloc(*data, capacity, 1, path);
        if (grown == NULL) return FT_NO_MEMORY;
        *data = grown;
        size_t got, room = capacity - 1 - *length;
        FT_TRY(read_some(fd, path, grown + *length, room, &got));
        *length += got;
        if (*length > max_bytes)
            return ft_fail(FT_INVALID, path, "the file is longer than the %zu bytes that can be read here", max_bytes);
        if (got < room) break;
        capacity = capacity < max_bytes / 2 ? 2 * capacity : max_bytes + 2; // an endless device stops at the limit
    }
    (*data)[*length] = '\0';
    return FT_OK;
}

static ft_status read_kind(const char *path, bool regular, size_t max_bytes, char **data, size_t *length) {
    *data = NULL;
    *length = 0;
    int fd;
    FT_TRY(open_kind(path, regular, &fd));
    ft_status status = read_all(fd, path, max_bytes != 0 ? max_bytes : (size_t)1 << 30, data, length);
    close(fd);
    if (status != FT_OK) {
        free(*data);
        *data = NULL;
        *length = 0;
    }
    return status;
}

ft_status ft_read_file(const char *path, size_t max_bytes, char **data, size_t *length) {
    return read_kind(path, true, max_bytes, data, length);
}

ft_status ft_read_stream(const char *path, size_t max_bytes, char **data, size_t *length) {
    return read_kind(path, false, max_bytes, data, length);
}

// ---- mapping ------------------------------------------------------------------------------------------------------

static ft_status map_descriptor(int fd, const char *path, const void **data, size_t *size) {
    struct stat st;
    if (fstat(fd, &st) != 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot look at the file");
    if (st.st_size == 0) return FT_OK;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED && errno == ENOMEM) { // of RLIMIT_AS
        ft_fail_memory((unsigned long long)st.st_size, "a mapped file");
        ft_hint("%s is mapped, which takes addresses: a higher limit of them (ulimit -v)", path);
        return FT_NO_MEMORY;
    }
    if (map == MAP_FAILED)
        return ft_fail_errno(FT_FAILED, errno, path, "cannot map the file of %lld bytes", (long long)st.st_size);
    *data = map;
    *size = (size_t)st.st_size;
    return FT_OK;
}

ft_status ft_map_file(const char *path, const void **data, size_t *size) {
    *data = NULL;
    *size = 0;
    int fd;
    FT_TRY(ft_open_input(path, &fd));
    ft_status status = map_descriptor(fd, path, data, size);
    close(fd);
    return status;
}

void ft_unmap_file(const void *data, size_t size) {
    if (data != NULL) munmap((void *)data, size);
}

// ---- scratch ------------------------------------------------------------------------------------------------------

ft_status ft_scratch_file(const char *directory, int *descriptor) {
    if (directory == NULL) directory = getenv("TMPDIR");
    if (directory == NULL || directory[0] == '\0') directory = "/var/tmp"; // on a disk; /tmp may be memory
#ifdef O_TMPFILE
    *descriptor = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*descriptor >= 0) return FT_OK;
#endif
    char name[4096];
    *descriptor = -1;
    if (snprintf(name, sizeof name, "%s/.ftengine-XXXXXX", directory) < (int)sizeof name) { // file systems without O_TMPFILE
        *descriptor = mkostemp(name, O_CLOEXEC);
        if (*descriptor >= 0) unlink(name);
    }
    return *descriptor >= 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, directory, "cannot make a scratch file");
}

// ---- directories and copies ---------------------------------------------------------------------------------------

static ft_status copy_into(int fd, const char *from, FILE *out, const char *to) {
    enum { PIECE = 1 << 16 };
    char *piece = ft_calloc(PIECE, 1, "a copy buffer");
    if (piece == NULL) return FT_NO_MEMORY;
    ft_status status;
    size_t got = PIECE;
    do {
        status = read_some(fd, from, piece, PIECE, &got);
        if (status == FT_OK && fwrite(piece, 1, got, out) != got)
            status = ft_fail_errno(FT_FAILED, errno, to, "cannot write the file");
    } while (status == FT_OK && got == PIECE);
    free(piece);
    return status;
}

ft_status ft_copy_file(const char *from, const char *to) {
    int fd;
    FT_TRY(ft_open_input(from, &fd));
    ft_atomic_file file;
    ft_status status = ft_atomic_open(&file, to);
    if (status == FT_OK) status = copy_into(fd, from, file.stream, to);
    if (status == FT_OK)
        status = ft_atomic_commit(&file);
    else
        ft_atomic_abort(&file);
    close(fd);
    return status;
}
