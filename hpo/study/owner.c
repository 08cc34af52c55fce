// owner.c - whose runs a directory holds. Wherever a study is stored, its runs are in studies/NAME: two studies
// of one name in two databases would meet there, and a new trial clears what lies at its place. So the directory tells,
// in the file `owner`, the study and its database; nobody else's is touched.
#include "hpo/study/study.h"

#include "base/files.h"
#include "base/url.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char owner_file[] = "owner", own_database[] = "study.db";

typedef struct owner {
    const char *study;    // NULL: any study of the database
    const char *database; // absolute, or the address of a server; NULL: nobody has said so
    bool remote;
} owner;

// "STUDY\nDATABASE\n". The last line break ends the study's name, whatever a foreign program has put into it.
static ft_status parse_owner(ft_tuning *t, char *text, size_t length, owner *who) {
    if (length > 0 && text[length - 1] == '\n') text[length - 1] = '\0';
    char *line_break = strrchr(text, '\n');
    if (line_break == NULL) return FT_OK;
    *line_break = '\0';
    who->study = ft_arena_strdup(&t->arena, text);
    who->remote = ft_url_is_postgres(line_break + 1);
    who->database = who->remote ? ft_arena_strdup(&t->arena, line_break + 1)
                                : ft_path_absolute(&t->arena, t->directory, line_break + 1);
    return who->study != NULL && who->database != NULL ? FT_OK : FT_NO_MEMORY;
}

// Directories that an older version or `study import` has made hold no owner, but mostly the database.
static ft_status read_owner(ft_tuning *t, owner *who) {
    *who = (owner){0};
    char *path = ft_path_join(&t->arena, t->directory, owner_file);
    char *database = ft_path_join(&t->arena, t->directory, own_database);
    if (path == NULL || database == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path)) {
        if (ft_path_exists(database)) who->database = database;
        return FT_OK;
    }
    char *text;
    size_t length;
    FT_TRY(ft_read_file(path, 1 << 16, &text, &length));
    ft_status status = parse_owner(t, text, length, who);
    free(text);
    return status;
}

// Of a server the same database, whoever opens it.
static bool same_file(const char *a, const char *b) {
    struct stat one, other;
    if (ft_url_is_postgres(a) && ft_url_is_postgres(b)) {
        const char *of_a = strrchr(a, '@'), *of_b = strrchr(b, '@');
        a = of_a != NULL ? of_a + 1 : strstr(a, "://") + 3;
        b = of_b != NULL ? of_b + 1 : strstr(b, "://") + 3;
    }
    if (strcmp(a, b) == 0) return true;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static const char *database_of(ft_tuning *t) {
    return t->place.remote ? t->place.shown : ft_path_absolute(&t->arena, NULL, t->place.path);
}

// Whether the owner still is. A database that cannot be read may have it.
static ft_status is_alive(ft_tuning *t, const owner *who, bool *alive) {
    ft_storage *file = NULL;
    ft_study_info *studies;
    int count = 0;
    *alive = who->database != NULL && (who->remote || ft_path_exists(who->database));
    if (!*alive || who->remote) return FT_OK; // who may open that one is not known here
    const char *url = ft_arena_format(&t->arena, "sqlite:///%s", who->database);
    bool blank = false; // made, but its maker was killed before there was a study in it
    ft_status status = url != NULL ? ft_storage_blank(url, &blank) : FT_NO_MEMORY;
    *alive = !blank;
    if (status == FT_OK && blank) return FT_OK;
    if (status == FT_OK) status = ft_storage_open(url, FT_STORAGE_READ, &file);
    if (status == FT_OK) status = ft_storage_studies(file, &t->arena, &studies, &count);
    if (status == FT_OK) {
        *alive = false;
        for (int i = 0; i < count; i++)
            *alive = *alive || who->study == NULL || strcmp(studies[i].name, who->study) == 0;
    }
    ft_storage_close(file);
    if (status == FT_NO_MEMORY) return status;
    ft_error_clear();
    return FT_OK;
}

static ft_status refuse(const ft_tuning *t, const owner *who, bool one_file) {
    ft_fail(FT_INVALID, t->place.directory, "this directory holds the runs of %s%s in %s",
            who->study != NULL ? "the study " : "another study", who->study != NULL ? who->study : "", who->database);
    if (one_file && !who->remote)
        ft_hint("the directory of a %s has room for the runs of one study: give another --storage", own_database);
    else
        ft_hint("choose another name with --study: every study has its runs in a directory of its name");
    return FT_INVALID;
}

ft_status ft_tuning_check_owner(ft_tuning *t, bool there) {
    owner who;
    FT_TRY(read_owner(t, &who));
    const char *database = database_of(t);
    char *trials = ft_path_join(&t->arena, t->directory, "trials");
    if (database == NULL || trials == NULL) return FT_NO_MEMORY;
    bool alive, one_file = who.database != NULL && same_file(who.database, database);
    if (one_file && (who.study != NULL ? strcmp(who.study, t->place.name) == 0 : there)) return FT_OK;
    FT_TRY(is_alive(t, &who, &alive));
    if (alive) return refuse(t, &who, one_file);
    if (there || !ft_path_exists(trials)) return FT_OK; // the database was moved; or there is nothing to lose
    ft_fail(FT_INVALID, t->place.directory, "this directory holds the runs of a study that is gone");
    ft_hint("remove or rename it, or choose another name with --study");
    return FT_INVALID;
}

// A database in the directory itself goes with it when it is moved or copied.
ft_status ft_tuning_write_owner(ft_tuning *t) {
    char *path = ft_path_join(&t->arena, t->directory, owner_file);
    char *own = ft_path_join(&t->arena, t->directory, own_database);
    const char *database = database_of(t);
    if (path == NULL || own == NULL || database == NULL) return FT_NO_MEMORY;
    char *text =
        ft_arena_format(&t->arena, "%s\n%s\n", t->place.name, same_file(own, database) ? own_database : database);
    return text != NULL ? ft_atomic_write(path, text, strlen(text)) : FT_NO_MEMORY;
}
