// sqlite.c - statements in SQLite: their parameters and columns, transactions, and its errors in our words.
#include "hpo/storage/internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

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

static ft_status step(ft_storage *storage, ft_sql id, bool *row) {
    int code = sqlite3_step(storage->statements[id]);
    *row = code == SQLITE_ROW;
    if (*row) return FT_OK;
    ft_status status = code == SQLITE_DONE ? FT_OK : ft_sql_error(storage);
    sqlite3_reset(storage->statements[id]);
    return status;
}

static void reset(ft_storage *storage, ft_sql id) {
    if (storage->statements[id] != NULL) sqlite3_reset(storage->statements[id]);
}

static ft_status run(ft_storage *storage, ft_sql id, int *changed, const char *types, va_list arguments) {
    // A transaction, or a change that is one of its own, is looked at on both sides.
    const bool alone = storage->depth == 0 && id > FT_SQL_LAST_READ;
    if (alone || id == FT_SQL_BEGIN) FT_TRY(ft_sql_check_place(storage));
    FT_TRY(bind(storage, id, types, arguments));
    bool row;
    FT_TRY(step(storage, id, &row));
    reset(storage, id);
    if (changed != NULL) *changed = sqlite3_changes(storage->db);
    return alone || id == FT_SQL_COMMIT ? ft_sql_check_place(storage) : FT_OK;
}

static int64_t last_id(ft_storage *storage) { return sqlite3_last_insert_rowid(storage->db); }

ft_status ft_sql_script(ft_storage *storage, const char *sql) {
    return sqlite3_exec(storage->db, sql, NULL, NULL, NULL) == SQLITE_OK ? FT_OK : ft_sql_error(storage);
}

// ---- columns --------------------------------------------------------------------------------------------------------

static const char *text(ft_storage *storage, ft_sql id, int column, size_t *length) {
    sqlite3_stmt *s = storage->statements[id];
    if (sqlite3_column_type(s, column) != SQLITE_TEXT) return NULL;
    const char *text = (const char *)sqlite3_column_text(s, column);
    *length = (size_t)sqlite3_column_bytes(s, column);
    return text;
}

static bool integer(ft_storage *storage, ft_sql id, int column, int64_t *out) {
    *out = sqlite3_column_int64(storage->statements[id], column);
    return sqlite3_column_type(storage->statements[id], column) == SQLITE_INTEGER;
}

static bool number(ft_storage *storage, ft_sql id, int column, double *out) {
    int type = sqlite3_column_type(storage->statements[id], column);
    *out = sqlite3_column_double(storage->statements[id], column);
    return type == SQLITE_FLOAT || type == SQLITE_INTEGER;
}

// ---- transactions ---------------------------------------------------------------------------------------------------

static ft_status begin(ft_storage *storage) { return ft_sql_run(storage, FT_SQL_BEGIN, NULL, ""); }

static ft_status commit(ft_storage *storage) { return ft_sql_run(storage, FT_SQL_COMMIT, NULL, ""); }

// SQLite has rolled back by itself after some errors; then there is nothing left to do. For want of memory it may fail once: the transaction
// would stay open, and the next one be refused.
static void rollback(ft_storage *storage) {
    for (int i = 0; i < 2 && !sqlite3_get_autocommit(storage->db); i++) sqlite3_exec(storage->db, "ROLLBACK", NULL, NULL, NULL);
}

static ft_status look(ft_stored *study, bool *news) {
    ft_storage *storage = study->storage;
    bool row;
    storage->version = 0;
    FT_TRY(ft_sql_bind(storage, FT_SQL_DATA_VERSION, ""));
    FT_TRY(step(storage, FT_SQL_DATA_VERSION, &row));
    if (row) integer(storage, FT_SQL_DATA_VERSION, 0, &storage->version); // counts the commits of others
    reset(storage, FT_SQL_DATA_VERSION);
    *news = storage->version != study->data_version;
    // One transaction, so that all tables are read at one moment.
    return *news && storage->depth == 0 ? ft_sql_run(storage, FT_SQL_BEGIN_READ, NULL, "") : FT_OK;
}

static void looked(ft_stored *study, bool whole) {
    if (study->storage->depth == 0) rollback(study->storage); // nothing was written
    if (whole) study->data_version = study->storage->version;
}

static ft_status delete_study(ft_storage *storage, int64_t id) { return ft_study_delete_rows(storage, id, ft_sql_script); }

const ft_database ft_sqlite = {.bind = bind,
                               .step = step,
                               .reset = reset,
                               .run = run,
                               .last_id = last_id,
                               .text = text,
                               .integer = integer,
                               .number = number,
                               .begin = begin,
                               .commit = commit,
                               .rollback = rollback,
                               .look = look,
                               .looked = looked,
                               .claim = ft_sqlite_claim,
                               .claimed = ft_sqlite_claimed,
                               .delete_study = delete_study,
                               .full_sync = ft_sqlite_full_sync,
                               .blank = ft_sqlite_blank,
                               .open = ft_sqlite_open,
                               .close = ft_sqlite_close};
