#include "engine/train/run_dir.h"

#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

// A run that failed as it began may have left run.json alone.
static bool is_of_a_run(const char *name) {
    return strcmp(name, "config.ini") == 0 || strcmp(name, "checkpoints") == 0 || strcmp(name, "run.json") == 0;
}

static ft_status look_into(const char *path, contents *what) {
    *what = EMPTY;
    DIR *d = opendir(path);
    if (d == NULL)
        return errno == ENOENT
                   ? FT_OK
                   : ft_fail_errno(FT_INVALID, errno, "output.dir", "cannot use %s as a run directory", path);
    for (struct dirent *e; *what != A_RUN && (e = readdir(d)) != NULL;) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || ends_with(name, ".ft-tmp") || ends_with(name, ".ft-old"))
            continue;
        *what = is_of_a_run(name) ? A_RUN : OTHER_FILES;
    }
    closedir(d);
    return FT_OK;
}

ft_status ft_run_dir_begun(const char *dir, bool *begun) {
    contents what;
    FT_TRY(look_into(dir, &what));
    *begun = what != EMPTY;
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
        status = ft_fail_errno(FT_INVALID, errno, "output.dir", "cannot look for run directories like %s", stem);
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
        if (errno != EEXIST) return ft_fail_errno(FT_INVALID, errno, "output.dir", "cannot create the run directory %s", dir);
    }
    return ft_fail(FT_FAILED, stem, "more than %d run directories", LAST_NUMBER);
}

// Who can do something about it sets the option: it is named, and the directory in what failed.
static ft_status make_directories(const char *path) {
    ft_status status = ft_make_directories(path);
    if (status == FT_OK || status == FT_NO_MEMORY) return status;
    char what[512], which[512];
    snprintf(what, sizeof what, "%s", ft_error_message());
    snprintf(which, sizeof which, "%s", ft_error_where());
    ft_fail(status, "output.dir", "%s: %s", which, what);
    ft_hint("output.dir names the directory of a run, which must be a place for files");
    return status;
}

// runs/<config>-NNN: the next free number, or with resume the greatest there is.
static ft_status choose_by_number(const ft_config *c, bool resume, ft_arena *arena, const char **chosen) {
    char *parent = ft_path_absolute(arena, NULL, "runs");
    char *stem = parent != NULL ? ft_path_join(arena, parent, c->name) : NULL;
    if (stem == NULL) return FT_NO_MEMORY;
    FT_TRY(make_directories(parent));
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
    return make_directories(*chosen);
}

static ft_status choose(const ft_config *c, ft_arena *arena, const char **dir) {
    if (c->output.dir[0] != '\0') return choose_given(c, arena, dir);
    return choose_by_number(c, c->output.exists == FT_EXISTS_RESUME, arena, dir);
}

// *taken: another process has it.
static ft_status lock_directory(const char *dir, int *lock, bool *taken) {
    *taken = false;
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return ft_fail_errno(FT_FAILED, errno, dir, "cannot open the run directory");
    *taken = flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; // some file systems have no locks
    return FT_OK;
}

ft_status ft_run_dir_take(const ft_config *c, ft_arena *arena, const char **dir, int *lock) {
    const bool new = c->output.dir[0] != '\0' && c->output.exists == FT_EXISTS_NEW;
    contents what = EMPTY;
    bool taken;
    FT_TRY(choose(c, arena, dir));
    FT_TRY(lock_directory(*dir, lock, &taken));
    // Two that start at once both find it empty: the slower one learns of the other here, also of one that has ended already.
    if (new && !taken) FT_TRY(look_into(*dir, &what));
    if (new && (taken || what != EMPTY)) {
        close(*lock);
        *lock = -1;
        FT_TRY(create_numbered(c->output.dir, arena, dir));
        FT_TRY(lock_directory(*dir, lock, &taken));
    }
    if (taken) return ft_fail(FT_INVALID, *dir, "another process is training in this run directory");
    return access(*dir, W_OK) == 0 ? FT_OK : ft_fail_errno(FT_INVALID, errno, "output.dir", "%s: cannot write there", *dir);
}

// ---- back from a directory to its run ---------------------------------------------------------------------------------

// A study's directory has a config.ini too, and a user's may have: a run's stands beside what a run writes.
static bool is_run(const char *directory, ft_arena *arena) {
    static const char *const own[] = {"run.json", "metrics.jsonl", "checkpoints"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *path = ft_path_join(arena, directory, own[i]);
        if (path != NULL && ft_path_exists(path)) return true;
    }
    return false;
}

const char *ft_run_dir_config(const char *path, ft_arena *arena) {
    const char *file = ft_path_is_directory(path) && is_run(path, arena) ? ft_path_join(arena, path, "config.ini") : NULL;
    return file != NULL && ft_path_exists(file) ? file : NULL;
}

const char *ft_run_dir_of_config(const char *file, ft_arena *arena) {
    char *path = ft_path_absolute(arena, NULL, file), *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash == NULL || strcmp(slash, "/config.ini") != 0) return NULL;
    *slash = '\0';
    return is_run(path, arena) ? path : NULL;
}

int64_t ft_run_dir_checkpoint(const char *dir) {
    ft_arena arena = {0};
    long long newest = -1, step;
    char rest;
    const char *path = ft_path_join(&arena, dir, "checkpoints");
    DIR *d = path != NULL ? opendir(path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (sscanf(e->d_name, "step-%lld%c", &step, &rest) == 1 && step > newest) newest = step;
    if (d != NULL) closedir(d);
    ft_arena_free(&arena);
    return newest;
}

// Checkpoints first: a run that is broken off here and begun again finds none that goes on without the model of its best step.
ft_status ft_run_dir_make_lean(const char *dir) {
    static const char *const big[] = {"checkpoints", "model", "adapter"};
    ft_arena arena = {0};
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < sizeof big / sizeof big[0]; i++) {
        const char *path = ft_path_join(&arena, dir, big[i]);
        status = path != NULL ? ft_remove_tree(path) : FT_NO_MEMORY;
    }
    ft_arena_free(&arena);
    return status;
}
