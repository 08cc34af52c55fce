// atomic.c - files and directories that appear whole or not at all.
//
// A temporary is called .NAME.PID.N.ft-tmp, lies beside its target, and is locked (flock) while its writer lives. Who
// opens a new one removes those that nobody holds: a lock goes with its process however that ended, while a pid may
// belong to another process by now, or to one in another container.
#include "base/files.h"

#include "base/context.h"
#include "base/pace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_SUFFIX ".ft-tmp"
#define SET_ASIDE_SUFFIX ".ft-old"

static ft_status fail_write(int errnum, const char *path, const char *what) {
    ft_status status = ft_fail_errno(FT_FAILED, errnum, path, "%s", what);
    if (errnum == ENOSPC || errnum == EDQUOT) ft_hint("free some space; what stood there before is unchanged");
    if (errnum == EFBIG) ft_hint("the limit on file sizes (ulimit -f) or of the file system is reached");
    if (errnum == EACCES || errnum == EROFS || errnum == EPERM)
        ft_hint("the directory must be writable: new files are made beside old ones");
    return status;
}

// ---- names --------------------------------------------------------------------------------------------------------

// `path` without trailing slashes, on the heap.
static char *trimmed(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    char *out = ft_calloc(length + 1, 1, "a path");
    if (out != NULL) memcpy(out, path, length);
    return out;
}

// Length of the directory part of `path` with its slash; 0 when it has none.
static size_t directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

// The directory that holds `path`, on the heap.
static char *parent_of(const char *path) {
    size_t length = directory_length(path);
    char *out = ft_calloc(length + 2, 1, "a path");
    if (out != NULL) memcpy(out, length != 0 ? path : ".", length != 0 ? length : 1);
    return out;
}

// A name beside `path` that no other call of any process gets.
static char *beside(const char *path, const char *suffix) {
    static atomic_uint next;
    size_t directory = directory_length(path), size = strlen(path) + 64;
    char *out = ft_calloc(size, 1, "a path");
    if (out != NULL)
        snprintf(out, size, "%.*s.%s.%ld.%u%s", (int)directory, path, path + directory, (long)getpid(),
                 atomic_fetch_add(&next, 1), suffix);
    return out;
}

// Splits .NAME.PID.N<suffix>: length of NAME, or 0 when `entry` is no such name.
static size_t parse_name(const char *entry, const char *suffix, long *pid) {
    size_t length = strlen(entry), tail = strlen(suffix);
    if (entry[0] != '.' || length <= tail || strcmp(entry + length - tail, suffix) != 0) return 0;
    size_t at = length - tail, number[2];
    for (int i = 0; i < 2; i++) {
        size_t end = at;
        while (at > 1 && entry[at - 1] >= '0' && entry[at - 1] <= '9')
            at--;
        if (at == end || at < 2 || entry[at - 1] != '.') return 0;
        number[i] = at--;
    }
    *pid = strtol(entry + number[1], NULL, 10);
    return at - 1;
}

// ---- leftovers ----------------------------------------------------------------------------------------------------

// Locks without waiting. Where the file system has no locks the answer is 0 too: then nobody can hold one.
static int try_lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK ? 0 : -1; }

static bool writer_is_gone(int fd, long pid) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH; // no locks here: the pid is all there is to ask
}

// Removes what a dead writer left; a directory set aside by a commit that never finished goes back to its place.
static void clear_entry(const char *parent, const char *entry) {
    long pid = 0;
    size_t name = parse_name(entry, TEMPORARY_SUFFIX, &pid);
    bool set_aside = name == 0;
    if (set_aside) name = parse_name(entry, SET_ASIDE_SUFFIX, &pid);
    if (name == 0) return;
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, parent, entry);
    const char *target = path != NULL
                             ? ft_arena_format(&arena, "%s%s%.*s", parent, parent[strlen(parent) - 1] == '/' ? "" : "/",
                                               (int)name, entry + 1)
                             : NULL;
    int fd = target != NULL ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0 && writer_is_gone(fd, pid)) {
        struct stat st;
        bool vacant = set_aside && lstat(target, &st) != 0 && errno == ENOENT;
        if (!vacant || rename(path, target) != 0) ft_remove_tree(path);
    }
    if (fd >= 0) close(fd);
    ft_arena_free(&arena);
}

