#include "engine/hub/blob.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/sha1.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

typedef struct download {
    ft_hub_session *session;
    const ft_hub_file *file;
    const char *what, *blob, *incomplete;
    int fd;
    int64_t have, session_start; // bytes in the file; of them, before this process
    double started, shown;
    bool wrong; // what came, or what was there, cannot become this content
    ft_arena arena;
} download;

// ---- the lock -----------------------------------------------------------------------------------------------------

static ft_status fail_file(int errnum, const char *path, const char *what) {
    ft_status status = ft_fail_errno(FT_FAILED, errnum, path, "%s", what);
    if (errnum == ENOSPC || errnum == EDQUOT)
        ft_hint("free some space, or put the cache elsewhere (HF_HOME); the same command then goes on");
    if (errnum == EACCES || errnum == EROFS) ft_hint("the cache must be writable; HF_HOME puts it elsewhere");
    return status;
}

// Someone else may have removed the file between our opening and locking it: then the lock is of nothing.
static bool is_same_file(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static ft_status lock(const download *d, const char *path, int *fd) {
    bool told = false;
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (*fd < 0) return fail_file(errno, path, "cannot open the lock");
        int errnum = flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (errnum != EWOULDBLOCK && (errnum != 0 || is_same_file(*fd, path)))
            return FT_OK; // no locks here: go without
        close(*fd);
        *fd = -1;
        if (errnum == EWOULDBLOCK && !told) ft_info("%s: another program is fetching it; waiting for that", d->what);
        told = told || errnum == EWOULDBLOCK;
        if (d->session->stopped()) return ft_fail(FT_INTERRUPTED, d->what, "stopped");
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    }
}

// ---- the transfer -------------------------------------------------------------------------------------------------

// W/"abc" and "abc" are abc.
static void bare_etag(const char *etag, char *out, size_t size) {
    etag += strncmp(etag, "W/", 2) == 0 ? 2 : 0;
    etag += etag[0] == '"';
    snprintf(out, size, "%.*s", (int)strcspn(etag, "\""), etag);
}

// Does the hub speak of another content or commit than the list of files did?
static bool contradicts(const download *d, const ft_http_answer *a) {
    char etag[160];
    size_t digits = strlen(d->file->checksum);
    bare_etag(a->linked_etag[0] != '\0' ? a->linked_etag : a->etag, etag, sizeof etag);
    bool checksum = strlen(etag) == digits && strspn(etag, "0123456789abcdef") == digits;
    if (checksum && strcmp(etag, d->file->checksum) != 0) return true;
    return a->commit[0] != '\0' && strcmp(a->commit, d->session->commit) != 0;
}

static ft_status begin_body(void *context, const ft_http_answer *a) {
    download *d = context;
    int64_t from = a->status == 206 ? a->range_from : 0;
    int64_t total = a->status == 206 ? a->total : a->length;
    if (contradicts(d, a))
        return ft_fail(FT_FAILED, d->what, "the hub now gives another content than its list of files says");
    if (total >= 0 && total != d->file->size) {
        d->wrong = true;
        return ft_fail(FT_FAILED, d->what, "wrong length: %" PRId64 " bytes are offered, its checksum is of %" PRId64,
                       total, d->file->size);
    }
    if (a->status == 206 && from != d->have) {
        d->wrong = true;
        return ft_fail(FT_FAILED, d->what, "the answer begins at byte %" PRId64 " instead of %" PRId64, from, d->have);
    }
    if (from == 0 && ftruncate(d->fd, 0) != 0)
        return fail_file(errno, d->incomplete, "cannot cut the file"); // a whole answer
    d->have = from;
    if (d->session_start > from) d->session_start = from;
    return FT_OK;
}

