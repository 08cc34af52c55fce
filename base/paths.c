#include "base/files.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *ft_path_join(ft_arena *arena, const char *directory, const char *name) {
    size_t length = strlen(directory);
    return ft_arena_format(arena, "%s%s%s", directory, length == 0 || directory[length - 1] == '/' ? "" : "/", name);
}

// Drops "." components, doubled and trailing slashes of an absolute path, in place.
static char *tidy(char *path) {
    char *out = path;
    for (const char *at = path; *at != '\0';) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n > 0 && !(n == 1 && at[0] == '.')) {
            *out++ = '/';
            memmove(out, at, n);
            out += n;
        }
        at += n;
    }
    if (out == path) *out++ = '/';
    *out = '\0';
    return path;
}

static char *home(ft_arena *arena) {
    const char *directory = getenv("HOME");
    if (directory != NULL && directory[0] == '/') return ft_arena_strdup(arena, directory);
    const struct passwd *user = getpwuid(getuid());
    if (user != NULL && user->pw_dir != NULL && user->pw_dir[0] == '/') return ft_arena_strdup(arena, user->pw_dir);
    ft_fail(FT_INVALID, "~", "the home directory is unknown: HOME is not set");
    return NULL;
}

static char *working_directory(ft_arena *arena) {
    char *directory = getcwd(NULL, 0), *copy;
    if (directory == NULL) {
        ft_fail_errno(FT_FAILED, errno, NULL, "cannot tell the working directory");
        return NULL;
    }
    copy = ft_arena_strdup(arena, directory);
    free(directory);
    return copy;
}

// Behind a symbolic link ".." is not what the text suggests: the file system says where the path up to the last one leads. What is not
// there stays.
static char *without_parents(ft_arena *arena, char *path) {
    char *last = NULL;
    for (char *at = path; (at = strstr(at, "/..")) != NULL; at++)
        if (at[3] == '/' || at[3] == '\0') last = at + 3;
    if (last == NULL) return path;
    const char end = *last;
    *last = '\0';
    char *found = realpath(path, NULL), *whole = path;
    *last = end;
    if (found != NULL) whole = ft_arena_format(arena, "%s%s", found, strcmp(found, "/") == 0 && end != '\0' ? last + 1 : last);
    free(found);
    return whole;
}

char *ft_path_absolute(ft_arena *arena, const char *base, const char *path) {
    char *whole;
    if (path[0] == '/') {
        whole = ft_arena_strdup(arena, path);
    } else {
        bool from_home = path[0] == '~' && (path[1] == '/' || path[1] == '\0');
        const char *start = from_home      ? home(arena)
                            : base != NULL ? ft_path_absolute(arena, NULL, base)
                                           : working_directory(arena);
        whole = start != NULL ? ft_path_join(arena, start, path + (from_home ? 1 : 0)) : NULL;
    }
    return whole != NULL ? without_parents(arena, tidy(whole)) : NULL;
}

ft_status ft_user_cache(ft_arena *arena, const char *name, const char **directory) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home_directory = getenv("HOME");
    *directory = NULL;
    if (cache != NULL && *cache == '/') // the XDG rules: a relative path is as none
        *directory = ft_arena_format(arena, "%s/ftengine/%s", cache, name);
    else if (home_directory != NULL && *home_directory != '\0')
        *directory = ft_arena_format(arena, "%s/.cache/ftengine/%s", home_directory, name);
    else
        return FT_OK;
    return *directory != NULL ? FT_OK : FT_NO_MEMORY;
}
