// sql.c - statements, their parameters and columns, and SQLite's errors in our words.
#include "hpo/storage/internal.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const texts[] = {
#define X(name, text) [FT_SQL_##name] = text,
    FT_STATEMENTS(X)
#undef X
};

// Not only what SQLite says so of: making room in its shared memory fails as any other input and output.
static bool disk_is_full(ft_storage *storage, int code) {
    const int cause = code == SQLITE_IOERR || code == SQLITE_CANTOPEN ? sqlite3_system_errno(storage->db) : 0;
    return code == SQLITE_FULL || cause == ENOSPC || cause == EDQUOT;
}

ft_status ft_sql_error(ft_storage *storage) {
    int code = sqlite3_errcode(storage->db) & 0xFF;
    const char *message = sqlite3_errmsg(storage->db);
    ft_status status;
    if (disk_is_full(storage, code))
        return ft_fail_errno(FT_FAILED, ENOSPC, storage->path, "the study database cannot be written");
    switch (code) {
    case SQLITE_NOMEM: return ft_fail_memory(0, "SQLite");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        status = ft_fail(FT_INVALID, storage->path, "not a study database, or a damaged one: %s", message);
        if (code == SQLITE_CORRUPT) ft_hint("sqlite3 %s .recover may save what is left", storage->path);
        return status;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        status = ft_fail(FT_FAILED, storage->path, "another process has kept the database locked for too long");
        ft_hint("is a copy or a backup of it running?");
        ft_error_is_locked();
        return status;
    case SQLITE_ERROR: // no such table or column: these come from the file, since our SQL is fixed
        status = ft_fail(FT_INVALID, storage->path, "not a database of studies: %s", message);
        return status;
    default: return ft_fail(FT_FAILED, storage->path, "the study database cannot be used: %s", message);
    }
}

static ft_status prepare(ft_storage *storage, ft_sql id) {
    if (storage->statements[id] != NULL) return FT_OK;
    int code =
        sqlite3_prepare_v3(storage->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT, &storage->statements[id], NULL);
    return code == SQLITE_OK ? FT_OK : ft_sql_error(storage);
}

static ft_status bind(ft_storage *storage, ft_sql id, const char *types, va_list arguments) {
    FT_TRY(prepare(storage, id));
    sqlite3_stmt *s = storage->statements[id];
    for (int i = 0; types[i] != '\0'; i++) {
        int code;
        double number;
        switch (types[i]) {
        case 'i': code = sqlite3_bind_int64(s, i + 1, va_arg(arguments, int64_t)); break;
        case 'd':
            number = va_arg(arguments, double);
            code = isfinite(number) ? sqlite3_bind_double(s, i + 1, number) : sqlite3_bind_null(s, i + 1);
            break;
        // The text outlives the statement's run, and every parameter is set again before the next one.
        case 't': code = sqlite3_bind_text(s, i + 1, va_arg(arguments, const char *), -1, SQLITE_STATIC); break;
        default: code = sqlite3_bind_null(s, i + 1); break;
        }
        if (code != SQLITE_OK) return ft_sql_error(storage);
    }
    return FT_OK;
}

ft_status ft_sql_bind(ft_storage *storage, ft_sql id, const char *types, ...) {
    va_list arguments;
    va_start(arguments, types);
    ft_status status = bind(storage, id, types, arguments);
    va_end(arguments);
    return status;
}

ft_status ft_sql_step(ft_storage *storage, ft_sql id, bool *row) {
    int code = sqlite3_step(storage->statements[id]);
    *row = code == SQLITE_ROW;
    if (*row) return FT_OK;
    ft_status status = code == SQLITE_DONE ? FT_OK : ft_sql_error(storage);
    sqlite3_reset(storage->statements[id]);
    return status;
}

void ft_sql_reset(ft_storage *storage, ft_sql id) {
    if (storage->statements[id] != NULL) sqlite3_reset(storage->statements[id]);
}