// Best effort: what cannot be cleared now costs disk space and nothing else, so no error comes out of here.
static void clear_leftovers(const char *parent) {
    ft_error before;
    ft_error_save(&before);
    DIR *d = opendir(parent);
    if (d != NULL) {
        for (struct dirent *e; (e = readdir(d)) != NULL;)
            clear_entry(parent, e->d_name);
        closedir(d);
    }
    ft_error_restore(&before);
}

// ---- temporaries --------------------------------------------------------------------------------------------------

static int create(const char *path, bool directory) {
    if (!directory) return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return mkdir(path, 0777) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

// Makes and locks a new temporary for `path`. Between the two somebody may clear it away: then once more.
static ft_status make_temporary(const char *path, bool directory, char **temporary, int *descriptor) {
    enum { ATTEMPTS = 16 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        char *name = beside(path, TEMPORARY_SUFFIX);
        if (name == NULL) return FT_NO_MEMORY;
        int fd = create(name, directory);
        if (fd < 0) {
            int errnum = errno;
            free(name);
            if (errnum == EEXIST || (errnum == ENOENT && directory && attempt + 1 < ATTEMPTS))
                continue; // of a former life of this pid; cleared before it could be opened
            return fail_write(errnum, path, directory ? "cannot create the directory" : "cannot create the file");
        }
        struct stat mine, now;
        if (try_lock(fd) == 0 && fstat(fd, &mine) == 0 && lstat(name, &now) == 0 && mine.st_ino == now.st_ino) {
            *temporary = name;
            *descriptor = fd;
            return FT_OK;
        }
        close(fd);
        free(name);
    }
    return ft_fail(FT_FAILED, path, "cannot create a temporary beside it: somebody removes every one");
}

bool ft_atomic_wait_for_disk(bool wait) { return !atomic_exchange(&ft_context_now()->without_disk, !wait); }

static bool waits_for_disk(void) { return !atomic_load(&ft_context_now()->without_disk); }

static ft_status sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot open the directory");
    // Some file systems cannot fsync a directory and say EINVAL; there is nothing more to do then.
    ft_status status = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP
                           ? FT_OK
                           : fail_write(errno, path, "cannot flush the directory to disk");
    close(fd);
    return status;
}

static ft_status sync_parent(const char *path) {
    char *parent = parent_of(path);
    if (parent == NULL) return FT_NO_MEMORY;
    ft_status status = sync_directory(parent);
    free(parent);
    return status;
}

static ft_status clear_beside(const char *path) {
    char *parent = parent_of(path);
    if (parent == NULL) return FT_NO_MEMORY;
    clear_leftovers(parent);
    free(parent);
    return FT_OK;
}

// ---- files --------------------------------------------------------------------------------------------------------

// The descriptor when this is the file behind our standard output or error (/dev/stdout > file), else -1. To replace
// that file would lose what else goes there, and so would a second descriptor with a place of its own in it.
static int our_stream(const struct stat *st) {
    struct stat ours;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &ours) == 0 && ours.st_dev == st->st_dev && ours.st_ino == st->st_ino) return fd;
    return -1;
}

// Where a write to `path` goes: links are followed, since a rename would replace the link and not the file. What is
// there and must not or cannot be replaced (a device, a pipe, a deleted file behind /proc) is to be written directly.
static ft_status resolve(const char *path, const struct stat *old, char **target, bool *direct) {
    struct stat st;
    *direct = old != NULL && (!S_ISREG(old->st_mode) || our_stream(old) >= 0);
    if (!*direct && old != NULL && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        *target = realpath(path, NULL);
        if (*target != NULL) return FT_OK;
        if (errno == ENOMEM) return ft_fail_memory(0, "a path");
        *direct = true;
    }
    *target = trimmed(path);
    return *target != NULL ? FT_OK : FT_NO_MEMORY;
}

