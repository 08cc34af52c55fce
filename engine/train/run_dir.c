#include "engine/train/run_dir.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST_NUMBER = 999999 };

// What a directory holds: nothing (leftovers of writers that were killed do not count), a run, or something else.
typedef enum contents { EMPTY, A_RUN, OTHER_FILES } contents;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static ft_status look_into(const char *path, contents *what) {
    *what = EMPTY;
    DIR *d = opendir(path);
    if (d == NULL)
        return errno == ENOENT
                   ? FT_OK
                   : ft_fail_errno(errno == ENOTDIR ? FT_INVALID : FT_FAILED, errno, path, "cannot use as a run directory");
    for (struct dirent *e; *what != A_RUN && (e = readdir(d)) != NULL;) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || ends_with(name, ".ft-tmp") || ends_with(name, ".ft-old"))
            continue;
        *what = strcmp(name, "config.ini") == 0 || strcmp(name, "checkpoints") == 0 ? A_RUN : OTHER_FILES;
    }
    closedir(d);
    return FT_OK;
}

// The greatest N of the directories <stem>-N; 0 when there is none.
static ft_status greatest_number(const char *stem, int *greatest) {
    *greatest = 0;
    const char *slash = strrchr(stem, '/'), *base = slash != NULL ? slash + 1 : stem;
    ft_arena arena = {0};
    char *parent = ft_arena_strndup(&arena, stem, slash != NULL ? (size_t)(slash - stem) : 0);
    DIR *d = parent != NULL ? opendir(parent[0] != '\0' ? parent : slash != NULL ? "/" : ".") : NULL;
    ft_status status = parent != NULL ? FT_OK : FT_NO_MEMORY;
    if (parent != NULL && d == NULL && errno != ENOENT)
        status = ft_fail_errno(FT_FAILED, errno, stem, "cannot look for run directories");
    size_t length = strlen(base);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, base, length) != 0 || e->d_name[length] != '-') continue;
        char *end;
        long number = strtol(e->d_name + length + 1, &end, 10);
        if (*end == '\0' && end > e->d_name + length + 1 && number > *greatest && number <= LAST_NUMBER) *greatest = (int)number;
    }
    if (d != NULL) closedir(d);
    ft_arena_free(&arena);
    return status;
}

static char *numbered(ft_arena *arena, const char *stem, int number) { return ft_arena_format(arena, "%s-%03d", stem, number); }

// Creates the next <stem>-NNN: mkdir decides, so that two runs started at once get two numbers.
static ft_status create_numbered(const char *stem, ft_arena *arena, const char **chosen) {
    int number;
    FT_TRY(greatest_number(stem, &number));
    while (++number <= LAST_NUMBER) {
        char *dir = numbered(arena, stem, number);
        if (dir == NULL) return FT_NO_MEMORY;
        if (mkdir(dir, 0777) == 0) {
            *chosen = dir;
            return FT_OK;
        }
        if (errno != EEXIST) return ft_fail_errno(FT_FAILED, errno, dir, "cannot create the run directory");
    }
    return ft_fail(FT_FAILED, stem, "more than %d run directories", LAST_NUMBER);
}

// runs/<config>-NNN: the next free number, or with resume the greatest there is.
static ft_status choose_by_number(const ft_config *c, bool resume, ft_arena *arena, const char **chosen) {
    char *parent = ft_path_absolute(arena, NULL, "runs");
    char *stem = parent != NULL ? ft_path_join(arena, parent, c->name) : NULL;
    if (stem == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(parent));
    int number = 0;
    if (resume) FT_TRY(greatest_number(stem, &number));
    if (number == 0) return create_numbered(stem, arena, chosen);
    *chosen = numbered(arena, stem, number);
    return *chosen != NULL ? FT_OK : FT_NO_MEMORY;
}

// output.dir as given. Files that are not a run's are never touched: a run beside them would replace model/.
static ft_status choose_given(const ft_config *c, ft_arena *arena, const char **chosen) {
    contents what;
    FT_TRY(look_into(c->output.dir, &what));
    if (what != EMPTY && c->output.exists == FT_EXISTS_NEW) return create_numbered(c->output.dir, arena, chosen);
    if (what != EMPTY && c->output.exists == FT_EXISTS_ERROR) {
        ft_fail(FT_INVALID, "output.dir", "%s holds %s already", c->output.dir, what == A_RUN ? "a run" : "other files");
        ft_hint("output.exists = resume continues a run, new takes the next free number");
        return FT_INVALID;
    }
    if (what == OTHER_FILES) {
        ft_fail(FT_INVALID, "output.dir", "%s holds files, but no run to resume", c->output.dir);
        ft_hint("name an empty or a new directory");
        return FT_INVALID;
    }
    *chosen = c->output.dir;
    return ft_make_directories(*chosen);
}

ft_status ft_run_dir_choose(const ft_config *c, ft_arena *arena, const char **dir) {
    if (c->output.dir[0] != '\0') return choose_given(c, arena, dir);
    return choose_by_number(c, c->output.exists == FT_EXISTS_RESUME, arena, dir);
}

ft_status ft_run_dir_lock(const char *dir, int *lock) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return ft_fail_errno(FT_FAILED, errno, dir, "cannot open the run directory");
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return FT_OK; // some file systems have no locks
    return ft_fail(FT_INVALID, dir, "another process is training in this run directory");
}
