// files.h - files that matter are written whole or not at all.
#ifndef FT_FILES_H
#define FT_FILES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Opens a regular file for reading; close() it. FT_INVALID when it is absent, unreadable, a directory, a pipe or a device: to open a
// pipe would wait for its writer, for ever.
ft_status ft_open_input(const char *path, int *descriptor);
// A whole file, NUL-terminated (length without the NUL). At most max_bytes (0 = 1 GiB). free() it.
ft_status ft_read_file(const char *path, size_t max_bytes, char **data, size_t *length);
// The same where a pipe or a device will do too, which end at max_bytes with FT_INVALID.
ft_status ft_read_stream(const char *path, size_t max_bytes, char **data, size_t *length);

// A regular file, mapped for reading; an empty one gives NULL and 0. FT_INVALID as for ft_open_input, and for what is no
// regular file. The pages come and go with the kernel's cache, so a file larger than the memory is fine.
ft_status ft_map_file(const char *path, const void **data, size_t *size);
void ft_unmap_file(const void *data, size_t size); // NULL is fine

// An atomic write: a temporary file beside the target, flushed, fsynced, renamed over it. The old file stays until
// commit. A symbolic link is followed. A device, a pipe and our own standard output are written directly. A large file goes to the
// disk while it is written (pace.h); its stream has no fileno().
typedef struct ft_atomic_file {
    FILE *stream;
    char *path, *temporary;            // temporary: NULL when written directly
    struct ft_atomic_output *output;   // behind the stream
} ft_atomic_file;
ft_status ft_atomic_open(ft_atomic_file *file, const char *path);
// Puts other bytes at `at`, in place of bytes that were written. FT_INVALID: what is written to has no places.
ft_status ft_atomic_overwrite(ft_atomic_file *file, int64_t at, const void *data, size_t length);
ft_status ft_atomic_commit(ft_atomic_file *file); // closes; on failure the temporary is removed
void ft_atomic_abort(ft_atomic_file *file);       // removes the temporary; {0} and finished ones are fine
ft_status ft_atomic_write(const char *path, const void *data, size_t length);

// An atomic directory: write into `temporary` (created beside the target), then commit: all files in it are fsynced and
// the directory takes the place of the old one in one rename (exchange), the old one is deleted afterwards. A reader,
// and a kill at any moment, sees the old or the new directory whole. Leftover temporaries of dead writers are removed.
typedef struct ft_atomic_dir {
    char *path, *temporary;
    int lock; // descriptor of the temporary, locked while its writer lives
} ft_atomic_dir;
ft_status ft_atomic_dir_open(ft_atomic_dir *dir, const char *path);
ft_status ft_atomic_dir_commit(ft_atomic_dir *dir);
void ft_atomic_dir_abort(ft_atomic_dir *dir); // {0} and finished ones are fine

// Whether atomic writes of the present context (base/context.h) wait for the disk; they do at first. Those that do not are as
// whole after a kill; after a power cut they may be empty, unless ft_sync_tree was called before it. Returns how it was.
bool ft_atomic_wait_for_disk(bool wait);
ft_status ft_sync_tree(const char *directory); // everything below it, and its name, is on the disk when this returns

// A file without a name, to write and read: it is gone when it is closed, however the process ends. directory: one that can be written
// in; NULL: $TMPDIR, else /var/tmp. close() it.
ft_status ft_scratch_file(const char *directory, int *descriptor);

ft_status ft_make_directories(const char *path);          // mkdir -p; FT_INVALID where nobody could make it
ft_status ft_remove_tree(const char *path);               // rm -rf; absent is fine; links are removed, never followed
ft_status ft_copy_file(const char *from, const char *to); // atomic at `to`
bool ft_path_exists(const char *path);
bool ft_path_is_directory(const char *path);
// $XDG_CACHE_HOME/ftengine/NAME, else ~/.cache/ftengine/NAME; it need not be there. *directory NULL: there is no place for caches.
ft_status ft_user_cache(ft_arena *arena, const char *name, const char **directory);
char *ft_path_join(ft_arena *arena, const char *directory, const char *name);
// base NULL: working directory; a leading "~" is the home directory. "." and doubled slashes go, and ".." as the file system resolves it
// (it stays behind what is not there). NULL with the error set on failure.
char *ft_path_absolute(ft_arena *arena, const char *base, const char *path);

// SHA-256, lower-case hex.
ft_status ft_sha256(const void *data, size_t length, char hex[65]);
ft_status ft_sha256_file(const char *path, char hex[65]);

#endif