// What lies behind the stream of an atomic file.
struct ft_atomic_output {
    int file;
    bool paced; // a device or a pipe has no pages
    int64_t end;
    ft_pace pace;
};

// All of it, for a stream takes fewer bytes for an error; errno says why.
static ssize_t write_output(void *cookie, const char *data, size_t length) {
    struct ft_atomic_output *o = cookie;
    for (size_t done = 0; done < length;) {
        const size_t left = length - done;
        const ssize_t n = write(o->file, data + done, o->paced && left > FT_PACE_WINDOW ? FT_PACE_WINDOW : left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return (ssize_t)done;
        done += (size_t)n;
        if (o->paced) ft_pace_written(&o->pace, o->file, o->end += n);
    }
    return (ssize_t)length;
}

static int close_output(void *cookie) {
    struct ft_atomic_output *o = cookie;
    const int result = close(o->file);
    free(o);
    return result;
}

static ft_status open_stream(ft_atomic_file *file, int fd, bool paced) {
    struct ft_atomic_output *output = ft_calloc(1, sizeof *output, file->path);
    if (output != NULL) {
        *output = (struct ft_atomic_output){.file = fd, .paced = paced};
        file->stream = fopencookie(output, "w", (cookie_io_functions_t){.write = write_output, .close = close_output});
        file->output = output;
        if (file->stream != NULL) return FT_OK;
        ft_fail_errno(FT_FAILED, errno, file->path, "cannot open the file");
    }
    free(output);
    file->output = NULL;
    close(fd);
    return ft_error_code();
}

static ft_status open_directly(ft_atomic_file *file, const struct stat *old) {
    int ours = our_stream(old),
        fd = ours >= 0 ? fcntl(ours, F_DUPFD_CLOEXEC, 3) : open(file->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return fail_write(errno, file->path, "cannot open it for writing");
    return open_stream(file, fd, false);
}

static ft_status open_temporary(ft_atomic_file *file, const struct stat *old) {
    FT_TRY(clear_beside(file->path));
    int fd;
    FT_TRY(make_temporary(file->path, false, &file->temporary, &fd));
    if (old != NULL) (void)!fchmod(fd, old->st_mode & 0777); // keeps who may read it; not worth failing for
    return open_stream(file, fd, true);
}

ft_status ft_atomic_open(ft_atomic_file *file, const char *path) {
    *file = (ft_atomic_file){0};
    if (path[0] == '\0') return ft_fail(FT_INVALID, NULL, "the name of a file is empty");
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return ft_fail(FT_INVALID, path, "this is a directory, a file is to be written here");
    const struct stat *old = exists ? &st : NULL;
    bool direct;
    ft_status status = resolve(path, old, &file->path, &direct);
    if (status == FT_OK) status = direct ? open_directly(file, old) : open_temporary(file, old);
    if (status != FT_OK) ft_atomic_abort(file);
    return status;
}

ft_status ft_atomic_overwrite(ft_atomic_file *file, int64_t at, const void *data, size_t length) {
    const char *bytes = data;
    if (fflush(file->stream) != 0) return fail_write(errno, file->path, "cannot write the file");
    for (size_t done = 0; done < length;) {
        const ssize_t n = pwrite(file->output->file, bytes + done, length - done, (off_t)at + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == ESPIPE) return ft_fail(FT_INVALID, file->path, "a pipe cannot be written to at a place: a file is needed");
        if (n <= 0) return fail_write(errno, file->path, "cannot write the file");
        done += (size_t)n;
    }
    return FT_OK;
}

// Why an earlier write failed is forgotten by now (the caller may not have looked), but it will fail again.
static ft_status fail_earlier(const ft_atomic_file *file) {
    if (file->temporary != NULL && write(file->output->file, "", 1) < 0)
        return fail_write(errno, file->path, "cannot write the file");
    return ft_fail(FT_FAILED, file->path, "cannot write the file: an earlier write failed");
}

// Whether it lies in the temporary of an atomic directory, whose commit syncs all that is in it: once is enough.
static bool in_open_directory(const char *path) {
    long pid;
    char *parent = parent_of(path);
    if (parent == NULL) return false;
    size_t end = strlen(parent);
    while (end > 0 && parent[end - 1] == '/')
        parent[--end] = '\0';
    bool inside = parse_name(parent + directory_length(parent), TEMPORARY_SUFFIX, &pid) > 0;
    free(parent);
    return inside;
}

static ft_status flush_and_rename(ft_atomic_file *file) {
    bool failed_before = ferror(file->stream) != 0;
    const bool synced_later = !waits_for_disk() || in_open_directory(file->path);
    if (fflush(file->stream) != 0) return fail_write(errno, file->path, "cannot write the file");
    if (failed_before) return fail_earlier(file);
    if (file->temporary == NULL) return FT_OK; // a device or a pipe has nothing to sync
    if (!synced_later && fsync(file->output->file) != 0 && errno != EINVAL)
        return fail_write(errno, file->path, "cannot flush the file to disk");
    if (rename(file->temporary, file->path) != 0)
        return fail_write(errno, file->path, "cannot put the new file in place");
    free(file->temporary);
    file->temporary = NULL;
    return synced_later ? FT_OK : sync_parent(file->path);
}

ft_status ft_atomic_commit(ft_atomic_file *file) {
    if (file->stream == NULL) return ft_fail(FT_FAILED, NULL, "internal: commit of a file that is not open");
    ft_status status = flush_and_rename(file);
    // The stream is closed last, for its descriptor holds the lock that guards the temporary up to the rename.
    bool direct = file->temporary == NULL;
    int closed = fclose(file->stream);
    file->stream = NULL;
    if (closed != 0 && status == FT_OK && direct) status = fail_write(errno, file->path, "cannot write the file");
    ft_atomic_abort(file);
    return status;
}

void ft_atomic_abort(ft_atomic_file *file) {
    if (file->temporary != NULL) unlink(file->temporary);
    if (file->stream != NULL) fclose(file->stream);
    free(file->temporary);
    free(file->path);
    *file = (ft_atomic_file){0};
}

ft_status ft_atomic_write(const char *path, const void *data, size_t length) {
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    if (length == 0 || fwrite(data, 1, length, file.stream) == length) return ft_atomic_commit(&file);
    ft_status status = fail_write(errno, path, "cannot write the file");
    ft_atomic_abort(&file);
    return status;
}

// ---- directories --------------------------------------------------------------------------------------------------

ft_status ft_atomic_dir_open(ft_atomic_dir *dir, const char *path) {
    *dir = (ft_atomic_dir){.lock = -1};
    if (path[0] == '\0') return ft_fail(FT_INVALID, NULL, "the name of a directory is empty");
    dir->path = trimmed(path);
    if (dir->path == NULL) return FT_NO_MEMORY;
    ft_status status = clear_beside(dir->path);
    // After the clearing, which may have put an old directory back.
    if (status == FT_OK && ft_path_exists(dir->path) && !ft_path_is_directory(dir->path))
        status = ft_fail(FT_INVALID, path, "this is a file, a directory is to be written here");
    if (status == FT_OK) status = make_temporary(dir->path, true, &dir->temporary, &dir->lock);
    if (status != FT_OK) ft_atomic_dir_abort(dir);
    return status;
}

// Flushes everything under the open directory `fd`, which it takes over, and then the directory itself.
static ft_status sync_tree(int fd, const char *shown) {
    DIR *d = fdopendir(fd);
    if (d == NULL) {
        int errnum = errno;
        close(fd);
        return ft_fail_errno(FT_FAILED, errnum, shown, "cannot read the directory");
    }
    ft_status status = FT_OK;
    for (struct dirent *e; status == FT_OK && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        struct stat st;
        // What has gone meanwhile (a temporary, a checkpoint of a run that goes on) has nothing to be written.
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno != ENOENT) status = ft_fail_errno(FT_FAILED, errno, shown, "cannot look at %s", e->d_name);
        } else if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
            int inner = openat(fd, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
            if (inner < 0) {
                if (errno != ENOENT) status = ft_fail_errno(FT_FAILED, errno, shown, "cannot open %s", e->d_name);
            } else if (S_ISDIR(st.st_mode)) {
                status = sync_tree(inner, shown);
            } else {
                if (fsync(inner) != 0 && errno != EINVAL)
                    status = fail_write(errno, shown, "cannot flush the files to disk");
                close(inner);
            }
        }
    }
    if (status == FT_OK && fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        status = fail_write(errno, shown, "cannot flush the directory to disk");
    closedir(d);
    return status;
}

static ft_status sync_below(const char *directory, const char *shown) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? sync_tree(fd, shown) : ft_fail_errno(FT_FAILED, errno, shown, "cannot open the directory");
}

