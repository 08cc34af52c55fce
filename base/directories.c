// directories.c - what is at a path; directories made with those above them, and removed with all that is in them.
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ft_path_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool ft_path_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// Whether it is the name that is wrong, rather than the system failing.
static bool wrong_place(int errnum) {
    return errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES || errnum == EPERM || errnum == EROFS || errnum == ELOOP ||
           errnum == ENAMETOOLONG;
}

static ft_status make_directory(const char *path) {
    // Looked at first: for a directory that exists under a read-only mount mkdir may name the mount instead.
    if (ft_path_is_directory(path)) return FT_OK;
    if (mkdir(path, 0777) == 0) return FT_OK;
    int errnum = errno;
    if (ft_path_is_directory(path)) return FT_OK; // somebody else was faster
    return ft_fail_errno(wrong_place(errnum) ? FT_INVALID : FT_FAILED, errnum, path, "cannot create the directory");
}

ft_status ft_make_directories(const char *path) {
    if (path[0] == '\0') return ft_fail(FT_INVALID, NULL, "the name of a directory is empty");
    size_t length = strlen(path);
    char *prefix = ft_calloc(length + 1, 1, "a path");
    if (prefix == NULL) return FT_NO_MEMORY;
    ft_status status = FT_OK;
    for (size_t end = 1; end <= length && status == FT_OK; end++) {
        if (path[end] != '/' && path[end] != '\0') continue;
        memcpy(prefix, path, end);
        prefix[end] = '\0';
        status = make_directory(prefix);
    }
    free(prefix);
    return status;
}

static ft_status remove_entries(int fd, const char *shown);

// Removes `name` inside the open directory `parent`. Relative to descriptors and never through links, so that a link
// swapped in meanwhile cannot lead outside.
static ft_status remove_at(int parent, const char *name, const char *shown) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return FT_OK;
    int why = errno;
    if (why != EISDIR && why != EPERM) return ft_fail_errno(FT_FAILED, why, shown, "cannot remove %s", name);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT) return FT_OK;
        return ft_fail_errno(FT_FAILED, errno == ENOTDIR ? why : errno, shown, "cannot remove %s", name);
    }
    FT_TRY(remove_entries(fd, shown));
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return FT_OK;
    return ft_fail_errno(FT_FAILED, errno, shown, "cannot remove the directory %s", name);
}

// Takes `fd` over.
static ft_status remove_entries(int fd, const char *shown) {
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        int errnum = errno;
        close(fd);
        return ft_fail_errno(FT_FAILED, errnum, shown, "cannot read the directory");
    }
    ft_status status = FT_OK;
    for (struct dirent *e; status == FT_OK && (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) status = remove_at(fd, e->d_name, shown);
    closedir(d);
    return status;
}

ft_status ft_remove_tree(const char *path) { return remove_at(AT_FDCWD, path, path); }