static ft_status add_body(void *context, const void *data, size_t bytes) {
    download *d = context;
    if ((int64_t)bytes > d->file->size - d->have) {
        d->wrong = true;
        return ft_fail(FT_FAILED, d->what, "wrong length: more than the %" PRId64 " bytes of its checksum came",
                       d->file->size);
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(d->fd, (const char *)data + done, bytes - done, (off_t)d->have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail_file(n < 0 ? errno : ENOSPC, d->incomplete, "cannot write the file");
        done += (size_t)n;
        d->have += n;
    }
    return FT_OK;
}

static int64_t position(void *context) { return ((const download *)context)->have; }

static void show_progress(void *context) {
    download *d = context;
    double now = ft_now();
    if (now - d->shown < 0.2) return;
    d->shown = now;
    double rate = (double)(d->have - d->session_start) / (now - d->started + 1e-9);
    ft_status_line("%s  %.1f of %.1f MB  %.1f MB/s", d->file->path, (double)d->have / 1e6, (double)d->file->size / 1e6,
                   rate / 1e6);
}

// Of a file in a directory: its slash stays one.
static const char *address(download *d) {
    const char *slash = strchr(d->file->path, '/'), *name = slash != NULL ? slash + 1 : d->file->path;
    const char *front = ft_arena_format(&d->arena, "%.*s", slash != NULL ? (int)(slash - d->file->path) : 0, d->file->path);
    char *commit = ft_http_escape(d->session->commit), *directory = front != NULL ? ft_http_escape(front) : NULL, *file = ft_http_escape(name);
    const char *url = commit != NULL && directory != NULL && file != NULL
                          ? ft_arena_format(&d->arena, "%s/%s/resolve/%s/%s%s%s", d->session->endpoint, d->session->repo, commit, directory,
                                            slash != NULL ? "/" : "", file)
                          : NULL;
    free(commit);
    free(directory);
    free(file);
    return url;
}

static ft_status transfer(download *d) {
    const char *url = address(d);
    ft_http_request request = {
        .url = url, .what = d->what, .begin = begin_body, .body = add_body, .progress = show_progress, .context = d};
    ft_status status = url != NULL ? ft_hub_get(d->session, &request, position) : FT_NO_MEMORY;
    ft_status_line("%s", ""); // the line goes
    if (request.range_refused) d->wrong = true;
    return status;
}

// ---- from nothing to a blob -----------------------------------------------------------------------------------------

static ft_status check(download *d) {
    char hex[65];
    bool is_sha256 = strlen(d->file->checksum) == 64;
    if (d->have < d->file->size) { // an answer that ended early, and said so
        d->wrong = true;
        return ft_fail(FT_FAILED, d->what, "wrong length: %" PRId64 " bytes came, its checksum is of %" PRId64, d->have,
                       d->file->size);
    }
    FT_TRY(is_sha256 ? ft_sha256_file(d->incomplete, hex) : ft_git_blob_file(d->incomplete, hex));
    if (strcmp(hex, d->file->checksum) == 0) return FT_OK;
    d->wrong = true;
    return ft_fail(FT_FAILED, d->what, "wrong checksum: %s came, %s was announced", hex, d->file->checksum);
}

static ft_status check_space(const download *d) {
    struct statvfs fs;
    int64_t need = d->file->size - d->have;
    if (fstatvfs(d->fd, &fs) != 0 || (double)fs.f_bavail * (double)fs.f_frsize >= (double)need) return FT_OK;
    ft_fail(FT_FAILED, d->incomplete, "%s needs %.1f MB more, %.1f MB are free", d->what, (double)need / 1e6,
            (double)fs.f_bavail * (double)fs.f_frsize / 1e6);
    ft_hint("free some space, or put the cache elsewhere (HF_HOME); the same command then goes on");
    return FT_FAILED;
}

static ft_status begin_file(download *d) {
    struct stat st;
    d->wrong = false;
    d->fd = open(d->incomplete, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (d->fd < 0) return fail_file(errno, d->incomplete, "cannot write the file");
    if (fstat(d->fd, &st) != 0) return fail_file(errno, d->incomplete, "cannot look at the file");
    d->have = st.st_size;
    if (d->have > d->file->size && ftruncate(d->fd, d->have = 0) != 0)
        return fail_file(errno, d->incomplete, "cannot cut the file");
    d->session_start = d->have;
    if (d->have > 0) ft_detail("%s: goes on at byte %" PRId64 " of %" PRId64, d->what, d->have, d->file->size);
    return check_space(d);
}

static ft_status fetch_once(download *d) {
    FT_TRY(begin_file(d));
    if (d->have < d->file->size || d->file->size == 0) FT_TRY(transfer(d));
    FT_TRY(check(d));
    if (fsync(d->fd) != 0) return fail_file(errno, d->incomplete, "cannot write the file");
    if (rename(d->incomplete, d->blob) != 0) return fail_file(errno, d->blob, "cannot rename the file to its name");
    return FT_OK;
}

// What is wrong is removed; what is only incomplete stays.
static ft_status attempt(download *d) {
    d->fd = -1;
    ft_status status = fetch_once(d);
    if (d->fd >= 0) close(d->fd);
    if (status != FT_OK && (d->wrong || d->have == 0)) unlink(d->incomplete);
    return status;
}

static ft_status fetch_locked(download *d, bool *fetched) {
    struct stat st;
    if (stat(d->blob, &st) == 0 && st.st_size == d->file->size) return *fetched = false, FT_OK;
    *fetched = true;
    d->started = ft_now();
    ft_status status = attempt(d);
    if (status != FT_OK && d->wrong && d->session_start > 0) { // the fault may be in what was there before
        ft_info("%s (%s); once more from the beginning", ft_error_message(), d->what);
        ft_error_clear();
        status = attempt(d);
    }
    if (status != FT_OK && d->wrong) ft_hint("what came was removed");
    FT_TRY(status);
    double took = ft_now() - d->started;
    ft_info("%-30s %9.1f MB in %.1f s", d->file->path, (double)d->file->size / 1e6, took);
    return FT_OK;
}

static ft_status prepare(download *d, const char *base, char **lock_path) {
    const char *folder = strrchr(base, '/') + 1;
    const char *blobs = ft_path_join(&d->arena, base, "blobs");
    const char *locks = ft_arena_format(&d->arena, "%.*s.locks/%s", (int)(folder - base), base, folder);
    if (blobs == NULL || locks == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(blobs));
    FT_TRY(ft_make_directories(locks));
    d->what = ft_arena_format(&d->arena, "%s: %s", d->session->repo, d->file->path);
    d->blob = ft_path_join(&d->arena, blobs, d->file->checksum);
    d->incomplete = ft_arena_format(&d->arena, "%s/%s.incomplete", blobs, d->file->checksum);
    *lock_path = ft_arena_format(&d->arena, "%s/%s.lock", locks, d->file->checksum);
    return d->what != NULL && d->blob != NULL && d->incomplete != NULL && *lock_path != NULL ? FT_OK : FT_NO_MEMORY;
}

ft_status ft_hub_fetch_blob(ft_hub_session *session, const char *base, const ft_hub_file *file, bool *fetched) {
    download d = {.session = session, .file = file, .fd = -1};
    char *lock_path;
    int locked = -1;
    ft_status status = prepare(&d, base, &lock_path);
    if (status == FT_OK) status = lock(&d, lock_path, &locked);
    if (status == FT_OK) status = fetch_locked(&d, fetched);
    if (locked >= 0) close(locked);
    ft_arena_free(&d.arena);
    return status;
}