ft_status ft_sql_run(ft_storage *storage, ft_sql id, int *changed, const char *types, ...) {
    // A transaction, or a change that is one of its own, is looked at on both sides.
    const bool alone = storage->depth == 0 && id > FT_SQL_LAST_READ;
    va_list arguments;
    if (alone || id == FT_SQL_BEGIN) FT_TRY(ft_sql_check_place(storage));
    va_start(arguments, types);
    ft_status status = bind(storage, id, types, arguments);
    va_end(arguments);
    FT_TRY(status);
    bool row;
    FT_TRY(ft_sql_step(storage, id, &row));
    ft_sql_reset(storage, id);
    if (changed != NULL) *changed = sqlite3_changes(storage->db);
    return alone || id == FT_SQL_COMMIT ? ft_sql_check_place(storage) : FT_OK;
}

ft_status ft_sql_script(ft_storage *storage, const char *sql) {
    return sqlite3_exec(storage->db, sql, NULL, NULL, NULL) == SQLITE_OK ? FT_OK : ft_sql_error(storage);
}

// ---- columns --------------------------------------------------------------------------------------------------------

const char *ft_sql_text(ft_storage *storage, ft_sql id, int column) {
    sqlite3_stmt *s = storage->statements[id];
    if (sqlite3_column_type(s, column) != SQLITE_TEXT) return NULL;
    const char *text = (const char *)sqlite3_column_text(s, column);
    size_t length = (size_t)sqlite3_column_bytes(s, column);
    // JSON and messages could not hold it; SQLite keeps whatever bytes it was given.
    return text != NULL && strlen(text) == length && ft_utf8_valid_prefix(text, length) == length ? text : NULL;
}

bool ft_sql_int(ft_storage *storage, ft_sql id, int column, int64_t *out) {
    *out = sqlite3_column_int64(storage->statements[id], column);
    return sqlite3_column_type(storage->statements[id], column) == SQLITE_INTEGER;
}

bool ft_sql_double(ft_storage *storage, ft_sql id, int column, double *out) {
    int type = sqlite3_column_type(storage->statements[id], column);
    *out = sqlite3_column_double(storage->statements[id], column);
    return type == SQLITE_FLOAT || type == SQLITE_INTEGER;
}

bool ft_sql_typed(ft_storage *storage, ft_sql id, int column, double *out) {
    static const struct {
        const char *name;
        double value;
    } types[] = {{"INF_POS", INFINITY}, {"INF_NEG", -INFINITY}, {"NAN", NAN}};
    const char *type = ft_sql_text(storage, id, column + 1);
    if (type == NULL) return false;
    if (strcmp(type, "FINITE") == 0) return ft_sql_double(storage, id, column, out) && isfinite(*out);
    for (int i = 0; i < 3; i++)
        if (strcmp(type, types[i].name) == 0) {
            *out = types[i].value;
            return true;
        }
    return false;
}

const char *ft_sql_type_name(double value) {
    return isnan(value) ? "NAN" : isfinite(value) ? "FINITE" : value > 0 ? "INF_POS" : "INF_NEG";
}

// ---- words ----------------------------------------------------------------------------------------------------------

void ft_sql_now(char text[32]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text + n, 32 - n, ".%06ld", now.tv_nsec / 1000);
}

int64_t ft_sql_time(const char *text) {
    struct tm parts = {0};
    int used = 0;
    if (text == NULL) return -1;
    int fields = sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                        &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used);
    if (fields != 6) return -1;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    int64_t micro = 0, unit = 100000;
    if (text[used] == '.')
        for (const char *c = text + used + 1; *c >= '0' && *c <= '9'; c++, unit /= 10)
            micro += unit * (*c - '0');
    return (int64_t)timegm(&parts) * 1000000 + micro;
}

ft_status ft_state_of(const char *name, ft_trial_state *state) {
    for (int i = FT_RUNNING; name != NULL && i <= FT_WAITING; i++)
        if (strcmp(name, ft_trial_state_name((ft_trial_state)i)) == 0) {
            *state = (ft_trial_state)i;
            return FT_OK;
        }
    return ft_fail(FT_INVALID, NULL, "a trial has an unknown state");
}
