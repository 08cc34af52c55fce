// moved.c - the file of a study was moved, removed or replaced while it is open. What is written to it then reaches nobody, and
// SQLite says nothing of it. So the name is looked up before and after whatever is written: nothing is reported as saved that
// is not behind that name. The file itself is still open, with all that was saved.
#include "hpo/storage/internal.h"

#include "base/arena.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_COPIES = 99 };

bool ft_storage_moved(ft_storage *storage) {
    int moved = 0;
    return storage->writable && storage->db != NULL &&
           sqlite3_file_control(storage->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

static bool copy_to(ft_storage *storage, const char *path) {
    sqlite3 *copy = NULL;
    bool whole = sqlite3_open_v2(path, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK;
    sqlite3_backup *backup = whole ? sqlite3_backup_init(copy, "main", storage->db, "main") : NULL;
    whole = backup != NULL && sqlite3_backup_step(backup, -1) == SQLITE_DONE;
    whole = sqlite3_backup_finish(backup) == SQLITE_OK && whole;
    whole = whole && sqlite3_exec(copy, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) == SQLITE_OK; // one plain file
    sqlite3_close(copy);
    if (!whole) unlink(path);
    return whole;
}

// Of a file that has no name any more, under a name that nobody has. NULL: there is none, or no room.
static const char *save_copy(ft_storage *storage, ft_arena *arena) {
    for (int i = 1; i <= MOST_COPIES; i++) {
        const char *path = i == 1 ? ft_arena_format(arena, "%s.saved", storage->path)
                                  : ft_arena_format(arena, "%s.saved-%d", storage->path, i);
        if (path == NULL || access(path, F_OK) != 0) return path != NULL && copy_to(storage, path) ? path : NULL;
    }
    return NULL;
}

// The kernel knows what the open file is called now.
static bool new_name(const ft_storage *storage, char *name, size_t size) {
    char link[40];
    struct stat file;
    if (storage->lock < 0 || fstat(storage->lock, &file) != 0 || file.st_nlink == 0) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", storage->lock);
    const ssize_t length = readlink(link, name, size - 1);
    if (length > 0) name[length] = '\0';
    return length > 0;
}

ft_status ft_sql_check_place(ft_storage *storage) {
    char name[4096];
    if (!ft_storage_moved(storage)) return FT_OK;
    if (new_name(storage, name, sizeof name)) {
        ft_fail(FT_FAILED, storage->path, "the study database was moved to %s while it was in use", name);
        ft_hint("it has all trials that were saved; move it back, and the same command goes on");
        return FT_FAILED;
    }
    ft_arena arena = {0};
    const char *copy = storage->copied ? NULL : save_copy(storage, &arena);
    storage->copied = true;
    ft_fail(FT_FAILED, storage->path, "the study database was %s while it was in use",
            access(storage->path, F_OK) == 0 ? "replaced" : "removed");
    if (copy != NULL) ft_hint("all trials that were saved are in %s; move it there, and the same command goes on", copy);
    ft_arena_free(&arena);
    return FT_FAILED;
}
