// study_move.c - `ftengine study export`, `import` and `delete`.
#include "hpo/commands/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "hpo/exchange/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

// ---- export ---------------------------------------------------------------------------------------------------------

static const char *const formats[] = {"csv", "jsonl", "db"};
enum { CSV, JSONL, DB, FORMATS };

static ft_status choose_format(const study_call *call, int *format) {
    const char *name = call->format;
    if (name == NULL && call->output != NULL && strcmp(call->output, "-") != 0) {
        const char *dot = strrchr(call->output, '.');
        name = dot != NULL && strchr(dot, '/') == NULL ? dot + 1 : "";
        if (strcmp(name, "sqlite") == 0 || strcmp(name, "sqlite3") == 0) name = "db";
    }
    for (*format = 0; *format < FORMATS; ++*format)
        if (name == NULL || strcmp(name, formats[*format]) == 0) return FT_OK; // csv when nothing is said
    if (call->format == NULL) {
        ft_status status = ft_fail(FT_INVALID, call->output, "the name does not tell which format it shall have");
        ft_hint("end it in .csv, .jsonl or .db, or give --format");
        return status;
    }
    return ft_no_such("--format", "format", name, FORMATS, formats);
}

// A database with this study alone, one plain file. Written beside its place and renamed when it is whole.
static ft_status export_database(study_call *call) {
    if (call->output == NULL) return ft_fail(FT_INVALID, "--output", "a database needs a file to be written to");
    if (ft_path_exists(call->output)) {
        ft_status status = ft_fail(FT_INVALID, call->output, "the file exists");
        ft_hint("`ftengine study import` adds a study to a database that exists");
        return status;
    }
    const char *temporary = ft_arena_format(&call->arena, "%s.%d.tmp", call->output, (int)getpid());
    if (temporary == NULL) return FT_NO_MEMORY;
    ft_storage *to;
    ft_status status = ft_storage_open(temporary, FT_STORAGE_CREATE | FT_STORAGE_FULL_SYNC, &to);
    if (status == FT_OK) status = ft_storage_copy_study(to, call->file, call->opened->name, call->opened->name);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_storage_close(to);
    if (status != FT_OK)
        ft_error_restore(&error);
    else
        status = closed;
    if (status == FT_OK && rename(temporary, call->output) != 0)
        status = ft_fail_errno(FT_FAILED, errno, call->output, "cannot write");
    if (status != FT_OK) unlink(temporary);
    return status;
}

static ft_status export_text(study_call *call, int format, FILE *out) {
    return format == CSV ? ft_export_csv(call->opened, out) : ft_export_jsonl(call->opened, out);
}

// What is left of a study, or made of it, in one place.
static ft_status print_moved(const char *study, const char *key, int64_t trials, const char *output) {
    bool failed = false;
    json_t *document = json_pack("{s:i}", "format_version", 1);
    ft_json_put(document, "study", ft_json_text(study), &failed);
    ft_json_put(document, key, json_integer(trials), &failed);
    if (output != NULL) ft_json_put(document, "output", ft_json_text(output), &failed);
    return ft_study_print_json(document, failed);
}

ft_status ft_study_export(study_call *call) {
    int format;
    FT_TRY(choose_format(call, &format));
    if (call->json && format != DB && (call->output == NULL || strcmp(call->output, "-") == 0))
        return ft_fail(FT_INVALID, "--json", "standard output cannot be the trials and the document about them: give --output FILE");
    if (format == DB) {
        FT_TRY(export_database(call));
    } else if (call->output == NULL || strcmp(call->output, "-") == 0) {
        FT_TRY(export_text(call, format, stdout));
        return fflush(stdout) == 0 && ferror(stdout) == 0 ? FT_OK
                                                          : ft_fail(FT_FAILED, "standard output", "cannot write");
    } else {
        ft_atomic_file file;
        FT_TRY(ft_atomic_open(&file, call->output));
        ft_status status = export_text(call, format, file.stream);
        if (status != FT_OK) {
            ft_atomic_abort(&file);
            return status;
        }
        FT_TRY(ft_atomic_commit(&file));
    }
    ft_info("%" PRId64 " trials of study '%s' in %s", call->opened->trials.count, call->opened->name, call->output);
    return call->json ? print_moved(call->opened->name, "trials", call->opened->trials.count, call->output) : FT_OK;
}

// ---- import ---------------------------------------------------------------------------------------------------------

