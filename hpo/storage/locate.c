#include "hpo/storage/locate.h"

#include "base/files.h"
#include "base/nearest.h"
#include "base/url.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char STUDIES[] = "studies", FILE_NAME[] = "study.db", PREFIX[] = "sqlite:///";
static const char HOW[] =
    "sqlite:///FILE, with four slashes for an absolute path, postgresql://USER@HOST/DATABASE, or journal:FILE";

// ---- names ----------------------------------------------------------------------------------------------------------

ft_status ft_no_such(const char *where, const char *what, const char *word, int count, const char *const *names) {
    ft_fail(FT_INVALID, where, "there is no %s '%.200s'", what, word);
    const char *nearest = ft_nearest(word, count, names);
    if (nearest != NULL) {
        ft_hint("did you mean '%s'?", nearest);
        return FT_INVALID;
    }
    char list[480];
    size_t used = 0;
    int shown = 0;
    for (; shown < count && shown < 8 && used + 80 < sizeof list; shown++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", shown > 0 ? ", " : "", names[shown]);
    if (count > shown) snprintf(list + used, sizeof list - used, " and %d more", count - shown);
    if (count > 0) ft_hint("there is: %s", list);
    return FT_INVALID;
}

// A study's name is also its directory's, and stands in messages.
static ft_status check_name(const char *name) {
    size_t length = strlen(name);
    bool fine = length > 0 && length <= 200 && ft_utf8_valid_prefix(name, length) == length && strcmp(name, ".") != 0 &&
                strcmp(name, "..") != 0;
    for (const char *c = name; *c != '\0'; c++)
        fine = fine && (unsigned char)*c >= 0x20 && *c != 0x7F && *c != '/';
    if (fine) return FT_OK;
    ft_status status = ft_fail(FT_INVALID, "--study", "'%.60s' cannot be the name of a study", name);
    ft_hint("1 to 200 bytes of UTF-8 without '/' and control characters; it is a directory in %s/", STUDIES);
    return status;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static ft_status read_names(DIR *directory, ft_arena *arena, const char ***names, int *count) {
    int capacity = 0;
    struct dirent *entry;
    for (errno = 0; (entry = readdir(directory)) != NULL; errno = 0) {
        if (entry->d_name[0] == '.') continue;
        const char *path = ft_arena_format(arena, "%s/%s/%s", STUDIES, entry->d_name, FILE_NAME);
        if (path == NULL) return FT_NO_MEMORY;
        if (!ft_path_exists(path)) continue;
        if (*count == capacity) {
            capacity = 2 * capacity + 16;
            const char **grown = ft_arena_alloc(arena, (size_t)capacity * sizeof *grown);
            if (grown == NULL) return FT_NO_MEMORY;
            if (*count > 0) memcpy(grown, *names, (size_t)*count * sizeof *grown);
            *names = grown;
        }
        (*names)[*count] = ft_arena_strdup(arena, entry->d_name);
        if ((*names)[*count] == NULL) return FT_NO_MEMORY;
        ++*count;
    }
    return errno == 0 ? FT_OK : ft_fail_errno(FT_FAILED, errno, STUDIES, "cannot read the directory");
}

ft_status ft_study_names(ft_arena *arena, const char ***names, int *count) {
    *names = NULL;
    *count = 0;
    DIR *directory = opendir(STUDIES);
    if (directory == NULL) {
        if (errno == ENOENT || errno == ENOTDIR) return FT_OK;
        return ft_fail_errno(FT_FAILED, errno, STUDIES, "cannot read the directory");
    }
    ft_status status = read_names(directory, arena, names, count);
    closedir(directory);
    if (status == FT_OK && *count > 1) qsort(*names, (size_t)*count, sizeof **names, by_text);
    return status;
}

// ---- places ---------------------------------------------------------------------------------------------------------

static ft_status path_of(const char *storage, const char **path) {
    size_t scheme;
    const ft_url_kind kind = ft_url_kind_of(storage, &scheme);
    *path = storage + scheme;
    bool memory = strcmp(*path, ":memory:") == 0;
    const bool file = kind == FT_URL_FILE || kind == FT_URL_JOURNAL;
    if (file && **path != '\0' && !memory) return FT_OK;
    ft_status status = ft_fail(FT_INVALID, "--storage",
                               file ? "'%.*s' names no file: a study needs one to live in"
                                    : "'%.*s...': studies are kept in SQLite files, in PostgreSQL and in journals",
                               file ? 200 : (int)scheme, storage); // of another database it may hold a password
    ft_hint("%s", HOW);
    return status;
}

// The directory of a database that has one for itself: the part before "/study.db". NULL: of any other file.
static char *own_directory(ft_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || strcmp(slash + 1, FILE_NAME) != 0) return NULL;
    return ft_arena_strndup(arena, path, (size_t)(slash - path));
}

static bool is_journal(const char *storage) {
    size_t scheme;
    return ft_url_kind_of(storage, &scheme) == FT_URL_JOURNAL;
}

static ft_status set_path(ft_arena *arena, const char *path, const char *scheme, ft_study_place *place) {
    place->path = path;
    place->shown = place->url = path != NULL ? ft_arena_format(arena, "%s%s", scheme, path) : NULL;
    place->scheme = scheme;
    return place->url != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status set_address(ft_arena *arena, const char *storage, ft_study_place *place) {
    place->remote = true;
    place->url = ft_arena_strdup(arena, storage);
    place->path = place->shown = ft_url_shown(arena, storage);
    return place->url != NULL && place->shown != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status locate_in(const char *study, const char *storage, ft_arena *arena, ft_study_place *place) {
    const char *path = "";
    if (ft_url_is_postgres(storage)) {
        FT_TRY(set_address(arena, storage, place));
    } else {
        FT_TRY(path_of(storage, &path));
        const bool journal = is_journal(storage);
        FT_TRY(set_path(arena, ft_arena_strdup(arena, path), journal ? "journal:" : PREFIX, place));
        if (!journal) place->directory = own_directory(arena, path);
    }
    if (study != NULL) FT_TRY(check_name(study));
    place->name = study != NULL ? ft_arena_strdup(arena, study) : NULL;
    if (study == NULL) return FT_OK;
    if (place->directory == NULL) place->directory = ft_arena_format(arena, "%s/%s", STUDIES, study);
    return place->name != NULL && place->directory != NULL ? FT_OK : FT_NO_MEMORY;
}

// "baseline", or a directory with a slash in it.
static ft_status locate_named(const char *study, ft_arena *arena, ft_study_place *place) {
    size_t length = strlen(study);
    while (length > 1 && study[length - 1] == '/')
        length--;
    char *given = ft_arena_strndup(arena, study, length);
    if (given == NULL) return FT_NO_MEMORY;
    const char *slash = strrchr(given, '/');
    place->name = slash != NULL ? slash + 1 : given;
    FT_TRY(check_name(place->name));
    place->directory = slash != NULL ? given : ft_arena_format(arena, "%s/%s", STUDIES, given);
    if (place->directory == NULL) return FT_NO_MEMORY;
    return set_path(arena, ft_arena_format(arena, "%s/%s", place->directory, FILE_NAME), PREFIX, place);
}

ft_status ft_study_locate(const char *study, const char *storage, ft_arena *arena, ft_study_place *place) {
    *place = (ft_study_place){0};
    if (storage != NULL) return locate_in(study, storage, arena, place);
    if (study != NULL) return locate_named(study, arena, place);
    ft_status status = ft_fail(FT_INVALID, "--study", "which study?");
    ft_hint("give --study NAME, or --storage URL: %s", HOW);
    return status;
}

// ---- studies that exist ---------------------------------------------------------------------------------------------

static ft_status the_only_one(ft_arena *arena, const char **study) {
    const char **names;
    int count;
    FT_TRY(ft_study_names(arena, &names, &count));
    if (count == 1) {
        *study = names[0];
        return FT_OK;
    }
    if (count == 0) {
        ft_status status = ft_fail(FT_INVALID, STUDIES, "there is no study here");
        ft_hint("`ftengine tune` makes one; --storage sqlite:///FILE names one elsewhere");
        return status;
    }
    ft_status status = ft_fail(FT_INVALID, STUDIES, "there are %d studies here: name one", count);
    ft_hint("%s%s%s%s%s", names[0], ", ", names[1], count > 2 ? ", " : "", count > 2 ? names[2] : "");
    ft_hint("`ftengine study list` shows them all");
    return status;
}

// The directory of a study that is kept elsewhere says where, in its last line (hpo/study/owner.c).
static const char *kept_elsewhere(ft_arena *arena, const ft_study_place *place) {
    char *text, *path = ft_path_join(arena, place->directory, "owner"), *found = NULL;
    size_t length;
    if (path == NULL || !ft_path_exists(path) || ft_read_file(path, 1 << 16, &text, &length) != FT_OK) return NULL;
    if (length > 0 && text[length - 1] == '\n') text[length - 1] = '\0';
    const char *line_break = strrchr(text, '\n');
    if (line_break != NULL && strcmp(line_break + 1, FILE_NAME) != 0) found = ft_arena_strdup(arena, line_break + 1);
    free(text);
    return found;
}

// Nobody has made the file that a name stands for.
static ft_status no_file(const char *study, ft_arena *arena, const ft_study_place *place) {
    const char **names;
    int count;
    if (study == NULL || strchr(study, '/') != NULL) {
        ft_status status = ft_fail(FT_INVALID, place->path, "there is no such study file");
        ft_hint("`ftengine study list` shows the studies of %s/", STUDIES);
        return status;
    }
    FT_TRY(ft_study_names(arena, &names, &count));
    const char *elsewhere = kept_elsewhere(arena, place);
    ft_status status = ft_no_such(STUDIES, "study", study, count, names);
    if (elsewhere != NULL) ft_hint("%s has the runs of one that is kept in %.300s: --storage names it", place->directory, elsewhere);
    else if (count == 0) ft_hint("there are none; --storage sqlite:///FILE names a file elsewhere");
    return status;
}

static ft_status check_there(const ft_study_info *studies, int count, ft_arena *arena, const ft_study_place *place) {
    const char **names = ft_arena_alloc(arena, (size_t)(count + 1) * sizeof *names);
    if (names == NULL) return FT_NO_MEMORY;
    bool there = false;
    for (int i = 0; i < count; i++) {
        names[i] = studies[i].name;
        there = there || strcmp(names[i], place->name) == 0;
    }
    return there ? FT_OK : ft_no_such(place->path, "study", place->name, count, names);
}

// A study.db in a directory of its own holds one study, which may have had another name before the directory was moved.
static ft_status study_in(ft_storage *file, bool by_directory, ft_arena *arena, ft_study_place *place,
                          ft_stored **opened) {
    ft_study_info *studies;
    int count;
    FT_TRY(ft_storage_study_names(file, arena, &studies, &count));
    if (by_directory && count == 1) place->name = NULL;
    if (place->name != NULL) FT_TRY(check_there(studies, count, arena, place));
    FT_TRY(ft_stored_open(file, place->name, opened));
    place->name = ft_arena_strdup(arena, (*opened)->name);
    if (place->directory == NULL) place->directory = ft_arena_format(arena, "%s/%s", STUDIES, (*opened)->name);
    if (place->name != NULL && place->directory != NULL) return FT_OK;
    ft_stored_close(*opened);
    *opened = NULL;
    return FT_NO_MEMORY;
}

ft_status ft_study_open(const char *study, const char *storage, int flags, ft_arena *arena, ft_study_place *place,
                        ft_storage **file, ft_stored **opened) {
    *file = NULL;
    *opened = NULL;
    if (study == NULL && storage == NULL) FT_TRY(the_only_one(arena, &study));
    FT_TRY(ft_study_locate(study, storage, arena, place));
    if (!place->remote && !ft_path_exists(place->path)) return no_file(storage == NULL ? study : NULL, arena, place);
    FT_TRY(ft_storage_open(place->url, flags, file));
    ft_status status = study_in(*file, storage == NULL, arena, place, opened);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error); // closing must not hide it
    ft_storage_close(*file);
    ft_error_restore(&error);
    *file = NULL;
    return status;
}