ft_status ft_sync_tree(const char *directory) {
    FT_TRY(sync_below(directory, directory));
    return sync_parent(directory);
}

// Where the file system cannot exchange: the old directory steps aside, the new one steps in. What is lost is the
// moment between the two renames, when a reader finds neither; after a kill just there, the next ft_atomic_dir_open
// beside it puts the old one back. The lock on the old one keeps others from doing that too early.
static ft_status replace_in_two_steps(ft_atomic_dir *dir) {
    char *aside = beside(dir->path, SET_ASIDE_SUFFIX);
    if (aside == NULL) return FT_NO_MEMORY;
    int fd = open(dir->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) try_lock(fd);
    ft_status status = FT_OK;
    if (rename(dir->path, aside) != 0)
        status = fail_write(errno, dir->path, "cannot move the old directory aside");
    else if (rename(dir->temporary, dir->path) != 0) {
        status = fail_write(errno, dir->path, "cannot put the new directory in place");
        if (rename(aside, dir->path) != 0) ft_hint("the old directory is now %s", aside);
    } else {
        free(dir->temporary);
        dir->temporary = aside;
        aside = NULL;
    }
    if (fd >= 0) close(fd);
    free(aside);
    return status;
}

// Afterwards `temporary` names what has to go: the old directory, or nothing.
static ft_status put_in_place(ft_atomic_dir *dir) {
    struct stat st;
    if (lstat(dir->path, &st) != 0) {
        if (rename(dir->temporary, dir->path) != 0)
            return fail_write(errno, dir->path, "cannot put the new directory in place");
        free(dir->temporary);
        dir->temporary = NULL;
        return FT_OK;
    }
    if (renameat2(AT_FDCWD, dir->temporary, AT_FDCWD, dir->path, RENAME_EXCHANGE) == 0) return FT_OK;
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return replace_in_two_steps(dir);
    return fail_write(errno, dir->path, "cannot put the new directory in place");
}

ft_status ft_atomic_dir_commit(ft_atomic_dir *dir) {
    if (dir->temporary == NULL) return ft_fail(FT_FAILED, NULL, "internal: commit of a directory that is not open");
    const bool waits = waits_for_disk();
    ft_status status = waits ? sync_below(dir->temporary, dir->path) : FT_OK;
    if (status == FT_OK) status = put_in_place(dir);
    if (status == FT_OK && waits) status = sync_parent(dir->path);
    if (status == FT_OK && dir->temporary != NULL) status = ft_remove_tree(dir->temporary);
    ft_atomic_dir_abort(dir);
    return status;
}

void ft_atomic_dir_abort(ft_atomic_dir *dir) {
    if (dir->path == NULL) return;
    if (dir->temporary != NULL) {
        ft_error first; // this is cleaning up after an error: that one is to be told
        ft_error_save(&first);
        ft_remove_tree(dir->temporary);
        ft_error_restore(&first);
    }
    if (dir->lock >= 0) close(dir->lock);
    free(dir->temporary);
    free(dir->path);
    *dir = (ft_atomic_dir){.lock = -1};
}