static ft_status is_database(const char *path, bool *database) {
    static const char magic[] = "SQLite format 3";
    char begin[sizeof magic] = "";
    *database = false;
    if (strcmp(path, "-") == 0) return FT_OK;
    int descriptor;
    FT_TRY(ft_open_input(path, &descriptor));
    ssize_t got = read(descriptor, begin, sizeof begin);
    close(descriptor);
    *database = got == (ssize_t)sizeof begin && memcmp(begin, magic, sizeof magic) == 0;
    return FT_OK;
}

// The name that the study has in the export: the first line of JSON lines says it.
static ft_status name_in_lines(study_call *call, const char *path, const char **name) {
    ft_lines lines;
    json_t *line = NULL;
    ft_status status = ft_lines_open(path, &lines);
    if (status == FT_OK) status = ft_lines_next(&lines, &line);
    ft_lines_close(&lines);
    if (status == FT_OK) {
        const char *text = json_string_value(json_object_get(line, "study"));
        *name = text != NULL ? ft_arena_strdup(&call->arena, text) : "study";
        json_decref(line);
    }
    return status == FT_OK && *name == NULL ? FT_NO_MEMORY : status;
}

// Takes the study of `file` (JSON lines, or an open database) into the database at call->place, under place.name.
static ft_status take_in(study_call *call, const char *path, ft_storage *source, const char *source_name) {
    FT_TRY(ft_storage_open(call->place.url, FT_STORAGE_CREATE, &call->file));
    if (source == NULL) return ft_import_jsonl(path, call->file, call->place.name, &call->opened);
    FT_TRY(ft_storage_copy_study(call->file, source, source_name, call->place.name));
    return ft_stored_open(call->file, call->place.name, &call->opened);
}

// A failed import leaves no new database and no new directory behind.
static ft_status import_into(study_call *call, const char *path, ft_storage *source, const char *source_name,
                             const char *name) {
    FT_TRY(ft_study_locate(name, call->storage, &call->arena, &call->place));
    bool was_there = call->place.remote || ft_path_exists(call->place.path),
         had_directory = ft_path_exists(call->place.directory);
    if (call->storage == NULL) FT_TRY(ft_make_directories(call->place.directory));
    ft_status status = take_in(call, path, source, source_name);
    if (status == FT_OK || was_there) return status;
    ft_error error;
    ft_error_save(&error);
    ft_stored_close(call->opened);
    ft_storage_close(call->file);
    call->opened = NULL;
    call->file = NULL;
    unlink(call->place.path);
    if (call->storage == NULL && !had_directory) rmdir(call->place.directory);
    ft_error_restore(&error);
    return status;
}

static ft_status import_database(study_call *call, const char *path) {
    ft_storage *source;
    ft_stored *study;
    FT_TRY(ft_storage_open(path, FT_STORAGE_READ, &source));
    ft_status status = ft_stored_open(source, call->from, &study); // reads all of it: a broken one is not copied
    if (status == FT_INVALID && call->from == NULL) ft_hint("--from NAME chooses one");
    if (status == FT_OK) {
        const char *name = ft_arena_strdup(&call->arena, study->name);
        ft_stored_close(study);
        status = name == NULL ? FT_NO_MEMORY
                              : import_into(call, path, source, name, call->study != NULL ? call->study : name);
    }
    ft_error error;
    ft_error_save(&error);
    ft_storage_close(source); // nothing was written
    if (status != FT_OK) ft_error_restore(&error);
    return status;
}

static ft_status import_lines(study_call *call, const char *path) {
    const char *name = call->study;
    if (call->from != NULL) return ft_fail(FT_INVALID, "--from", "JSON lines hold one study only");
    if (name == NULL && strcmp(path, "-") == 0)
        return ft_fail(FT_INVALID, "--study", "a study read from standard input must be given a name");
    ft_status status = name == NULL ? name_in_lines(call, path, &name) : FT_OK;
    if (status == FT_OK) status = import_into(call, path, NULL, NULL, name);
    size_t length = strlen(path);
    if (status == FT_INVALID && length > 4 && strcmp(path + length - 4, ".csv") == 0)
        ft_hint("CSV does not tell the ranges of parameters; export with --format jsonl");
    return status;
}

ft_status ft_study_import(study_call *call) {
    if (call->words.plain_count != 1) return ft_fail(FT_INVALID, "study", "import takes one file");
    const char *path = call->words.plain[0];
    bool database;
    FT_TRY(is_database(path, &database));
    FT_TRY(database ? import_database(call, path) : import_lines(call, path));
    const ft_trials *trials = &call->opened->trials;
    int64_t running = 0;
    for (int64_t i = 0; i < trials->count; i++)
        running += trials->trial[i].state == FT_RUNNING;
    if (running > 0) ft_warn("%" PRId64 " trials of it were RUNNING when it was exported, and stay so", running);
    if (call->json) {
        bool failed = false;
        json_t *document = json_object();
        ft_json_put(document, "format_version", json_integer(1), &failed);
        ft_json_put(document, "study", ft_json_text(call->opened->name), &failed);
        ft_json_put(document, "storage", ft_json_text(call->place.shown), &failed);
        ft_json_put(document, "trials", json_integer(trials->count), &failed);
        return ft_study_print_json(document, failed);
    }
    printf("study '%s': %" PRId64 " trials, in %s\n", call->opened->name, trials->count, call->place.path);
    return FT_OK;
}

// ---- delete ---------------------------------------------------------------------------------------------------------

// Is another process at work on it? `ftengine tune` claims the study, and from before it opens the database until then it
// locks the study's directory; Optuna's workers may say in the file, every few seconds, that they are alive. *lock: the
// directory, open and locked, so that nobody begins there before its files have gone; -1: it is not there. To be closed.
static ft_status check_idle(study_call *call, int *lock) {
    enum { ALIVE = 60 };
    const ft_claim study = ft_claim_of_study(call->opened->name);
    *lock = open(call->place.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = *lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!locked) {
        bool ours;
        FT_TRY(ft_storage_claim(call->file, &study, FT_CLAIM_ALONE, &ours));
        locked = !ours;
    }
    if (locked) return ft_fail(FT_FAILED, call->opened->name, "`ftengine tune` is at work on this study");
    const ft_trials *trials = &call->opened->trials;
    for (int64_t i = 0; i < trials->count; i++) {
        double age;
        if (trials->trial[i].state != FT_RUNNING) continue;
        FT_TRY(ft_stored_heartbeat_age(call->opened, i, &age));
        if (age >= 0 && age < ALIVE)
            return ft_fail(FT_FAILED, call->opened->name, "trial %" PRId64 " is being run, %.0f s ago it was alive", i,
                           age);
    }
    return FT_OK;
}

// What a study has made in its directory; anything else stays, and the directory with it.
static ft_status remove_files(study_call *call) {
    static const char *const made[] = {"study.db",   "study.db-wal", "study.db-shm", "owner",
                                       "config.ini", "best.ini",     "report.html",  "front",        "trials"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        const char *path = ft_path_join(&call->arena, call->place.directory, made[i]);
        if (path == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_remove_tree(path));
    }
    if (rmdir(call->place.directory) != 0 && errno == ENOTEMPTY)
        ft_info("%s keeps files that the study did not make", call->place.directory);
    return FT_OK;
}

static ft_status delete_it(study_call *call, const char *name, int64_t count, bool directory) {
    FT_TRY(ft_storage_delete_study(call->file, name));
    if (!call->json) printf("study '%s' is deleted, %" PRId64 " trials\n", name, count);
    ft_status status = FT_OK;
    if (directory) {
        status = ft_storage_close(call->file);
        call->file = NULL;
        if (status == FT_OK) status = remove_files(call);
    }
    return status == FT_OK && call->json ? print_moved(name, "deleted_trials", count, NULL) : status;
}

ft_status ft_study_delete(study_call *call) {
    const char *name = call->opened->name;
    int64_t count = call->opened->trials.count;
    // The directory goes when it is the study's own: named as such, with the study's database in it and no other study.
    ft_study_info *studies;
    int study_count;
    FT_TRY(ft_storage_studies(call->file, &call->arena, &studies, &study_count));
    bool directory = call->storage == NULL && study_count == 1;
    if (call->study == NULL) return ft_fail(FT_INVALID, "study", "delete wants the name of the study");
    if (!call->yes) {
        ft_status status = ft_fail(FT_INVALID, name, "this would delete the study with its %" PRId64 " trials%s%s",
                                   count, directory ? " and the runs in " : "", directory ? call->place.directory : "");
        ft_hint("add --yes to do it; `ftengine study export` keeps a copy");
        return status;
    }
    int lock;
    ft_status status = check_idle(call, &lock);
    if (status == FT_OK) status = delete_it(call, name, count, directory);
    if (lock >= 0) close(lock);
    return status;
}
